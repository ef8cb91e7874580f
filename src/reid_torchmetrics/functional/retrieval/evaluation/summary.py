"""From rankings to what a protocol reports."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval.measures import (
    cmc_curve,
    first_rank,
    mean_over_queries,
    measure,
    measure_drawn,
    parse_report,
)

from .problem import RetrievalProblem
from .protocol import Protocol
from .ranking import Ranking
from .ranking_options import Setup
from .results import RetrievalResults


def summarize(
    ranking: Ranking,
    of_cmc: Ranking,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int = 50,
    problem: RetrievalProblem | None = None,
) -> RetrievalResults:
    """Evaluate every query and the means that `protocol` reports; `of_cmc` is ranked under the CMC's camera rule.

    Everything but the ranks, which may be large, is copied: rankings may be shared.
    """
    ranks, drawn = ranking.ranks, of_cmc.drawn
    weight = drawn.weight if drawn is not None and protocol.queries_in_draw else None
    values = {name: _values(name, ranking, of_cmc, protocol).clone() for name in (*protocol.reports, "map", "minp")}
    return RetrievalResults(
        values={name: values[name] for name in protocol.reports},
        average_precision=values["map"].clone(),
        inverse_negative_penalty=values["minp"].clone(),
        first_rank=first_rank(ranks),
        cmc=_curve(of_cmc, protocol, max_rank, weight),
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
        problem=problem,
    )


def _copy(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.clone()


def _values(name: str, ranking: Ranking, of_cmc: Ranking, protocol: Protocol) -> Float[Tensor, " queries"]:
    row, _ = parse_report(name)
    if of_cmc.drawn is not None and protocol.draws(row):
        return measure_drawn(name, of_cmc.drawn)
    return measure(name, (of_cmc if row.is_cmc else ranking).ranks, protocol)


def _curve(ranking: Ranking, protocol: Protocol, max_rank: int, weight: Tensor | None) -> Float[Tensor, " max_rank"]:
    action = ranking.counts.counting(protocol.empty_target_action)
    if ranking.drawn is None:
        return cmc_curve(ranking.ranks, max_rank, mode=protocol.mode, empty_target_action=action)
    return mean_over_queries(ranking.drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
