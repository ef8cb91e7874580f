"""Greedy matching for all thresholds and area ranges, given the pairs of boxes that overlap enough.

A ground truth is contested if one of its detections overlaps other ground truths, too. For instance, with detections 0
to 3 by descending score, where 0 and 1 overlap A alone, 2 overlaps B and C, and 3 overlaps C:

    A is not contested. 0 matches it under all thresholds that 0 passes, and 1 under the thresholds that 1 passes and 0
    does not: if the overlaps with A are 0.7 for 0 and 0.8 for 1, then 1 matches A under the threshold 0.75.
    B and C are contested, as 2 has a choice. The match of 3 with C depends on the match of 2, under each threshold.
    A detection that overlaps no ground truth enough is in no pair and has no column.

A crowd matches any number of detections, so it rejects none: crowds are never contested. Ground truths that count come
before a crowd. Among the ignored ones the larger overlap comes first, and of equal overlaps the last ground truth. So a
detection needs only its best crowd, and skips ignored ground truths that come after it:

    Detection 0 overlaps the ground truth A by 0.6 and the crowd B by 0.9, detection 1 overlaps A by 0.7.
    In an area range where A counts, 0 matches A, as it has the higher score, and 1 matches nothing.
    In an area range where A is ignored, 0 matches B, and 1 matches A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

from .deferred_acceptance import CandidatePairs, DistinctGroundTruths, stable_matching
from .pairs import OverlappingPairs, best_pairs, num_at_a_time, select

_BYTES_PER_CONTESTED_PAIR = 800  # about what a contested pair needs, with problems of four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 13


class Assignments(NamedTuple):
    """Matched detections; see the fields of `Matches`."""

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
    """Match uncontested ground truths at once, and contested ones by deferred acceptance.

    Thresholds ascend; detections are numbered by class and descending score.
    """
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    pairs, crowds = _split_off_crowds(pairs, distinct.ordered.is_crowd, num_detections)
    candidates = CandidatePairs(
        ground_truth=pairs.ground_truth,
        detection=pairs.detection,
        passed=torch.bucketize(pairs.iou, limits, right=True, out_int32=True),
        iou=pairs.iou,
        is_beaten=None if crowds is None else _are_preferred(crowds, pairs),
    )
    is_contested = _are_contested(candidates, distinct)
    uncontested = _match_uncontested(candidates, is_contested, len(thresholds))
    contested = select(candidates, is_contested.nonzero()[:, 0])

    # Only detections that may match have columns, in the order of detections.
    may_match = torch.zeros(num_detections, dtype=torch.bool, device=limits.device)
    may_match[uncontested.detection] = True
    may_match[contested.detection] = True
    if crowds is not None:
        may_match |= crowds.iou >= 0
        crowds = select(crowds, may_match.nonzero()[:, 0])
    columns = may_match.nonzero()[:, 0]
    column_of_detection = may_match.cumsum(0) - 1

    assignments = _assign_uncontested(
        uncontested.spread(column_of_detection, len(columns)),
        crowds,
        columns,
        distinct,
        limits,
        keep_ground_truths=keep_ground_truths,
    )
    if len(contested.detection):
        contested = contested._replace(detection=column_of_detection.index_select(0, contested.detection))
        # Groups have no columns in common, so blocks of groups can write their matches in parallel.
        blocks = list(_blocks_of_groups(contested, distinct, max_bytes))
        workers.share(partial(_assign_contested, assignments, distinct), blocks)
    return assignments


def _are_contested(candidates: CandidatePairs, distinct: DistinctGroundTruths) -> Bool[Tensor, " pairs"]:
    """Return whether the ground truth of each pair has duplicates, or a detection with several candidates."""
    has_choice = (candidates.detection.bincount() > 1).index_select(0, candidates.detection).nonzero()[:, 0]
    if distinct.capacity is None:
        is_contested = torch.zeros_like(distinct.ordered.is_crowd)
    else:
        is_contested = distinct.capacity > 1
    is_contested[candidates.ground_truth.index_select(0, has_choice)] = True
    return is_contested.index_select(0, candidates.ground_truth)


def _split_off_crowds(
    pairs: OverlappingPairs, is_crowd: Bool[Tensor, " ground_truths"], num_detections: int
) -> tuple[OverlappingPairs, OverlappingPairs | None]:
    """Return the pairs without crowds, and the best crowd of each detection; None if no pair has a crowd."""
    has_crowd = is_crowd.index_select(0, pairs.ground_truth)
    if not bool(has_crowd.any()):
        return pairs, None
    crowd_pairs = select(pairs, has_crowd.nonzero()[:, 0])
    other_pairs = select(pairs, (~has_crowd).nonzero()[:, 0])
    return other_pairs, best_pairs(crowd_pairs, num_detections, takes_last=True)


def _are_preferred(crowds: OverlappingPairs, pairs: OverlappingPairs) -> Bool[Tensor, " pairs"] | None:
    """Return whether the best crowd comes before the ground truth of a pair if that is ignored; None if never."""
    best = select(crowds, pairs.detection)
    is_last = pairs.ground_truth < best.ground_truth
    are_preferred = (best.iou > pairs.iou).logical_or_(is_last.logical_and_(best.iou == pairs.iou))
    return are_preferred if bool(are_preferred.any()) else None


class _Uncontested(NamedTuple):
    """Detections that match their only candidate, under the thresholds with indices from `low` up to `high`."""

    detection: Int[Tensor, " detections"]
    ground_truth: Int[Tensor, " detections"]
    low: Int[Tensor, " detections"]
    high: Int[Tensor, " detections"]
    low_if_ignored: Int[Tensor, " detections"] | None
    """`low` in area ranges that ignore the ground truth; None if it is the same"""

    def spread(self, column_of_detection: Int[Tensor, " _"], num_columns: int) -> _Uncontested:
        """Return a row for each column; other detections than these match under no threshold."""
        column = column_of_detection.index_select(0, self.detection)

        def spread(values: Tensor | None) -> Any:
            if values is None:
                return None
            return values.new_zeros(num_columns).index_copy_(0, column, values)

        return _Uncontested(*map(spread, self))


def _match_uncontested(
    candidates: CandidatePairs, is_contested: Bool[Tensor, " pairs"], num_thresholds: int
) -> _Uncontested:
    """Match each uncontested ground truth to the first detection that passes the threshold.

    So a detection matches under the thresholds that it passes and no better detection passes. If the ground truth is
    ignored, detections that prefer a crowd do not compete for it.
    """
    # No better detection passes the thresholds from `low` on.
    low = _passed_by_better(candidates.ground_truth, candidates.passed, num_thresholds)
    low_if_ignored = None
    lowest = low
    if candidates.is_beaten is not None:
        passed = candidates.passed.masked_fill(candidates.is_beaten, 0)
        low_if_ignored = _passed_by_better(candidates.ground_truth, passed, num_thresholds)
        low_if_ignored.masked_fill_(candidates.is_beaten, num_thresholds)
        lowest = torch.minimum(low, low_if_ignored)
    is_matched = (lowest < candidates.passed) & ~is_contested
    all_pairs = _Uncontested(
        detection=candidates.detection,
        ground_truth=candidates.ground_truth,
        low=low,
        high=candidates.passed,
        low_if_ignored=low_if_ignored,
    )
    return select(all_pairs, is_matched.nonzero()[:, 0])


def _passed_by_better(
    ground_truth: Int[Tensor, " pairs"], passed: Int[Tensor, " pairs"], num_thresholds: int
) -> Int[Tensor, " pairs"]:
    """Return the most thresholds that a detection with a better score passes with the same ground truth.

    Each ground truth is lifted to a floor above all earlier ones, so one running maximum serves all ground truths. With
    10 thresholds, for two ground truths with three and two pairs:

        passed                       4   7   2  |  5   3
        floor                        0   0   0  | 11  11
        maximum of earlier pairs     -   4   7  |  7  16     of floor + passed
        minus the floor, at least 0  0   4   7  |  0   5
    """
    floor = ground_truth * (num_thresholds + 1)
    passed_by_better = torch.zeros_like(passed)
    if len(passed) > 1:
        earlier_maximum = (floor + passed)[:-1].cummax(0).values
        passed_by_better[1:] = (earlier_maximum - floor[1:]).clamp_(min=0)
    return passed_by_better


def _assign_uncontested(
    uncontested: _Uncontested,
    crowds: OverlappingPairs | None,
    columns: Int[Tensor, " matched"],
    distinct: DistinctGroundTruths,
    limits: Float[Tensor, " thresholds"],
    *,
    keep_ground_truths: bool,
) -> Assignments:
    """Assign the uncontested matches, and match the other detections to crowds; both have a row for each column."""
    threshold = torch.arange(len(limits), dtype=uncontested.high.dtype, device=columns.device)[:, None]
    counts = ~distinct.ignored.index_select(1, uncontested.ground_truth)[:, None]
    # `matched` has the axes [thresholds, matched], and [areas, thresholds, matched] only if area ranges differ.
    is_passed = threshold < uncontested.high
    matched = is_passed & (threshold >= uncontested.low)
    true_positive = matched & counts
    if uncontested.low_if_ignored is not None:
        matched = (is_passed & (threshold >= uncontested.low_if_ignored) & ~counts).bitwise_or_(true_positive)
    rows = distinct.ordered.rows
    matched_rows = None
    if keep_ground_truths:
        matched_rows = torch.where(matched, rows.index_select(0, uncontested.ground_truth), -1)

    # Without a match, a detection matches its best crowd, under the thresholds that its overlap passes.
    if crowds is not None:
        matches_crowd = crowds.iou >= limits[:, None]
        if matched_rows is not None:
            crowd_rows = torch.where(matches_crowd, rows.index_select(0, crowds.ground_truth), -1)
            matched_rows = torch.where(matched, matched_rows, crowd_rows)
        matched = matched.bitwise_or_(matches_crowd)

    # Contested matches are written into these tensors, so they need memory of their own.
    matched = matched.expand(true_positive.shape).contiguous()
    if matched_rows is not None:
        matched_rows = matched_rows.expand(true_positive.shape).contiguous()
    return Assignments(columns, matched, true_positive, matched_rows)


def _blocks_of_groups(
    contested: CandidatePairs, distinct: DistinctGroundTruths, max_bytes: int
) -> Iterator[CandidatePairs]:
    """Yield contested pairs in blocks of whole groups."""
    group = distinct.ordered.groups.index_select(0, contested.ground_truth)
    most = num_at_a_time(max_bytes, _BYTES_PER_CONTESTED_PAIR, group.device, _CACHED_CONTESTED_PAIRS)
    lengths = group.unique_consecutive(return_counts=True)[1]
    edges = segments.edges(lengths).tolist()
    for block in segments.ranges_within(lengths, most):
        yield select(contested, slice(edges[block.start], edges[block.stop]))


def _assign_contested(assignments: Assignments, distinct: DistinctGroundTruths, contested: CandidatePairs) -> None:
    """Match contested pairs, and write the cells [area, threshold, column] of their matches."""
    _, num_thresholds, num_columns = assignments.matched.shape
    area, column, ground_truth, first, end = stable_matching(contested, distinct, num_thresholds)
    # A match has a run of thresholds, so it has several cells of one column.
    match, threshold = segments.runs(first, end - first)
    first_cell = (area * (num_thresholds * num_columns)).add_(column)
    cell = threshold.mul_(num_columns).add_(first_cell.index_select(0, match))
    assignments.matched.view(-1)[cell] = True
    counts = ~distinct.ignored[area, ground_truth]
    assignments.true_positive.view(-1)[cell] = counts.index_select(0, match)
    if assignments.ground_truths is not None:
        # In an area range all matches of a ground truth have the same runs of thresholds.
        rows = distinct.rows_of(ground_truth, area * num_thresholds + first)
        assignments.ground_truths.view(-1)[cell] = rows.index_select(0, match)
