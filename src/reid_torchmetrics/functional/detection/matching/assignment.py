"""Which detection takes which ground truth, of pairs that overlap enough: for all thresholds and areas at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.inputs import OrderedDetections
from reid_torchmetrics.functional.detection.matching.candidates import num_at_a_time
from reid_torchmetrics.functional.detection.matching.deferred_acceptance import (
    CandidatePairs,
    MatchedPairs,
    stable_matching,
)
from reid_torchmetrics.functional.detection.matching.kinds import Kinds
from reid_torchmetrics.functional.detection.matching.pairs import Pairs

_BYTES_PER_CONTESTED_PAIR = 800  # about what is held of a pair that competes, with the copies for four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 13


@dataclass(frozen=True)
class Assignments:
    """Which detections are matched, see the fields of `Matches`."""

    columns: Int[Tensor, " matched"]
    matched: Bool[Tensor, "areas thresholds matched"]
    true_positive: Bool[Tensor, "areas thresholds matched"]
    ground_truths: Int[Tensor, "areas thresholds matched"] | None


def assign(
    pairs: Pairs,
    detections: OrderedDetections,
    kinds: Kinds,
    thresholds: list[float],
    *,
    keep_ground_truths: bool,
    max_bytes: int,
) -> Assignments:
    """Match what overlaps: at once where detections have no choice, by deferred acceptance where they have.

    With detections 0 to 3 by descending score, of which 0 and 1 overlap A alone, 2 overlaps B and C, and 3 overlaps C:

        A is not contested: its detections have no other, so 0 takes it under all thresholds that it passes, and 1
        under those that it passes and 0 does not, such as 0.75 if A overlaps 0 by 0.7 and 1 by 0.8;
        B and C are contested, as 2 has a choice: whether 3 gets C depends on what 2 takes, threshold by threshold;
        a detection that overlaps no ground truth enough is in no pair and has no column.
    """
    ground_truths, ignored = kinds.ground_truths, kinds.ignored
    is_crowd = ground_truths.is_crowd.index_select(0, pairs.ground_truth)
    if bool(is_crowd.any()):
        kept = _without_worse_crowds(pairs, is_crowd, len(detections.rows))
        is_crowd = is_crowd.index_select(0, kept)
        pairs = Pairs(*(column.index_select(0, kept) for column in pairs))
    # Of each pair: how many thresholds it passes, and the place of its detection in the order of accumulation.
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    passed = torch.bucketize(pairs.iou, limits, right=True)
    place = detections.grouped.index_select(0, pairs.detection)

    # Where nobody has a choice, a pair matches under the thresholds from `better` up to `passed`, if there are any.
    is_contested = _are_contested(pairs.ground_truth, place, is_crowd, kinds)
    better = _passed_by_better(pairs.ground_truth, passed, len(thresholds))
    better = better.masked_fill_(is_crowd, 0)  # a crowd takes all
    alone = (~is_contested & (better < passed)).nonzero()[:, 0]
    contested_pairs = is_contested.nonzero()[:, 0]

    # Only detections of these pairs may match: they have columns, in their order, and `column` is that of each pair.
    columns, column = _number_columns(place, (alone, contested_pairs), len(detections.rows))
    candidates = CandidatePairs(pairs.ground_truth, column, passed, pairs.iou)
    taken = _without_choice(
        candidates,
        alone,
        better,
        columns=columns,
        ignored=ignored,
        num_thresholds=len(thresholds),
        rows=ground_truths.rows if keep_ground_truths else None,
    )

    # The others, some groups at a time.
    def compete(some: Tensor) -> MatchedPairs:
        return stable_matching(candidates.at(some), kinds, len(columns), num_thresholds=len(thresholds))

    for matched in workers.share(compete, [*_blocks_of_groups(candidates, contested_pairs, kinds, max_bytes)]):
        _add(matched, kinds, taken)
    return taken


def _add(matched: MatchedPairs, kinds: Kinds, taken: Assignments) -> None:
    """Mark the cells [area, threshold, column] of pairs that were matched."""
    cells = (matched.area, matched.threshold, matched.column)
    taken.matched[cells] = True
    taken.true_positive[cells] = ~kinds.ignored[matched.area, matched.ground_truth]
    if taken.ground_truths is not None:
        taken.ground_truths[cells] = kinds.rows_of(matched.ground_truth, matched.rank)


def _number_columns(
    place: Int[Tensor, " pairs"], chosen: Sequence[Int[Tensor, " _"]], num_detections: int
) -> tuple[Int[Tensor, " matched"], Int[Tensor, " pairs"]]:
    """Places of the detections of chosen pairs, ascending, and the number among them of each pair's detection.

    The second is only right for detections of chosen pairs.
    """
    is_column = torch.zeros(num_detections, dtype=torch.bool, device=place.device)
    for pairs in chosen:
        is_column[place.index_select(0, pairs)] = True
    columns = is_column.nonzero()[:, 0]
    column_of = place.new_empty(num_detections)
    column_of[columns] = torch.arange(len(columns), device=columns.device)
    return columns, column_of.index_select(0, place)


def _blocks_of_groups(
    candidates: CandidatePairs, contested: Int[Tensor, " contested"], kinds: Kinds, max_bytes: int
) -> Iterator[Int[Tensor, " some"]]:
    """Which pairs compete, by whole groups, which are matched together: first those where all kinds have one."""
    if not len(contested):
        return
    group = kinds.ground_truths.groups.index_select(0, candidates.ground_truth.index_select(0, contested))
    parts = [contested]
    if kinds.copies is not None:
        has_copies = torch.zeros_like(kinds.ground_truths.starts, dtype=torch.bool)
        has_copies[kinds.ground_truths.groups[kinds.copies > 1]] = True
        is_apart = has_copies.index_select(0, group)
        parts = [contested[~is_apart], contested[is_apart]]
        group = torch.cat([group[~is_apart], group[is_apart]])
    most = num_at_a_time(max_bytes, _BYTES_PER_CONTESTED_PAIR, group.device, _CACHED_CONTESTED_PAIRS)
    for pairs, groups in zip(parts, group.split([len(part) for part in parts]), strict=True):
        lengths = groups.unique_consecutive(return_counts=True)[1]
        edges = segments.edges(lengths).tolist()
        for block in segments.ranges_within(lengths, most):
            yield pairs[edges[block.start] : edges[block.stop]]


def _without_worse_crowds(pairs: Pairs, is_crowd: Bool[Tensor, " pairs"], num_detections: int) -> Int[Tensor, " kept"]:
    """The pairs but for those of a crowd that comes after another in the list of a detection: that one takes it."""
    crowds = is_crowd.nonzero()[:, 0]
    detection, iou = (column.index_select(0, crowds) for column in (pairs.detection, pairs.iou))
    best = iou.new_zeros(num_detections).scatter_reduce_(0, detection, iou, "amax").index_select(0, detection)
    # Of equal overlaps the last one comes first.
    is_best = (iou == best).nonzero()[:, 0]
    last = crowds.new_full((num_detections,), -1)
    last.scatter_reduce_(0, detection.index_select(0, is_best), crowds.index_select(0, is_best), "amax")
    is_kept = ~is_crowd
    is_kept[last[last >= 0]] = True
    return is_kept.nonzero()[:, 0]


def _are_contested(
    ground_truth: Int[Tensor, " pairs"], place: Int[Tensor, " pairs"], is_crowd: Bool[Tensor, " pairs"], kinds: Kinds
) -> Bool[Tensor, " pairs"]:
    """Whether the pair's ground truth is one of several of its kind, or wanted by a detection that has others, too.

    A crowd is not wanted, as there is enough of it: its pair is contested if the detection has another one itself.
    """
    has_others = (place.bincount() > 1).index_select(0, place)
    chosen = has_others.nonzero()[:, 0]
    if not len(chosen) and kinds.copies is None:
        return has_others
    is_contested = torch.zeros(len(kinds.ground_truths.rows), dtype=torch.bool, device=place.device)
    if kinds.copies is not None:
        is_contested |= kinds.copies > 1
    is_contested[ground_truth.index_select(0, chosen)] = True
    return torch.where(is_crowd, has_others, is_contested.index_select(0, ground_truth))


def _passed_by_better(
    ground_truth: Int[Tensor, " pairs"], passed: Int[Tensor, " pairs"], num_thresholds: int
) -> Int[Tensor, " pairs"]:
    """The most thresholds that a detection with a better score passes with the same ground truth.

    Where no detection has a choice, a ground truth is taken under a threshold by the first that passes it: a detection
    takes it under those that it passes and none before it did.
    """
    floor = ground_truth * (num_thresholds + 1)  # so that the maximum over all before is that over the same one's
    better = torch.zeros_like(passed)
    if len(passed) > 1:
        better[1:] = ((floor + passed)[:-1].cummax(0).values - floor[1:]).clamp_(min=0)
    return better


def _without_choice(
    candidates: CandidatePairs,
    alone: Int[Tensor, " alone"],
    better: Int[Tensor, " pairs"],
    *,
    columns: Int[Tensor, " matched"],
    ignored: Bool[Tensor, "areas ground_truths"],
    num_thresholds: int,
    rows: Int[Tensor, " ground_truths"] | None,
) -> Assignments:
    """Matches of detections with one ground truth to take: one range of thresholds, the same in every area range.

    `alone` are the places of their pairs, one for each of these detections; `rows` are those of ground truths.
    """
    num_areas, device = len(ignored), columns.device
    # By column, [matched]: the ground truth, and the thresholds from `low` up to `high`; none of contested ones.
    low, high, ground_truth = (columns.new_zeros(len(columns)) for _ in range(3))
    column = candidates.column.index_select(0, alone)
    low[column], high[column] = better.index_select(0, alone), candidates.passed.index_select(0, alone)
    ground_truth[column] = candidates.ground_truth.index_select(0, alone)
    # All ranges match alike, [thresholds, matched]; they differ in whether the ground truth counts.
    threshold = torch.arange(num_thresholds, device=device)[:, None]
    matched = (threshold >= low) & (threshold < high)
    if ignored.shape[1]:
        counts = ~ignored.index_select(1, ground_truth)
    else:
        counts = matched.new_zeros((num_areas, len(columns)))
    true_positive = matched & counts[:, None]
    taken = None
    if rows is not None:
        true_rows = rows.index_select(0, ground_truth) if len(rows) else ground_truth
        taken = torch.where(matched, true_rows, -1).expand(num_areas, -1, -1).contiguous()
    return Assignments(columns, matched.expand(num_areas, -1, -1).contiguous(), true_positive, taken)
