"""Numbers of every query: from rankings to the values of the measures that a protocol reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval import measures

from .protocol import Protocol
from .ranked import Ranking


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
        measure, _ = measures.parse_report(name)
        ranked = cmc_ranking if measure.is_cmc else ranking
        if ranked.drawn is None or not protocol.draws(measure):
            values_of_measure = measures.measure(name, ranked.ranks, protocol)
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
