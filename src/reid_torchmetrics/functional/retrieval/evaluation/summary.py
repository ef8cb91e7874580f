"""From ranks, and expectations over drawn galleries, to what a protocol reports."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import DrawnResults
from reid_torchmetrics.functional.retrieval.evaluation.problem import RetrievalProblem
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.results import RetrievalResults
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup
from reid_torchmetrics.functional.retrieval.measures import (
    cmc_curve,
    first_rank,
    mean_over_queries,
    measure,
    measure_drawn,
    parse_report,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts


class Ranked(NamedTuple):
    """All that is needed to summarize an evaluation."""

    ranks: PositiveRanks
    cmc_ranks: PositiveRanks
    """those under the camera rule of the CMC"""
    drawn: DrawnResults | None
    counts: QueryCounts


def summarize(
    ranked: Ranked,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int = 50,
    labels: tuple[Tensor | None, Tensor | None] = (None, None),
    problem: RetrievalProblem | None = None,
) -> RetrievalResults:
    """Evaluate every query and the means that `protocol` reports; `labels` are the queries' identities and cameras.

    Everything is copied: what was ranked may be shared.
    """
    ranks, drawn = ranked.ranks, ranked.drawn
    weight = drawn.weight if drawn is not None and protocol.queries_in_draw else None
    return RetrievalResults(
        values={name: _values(name, ranked, protocol).clone() for name in protocol.reports},
        average_precision=_values("map", ranked, protocol).clone(),
        inverse_negative_penalty=_values("minp", ranked, protocol).clone(),
        first_rank=first_rank(ranks),
        cmc=_curve(ranked, protocol, max_rank),
        num_positives=ranks.num_positives.clone(),
        num_candidates=ranks.num_candidates.clone(),
        counts=ranked.counts,
        protocol=protocol,
        setup=setup,
        weight=_copy(weight),
        query_identities=_copy(labels[0]),
        query_cameras=_copy(labels[1]),
        problem=problem,
    )


def _copy(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.clone()


def _values(name: str, ranked: Ranked, protocol: Protocol) -> Float[Tensor, " queries"]:
    row, _ = parse_report(name)
    if ranked.drawn is not None and protocol.draws(row):
        return measure_drawn(name, ranked.drawn)
    return measure(name, ranked.cmc_ranks if row.is_cmc else ranked.ranks, protocol)


def _curve(ranked: Ranked, protocol: Protocol, max_rank: int) -> Float[Tensor, " max_rank"]:
    action = protocol.empty_target_action
    if ranked.drawn is None:
        return cmc_curve(ranked.cmc_ranks, max_rank, mode=protocol.mode, empty_target_action=action)
    weight = ranked.drawn.weight if protocol.queries_in_draw else None
    return mean_over_queries(ranked.drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
