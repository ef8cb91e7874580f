"""Rounds of deferred acceptance: detections propose under all thresholds at once, and ground truths keep the best.

A detection goes down its preference list, under each threshold by itself. A ground truth keeps the best detection that
has proposed, or as many as its capacity, and rejects the others; a rejected detection goes on to its next candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

_FEW = 128  # proposals that a Python loop makes faster than tensors do
_FREE = 2**62  # in the place of a detection, more than the number of any


class PreferenceLists(NamedTuple):
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


class _NextChoice(NamedTuple):
    """The candidate after each place of the lists; the number of pairs stands for none, so it is a place, too."""

    passed: Int[Tensor, " places"]
    following: Int[Tensor, " places"]
    """next place of the same part of the list"""
    first_ignored: Int[Tensor, " places"]
    """first place of the ignored part of the list, for places of the other part"""

    @classmethod
    def of(cls, lists: PreferenceLists) -> _NextChoice:
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


def accept(lists: PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor]:
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
