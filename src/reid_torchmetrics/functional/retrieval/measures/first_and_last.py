"""The first and the last positive of every query: measures of their ranks, or of their tied groups.

In the formulas a query has n positives at the 1-based ranks r_1 < ... < r_n. A query without positives has NaN, and the
mean decides what it counts. All values are float64. Under the tie policy "grouped" every candidate has the rank of the
last of its group; under "expected" a value is the expectation over the orders of each group.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, TiedGroups, check_ranks, in_float

from .tied_groups import Groups, averaged, expected_reciprocal, groups_at


def inverse_negative_penalty(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """n / r_n: the share of positives among the items up to the last positive.

    Its mean is mINP. Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI
    2021, where 1 - INP is the negative penalty (r_n - n) / r_n.
    """
    return of_last(
        ranks,
        lambda last, num_positives: num_positives / in_float(last),
        lambda groups, num_positives: num_positives * expected_reciprocal(groups, groups.size, last=True),
    )


def first_rank(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """r_1: the rank of the best positive, as a float because a query without positives has NaN.

    If P of t tied candidates are positive, the first of them is expected at the (t+1)/(P+1)-th.
    """
    return of_first(
        ranks, in_float, lambda groups: groups.before + (groups.size + 1) / (groups.num_positives + 1).double()
    )


def of_first(
    ranks: PositiveRanks, certain: Callable[[Tensor], Tensor], expected: Callable[[Groups], Tensor]
) -> Float[Tensor, " queries"]:
    """`certain` of r_1 for each query, or `expected` of the group of its first positive; NaN without positives."""

    def value(valid: Tensor) -> Tensor:
        tied = averaged(ranks)
        return certain(first_places(ranks, valid)) if tied is None else expected(first_groups(ranks, tied, valid))

    return _where_positive(ranks, value)


def of_last(
    ranks: PositiveRanks, certain: Callable[[Tensor, Tensor], Tensor], expected: Callable[[Groups, Tensor], Tensor]
) -> Float[Tensor, " queries"]:
    """`certain` of r_n and n for each query, or `expected` of the group of its last positive and n."""

    def value(valid: Tensor) -> Tensor:
        num_positives, tied = ranks.num_positives[valid], averaged(ranks)
        last = (ranks.num_positives.cumsum(0) - 1)[valid]
        if tied is None:  # under "grouped" the rank is the end of the group
            return certain(ranks.rank[last], num_positives)
        return expected(groups_at(ranks, tied, last, num_positives), num_positives)

    return _where_positive(ranks, value)


def first_places(ranks: PositiveRanks, valid: Bool[Tensor, " queries"]) -> Int[Tensor, " valid"]:
    """r_1; under the tie policy "grouped" the end of its group."""
    if ranks.tied is None:
        return ranks.rank[segments.starts(ranks.num_positives)[valid]]
    groups = first_groups(ranks, ranks.tied, valid)
    return groups.before + groups.size


def first_groups(ranks: PositiveRanks, tied: TiedGroups, valid: Bool[Tensor, " queries"]) -> Groups:
    """The groups of the first positives; `tied` is the ranks' own."""
    return groups_at(ranks, tied, segments.starts(ranks.num_positives)[valid], 1)


def _where_positive(ranks: PositiveRanks, value: Callable[[Tensor], Tensor]) -> Float[Tensor, " queries"]:
    check_ranks(ranks)
    valid = ranks.num_positives > 0
    values = torch.full(valid.shape, torch.nan, dtype=torch.float64, device=valid.device)
    values[valid] = value(valid)
    return values
