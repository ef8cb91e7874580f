"""From rankings to results: the values of the measures that a protocol reports, for every query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval import measures

from .protocol import Protocol, Setup
from .ranked import Ranking
from .results import RetrievalResults


def summarize(
    ranking: Ranking,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int,
    cmc_ranking: Ranking | None = None,
    problem: object = None,
) -> RetrievalResults:
    """Evaluate every query, and the numbers that `protocol` reports; the CMC may have a ranking of its own.

    Everything but the ranks, which may be large, is copied: rankings may be shared. The results hold `problem`, the
    evaluated samples.
    """
    ranks = ranking.ranks
    cmc_ranking = cmc_ranking or ranking
    numbers = measure_queries(ranking, cmc_ranking, protocol, max_rank=max_rank)
    has_ranks_for_cmc = numbers.drawn is None and protocol.cmc_same_camera is not None
    return RetrievalResults(
        per_query={name: numbers.values[name] for name in protocol.reports},
        average_precision=numbers.values["map"].clone(),
        inverse_negative_penalty=numbers.values["minp"].clone(),
        first_rank=measures.first_rank(ranks),
        cmc=numbers.cmc,
        num_positives=ranks.num_positives.clone(),
        num_candidates=ranks.num_candidates.clone(),
        query_index=ranking.query_index.clone(),
        counts=ranking.counts,
        ranks=ranks,
        protocol=protocol,
        setup=setup,
        weight=_copy(numbers.weight),
        query_identities=_copy(ranking.query_identities),
        query_cameras=_copy(ranking.query_cameras),
        query_hash=ranking.query_hash,
        problem=problem,
        label_names=ranking.names or None,
        ranks_for_cmc=cmc_ranking.ranks if has_ranks_for_cmc else None,
        drawn=numbers.drawn,
    )


def _copy(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.clone()


class QueryNumbers(NamedTuple):
    """Values of every query, and the mean CMC curve."""

    values: Mapping[str, Float[Tensor, " queries"]]
    """values of the numbers that the protocol reports, and of "map" and "minp" """
    cmc: Float[Tensor, " max_rank"]
    weight: Float[Tensor, " queries"] | None
    """weight of each query in means over drawn galleries; None for 1"""
    drawn: measures.DrawnResults | None
    """expectations over drawn galleries, of the CMC under its own camera rule, up to the last reported rank"""


def measure_queries(ranking: Ranking, cmc_ranking: Ranking, protocol: Protocol, *, max_rank: int) -> QueryNumbers:
    """Evaluate every query; the values are no views of the rankings, which may be shared."""
    values = {}
    # AP and INP are always there, reported or not: breakdowns and lists of hard queries use them.
    for name in dict.fromkeys((*protocol.reports, "map", "minp")):
        measure, k = measures.parse_report(name)
        ranked = cmc_ranking if measure.is_cmc else ranking
        if ranked.drawn is None or not protocol.draws(measure):
            values_of_measure = measure.compute(ranked.ranks, protocol, k)
        else:
            values_of_measure = measures.measure_drawn(name, ranked.drawn)
        values[name] = values_of_measure.clone()

    action = ranking.counts.counting(protocol.empty_target_action)
    if cmc_ranking.drawn is None:
        cmc = measures.cmc_curve(cmc_ranking.ranks, max_rank, mode=protocol.mode, empty_target_action=action)
        return QueryNumbers(values, cmc, None, None)
    drawn = _cut_curves(cmc_ranking.drawn, protocol, max_rank)
    if ranking.drawn is not None:
        drawn = replace(
            drawn,
            average_precision=ranking.drawn.average_precision,
            inverse_negative_penalty=ranking.drawn.inverse_negative_penalty,
        )
    weight = drawn.weight if protocol.queries_in_draw else None
    cmc = measures.mean_over_queries(drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
    return QueryNumbers(values, cmc, weight, drawn)


def _cut_curves(drawn: measures.DrawnResults, protocol: Protocol, max_rank: int) -> measures.DrawnResults:
    """Cut the curves of expectations after the last rank that is reported; metrics share longer ones."""
    length = max_rank
    for measure, k in map(measures.parse_report, protocol.reports):
        if measure.is_cmc:
            length = max(length, k)
    return replace(drawn, cmc=drawn.cmc[:, :length].contiguous())
