"""Deferred acceptance: match contested ground truths for all detections, thresholds and area ranges at once.

COCO's greedy matching goes through the detections by descending score, and each matches its best free ground truth. So
all ground truths prefer detections in the same order, by score. Then only one stable matching exists, and proposals in
any order lead to it (Gale and Shapley, "College admissions and the stability of marriage", 1962): all detections
propose at once, under all thresholds, and a ground truth keeps its best detection and rejects the others.

With the detections 0, 1, 2 by descending score, where 0 overlaps A, 1 overlaps A more than B, and 2 overlaps B:

    round 1: 0 and 1 propose to A, 2 to B; A keeps 0, the better one, and rejects 1, B keeps 2;
    round 2: 1 proposes to B, which keeps it and rejects 2, whose score is lower;
    round 3: 2 has no candidate left, and the pairs that were kept are the matches: 0 and A, 1 and B.

By COCO's definition 0 matches A, 1 finds A matched and gets B, and 2 matches nothing: the same.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .acceptance import PreferenceLists, accept
from .duplicates import DistinctGroundTruths
from .pairs import select

Ignored: TypeAlias = Bool[Tensor, "areas pairs"]


class CandidatePairs(NamedTuple):
    """Pairs by ground truth, and for each ground truth by descending score of the detection."""

    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    """a smaller number has a better score"""
    passed: Int[Tensor, " pairs"]
    """number of thresholds that the overlap reaches"""
    iou: Float[Tensor, " pairs"]
    is_beaten: Bool[Tensor, " pairs"] | None
    """whether the detection prefers a crowd where the ground truth is ignored; None if none does"""


class _ListedPairs(NamedTuple):
    """Pairs in the order of preference lists."""

    ground_truth: Int[Tensor, " pairs"]
    """its number among the ground truths of all pairs"""
    detection: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    """number of runs of thresholds"""
    group: Int[Tensor, " pairs"]


def stable_matching(
    candidates: CandidatePairs, distinct: DistinctGroundTruths, num_thresholds: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Match the contested ground truths of some groups (an image and class each) for all thresholds and area ranges.

    An area range changes the outcome only through preference lists: those go first through the ground truths that
    count, and leave out an ignored one that is beaten by a crowd. Where no list of a group changes, the outcome with
    nothing ignored holds for the range. The other groups are matched again, as further detections and ground truths.

    Returns:
        Area range, detection and ground truth of each match, the first of its thresholds and the one behind the last.
    """
    group = distinct.ordered.groups.index_select(0, candidates.ground_truth)
    group = group.unique_consecutive(return_inverse=True)[1]
    passed, run_starts = _merge_thresholds(candidates.passed, group, num_thresholds)
    # Lists for problem 0, and what each area range ignores or leaves out of them: [areas, pairs].
    order = _preference_order(candidates)
    ground_truths, number = candidates.ground_truth.unique_consecutive(return_inverse=True)
    listed = select(_ListedPairs(number, candidates.detection, passed, group), order)
    ignored = distinct.ignored.index_select(1, candidates.ground_truth.index_select(0, order))
    left_out = None if candidates.is_beaten is None else ignored & candidates.is_beaten.index_select(0, order)
    # Lists for the groups that must be matched again; all problems are matched together.
    problem_of = _problem_of_groups(listed, ignored, left_out, len(run_starts))
    listed, problem, is_ignored = _list_problems(listed, ignored, left_out, problem_of)
    # Detections and ground truths of different problems get different numbers.
    capacity = None if distinct.capacity is None else distinct.capacity.index_select(0, ground_truths)
    lists = PreferenceLists(
        (problem * (listed.detection.max() + 1) + listed.detection).unique_consecutive(return_inverse=True)[1],
        problem * len(ground_truths) + listed.ground_truth,
        listed.passed,
        is_ignored,
        None if capacity is None or not bool((capacity > 1).any()) else capacity.index_select(0, listed.ground_truth),
    )
    run, place = accept(lists, int(listed.passed.max()))

    # A match holds in the area ranges that look at its group in this problem, under the thresholds of its run.
    matched = select(listed, place)
    holds = problem_of.index_select(1, matched.group) == problem.index_select(0, place)
    area, match = holds.nonzero().unbind(1)
    first, last = (run_starts[matched.group, run + each].index_select(0, match) for each in range(2))
    ground_truth = ground_truths.index_select(0, matched.ground_truth.index_select(0, match))
    return area, matched.detection.index_select(0, match), ground_truth, first, last


