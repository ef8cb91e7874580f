"""Sums over a query's positives, where each positive adds a term that depends on its place, for all tie policies.

Under the tie policy "expected" every order of a group of equal scores is equally likely. In the formulas a group has t
candidates, P of them positive, after a candidates with b positives. Its candidate at position a + i is positive with
probability P/t, and its ordinal then is b + 1 + (i-1)(P-1)/(t-1) on average.

For instance a group with t = 3 and P = 2 is at the top of the list, a = b = 0:

    position i                     1     2     3
    probability of a positive     2/3   2/3   2/3
    its mean ordinal               1    1.5    2
    mean precision, ordinal / i    1    3/4   2/3

The precisions of the positives sum to 2/3 (1 + 3/4 + 2/3) = 29/18 on average. Indeed the orders ++-, +-+ and -++ have
the sums 2, 5/3 and 7/6, with the mean 29/18.

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

    Under the tie policy "grouped" all candidates of a group have the place of its last; otherwise each has its own.
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
        num_before = self.rank - self.size
        return torch.where(num_before > 0, (self.ordinal - self.num_positives) / num_before, 1)


Term: TypeAlias = Callable[[Places], Tensor]
"""The term of a positive in a sum, from its place; linear in the ordinal where no place is shared"""
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

    def num_within(self, cutoff: Tensor | int) -> Tensor:
        """Return the number of candidates of each group among the first `cutoff` of the list."""
        return (cutoff - self.before).clamp(min=0).minimum(self.size)

    def select(self, index: Tensor) -> Groups:
        """Return the groups at an index, or where a mask is true."""
        return Groups(*(values[index] for values in self))


def is_averaged(ranks: PositiveRanks) -> bool:
    """Return whether a measure is a mean over the orders of tied groups; else each positive has one place."""
    return ranks.tied is not None and ranking.TIE_POLICIES[ranks.tied.policy].averages


def groups_of(ranks: PositiveRanks) -> Groups:
    """Return all groups of tied ranks, query by query."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    num_positives = ranks.tied.num_positives
    num_negatives = ranks.tied.num_negatives
    first = segments.starts(num_positives)
    # Positives before the group: those of earlier groups, without those of earlier queries.
    better = first - segments.starts(ranks.num_positives)[query_of_groups(ranks)]
    before = ranks.rank[first] - num_negatives - 1
    return Groups(before, better, num_positives + num_negatives, num_positives)


