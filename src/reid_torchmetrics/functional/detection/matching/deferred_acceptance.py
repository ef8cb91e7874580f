"""Ground truths that several detections compete for, where some of those have a choice: deferred acceptance.

COCO's matching goes through the detections by descending score, and each takes the best ground truth that is left.
All ground truths so have the same priority among detections, their score; then the outcome is the only stable matching,
and any order of proposals leads to it (Gale and Shapley, "College admissions and the stability of marriage", 1962).
So all detections propose at once, for all thresholds: a ground truth keeps the best proposer and sends the others on.

With the detections 0, 1, 2 by descending score, where 0 overlaps A, 1 overlaps A more than B, and 2 overlaps B:

    round 1: 0 and 1 propose to A, 2 to B; A keeps 0, the better one, B keeps 2, and 1 is turned away;
    round 2: 1 proposes to B, which keeps it and turns 2 away, whose score is lower;
    round 3: 2 has nobody left to propose to, and the pairs that are held are the matches: 0 and A, 1 and B.

By COCO's definition 0 takes A, 1 finds A taken and takes B, and 2 takes nothing: the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .acceptance import PreferenceLists, accept
from .kinds import Kinds
from .levels import find_levels


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of detections and ground truths that compete, by ground truth; a smaller column has a better score."""

    ground_truth: Int[Tensor, " pairs"]
    column: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    """number of thresholds that the overlap reaches"""
    iou: Float[Tensor, " pairs"]
    is_beaten: Bool[Tensor, " pairs"] | None
    """whether the detection prefers a crowd where the ground truth is ignored; None if there are no crowds"""

    def at(self, places: Int[Tensor, " some"] | slice) -> CandidatePairs:
        """Some of the pairs, those of a slice without a copy."""
        chosen: list[Any] = [*vars(self).values()]
        for column, values in enumerate(chosen):
            if values is not None:
                chosen[column] = values[places] if isinstance(places, slice) else values.index_select(0, places)
        return CandidatePairs(*chosen)


class MatchedPairs(NamedTuple):
    """Which detection takes which ground truth, under which thresholds in which area range."""

    area: Int[Tensor, " matches"]
    column: Int[Tensor, " matches"]
    ground_truth: Int[Tensor, " matches"]
    """number of its kind"""
    rank: Int[Tensor, " matches"]
    """how many better detections have taken one of the same kind"""
    first: Int[Tensor, " matches"]
    """number of the first threshold"""
    last: Int[Tensor, " matches"]
    """and the one behind the last"""


class _ListedPairs(NamedTuple):
    """Pairs in the order of preference lists, which the overlaps are not needed for any more."""

    ground_truth: Int[Tensor, " pairs"]
    column: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    """number of levels"""
    group: Int[Tensor, " pairs"]
    """counted in the groups of all the pairs"""

    def at(self, places: Int[Tensor, " some"]) -> _ListedPairs:
        """Some of the pairs."""
        return _ListedPairs(*(values.index_select(0, places) for values in self))


class _Copies(NamedTuple):
    """Pairs that compete apart from those of other copies, by copy and in the order of preference lists."""

    pairs: _ListedPairs
    copy: Int[Tensor, " pairs"] | None = None
    """None if there is copy 0 alone"""
    is_ignored: Bool[Tensor, " pairs"] | None = None
    """then the ground truth is in the second part of the list; None if none is"""


def stable_matching(candidates: CandidatePairs, kinds: Kinds, *, num_thresholds: int) -> MatchedPairs:
    """Match the contested ground truths of some groups (an image and class each) for all thresholds and area ranges.

    An area range changes the outcome only through preference lists: those go first through the ground truths that
    count, and leave out an ignored one that is beaten by a crowd. Where no list of a group changes, the outcome with
    nothing ignored holds for the range. The other groups are matched again, as further proposers and receivers.
    """
    group = _counted_runs(kinds.ground_truths.groups.index_select(0, candidates.ground_truth))
    num_groups = int(group[-1]) + 1
    levels = find_levels(candidates.passed, group, num_groups, num_thresholds)
    order = _preference_order(candidates)
    listed = _ListedPairs(candidates.ground_truth, candidates.column, levels.passed, group).at(order)
    ignored = kinds.ignored.index_select(1, listed.ground_truth)
    left_out = None if candidates.is_beaten is None else ignored & candidates.is_beaten.index_select(0, order)
    copy_of = _copies_of_groups(listed, ignored, left_out, num_groups)
    copies = _copies(listed, ignored, left_out, copy_of)
    level, place, rank = accept(_preference_lists(copies, kinds), int(listed.passed.max()))

    # A match holds in the ranges that look at its group in this copy, under the thresholds of its level.
    taken = copies.pairs.at(place)
    holds = copy_of.index_select(1, taken.group)
    holds = holds == (0 if copies.copy is None else copies.copy.index_select(0, place))
    area, match = holds.nonzero().unbind(1)
    first, last = (levels.starts[taken.group, level + each] for each in range(2))
    columns = (taken.column, taken.ground_truth, rank, first, last)
    return MatchedPairs(area, *(values.index_select(0, match) for values in columns))


