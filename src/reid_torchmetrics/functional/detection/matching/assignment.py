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

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

from .deferred_acceptance import CandidatePairs, MatchedPairs, stable_matching
from .duplicates import DistinctGroundTruths
from .pairs import OverlappingPairs, num_at_a_time, select

_FEW_STEPS = 1 << 12  # pairs times thresholds times area ranges, for a Python loop over pairs with a choice
_FEWEST_STEPS = 1 << 9  # and for one over any pairs
_UNLIMITED = 1 << 62  # capacity of a crowd
_BYTES_PER_CONTESTED_PAIR = 800  # about what a contested pair needs, with problems of four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 13

Preferences = tuple[tuple[float, int], ...]
"""overlaps and places of the candidates of a detection, in the order of its choice"""


@dataclass(frozen=True)
class Assignments:
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
    """Match at once where detections have no choice; where they have, by deferred acceptance, or few pairs in turn.

    Thresholds ascend; detections are numbered by class and descending score.
    """
    if _is_loop_faster(pairs, distinct, len(thresholds)):
        return _match_in_turn(pairs, distinct, thresholds, keep_ground_truths=keep_ground_truths)

    # Contested and uncontested pairs; crowds are no choice.
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    others, crowds = _without_crowds(pairs, distinct.ordered.is_crowd, num_detections)
    passed = torch.bucketize(others.iou, limits, right=True, out_int32=True)
    is_beaten = None if crowds is None else crowds.are_preferred(others)
    candidates = CandidatePairs(others.ground_truth, others.detection, passed, others.iou, is_beaten)
    is_contested = _are_contested(candidates, distinct)
    uncontested = _match_uncontested(candidates, is_contested, len(thresholds))
    contested = None if is_contested is None else select(candidates, is_contested.nonzero()[:, 0])

    # Only detections that may match have columns, in their order.
    lists = [uncontested.detection, contested and contested.detection, crowds and (crowds.iou >= 0).nonzero()[:, 0]]
    columns, column_of = _number_columns(lists, num_detections)
    assignments = _assign_at_once(
        uncontested.spread(column_of, len(columns)),
        crowds and select(crowds, columns),
        columns,
        distinct,
        limits,
        keep_ground_truths=keep_ground_truths,
    )

    # Groups have columns of their own, so each block marks its matches by itself.
    def compete(block: CandidatePairs) -> None:
        _mark(stable_matching(block, distinct, num_thresholds=len(thresholds)), distinct, assignments)

    if contested is not None and len(contested.detection):
        contested = contested._replace(detection=column_of.index_select(0, contested.detection))
        workers.share(compete, [*_blocks_of_groups(contested, distinct, max_bytes)])
    return assignments


def _is_loop_faster(pairs: OverlappingPairs, distinct: DistinctGroundTruths, num_thresholds: int) -> bool:
    """Whether a Python loop is faster: few pairs on the CPU, and a detection with a choice or a duplicate."""
    num_steps = len(pairs.iou) * len(distinct.ignored) * num_thresholds
    if pairs.iou.device.type != "cpu" or not 0 < num_steps <= _FEW_STEPS:
        return False
    is_tiny, has_duplicates = num_steps <= _FEWEST_STEPS, distinct.capacity is not None
    return is_tiny or has_duplicates or bool((pairs.detection.bincount() > 1).any())


def _are_contested(candidates: CandidatePairs, distinct: DistinctGroundTruths) -> Bool[Tensor, " pairs"] | None:
    """Whether the ground truth of a pair is a candidate of a detection with others, or has duplicates; None if none."""
    has_choice = (candidates.detection.bincount() > 1).index_select(0, candidates.detection).nonzero()[:, 0]
    if not len(has_choice) and distinct.capacity is None:
        return None
    # By ground truth, then by pair.
    is_contested = torch.zeros_like(distinct.ordered.is_crowd)
    if distinct.capacity is not None:
        is_contested |= distinct.capacity > 1
    is_contested[candidates.ground_truth.index_select(0, has_choice)] = True
    return is_contested.index_select(0, candidates.ground_truth)


def _number_columns(
    lists: Sequence[Int[Tensor, " _"] | None], num_detections: int
) -> tuple[Int[Tensor, " matched"], Int[Tensor, " detections"]]:
    """The detections in any of the lists, ascending, and the column of each of them."""
    listed = [detections for detections in lists if detections is not None]
    is_column = torch.zeros(num_detections, dtype=torch.bool, device=listed[0].device)
    for detections in listed:
        is_column[detections] = True
    columns = is_column.nonzero()[:, 0]
    column_of = columns.new_empty(num_detections)
    column_of[columns] = torch.arange(len(columns), device=columns.device)
    return columns, column_of


class _BestCrowds(NamedTuple):
    """The crowd that each detection prefers to other crowds."""

    ground_truth: Int[Tensor, " detections"]
    iou: Float[Tensor, " detections"]
    """-1 without a crowd"""

    def are_preferred(self, pairs: OverlappingPairs) -> Bool[Tensor, " pairs"] | None:
        """Whether the crowd comes before the ground truth of a pair if that is ignored; None if none does."""
        best = select(self, pairs.detection)
        is_last = pairs.ground_truth < best.ground_truth
        are_preferred = (best.iou > pairs.iou).logical_or_(is_last.logical_and_(best.iou == pairs.iou))
        return are_preferred if bool(are_preferred.any()) else None


