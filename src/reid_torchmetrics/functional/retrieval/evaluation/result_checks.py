"""Whether the values of results that come from a file agree with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.result_files import check_same
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts

from .rank_lists import RankLists

_LEAST = {"bpref": -math.inf}  # of a list that lacks positives, with few judged negatives
_OF_RANKS = ("values", "average_precision", "inverse_negative_penalty", "first_rank", "cmc")
_MOST = 1 << 63
_ROUNDING = 1e-9


def sizes_of_axes(saved: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """The sizes of axes that other fields give, each as the least and the largest one."""
    num_queries = saved["counts"].saved["total"]
    yield "queries", num_queries, num_queries
    num_positives = int(saved["num_positives"].read().sum())  # an array of as many queries
    yield "positives", num_positives, num_positives


def check_results(results: Any, expected: Any, *, is_of_this_version: bool) -> None:
    """Raise unless numbers are in their range, and what follows from the ranks is as `expected`."""
    _check_counts(results.counts, results.ranks.num_positives)
    # Without draws the ranks say what is undefined; under another camera rule they do not.
    is_known = results.protocol.draw is not None and results.protocol.cmc_same_camera is None
    has_positives = results.ranks.num_positives > 0 if is_known else None
    for name, values in results.values.items():
        _check_range(f"values.{name}", name, values, is_defined=has_positives)
    for place, name in (
        ("average_precision", "map"),
        ("inverse_negative_penalty", "minp"),
        ("first_rank", "mean_rank"),
    ):
        _check_range(place, name, getattr(results, place), is_defined=has_positives)
    _check_range("cmc", "rank_1", results.cmc)
    if results.weight is not None:
        _check_range("weight", "rank_1", results.weight, is_defined=torch.ones_like(results.weight, dtype=torch.bool))
    if results.query_names is not None:
        _checks.length("query_names", len(results.query_names), len(results.query_index))
    if (judged := results.ranks.judged) is not None:
        if not bool(((judged.grade > 0) & judged.grade.isfinite()).all()):
            raise ValueError("`judged.grade` must be finite and above 0; got other values.")
        for name in ("num_before", "num_negatives"):
            _checks.in_range(f"judged.{name}", getattr(judged, name), 0, _MOST)
    if results.rank_lists is not None:
        _check_rank_lists(results.rank_lists, results)
    for name, pairs in (results.camera_pairs or {}).items():
        _checks.in_range("num_valid", pairs.num_valid.flatten(), 0, results.counts.total + 1)
        _check_range(f"camera_pairs.{name}.mean", name, pairs.mean, is_defined=pairs.num_valid > 0)
    # Numbers of drawn galleries, or of a CMC under another camera rule, do not follow from the ranks.
    whole = results.protocol.draw is None and results.protocol.cmc_same_camera is None
    names = ("num_positives", "num_candidates", *_OF_RANKS[: None if whole and is_of_this_version else 0])
    check_same(results, expected, names)


def _check_counts(counts: QueryCounts, num_positives: Tensor) -> None:
    each = counts.valid, counts.junk, counts.not_in_gallery, counts.same_camera_only, counts.not_ranked
    if min(each) < 0 or sum(each) != counts.total or counts.valid != int((num_positives > 0).sum()):
        raise ValueError(f"`counts` must be those of the ranks; got {counts}.")


def _check_range(place: str, name: str, values: Tensor, *, is_defined: Tensor | None = None) -> None:
    """Raise unless defined values are ranks or shares of 1, and others NaN; for None any value may be NaN."""
    measure, _ = parse_report(name)
    low, high = (1.0, math.inf) if measure.is_rank else (_LEAST.get(measure.name, 0.0), 1.0)
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


def check_comparison(comparison: Any) -> None:
    """Raise unless counts fit the number of queries, and p-values and intervals are some."""
    num_queries = comparison.num_queries
    if not 0 <= comparison.num_valid <= num_queries:
        raise ValueError(f"`num_valid` must lie in [0, {num_queries}]; got {comparison.num_valid}.")
    if not comparison.differences.keys() <= comparison.conventions.keys():
        raise ValueError(f"`conventions` must be those of all differences; got {', '.join(comparison.conventions)}.")
    _checks.fraction("level", comparison.level)
    for name in ("gained", "lost"):
        queries = getattr(comparison, name)
        _checks.in_range(name, queries, 0, num_queries)
        if bool((queries[1:] <= queries[:-1]).any()):
            raise ValueError(f"`{name}` must ascend; got {queries[:5].tolist()}.")
    for name, each in comparison.differences.items():
        shares = [value for value in (each.p_value, each.p_holm) if not math.isnan(value)]
        counts = each.num_better, each.num_worse, each.num_equal
        if not all(0 <= value <= 1 for value in shares) or each.low > each.high or min(counts) < 0:
            raise ValueError(f"`differences.{name}` must have p-values from 0 to 1, and ends in order; got {each}.")
