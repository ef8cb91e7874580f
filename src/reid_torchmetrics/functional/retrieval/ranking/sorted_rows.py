"""Rank many positives at once, by sorting whole rows of scores, if these are small integers as of codes.

Where a third of the gallery is positive, to look up each positive among the negatives takes longer than to put all
candidates in order. NumPy sorts integers of 16 bits by their digits, in a fifth of the time of floats.

One query with its scores, and the grades of its positives:

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

_SCORES_AT_A_TIME = 1 << 19  # of a few rows; what sorting them needs stays in the cache
_LARGEST_KEY = np.iinfo(np.int16).max
_NUM_LOOKED_AT = 64  # scores that are looked at before all are


class SortedGroups(NamedTuple):
    """The groups of some queries, as in `TiedGroups`."""

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
    """for tie policies with groups"""


def sort_rows_of_codes(
    scores: Float[Tensor, "queries gallery"],
    grades: Int[Tensor, "queries gallery"],
    junk: Bool[Tensor, "queries gallery"] | None,
    ties: TiePolicy,
) -> SortedPositives | None:
    """Rank the positives, items with a grade above 0, among the candidates; None unless keys of 16 bits suffice.

    Junk has grade 0. Places break ties by the columns.
    """
    values, marks = scores.detach().numpy(), grades.numpy()
    parts = segments.ranges(len(values), max(1, _SCORES_AT_A_TIME // max(1, values.shape[1])))

    def rank(rows: slice) -> tuple[Array, ...] | None:
        is_junk = None if junk is None else junk[rows].numpy()
        return _rank_rows(values[rows], marks[rows], is_junk, ties)

    ranked = workers.share(rank, parts)
    if any(part is None for part in ranked):
        return None
    columns = zip(*(part for part in ranked if part is not None), strict=True)
    number, places, grade, *groups = (torch.from_numpy(np.concatenate(column)) for column in columns)
    return SortedPositives(number, places, grade, SortedGroups(*groups) if groups else None)


def are_of_codes(scores: Float[Tensor, "queries gallery"]) -> bool:
    """Whether some scores, evenly spread, are small whole numbers, so that all may be."""
    values = scores.detach().numpy().reshape(-1)
    some = values[:: max(1, values.size // _NUM_LOOKED_AT)]
    return bool(values.size) and bool((some == np.rint(some)).all() and (np.abs(some) <= _LARGEST_KEY).all())


def _rank_rows(scores: Array, grades: Array, is_junk: Array | None, ties: TiePolicy) -> tuple[Array, ...] | None:
    """The number of positives of each row, their ranks and grades, and the fields of their groups."""
    with np.errstate(invalid="ignore"):  # infinity and NaN are no integers, and are not equal to one
        whole = scores.astype(np.int16)
    if not np.array_equal(whole, scores):
        return None
    top, most = int(whole.max()), int(grades.max())
    num_levels, base = top - int(whole.min()) + 1, most + 1
    if (num_levels + 1) * base > _LARGEST_KEY:
        return None
    level = np.subtract(top, whole, dtype=np.int16)
    if is_junk is not None:
        level[is_junk] = num_levels  # behind all candidates
    if ties.by_place is not None:
        order = level.argsort(axis=1, kind="stable")
        grade = np.take_along_axis(grades.astype(np.int16), order, axis=1)
        return _positives(grade)
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
    return (*positives, *_groups(keys, sorted_level, positives, base)) if ties.groups else positives


def _positives(grade: Array) -> tuple[Array, Array, Array]:
    """The number of positives of each row of grades in order, and their ranks and grades."""
    is_positive = grade > 0
    cells = np.flatnonzero(is_positive)
    number = np.array([np.count_nonzero(row) for row in is_positive], dtype=np.int64)
    first = np.arange(0, grade.size, max(1, grade.shape[1]))
    return number, cells - np.repeat(first, number) + 1, grade.reshape(-1)[cells]


def _groups(keys: Array, level: Array, positives: tuple[Array, Array, Array], base: int) -> tuple[Array, ...]:
    """The number of groups of each row, and the positives and the negatives of each group.

    In the order of keys the negatives of a group go before its positives.
    """
    number, rank, _ = positives
    row_start = np.cumsum(number) - number
    row = np.repeat(np.arange(len(number)), number)
    of_positive = level[row, rank - 1]
    is_first = np.ones(len(rank), dtype=bool)
    is_first[1:] = of_positive[1:] != of_positive[:-1]
    is_first[row_start[number > 0]] = True
    first = np.flatnonzero(is_first)
    sizes = np.diff(first, append=len(rank))
    # The group begins where the first key of its level is.
    edges = np.searchsorted(first, np.append(row_start, len(rank)))
    begins = [
        line.searchsorted(of_positive[first[start:stop]] * np.int16(base))
        for line, start, stop in zip(keys, edges[:-1], edges[1:], strict=True)
    ]
    num_negatives = rank[first] - 1 - np.concatenate([np.empty(0, dtype=np.int64), *begins])
    return np.diff(edges), sizes, num_negatives
