"""Whether the values of results that come from a file agree with each other."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.result_files import check_same
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.ranking import Judgments
from reid_torchmetrics.functional.retrieval.relevance import NAMED_LABELS

from .rank_lists import RankLists

_LEAST = {"bpref": -math.inf}  # of a list that lacks positives, with few judged negatives
_LARGEST = {"acg": math.inf}  # a mean of grades
_ALWAYS = {"average_precision": "map", "inverse_negative_penalty": "minp", "first_rank": "mean_rank"}
_MOST = 1 << 63
_ROUNDING = 1e-9


def check_results(results: Any, expected: Any, *, is_of_this_version: bool) -> None:
    """Raise unless numbers are in their range, and what follows from the ranks is as `expected`."""
    counts, num_positives = results.counts, results.ranks.num_positives
    kinds = counts.valid, counts.junk, counts.not_in_gallery, counts.same_camera_only, counts.not_ranked
    if min(kinds) < 0 or sum(kinds) != counts.total or counts.valid != int((num_positives > 0).sum()):
        raise ValueError(f"`counts` must be those of the ranks; got {counts}.")
    # Numbers of drawn galleries are not computed anew, but the ranks of one camera rule say which are undefined.
    is_known = results.protocol.draw is not None and results.protocol.cmc_same_camera is None
    has_positives = num_positives > 0 if is_known else None
    numbers = [(f"per_query.{name}", name, values) for name, values in results.per_query.items()]
    numbers += [(place, name, getattr(results, place)) for place, name in _ALWAYS.items()]
    for number in numbers:
        _check_range(*number, is_defined=has_positives)
    _check_range("cmc", "rank_1", results.cmc)
    if results.weight is not None:
        _check_range("weight", "rank_1", results.weight, is_defined=torch.ones_like(results.weight, dtype=torch.bool))
    if results.query_names is not None:
        _checks.length("query_names", len(results.query_names), len(results.query_index))
    _check_names(results.label_names)
    if results.ranks.judged is not None:
        _check_judged(results.ranks.judged)
    if results.rank_lists is not None:
        _check_rank_lists(results.rank_lists, results)
    for name, pairs in (results.camera_pairs or {}).items():
        _checks.in_range("num_valid", pairs.num_valid.flatten(), 0, counts.total + 1)
        _check_range(f"camera_pairs.{name}.mean", name, pairs.mean, is_defined=pairs.num_valid > 0)
    # Numbers of drawn galleries, or of a CMC under another camera rule, do not follow from the ranks.
    whole = results.protocol.draw is None and results.protocol.cmc_same_camera is None
    following = ("per_query", *_ALWAYS, "cmc") if whole and is_of_this_version else ()
    check_same(results, expected, ("num_positives", "num_candidates", *following))


def _check_names(label_names: Any) -> None:
    """Raise unless names belong to labels, by integers."""
    for label, names in (label_names or {}).items():
        _checks.one_of("label_names", label, NAMED_LABELS)
        for number in names:
            _checks.integer(f"label_names[{label!r}]", number)


def _check_judged(judged: Judgments) -> None:
    if not bool(((judged.grade > 0) & judged.grade.isfinite()).all()):
        raise ValueError("`judged.grade` must be finite and above 0; got other values.")
    for name in ("num_before", "num_negatives"):
        if getattr(judged, name) is not None:
            _checks.in_range(f"judged.{name}", getattr(judged, name), 0, _MOST)


def _check_range(place: str, name: str, values: Tensor, *, is_defined: Tensor | None = None) -> None:
    """Raise unless defined values are ranks or shares of 1, and others NaN; for None any value may be NaN."""
    measure, _ = parse_report(name)
    low, high = (1.0, math.inf) if measure.is_rank else (_LEAST.get(measure.name, 0.0), _LARGEST.get(measure.name, 1.0))
    is_in = (values >= low - _ROUNDING) & (values <= high + _ROUNDING)
    if is_defined is None:
        is_defined = ~values.isnan()
    if not bool(torch.where(is_defined, is_in, values.isnan()).all()):
        raise ValueError(f"`{place}` must lie in [{low:g}, {high:g}] where it is defined; got other values.")


def _check_rank_lists(lists: RankLists, results: Any) -> None:
    """Raise unless lists are of all queries, and padding, and queries without a right answer, are marked throughout."""
    is_padding, has_right = lists.index == -1, lists.first_positive_rank > 0
    agree = {
        "query": torch.equal(lists.query, torch.arange(len(lists), device="cpu")),
        "scores": torch.equal(lists.scores.isnan(), is_padding),
        "is_positive": not bool((lists.is_positive & is_padding).any()),
        "first_positive_rank": torch.equal(results.first_rank.isfinite(), has_right),
        "first_positive_index": torch.equal(lists.first_positive_index != -1, has_right),
        "first_positive_score": torch.equal(~lists.first_positive_score.isnan(), has_right),
    }
    if wrong := [name for name in agree if not agree[name]]:
        raise ValueError(f"`rank_lists.{wrong[0]}` must fit the results; got other values.")
    num_items = _MOST if results.item_names is None else len(results.item_names)
    _checks.in_range("rank_lists.index", lists.index.flatten(), -1, num_items)
    _checks.in_range("rank_lists.first_positive_index", lists.first_positive_index, -1, num_items)
    _checks.in_range("rank_lists.first_positive_rank", lists.first_positive_rank, 0, _MOST)
