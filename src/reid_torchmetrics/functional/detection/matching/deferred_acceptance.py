"""Deferred acceptance: match contested ground truths for all detections, thresholds and area ranges at once.

COCO's greedy matching goes through the detections by descending score, and each matches its best free ground truth. So
all ground truths prefer detections in the same order, by score. Then only one stable matching exists, and proposals in
any order lead to it (Gale and Shapley, "College admissions and the stability of marriage", 1962): all detections
propose at once, under all thresholds, and a ground truth keeps its best detection and rejects the others.

With detections 0, 1, 2 by descending score, where 0 overlaps A, 1 overlaps A more than B, and 2 overlaps B:

    round 1: 0 and 1 propose to A, 2 to B; A keeps 0, the better one, and rejects 1, B keeps 2;
    round 2: 1 proposes to B, which keeps it and rejects 2, whose score is lower;
    round 3: 2 has no candidate left, and the pairs that were kept are the matches: 0 and A, 1 and B.

By COCO's definition 0 matches A, 1 finds that A is matched and gets B, and 2 matches nothing: the same.

Each detection goes down its preference list, separately under each threshold. A ground truth keeps the best detections
that have proposed, up to its capacity, and rejects the others. A rejected detection goes on to its next candidate.

Duplicate ground truths, identical neighbors in one image and class, are merged into one with a capacity before. A
detection overlaps all of them equally and matches the last one that is free, so the best detection gets the last:

    duplicates in rows 4, 5, 6, detections 0 to 3 by descending score: 0 matches row 6, 1 row 5, 2 row 4, and 3 none.

Without this, n equal boxes that are detected n times give n * n pairs, and n rounds of proposals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import OrderedGroundTruths, Shapes

from .pairs import select

Ignored: TypeAlias = Bool[Tensor, "areas pairs"]

_FEW = 128  # number of proposals up to which a Python loop is faster than tensors
_FREE = 2**62  # takes the place of a detection, and is larger than every detection


class DistinctGroundTruths(NamedTuple):
    """Ground truths in order, with duplicates merged into the last one of them."""

    ordered: OrderedGroundTruths
    shapes: Shapes
    """in this order"""
    ignored: Bool[Tensor, "areas ground_truths"]
    capacity: Int[Tensor, " ground_truths"] | None = None
    """number of detections that can match it; None if every capacity is 1. A crowd has 1, as it is never contested"""
    all_rows: Int[Tensor, " all_ground_truths"] | None = None
    """rows in order before merging; None without duplicates"""
    last: Int[Tensor, " ground_truths"] | None = None
    """the place in `all_rows` of the last of the duplicates; None without duplicates"""

    def rows_of(
        self, ground_truth: Int[Tensor, " matches"], problem: Int[Tensor, " matches"]
    ) -> Int[Tensor, " matches"]:
        """Return the row of the ground truth of each match; matches are by descending score in each problem.

        A problem is an area range and a threshold, where detections that match duplicates get different rows.
        """
        if self.capacity is None or self.all_rows is None or self.last is None:
            return self.ordered.rows.index_select(0, ground_truth)
        # The detections of a ground truth keep their order: rank 0 is the best one, and gets the last duplicate.
        rank = segments.ranks(problem * len(self.last) + ground_truth)
        largest_rank = self.capacity.index_select(0, ground_truth) - 1  # all detections in a crowd match the same row
        place = self.last.index_select(0, ground_truth) - torch.minimum(rank, largest_rank)
        return self.all_rows.index_select(0, place)


def merge_duplicates(
    ground_truths: OrderedGroundTruths, shapes: Shapes, ignored: Bool[Tensor, "areas ground_truths"]
) -> DistinctGroundTruths:
    """Merge neighbors with equal shapes that are both crowds or not, and that the same area ranges ignore.

    `shapes` are by row. Only neighbors are merged, because a tie may go to a ground truth between two duplicates.
    """
    shapes = shapes[ground_truths.rows]
    is_duplicate = shapes.repeats()
    if is_duplicate is None:
        return DistinctGroundTruths(ground_truths, shapes, ignored)
    for values in (ground_truths.groups, ground_truths.is_crowd, *ignored):
        is_duplicate[1:] &= values[1:] == values[:-1]
    first = (~is_duplicate).nonzero()[:, 0]
    last = torch.cat([first[1:], first.new_full((1,), len(is_duplicate))]) - 1
    distinct = ground_truths._replace(
        rows=ground_truths.rows.index_select(0, last),
        class_index=ground_truths.class_index.index_select(0, last),
        is_crowd=ground_truths.is_crowd.index_select(0, last),
        groups=ground_truths.groups.index_select(0, last),
    )
    return DistinctGroundTruths(
        ordered=distinct,
        shapes=shapes[last],
        ignored=ignored.index_select(1, last),
        capacity=(last - first + 1).masked_fill_(distinct.is_crowd, 1),
        all_rows=ground_truths.rows,
        last=last,
    )


class CandidatePairs(NamedTuple):
    """Pairs by ground truth, and for each ground truth by descending score of the detection."""

    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    """a smaller number has a better score"""
    passed: Int[Tensor, " pairs"]
    """number of thresholds that the overlap reaches"""
    iou: Float[Tensor, " pairs"]
    is_beaten: Bool[Tensor, " pairs"] | None
    """whether the detection prefers a crowd where the ground truth is ignored; None if never"""


class _ListedPairs(NamedTuple):
    """Pairs in the order of preference lists."""

    ground_truth: Int[Tensor, " pairs"]
    """index among the ground truths of all pairs"""
    detection: Int[Tensor, " pairs"]
    passed: Int[Tensor, " pairs"]
    """number of runs of thresholds that the overlap reaches"""
    group: Int[Tensor, " pairs"]


class _PreferenceLists(NamedTuple):
    """Preference lists laid end to end: for each detection first the ground truths that count, then the ignored ones.

    Overlaps descend in both parts.
    """

    detection: Int[Tensor, " pairs"]
    """numbers from 0 on without gaps; a better score has a smaller number"""
    ground_truth: Int[Tensor, " pairs"]
    """numbers from 0 on, with few gaps"""
    passed: Int[Tensor, " pairs"]
    """number of runs of thresholds that the overlap reaches"""
    is_ignored: Bool[Tensor, " pairs"]
    capacity: Int[Tensor, " pairs"] | None
    """number of detections that the ground truth can match; None if every capacity is 1"""


def stable_matching(
    candidates: CandidatePairs, distinct: DistinctGroundTruths, num_thresholds: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Match the contested ground truths in some groups, each an image and class, for all thresholds and area ranges.

    An area range changes the outcome only through the preference lists: the ground truths that count come first, and an
    ignored one that is beaten by a crowd is left out. Where a range changes no list of a group, the outcome with
    nothing ignored (problem 0) holds for the range. The other groups are matched again in further problems. All
    problems are solved together, with different numbers for their detections and ground truths.

    Returns:
        Area range, detection and ground truth of each match, its first threshold, and the threshold after its last.
    """
    group = distinct.ordered.groups.index_select(0, candidates.ground_truth)
    group = group.unique_consecutive(return_inverse=True)[1]
    passed, run_starts = _merge_thresholds(candidates.passed, group, num_thresholds)

    # The lists of problem 0, and the pairs that each area range ignores or leaves out: [areas, pairs].
    order = _preference_order(candidates)
    ground_truths, index = candidates.ground_truth.unique_consecutive(return_inverse=True)
    listed = select(_ListedPairs(index, candidates.detection, passed, group), order)
    ignored = distinct.ignored.index_select(1, candidates.ground_truth.index_select(0, order))
    left_out = None
    if candidates.is_beaten is not None:
        left_out = ignored & candidates.is_beaten.index_select(0, order)

    # The lists of all problems.
    problem_of_groups = _problem_of_groups(listed, ignored, left_out, len(run_starts))
    listed, problem, is_ignored = _list_problems(listed, ignored, left_out, problem_of_groups)
    capacity = None
    if distinct.capacity is not None:
        capacity = distinct.capacity.index_select(0, ground_truths)
        capacity = capacity.index_select(0, listed.ground_truth) if bool((capacity > 1).any()) else None
    detection = problem * (listed.detection.max() + 1) + listed.detection
    lists = _PreferenceLists(
        detection=detection.unique_consecutive(return_inverse=True)[1],
        ground_truth=problem * len(ground_truths) + listed.ground_truth,
        passed=listed.passed,
        is_ignored=is_ignored,
        capacity=capacity,
    )
    run, place = _accept(lists, int(listed.passed.max()))

    # A match holds in the area ranges that have its problem for its group, under the thresholds of its run.
    matched = select(listed, place)
    holds = problem_of_groups.index_select(1, matched.group) == problem.index_select(0, place)
    area, match = holds.nonzero().unbind(1)
    first = run_starts[matched.group, run].index_select(0, match)
    end = run_starts[matched.group, run + 1].index_select(0, match)
    ground_truth = ground_truths.index_select(0, matched.ground_truth.index_select(0, match))
    return area, matched.detection.index_select(0, match), ground_truth, first, end


