"""Rounds of deferred acceptance: all propose at once, under all thresholds, and each receiver keeps the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments

_FEW = 128  # proposals that are faster made one by one
_FREE = 2**62  # more than any proposer's number: held by nobody


class PreferenceLists(NamedTuple):
    """Preference lists laid end to end: by proposer, first the ground truths that count, each part best first."""

    proposer: Int[Tensor, " pairs"]
    """numbers from 0 on, none of which is left out; the better score has the smaller one"""
    receiver: Int[Tensor, " pairs"]
    """any numbers from 0 on"""
    passed: Int[Tensor, " pairs"]
    is_ignored: Bool[Tensor, " pairs"] | None
    """None if all count"""
    capacity: Int[Tensor, " pairs"] | None
    """how many proposers the receiver can hold, if some can hold several"""


@dataclass(frozen=True)
class _NextChoice:
    """Where a proposer turns next; the number of pairs stands for nowhere, so there is one place more than pairs."""

    passed: Int[Tensor, " places"]
    following: Int[Tensor, " places"]
    """next place of the same part of the list"""
    first_ignored: Int[Tensor, " places"]
    """where the ignored part of the same list begins, seen from the other part"""

    @classmethod
    def of(cls, lists: PreferenceLists) -> _NextChoice:
        """Of preference lists."""
        num_pairs, proposer = len(lists.proposer), lists.proposer
        following = torch.arange(1, num_pairs + 2, device=proposer.device)
        passed = torch.cat([lists.passed, lists.passed.new_zeros(1)])
        goes_on = proposer[1:] == proposer[:-1]
        if lists.is_ignored is not None:
            goes_on &= lists.is_ignored[1:] == lists.is_ignored[:-1]
        following[: num_pairs - 1].masked_fill_(~goes_on, num_pairs)
        following[-1] = num_pairs
        first_ignored = torch.full_like(following, num_pairs)
        if lists.is_ignored is not None:
            begins = lists.is_ignored.clone()
            begins[1:] &= ~goes_on
            place = begins.nonzero()[:, 0]
            ignored_part = first_ignored.clone()  # by proposer, of whom there are no more than pairs
            ignored_part[proposer.index_select(0, place)] = place
            seen_from = (~lists.is_ignored).nonzero()[:, 0]
            first_ignored[seen_from] = ignored_part.index_select(0, proposer.index_select(0, seen_from))
        return cls(passed, following, first_ignored)

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
    place: Int[Tensor, " proposals"]
    """in the lists; the number of pairs for a proposer that has nobody left"""

    def where(self, mask: Bool[Tensor, " proposals"]) -> _Proposals:
        """Some of the proposals."""
        places = mask.nonzero()[:, 0]
        return _Proposals(*(values.index_select(0, places) for values in vars(self).values()))


class _UnitReceivers:
    """Receivers that hold one proposer each, the best that they have seen, which only improves."""

    def __init__(self, lists: PreferenceLists, num_thresholds: int) -> None:
        self._receiver, self._num_receivers = _counted(lists.receiver)
        self._holder = self._receiver.new_full((num_thresholds * self._num_receivers,), _FREE)

    def turn_away(self, proposals: _Proposals, _: Tensor) -> tuple[Tensor, Tensor]:
        """Thresholds and proposers that are not held any more, or were not taken."""
        item = proposals.threshold * self._num_receivers + self._receiver.index_select(0, proposals.place)
        before = self._holder.index_select(0, item)
        self._holder.scatter_reduce_(0, item, proposals.proposer, "amin")
        has_won = self._holder.index_select(0, item) == proposals.proposer
        # Of two who want the same one is turned away, wherever he comes from.
        loser = torch.where(has_won, before, proposals.proposer)
        turned_away = (loser != _FREE).nonzero()[:, 0]
        return proposals.threshold.index_select(0, turned_away), loser.index_select(0, turned_away)

    def propose_in_turn(self, proposals: _Proposals, held_at: Tensor, next_choice: _NextChoice) -> None:
        """Go through few proposals one after the other, each with those who lose their places by it.

        Where each proposal puts one out who goes on to the next place, there are as many rounds as places: a step of
        Python is shorter than a round.
        """
        tensors = (held_at, self._holder, self._receiver, *vars(next_choice).values())
        steps = _Steps(self._num_receivers, *(memoryview(tensor.numpy()) for tensor in tensors))
        for proposal in zip(*(column.tolist() for column in vars(proposals).values()), strict=True):
            steps.propose(*proposal)

    def ranks(self, held_at: Tensor) -> Tensor:
        """How many better proposers are held by the same receiver, for each threshold and proposer: none."""
        return torch.zeros_like(held_at)


class _Steps(NamedTuple):
    """The tensors of an acceptance, to be read and written one value at a time."""

    num_receivers: int
    held_at: memoryview
    holder: memoryview
    receiver: memoryview
    passed: memoryview
    following: memoryview
    first_ignored: memoryview

    def propose(self, threshold: int, proposer: int, place: int) -> None:
        """Let one propose, then the one who is turned away, and so on until nobody is or he has nobody left to ask."""
        nowhere, first_receiver = len(self.receiver), threshold * self.num_receivers
        first_proposer = len(self.held_at) // (len(self.holder) // self.num_receivers) * threshold
        while place < nowhere:
            self.held_at[first_proposer + proposer] = place
            item = first_receiver + self.receiver[place]
            before = self.holder[item]
            if proposer < before:
                self.holder[item], proposer = proposer, before
            if proposer == _FREE:
                return
            left = self.held_at[first_proposer + proposer]
            self.held_at[first_proposer + proposer] = nowhere
            place = self.following[left]
            if self.passed[place] <= threshold:
                place = self.first_ignored[left]
            if self.passed[place] <= threshold:
                return


class _CapacityReceivers:
    """Receivers that hold as many proposers as they have places."""

    def __init__(self, lists: PreferenceLists, capacity: Tensor, num_thresholds: int) -> None:
        self._receiver, self._num_receivers = _counted(lists.receiver)
        self._num_proposers = int(lists.proposer[-1]) + 1
        self._threshold = torch.arange(num_thresholds, device=capacity.device).repeat_interleave(self._num_proposers)
        # By place, and behind them the one of nobody, who takes nobody and turns nobody away.
        self._capacity = torch.cat([capacity, capacity.new_full((1,), _FREE)])

    def turn_away(self, _: _Proposals, held_at: Tensor) -> tuple[Tensor, Tensor]:
        """As of `_UnitReceivers`: those who came after as many better ones as there are places."""
        item = (self.ranks(held_at) >= self._capacity.index_select(0, held_at)).nonzero()[:, 0]
        return self._threshold.index_select(0, item), item % self._num_proposers

    def ranks(self, held_at: Tensor) -> Tensor:
        """As of `_UnitReceivers`: proposers come in their order, which a stable sort by receiver keeps."""
        held = (held_at < len(self._receiver)).nonzero()[:, 0]
        receiver = self._receiver.index_select(0, held_at.index_select(0, held))
        keys, order = (self._threshold.index_select(0, held) * self._num_receivers + receiver).sort(stable=True)
        ranks = torch.zeros_like(held_at)
        ranks[held.index_select(0, order)] = segments.runs(0, keys.unique_consecutive(return_counts=True)[1])[1]
        return ranks


def accept(lists: PreferenceLists, num_thresholds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Let everyone propose until all are held or have nobody left to ask.

    In each round all that are not held propose to the next ground truth of their lists. A receiver's proposers only get
    better, so nobody need come back to one that turned him away. Every round but the last crosses out at least one
    place of a list for each who was turned away, and lists are finite: it ends.

    Returns thresholds and places of the pairs that are held, and how many better proposers each one's receiver holds.
    """
    num_pairs, num_proposers = len(lists.proposer), int(lists.proposer[-1]) + 1
    next_choice = _NextChoice.of(lists)
    if lists.capacity is None:
        receivers: _UnitReceivers | _CapacityReceivers = _UnitReceivers(lists, num_thresholds)
    else:
        receivers = _CapacityReceivers(lists, lists.capacity, num_thresholds)
    # By threshold and proposer the place that holds him.
    held_at = lists.receiver.new_full((num_thresholds * num_proposers,), num_pairs)
    proposals = _first_proposals(lists.proposer, next_choice)
    while len(proposals.place):
        if isinstance(receivers, _UnitReceivers) and len(proposals.place) <= _FEW and held_at.device.type == "cpu":
            receivers.propose_in_turn(proposals, held_at, next_choice)
            break
        held_at[proposals.threshold * num_proposers + proposals.proposer] = proposals.place
        # Who is turned away, now or from where he was held, goes on behind the place where he was.
        threshold, proposer = receivers.turn_away(proposals, held_at)
        item = threshold * num_proposers + proposer
        left = held_at.index_select(0, item)
        held_at[item] = num_pairs
        proposals = _Proposals(threshold, proposer, next_choice.after(left, threshold))
        proposals = proposals.where(proposals.place < num_pairs)
    item = (held_at < num_pairs).nonzero()[:, 0]
    rank = receivers.ranks(held_at).index_select(0, item)
    return item // num_proposers, held_at.index_select(0, item), rank


