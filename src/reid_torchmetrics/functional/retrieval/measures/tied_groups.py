"""Groups of candidates with equal scores, and expectations if every order of a group is equally likely.

In the formulas a group has t candidates, P of them positive, after a candidates with b positives. Its candidate at
position a + i is positive with probability P/t, and its ordinal then is b + 1 + (i-1)(P-1)/(t-1) on average.

Source: McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of tied
scores", ECIR 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks

_MAX_TERMS = 1 << 20  # terms of expanded sums held at a time
_NEGLIGIBLE = 45  # e to the minus 45 is lost beside 1 in float64


class Groups(NamedTuple):
    """Groups of tied candidates, each with at least one positive; int64."""

    before: Tensor
    """candidates ahead of the group"""
    better: Tensor
    """positives ahead of the group"""
    size: Tensor
    """candidates in the group"""
    num_positives: Tensor
    """positives in the group"""

    def within(self, cutoff: Tensor | int) -> Tensor:
        """Number of candidates of the group among the first `cutoff` of the list."""
        return (cutoff - self.before).clamp(min=0).minimum(self.size)

    def of(self, chosen: Tensor) -> Groups:
        """The chosen groups."""
        return Groups(*(values[chosen] for values in self))


def is_averaged(ranks: PositiveRanks) -> bool:
    """Whether a measure is a mean over the orders of tied groups; else every positive has one place in its list."""
    return ranks.tied is not None and TIE_POLICIES[ranks.tied.policy].averages


def groups_at(ranks: PositiveRanks, chosen: Tensor | slice, ordinal: Int[Tensor, " chosen"] | int) -> Groups:
    """The groups of the chosen positives with these ordinals; the ranks must be tied."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    tied = (ranks.tied.better, ranks.tied.num_positives, ranks.tied.num_negatives)
    better, num_positives, num_negatives = (values[chosen] for values in tied)
    before = ranks.rank[chosen] - (ordinal - better) - num_negatives
    return Groups(before, better, num_positives + num_negatives, num_positives)


class RangeSums:
    """Sums over ranges of positions, as exact for a short range far down the list as for a long one.

    A difference of ordinary prefix sums is only as exact as the larger of them. So the values are cut in two: the upper
    parts are multiples of a power of two with exact sums, the lower parts are too small to matter.
    """

    def __init__(self, values: Float[Tensor, "functions positions"]) -> None:
        """Take the values at the positions 1, 2, ... of one or more functions."""
        bound = float(values.abs().sum(1).max()) if values.numel() else 0.0
        unit = math.ldexp(1.0, math.frexp(bound)[1] - 52)
        upper = (values / unit).round() * unit
        sums = segments.running_sums(torch.stack([upper, values - upper]), 2)
        self._sums = torch.nn.functional.pad(sums, (1, 0)).permute(2, 1, 0).contiguous()

    def __call__(self, start: Tensor, stop: Tensor) -> Float[Tensor, "functions ..."]:
        """Sums over the positions `start` + 1 ... `stop`."""
        sums: Tensor = (self._sums[stop] - self._sums[start]).sum(-1)
        return sums.movedim(-1, 0)


def positions_up_to(last: Int[Tensor, "*shape"]) -> Float[Tensor, " positions"]:
    """1, 2, ... up to the largest of `last`."""
    stop = int(last.max()) if last.numel() else 0
    return torch.arange(1, stop + 1, dtype=torch.float64, device=last.device)


class LogFactorials:
    """Quotients of factorials, as logarithms."""

    def __init__(self, largest: Int[Tensor, "*shape"]) -> None:
        """Prepare factorials of numbers up to the largest of `largest`."""
        self._sums = RangeSums(positions_up_to(largest).log()[None])

    def quotient(self, above: Tensor, below: Tensor) -> Tensor:
        """ln(above! / below!)."""
        return self._sums(below, above)[0]

    def choose(self, total: Tensor, chosen: Tensor) -> Tensor:
        """ln C(total, chosen)."""
        return self.quotient(total, total - chosen) - self.quotient(chosen, torch.zeros_like(chosen))


def chance_of_none(groups: Groups, within: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """C(t-m, P) / C(t, P): the probability that none of the first m = `within` of a group is positive."""
    logs = LogFactorials(groups.size)
    others = groups.size - within
    fewer = logs.quotient(others, (others - groups.num_positives).clamp(min=0))
    chance = (fewer - logs.quotient(groups.size, groups.size - groups.num_positives)).exp()
    return chance.masked_fill(others < groups.num_positives, 0.0)


def expected_reciprocal(groups: Groups, within: Int[Tensor, " groups"], *, last: bool) -> Float[Tensor, " groups"]:
    """E[1/r, r <= a + m]: r is the rank of a group's first positive, or of its `last`, and m = `within`.

    d candidates are beyond that positive, ahead of the first or behind the last, with probability
    C(t-1-d, P-1) / C(t, P). The sum over d has no closed form. It is computed once for equal groups, and without
    the d that are as good as impossible.
    """
    distinct, same = torch.unique(torch.stack([*groups, within]), dim=1, return_inverse=True)
    logs = LogFactorials(groups.size)
    none = torch.empty(0, dtype=torch.float64, device=within.device)
    parts = (
        _reciprocals(logs, Groups(*distinct[:4, part]), distinct[4, part], last=last)
        for part in segments.ranges_within(distinct[2], _MAX_TERMS)  # about as many terms as candidates in the groups
    )
    return torch.cat([none, *parts])[same]


def _reciprocals(logs: LogFactorials, groups: Groups, within: Tensor, *, last: bool) -> Tensor:
    before, _, size, num_positives = groups
    start = size - within if last else torch.zeros_like(within)
    stop = size - num_positives + 1
    stop = (stop if last else stop.minimum(within)).minimum(_NEGLIGIBLE * size // num_positives + 1)
    lengths = (stop - start).clamp(min=0)
    group, step = segments.runs(0, lengths)
    beyond = start[group] + step
    others, positives = size[group] - 1 - beyond, num_positives[group]
    chance = logs.quotient(others, others - positives + 1) - logs.quotient(size, size - num_positives)[group]
    rank = before[group] + (size[group] - beyond if last else beyond + 1)
    terms: Tensor = positives * chance.exp() / rank
    return segments.reduce(terms, "sum", lengths)


def expected_in_group(
    term: Callable[[Tensor, Tensor], Tensor], groups: Groups, within: Int[Tensor, " groups"]
) -> Float[Tensor, " groups"]:
    """Expectation of `term` for one positive of a group, 0 unless it is among the first m = `within` of the group.

    `term`, a function of ordinal and rank, is linear in the ordinal, so that its mean is its value at the mean ordinal:
    (1/t) sum_{i <= m} term(b + 1 + (i-1)(P-1)/(t-1), a + i).
    """
    before, better, size, num_positives = groups
    position = positions_up_to(before + within)
    constant = term(torch.zeros_like(position), position)
    slope = term(torch.ones_like(position), position) - constant
    sums = RangeSums(torch.stack([constant, slope, slope * position]))
    constants, slopes, moments = sums(before, before + within)
    growth = (num_positives - 1) / (size - 1).clamp(min=1).double()
    total: Tensor = constants + (better + 1 - growth * (before + 1)) * slopes + growth * moments
    return total / size
