"""Results of an evaluation, one value per query, with the reasons why some queries have none."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.measures import average_precision, first_rank, inverse_negative_penalty
from reid_torchmetrics.functional.retrieval.ranks import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts


@dataclass(frozen=True, eq=False)
class RetrievalResults:
    """What became of every query, in the order of the queries; NaN where a query has no positive."""

    average_precision: Float[Tensor, " queries"]
    inverse_negative_penalty: Float[Tensor, " queries"]
    first_rank: Float[Tensor, " queries"]
    num_positives: Int[Tensor, " queries"]
    num_candidates: Int[Tensor, " queries"]
    """gallery items left for the query once junk is removed"""
    counts: QueryCounts
    """how many queries are valid, and why the others are not"""


def summarise_queries(ranks: PositiveRanks, counts: QueryCounts, *, rule: str = "rectangle") -> RetrievalResults:
    """Evaluate every query; `rule` is that of `average_precision`."""
    return RetrievalResults(
        average_precision=average_precision(ranks, rule=rule),
        inverse_negative_penalty=inverse_negative_penalty(ranks),
        first_rank=first_rank(ranks),
        num_positives=ranks.num_positives.clone(),  # ranks may be shared
        num_candidates=ranks.num_candidates.clone(),
        counts=counts,
    )
