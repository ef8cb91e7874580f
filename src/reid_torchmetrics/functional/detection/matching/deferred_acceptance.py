"""Ground truths that several detections compete for, where some of those have a choice: deferred acceptance.

COCO's matching goes through the detections by descending score, and each takes the best ground truth that is left.
All ground truths so have the same priority among detections, their score; then the outcome is the only stable matching,
and any order of proposals leads to it (Gale and Shapley, "College admissions and the stability of marriage", 1962).
So all detections propose at once, for all thresholds: a ground truth keeps the best proposer and sends the others on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_FREE = 2**62  # more than any proposer's number: held by nobody


class CandidatePairs(NamedTuple):
    """Pairs of detections and ground truths that compete, by ground truth; a smaller column has a better score."""

    ground_truth: Tensor
    column: Tensor
    passed: Tensor
    """number of thresholds that the overlap reaches"""
    iou: Tensor

    def at(self, places: Tensor) -> CandidatePairs:
        """Some of the pairs."""
        return CandidatePairs(*(values.index_select(0, places) for values in self))


class MatchedPairs(NamedTuple):
    """Which detection takes which ground truth, under which threshold and area range."""

    area: Tensor
    threshold: Tensor
    column: Tensor
    ground_truth: Tensor


@dataclass(frozen=True)
class _PreferenceLists:
    """Preference lists laid end to end: by proposer, first the ground truths that count, each part best first."""

    proposer: Int[Tensor, " pairs"]
    receiver: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    is_ignored: Bool[Tensor, " pairs"]
    is_crowd: Bool[Tensor, " pairs"]


def stable_matching(
    candidates: CandidatePairs,
    is_crowd: Bool[Tensor, " ground_truths"],
    ignored: Bool[Tensor, "areas ground_truths"],
    groups: Int[Tensor, " ground_truths"],
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
    num_areas, num_ground_truths = ignored.shape
    by_preference = candidates.at(_preference_order(candidates))
    crowds_last = by_preference.at(
        (by_preference.column * 2 + is_crowd.index_select(0, by_preference.ground_truth)).sort(stable=True).indices
    )
    changed = _changed_groups(crowds_last, is_crowd, ignored, groups)
    area, place = changed.index_select(1, groups.index_select(0, by_preference.ground_truth)).nonzero().unbind(1)
    again = by_preference.at(place)
    copies = CandidatePairs(
        torch.cat([crowds_last.ground_truth, again.ground_truth + (area + 1) * num_ground_truths]),
        torch.cat([crowds_last.column, again.column + (area + 1) * num_columns]),
        torch.cat([crowds_last.passed, again.passed]),
        torch.cat([crowds_last.iou, again.iou]),
    )
    kept_out = torch.cat([is_crowd[None], ignored]).flatten().index_select(0, copies.ground_truth)
    order = (copies.column * 2 + kept_out).sort(stable=True).indices
    copies = copies.at(order)
    lists = _PreferenceLists(
        copies.column,
        copies.ground_truth,
        copies.passed,
        kept_out.index_select(0, order),
        is_crowd.index_select(0, copies.ground_truth % num_ground_truths),
    )
    threshold, pair = _accept(lists, num_thresholds)
    column, taken = copies.column.index_select(0, pair), copies.ground_truth.index_select(0, pair)
    copy, column, taken = column // num_columns, column % num_columns, taken % num_ground_truths
    holds = torch.cat([~changed, torch.eye(num_areas, dtype=torch.bool, device=changed.device)], 1)
    source = torch.where(copy > 0, changed.shape[1] + copy - 1, groups.index_select(0, taken))
    area, match = holds.index_select(1, source).nonzero().unbind(1)
    return MatchedPairs(area, *(values.index_select(0, match) for values in (threshold, column, taken)))


def _preference_order(candidates: CandidatePairs) -> Tensor:
    """By detection, from the largest overlap down, and of equal overlaps the last ground truth first."""
    backwards = torch.arange(len(candidates.iou) - 1, -1, -1, device=candidates.iou.device)
    overlap_bits = candidates.iou.index_select(0, backwards).view(
        torch.int64
    )  # of floats from 0 up, bits ascend as they do
    order = backwards.index_select(0, overlap_bits.bitwise_not().sort(stable=True).indices)
    return order.index_select(0, candidates.column.index_select(0, order).sort(stable=True).indices)


def _changed_groups(crowds_last: CandidatePairs, is_crowd: Tensor, ignored: Tensor, groups: Tensor) -> Tensor:
    """Where an area range reorders a preference list that has only the crowds last, bool [areas, groups].

    It does if a ground truth outside the range comes before one inside it, or before a crowd: among ignored ones,
    crowd or not, the order is that of overlap alone.
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


