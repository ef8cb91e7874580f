"""Count the scores of a block of queries at or above their positives, by the fastest way.

There are three ways on the CPU. A few positives are compared with all scores of their row. Few scores above the lowest
positive of their row are picked, and looked up among the positives. Otherwise the rows are sorted, and the positives
are looked up among the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional import segments

from .counting import negatives_above
from .top_k import keys_of_scores

Array: TypeAlias = NDArray[Any]

# Nanoseconds per score for each way of counting.
_COST_OF_A_COMPARISON = 0.22
_COST_OF_SORTING = 5.5
_COST_OF_A_PICK = 60.0
_COST_OF_A_SEARCH = 30.0


@dataclass
class QueryBlock:
    """A block of items as queries, by falling number of positives; items without positives have no row."""

    items: Int[Tensor, " items"]
    """columns of the items in the gallery"""
    num_positives: Int[Tensor, " rows"]
    """number of positives of the first items, falling, at least 1"""
    first: Int[Tensor, " rows"]
    """position of the first positive of each row among all positives"""
    thresholds: Float[Tensor, "rows padded"]
    """scores of the positives, the best first, then infinity"""
    counts: Int[Tensor, "counts rows padded"]
    """int32; number of items at or above each positive, in the pairs of blocks counted so far"""

    @cached_property
    def num_rows(self) -> list[int]:
        """Number of rows with more than 0, 1, ... positives."""
        places = torch.arange(self.thresholds.shape[1], device="cpu")
        return torch.searchsorted(-self.num_positives, -places).tolist()

    @cached_property
    def lowest(self) -> Float[Tensor, "rows 1"]:
        """Score of the last positive of each row."""
        return self.thresholds.gather(1, self.num_positives[:, None] - 1)

    @cached_property
    def is_threshold(self) -> Tensor:
        """Marks of the thresholds that are no padding."""
        return torch.arange(self.thresholds.shape[1], device="cpu") < self.num_positives[:, None]

    @cached_property
    def keys(self) -> Array:
        """Keys of all positives: integers that rise by the row, and within a row as scores fall."""
        row = segments.numbers(self.num_positives).numpy()
        keys: Array = _keys_of(row, self.thresholds[self.is_threshold].numpy())
        return keys

    @cached_property
    def starts(self) -> Array:
        """Position of the first key of each row."""
        starts: Array = segments.starts(self.num_positives).numpy()
        return starts

    @property
    def cells(self) -> Int[Tensor, " positives"]:
        """Positions of the block's positives among all positives, row by row."""
        return segments.runs(self.first, self.num_positives)[1]

    @property
    def has_positives(self) -> bool:
        """True if an item of the block has a positive."""
        return len(self.first) > 0

    def counts_of_cells(self) -> Int[Tensor, "counts positives"]:
        """Return the counts in the order of `cells`."""
        return self.counts[:, self.is_threshold].long()


def count_rows(
    block: QueryBlock, rows: slice, scores: Float[Tensor, "rows items"], marks: Array, or_tied: Sequence[bool]
) -> Int[Tensor, "counts rows padded"]:
    """Count the scores at or above each positive of some rows, by the fastest way.

    The scores may be sorted in place.
    """
    values = scores.numpy()
    num_items = scores.shape[1]
    are_above = marks[:, :num_items]
    np.greater_equal(values, block.lowest[rows].numpy(), out=are_above)

    # Estimate nanoseconds per score.
    share_above = np.count_nonzero(are_above) / are_above.size
    num_thresholds = len(or_tied) * float(block.num_positives[rows].double().mean())
    cost_of_comparing = num_thresholds * _COST_OF_A_COMPARISON
    cost_of_sorting = _COST_OF_SORTING + num_thresholds * _COST_OF_A_SEARCH / num_items
    cost_of_picking = len(or_tied) * share_above * _COST_OF_A_PICK

    if scores.dtype == torch.float32 and cost_of_picking < min(cost_of_comparing, cost_of_sorting):
        return torch.from_numpy(_count_picks(block, rows, values, are_above, or_tied))
    if cost_of_comparing < cost_of_sorting:
        return torch.from_numpy(_count_by_comparisons(block, rows, values, marks, or_tied))
    values.sort(axis=1)
    num_removed = torch.zeros(len(scores), dtype=torch.int64, device="cpu")
    thresholds = block.thresholds[rows]
    counts = [negatives_above(scores, num_removed, thresholds, or_tied=tied) for tied in or_tied]
    return torch.stack(counts)


def _count_by_comparisons(
    block: QueryBlock, rows: slice, values: Array, marks: Array, or_tied: Sequence[bool]
) -> Array:
    """Compare all scores of each row with the first positive of the row, then with the second, and so on.

    `marks` has the scores at or above the last positive of each row on entry, and is overwritten.
    """
    thresholds = block.thresholds[rows].numpy()
    counts = np.zeros((len(or_tied), *thresholds.shape), dtype=np.int32)
    num_items = values.shape[1]
    for out, tied in zip(counts, or_tied, strict=True):
        compare = np.greater_equal if tied else np.greater
        num_rows_of_place = block.num_rows
        if tied:
            # The marks on entry are the comparison with the last positive, so one place fewer remains.
            num_rows_of_place = block.num_rows[1:]
            last = block.num_positives[rows].numpy() - 1
            out[np.arange(len(last)), last] = _num_marks(marks)
        for place, num_rows in enumerate(num_rows_of_place):
            # Rows with fewer positives are the last.
            stop = min(num_rows - rows.start, len(values))
            if stop <= 0:
                break
            compare(values[:stop], thresholds[:stop, place, None], out=marks[:stop, :num_items])
            out[:stop, place] = _num_marks(marks[:stop])
    return counts


def _num_marks(marks: Array) -> Array:
    """Return the number of marks in each row of less than 2,040 columns.

    Eight marks are read as one integer of 64 bits. At most 255 such integers are added up, so that no byte overflows.
    """
    sums = np.add.reduce(marks.view(np.uint64), axis=1)
    num_marks: Array = sums.view(np.uint8).reshape(-1, 8).sum(axis=1)
    return num_marks


def _count_picks(block: QueryBlock, rows: slice, values: Array, are_above: Array, or_tied: Sequence[bool]) -> Array:
    """Look up, among the positives of a row, the scores that are at or above its lowest positive."""
    width = block.thresholds.shape[1]
    num_rows, num_items = values.shape
    # To find cells takes a fraction of the time of finding rows and columns.
    picks = np.flatnonzero(are_above)
    row = picks // num_items
    pick_keys = _keys_of(row + rows.start, values.reshape(-1)[picks])
    # A pick lies between two positives of its row, in one bin more than there are positives.
    first_bin = row * (width + 1) - block.starts[row + rows.start]
    num_bins = num_rows * (width + 1)
    counts = np.empty((len(or_tied), num_rows, width), dtype=np.int32)
    for out, tied in zip(counts, or_tied, strict=True):
        place = block.keys.searchsorted(pick_keys, "left" if tied else "right")
        sizes = np.bincount(first_bin + place, minlength=num_bins).reshape(num_rows, width + 1)
        np.cumsum(sizes[:, :width], axis=1, out=out)
    return counts


def _keys_of(row: Array, scores: Array) -> Array:
    """Return integers that rise by the row, and within a row as scores of float32 fall."""
    keys: Array = (row << 32) + (keys_of_scores(scores) >> 32)
    return keys