def _merge_thresholds(
    passed: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"], num_thresholds: int
) -> tuple[Int[Tensor, " pairs"], Int[Tensor, "groups runs"]]:
    """Return the number of runs that each pair passes, and the first threshold of each run in each group.

    A pair passes all thresholds of a run or none, so these give the same matching, and one of them is matched. With
    overlaps of 0.57, 0.72 and 0.74 in a group the runs are:

        run 0: the thresholds 0.5 and 0.55, passed by all pairs
        run 1: the thresholds from 0.6 to 0.7, passed by two pairs
        run 2: all larger thresholds, passed by none

    `passed` is the number of thresholds that each pair passes; `group` ascends. After the last run of a group the first
    threshold is the number of all thresholds.
    """
    num_groups = int(group[-1]) + 1
    key = group * (num_thresholds + 1) + passed
    begins = torch.zeros((num_groups, num_thresholds + 1), dtype=torch.bool, device=key.device)
    begins.view(-1)[key] = True
    run = begins.cumsum(1)  # a run begins after the last threshold that some pair passes
    starts = run.new_full((num_groups, num_thresholds + 2), num_thresholds)
    thresholds = torch.arange(num_thresholds + 1, device=key.device).expand_as(run)
    starts.scatter_reduce_(1, run, thresholds, "amin")
    return run.view(-1).index_select(0, key), starts


