"""Detections that have no choice: what they take under all thresholds and area ranges is known without competition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .crowds import BestCrowds
from .deferred_acceptance import CandidatePairs
from .kinds import Kinds


@dataclass(frozen=True)
class Assignments:
    """Which detections are matched, see the fields of `Matches`."""

    columns: Int[Tensor, " matched"]
    matched: Bool[Tensor, "areas thresholds matched"]
    true_positive: Bool[Tensor, "areas thresholds matched"]
    ground_truths: Int[Tensor, "areas thresholds matched"] | None


class Uncontested(NamedTuple):
    """Detections that take one ground truth, under the thresholds from one number up to another."""

    ground_truth: Int[Tensor, " detections"]
    low: Int[Tensor, " detections"]
    high: Int[Tensor, " detections"]
    low_if_ignored: Int[Tensor, " detections"] | None
    """in area ranges that ignore the ground truth; None if that makes no difference"""

    def spread(self, column: Int[Tensor, " detections"], num_columns: int) -> Uncontested:
        """The same for all columns; the others take nothing."""
        return Uncontested(*_spread(column, num_columns, *self))


class InCrowds(NamedTuple):
    """Detections that lie in a crowd under the first so many thresholds, where they take nothing else."""

    ground_truth: Int[Tensor, " detections"]
    passed: Int[Tensor, " detections"]

    def spread(self, column: Int[Tensor, " detections"], num_columns: int) -> InCrowds:
        """The same for all columns; the others lie in none."""
        return InCrowds(*_spread(column, num_columns, *self))


def without_choice(
    candidates: CandidatePairs, is_contested: Bool[Tensor, " pairs"], num_thresholds: int
) -> tuple[Int[Tensor, " detections"], Uncontested]:
    """Detections whose ground truth is not contested, and what they take.

    It is taken under a threshold by the first that passes it: a detection takes it under those that it passes and none
    before it did. Where it is ignored, detections that prefer a crowd leave it to the others.
    """
    low = least = _passed_by_better(candidates.ground_truth, candidates.passed, num_thresholds)
    low_if_ignored = None
    if candidates.is_beaten is not None:
        asked = candidates.passed.masked_fill(candidates.is_beaten, 0)
        low_if_ignored = _passed_by_better(candidates.ground_truth, asked, num_thresholds)
        low_if_ignored.masked_fill_(candidates.is_beaten, num_thresholds)
        least = torch.minimum(low, low_if_ignored)
    taking = (least < candidates.passed).logical_and_(~is_contested).nonzero()[:, 0]
    columns = (candidates.column, candidates.ground_truth, low, candidates.passed)
    column, ground_truth, low, high = (each.index_select(0, taking) for each in columns)
    if low_if_ignored is not None:
        low_if_ignored = low_if_ignored.index_select(0, taking)
    return column, Uncontested(ground_truth, low, high, low_if_ignored)


def lying_in(
    crowds: BestCrowds, grouped: Int[Tensor, " detections"], limits: Float[Tensor, " thresholds"]
) -> tuple[Int[Tensor, " some"], InCrowds]:
    """The detections that have a crowd, and which."""
    some = (crowds.ground_truth >= 0).nonzero()[:, 0]
    passed = torch.bucketize(crowds.iou.index_select(0, some), limits, right=True, out_int32=True)
    return grouped.index_select(0, some), InCrowds(crowds.ground_truth.index_select(0, some), passed)


def assign_at_once(
    alone: Uncontested,
    in_crowds: InCrowds | None,
    columns: Int[Tensor, " matched"],
    kinds: Kinds,
    *,
    num_thresholds: int,
    keep_ground_truths: bool,
) -> Assignments:
    """What those take who have no choice, and where those lie who take nothing; both are given for all columns."""
    threshold = torch.arange(num_thresholds, dtype=alone.high.dtype, device=columns.device)[:, None]
    counts = ~kinds.ignored.index_select(1, alone.ground_truth)[:, None]
    # Who takes his ground truth: [thresholds, matched], and [areas, ...] where ranges that ignore it differ.
    is_reached = threshold < alone.high
    takes = is_reached & (threshold >= alone.low)
    true_positive = takes & counts
    if alone.low_if_ignored is not None:
        takes = (is_reached & (threshold >= alone.low_if_ignored) & ~counts).bitwise_or_(true_positive)
    rows = kinds.ground_truths.rows
    taken = torch.where(takes, rows.index_select(0, alone.ground_truth), -1) if keep_ground_truths else None
    if in_crowds is not None:
        is_inside = threshold < in_crowds.passed
        if taken is not None:
            crowd = torch.where(is_inside, rows.index_select(0, in_crowds.ground_truth), -1)
            taken = torch.where(takes, taken, crowd)
        takes = takes.bitwise_or_(is_inside)
    if taken is not None:
        taken = taken.expand(true_positive.shape).contiguous()
    return Assignments(columns, takes.expand(true_positive.shape).contiguous(), true_positive, taken)


def _spread(column: Int[Tensor, " some"], num_columns: int, *values: Tensor | None) -> Iterator[Any]:
    for each in values:
        yield None if each is None else each.new_zeros(num_columns).index_copy_(0, column, each)


def _passed_by_better(
    ground_truth: Int[Tensor, " pairs"], passed: Int[Tensor, " pairs"], num_thresholds: int
) -> Int[Tensor, " pairs"]:
    """The most thresholds that a detection with a better score passes with the same ground truth."""
    floor = ground_truth * (num_thresholds + 1)  # so that the maximum over all before is that over the same one's
    better = torch.zeros_like(passed)
    if len(passed) > 1:
        better[1:] = ((floor + passed)[:-1].cummax(0).values - floor[1:]).clamp_(min=0)
    return better
