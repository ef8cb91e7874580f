"""Rounds of deferred acceptance: detections propose under all thresholds at once, and ground truths keep the best.

A detection goes down its preference list, under each threshold by itself. A ground truth keeps the best detection that
has proposed, or as many as its capacity, and rejects the others; a rejected detection goes on to its next candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class _NextChoice:
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


class _Proposals(NamedTuple):
    """Proposals of a round: a detection proposes under each threshold by itself."""

    threshold: Int[Tensor, " proposals"]
    detection: Int[Tensor, " proposals"]
    place: Int[Tensor, " proposals"]
    """in the lists"""


class _SingleMatches:
    """Ground truths that match one detection each, the best that has proposed: it only gets better."""

    def __init__(self, lists: PreferenceLists, num_thresholds: int) -> None:
        self._ground_truth, self._num_ground_truths = lists.ground_truth, int(lists.ground_truth.max()) + 1
        self._best = self._ground_truth.new_full((num_thresholds * self._num_ground_truths,), _FREE)

    def reject(self, proposals: _Proposals, _: Tensor) -> tuple[Tensor, Tensor]:
        """Thresholds and detections of matches that end, and of proposals in vain."""
        item = proposals.threshold * self._num_ground_truths + self._ground_truth.index_select(0, proposals.place)
        before = self._best.index_select(0, item)
        self._best.scatter_reduce_(0, item, proposals.detection, "amin")
        is_kept = self._best.index_select(0, item) == proposals.detection
        # A kept detection displaces the one of earlier rounds; all others of this round are rejected.
        loser = torch.where(is_kept, before, proposals.detection)
        rejected = (loser != _FREE).nonzero()[:, 0]
        return proposals.threshold.index_select(0, rejected), loser.index_select(0, rejected)

    def propose_in_turn(self, proposals: _Proposals, match_at: Tensor, next_choice: _NextChoice) -> None:
        """Make few proposals one after the other, each with the chain of detections that it displaces.

        A chain of n detections, each displaced by the one before, takes n rounds, and a step of Python is shorter than
        a round.
        """
        # The tensors are read and written in place, one value at a time.
        tensors = (match_at, self._best, self._ground_truth, *vars(next_choice).values())
        views = (memoryview(tensor.numpy()) for tensor in tensors)
        match, best, ground_truth, passed, following, first_ignored = views
        num_pairs, num_detections = len(ground_truth), len(match) * self._num_ground_truths // len(best)

        def propose(threshold: int, detection: int, place: int) -> None:
            first_match, first_best = threshold * num_detections, threshold * self._num_ground_truths
            while place < num_pairs:
                # The better detection is kept, the other one is rejected.
                match[first_match + detection] = place
                item = first_best + ground_truth[place]
                before = best[item]
                if detection < before:
                    best[item], detection = detection, before
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

        for proposal in zip(*(column.tolist() for column in proposals), strict=True):
            propose(*proposal)


class _SeveralMatches:
    """Ground truths that match as many detections as their capacity, the best that have proposed."""

    def __init__(self, lists: PreferenceLists, capacity: Tensor, num_thresholds: int) -> None:
        self._ground_truth, self._num_ground_truths = lists.ground_truth, int(lists.ground_truth.max()) + 1
        self._num_detections = int(lists.detection[-1]) + 1
        self._threshold = torch.arange(num_thresholds, device=capacity.device).repeat_interleave(self._num_detections)
        self._capacity = capacity

    def reject(self, _: _Proposals, match_at: Tensor) -> tuple[Tensor, Tensor]:
        """As of `_SingleMatches`: detections that are ranked at or beyond the capacity."""
        # Matches by threshold and ground truth: a stable sort keeps the detections by descending score.
        item = (match_at < len(self._ground_truth)).nonzero()[:, 0]
        place = match_at.index_select(0, item)
        ground_truth = self._ground_truth.index_select(0, place)
        key = self._threshold.index_select(0, item) * self._num_ground_truths + ground_truth
        keys, order = key.sort(stable=True)
        rank = segments.runs(0, keys.unique_consecutive(return_counts=True)[1])[1]
        is_rejected = rank >= self._capacity.index_select(0, place.index_select(0, order))
        item = item.index_select(0, order[is_rejected])
        return self._threshold.index_select(0, item), item % self._num_detections


def accept(lists: PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor]:
    """Let all detections propose until each is matched or has no candidate left: thresholds and places of the matches.

    In each round every unmatched detection proposes to its next candidate. The matches of a ground truth only get
    better, so a detection need not return to one that rejected it. Each round but the last strikes a place off the list
    of every rejected detection, and lists are finite, so the rounds end.
    """
    num_pairs, num_detections = len(lists.detection), int(lists.detection[-1]) + 1
    next_choice = _NextChoice.of(lists)
    # A capacity takes a sort in each round.
    if lists.capacity is None:
        ground_truths: _SingleMatches | _SeveralMatches = _SingleMatches(lists, num_thresholds)
    else:
        ground_truths = _SeveralMatches(lists, lists.capacity, num_thresholds)
    # The place of the match so far, by threshold and detection.
    match_at = lists.ground_truth.new_full((num_thresholds * num_detections,), num_pairs)
    proposals = _first_proposals(lists.detection, next_choice)
    while len(proposals.place):
        if isinstance(ground_truths, _SingleMatches) and len(proposals.place) <= _FEW and match_at.device.type == "cpu":
            ground_truths.propose_in_turn(proposals, match_at, next_choice)
            break
        match_at[proposals.threshold * num_detections + proposals.detection] = proposals.place
        threshold, detection = ground_truths.reject(proposals, match_at)
        # A rejected detection goes on behind the place where it was, new or matched before.
        item = threshold * num_detections + detection
        place = next_choice.after(match_at.index_select(0, item), threshold)
        match_at[item] = num_pairs
        has_next = (place < num_pairs).nonzero()[:, 0]
        proposals = _Proposals(*(values.index_select(0, has_next) for values in (threshold, detection, place)))
    item = (match_at < num_pairs).nonzero()[:, 0]
    return item // num_detections, match_at.index_select(0, item)


def _first_proposals(detection: Int[Tensor, " pairs"], next_choice: _NextChoice) -> _Proposals:
    """One for each detection and threshold that some overlap passes.

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
    return _Proposals(threshold, detection, place)
