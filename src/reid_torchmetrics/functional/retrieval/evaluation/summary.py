"""From rankings to results: the values of the measures that a protocol reports, for every query."""

from __future__ import annotations

from dataclasses import replace

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
    # The values are no views of the rankings. AP and INP are always there, reported or not: breakdowns and lists of
    # hard queries use them.
    values: dict[str, Tensor] = {}
    for name in dict.fromkeys((*protocol.reports, "map", "minp")):
        measure, k = measures.parse_report(name)
        ranked = cmc_ranking if measure.is_cmc else ranking
        if ranked.drawn is None or not protocol.draws(measure):
            values_of_measure = measure.compute(ranked.ranks, protocol, k)
        else:
            values_of_measure = measures.measure_drawn(name, ranked.drawn)
        values[name] = values_of_measure.clone()
    cmc, weight, drawn = _average_curves(ranking, cmc_ranking, protocol, max_rank=max_rank)
    has_ranks_for_cmc = drawn is None and protocol.cmc_same_camera is not None
    return RetrievalResults(
        per_query={name: values[name] for name in protocol.reports},
        average_precision=values["map"].clone(),
        inverse_negative_penalty=values["minp"].clone(),
        first_rank=measures.first_rank(ranks),
        cmc=cmc,
        num_positives=ranks.num_positives.clone(),
        num_candidates=ranks.num_candidates.clone(),
        query_index=ranking.query_index.clone(),
        counts=ranking.counts,
        ranks=ranks,
        protocol=protocol,
        setup=setup,
        weight=_copy(weight),
        query_identities=_copy(ranking.query_identities),
        query_cameras=_copy(ranking.query_cameras),
        query_hash=ranking.query_hash,
        problem=problem,
        label_names=ranking.names or None,
        ranks_for_cmc=cmc_ranking.ranks if has_ranks_for_cmc else None,
        drawn=drawn,
    )


def _copy(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.clone()


def _average_curves(
    ranking: Ranking, cmc_ranking: Ranking, protocol: Protocol, *, max_rank: int
) -> tuple[Float[Tensor, " max_rank"], Float[Tensor, " queries"] | None, measures.DrawnResults | None]:
    """Return the mean CMC curve, the weight of each query in it, and expectations over drawn galleries.

    The expectations of the CMC are under its own camera rule, up to the last reported rank: metrics share longer ones.
    """
    action = ranking.counts.counting(protocol.empty_target_action)
    drawn = cmc_ranking.drawn
    if drawn is None:
        cmc = measures.cmc_curve(cmc_ranking.ranks, max_rank, mode=protocol.mode, empty_target_action=action)
        return cmc, None, None
    reported = map(measures.parse_report, protocol.reports)
    length = max([max_rank, *(k for measure, k in reported if measure.is_cmc)])
    drawn = replace(drawn, cmc=drawn.cmc[:, :length].contiguous())
    if ranking.drawn is not None:
        drawn = replace(
            drawn,
            average_precision=ranking.drawn.average_precision,
            inverse_negative_penalty=ranking.drawn.inverse_negative_penalty,
        )
    weight = drawn.weight if protocol.queries_in_draw else None
    cmc = measures.mean_over_queries(drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
    return cmc, weight, drawn
