"""Merging of duplicate ground truths, identical neighbors in one image and class, into one with a capacity.

A detection overlaps all duplicates equally and matches the last one that is free, so the best detection gets the last:

    duplicates in rows 4, 5, 6, detections 0 to 3 by descending score: 0 matches row 6, 1 row 5, 2 row 4, and 3 none.

Without this, n equal boxes that are detected n times give n * n pairs, and n rounds of proposals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import OrderedGroundTruths, Shapes


class DistinctGroundTruths(NamedTuple):
    """Ground truths in order, with duplicates merged into the last one of them."""

    ordered: OrderedGroundTruths
    shapes: Shapes
    """in this order"""
    ignored: Bool[Tensor, "areas ground_truths"]
    capacity: Int[Tensor, " ground_truths"] | None = None
    """number of detections that can match it; None if every capacity is 1. A crowd has 1, as it is never contested"""
    all_rows: Int[Tensor, " all_ground_truths"] | None = None
    """rows in order before merging; None without duplicates"""
    last: Int[Tensor, " ground_truths"] | None = None
    """the place in `all_rows` of the last of the duplicates; None without duplicates"""

    def rows_of(
        self, ground_truth: Int[Tensor, " matches"], problem: Int[Tensor, " matches"]
    ) -> Int[Tensor, " matches"]:
        """Return the row of the ground truth of each match; matches are by descending score in each problem.

        A problem is an area range and a threshold, where detections that match duplicates get different rows.
        """
        if self.capacity is None or self.all_rows is None or self.last is None:
            return self.ordered.rows.index_select(0, ground_truth)
        # The detections of a ground truth keep their order: rank 0 is the best one, and gets the last duplicate.
        rank = segments.ranks(problem * len(self.last) + ground_truth)
        largest_rank = self.capacity.index_select(0, ground_truth) - 1  # all detections in a crowd match the same row
        place = self.last.index_select(0, ground_truth) - torch.minimum(rank, largest_rank)
        return self.all_rows.index_select(0, place)


def merge_duplicates(
    ground_truths: OrderedGroundTruths, shapes: Shapes, ignored: Bool[Tensor, "areas ground_truths"]
) -> DistinctGroundTruths:
    """Merge neighbors with equal shapes that are both crowds or not, and that the same area ranges ignore.

    `shapes` are by row. Only neighbors are merged, because a tie may go to a ground truth between two duplicates.
    """
    shapes = shapes[ground_truths.rows]
    is_duplicate = shapes.repeats()
    if is_duplicate is None:
        return DistinctGroundTruths(ground_truths, shapes, ignored)
    for values in (ground_truths.groups, ground_truths.is_crowd, *ignored):
        is_duplicate[1:] &= values[1:] == values[:-1]
    first = (~is_duplicate).nonzero()[:, 0]
    last = torch.cat([first[1:], first.new_full((1,), len(is_duplicate))]) - 1
    distinct = ground_truths._replace(
        rows=ground_truths.rows.index_select(0, last),
        class_index=ground_truths.class_index.index_select(0, last),
        is_crowd=ground_truths.is_crowd.index_select(0, last),
        groups=ground_truths.groups.index_select(0, last),
    )
    return DistinctGroundTruths(
        ordered=distinct,
        shapes=shapes[last],
        ignored=ignored.index_select(1, last),
        capacity=(last - first + 1).masked_fill_(distinct.is_crowd, 1),
        all_rows=ground_truths.rows,
        last=last,
    )