def _preference_order(candidates: CandidatePairs) -> Int[Tensor, " pairs"]:
    """Return the order by detection, descending overlap and, for equal overlaps, descending ground truth."""
    backwards = torch.arange(len(candidates.iou) - 1, -1, -1, device=candidates.iou.device)
    # The bits of floats from 0 up ascend with the floats, and integers are sorted faster.
    overlap_bits = candidates.iou.index_select(0, backwards).view(torch.int64)
    order = backwards.index_select(0, overlap_bits.bitwise_not().sort(stable=True).indices)
    return order.index_select(0, candidates.detection.index_select(0, order).sort(stable=True).indices)


def _problem_of_groups(
    listed: _ListedPairs, ignored: Ignored, left_out: Ignored | None, num_groups: int
) -> Int[Tensor, "areas groups"]:
    """Return the problem of each group in each area range: 0 if no list changes, else a + 1 for range a.

    A range changes a list if it leaves a ground truth out, or ignores a ground truth before one that counts. If there
    are two such ground truths, there are also two neighbors, so only neighbors are compared. Ranges that ignore all
    ground truths of a group have the same lists, and share the problem of the first of them.
    """
    is_changed = torch.zeros_like(ignored)
    torch.gt(ignored[:, :-1], ignored[:, 1:], out=is_changed[:, :-1])
    is_changed[:, :-1] &= listed.detection[1:] == listed.detection[:-1]
    if left_out is not None:
        is_changed |= left_out
    # Groups with a changed list, and groups with a ground truth that counts.
    has_change, has_positive = torch.zeros((2, len(ignored), num_groups), dtype=torch.bool, device=ignored.device)
    for group_flags, pair_flags in ((has_change, is_changed), (has_positive, ~ignored)):
        area, place = pair_flags.nonzero().unbind(1)
        group_flags[area, listed.group.index_select(0, place)] = True
    areas = torch.arange(len(ignored), dtype=torch.int8, device=ignored.device)[:, None]
    first_without = has_positive.to(torch.int8).argmin(0).to(torch.int8)
    return torch.where(has_positive, areas, first_without).add_(1).masked_fill_(~has_change, 0)


