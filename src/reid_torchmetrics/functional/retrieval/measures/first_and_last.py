"""The first and the last positive of every query: measures of their ranks, or of the groups that they are tied in.

In the formulas a query has n positives at the 1-based ranks r_1 < ... < r_n. A query without positives has no value:
every measure gives NaN for it, and the mean decides once what becomes of it. All values are float64. Under the tie
policy "grouped" every candidate has the rank of the last of its group; under "expected" a value is the expectation
over the orders of each group.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, TiedGroups, in_float

from .terms import where_positive
from .tied_groups import Groups, averaged, expected_reciprocal, groups_at


def inverse_negative_penalty(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """n / r_n: the share of positives among the items that must be read to find the last positive.

    Its mean is mINP. Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI
    2021, where 1 - INP is the negative penalty (r_n - n) / r_n.
    """

    def share(valid: Tensor) -> Tensor:
        num_positives = ranks.num_positives[valid]
        tied = averaged(ranks)
        if tied is None:
            return num_positives / in_float(last_places(ranks, valid))
        groups = last_groups(ranks, tied, valid)
        return num_positives * expected_reciprocal(groups, groups.size, last=True)

    return where_positive(ranks, share)


def first_rank(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """r_1: the rank of the best positive, as a float because a query without positives has NaN.

    Where P of t tied candidates are positive the first of them is expected at the (t+1)/(P+1)-th.
    """

    def rank(valid: Tensor) -> Tensor:
        tied = averaged(ranks)
        if tied is None:
            return in_float(first_places(ranks, valid))
        groups = first_groups(ranks, tied, valid)
        return groups.before + (groups.size + 1) / (groups.num_positives + 1).double()

    return where_positive(ranks, rank)


def first_places(ranks: PositiveRanks, valid: Bool[Tensor, " queries"]) -> Int[Tensor, " valid"]:
    """r_1; under the tie policy "grouped" the end of its group."""
    if ranks.tied is None:
        return ranks.rank[_first(ranks)[valid]]
    groups = first_groups(ranks, ranks.tied, valid)
    return groups.before + groups.size


def last_places(ranks: PositiveRanks, valid: Bool[Tensor, " queries"]) -> Int[Tensor, " valid"]:
    """r_n; the end of its group under the tie policies that have groups."""
    return ranks.rank[(ranks.num_positives.cumsum(0) - 1)[valid]]


def first_groups(ranks: PositiveRanks, tied: TiedGroups, valid: Bool[Tensor, " queries"]) -> Groups:
    """The groups of the first positives; `tied` is that of the ranks."""
    return groups_at(ranks, tied, _first(ranks)[valid], 1)


def last_groups(ranks: PositiveRanks, tied: TiedGroups, valid: Bool[Tensor, " queries"]) -> Groups:
    """The groups of the last positives; `tied` is that of the ranks."""
    ordinal = ranks.num_positives[valid]
    return groups_at(ranks, tied, (ranks.num_positives.cumsum(0) - 1)[valid], ordinal)


def _first(ranks: PositiveRanks) -> Tensor:
    return segments.starts(ranks.num_positives)
