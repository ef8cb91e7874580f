"""Which detection takes which ground truth, of pairs that overlap enough: for all thresholds and areas at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.inputs import OrderedDetections, OrderedGroundTruths
from reid_torchmetrics.functional.detection.matching.deferred_acceptance import (
    CandidatePairs,
    MatchedPairs,
    stable_matching,
)
from reid_torchmetrics.functional.detection.matching.pairs import Pairs, num_at_a_time

_BYTES_PER_CONTESTED_PAIR = 800  # about what is held of a pair that competes, with the copies for four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 15


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
    ground_truths: OrderedGroundTruths,
    ignored: Bool[Tensor, "areas ground_truths"],
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
    # Of each pair: how many thresholds it passes, and the place of its detection in the order of accumulation.
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    passed = torch.bucketize(pairs.iou, limits, right=True)
    place = detections.grouped.index_select(0, pairs.detection)

    # Where nobody has a choice, a pair matches under the thresholds from `better` up to `passed`, if there are any.
    is_contested = _are_contested(pairs.ground_truth, place, len(detections.rows), len(ground_truths.rows))
    better = _passed_by_better(pairs.ground_truth, passed, len(thresholds))
    better = better.masked_fill_(ground_truths.is_crowd.index_select(0, pairs.ground_truth), 0)  # a crowd takes all
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

    # The others, some groups at a time: a cell [area, threshold, column] is true where a pair was matched.
    group = ground_truths.groups.index_select(0, pairs.ground_truth.index_select(0, contested_pairs))

    def compete(block: slice) -> MatchedPairs:
        some = candidates.at(contested_pairs[block])
        return stable_matching(some, ground_truths, ignored, len(columns), num_thresholds=len(thresholds))

    for matched in workers.share(compete, [*_blocks_of_groups(group, max_bytes)]):
        cells = (matched.area, matched.threshold, matched.column)
        taken.matched[cells] = True
        taken.true_positive[cells] = ~ignored[matched.area, matched.ground_truth]
        if taken.ground_truths is not None:
            taken.ground_truths[cells] = ground_truths.rows.index_select(0, matched.ground_truth)
    return taken


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


def _blocks_of_groups(groups: Int[Tensor, " contested"], max_bytes: int) -> Iterator[slice]:
    """Ranges of whole groups of pairs that compete, which are matched together."""
    most = num_at_a_time(max_bytes, _BYTES_PER_CONTESTED_PAIR, groups.device, _CACHED_CONTESTED_PAIRS)
    lengths = groups.unique_consecutive(return_counts=True)[1]
    edges = segments.edges(lengths).tolist()
    for block in segments.ranges_within(lengths, most):
        yield slice(edges[block.start], edges[block.stop])


def _are_contested(
    ground_truth: Int[Tensor, " pairs"], place: Int[Tensor, " pairs"], num_detections: int, num_ground_truths: int
) -> Bool[Tensor, " pairs"]:
    """Whether the pair's ground truth is wanted by some detection that has another one, too."""
    num_choices = place.bincount(minlength=num_detections)
    chosen = (num_choices.index_select(0, place) > 1).nonzero()[:, 0]
    is_contested = torch.zeros(num_ground_truths, dtype=torch.bool, device=place.device)
    is_contested[ground_truth.index_select(0, chosen)] = True
    return is_contested.index_select(0, ground_truth)


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
