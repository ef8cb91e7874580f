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

A detection goes down its preference list, under each threshold by itself. A ground truth keeps the best detection that
has proposed, or as many as its capacity, and rejects the others; a rejected detection goes on to its next candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

from .duplicates import DistinctGroundTruths
from .pairs import select

Ignored: TypeAlias = Bool[Tensor, "areas pairs"]

_FEW = 128  # proposals that a Python loop makes faster than tensors do
_FREE = 2**62  # in the place of a detection, more than the number of any


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


class _PreferenceLists(NamedTuple):
    """Preference lists laid end to end: for each detection first the ground truths that count, then the ignored ones.

    Overlaps descend in both parts.
    """

    detection: Int[Tensor, " pairs"]
    """numbers from 0 on without gaps; the better score has the smaller one"""
    ground_truth: Int[Tensor, " pairs"]
    """numbers from 0 on, with few gaps"""
    passed: Int[Tensor, " pairs"]
    """number of thresholds"""
    is_ignored: Bool[Tensor, " pairs"]
    capacity: Int[Tensor, " pairs"] | None
    """how many detections the ground truth can match; None if all match one"""


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
    lists = _PreferenceLists(
        (problem * (listed.detection.max() + 1) + listed.detection).unique_consecutive(return_inverse=True)[1],
        problem * len(ground_truths) + listed.ground_truth,
        listed.passed,
        is_ignored,
        None if capacity is None or not bool((capacity > 1).any()) else capacity.index_select(0, listed.ground_truth),
    )
    run, place = _accept(lists, int(listed.passed.max()))

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


