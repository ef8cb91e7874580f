"""Answers on demand: evaluate again, and try all causes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any, overload

from torch import nn

from reid_torchmetrics import _hints, tasks
from reid_torchmetrics._signatures import with_hints
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.world import results_made

from .answers import Answer, Diagnosis, Evaluations, Kind, collecting
from .causes import held
from .detection import MatchedImages
from .expected import Expected, Explanation, search_of

_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    retrieval.evaluate,
    retrieval.evaluate_scores,
    tasks.evaluate_lists,
    tasks.evaluate_stream,
    tasks.index_recall,
    tasks.verify_pairs,
    tasks.accuracy_over_folds,
    detection.evaluate_images,
    detection.evaluate_boxes,
)
"""functions with `samples` as arguments; the first one that takes them is called"""


@overload
def diagnose(results: Any, samples: Mapping[str, Any] | None = None) -> Diagnosis: ...


@overload
def diagnose(
    results: Any, samples: Mapping[str, Any] | None = None, *, expected: float | str, measure: str | None = None
) -> Explanation: ...


@with_hints
def diagnose(
    results: Any,
    samples: Mapping[str, Any] | None = None,
    *,
    expected: float | str | None = None,
    measure: str | None = None,
) -> Diagnosis | Explanation:
    """Look for all likely mistakes that may explain a number, or for the convention that gives an expected number.

    All trials run, even those that no number calls for. Nothing changes, and nothing is warned of.

    With `expected`, a number of another evaluator, the conventions of known evaluators are tried, then each convention
    changed alone, then pairs of them: on the ranks or matches that are there, and, where a convention needs others such
    as those of another camera rule, on samples that are ranked again. Measures are tried in place of each other, too.

    Args:
        results: a metric, a collection or a `COCOeval`, which is computed again, on all processes if several share it;
            or results of a function or a metric.
        samples: the arguments of the function that computed the results, by name: `{"query": ..., "gallery": ...}`,
            `{"preds": ..., "target": ...}`, with its options; the protocol is that of the results. Without them results
            answer what follows from their ranks or matches, and results of `evaluate` and `evaluate_scores` nearly
            everything.
        expected: a number that another evaluator gave, as a share or in percent; above 1 it is in percent. Its digits
            give the tolerance: 56.3 stands for 56.25 to 56.35, and the text "0.5630" for 0.56295 to 0.56305. At most
            six decimals of a share are compared.
        measure: our name of the expected number, such as "map"; None to look among all numbers.

    Returns:
        A list with an answer for each cause: its name, the sentence about it if it was found, and otherwise what would
        have to be known if it could not be looked at. It prints as a table. With `expected`, an `Explanation`, which
        prints the conventions that give the number, or the nearest ones.

    Raises:
        TypeError: `results` are something else, no function has such `samples` as arguments, or `expected` is neither
            a float nor a text.
        ValueError: `expected` is no number of at least 0, or `measure` without it or with an unknown name.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import diagnose, evaluate_scores
        >>> distances = torch.cdist(torch.eye(20), torch.eye(20))
        >>> results = evaluate_scores(None, torch.arange(20), torch.arange(20), distances=distances)
        >>> diagnose(results).found
        []
        >>> explanation = diagnose(results, expected=1.0, measure="map")
        >>> [convention.call for convention in explanation.conventions][0]
        "evaluate_scores(...)['map']"
    """
    if expected is None:
        if measure is not None:
            raise ValueError(f"`measure` must come with `expected`; got {measure!r} alone.")
        return _evaluate_again(results, samples, Diagnosis())
    Expected.of(expected)
    return search_of(_evaluate_again(results, samples, Evaluations()), measure).explain(expected)


def _evaluate_again(results: Any, samples: Mapping[str, Any] | None, diagnosis: Kind) -> Kind:
    """Collect the answers about results, or their evaluations."""
    with collecting(diagnosis):
        if samples is not None:
            if isinstance(results, retrieval.RetrievalResults):
                samples = {"protocol": results.protocol, **samples}
            _function_of(samples)(**samples)
        elif isinstance(results, nn.Module) and callable(getattr(results, "compute", None)):
            fresh = _fresh_copy(results)
            fresh.compute()
            if not isinstance(diagnosis, Evaluations):
                diagnosis[:] = _of_first_process(fresh, diagnosis)
        elif hasattr(results, "accumulate"):  # a `COCOeval`
            again = copy.copy(results)
            again.evaluate()
            again.accumulate()
        elif isinstance(results, retrieval.RetrievalResults):
            results_made(*_ranking_of(results))
        elif isinstance(results, detection.DetectionResults):
            grid = results.averages.grid
            images = MatchedImages(
                grid, partial(held, "images", None), iou_type=grid.iou_type or "", is_one_class=results.is_micro
            )
            results_made(results, images)
        else:
            rule = "a metric, or results with `samples`"
            raise TypeError(f"`results` must be {rule}; got {type(results).__name__} alone.")
    return diagnosis


def _function_of(samples: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that takes the samples as arguments."""
    for function in _FUNCTIONS:
        with suppress(TypeError):
            signature(function).bind(**samples)
            return function
    names = [function.__name__ for function in _FUNCTIONS]
    raise TypeError(f"`samples` must be the arguments of {_hints.listed(names, str)}; got {_hints.listed(samples)}.")


def _fresh_copy(metric: Any) -> Any:
    """Return a metric, or a collection, that shares the samples and has no value yet."""
    fresh = copy.copy(metric)
    fresh._computed = None  # noqa: SLF001 - TorchMetrics' value of `compute`
    if isinstance(metric, nn.ModuleDict):
        fresh._modules = {name: _fresh_copy(member) for name, member in metric._modules.items()}  # noqa: SLF001
    return fresh


def _of_first_process(metric: Any, diagnosis: Diagnosis) -> Diagnosis:
    """Return the answers of the first process that shares a metric, on all of them."""
    members: list[Any] = [*metric._modules.values()] if isinstance(metric, nn.ModuleDict) else [metric]  # noqa: SLF001
    for member in members:
        if hasattr(member, "_synced"):  # a metric of this package
            with member._synced():  # noqa: SLF001
                first, *_ = member._world.texts(json.dumps(diagnosis))  # noqa: SLF001
            return Diagnosis(Answer(*answer) for answer in json.loads(first))
    return diagnosis


def _ranking_of(results: retrieval.RetrievalResults) -> tuple[evaluation.Ranking, evaluation.RankedSamples]:
    """Return the ranking that results hold, and what they know of its samples."""
    evaluated, protocol, ties = results.problem, results.protocol, results.setup.ties
    samples = evaluation.RankedSamples(
        protocol, protocol, ties_are_open=ties == protocol.ties_or(None), has_lists=results.setup.lists
    )
    if isinstance(evaluated, evaluation.EvaluatedProblem):
        samples = evaluated.describe(samples)
    ranking, _ = results.rankings
    return ranking, samples