def _counted(values: Int[Tensor, " pairs"]) -> tuple[Int[Tensor, " pairs"], int]:
    """Numbers that stand for values, and a number above them: where values are large, of those that occur."""
    most = int(values.max()) + 1
    if most <= len(values):
        return values, most
    occurs = torch.zeros(most, dtype=torch.bool, device=values.device)
    occurs[values] = True
    number = occurs.cumsum(0)
    return number.index_select(0, values) - 1, int(number[-1])


def _first_proposals(proposer: Int[Tensor, " pairs"], next_choice: _NextChoice) -> _Proposals:
    """One for each proposer and threshold that some overlap reaches.

    The first of a list is asked under the thresholds that it reaches, and the first ignored one under what more it
    reaches: of each part the first reaches most.
    """
    heads = segments.starts(proposer.unique_consecutive(return_counts=True)[1])
    otherwise = next_choice.first_ignored.index_select(0, heads)
    passed = next_choice.passed.index_select(0, heads)
    num_asked = torch.maximum(passed, next_choice.passed.index_select(0, otherwise))
    proposer, threshold = segments.runs(0, num_asked)
    is_first = threshold < passed.index_select(0, proposer)
    place = torch.where(is_first, heads.index_select(0, proposer), otherwise.index_select(0, proposer))
    return _Proposals(threshold, proposer, place)