def _list_problems(
    listed: _ListedPairs,
    ignored: Ignored,
    left_out: Ignored | None,
    problem_of_groups: Int[Tensor, "areas groups"],
) -> tuple[_ListedPairs, Int[Tensor, " all_pairs"], Bool[Tensor, " all_pairs"]]:
    """Return the pairs by problem and preference list, the problem of each pair, and whether it belongs to phase 2.

    Problem 0 has all pairs, with no ground truth ignored; problem a + 1 has the groups that area range a changes.
    """
    # Each area range repeats the pairs of its own problem, except for the pairs that it leaves out.
    problem = torch.arange(1, len(ignored) + 1, dtype=problem_of_groups.dtype, device=problem_of_groups.device)
    is_repeated = problem_of_groups.index_select(1, listed.group) == problem[:, None]
    if left_out is not None:
        is_repeated &= ~left_out
    area, place = is_repeated.nonzero().unbind(1)
    problem_0 = torch.zeros_like(listed.detection)
    if not len(place):
        return listed, problem_0, problem_0.bool()

    # In a list the ignored ground truths come last.
    is_ignored = ignored[area, place]
    list_number = area * (listed.detection[-1] + 1) + listed.detection.index_select(0, place)
    order = (list_number * 2 + is_ignored).sort(stable=True).indices
    repeated = select(listed, place.index_select(0, order))
    return (
        _ListedPairs(*map(torch.cat, zip(listed, repeated, strict=True))),
        torch.cat([problem_0, area + 1]),  # the areas ascend, and the new order does not change that
        torch.cat([problem_0.bool(), is_ignored.index_select(0, order)]),
    )