class _NextChoice(NamedTuple):
    """Where a proposer turns next; the number of pairs stands for nowhere."""

    passed: Tensor
    following: Tensor
    """next place of the same part of the list"""
    first_ignored: Tensor
    """where the ignored part of the same list begins, seen from the other part"""

    @classmethod
    def of(cls, lists: _PreferenceLists) -> _NextChoice:
        """Of preference lists."""
        num_pairs = len(lists.proposer)
        places = torch.arange(num_pairs, device=lists.proposer.device)
        nowhere = places.new_full((1,), num_pairs)
        part = lists.proposer * 2 + lists.is_ignored
        is_last = torch.cat([part[1:] != part[:-1], part.new_ones(1, dtype=torch.bool)])
        ignored_part = torch.searchsorted(part, lists.proposer * 2 + 1)
        has_ignored = part.index_select(0, ignored_part.clamp(max=num_pairs - 1)) == lists.proposer * 2 + 1
        return cls(
            torch.cat([lists.passed, lists.passed.new_zeros(1)]),
            torch.cat([torch.where(is_last, num_pairs, places + 1), nowhere]),
            torch.cat([torch.where(lists.is_ignored | ~has_ignored, num_pairs, ignored_part), nowhere]),
        )

    def choose(self, place: Tensor, otherwise: Tensor, threshold: Tensor) -> Tensor:
        """`place` where its overlap reaches the threshold; else `otherwise` where that does; else nowhere.

        Of a part of a list overlaps descend: what comes after a place that fails fails, too.
        """
        place = torch.where(self.passed.index_select(0, place) > threshold, place, otherwise)
        return torch.where(self.passed.index_select(0, place) > threshold, place, len(self.passed) - 1)


def _accept(lists: _PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor]:
    """Let everyone propose until all are held or have nobody left to ask: thresholds and places of the pairs held."""
    num_pairs = len(lists.proposer)
    rules = _NextChoice.of(lists)
    proposers = lists.proposer.unique_consecutive()
    starts = torch.searchsorted(lists.proposer, proposers)
    receivers, receiver = lists.receiver.unique(return_inverse=True)
    holder = starts.new_full((num_thresholds * len(receivers),), _FREE)
    asked = starts.new_full((num_thresholds * len(proposers),), num_pairs)
    threshold = torch.arange(num_thresholds, device=starts.device).repeat_interleave(len(proposers))
    proposer = torch.arange(len(proposers), device=starts.device).repeat(num_thresholds)
    start = starts.index_select(0, proposer)
    place = rules.choose(start, rules.first_ignored.index_select(0, start), threshold)
    while True:
        live = (place < num_pairs).nonzero()[:, 0]
        if not len(live):
            break
        threshold, proposer, place = (each.index_select(0, live) for each in (threshold, proposer, place))
        asked[threshold * len(proposers) + proposer] = place
        limited = (~lists.is_crowd.index_select(0, place)).nonzero()[:, 0]  # a crowd turns nobody away
        threshold, proposer, place = (each.index_select(0, limited) for each in (threshold, proposer, place))
        held = threshold * len(receivers) + receiver.index_select(0, place)
        before = holder.index_select(0, held)
        holder.scatter_reduce_(0, held, proposer, "amin")
        won = holder.index_select(0, held) == proposer
        turned_away = torch.cat([(~won).nonzero()[:, 0], (won & (before != _FREE)).nonzero()[:, 0]])
        threshold = threshold.index_select(0, turned_away)
        proposer = torch.where(won, before, proposer).index_select(0, turned_away)
        item = threshold * len(proposers) + proposer
        left = asked.index_select(0, item)
        asked[item] = num_pairs
        place = rules.choose(
            rules.following.index_select(0, left), rules.first_ignored.index_select(0, left), threshold
        )
    item = (asked < num_pairs).nonzero()[:, 0]
    return item // max(len(proposers), 1), asked.index_select(0, item)
