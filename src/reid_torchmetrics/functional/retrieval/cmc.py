"""Cumulative matching characteristic: the share of queries that find a positive within the first k candidates."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.measures import first_rank, mean_of_total
from reid_torchmetrics.functional.retrieval.ranks import PositiveRanks


def cmc_at(ranks: PositiveRanks, k: int) -> Float[Tensor, " queries"]:
    """1 if r_1 <= k, else 0: whether a query's best positive is among its first k candidates; NaN without positives.

    This is the first-match CMC of the Market-1501 protocol. A k beyond the number of candidates is allowed: every
    valid query has found its positive by then.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.positive_int("k", k)
    first = first_rank(ranks)
    return torch.where(first.isnan(), first, (first <= k).double())


def cmc_curve(
    ranks: PositiveRanks, max_rank: int = 50, *, empty_target_action: str = "skip"
) -> Float[Tensor, " max_rank"]:
    """First-match CMC at k = 1 ... `max_rank`, float64: the mean over queries of 1[r_1 <= k].

    It always has `max_rank` entries, also where the gallery is smaller. Queries without positives are treated as
    `mean_over_queries` says.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015.

    Raises:
        TypeError: `max_rank` is not an int.
        ValueError: `max_rank` is below 1, or what `mean_over_queries` raises.
    """
    _checks.positive_int("max_rank", max_rank)
    first = first_rank(ranks)
    found = first[~first.isnan()].long()
    hits_at = torch.bincount(found.clamp(max=max_rank + 1), minlength=max_rank + 2)[1:-1].cumsum(0)
    return mean_of_total(hits_at.double(), len(found), len(first) - len(found), empty_target_action)
