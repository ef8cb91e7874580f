"""Every entry point in Python as a function of a problem, and what each refuses, with the words of its message.

A row of `ENTRY_POINTS` follows all features of all problems but for those in `refuses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reid_torchmetrics import (
    EmbeddingMetric,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    evaluate,
    evaluate_lists,
    evaluate_scores,
)
from reid_torchmetrics.functional.retrieval import RetrievalResults, find_protocol
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import LABEL_OPTIONS
from reid_torchmetrics.tasks import RankCounter, evaluate_stream
from tests.contracts.expected import CMC_LENGTH, Candidate, Numbers, in_order, judge
from tests.contracts.problems import Problem, Row
from tests.distributed import recording

PROTOCOL = "market1501"
BATCH = 7
"""samples of a batch"""
TIES_OF_GROUPS = [name for name, policy in TIE_POLICIES.items() if policy.groups]
"""tie policies without an order, so that no list can follow them"""
TIES_BY_PLACE = [name for name, policy in TIE_POLICIES.items() if policy.by_place is not None]
"""tie policies by the places of items in the gallery, which a stream does not know"""
MEASURED = ("precision_5", "ndcg_5", "acg_5")
"""the numbers for which `ReIDMeasure` is tried"""


@dataclass(frozen=True)
class EntryPoint:
    """A way to evaluate, with what it does not take."""

    evaluate: Callable[[Problem, Path], Numbers]
    """the numbers of a problem, given a folder for files"""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """features that are errors, each with words of the message"""
    tolerance: float = 1e-12
    """the largest difference to the reference"""
    has_all_reports: bool = True
    """whether it tells all numbers that are reported"""


REFUSED_BY_ALL = {
    "missing_identities error": r"must hold (no missing value|whole numbers or strings)|got list with None",
    "empty_target_action error": "`(--)?empty.target.action` 'error' allows no query without a positive",
    "must_agree beside lists": "`(--)?must.agree` must come with labels; got `(.*ground.truth|positives)`, lists",
    "must_differ beside lists": "`(--)?must.differ` must come with labels; got `(.*ground.truth|positives)`, lists",
    "must_agree beside queries_in_draw": "`(--)?queries.in.draw` must come without .* got a rule about",
}
"""features that are errors everywhere; the command has options in the place of arguments"""


def words_of_refusal(row: Row, entry_point: EntryPoint) -> list[str]:
    """The words of messages, one of which an entry point must answer; none where it must give the numbers.

    A key of a table is a feature, or how it begins.
    """
    refused = {**REFUSED_BY_ALL, **entry_point.refuses}
    features = row.features
    return [
        words
        for key, words in refused.items()
        if any(feature == key or feature.startswith(f"{key} ") for feature in features)
    ]


def numbers_of(results: RetrievalResults) -> Numbers:
    """What results tell."""
    per_query = {name: values.tolist() for name, values in results.per_query.items()}
    counted = results.num_positives.tolist(), results.num_candidates.tolist()
    return Numbers(dict(results.means), per_query, *counted, results.cmc[:CMC_LENGTH].tolist())


def by_evaluate(problem: Problem, _: Path) -> Numbers:
    return numbers_of(results_of_evaluate(problem))


def results_of_evaluate(problem: Problem) -> RetrievalResults:
    arguments = _arguments(problem)
    if problem.row.is_leave_one_out:
        labels_of_gallery = problem.labels_of("_", "gallery_").keys()
        alone = {name: value for name, value in arguments.items() if name not in labels_of_gallery}
        del alone["self_index"]
        return evaluate(problem.query, similarity="dot", **alone)
    return evaluate(problem.query, problem.gallery, similarity="dot", **arguments)


def by_scores(problem: Problem, _: Path, *, dtype: torch.dtype = torch.float64) -> Numbers:
    return numbers_of(evaluate_scores(problem.scores.to(dtype), **_arguments(problem)))


def by_distances(problem: Problem, _: Path) -> Numbers:
    return numbers_of(evaluate_scores(distances=-problem.scores, **_arguments(problem)))


def _arguments(problem: Problem) -> dict[str, Any]:
    """The arguments of `evaluate` and `evaluate_scores` besides embeddings and scores."""
    arguments: dict[str, Any] = {**problem.labels_of("query_", "gallery_"), **problem.options}
    arguments |= {"ties": problem.row.ties, "ground_truth": problem.ground_truth(), "protocol": PROTOCOL}
    arguments |= {"junk_pairs": problem.junk_pairs, "self_index": problem.self_index}
    return {name: value for name, value in arguments.items() if value is not None}


def by_lists(problem: Problem, _: Path) -> Numbers:
    """Lists of positions of the whole gallery."""
    lists = torch.tensor(whole_lists(problem), dtype=torch.int64).view(len(problem.query), len(problem.gallery))
    return numbers_of(evaluate_lists(lists, **_arguments_of_lists(problem)))


def by_lists_of_names(problem: Problem, _: Path) -> Numbers:
    """Lists of names, and labels by name."""
    queries, items = names_of_samples(problem)
    lists = [[items[place] for place in places] for places in whole_lists(problem)]
    arguments = _arguments_of_lists(problem)
    for name in problem.labels:
        for argument, names in ((f"query_{name}", queries), (f"gallery_{name}", items)):
            if argument in arguments:
                arguments[argument] = _by_name(arguments[argument], names)
    if problem.row.truth in ("positions", "lists by name"):
        arguments["positives"] = dict(zip(queries, problem.ground_truth(items), strict=True))
    return numbers_of(evaluate_lists(dict(zip(queries, lists, strict=True)), **arguments))


def _by_name(values: Any, names: Sequence[str]) -> dict[str, Any]:
    """A label by the names of samples; of a mapping of labels each one."""
    if isinstance(values, Mapping):
        return {label: _by_name(values_of_label, names) for label, values_of_label in values.items()}
    return dict(zip(names, values, strict=True))


def names_of_samples(problem: Problem) -> tuple[list[str], list[str]]:
    """Names of queries and of gallery items."""
    return tuple(
        [f"{side}{place}.jpg" for place in range(len(getattr(problem, side)))] for side in ("query", "gallery")
    )


def _arguments_of_lists(problem: Problem) -> dict[str, Any]:
    arguments = _arguments(problem)
    if "ground_truth" in arguments:
        arguments["positives"] = arguments.pop("ground_truth")
    if arguments["ties"] not in TIES_OF_GROUPS:
        del arguments["ties"]  # the order of the lists
    return arguments


def whole_lists(problem: Problem) -> list[list[int]]:
    """The gallery in the order of each query, junk included."""
    policy = "pessimistic" if problem.row.ties in TIES_OF_GROUPS else problem.row.ties
    judged: list[dict[int, int]] = [{} for _ in problem.query]
    # Where the CMC has a camera rule of its own, its positives may be junk by the other rule.
    options = problem.row.options
    rules = options.get("cmc_same_camera"), options.get("same_camera", "same_identity")
    for rule in rules if "groups" not in problem.labels else ():
        if rule is not None:
            for grades, items in zip(judged, judge(problem, {**options, "same_camera": rule}), strict=True):
                grades.update({item.place: item.grade for item in items})
    lists = []
    for scores, grades in zip(problem.scores.tolist(), judged, strict=True):
        items = [Candidate(score, place, grades.get(place, 0)) for place, score in enumerate(scores)]
        lists.append([item.place for item in in_order(items, policy)])
    return lists


def collection(problem: Problem) -> ReIDMetrics:
    """The collection of all numbers that a problem reports."""
    arguments = problem.options | _lists_and_pairs(problem)
    return ReIDMetrics(protocol=PROTOCOL, similarity="dot", ties=problem.row.ties, **arguments)


def members(problem: Problem) -> dict[str, EmbeddingMetric]:
    """Metrics of their own, by the number that each computes; "cmc" is the curve."""
    options = _options_of_metrics(problem)
    classes: dict[str, Callable[..., EmbeddingMetric]] = {
        "map": ReIDMeanAP,
        "minp": ReIDMINP,
        "rank_1": partial(ReIDCMC, 1),
        **{report: partial(ReIDMeasure, report) for report in MEASURED},
    }
    metrics = {report: make(**options) for report, make in classes.items() if report in problem.row.reports}
    return metrics | {"cmc": ReIDCMCCurve(CMC_LENGTH, **options)}


def one_metric(problem: Problem, **more: Any) -> ReIDMeanAP:
    """A metric whose results have all numbers that a problem reports."""
    return ReIDMeanAP(**_options_of_metrics(problem), **more)


def _options_of_metrics(problem: Problem) -> dict[str, Any]:
    """The options of one metric, to which a protocol brings those that it does not take."""
    changed, options = dict(problem.options), dict[str, Any]()
    if "cmc_same_camera" not in changed:  # beside it a `same_camera` of the user's would hold for the CMC as well
        options = {name: changed.pop(name) for name in LABEL_OPTIONS if name in changed}
    options |= {
        "protocol": find_protocol(PROTOCOL).with_options(changed),
        "similarity": "dot",
        "ties": problem.row.ties,
    }
    return options | _lists_and_pairs(problem)


def _lists_and_pairs(problem: Problem) -> dict[str, Any]:
    arguments = {"ground_truth": problem.ground_truth(), "junk_pairs": problem.junk_pairs}
    return {name: value for name, value in arguments.items() if value is not None}


def feed(metric: Any, problem: Problem, process: int = 0, size: int = 1) -> None:
    """Give a metric a process's share of the samples, in batches, one share after the other."""
    for embeddings, is_query, labels in _batches(problem, process, size):
        metric.update(embeddings, is_query=is_query, **labels)