def _merge_thresholds(
    passed: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"], num_thresholds: int
) -> tuple[Int[Tensor, " pairs"], Int[Tensor, "groups runs"]]:
    """The number of runs that a pair passes, and the first threshold of each run in a group, an image and class.

    A pair passes all thresholds of a run or none: they give the same matching, so one of each run is matched. With
    overlaps of 0.57, 0.72 and 0.74 the thresholds 0.5 and 0.55 are run 0, which all pairs pass, those from 0.6 to 0.7
    are run 1, which two pass, and all others run 2. `passed` is the number of thresholds of each pair; the group
    numbers ascend. Behind the last run of a group is the number of all thresholds.
    """
    num_groups = int(group[-1]) + 1
    key = group * (num_thresholds + 1) + passed
    begins = torch.zeros((num_groups, num_thresholds + 1), dtype=torch.bool, device=key.device)
    begins.view(-1)[key] = True
    run = begins.cumsum(1)  # a new run begins behind the last threshold that some pair passes
    starts = run.new_full((num_groups, num_thresholds + 2), num_thresholds)
    thresholds = torch.arange(num_thresholds + 1, device=key.device).expand_as(run)
    starts.scatter_reduce_(1, run, thresholds, "amin")
    return run.view(-1).index_select(0, key), starts


def _preference_order(candidates: CandidatePairs) -> Int[Tensor, " pairs"]:
    """By detection, from the largest overlap down, and of equal overlaps the last ground truth first."""
    backwards = torch.arange(len(candidates.iou) - 1, -1, -1, device=candidates.iou.device)
    # The bits of floats from 0 up ascend as the floats do, and integers are sorted faster.
    overlap_bits = candidates.iou.index_select(0, backwards).view(torch.int64)
    order = backwards.index_select(0, overlap_bits.bitwise_not().sort(stable=True).indices)
    return order.index_select(0, candidates.detection.index_select(0, order).sort(stable=True).indices)


def _problem_of_groups(
    listed: _ListedPairs, ignored: Ignored, left_out: Ignored | None, num_groups: int
) -> Int[Tensor, "areas groups"]:
    """The problem of each group in each area range: 0 if no list changes, else a + 1 for range a.

    A range changes a list if it leaves a ground truth out, or ignores one that comes before one that counts. If there
    are any two such ground truths, two neighbors are such: only neighbors are compared. Ranges that ignore all ground
    truths of a group have the same lists, so the first of them will do.
    """
    is_changed = torch.zeros_like(ignored)
    torch.gt(ignored[:, :-1], ignored[:, 1:], out=is_changed[:, :-1])
    is_changed[:, :-1] &= listed.detection[1:] == listed.detection[:-1]
    if left_out is not None:
        is_changed |= left_out
    # Groups with a changed list, and groups with a ground truth that counts.
    changed, counts = torch.zeros((2, len(ignored), num_groups), dtype=torch.bool, device=ignored.device)
    for marked, values in ((changed, is_changed), (counts, ~ignored)):
        area, place = values.nonzero().unbind(1)
        marked[area, listed.group.index_select(0, place)] = True
    areas = torch.arange(len(ignored), dtype=torch.int8, device=ignored.device)[:, None]
    first = counts.to(torch.int8).argmin(0).to(torch.int8)
    return torch.where(counts, areas, first).add_(1).masked_fill_(~changed, 0)


def _list_problems(
    listed: _ListedPairs, ignored: Ignored, left_out: Ignored | None, problem_of: Int[Tensor, "areas groups"]
) -> tuple[_ListedPairs, Int[Tensor, " all_pairs"], Bool[Tensor, " all_pairs"]]:
    """Pairs by matching problem and preference list, the problem of each, and whether phase 2 looks at it.

    Problem 0 holds all pairs, with no ground truth ignored; problem a + 1 holds the groups that area range a changes.
    """
    # Each area range repeats the pairs of its own problem, without what it leaves out.
    problem = torch.arange(1, len(ignored) + 1, dtype=problem_of.dtype, device=problem_of.device)
    is_again = problem_of.index_select(1, listed.group) == problem[:, None]
    if left_out is not None:
        is_again &= ~left_out
    area, place = is_again.nonzero().unbind(1)
    first = torch.zeros_like(listed.detection)
    if not len(place):
        return listed, first, first.bool()
    # In a list the ground truths that are ignored come last.
    is_last = ignored[area, place]
    list_number = area * (listed.detection[-1] + 1) + listed.detection.index_select(0, place)
    order = (list_number * 2 + is_last).sort(stable=True).indices
    again = select(listed, place.index_select(0, order))
    return (
        _ListedPairs(*map(torch.cat, zip(listed, again, strict=True))),
        torch.cat([first, area + 1]),  # the new order keeps the areas ascending
        torch.cat([first.bool(), is_last.index_select(0, order)]),
    )