def query_of_groups(ranks: PositiveRanks) -> Int[Tensor, " groups"]:
    """Return the query of each group."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    return segments.numbers(ranks.tied.num_groups, len(ranks.tied.num_positives))


def repeat_for_positives(ranks: PositiveRanks, values: Tensor) -> Tensor:
    """Return for each positive the value of its group."""
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    return values.repeat_interleave(ranks.tied.num_positives, output_size=len(ranks.rank))


def sum_over_positives(
    ranks: PositiveRanks, term: Term, cutoff: Cutoff = None, *, weights: Float[Tensor, " positives"] | None = None
) -> Float[Tensor, " queries"]:
    """Sum `term` over a query's positives among its first `cutoff` candidates; its expectation under "expected".

    With `weights`, which do not depend on the place, each positive adds its weight times the term.
    """
    limit = None if cutoff is None else _limits(ranks, cutoff)
    if is_averaged(ranks):
        values = _expected_values(ranks, term, limit, has_weights=weights is not None)
    else:
        values = _values_at(term, places_of(ranks), limit)
    if weights is not None:
        values = values * weights
    return segments.reduce(values, "sum", ranks.num_positives)


def _values_at(term: Term, places: Places, limit: Tensor | int | None) -> Float[Tensor, " places"]:
    """Return `term` at places, 0 behind the limit."""
    values = term(places)
    return values if limit is None else values.masked_fill(places.rank > limit, 0.0)


def _expected_values(
    ranks: PositiveRanks, term: Term, limit: Tensor | int | None, *, has_weights: bool
) -> Float[Tensor, " positives"]:
    """Return the expectation of `term` for each positive; it is equal for all positives of a group."""
    groups = groups_of(ranks)
    # A place is certain in a group without negatives; with weights only where the positive has no equal.
    is_mixed = groups.size > (1 if has_weights else groups.num_positives)
    num_within = groups.size if limit is None else _num_within(groups, limit)
    expected = torch.zeros(len(is_mixed), dtype=torch.float64, device=is_mixed.device)
    expected[is_mixed] = expected_in_group(term, groups.select(is_mixed), num_within[is_mixed])
    values = repeat_for_positives(ranks, expected)
    certain = groups.select(~is_mixed)
    first = segments.starts(groups.num_positives)[~is_mixed]
    _, positive = segments.runs(first, certain.num_positives)
    _, ordinal = segments.runs(certain.better + 1, certain.num_positives)
    places = Places(ordinal.double(), in_float(ranks.rank[positive]))
    values[positive] = _values_at(term, places, limit[positive] if isinstance(limit, Tensor) else limit)
    return values


def num_hits(ranks: PositiveRanks, cutoff: Cutoff) -> Float[Tensor, " queries"]:
    """Count a query's positives among its first `cutoff` candidates, float64; the expectation under "expected".

    Without a cutoff it is the number of retrieved positives.
    """
    limit = _limits(ranks, UNRETRIEVED if cutoff is None else cutoff)
    if is_averaged(ranks):
        groups = groups_of(ranks)
        chance = _num_within(groups, limit) / groups.size.double()
        return segments.reduce(repeat_for_positives(ranks, chance), "sum", ranks.num_positives)
    rank = ranks.rank if ranks.tied is None else places_of(ranks).rank
    return segments.reduce((rank <= limit).double(), "sum", ranks.num_positives)


def _limits(ranks: PositiveRanks, cutoff: int | Tensor) -> Tensor | int:
    """Return the cutoff of each positive, or one number for all."""
    if isinstance(cutoff, Tensor):
        return cutoff.repeat_interleave(ranks.num_positives, output_size=len(ranks.rank))
    return min(cutoff, UNRETRIEVED)


def _num_within(groups: Groups, limit: Tensor | int) -> Tensor:
    """Count the candidates of each group within the limit of its first positive."""
    if isinstance(limit, int):
        return groups.num_within(limit)
    first_positive = segments.starts(groups.num_positives)
    return groups.num_within(limit[first_positive])


def most_hits(ranks: PositiveRanks, cutoff: int | None) -> Int[Tensor, " queries"]:
    """Return min(n, cutoff): the hits of a perfect ranking."""
    if cutoff is None:
        return ranks.num_positives
    return ranks.num_positives.clamp(max=cutoff)


def places_of(ranks: PositiveRanks) -> Places:
    """Return the places of all positives.

    Under "expected" they are the pessimistic places, certain only in a group without negatives.
    """
    if ranks.tied is None or is_averaged(ranks):
        return Places(ordinals(ranks).double(), in_float(ranks.rank))
    groups = groups_of(ranks)
    ordinal = groups.better + groups.num_positives
    rank = groups.before + groups.size
    return Places(
        ordinal=repeat_for_positives(ranks, ordinal.double()),
        rank=repeat_for_positives(ranks, rank.double()),
        num_positives=repeat_for_positives(ranks, groups.num_positives),
        size=repeat_for_positives(ranks, groups.size),
    )


def ordinals(ranks: PositiveRanks) -> Int[Tensor, " positives"]:
    """Return j = 1 ... n for each query, in the order of `PositiveRanks.rank`."""
    _, ordinal = segments.runs(1, ranks.num_positives, len(ranks.rank))
    return ordinal


def per_block(
    ranks: PositiveRanks, measure: Callable[[PositiveRanks], Tensor], max_positives: int = 1 << 20
) -> Float[Tensor, " queries"]:
    """Apply `measure` to blocks of queries, so that millions of positives need little memory.

    Queries without positives have NaN, regardless of the value that `measure` returns for them.
    """
    check_ranks(ranks)
    no_values = torch.empty(0, dtype=torch.float64, device=ranks.rank.device)
    values = torch.cat([no_values, *(measure(block) for block in ranks.split(max_positives))])
    return values.masked_fill_(ranks.num_positives == 0, torch.nan)


def from_one_positive(
    ranks: PositiveRanks,
    value: Callable[[Tensor, Tensor], Tensor],
    expectation: Callable[[Groups, Tensor], Tensor],
    *,
    last: bool = False,
) -> Float[Tensor, " queries"]:
    """Return `value(r_1, n)` for each query, or under "expected" `expectation(group of the first positive, n)`.

    `last` takes r_n and the group of the last positive. NaN for queries without positives. Under the tie policy
    "grouped" the rank is that of the end of the group.
    """
    check_ranks(ranks)
    num_positives = ranks.num_positives
    index = segments.starts(num_positives)
    valid = num_positives > 0
    are_all_valid = bool(valid.all())  # often
    if not are_all_valid:
        num_positives = num_positives[valid]
        index = index[valid]
    if ranks.tied is None:
        if last:
            index = index + num_positives - 1
        values = value(ranks.rank[index], num_positives)
    else:
        edges = segments.edges(ranks.tied.num_groups)
        group_index = edges[1:] - 1 if last else edges[:-1]
        groups = groups_of(ranks).select(group_index[valid])
        if is_averaged(ranks):
            values = expectation(groups, num_positives)
        else:
            values = value(groups.before + groups.size, num_positives)
    if are_all_valid:
        return values
    undefined = torch.full(valid.shape, torch.nan, dtype=torch.float64, device=valid.device)
    return undefined.masked_scatter_(valid, values)


def check_certain(argument: str, value: str, ranks: PositiveRanks) -> None:
    """Raise under ties "expected" for a value with no known expectation over tied candidates."""
    check_ranks(ranks)
    if is_averaged(ranks):
        raise ValueError(f"`{argument}` must have an expectation under ties 'expected'; got {value}.")


class RangeSums:
    """Sums over ranges of positions, as exact for a short range far down the list as for a long one.

    A difference of ordinary prefix sums is only as exact as the larger of them. So each value is split in two: the
    upper parts are multiples of a power of two, with exact sums; the lower parts are too small to matter.
    """

    def __init__(self, values: Float[Tensor, "functions positions"]) -> None:
        """Take the values of one or more functions at the positions 1, 2, ..."""
        bound = float(values.abs().sum(1).max()) if values.numel() else 0.0
        _, exponent = math.frexp(bound)
        unit = math.ldexp(1.0, exponent - 52)
        upper = (values / unit).round() * unit
        sums = segments.running_sums(torch.stack([upper, values - upper]), 2)
        self._sums = torch.nn.functional.pad(sums, (1, 0)).permute(2, 1, 0).contiguous()

    def __call__(self, start: Tensor, stop: Tensor) -> Float[Tensor, "functions ..."]:
        """Return the sums over the positions `start` + 1 ... `stop`."""
        upper, lower = (self._sums[stop] - self._sums[start]).unbind(-1)
        sums: Tensor = upper + lower  # `sum` takes several times as long for two numbers
        return sums.movedim(-1, 0)


def positions_up_to(last: Int[Tensor, "*shape"]) -> Float[Tensor, " positions"]:
    """Return 1, 2, ... up to the largest number of `last`."""
    stop = int(last.max()) if last.numel() else 0
    return torch.arange(1, stop + 1, dtype=torch.float64, device=last.device)


class LogFactorials:
    """Quotients of factorials, as logarithms."""

    def __init__(self, largest: Int[Tensor, "*shape"]) -> None:
        """Prepare factorials of numbers up to the largest number of `largest`."""
        self._sums = RangeSums(positions_up_to(largest).log()[None])

    def quotient(self, above: Tensor, below: Tensor) -> Tensor:
        """Return ln(above! / below!)."""
        return self._sums(below, above)[0]

    def choose(self, total: Tensor, size: Tensor) -> Tensor:
        """Return ln C(total, size)."""
        return self.quotient(total, total - size) - self.quotient(size, torch.zeros_like(size))


def chance_of_none(groups: Groups, within: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Compute C(t-m, P) / C(t, P): the probability that none of the first m = `within` of a group is positive."""
    logs = LogFactorials(groups.size)
    num_behind = groups.size - within
    log_behind = logs.quotient(num_behind, (num_behind - groups.num_positives).clamp(min=0))
    log_all = logs.quotient(groups.size, groups.size - groups.num_positives)
    chance = (log_behind - log_all).exp()
    return chance.masked_fill(num_behind < groups.num_positives, 0.0)


