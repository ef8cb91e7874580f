"""The one road: from a retrieval problem, in whatever world, to the ranks of its positives.

relevance        who is positive, negative or junk for each query       relevance/
scores           of all queries against this process's gallery          scores/, reranking/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        draws/
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, count_sharded_ranks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.functional.world import ALONE, World

from .problem import RetrievalProblem
from .ranking_options import RankingOptions


@dataclass(frozen=True)
class Ranking:
    """Ranks of the positives of all queries, and what became of the queries."""

    ranks: PositiveRanks
    counts: QueryCounts
    query_index: Int[Tensor, " queries"]
    """numbers of the queries in the data set, else their positions"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    drawn: DrawnResults | None = None
    """expectations over drawn galleries, where the protocol draws them"""
    undefined: str | None = None
    """why there is nothing to average, if so"""


def rank_problem(problem: RetrievalProblem, options: RankingOptions, world: World = ALONE) -> Ranking:
    """Rank the positives of all queries, of which every process has this `problem` with its own part of the gallery.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: options that do not fit the problem, scores that are NaN.
    """
    scores, relevance = problem.prepare(options.protocol, world)
    ranks, counts = count_sharded_ranks(
        world, scores, relevance, ties=options.ties, places=problem.kept_places(relevance)
    )
    return Ranking(
        ranks,
        counts,
        problem.numbers_of_queries,
        relevance.query_identities,
        relevance.query_cameras,
        _expected(scores, relevance, options),
    )


def _expected(scores: Scores, relevance: Relevance, options: RankingOptions) -> DrawnResults | None:
    """Expectations over drawn galleries, which are asked for in a world of one process alone."""
    protocol = options.protocol
    if protocol.draw is None:
        return None
    return expect_draws(
        scores,
        relevance,
        protocol.draw,
        ties=options.ties,
        max_rank=options.max_rank,
        with_precision=protocol.draws_precision,
        queries_in_draw=protocol.queries_in_draw,
    )