def _without_crowds(
    pairs: OverlappingPairs, is_crowd: Bool[Tensor, " ground_truths"], num_detections: int
) -> tuple[OverlappingPairs, _BestCrowds | None]:
    """The pairs of other ground truths, and the best crowds; None if no pair has a crowd."""
    # Of the largest overlaps with a crowd, the last one is the best.
    of_crowds = is_crowd.index_select(0, pairs.ground_truth)
    if not bool(of_crowds.any()):
        return pairs, None
    crowds, others = (select(pairs, mask.nonzero()[:, 0]) for mask in (of_crowds, ~of_crowds))
    iou = crowds.iou.new_full((num_detections,), -1).scatter_reduce_(0, crowds.detection, crowds.iou, "amax")
    best = select(crowds, (crowds.iou == iou.index_select(0, crowds.detection)).nonzero()[:, 0])
    last = best.ground_truth.new_zeros(num_detections)
    return others, _BestCrowds(last.scatter_reduce_(0, best.detection, best.ground_truth, "amax"), iou)


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
    candidates: CandidatePairs, is_contested: Bool[Tensor, " pairs"] | None, num_thresholds: int
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
    is_matched = least < candidates.passed
    if is_contested is not None:
        is_matched &= ~is_contested
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
    crowds: _BestCrowds | None,
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


def _mark(matches: MatchedPairs, distinct: DistinctGroundTruths, assignments: Assignments) -> None:
    """Mark the cells [area, threshold, column] of contested pairs that are matched."""
    # A match has a run of thresholds, so several cells in one column.
    _, num_thresholds, num_columns = assignments.matched.shape
    match, threshold = segments.runs(matches.first, matches.last - matches.first)
    first_cell = (matches.area * (num_thresholds * num_columns)).add_(matches.detection)
    cell = threshold.mul_(num_columns).add_(first_cell.index_select(0, match))
    assignments.matched.view(-1)[cell] = True
    counts = ~distinct.ignored[matches.area, matches.ground_truth]
    assignments.true_positive.view(-1)[cell] = counts.index_select(0, match)
    if assignments.ground_truths is not None:
        # The matches of a ground truth have runs of thresholds in common, in an area range.
        rows = distinct.rows_of(matches.ground_truth, matches.area * num_thresholds + matches.first)
        assignments.ground_truths.view(-1)[cell] = rows.index_select(0, match)


def _match_in_turn(
    pairs: OverlappingPairs, distinct: DistinctGroundTruths, thresholds: Sequence[float], *, keep_ground_truths: bool
) -> Assignments:
    """Greedy matching by its definition, one detection after the other; the result is that of `assign`.

    Rounds of proposals take hundreds of tensor operations, each as long for one pair as for a thousand. A training loop
    evaluates an image at a time, and a Python loop over its pairs is faster.
    """
    # The candidates of each detection: the largest overlap first, and of equal overlaps the last ground truth.
    candidates: dict[int, list[tuple[float, int]]] = {}
    lists = [column.tolist() for column in (pairs.detection, pairs.iou, pairs.ground_truth)]
    for detection, iou, ground_truth in sorted(zip(*lists, strict=True), reverse=True):
        candidates.setdefault(detection, []).append((iou, ground_truth))
    detections = sorted(candidates)  # by descending score
    ordered, capacity = distinct.ordered, distinct.capacity
    capacities = [1] * len(ordered.rows) if capacity is None else capacity.tolist()
    for crowd in ordered.is_crowd.nonzero()[:, 0].tolist():
        capacities[crowd] = _UNLIMITED

    place = np.empty((len(distinct.ignored), len(thresholds), len(detections)), np.int64)
    # Thresholds that the same pairs pass have the same matches, and most area ranges have the same preferences.
    overlaps = sorted(lists[1])
    run = [bisect_left(overlaps, threshold) for threshold in thresholds]
    least = dict(zip(run, thresholds, strict=True))
    results: dict[tuple[Preferences, ...], Any] = {}
    in_one_phase = tuple(tuple(candidates[detection]) for detection in detections)
    for area, ignored in enumerate(distinct.ignored.tolist()):
        has_phases = len({*ignored}) > 1
        preferences = tuple(_by_phase(each, ignored) for each in in_one_phase) if has_phases else in_one_phase
        if preferences not in results:
            matches = {each: _greedy_matches(preferences, capacities, least[each]) for each in least}
            results[preferences] = np.array([matches[each] for each in run])
        place[area] = results[preferences]

    # From places of ground truths to rows, for the detections that match any.
    matched = place >= 0
    is_ignored = distinct.ignored.numpy()[np.arange(len(place))[:, None, None], place]
    rows = np.full_like(place, -1) if keep_ground_truths else matched
    if keep_ground_truths:
        problem = matched.reshape(-1, len(detections)).nonzero()[0]
        rows[matched] = distinct.rows_of(torch.from_numpy(place[matched]), torch.from_numpy(problem)).numpy()
    is_column = matched.any((0, 1))
    values = (np.array(detections, np.int64), matched, matched & ~is_ignored, rows)
    cells = [torch.from_numpy(each.compress(is_column, -1)) for each in values]
    return Assignments(cells[0], cells[1], cells[2], cells[3] if keep_ground_truths else None)


def _by_phase(candidates: Preferences, ignored: Sequence[bool]) -> Preferences:
    """Phase 1 of pycocotools looks at the ground truths that count, phase 2 at the ignored ones."""
    return tuple(sorted(candidates, key=lambda candidate: ignored[candidate[1]]))


def _greedy_matches(preferences: Sequence[Preferences], capacities: Sequence[int], threshold: float) -> list[int]:
    """The ground truth of each detection by descending score: the first that overlaps enough and is free, else -1."""
    free = [*capacities]
    return [_match_first(candidates, free, threshold) for candidates in preferences]


def _match_first(candidates: Preferences, free: list[int], threshold: float) -> int:
    for iou, ground_truth in candidates:
        if iou >= threshold and free[ground_truth]:
            free[ground_truth] -= 1
            return ground_truth
    return -1
