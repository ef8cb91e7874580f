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

from reid_torchmetrics.functional.detection.matching.acceptance import PreferenceLists, accept
from reid_torchmetrics.functional.detection.matching.kinds import Kinds


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


class _ListedPairs(NamedTuple):
    """Pairs in the order of preference lists, which the overlaps are not needed for any more."""

    ground_truth: Int[Tensor, " pairs"]
    column: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]

    def at(self, places: Int[Tensor, " some"]) -> _ListedPairs:
        """Some of the pairs."""
        return _ListedPairs(*(values.index_select(0, places) for values in self))


class MatchedPairs(NamedTuple):
    """Which detection takes which ground truth, under which threshold and area range."""

    area: Int[Tensor, " matches"]
    threshold: Int[Tensor, " matches"]
    column: Int[Tensor, " matches"]
    ground_truth: Int[Tensor, " matches"]
    """number of its kind"""
    rank: Int[Tensor, " matches"]
    """how many better detections have taken one of the same kind"""


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
    listed = _ListedPairs(candidates.ground_truth, candidates.column, candidates.passed)
    by_preference = crowds_last = listed.at(_preference_order(candidates))
    crowd = is_crowd.index_select(0, by_preference.ground_truth)
    if bool(crowd.any()):
        crowds_last = by_preference.at((by_preference.column * 2 + crowd).sort(stable=True).indices)
    copy_of = _copies_of_groups(_changed_groups(crowds_last, is_crowd, ignored, groups), ignored, groups)

    # Copy 0 has all pairs, copy 1 + a those of the groups that range a changes: their numbers are shifted by the copy.
    own_copy = torch.arange(1, num_areas + 1, dtype=copy_of.dtype, device=copy_of.device)[:, None]
    is_own = copy_of == own_copy
    area, place = is_own.index_select(1, groups.index_select(0, by_preference.ground_truth)).nonzero().unbind(1)
    again = by_preference.at(place)
    again = _ListedPairs(
        again.ground_truth + (area + 1) * num_ground_truths, again.column + (area + 1) * num_columns, again.passed
    )

    # In a list the ground truths that its copy ignores come last; in copy 0 these are the crowds.
    ignored_by_copy = torch.cat([is_crowd[None], ignored]).flatten()
    again = again.at((again.column * 2 + ignored_by_copy.index_select(0, again.ground_truth)).sort(stable=True).indices)
    copies = _ListedPairs(*map(torch.cat, zip(crowds_last, again, strict=True))) if len(place) else crowds_last
    lists = PreferenceLists(
        copies.column,
        copies.ground_truth,
        copies.passed,
        ignored_by_copy.index_select(0, copies.ground_truth),
        is_crowd.index_select(0, copies.ground_truth % num_ground_truths),
        _capacities(kinds, copies.ground_truth % num_ground_truths),
    )
    threshold, pair, rank = accept(lists, num_thresholds)

    # A match holds in the ranges that look at its group in this copy.
    column, taken = copies.column.index_select(0, pair), copies.ground_truth.index_select(0, pair)
    copy, column, taken = (column // num_columns).to(copy_of.dtype), column % num_columns, taken % num_ground_truths
    holds = copy_of.index_select(1, groups.index_select(0, taken)) == copy
    area, match = holds.nonzero().unbind(1)
    return MatchedPairs(area, *(values.index_select(0, match) for values in (threshold, column, taken, rank)))


def _copies_of_groups(
    changed: Bool[Tensor, "areas groups"],
    ignored: Bool[Tensor, "areas ground_truths"],
    groups: Int[Tensor, " ground_truths"],
) -> Int[Tensor, "areas groups"]:
    """The copy in which each area range looks at each group: 0, or 1 + a of the range, or of one that ignores all, too.

    Ranges that ignore all ground truths of a group have the same lists: the first of them that is changed will do.
    """
    counts = torch.zeros(changed.shape, dtype=torch.int64, device=changed.device)
    counts.index_add_(1, groups, (~ignored).long())
    ignores_all = changed & (counts == 0)
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


def _changed_groups(
    crowds_last: _ListedPairs,
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