def expected_reciprocal(groups: Groups, within: Int[Tensor, " groups"], *, last: bool) -> Float[Tensor, " groups"]:
    """Compute E[1/r, r <= a + m]: r is the rank of a group's first positive, or of its `last`, and m = `within`.

    d candidates are beyond that positive, ahead of the first or behind the last, with probability
    C(t-1-d, P-1) / C(t, P). The sum over d has no closed form. It is computed once for equal groups, and without
    the d that are as good as impossible.

    For instance P = 1 of t = 2 candidates is positive and a = 0: d is 0 or 1 with probability 1/2 each, and the first
    positive has rank 1 or 2, so that E[1/r] = 3/4.
    """
    distinct, index = torch.unique(torch.stack([*groups, within]), dim=1, return_inverse=True)
    logs = LogFactorials(groups.size)
    parts = [torch.empty(0, dtype=torch.float64, device=within.device)]
    for part in segments.ranges_within(distinct[2], _MAX_TERMS):  # about as many terms as candidates in the groups
        before, better, size, num_positives, part_within = distinct[:, part]
        part_groups = Groups(before, better, size, num_positives)
        parts.append(_reciprocals(logs, part_groups, part_within, last=last))
    return torch.cat(parts)[index]


def _reciprocals(logs: LogFactorials, groups: Groups, within: Tensor, *, last: bool) -> Tensor:
    before, _, size, num_positives = groups
    # The range of d, [start, stop).
    likely = _NEGLIGIBLE * size // num_positives + 1
    stop = size - num_positives + 1
    if last:
        start = size - within
    else:
        start = torch.zeros_like(within)
        stop = stop.minimum(within)
    lengths = (stop.minimum(likely) - start).clamp(min=0)
    group, step = segments.runs(0, lengths)
    beyond = start[group] + step

    num_left = size[group] - 1 - beyond
    positives = num_positives[group]
    log_all = logs.quotient(size, size - num_positives)
    log_chance = logs.quotient(num_left, num_left - positives + 1) - log_all[group]
    rank = before[group] + (size[group] - beyond if last else beyond + 1)
    terms: Tensor = positives * log_chance.exp() / rank
    return segments.reduce(terms, "sum", lengths)


def expected_in_group(term: Term, groups: Groups, within: Int[Tensor, " groups"]) -> Float[Tensor, " groups"]:
    """Compute the expectation of `term` for one positive of a group, 0 if it is behind the first m = `within`.

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
