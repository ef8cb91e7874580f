"""Sums over a query's positives of a term of the positive's place, under every tie policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks, check_ranks, in_float

from .tied_groups import Groups, expected_in_group, groups_at, is_averaged


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


def sum_over_positives(ranks: PositiveRanks, term: Term, cutoff: Cutoff = None) -> Float[Tensor, " queries"]:
    """Sum of `term` over a query's positives among its first `cutoff` candidates; its expectation under "expected"."""
    limit = None if cutoff is None else _of_positives(ranks, cutoff)
    places = places_of(ranks)
    values = term(places)
    if limit is not None:
        values = values.masked_fill(places.rank > limit, 0.0)
    if is_averaged(ranks):
        groups = groups_of(ranks)
        mixed = groups.size > groups.num_positives
        within = groups.size if limit is None else groups.within(limit)
        values[mixed] = expected_in_group(lambda *place: term(Places(*place)), groups.of(mixed), within[mixed])
    return sum_per_query(ranks, values)


def num_hits(ranks: PositiveRanks, cutoff: Cutoff) -> Float[Tensor, " queries"]:
    """Number of a query's positives among its first `cutoff` candidates, float64; its expectation under "expected".

    Without a cutoff it is the number of those that are retrieved.
    """
    limit = _of_positives(ranks, UNRETRIEVED if cutoff is None else cutoff)
    if is_averaged(ranks):
        groups = groups_of(ranks)
        return sum_per_query(ranks, groups.within(limit) / groups.size.double())
    rank = ranks.rank if ranks.tied is None else places_of(ranks).rank
    return sum_per_query(ranks, (rank <= limit).double())


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
    return Places(ordinal.double(), rank.double(), groups.num_positives, groups.size)


def groups_of(ranks: PositiveRanks) -> Groups:
    """The groups of all positives."""
    return groups_at(ranks, slice(None), ordinals(ranks))


def ordinals(ranks: PositiveRanks) -> Int[Tensor, " positives"]:
    """j = 1 ... n for every query, in the order of `PositiveRanks.rank`."""
    return segments.runs(1, ranks.num_positives, len(ranks.rank))[1]


def sum_per_query(ranks: PositiveRanks, values: Float[Tensor, " positives"]) -> Float[Tensor, " queries"]:
    """Sum of one value per positive."""
    return segments.reduce(values, "sum", ranks.num_positives)


def per_block(
    ranks: PositiveRanks, measure: Callable[[PositiveRanks], Tensor], max_positives: int = 1 << 22
) -> Float[Tensor, " queries"]:
    """Apply `measure` to blocks of queries, so that millions of positives need little memory."""
    check_ranks(ranks)
    values = [measure(block) for block in ranks.split(max_positives)]
    none = torch.empty(0, dtype=torch.float64, device=ranks.rank.device)
    return values[0] if len(values) == 1 else torch.cat([none, *values])


def defined(ranks: PositiveRanks, values: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """`values`, but NaN for queries without positives."""
    return values.masked_fill(ranks.num_positives == 0, torch.nan)


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
    valid = ranks.num_positives > 0
    num_positives = ranks.num_positives[valid]
    chosen, ordinal = segments.starts(ranks.num_positives)[valid], num_positives if last else 1
    chosen += ordinal - 1
    values = torch.full(valid.shape, torch.nan, dtype=torch.float64, device=valid.device)
    if ranks.tied is None:
        values[valid] = certain(ranks.rank[chosen], num_positives)
    else:
        groups = groups_at(ranks, chosen, ordinal)
        is_spread, end = is_averaged(ranks), groups.before + groups.size
        values[valid] = expected(groups, num_positives) if is_spread else certain(end, num_positives)
    return values


def check_certain(argument: str, value: str, ranks: PositiveRanks) -> None:
    """Raise under ties "expected" for a value with no known expectation over tied candidates."""
    check_ranks(ranks)
    if is_averaged(ranks):
        raise ValueError(f"`{argument}` must have an expectation under ties 'expected'; got {value}.")


def _of_positives(ranks: PositiveRanks, cutoff: int | Tensor) -> Tensor | int:
    if isinstance(cutoff, Tensor):
        return cutoff.repeat_interleave(ranks.num_positives, output_size=len(ranks.rank))
    return min(cutoff, UNRETRIEVED)