class _NextChoice(NamedTuple):
    """The candidate after each place of the lists; the number of pairs stands for none, so it is a place, too."""

    passed: Int[Tensor, " places"]
    following: Int[Tensor, " places"]
    """next place of the same part of the list"""
    first_ignored: Int[Tensor, " places"]
    """first place of the ignored part of the list, for places of the other part"""

    @classmethod
    def of(cls, lists: _PreferenceLists) -> _NextChoice:
        """Follow preference lists."""
        num_pairs, detection = len(lists.detection), lists.detection
        following = torch.arange(1, num_pairs + 2, device=detection.device)
        passed = functional.pad(lists.passed, (0, 1))
        goes_on = (detection[1:] == detection[:-1]) & (lists.is_ignored[1:] == lists.is_ignored[:-1])
        following[: num_pairs - 1].masked_fill_(~goes_on, num_pairs)
        following[-1] = num_pairs
        # Phase 2 begins at the first ignored place of a list.
        begins = lists.is_ignored.clone()
        begins[1:] &= ~goes_on
        place = begins.nonzero()[:, 0]
        of_detection = torch.full_like(following, num_pairs)  # there are no more detections than pairs
        of_detection[detection.index_select(0, place)] = place
        first_ignored = of_detection.index_select(0, detection).masked_fill_(lists.is_ignored, num_pairs)
        return cls(passed, following, functional.pad(first_ignored, (0, 1), value=num_pairs))

    def after(self, place: Int[Tensor, " some"], threshold: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """The next candidate that passes the threshold, for detections that were rejected at a place.

        Overlaps descend in a part of a list: if its next place fails, all later ones fail, and only the ignored part is
        left.
        """
        place, otherwise = self.following.index_select(0, place), self.first_ignored.index_select(0, place)
        for candidate in (otherwise, len(self.passed) - 1):
            place = torch.where(self.passed.index_select(0, place) > threshold, place, candidate)
        return place


def _accept(lists: _PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor]:
    """Let all detections propose until each is matched or has no candidate left: thresholds and places of the matches.

    In each round every unmatched detection proposes to its next candidate. The matches of a ground truth only get
    better, so a detection need not return to one that rejected it. Each round but the last strikes a place off the list
    of every rejected detection, and lists are finite, so the rounds end.
    """
    num_pairs, num_ground_truths = len(lists.detection), int(lists.ground_truth.max()) + 1
    next_choice = _NextChoice.of(lists)
    # The place of the match of each detection so far, and the best detection that has proposed to each ground truth.
    match_at = lists.ground_truth.new_full((num_thresholds, int(lists.detection[-1]) + 1), num_pairs)
    best = lists.ground_truth.new_full((num_thresholds, num_ground_truths), _FREE)
    threshold, detection, place = _first_proposals(lists.detection, next_choice)
    while len(place):
        if lists.capacity is None and len(place) <= _FEW and place.device.type == "cpu":
            proposals = zip(threshold.tolist(), detection.tolist(), place.tolist(), strict=True)
            _propose_in_turn(proposals, match_at, best, lists.ground_truth, next_choice)
            break
        match_at.view(-1).index_copy_(0, threshold * match_at.shape[1] + detection, place)
        if lists.capacity is None:
            threshold, detection = _reject(threshold, detection, lists.ground_truth.index_select(0, place), best)
        else:  # it takes a sort in each round
            threshold, detection = _reject_beyond(lists.capacity, match_at, lists.ground_truth, num_ground_truths)
        # A rejected detection goes on behind the place where it was, new or matched before.
        item = threshold * match_at.shape[1] + detection
        place = next_choice.after(match_at.view(-1).index_select(0, item), threshold)
        match_at.view(-1).index_fill_(0, item, num_pairs)
        has_next = (place < num_pairs).nonzero()[:, 0]
        threshold, detection, place = (values.index_select(0, has_next) for values in (threshold, detection, place))
    threshold, detection = (match_at < num_pairs).nonzero(as_tuple=True)
    return threshold, match_at[threshold, detection]


def _propose_in_turn(
    proposals: Iterable[tuple[int, ...]],
    match_at: Tensor,
    best: Tensor,
    ground_truths: Tensor,
    next_choice: _NextChoice,
) -> None:
    """Make few proposals one after the other, each with the chain of detections that it displaces.

    A chain of n detections, each displaced by the one before, takes n rounds, and a step of Python is shorter than a
    round.
    """
    num_pairs, num_detections, num_ground_truths = len(ground_truths), match_at.shape[1], best.shape[1]
    # The tensors are read and written in place, one value at a time.
    views = (tensor.view(-1).numpy().data for tensor in (match_at, best, ground_truths, *next_choice))
    match, best_of, ground_truth, passed, following, first_ignored = views

    def propose(threshold: int, detection: int, place: int) -> None:
        first_match, first_best = threshold * num_detections, threshold * num_ground_truths
        while place < num_pairs:
            # The better detection is kept, the other one is rejected.
            match[first_match + detection] = place
            item = first_best + ground_truth[place]
            before = best_of[item]
            if detection < before:
                best_of[item], detection = detection, before
            if detection == _FREE:
                break
            # It goes on behind the place where it was, in phase 1, then in phase 2.
            left = match[first_match + detection]
            match[first_match + detection] = num_pairs
            place = following[left]
            if passed[place] <= threshold:
                place = first_ignored[left]
            if passed[place] <= threshold:
                break

    for proposal in proposals:
        propose(*proposal)


def _reject(
    threshold: Tensor, detection: Tensor, ground_truth: Tensor, best: Int[Tensor, "thresholds ground_truths"]
) -> tuple[Tensor, Tensor]:
    """Thresholds and detections of matches that end, and of proposals in vain; a ground truth keeps the best one."""
    item, best = threshold * best.shape[1] + ground_truth, best.view(-1)
    before = best.index_select(0, item)
    best.scatter_reduce_(0, item, detection, "amin")
    # A kept detection displaces the one of earlier rounds; all others of this round are rejected.
    loser = torch.where(best.index_select(0, item) == detection, before, detection)
    rejected = (loser != _FREE).nonzero()[:, 0]
    return threshold.index_select(0, rejected), loser.index_select(0, rejected)


def _reject_beyond(
    capacity: Tensor, match_at: Tensor, ground_truths: Int[Tensor, " pairs"], num_ground_truths: int
) -> tuple[Tensor, Tensor]:
    """The same where ground truths keep several: of matches that are ranked at or beyond the capacity."""
    # Matches of a threshold and ground truth keep the order of their detections, by descending score.
    threshold, detection = (match_at < len(ground_truths)).nonzero(as_tuple=True)
    place = match_at[threshold, detection]
    key = threshold * num_ground_truths + ground_truths.index_select(0, place)
    rejected = (segments.ranks(key) >= capacity.index_select(0, place)).nonzero()[:, 0]
    return threshold.index_select(0, rejected), detection.index_select(0, rejected)


def _first_proposals(detection: Int[Tensor, " pairs"], next_choice: _NextChoice) -> tuple[Tensor, Tensor, Tensor]:
    """Thresholds, detections and places of the first proposals, one for each threshold that some overlap passes.

    The first of a list is asked under the thresholds that it passes, the first ignored one under those that only it
    passes: the first of each part passes the most.
    """
    heads = segments.starts(detection.unique_consecutive(return_counts=True)[1])
    first_ignored = next_choice.first_ignored.index_select(0, heads)
    passed = next_choice.passed.index_select(0, heads)
    num_thresholds = torch.maximum(passed, next_choice.passed.index_select(0, first_ignored))
    detection, threshold = segments.runs(0, num_thresholds)
    is_head = threshold < passed.index_select(0, detection)
    place = torch.where(is_head, heads.index_select(0, detection), first_ignored.index_select(0, detection))
    return threshold, detection, place
