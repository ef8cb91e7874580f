"""Rank many positives at once, by sorting whole rows of scores, if these are small integers, as for codes.

If a third of the gallery is positive, looking up each positive among the negatives takes longer than to put all
candidates in order. NumPy sorts integers of 16 bits by their digits, in a fifth of the time of floats.

For example, a query with its scores, and the grades of its positives:

    scores                3   1   3   2   1
    grades                0   2   1   1   0
    levels below the top  0   2   0   1   2
    keys, "pessimistic"   0   8   1   4   6      3 times the level, plus the grade: the lower grade goes first
    in order              0   1   4   6   8      the last digit in base 3 is the grade: 0 1 1 0 2
    ranks                     2   3       5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

from .tie_policies import TiePolicy

Array: TypeAlias = NDArray[Any]

_SCORES_AT_A_TIME = 1 << 19  # scores that are sorted at a time, so that they stay in the cache
_LARGEST_KEY = np.iinfo(np.int16).max
_SAMPLE_SIZE = 64  # scores that are read before all are


class SortedGroups(NamedTuple):
    """The groups of ties for some queries, as in `TiedGroups`."""

    num_groups: Int[Tensor, " queries"]
    num_positives: Int[Tensor, " groups"]
    num_negatives: Int[Tensor, " groups"]


@dataclass(frozen=True)
class SortedPositives:
    """The positives of some queries, query by query in the order of their ranks."""

    num_positives: Int[Tensor, " queries"]
    rank: Int[Tensor, " positives"]
    grade: Int[Tensor, " positives"]
    groups: SortedGroups | None = None
    """groups of ties, for tie policies with groups"""


def sort_rows_of_codes(
    scores: Float[Tensor, "queries gallery"],
    grades: Int[Tensor, "queries gallery"],
    junk: Bool[Tensor, "queries gallery"] | None,
    ties: TiePolicy,
) -> SortedPositives | None:
    """Rank the positives, items with a grade above 0, among the candidates; None unless keys of 16 bits suffice.

    Junk has grade 0. Places break ties by the columns.
    """
    values = scores.detach().numpy()
    grade_numbers = grades.numpy()

    def rank(rows: slice) -> tuple[Array, ...] | None:
        is_junk = None if junk is None else junk[rows].numpy()
        return _rank_rows(values[rows], grade_numbers[rows], is_junk, ties)

    parts = segments.ranges(len(values), max(1, _SCORES_AT_A_TIME // max(1, values.shape[1])))
    results = []
    for result in workers.share(rank, parts):
        if result is None:
            return None
        results.append(result)
    columns = [torch.from_numpy(np.concatenate(column)) for column in zip(*results, strict=True)]
    num_positives, ranks, sorted_grades, *groups = columns
    return SortedPositives(num_positives, ranks, sorted_grades, SortedGroups(*groups) if groups else None)


def are_of_codes(scores: Float[Tensor, "queries gallery"]) -> bool:
    """Return whether an evenly spread sample of the scores has small whole numbers only, so that all may be such."""
    values = scores.detach().numpy().reshape(-1)
    if not values.size:
        return False
    sample = values[:: max(1, values.size // _SAMPLE_SIZE)]
    return bool((sample == np.rint(sample)).all() and (np.abs(sample) <= _LARGEST_KEY).all())


def _rank_rows(scores: Array, grades: Array, is_junk: Array | None, ties: TiePolicy) -> tuple[Array, ...] | None:
    """Return the number of positives of each row, their ranks and grades, and the fields of `SortedGroups`."""
    with np.errstate(invalid="ignore"):  # infinity and NaN are no integers, and do not equal one
        whole = scores.astype(np.int16)
    if not np.array_equal(whole, scores):
        return None
    top = int(whole.max())
    most = int(grades.max())
    num_levels = top - int(whole.min()) + 1
    base = most + 1
    if (num_levels + 1) * base > _LARGEST_KEY:
        return None

    # The levels of scores, from 0 for the highest score.
    level = np.subtract(top, whole, dtype=np.int16)
    if is_junk is not None:
        level[is_junk] = num_levels  # behind all candidates
    if ties.by_place is not None:
        order = level.argsort(axis=1, kind="stable")
        return _positives(np.take_along_axis(grades.astype(np.int16), order, axis=1))

    # Keys: the level, and a digit in the base for the grade.
    digit = grades.astype(np.int16)
    if ties.positives_first:
        np.subtract(most, digit, out=digit)
    keys = level * np.int16(base) + digit
    keys.sort(axis=1, kind="stable")
    sorted_level = keys // np.int16(base)
    digit = keys - sorted_level * np.int16(base)
    if ties.positives_first:
        np.subtract(most, digit, out=digit)
    positives = _positives(digit)
    if not ties.groups:
        return positives
    num_positives, rank, _ = positives
    return (*positives, *_groups(keys, sorted_level, num_positives, rank, base))


def _positives(grade: Array) -> tuple[Array, Array, Array]:
    """Return the number of positives of each row of grades in order, and their ranks and grades."""
    is_positive = grade > 0
    cells = np.flatnonzero(is_positive)
    num_positives = np.array([np.count_nonzero(row) for row in is_positive], dtype=np.int64)
    row_start = np.arange(0, grade.size, max(1, grade.shape[1]))
    rank = cells - np.repeat(row_start, num_positives) + 1
    return num_positives, rank, grade.reshape(-1)[cells]


def _groups(keys: Array, level: Array, num_positives: Array, rank: Array, base: int) -> tuple[Array, ...]:
    """Return the number of groups of each row, and the positives and the negatives of each group.

    The negatives of a group go before its positives in the order of keys.
    """
    row_start = np.cumsum(num_positives) - num_positives
    row = np.repeat(np.arange(len(num_positives)), num_positives)

    # A group begins at the first positive of a row, and where the level changes.
    positive_level = level[row, rank - 1]
    is_first = np.ones(len(rank), dtype=bool)
    is_first[1:] = positive_level[1:] != positive_level[:-1]
    is_first[row_start[num_positives > 0]] = True
    first = np.flatnonzero(is_first)
    sizes = np.diff(first, append=len(rank))

    # Its negatives begin at the first key of its level.
    edges = np.searchsorted(first, np.append(row_start, len(rank)))
    group_starts = [np.empty(0, dtype=np.int64)]
    for row_keys, start, stop in zip(keys, edges[:-1], edges[1:], strict=True):
        group_starts.append(row_keys.searchsorted(positive_level[first[start:stop]] * np.int16(base)))
    num_negatives = rank[first] - 1 - np.concatenate(group_starts)
    return np.diff(edges), sizes, num_negatives
