"""Which detection takes which ground truth, of pairs that overlap enough: for all thresholds and areas at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.inputs import OrderedDetections

from .candidates import num_at_a_time
from .crowds import without_crowds
from .deferred_acceptance import CandidatePairs, MatchedPairs, stable_matching
from .kinds import Kinds
from .pairs import Pairs
from .uncontested import Assignments, assign_at_once, lying_in, without_choice

_BYTES_PER_CONTESTED_PAIR = 800  # about what is held of a pair that competes, with the copies for four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 13


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

    A crowd is no choice, see `crowds`: a detection lies in its best one where it takes nothing else.
    """
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    pairs, crowds = without_crowds(pairs, kinds.ground_truths.is_crowd, len(detections.rows))
    candidates = CandidatePairs(
        pairs.ground_truth,
        detections.grouped.index_select(0, pairs.detection),
        torch.bucketize(pairs.iou, limits, right=True, out_int32=True),
        pairs.iou,
        None if crowds is None else crowds.are_preferred(pairs),
    )
    is_contested = _are_contested(candidates, kinds)
    contested = candidates.at(is_contested.nonzero()[:, 0])
    alone_at, alone = without_choice(candidates, is_contested, len(thresholds))
    crowds_at, in_crowds = alone_at[:0], None
    if crowds is not None:
        crowds_at, in_crowds = lying_in(crowds, detections.grouped, limits)

    # Only these detections may match: they have columns, in their order.
    columns, column_of = _number_columns((alone_at, contested.column, crowds_at), len(detections.rows))
    contested = replace(contested, column=column_of.index_select(0, contested.column))
    taken = assign_at_once(
        alone.spread(column_of.index_select(0, alone_at), len(columns)),
        in_crowds and in_crowds.spread(column_of.index_select(0, crowds_at), len(columns)),
        columns,
        kinds,
        num_thresholds=len(thresholds),
        keep_ground_truths=keep_ground_truths,
    )

    # Groups have columns of their own, so each block marks its matches by itself.
    def compete(some: CandidatePairs) -> None:
        _add(stable_matching(some, kinds, num_thresholds=len(thresholds)), kinds, taken)

    workers.share(compete, [*_blocks_of_groups(contested, kinds, max_bytes)])
    return taken


def _add(matched: MatchedPairs, kinds: Kinds, taken: Assignments) -> None:
    """Mark the cells [area, threshold, column] of pairs that were matched."""
    _, num_thresholds, num_columns = taken.matched.shape
    match, threshold = segments.runs(matched.first, matched.last - matched.first)
    first_cell = (matched.area * (num_thresholds * num_columns)).add_(matched.column)
    cell = threshold.mul_(num_columns).add_(first_cell.index_select(0, match))
    taken.matched.view(-1)[cell] = True
    counts = ~kinds.ignored[matched.area, matched.ground_truth]
    taken.true_positive.view(-1)[cell] = counts.index_select(0, match)
    if taken.ground_truths is not None:
        rows = kinds.rows_of(matched.ground_truth, matched.rank)
        taken.ground_truths.view(-1)[cell] = rows.index_select(0, match)


def _number_columns(
    places: Sequence[Int[Tensor, " _"]], num_detections: int
) -> tuple[Int[Tensor, " matched"], Int[Tensor, " detections"]]:
    """Places that are listed, ascending, and the number among them of each place that is."""
    is_column = torch.zeros(num_detections, dtype=torch.bool, device=places[0].device)
    for some in places:
        is_column[some] = True
    columns = is_column.nonzero()[:, 0]
    column_of = columns.new_empty(num_detections)
    column_of[columns] = torch.arange(len(columns), device=columns.device)
    return columns, column_of


def _blocks_of_groups(contested: CandidatePairs, kinds: Kinds, max_bytes: int) -> Iterator[CandidatePairs]:
    """Pairs that compete, by whole groups, which are matched together: first those where all kinds have one."""
    if not len(contested.column):
        return
    group = kinds.ground_truths.groups.index_select(0, contested.ground_truth)
    most = num_at_a_time(max_bytes, _BYTES_PER_CONTESTED_PAIR, group.device, _CACHED_CONTESTED_PAIRS)
    parts = [(contested, group)]
    if kinds.copies is None and len(group) <= most:
        yield contested
        return
    if kinds.copies is not None:
        has_copies = torch.zeros_like(kinds.ground_truths.starts, dtype=torch.bool)
        has_copies[kinds.ground_truths.groups[kinds.copies > 1]] = True
        is_apart = has_copies.index_select(0, group)
        places = [mask.nonzero()[:, 0] for mask in (~is_apart, is_apart)]
        parts = [(contested.at(some), group.index_select(0, some)) for some in places]
    for pairs, groups in parts:
        lengths = groups.unique_consecutive(return_counts=True)[1]
        edges = segments.edges(lengths).tolist()
        for block in segments.ranges_within(lengths, most):
            yield pairs.at(slice(edges[block.start], edges[block.stop]))


def _are_contested(candidates: CandidatePairs, kinds: Kinds) -> Bool[Tensor, " pairs"]:
    """Whether the pair's ground truth is one of several of its kind, or wanted by a detection that has others, too."""
    has_others = (candidates.column.bincount() > 1).index_select(0, candidates.column)
    chosen = has_others.nonzero()[:, 0]
    if not len(chosen) and kinds.copies is None:
        return has_others
    is_contested = torch.zeros(len(kinds.ground_truths.rows), dtype=torch.bool, device=chosen.device)
    if kinds.copies is not None:
        is_contested |= kinds.copies > 1
    is_contested[candidates.ground_truth.index_select(0, chosen)] = True
    return is_contested.index_select(0, candidates.ground_truth)
