"""Rank the positives in a matrix of ranked lists, given the pairs of a query and an item of their truth.

The key query * span + item, where all items are below the span, finds a pair in the matrix:

    lists  [[7, 4, 7]]     pairs of query 0 in the truth     (0, 4), (0, 7), numbered 0 and 1
                           pair at each entry                [[1, 0, 1]]
                           first column of each pair         1, 0     so their ranks are 2 and 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, ranks_of_hits

from .labeled_lists import Entries, without
from .list_forms import ItemReader, ListQueries, Truth

_ENTRIES_AT_A_TIME = 1 << 18  # of lists, looked up in one step, so that its tensors stay in the cache of a CPU


@dataclass(frozen=True)
class ListedSamples:
    """The ranked lists and the positives that results were computed from."""

    items: Entries
    """the lists without junk"""
    hits: Bool[Tensor, "queries longest"]
    """mask of the entries that are positives"""
    truth: Truth
    reader: ItemReader
    """knows the names of items, and the order in which scores were given"""


def find_pairs_without_junk(
    items: Entries, truth: Truth, queries: ListQueries, reader: ItemReader
) -> tuple[Entries, Entries]:
    """Return the lists without the junk of the truth, and for every entry its pair of the truth, -1 for none."""
    pairs = _find_pairs(items, truth, queries, reader)
    if bool(truth.is_junk.any()):
        is_junk = (pairs >= 0) & truth.is_junk[pairs.clamp(min=0)]
        items, pairs = without(is_junk, items, pairs)
    return items, pairs


def _find_pairs(items: Entries, truth: Truth, queries: ListQueries, reader: ItemReader) -> Entries:
    """Return for every entry of the lists its pair of the truth, -1 for none."""
    pairs = torch.full_like(items, -1)
    if not len(truth.item):
        return pairs
    # The key of a pair fits int64 unless items are huge numbers: then they are numbered.
    item = truth.item
    span = int(item.max()) + 1
    if span * len(items) >= 1 << 62:
        distinct, item = item.unique(return_inverse=True)
        span = len(distinct)
        number = torch.searchsorted(distinct, items).clamp_(max=span - 1)
        items = number.masked_fill(distinct[number] != items, -1)
    keys, order = (truth.query * span + item).sort()
    is_repeated = keys[1:] == keys[:-1]
    if bool(is_repeated.any()):
        pair = order[int(is_repeated.nonzero()[0, 0])]
        item_name = reader.name(int(truth.item[pair]))
        query_name = queries.name(int(truth.query[pair]))
        got = f"item {item_name} twice for query {query_name}"
        raise ValueError(f"`positives` must list an item once for a query; got {got}.")

    # Look up the keys of the entries among those of the truth.
    for rows in segments.ranges(len(items), max(1, _ENTRIES_AT_A_TIME // items.shape[1])):
        block = items[rows]
        first_key = span * torch.arange(rows.start, rows.stop, device=items.device)[:, None]
        entry_keys = (block + first_key).masked_fill_((block < 0) | (block >= span), -1)
        place = torch.searchsorted(keys, entry_keys).clamp_(max=len(keys) - 1)
        pairs[rows] = order[place].masked_fill_(keys[place] != entry_keys, -1)
    return pairs


def rank_lists(
    items: Entries, pairs: Entries, truth: Truth, num_positives: Tensor, *, all_are_judged: bool = False
) -> tuple[PositiveRanks, Bool[Tensor, "queries longest"]]:
    """Return the ranks of positives, and a mask of their entries in the lists.

    Args:
        items: the lists.
        pairs: for every entry its pair of the truth, -1 for none.
        truth: the pairs.
        num_positives: of each query, retrieved or not.
        all_are_judged: whether all items are judged, as by labels; else items without a grade are not.
    """
    # The first column of each pair in its list; the width of the matrix if the list lacks it.
    longest = items.shape[1]
    query, column = (pairs >= 0).nonzero(as_tuple=True)
    first_column = torch.full_like(truth.item, longest)
    first_column.scatter_reduce_(0, pairs[query, column], column, "amin")

    is_positive = _mark_first_entries(items, truth, first_column, truth.is_right)
    lengths = ((items >= 0) * torch.arange(1, longest + 1, device=items.device)).amax(1)
    judgments = None
    if truth.grade is not None:
        judgments = _find_judgments(items, truth, first_column, truth.grade, all_are_judged=all_are_judged)
    rank = is_positive.nonzero()[:, 1] + 1
    return ranks_of_hits(rank, is_positive.sum(1), num_positives, lengths, judgments), is_positive


def _mark_first_entries(
    items: Entries, truth: Truth, first_column: Int[Tensor, " listed"], is_marked: Bool[Tensor, " listed"]
) -> Bool[Tensor, "queries longest"]:
    """Return a mask of the entries of the lists that are the first ones of marked pairs."""
    pairs = is_marked & (first_column < items.shape[1])
    marks = torch.zeros_like(items, dtype=torch.bool)
    marks[truth.query[pairs], first_column[pairs]] = True
    return marks


def _find_judgments(
    items: Entries,
    truth: Truth,
    first_column: Int[Tensor, " listed"],
    grade: Float[Tensor, " listed"],
    *,
    all_are_judged: bool,
) -> Judgments:
    """Return the grades of the positives, and unless all items are judged the judged negatives before each."""
    num_queries, longest = items.shape
    # In the order of ranks: by query, then by first column.
    positives = truth.is_right.nonzero()[:, 0]
    order = (truth.query[positives] * (longest + 1) + first_column[positives]).argsort(stable=True)
    positives = positives[order]
    if all_are_judged:
        return Judgments(grade[positives])
    is_negative = ~truth.is_junk & (grade == 0)
    num_before = _mark_first_entries(items, truth, first_column, is_negative).cumsum(1)
    num_before = num_before[truth.query[positives], first_column[positives].clamp(max=longest - 1)]
    num_negatives = torch.bincount(truth.query[is_negative], minlength=num_queries)
    return Judgments(grade[positives], num_before, num_negatives)


def count_positives(truth: Truth, queries: ListQueries, num_queries: int, declared: Any) -> Int[Tensor, " queries"]:
    """Return the numbers of listed positives, or declared numbers, at least as many."""
    num_listed = truth.query[truth.is_right].bincount(minlength=num_queries)
    declared = queries.values_of("num_positives", declared)
    if declared is None:
        return num_listed
    if truth.grade is not None:
        raise ValueError("`num_positives` must come with positives that have no grades; got grades.")
    if isinstance(declared, int):
        _checks.positive_int("num_positives", declared, least=0)
        declared = torch.full_like(num_listed, declared)
    counts = _checks.integer_labels("num_positives", declared, len(num_listed)).long().to(num_listed.device)
    too_low = (counts < num_listed).nonzero()[:, 0]
    if len(too_low):
        query = int(too_low[0])
        got = f"{int(counts[query])} for query {queries.name(query)}, which has {int(num_listed[query])}"
        raise ValueError(f"`num_positives` must count the positives that are listed, too; got {got}.")
    return counts
