"""Sums over a query's positives of a term of the positive's place, under every tie policy.

Under the tie policy "expected" every order of a group of equal scores is equally likely. In the formulas a group has t
candidates, P of them positive, after a candidates with b positives. Its candidate at position a + i is positive with
probability P/t, and its ordinal then is b + 1 + (i-1)(P-1)/(t-1) on average.

Source: McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of tied
scores", ECIR 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval import ranking
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks, check_ranks, in_float

_MAX_TERMS = 1 << 20  # terms of expanded sums held at a time
_NEGLIGIBLE = 45  # e to the minus 45 is lost beside 1 in float64


class Places(NamedTuple):
    """Places of positives: `ordinal` positives are among the first `rank` candidates; float64.

    Under the tie policy "grouped" all candidates of a group have the place of its last; else one comes at a time.
    """

    ordinal: Tensor
    rank: Tensor
    num_positives: Tensor | int = 1
    """positives at this place"""
    size: Tensor | int = 1
    """candidates at this place"""

    @property
    def precision(self) -> Tensor:
        """Share of positives up to this place."""
        return self.ordinal / self.rank

    @property
    def precision_before(self) -> Tensor:
        """Share of positives before this place; 1 where nothing is before it."""
        ahead = self.rank - self.size
        return torch.where(ahead > 0, (self.ordinal - self.num_positives) / ahead, 1)


Term: TypeAlias = Callable[[Places], Tensor]
"""The term of a positive in a sum, from its place; linear in the ordinal where one candidate comes at a time"""
Cutoff: TypeAlias = int | Int[Tensor, " queries"] | None
"""number of first candidates of a query; None for all"""


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
    return ranks.tied is not None and ranking.TIE_POLICIES[ranks.tied.policy].averages


def groups_of(ranks: PositiveRanks) -> Groups:
    """All groups of tied ranks, query by query."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    num_positives, num_negatives = ranks.tied.num_positives, ranks.tied.num_negatives
    first = segments.starts(num_positives)
    # Positives before the group: those of earlier groups, without those of earlier queries.
    better = first - segments.starts(ranks.num_positives)[query_of_groups(ranks)]
    before = ranks.rank[first] - num_negatives - 1
    return Groups(before, better, num_positives + num_negatives, num_positives)


def query_of_groups(ranks: PositiveRanks) -> Int[Tensor, " groups"]:
    """The query of each group."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    return segments.numbers(ranks.tied.num_groups, len(ranks.tied.num_positives))


def of_each_positive(ranks: PositiveRanks, values: Tensor) -> Tensor:
    """For every positive the value of its group."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    return values.repeat_interleave(ranks.tied.num_positives, output_size=len(ranks.rank))


def sum_over_positives(
    ranks: PositiveRanks, term: Term, cutoff: Cutoff = None, *, weights: Float[Tensor, " positives"] | None = None
) -> Float[Tensor, " queries"]:
    """Sum of `term` over a query's positives among its first `cutoff` candidates; its expectation under "expected".

    With `weights`, which do not depend on the place, each positive counts its own times the term.
    """
    limit = None if cutoff is None else _of_positives(ranks, cutoff)
    places = places_of(ranks)
    values = term(places)
    if limit is not None:
        values = values.masked_fill(places.rank > limit, 0.0)
    if is_averaged(ranks):
        # The expectation is computed once for each group with a negative; all its positives have it.
        groups = groups_of(ranks)
        # With weights a place is certain only where the positive has no equal.
        mixed = groups.size > (groups.num_positives if weights is None else 1)
        within = groups.size
        if limit is not None:
            within = groups.within(limit if isinstance(limit, int) else limit[segments.starts(groups.num_positives)])
        expected = torch.zeros(len(mixed), dtype=values.dtype, device=values.device)
        expected[mixed] = expected_in_group(term, groups.of(mixed), within[mixed])
        values = torch.where(of_each_positive(ranks, mixed), of_each_positive(ranks, expected), values)
    if weights is not None:
        values = values * weights
    return segments.reduce(values, "sum", ranks.num_positives)


def num_hits(ranks: PositiveRanks, cutoff: Cutoff) -> Float[Tensor, " queries"]:
    """Number of a query's positives among its first `cutoff` candidates, float64; its expectation under "expected".

    Without a cutoff it is the number of those that are retrieved.
    """
    limit = _of_positives(ranks, UNRETRIEVED if cutoff is None else cutoff)
    if is_averaged(ranks):
        groups = groups_of(ranks)
        within = groups.within(limit if isinstance(limit, int) else limit[segments.starts(groups.num_positives)])
        return segments.reduce(of_each_positive(ranks, within / groups.size.double()), "sum", ranks.num_positives)
    rank = ranks.rank if ranks.tied is None else places_of(ranks).rank
    return segments.reduce((rank <= limit).double(), "sum", ranks.num_positives)


