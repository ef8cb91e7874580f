"""Greedy matching for all thresholds and area ranges, given the pairs of boxes that overlap enough.

With detections 0 to 3 by descending score, where 0 and 1 overlap A alone, 2 overlaps B and C, and 3 overlaps C:

    A is not contested: its detections have no other, so 0 matches it under all thresholds that it passes, and 1 under
    those that it passes and 0 does not, such as 0.75 if A overlaps 0 by 0.7 and 1 by 0.8;
    B and C are contested, as 2 has a choice: whether 3 gets C depends on the match of 2, threshold by threshold;
    a detection that overlaps no ground truth enough is in no pair and has no column.

A crowd matches any number of detections and so rejects none: crowds are never contested. Ground truths that count come
before a crowd; among the ignored ones the larger overlap comes first, and of equal overlaps the last ground truth. So a
detection needs only its best crowd; any ignored ground truth it likes less can be skipped:

    detection 0 overlaps the ground truth A by 0.6 and the crowd B by 0.9, detection 1 overlaps A by 0.7;
    where A counts, 0 matches A, if its score is the higher one, and 1 matches nothing;
    where A is ignored, 0 matches B, and 1 matches A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

from .deferred_acceptance import CandidatePairs, stable_matching
from .duplicates import DistinctGroundTruths
from .pairs import OverlappingPairs, best_pairs, num_at_a_time, select

_BYTES_PER_CONTESTED_PAIR = 800  # about what a contested pair needs, with problems of four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 13


class Assignments(NamedTuple):
    """The detections that are matched, see the fields of `Matches`."""

    columns: Int[Tensor, " matched"]
    matched: Bool[Tensor, "areas thresholds matched"]
    true_positive: Bool[Tensor, "areas thresholds matched"]
    ground_truths: Int[Tensor, "areas thresholds matched"] | None


def assign(
    pairs: OverlappingPairs,
    distinct: DistinctGroundTruths,
    thresholds: Sequence[float],
    *,
    num_detections: int,
    keep_ground_truths: bool,
    max_bytes: int,
) -> Assignments:
    """Match at once where detections have no choice, and by deferred acceptance where they have.

    Thresholds ascend; detections are numbered by class and descending score.
    """
    # Contested and uncontested pairs; crowds are no choice.
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    others, crowds = _without_crowds(pairs, distinct.ordered.is_crowd, num_detections)
    passed = torch.bucketize(others.iou, limits, right=True, out_int32=True)
    is_beaten = None if crowds is None else _are_preferred(crowds, others)
    candidates = CandidatePairs(others.ground_truth, others.detection, passed, others.iou, is_beaten)
    is_contested = _are_contested(candidates, distinct)
    uncontested = _match_uncontested(candidates, is_contested, len(thresholds))
    contested = select(candidates, is_contested.nonzero()[:, 0])

    # Only detections that may match have columns, in their order.
    may_match = torch.zeros(num_detections, dtype=torch.bool, device=limits.device)
    may_match[uncontested.detection] = True
    may_match[contested.detection] = True
    if crowds is not None:
        may_match |= crowds.iou >= 0
        crowds = select(crowds, may_match.nonzero()[:, 0])
    columns, column_of = may_match.nonzero()[:, 0], may_match.cumsum(0) - 1
    uncontested = uncontested.spread(column_of, len(columns))
    assignments = _assign_at_once(uncontested, crowds, columns, distinct, limits, keep_ground_truths=keep_ground_truths)
    if len(contested.detection):
        contested = contested._replace(detection=column_of.index_select(0, contested.detection))
        # Groups have columns of their own, so each block marks its matches by itself.
        workers.share(partial(_compete, assignments, distinct), [*_blocks_of_groups(contested, distinct, max_bytes)])
    return assignments


def _are_contested(candidates: CandidatePairs, distinct: DistinctGroundTruths) -> Bool[Tensor, " pairs"]:
    """Whether the ground truth of a pair is a candidate of a detection with others, or has duplicates."""
    has_choice = (candidates.detection.bincount() > 1).index_select(0, candidates.detection).nonzero()[:, 0]
    # By ground truth, then by pair.
    is_contested = torch.zeros_like(distinct.ordered.is_crowd) if distinct.capacity is None else distinct.capacity > 1
    is_contested[candidates.ground_truth.index_select(0, has_choice)] = True
    return is_contested.index_select(0, candidates.ground_truth)


def _without_crowds(
    pairs: OverlappingPairs, is_crowd: Bool[Tensor, " ground_truths"], num_detections: int
) -> tuple[OverlappingPairs, OverlappingPairs | None]:
    """The pairs of other ground truths, and the best crowd of each detection; None if no pair has a crowd."""
    of_crowds = is_crowd.index_select(0, pairs.ground_truth)
    if not bool(of_crowds.any()):
        return pairs, None
    crowds, others = (select(pairs, mask.nonzero()[:, 0]) for mask in (of_crowds, ~of_crowds))
    return others, best_pairs(crowds, num_detections, takes_last=True)


def _are_preferred(crowds: OverlappingPairs, pairs: OverlappingPairs) -> Bool[Tensor, " pairs"] | None:
    """Whether the best crowd comes before the ground truth of a pair if that is ignored; None if none does."""
    best = select(crowds, pairs.detection)
    is_last = pairs.ground_truth < best.ground_truth
    are_preferred = (best.iou > pairs.iou).logical_or_(is_last.logical_and_(best.iou == pairs.iou))
    return are_preferred if bool(are_preferred.any()) else None


class _Uncontested(NamedTuple):
    """Detections that match their only candidate, under the thresholds from number `low` up to `high`."""

    detection: Int[Tensor, " detections"]
    ground_truth: Int[Tensor, " detections"]
    low: Int[Tensor, " detections"]
    high: Int[Tensor, " detections"]
    low_if_ignored: Int[Tensor, " detections"] | None
    """in area ranges that ignore the ground truth; None if that makes no difference"""

    def spread(self, column_of: Int[Tensor, " _"], num_columns: int) -> _Uncontested:
        """The same for all columns; detections that are not here match under no threshold."""
        column = column_of.index_select(0, self.detection)

        def spread(values: Tensor | None) -> Any:
            return None if values is None else values.new_zeros(num_columns).index_copy_(0, column, values)

        return _Uncontested(*map(spread, self))


def _match_uncontested(
    candidates: CandidatePairs, is_contested: Bool[Tensor, " pairs"], num_thresholds: int
) -> _Uncontested:
    """Match ground truths that are not contested: each goes to the first detection that passes the threshold.

    So a detection matches under the thresholds that it passes and no better one does. Where the ground truth is
    ignored, detections that prefer a crowd leave it to the others.
    """
    # Thresholds from `low` on are passed by no better detection.
    low = least = _passed_by_better(candidates.ground_truth, candidates.passed, num_thresholds)
    low_if_ignored = None
    if candidates.is_beaten is not None:
        passed = candidates.passed.masked_fill(candidates.is_beaten, 0)
        low_if_ignored = _passed_by_better(candidates.ground_truth, passed, num_thresholds)
        low_if_ignored.masked_fill_(candidates.is_beaten, num_thresholds)
        least = torch.minimum(low, low_if_ignored)
    is_matched = (least < candidates.passed) & ~is_contested
    alone = _Uncontested(candidates.detection, candidates.ground_truth, low, candidates.passed, low_if_ignored)
    return select(alone, is_matched.nonzero()[:, 0])


def _passed_by_better(
    ground_truth: Int[Tensor, " pairs"], passed: Int[Tensor, " pairs"], num_thresholds: int
) -> Int[Tensor, " pairs"]:
    """The most thresholds that any detection with a better score passes with the same ground truth."""
    # Higher for later ground truths, so that the maximum of all pairs before is that of the same ground truth.
    floor = ground_truth * (num_thresholds + 1)
    better = torch.zeros_like(passed)
    if len(passed) > 1:
        better[1:] = ((floor + passed)[:-1].cummax(0).values - floor[1:]).clamp_(min=0)
    return better


def _assign_at_once(
    uncontested: _Uncontested,
    crowds: OverlappingPairs | None,
    columns: Int[Tensor, " matched"],
    distinct: DistinctGroundTruths,
    limits: Float[Tensor, " thresholds"],
    *,
    keep_ground_truths: bool,
) -> Assignments:
    """Mark the uncontested matches, and match the other detections to crowds; both are given for all columns."""
    threshold = torch.arange(len(limits), dtype=uncontested.high.dtype, device=columns.device)[:, None]
    counts = ~distinct.ignored.index_select(1, uncontested.ground_truth)[:, None]
    # [thresholds, matched], and [areas, thresholds, matched] if ranges that ignore the ground truth differ.
    is_passed = threshold < uncontested.high
    matched = is_passed & (threshold >= uncontested.low)
    true_positive = matched & counts
    if uncontested.low_if_ignored is not None:
        matched = (is_passed & (threshold >= uncontested.low_if_ignored) & ~counts).bitwise_or_(true_positive)
    rows, matched_rows = distinct.ordered.rows, None
    if keep_ground_truths:
        matched_rows = torch.where(matched, rows.index_select(0, uncontested.ground_truth), -1)
    # Without a match, a detection matches its best crowd, under the thresholds that its overlap passes.
    if crowds is not None:
        is_inside = crowds.iou >= limits[:, None]
        if matched_rows is not None:
            crowd_rows = torch.where(is_inside, rows.index_select(0, crowds.ground_truth), -1)
            matched_rows = torch.where(matched, matched_rows, crowd_rows)
        matched = matched.bitwise_or_(is_inside)
    if matched_rows is not None:
        matched_rows = matched_rows.expand(true_positive.shape).contiguous()
    return Assignments(columns, matched.expand(true_positive.shape).contiguous(), true_positive, matched_rows)


def _blocks_of_groups(
    contested: CandidatePairs, distinct: DistinctGroundTruths, max_bytes: int
) -> Iterator[CandidatePairs]:
    """Contested pairs in blocks of whole groups; slower groups, with duplicates, have blocks of their own."""
    group = distinct.ordered.groups.index_select(0, contested.ground_truth)
    most = num_at_a_time(max_bytes, _BYTES_PER_CONTESTED_PAIR, group.device, _CACHED_CONTESTED_PAIRS)
    if len(group) <= most and distinct.capacity is None:
        yield contested
        return
    parts: list[Tensor | slice] = [slice(None)]
    if distinct.capacity is not None:
        has_duplicates = torch.zeros_like(distinct.ordered.starts, dtype=torch.bool)
        has_duplicates[distinct.ordered.groups[distinct.capacity > 1]] = True
        is_apart = has_duplicates.index_select(0, group)
        parts = [mask.nonzero()[:, 0] for mask in (~is_apart, is_apart)]
    for places in parts:
        pairs, lengths = select(contested, places), group[places].unique_consecutive(return_counts=True)[1]
        edges = segments.edges(lengths).tolist()
        for block in segments.ranges_within(lengths, most):
            yield select(pairs, slice(edges[block.start], edges[block.stop]))


def _compete(assignments: Assignments, distinct: DistinctGroundTruths, contested: CandidatePairs) -> None:
    """Match contested pairs, and mark the cells [area, threshold, column] of their matches."""
    _, num_thresholds, num_columns = assignments.matched.shape
    area, column, ground_truth, first, last = stable_matching(contested, distinct, num_thresholds)
    # A match has a run of thresholds, so several cells in one column.
    match, threshold = segments.runs(first, last - first)
    first_cell = (area * (num_thresholds * num_columns)).add_(column)
    cell = threshold.mul_(num_columns).add_(first_cell.index_select(0, match))
    assignments.matched.view(-1)[cell] = True
    counts = ~distinct.ignored[area, ground_truth]
    assignments.true_positive.view(-1)[cell] = counts.index_select(0, match)
    if assignments.ground_truths is not None:
        # The matches of a ground truth have runs of thresholds in common, in an area range.
        rows = distinct.rows_of(ground_truth, area * num_thresholds + first)
        assignments.ground_truths.view(-1)[cell] = rows.index_select(0, match)
