"""Rank all positives of a query at once where scores are small whole numbers, such as products of codes.

A histogram of each row has all that ranks need, so that no score is sorted or searched. For example, a query with its
scores, and the grades of the items, which are 0 for negatives:

    scores                      3   1   3   2   1
    grades                      0   2   1   1   0
    levels below the highest    0   2   0   1   2

    level                         0     1     2
    items of grade 0, 1, 2      1 1 0 0 1 0 1 0 1      "pessimistic": the lower grade goes first
    items before                0 1 2 2 2 3 3 4 4
    ranks of the positives        2     3       5

Only where equal scores keep the order of the gallery, the items are put in order, by a sort of their levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int8, Integer
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.ranking import RANKINGS_AT_ONCE, GalleryPart, RankTable, TiePolicy
from reid_torchmetrics.functional.retrieval.relevance import Relevance

Array: TypeAlias = NDArray[Any]

_SAMPLE_SIZE = 64  # scores that are read to know whether all may be whole numbers
_SCORES_AT_A_TIME = 1 << 19  # scores of a part, which stay in the cache
_LARGEST = np.iinfo(np.int16).max
_MOST_BINS = 4  # for each item of a row: with more, a histogram takes longer than a sort
_LEAST_BINS = 1024  # that may always be used
_SCORES_WITH_GRADES = 1 << 22  # that are ranked with a matrix of their grades


class Levels(NamedTuple):
    """The range of scores that are small whole numbers."""

    lowest: int
    highest: int

    @property
    def number(self) -> int:
        """Number of whole numbers in the range."""
        return self.highest - self.lowest + 1


def find_levels(scores: Float[Tensor, "queries gallery"], num_grades: int) -> Levels | None:
    """Return the range of scores on the CPU; None unless all are whole numbers, and few enough for a histogram.

    `num_grades` is the number of different grades, with that of negatives.
    """
    values = scores.detach().numpy()
    if not values.size:
        return None

    def find(rows: slice) -> Levels | None:
        with np.errstate(invalid="ignore"):
            whole = values[rows].astype(np.int16)
        if not np.array_equal(whole, values[rows]):  # nor are infinity and NaN
            return None
        return Levels(int(whole.min()), int(whole.max()))

    lowest, highest = [], []
    for levels in workers.share(find, _parts(values.shape)):
        if levels is None:
            return None
        lowest.append(levels.lowest)
        highest.append(levels.highest)
    levels = Levels(min(lowest), max(highest))
    num_bins = (levels.number + 1) * num_grades  # junk has a level of its own
    most_bins = min(_LARGEST, max(_LEAST_BINS, _MOST_BINS * values.shape[1]))
    return levels if num_bins <= most_bins else None


def _parts(shape: tuple[int, ...]) -> list[slice]:
    num_rows, width = shape
    return segments.ranges(num_rows, max(1, _SCORES_AT_A_TIME // max(1, width)))


def rank_whole_scores(
    scores: Float[Tensor, "queries gallery"],
    levels: Levels,
    grades: Integer[Tensor, "queries gallery"],
    junk: Bool[Tensor, "queries gallery"] | None,
    ties: TiePolicy,
) -> list[Tensor]:
    """Return the number of positives of each row, items with a grade above 0, their ranks and grades, and their groups.

    Args:
        scores: whole numbers, on the CPU.
        levels: their range.
        grades: number of labels that an item shares with the query, or 1 for a positive; 0 for negatives and junk.
        junk: marks of junk; None if there is none.
        ties: the tie policy; places break ties by the columns.
    """
    if ties.by_place is not None:
        columns = torch.arange(scores.shape[1], device="cpu")
        order = ties.by_place(columns).argsort()
        if not torch.equal(order, columns):
            scores, grades = scores[:, order], grades[:, order]
            junk = None if junk is None else junk[:, order]
    values = scores.detach().numpy()
    grade_numbers = grades.numpy()
    most = int(grade_numbers.max(initial=0))

    def rank(rows: slice) -> list[Array]:
        level = np.subtract(levels.highest, values[rows], dtype=np.int16, casting="unsafe")
        if junk is not None:
            level[junk[rows].numpy()] = levels.number  # behind all candidates
        if ties.by_place is not None:
            return _rank_in_order(level, levels.number, grade_numbers[rows])
        return _rank_by_histogram(level, levels.number, grade_numbers[rows], most, ties)

    results = workers.share(rank, _parts(values.shape))
    return [torch.from_numpy(np.concatenate(parts)) for parts in zip(*results, strict=True)]


def _rank_by_histogram(level: Array, num_levels: int, grades: Array, most: int, ties: TiePolicy) -> list[Array]:
    """Return the number of positives of each row, their ranks and grades, and their groups, as in `TiedGroups`."""
    num_rows = len(level)
    num_grades = most + 1
    num_bins = (num_levels + 1) * num_grades  # the last level is that of junk
    keys = level * np.int16(num_grades)
    keys += most - grades if ties.positives_first else grades
    bins = keys + np.arange(num_rows)[:, None] * num_bins
    num_items = np.bincount(bins.reshape(-1), minlength=num_rows * num_bins).reshape(num_rows, num_bins)
    num_before = num_items.cumsum(1) - num_items

    # Each bin with positives is a run of ranks.
    grade_of_bin = np.arange(num_bins) % num_grades
    if ties.positives_first:
        grade_of_bin = most - grade_of_bin
    is_positive = grade_of_bin > 0
    row, bin_number = np.nonzero(num_items * is_positive)
    sizes = num_items[row, bin_number]
    _, rank = segments.runs(torch.from_numpy(num_before[row, bin_number] + 1), torch.from_numpy(sizes))
    num_positives = num_items[:, is_positive].sum(1)
    columns = [num_positives, rank.numpy(), np.repeat(grade_of_bin[bin_number], sizes)]
    if ties.groups:
        # The items of a level are a group if a positive is among them; negatives are in its first bin.
        by_level = num_items.reshape(num_rows, -1, num_grades)
        num_in_level = by_level[:, :, 1:].sum(2)
        is_group = num_in_level > 0
        columns += [is_group.sum(1), num_in_level[is_group], by_level[:, :, 0][is_group]]
    return columns


def _rank_in_order(level: Array, num_levels: int, grades: Array) -> list[Array]:
    """Return the number of positives of each row, and their ranks and grades, where equal scores keep their order."""
    dtype = np.uint8 if num_levels <= np.iinfo(np.uint8).max else np.int16
    order = level.astype(dtype).argsort(axis=1, kind="stable")
    sorted_grades = np.take_along_axis(grades, order, axis=1)
    is_positive = sorted_grades > 0
    cells = np.flatnonzero(is_positive)
    num_positives = np.count_nonzero(is_positive, axis=1)
    row_start = np.arange(len(level)) * level.shape[1]
    rank = cells - np.repeat(row_start, num_positives) + 1
    return [num_positives, rank, sorted_grades.reshape(-1)[cells].astype(np.int64)]


def rank_tile(part: GalleryPart, scores: Float[Tensor, "queries gallery"], rows: slice, table: RankTable) -> bool:
    """Rank the positives of some queries at once; False unless their scores are small whole numbers."""
    sample = scores.view(-1)[:: max(1, scores.numel() // _SAMPLE_SIZE)]
    if not bool((sample == sample.round()).all()):  # nearly always
        return False
    relevance = part.relevance
    num_grades = 2 if relevance.shared is None else relevance.shared.query.shape[1] + 1
    levels = find_levels(scores, num_grades)
    if levels is None:
        return False
    width = scores.shape[1]
    for block in segments.ranges(len(scores), max(1, _SCORES_WITH_GRADES // width)):
        queries = slice(rows.start + block.start, rows.start + block.stop)
        grades, junk = _graded_rows(relevance, queries)
        num_positives, rank, sorted_grades, *groups = rank_whole_scores(scores[block], levels, grades, junk, part.ties)
        table.num_candidates[queries] = width - (0 if junk is None else junk.sum(1))
        table.append(queries, num_positives, rank, sorted_grades, groups)
    return True


def _graded_rows(
    relevance: Relevance, rows: slice
) -> tuple[Int[Tensor, "queries kept"], Bool[Tensor, "queries kept"] | None]:
    """Return the number of labels that all kept items share with a few queries, and marks of junk.

    Unless samples have several labels, the number is 1 for positives. Junk has the number 0. The marks are None if
    no query has junk.
    """
    columns = slice(0, relevance.num_kept)
    if relevance.shared is None:
        return _listed_rows(relevance, rows)
    grades = relevance.shared.numbers(rows)
    junk = relevance.dropped(rows, columns)
    for rule in relevance.rules:
        if rule.num_dropped is None:
            dropped = rule.at(rows, columns) & (grades > 0)
            junk = dropped if junk is None else junk | dropped
    if relevance.own_column is not None:
        own_column = relevance.own_column[rows]
        query = (own_column >= 0).nonzero()[:, 0]
        if junk is None:
            junk = torch.zeros_like(grades, dtype=torch.bool)
        junk[query, own_column[query]] = True
    if junk is not None:
        grades.masked_fill_(junk, 0)
    return grades, junk


def _listed_rows(
    relevance: Relevance, rows: slice
) -> tuple[Int8[Tensor, "queries kept"], Bool[Tensor, "queries kept"] | None]:
    """Return 1 for the positives of a few queries, 0 for other items, and marks of junk, as `_graded_rows`."""
    tile = relevance.tile(rows)
    no_items = torch.zeros((len(tile.columns), relevance.num_kept), dtype=torch.int8, device=relevance.device)
    # Items that are not listed are any item, and add nothing.
    positive = no_items.scatter_add(1, tile.columns, tile.positive.to(torch.int8))
    if bool((tile.num_candidates == relevance.num_kept).all()):
        return positive, None
    junk = no_items.scatter_add(1, tile.columns, (tile.listed & ~tile.positive).to(torch.int8)) > 0
    dropped = relevance.dropped(rows, slice(0, relevance.num_kept))
    return positive, junk if dropped is None else junk | dropped


RANKINGS_AT_ONCE["whole_scores"] = rank_tile
