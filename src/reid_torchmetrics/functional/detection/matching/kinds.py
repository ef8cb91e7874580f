"""Equal ground truths as one: neighbors in a group that all detections prefer alike, and that count alike."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import OrderedGroundTruths, Shapes


class Kinds(NamedTuple):
    """Ground truths of which those that are equal and follow each other are one kind; most kinds have one."""

    ground_truths: OrderedGroundTruths
    """the last of each kind, which is taken first"""
    ignored: Bool[Tensor, "areas kinds"]
    copies: Int[Tensor, " kinds"] | None
    """how many detections may take one of a kind; None if all kinds have one. A crowd takes any number as it is"""
    rows: Int[Tensor, " ground_truths"]
    """of all ground truths in their order"""
    last: Int[Tensor, " kinds"] | None
    """where the last of each kind is in that order; None if all kinds have one"""

    def rows_of(self, kind: Int[Tensor, " matches"], rank: Int[Tensor, " matches"]) -> Int[Tensor, " matches"]:
        """Rows of the ground truths that detections took who came as number `rank` of those that took the kind."""
        place = kind if self.last is None else self.last.index_select(0, kind) - rank
        return self.rows.index_select(0, place)


def find_kinds(
    ground_truths: OrderedGroundTruths, shapes: Shapes, ignored: Bool[Tensor, "areas ground_truths"]
) -> Kinds:
    """Make equal neighbors of a group one: equal shapes, all crowds or none, ignored by the same area ranges.

    Detections overlap them equally and prefer the last of them that is left. So no other comes between them, and those
    that are held by one kind, of whichever number, are its best proposers: the best one takes the last.
    """
    is_equal = shapes[ground_truths.rows].repeats()
    if is_equal is None or not bool(is_equal.any()):
        return Kinds(ground_truths, ignored, None, ground_truths.rows, None)
    for values in (ground_truths.groups, ground_truths.is_crowd, *ignored):
        is_equal[1:] &= values[1:] == values[:-1]
    first = (~is_equal).nonzero()[:, 0]
    last = torch.cat([first[1:], first.new_full((1,), len(is_equal))]) - 1
    of_kinds = {name: getattr(ground_truths, name).index_select(0, last) for name in _BY_GROUND_TRUTH}
    copies = (last - first + 1).masked_fill_(of_kinds["is_crowd"], 1)
    kinds = ground_truths._replace(**of_kinds)
    return Kinds(kinds, ignored.index_select(1, last), copies, ground_truths.rows, last)


_BY_GROUND_TRUTH = ("rows", "class_index", "is_crowd", "groups")
