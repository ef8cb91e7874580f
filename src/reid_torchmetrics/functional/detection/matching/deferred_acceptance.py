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
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching.kinds import Kinds

_FREE = 2**62  # more than any proposer's number: held by nobody


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of detections and ground truths that compete, by ground truth; a smaller column has a better score."""

    ground_truth: Int[Tensor, " pairs"]
    column: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    """number of thresholds that the overlap reaches"""
    iou: Float[Tensor, " pairs"]

    def at(self, places: Int[Tensor, " some"]) -> CandidatePairs:
        """Some of the pairs."""
        return CandidatePairs(*(values.index_select(0, places) for values in vars(self).values()))


class MatchedPairs(NamedTuple):
    """Which detection takes which ground truth, under which threshold and area range."""

    area: Int[Tensor, " matches"]
    threshold: Int[Tensor, " matches"]
    column: Int[Tensor, " matches"]
    ground_truth: Int[Tensor, " matches"]
    """number of its kind"""
    rank: Int[Tensor, " matches"]
    """how many better detections have taken one of the same kind"""


class _PreferenceLists(NamedTuple):
    """Preference lists laid end to end: by proposer, first the ground truths that count, each part best first."""

    proposer: Int[Tensor, " pairs"]
    receiver: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    is_ignored: Bool[Tensor, " pairs"]
    is_crowd: Bool[Tensor, " pairs"]
    capacity: Int[Tensor, " pairs"] | None
    """how many proposers the receiver can hold, if some can hold several"""


def stable_matching(
    candidates: CandidatePairs,
    kinds: Kinds,
    num_columns: int,
    *,
    num_thresholds: int,
) -> MatchedPairs:
    """Match the contested ground truths for all thresholds and area ranges.

    An area range changes the outcome only through the order of a preference list: a list goes first through the ground
    truths that count. Where no list of a group (an image and class) changes, the outcome with only the crowds ignored
    holds for the range. The other groups are matched again, as further proposers and receivers with numbers of their
    own: those of copy 1 + a for area range a.
    """
    ignored = kinds.ignored
    num_areas, num_ground_truths = ignored.shape
    is_crowd, groups = kinds.ground_truths.is_crowd, kinds.ground_truths.groups
    by_preference = candidates.at(_preference_order(candidates))
    crowd = is_crowd.index_select(0, by_preference.ground_truth)
    crowds_last = by_preference.at((by_preference.column * 2 + crowd).sort(stable=True).indices)
    changed = _changed_groups(crowds_last, is_crowd, ignored, groups)

    # Copy 0 has all pairs, copy 1 + a those of the groups that range a changes: their numbers are shifted by the copy.
    area, place = changed.index_select(1, groups.index_select(0, by_preference.ground_truth)).nonzero().unbind(1)
    again = by_preference.at(place)
    copies = CandidatePairs(
        torch.cat([crowds_last.ground_truth, again.ground_truth + (area + 1) * num_ground_truths]),
        torch.cat([crowds_last.column, again.column + (area + 1) * num_columns]),
        torch.cat([crowds_last.passed, again.passed]),
        torch.cat([crowds_last.iou, again.iou]),
    )

    # In a list the ground truths that its copy ignores come last; in copy 0 these are the crowds.
    is_ignored = torch.cat([is_crowd[None], ignored]).flatten().index_select(0, copies.ground_truth)
    order = (copies.column * 2 + is_ignored).sort(stable=True).indices
    copies = copies.at(order)
    lists = _PreferenceLists(
        copies.column,
        copies.ground_truth,
        copies.passed,
        is_ignored.index_select(0, order),
        is_crowd.index_select(0, copies.ground_truth % num_ground_truths),
        _capacities(kinds, copies.ground_truth % num_ground_truths),
    )
    threshold, pair, rank = _accept(lists, num_thresholds)

    # A match of copy 0 holds in the ranges that leave its group as it is, one of copy 1 + a in range a alone.
    column, taken = copies.column.index_select(0, pair), copies.ground_truth.index_select(0, pair)
    copy, column, taken = column // num_columns, column % num_columns, taken % num_ground_truths
    holds = torch.cat([~changed, torch.eye(num_areas, dtype=torch.bool, device=changed.device)], 1)
    source = torch.where(copy > 0, changed.shape[1] + copy - 1, groups.index_select(0, taken))
    area, match = holds.index_select(1, source).nonzero().unbind(1)
    return MatchedPairs(area, *(values.index_select(0, match) for values in (threshold, column, taken, rank)))


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


def _changed_groups(
    crowds_last: CandidatePairs,
    is_crowd: Bool[Tensor, " ground_truths"],
    ignored: Bool[Tensor, "areas ground_truths"],
    groups: Int[Tensor, " ground_truths"],
) -> Bool[Tensor, "areas groups"]:
    """Where an area range reorders a preference list that has only the crowds last.

    It does if a ground truth outside the range comes before one inside it, or before a crowd: among ignored ones,
    crowd or not, the order is that of overlap alone. If any comes so, some neighbors do: it is enough to look at those.
    """
    ground_truth = crowds_last.ground_truth
    crowd = is_crowd.index_select(0, ground_truth)
    same_list = crowds_last.column[1:] == crowds_last.column[:-1]
    before_crowd = crowd[1:] & ~crowd[:-1]
    out = ignored.index_select(1, ground_truth)
    reordered = same_list & out[:, :-1] & (~out[:, 1:] | before_crowd)
    area, place = reordered.nonzero().unbind(1)
    num_groups = int(groups[-1]) + 1 if len(groups) else 0
    changed = torch.zeros((len(ignored), num_groups), dtype=torch.bool, device=ground_truth.device)
    changed[area, groups.index_select(0, ground_truth.index_select(0, place))] = True
    return changed


@dataclass(frozen=True)
class _NextChoice:
    """Where a proposer turns next; the number of pairs stands for nowhere, so there is one place more than pairs."""

    passed: Int[Tensor, " places"]
    following: Int[Tensor, " places"]
    """next place of the same part of the list"""
    first_ignored: Int[Tensor, " places"]
    """where the ignored part of the same list begins, seen from the other part"""

    @classmethod
    def of(cls, lists: _PreferenceLists) -> _NextChoice:
        """Of preference lists."""
        num_pairs = len(lists.proposer)
        places = torch.arange(num_pairs, device=lists.proposer.device)
        nowhere = places.new_full((1,), num_pairs)
        # Parts are numbered 2p for what counts to proposer p and 2p + 1 for what it ignores, so they ascend.
        part = lists.proposer * 2 + lists.is_ignored
        is_last = torch.cat([part[1:] != part[:-1], part.new_ones(1, dtype=torch.bool)])
        ignored_part = torch.searchsorted(part, lists.proposer * 2 + 1)
        has_ignored = part.index_select(0, ignored_part.clamp(max=num_pairs - 1)) == lists.proposer * 2 + 1
        return cls(
            torch.cat([lists.passed, lists.passed.new_zeros(1)]),
            torch.cat([torch.where(is_last, num_pairs, places + 1), nowhere]),
            torch.cat([torch.where(lists.is_ignored | ~has_ignored, num_pairs, ignored_part), nowhere]),
        )

    def after(self, place: Int[Tensor, " some"], threshold: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """Where those go on who were turned away from some places."""
        return self.choose(self.following.index_select(0, place), self.first_ignored.index_select(0, place), threshold)

    def choose(
        self, place: Int[Tensor, " some"], otherwise: Int[Tensor, " some"], threshold: Int[Tensor, " some"]
    ) -> Int[Tensor, " some"]:
        """`place` where its overlap reaches the threshold; else `otherwise` where that does; else nowhere.

        Of a part of a list overlaps descend: what comes after a place that fails fails, too.
        """
        place = torch.where(self.passed.index_select(0, place) > threshold, place, otherwise)
        return torch.where(self.passed.index_select(0, place) > threshold, place, len(self.passed) - 1)


@dataclass(frozen=True)
class _Proposals:
    """Proposals of a round: a detection proposes under each threshold by itself."""

    threshold: Int[Tensor, " proposals"]
    proposer: Int[Tensor, " proposals"]
    """number among those that have a list; the better score has the smaller one"""
    place: Int[Tensor, " proposals"]
    """in the lists; the number of pairs for a proposer that has nobody left"""

    def where(self, mask: Bool[Tensor, " proposals"]) -> _Proposals:
        """Some of the proposals."""
        places = mask.nonzero()[:, 0]
        return _Proposals(*(values.index_select(0, places) for values in vars(self).values()))


class _BestHeld:
    """Receivers that hold one proposer each, the best that they have seen, which only improves."""

    def __init__(self, lists: _PreferenceLists, num_thresholds: int) -> None:
        receivers, self._receiver = lists.receiver.unique(return_inverse=True)
        self._num_receivers = len(receivers)
        self._is_crowd = lists.is_crowd
        self._holder = self._receiver.new_full((num_thresholds * len(receivers),), _FREE)

    def turn_away(self, proposals: _Proposals, _: Tensor) -> tuple[Tensor, Tensor]:
        """Thresholds and proposers that are not held any more, or were not taken; crowds hold all who come."""
        rivals = proposals.where(~self._is_crowd.index_select(0, proposals.place))
        item = rivals.threshold * self._num_receivers + self._receiver.index_select(0, rivals.place)
        before = self._holder.index_select(0, item)
        self._holder.scatter_reduce_(0, item, rivals.proposer, "amin")
        has_won = self._holder.index_select(0, item) == rivals.proposer
        turned_away = torch.cat([(~has_won).nonzero()[:, 0], (has_won & (before != _FREE)).nonzero()[:, 0]])
        proposer = torch.where(has_won, before, rivals.proposer).index_select(0, turned_away)
        return rivals.threshold.index_select(0, turned_away), proposer

    def ranks(self, held_at: Tensor) -> Tensor:
        """How many better proposers are held by the same receiver, for each threshold and proposer: none."""
        return torch.zeros_like(held_at)


class _SeveralHeld:
    """Receivers that hold as many proposers as they have places."""

    def __init__(self, lists: _PreferenceLists, capacity: Tensor, num_thresholds: int) -> None:
        receivers, self._receiver = lists.receiver.unique(return_inverse=True)
        self._num_receivers = len(receivers)
        self._num_proposers = len(lists.proposer.unique_consecutive())
        self._threshold = torch.arange(num_thresholds, device=capacity.device).repeat_interleave(self._num_proposers)
        # By place, and behind them the one of nobody.
        self._capacity = torch.cat([capacity, capacity.new_zeros(1)])
        self._has_rivals = torch.cat([~lists.is_crowd, lists.is_crowd.new_zeros(1)])

    def turn_away(self, _: _Proposals, held_at: Tensor) -> tuple[Tensor, Tensor]:
        """As of `_BestHeld`: those who came after as many better ones as there are places."""
        too_late = self.ranks(held_at) >= self._capacity.index_select(0, held_at)
        item = (too_late & self._has_rivals.index_select(0, held_at)).nonzero()[:, 0]
        return self._threshold.index_select(0, item), item % max(self._num_proposers, 1)

    def ranks(self, held_at: Tensor) -> Tensor:
        """As of `_BestHeld`: proposers come in their order, which a stable sort by receiver keeps."""
        held = self._has_rivals.index_select(0, held_at).nonzero()[:, 0]
        receiver = self._receiver.index_select(0, held_at.index_select(0, held))
        keys, order = (self._threshold.index_select(0, held) * self._num_receivers + receiver).sort(stable=True)
        ranks = torch.zeros_like(held_at)
        ranks[held.index_select(0, order)] = segments.runs(0, keys.unique_consecutive(return_counts=True)[1])[1]
        return ranks


def _accept(lists: _PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Let everyone propose until all are held or have nobody left to ask.

    In each round all that are not held propose to the next ground truth of their lists. A receiver's proposers only get
    better, so nobody need come back to one that turned him away. Every round but the last crosses out at least one
    place of a list for each who was turned away, and lists are finite: it ends.

    Returns thresholds and places of the pairs that are held, and how many better proposers each one's receiver holds.
    """
    num_pairs = len(lists.proposer)
    next_choice = _NextChoice.of(lists)
    proposers = lists.proposer.unique_consecutive()
    if lists.capacity is None:
        receivers: _BestHeld | _SeveralHeld = _BestHeld(lists, num_thresholds)
    else:
        receivers = _SeveralHeld(lists, lists.capacity, num_thresholds)
    # By threshold and proposer the place that holds him.
    held_at = lists.receiver.new_full((num_thresholds * len(proposers),), num_pairs)
    proposals = _first_proposals(torch.searchsorted(lists.proposer, proposers), next_choice, num_thresholds)
    while True:
        proposals = proposals.where(proposals.place < num_pairs)
        if not len(proposals.place):
            break
        held_at[proposals.threshold * len(proposers) + proposals.proposer] = proposals.place
        # Who is turned away, now or from where he was held, goes on behind the place where he was.
        threshold, proposer = receivers.turn_away(proposals, held_at)
        item = threshold * len(proposers) + proposer
        left = held_at.index_select(0, item)
        held_at[item] = num_pairs
        proposals = _Proposals(threshold, proposer, next_choice.after(left, threshold))
    item = (held_at < num_pairs).nonzero()[:, 0]
    rank = receivers.ranks(held_at).index_select(0, item)
    return item // max(len(proposers), 1), held_at.index_select(0, item), rank


def _first_proposals(heads: Int[Tensor, " proposers"], next_choice: _NextChoice, num_thresholds: int) -> _Proposals:
    """One for each threshold and proposer, given the places where the lists begin."""
    threshold = torch.arange(num_thresholds, device=heads.device).repeat_interleave(len(heads))
    proposer = torch.arange(len(heads), device=heads.device).repeat(num_thresholds)
    head = heads.index_select(0, proposer)
    place = next_choice.choose(head, next_choice.first_ignored.index_select(0, head), threshold)
    return _Proposals(threshold, proposer, place)