def _batches(problem: Problem, process: int, size: int) -> Iterator[tuple[Tensor, bool | None, dict[str, Any]]]:
    roles = (("query", None),) if problem.row.is_leave_one_out else (("query", True), ("gallery", False))
    for side, is_query in roles:
        embeddings = getattr(problem, side)
        labels = {name: getattr(values, side) for name, values in problem.labels.items()}
        if problem.row.truth is not None:
            labels["index"] = list(range(len(embeddings)))
        if problem.row.has_own_places and is_query:
            labels["self_index"] = problem.self_index
        total = len(embeddings)
        places = list(range(total * process // size, total * (process + 1) // size))
        if "index" in labels:
            places += places[:2]  # a sampler repeats some samples
        for start in range(0, len(places), BATCH):
            batch = places[start : start + BATCH]
            labels_of_batch = {
                name: problem.as_argument(name, [values[place] for place in batch])
                for name, values in labels.items()
                if values is not None
            }
            yield embeddings[batch], is_query, labels_of_batch


def by_collection(problem: Problem, _: Path) -> Numbers:
    metric = collection(problem)
    feed(metric, problem)
    return _told_by_collection(metric)


def _told_by_collection(metric: ReIDMetrics) -> Numbers:
    """What results and values tell, which must agree; values are float32."""
    results, values = metric.results(), metric.compute()
    for name, value in values.items():
        assert float(value) == pytest.approx(results[name], abs=1e-6, rel=1e-6, nan_ok=True), name
    return numbers_of(results)


def by_members(problem: Problem, _: Path) -> Numbers:
    values = {}
    for name, metric in members(problem).items():
        feed(metric, problem)
        values[name] = metric.compute().double()
    curve = values.pop("cmc").reshape(-1).tolist()
    return Numbers({name: float(value) for name, value in values.items()}, cmc=curve)


def by_threads(problem: Problem, _: Path, *, size: int) -> Numbers:
    """Processes that are threads, each with a share of the samples."""

    def on_process(world: recording.RecordingWorld) -> Numbers:
        metric = one_metric(problem, distributed_available_fn=recording.is_shared)
        refusal: Exception | None = None
        try:
            feed(metric, problem, world.process, size)
        except (TypeError, ValueError) as error:
            refusal = error  # `results` tells the others of it
        results = metric.results()
        if refusal is not None:
            raise refusal
        return numbers_of(results)

    outcomes, _ = recording.run(size, on_process)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    assert len({repr(outcome.value) for outcome in outcomes}) == 1
    return outcomes[0].value


def by_stream(problem: Problem, _: Path, *, num_blocks: int = 3) -> Numbers:
    """A counter of the items that are related to a query, and blocks of the others."""
    related = related_items(problem)
    row = problem.row
    given: dict[str, Any] = {name: value for name, value in row.options.items() if name in LABEL_OPTIONS}
    queries = {name: value for name, value in problem.labels_of("query_", "_").items() if name.startswith("query_")}
    of_positives = {
        f"positive_{name}": problem.as_argument(name, [values.gallery[place] for place in related])
        for name, values in problem.labels.items()
    }
    if problem.self_index is not None:
        given["self_index"] = [related.index(place) if place >= 0 else -1 for place in problem.self_index]
    counter = RankCounter(
        problem.query,
        problem.gallery[related],
        **queries,
        **of_positives,
        similarity="dot",
        ties=row.ties,
        **given,
        **_lists_and_pairs(problem),
    )
    others = [place for place in range(len(problem.gallery)) if place not in related]
    counts: Any = 0
    for number in range(num_blocks):
        block = others[number::num_blocks]
        if not block:
            continue
        labels = {
            name: problem.as_argument(name, [values.gallery[place] for place in block])
            for name, values in problem.labels.items()
        }
        counts += counter.count(problem.gallery[block], key=number, **labels)
    protocol = find_protocol(PROTOCOL).with_options(problem.options)
    return numbers_of(evaluate_stream(counter, counts, protocol=protocol))


def related_items(problem: Problem) -> list[int]:
    """Gallery items that would be positives of some query if no rule dropped them; all where labels do not tell."""
    if problem.row.truth is not None:
        return list(range(len(problem.gallery)))
    labels = {name: values for name, values in problem.labels.items() if name in ("identities", "positions")}
    bare = replace(problem, labels=labels, self_index=None, junk_pairs=None)
    rules = {name: value for name, value in problem.row.options.items() if name == "radius"}
    judged = judge(bare, {**rules, "junk_identities": ()})
    related = {item.place for items in judged for item in items if item.grade}
    return sorted(related.union(place for place in problem.self_index or () if place >= 0))


_OF_FUNCTIONS = {
    "label index": "Unexpected keyword arguments: `query_index`",
    "cameras beside lists": "`ground_truth` must come without labels; got `query_cameras`",
    "sequences beside lists": "`ground_truth` must come without labels; got `query_sequences`",
    "labels without a rule": "`query_labels` must hold no label but those .* names, none; got",
    "names of lists beside labels": "`positive_lists` must come with lists for every query; got labels",
}
_OF_LISTS = {
    "label index": "Unexpected keyword arguments: `query_index`",
    "label groups": "Unexpected keyword arguments: `gallery_groups`",
    "junk_pairs": "Unexpected keyword arguments: `junk_pairs`",
    **{f"ties {name}": "Unexpected keyword arguments: `ties`" for name in TIES_OF_GROUPS},
    "gallery_draw": "`protocol` must draw no gallery",
    "self_index beside lists": "`self_index` must come without `positives`",
    "leave_one_out beside lists": "`self_index` must come without `positives`",
    "cameras beside lists": "`query_cameras` must come without `positives`",
    "sequences beside lists": "`query_sequences` must come without `positives`",
    "labels beside lists": "`query_labels` must come without `positives`",
    "labels without a rule": "`query_labels` must hold no label but those .* names, none; got",
    "names of lists beside labels": "`positive_lists` must come with lists for every query; got labels",
}
_OF_METRICS = {
    "junk_pairs": "Unexpected keyword arguments: `junk_pairs`",
    "self_index": r"update\(\) got an unexpected (keyword )?argument 'self_index'",
    "sequences beside lists": "`sequences` must come without `ground_truth`",
    "labels beside lists": "`labels` must come without `ground_truth`",
    "labels without a rule": "`labels` must hold no label but those .* names, none; got",
}
_OF_STREAMS = {
    "label index": "Unexpected keyword arguments: `query_index`",
    "label groups": "Unexpected keyword arguments: `positive_groups`",
    "labels without a rule": "`query_labels` must hold no label but those .* names, none; got",
    "ground_truth": "Unexpected keyword arguments: `ground_truth`",
    "junk_pairs": "Unexpected keyword arguments: `junk_pairs`",
    "cmc_same_camera": "one camera rule.*cmc_same_camera=.*which has two",
    **{f"ties {name}": f"`ties` must be one of .* got {name!r}" for name in TIES_BY_PLACE},
    "gallery_draw": "`protocol` must rank one whole gallery.*which draws galleries",
}

FUNCTIONS = {
    "evaluate": EntryPoint(by_evaluate, _OF_FUNCTIONS),
    "evaluate_scores": EntryPoint(by_scores, _OF_FUNCTIONS),
    "evaluate_scores of distances": EntryPoint(by_distances, _OF_FUNCTIONS),
    "evaluate_lists": EntryPoint(by_lists, _OF_LISTS),
    "evaluate_lists by name": EntryPoint(
        by_lists_of_names,
        {**_OF_LISTS, "ground_truth as bool matrix": "`retrieved` and `positives` must both be mappings"},
    ),
    "RankCounter": EntryPoint(by_stream, _OF_STREAMS),
}
METRICS = {
    "the collection": EntryPoint(
        by_collection,
        {
            **_OF_METRICS,
            "names of lists beside labels": "`positive_lists` must come with lists for every query; got labels",
        },
    ),
    "metrics of their own": EntryPoint(by_members, _OF_METRICS, tolerance=1e-6, has_all_reports=False),
}
PROCESSES = {
    f"a metric on {size} processes": EntryPoint(partial(by_threads, size=size), _OF_METRICS) for size in (2, 3)
}
