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


def measure_queries(ranking: Ranking, protocol: Protocol, *, max_rank: int) -> QueryNumbers:
    """Evaluate every query; the values are no views of the rankings, which may be shared."""
    drawn = None if ranking.drawn is None else _cut_curves(ranking.drawn, protocol, max_rank)
    ranks_for_cmc = ranking.ranks_for_cmc or ranking.ranks

    values = {}
    # AP and INP are always there, reported or not: breakdowns and lists of hard queries use them.
    for name in dict.fromkeys((*protocol.reports, "map", "minp")):
        measure, _ = measures.parse_report(name)
        if drawn is None or not protocol.draws(measure):
            ranks = ranks_for_cmc if measure.is_cmc else ranking.ranks
            values_of_measure = measures.measure(name, ranks, protocol)
        elif measure.is_cmc:
            values_of_measure = measures.measure_drawn(name, drawn)
        else:
            drawn_for_map = replace(drawn, num_positives=ranking.ranks.num_positives)
            values_of_measure = measures.measure_drawn(name, drawn_for_map)
        values[name] = values_of_measure.clone()

    weight = None
    if drawn is not None and protocol.queries_in_draw:
        weight = drawn.weight
    action = ranking.counts.counting(protocol.empty_target_action)
    if drawn is None:
        cmc = measures.cmc_curve(ranks_for_cmc, max_rank, mode=protocol.mode, empty_target_action=action)
    else:
        cmc = measures.mean_over_queries(drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
    return QueryNumbers(values, cmc, weight, drawn)


def _cut_curves(drawn: measures.DrawnResults, protocol: Protocol, max_rank: int) -> measures.DrawnResults:
    """Cut the curves of expectations after the last rank that is reported; metrics share longer ones."""
    length = max_rank
    for measure, k in map(measures.parse_report, protocol.reports):
        if measure.is_cmc:
            length = max(length, k)
    return replace(drawn, cmc=drawn.cmc[:, :length].contiguous())