def most_hits(ranks: PositiveRanks, cutoff: int | None) -> Int[Tensor, " queries"]:
    """min(n, cutoff): the hits of a perfect ranking."""
    return ranks.num_positives if cutoff is None else ranks.num_positives.clamp(max=cutoff)


def places_of(ranks: PositiveRanks) -> Places:
    """The places of all positives.

    Under "expected" they are the pessimistic places, certain only in a group without negatives.
    """
    if ranks.tied is None or is_averaged(ranks):
        return Places(ordinals(ranks).double(), in_float(ranks.rank))
    groups = groups_of(ranks)
    ordinal, rank = groups.better + groups.num_positives, groups.before + groups.size
    values = (ordinal.double(), rank.double(), groups.num_positives, groups.size)
    return Places(*(of_each_positive(ranks, each) for each in values))


def ordinals(ranks: PositiveRanks) -> Int[Tensor, " positives"]:
    """j = 1 ... n for every query, in the order of `PositiveRanks.rank`."""
    return segments.runs(1, ranks.num_positives, len(ranks.rank))[1]


def per_block(
    ranks: PositiveRanks, measure: Callable[[PositiveRanks], Tensor], max_positives: int = 1 << 20
) -> Float[Tensor, " queries"]:
    """Apply `measure` to blocks of queries, so that millions of positives need little memory.

    NaN for queries without positives, whatever `measure` returns for them.
    """
    check_ranks(ranks)
    values = [measure(block) for block in ranks.split(max_positives)]
    none = torch.empty(0, dtype=torch.float64, device=ranks.rank.device)
    joined = values[0] if len(values) == 1 else torch.cat([none, *values])
    return defined(ranks.num_positives, joined)


def defined(num_positives: Int[Tensor, " queries"], values: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """`values`, but NaN for queries without positives."""
    return values.masked_fill(num_positives == 0, torch.nan)


def of_one_positive(
    ranks: PositiveRanks,
    certain: Callable[[Tensor, Tensor], Tensor],
    expected: Callable[[Groups, Tensor], Tensor],
    *,
    last: bool = False,
) -> Float[Tensor, " queries"]:
    """`certain` of each query's r_1 and n, or `expected` of the group of its first positive and n; r_n if `last`.

    NaN for queries without positives. Under the tie policy "grouped" the rank is that of the end of the group.
    """
    check_ranks(ranks)
    num_positives, chosen = ranks.num_positives, segments.starts(ranks.num_positives)
    valid = num_positives > 0
    are_all = bool(valid.all())  # often
    if not are_all:
        num_positives, chosen = num_positives[valid], chosen[valid]
    if last:
        chosen = chosen + num_positives - 1
    if ranks.tied is None:
        values = certain(ranks.rank[chosen], num_positives)
    else:
        edges = segments.edges(ranks.tied.num_groups)
        chosen_groups = (edges[1:] - 1 if last else edges[:-1])[valid]
        groups = groups_of(ranks).of(chosen_groups)
        is_spread, end = is_averaged(ranks), groups.before + groups.size
        values = expected(groups, num_positives) if is_spread else certain(end, num_positives)
    if are_all:
        return values
    return torch.full(valid.shape, torch.nan, dtype=torch.float64, device=valid.device).masked_scatter_(valid, values)


def check_certain(argument: str, value: str, ranks: PositiveRanks) -> None:
    """Raise under ties "expected" for a value with no known expectation over tied candidates."""
    check_ranks(ranks)
    if is_averaged(ranks):
        raise ValueError(f"`{argument}` must have an expectation under ties 'expected'; got {value}.")


def _of_positives(ranks: PositiveRanks, cutoff: int | Tensor) -> Tensor | int:
    if isinstance(cutoff, Tensor):
        return cutoff.repeat_interleave(ranks.num_positives, output_size=len(ranks.rank))
    return min(cutoff, UNRETRIEVED)


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


def expected_in_group(term: Term, groups: Groups, within: Int[Tensor, " groups"]) -> Float[Tensor, " groups"]:
    """Expectation of `term` for one positive of a group, 0 unless it is among the first m = `within` of the group.

    `term` is linear in the ordinal, so that its mean is its value at the mean ordinal:
    (1/t) sum_{i <= m} term(b + 1 + (i-1)(P-1)/(t-1), a + i).
    """
    before, better, size, num_positives = groups
    position = positions_up_to(before + within)
    constant = term(Places(torch.zeros_like(position), position))
    slope = term(Places(torch.ones_like(position), position)) - constant
    sums = RangeSums(torch.stack([constant, slope, slope * position]))
    constants, slopes, moments = sums(before, before + within)
    growth = (num_positives - 1) / (size - 1).clamp(min=1).double()
    total: Tensor = constants + (better + 1 - growth * (before + 1)) * slopes + growth * moments
    return total / size