def _copies(
    listed: _ListedPairs,
    ignored: Bool[Tensor, "areas pairs"],
    left_out: Bool[Tensor, "areas pairs"] | None,
    copy_of: Int[Tensor, "areas groups"],
) -> _Copies:
    """Copy 0 of all pairs, and 1 + a of those of the groups that area range a changes."""
    own_copy = torch.arange(1, len(ignored) + 1, dtype=copy_of.dtype, device=copy_of.device)
    is_own = copy_of.index_select(1, listed.group) == own_copy[:, None]
    if left_out is not None:
        is_own &= ~left_out
    area, place = is_own.nonzero().unbind(1)
    if not len(place):
        return _Copies(listed)
    # In a list the ground truths that its copy ignores come last.
    is_last = ignored[area, place]
    list_number = area * (listed.column[-1] + 1) + listed.column.index_select(0, place)
    order = (list_number * 2 + is_last).sort(stable=True).indices
    again = listed.at(place.index_select(0, order))
    first = own_copy.new_zeros(len(listed.column))
    return _Copies(
        _ListedPairs(*map(torch.cat, zip(listed, again, strict=True))),
        torch.cat([first, own_copy.index_select(0, area)]),  # which is in order as it is
        torch.cat([first.bool(), is_last.index_select(0, order)]),
    )


def _preference_lists(copies: _Copies, kinds: Kinds) -> PreferenceLists:
    """The lists of all copies, in which detections and ground truths of different copies are different ones."""
    pairs = copies.pairs
    least, most = pairs.ground_truth.aminmax()
    receiver = pairs.ground_truth - least
    proposer = pairs.column
    if copies.copy is not None:
        receiver += copies.copy.long() * (most - least + 1)
        proposer = copies.copy.long() * (proposer.max() + 1) + proposer
    capacities = _capacities(kinds, pairs.ground_truth)
    return PreferenceLists(_counted_runs(proposer), receiver, pairs.passed, copies.is_ignored, capacities)


def _counted_runs(values: Int[Tensor, " entries"]) -> Int[Tensor, " entries"]:
    """The number of the run of equal values that each is in, from 0 on."""
    begins = torch.zeros_like(values)
    begins[1:] = values[1:] != values[:-1]
    return begins.cumsum(0)


def _copies_of_groups(
    listed: _ListedPairs,
    ignored: Bool[Tensor, "areas pairs"],
    left_out: Bool[Tensor, "areas pairs"] | None,
    num_groups: int,
) -> Int[Tensor, "areas groups"]:
    """The copy in which each area range looks at each group: 0, or 1 + a of the range, or of one that ignores all, too.

    Ranges that ignore all ground truths of a group have the same lists: the first of them that is changed will do.
    """
    moved = _moved(listed, ignored, left_out).nonzero()
    changed = torch.zeros((len(ignored), num_groups), dtype=torch.bool, device=ignored.device)
    if not len(moved):
        return changed.view(torch.int8)
    changed[moved[:, 0], listed.group.index_select(0, moved[:, 1])] = True
    ignores_all = changed.clone()
    area, place = (~ignored).nonzero().unbind(1)
    ignores_all[area, listed.group.index_select(0, place)] = False
    areas = torch.arange(1, len(changed) + 1, dtype=torch.int8, device=changed.device)[:, None].expand(changed.shape)
    first = ignores_all.to(torch.int8).argmax(0).to(torch.int8) + 1
    return torch.where(ignores_all, first, areas).masked_fill(~changed, 0)


def _capacities(kinds: Kinds, ground_truth: Int[Tensor, " pairs"]) -> Int[Tensor, " pairs"] | None:
    if kinds.copies is None:
        return None
    capacity = kinds.copies.index_select(0, ground_truth)
    return capacity if bool((capacity > 1).any()) else None


def _preference_order(candidates: CandidatePairs) -> Int[Tensor, " pairs"]:
    """By detection, from the largest overlap down, and of equal overlaps the last ground truth first."""
    backwards = torch.arange(len(candidates.iou) - 1, -1, -1, device=candidates.iou.device)
    # Of floats from 0 up the bits ascend as they do, and integers are sorted faster.
    overlap_bits = candidates.iou.index_select(0, backwards).view(torch.int64)
    order = backwards.index_select(0, overlap_bits.bitwise_not().sort(stable=True).indices)
    return order.index_select(0, candidates.column.index_select(0, order).sort(stable=True).indices)


def _moved(
    listed: _ListedPairs, ignored: Bool[Tensor, "areas pairs"], left_out: Bool[Tensor, "areas pairs"] | None
) -> Bool[Tensor, "areas pairs"]:
    """Where an area range changes a preference list.

    It does if it leaves a ground truth out, or ignores one that comes before one inside the range. If any comes so,
    some neighbors do: it is enough to look at those.
    """
    is_moved = torch.zeros_like(ignored)
    torch.gt(ignored[:, :-1], ignored[:, 1:], out=is_moved[:, :-1])
    is_moved[:, :-1] &= listed.column[1:] == listed.column[:-1]
    return is_moved if left_out is None else is_moved.logical_or_(left_out)