class _NextChoice(NamedTuple):
    """The candidate after each place of the lists; the number of pairs stands for none, so it is a place, too."""

    passed: Int[Tensor, " places"]
    following: Int[Tensor, " places"]
    """next place in the same part of the list"""
    first_ignored: Int[Tensor, " places"]
    """first place in the ignored part of the list, for places in the other part"""

    @classmethod
    def of(cls, lists: _PreferenceLists) -> _NextChoice:
        """Find the next candidates in preference lists."""
        detection = lists.detection
        num_pairs = len(detection)
        following = torch.arange(1, num_pairs + 2, device=detection.device)
        passed = functional.pad(lists.passed, (0, 1))
        goes_on = (detection[1:] == detection[:-1]) & (lists.is_ignored[1:] == lists.is_ignored[:-1])
        following[: num_pairs - 1].masked_fill_(~goes_on, num_pairs)
        following[-1] = num_pairs

        # Phase 2 begins at the first ignored place of a list.
        begins_phase_2 = lists.is_ignored.clone()
        begins_phase_2[1:] &= ~goes_on
        place = begins_phase_2.nonzero()[:, 0]
        place_of_detection = torch.full_like(following, num_pairs)  # there are no more detections than pairs
        place_of_detection[detection.index_select(0, place)] = place
        first_ignored = place_of_detection.index_select(0, detection).masked_fill_(lists.is_ignored, num_pairs)
        return cls(passed, following, functional.pad(first_ignored, (0, 1), value=num_pairs))

    def after(self, place: Int[Tensor, " some"], threshold: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """Return the next candidates that pass the threshold, for detections that were rejected at `place`.

        Overlaps descend in each part of a list: if the next place fails, all later places of the part fail, and only
        the ignored part is left.
        """
        following = self.following.index_select(0, place)
        first_ignored = self.first_ignored.index_select(0, place)
        no_place = len(self.passed) - 1
        following = torch.where(self.passed.index_select(0, following) > threshold, following, first_ignored)
        return torch.where(self.passed.index_select(0, following) > threshold, following, no_place)


def _accept(lists: _PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor]:
    """Let all detections propose until each is matched or out of candidates; return thresholds and places of matches.

    In each round every unmatched detection proposes to its next candidate. The matches of a ground truth only get
    better, so a detection need not propose again after it was rejected. Each round but the last removes a place from
    the list of every rejected detection, and lists are finite, so the rounds end.
    """
    num_pairs = len(lists.detection)
    num_ground_truths = int(lists.ground_truth.max()) + 1
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
        else:  # each round needs a sort
            threshold, detection = _reject_beyond(lists.capacity, match_at, lists.ground_truth, num_ground_truths)

        # A rejected detection goes on after the place of its proposal, new or from an earlier round.
        cell = threshold * match_at.shape[1] + detection
        place = next_choice.after(match_at.view(-1).index_select(0, cell), threshold)
        match_at.view(-1).index_fill_(0, cell, num_pairs)
        has_next = (place < num_pairs).nonzero()[:, 0]
        threshold = threshold.index_select(0, has_next)
        detection = detection.index_select(0, has_next)
        place = place.index_select(0, has_next)
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

    A chain of n detections, where each displaces the next, takes n rounds of tensors, and a step of Python takes less
    time than a round.
    """
    num_pairs = len(ground_truths)
    num_detections = match_at.shape[1]
    num_ground_truths = best.shape[1]
    # Memory of the tensors, for reading and writing one value at a time.
    tensors = (match_at, best, ground_truths, *next_choice)
    match, best_of, ground_truth, passed, following, first_ignored = (
        tensor.view(-1).numpy().data for tensor in tensors
    )

    for threshold, proposer, first_place in proposals:
        detection = proposer
        place = first_place
        first_match = threshold * num_detections
        first_best = threshold * num_ground_truths
        while place < num_pairs:
            # The ground truth keeps the better detection and rejects the other one.
            match[first_match + detection] = place
            item = first_best + ground_truth[place]
            rejected = best_of[item]
            if detection < rejected:
                best_of[item] = detection
                detection = rejected
            if detection == _FREE:
                break
            # The rejected detection goes on after the place of its proposal, in phase 1, then in phase 2.
            last_place = match[first_match + detection]
            match[first_match + detection] = num_pairs
            place = following[last_place]
            if passed[place] <= threshold:
                place = first_ignored[last_place]
            if passed[place] <= threshold:
                break


def _reject(
    threshold: Tensor, detection: Tensor, ground_truth: Tensor, best: Int[Tensor, "thresholds ground_truths"]
) -> tuple[Tensor, Tensor]:
    """Return thresholds and detections that are rejected after a round of proposals; each ground truth keeps one.

    The best detection of each ground truth is updated in `best`.
    """
    cell = threshold * best.shape[1] + ground_truth
    best = best.view(-1)
    earlier_best = best.index_select(0, cell)
    best.scatter_reduce_(0, cell, detection, "amin")
    # A new best detection displaces the earlier one; all other detections of this round are rejected themselves.
    loser = torch.where(best.index_select(0, cell) == detection, earlier_best, detection)
    rejected = (loser != _FREE).nonzero()[:, 0]
    return threshold.index_select(0, rejected), loser.index_select(0, rejected)


def _reject_beyond(
    capacity: Tensor, match_at: Tensor, ground_truths: Int[Tensor, " pairs"], num_ground_truths: int
) -> tuple[Tensor, Tensor]:
    """Return thresholds and detections that are rejected because their ground truth keeps `capacity` better ones."""
    # Matches with the same threshold and ground truth are in the order of their detections, by descending score.
    threshold, detection = (match_at < len(ground_truths)).nonzero(as_tuple=True)
    place = match_at[threshold, detection]
    key = threshold * num_ground_truths + ground_truths.index_select(0, place)
    rejected = (segments.ranks(key) >= capacity.index_select(0, place)).nonzero()[:, 0]
    return threshold.index_select(0, rejected), detection.index_select(0, rejected)


def _first_proposals(detection: Int[Tensor, " pairs"], next_choice: _NextChoice) -> tuple[Tensor, Tensor, Tensor]:
    """Return threshold, detection and place of the first proposals, one per threshold that some overlap passes.

    The first place in each part of a list passes the most thresholds. So a detection proposes to the head of its list
    under the thresholds that the head passes, and to the first ignored ground truth under further thresholds.
    """
    heads = segments.starts(detection.unique_consecutive(return_counts=True)[1])
    first_ignored = next_choice.first_ignored.index_select(0, heads)
    passed = next_choice.passed.index_select(0, heads)
    num_thresholds = torch.maximum(passed, next_choice.passed.index_select(0, first_ignored))
    detection, threshold = segments.runs(0, num_thresholds)
    is_head = threshold < passed.index_select(0, detection)
    place = torch.where(is_head, heads.index_select(0, detection), first_ignored.index_select(0, detection))
    return threshold, detection, place
