"""Rankings that seem to be the wrong way round: distances that were taken for scores, or scores for distances.

Right answers then come last. They may come late by a poor model as well, say one that sees cameras in the place of
persons; but only a ranking that is backwards has an opposite that is good.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.measures import average_precision, hit_rate_at, mean_over_identities
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

LEAST_IDENTITIES = 20
"""identities of queries: all queries of one are right, or wrong, together"""
LEAST_QUERIES = 100
"""queries where identities are not known"""
FEW_HITS, LITTLE_PRECISION = 0.5, 0.9
"""Rank-1 and mean average precision, as parts of what a random order has"""
GOOD, ODDS = 0.25, 20
"""Rank-1 of a good order, and its odds as a multiple of the odds of a random order"""
_EULER = 0.5772156649015329


def seems_backwards(ranks: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Whether Rank-1 and mean average precision, as means over identities, are clearly below a random order's.

    Without identities they are means over queries. Few queries tell nothing.
    """
    valid = ranks.num_positives > 0
    asked = valid.nonzero() if identities is None else identities[valid].unique()
    if len(asked) < (LEAST_QUERIES if identities is None else LEAST_IDENTITIES):
        return False
    rank_1, by_chance = _rank_1(ranks, identities)
    if rank_1 >= FEW_HITS * by_chance:
        return False
    by_chance = _mean(_precision_by_chance(ranks), ranks, identities)
    return _mean(average_precision(ranks), ranks, identities) < LITTLE_PRECISION * by_chance


def is_good(opposite: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Whether a ranking, the opposite of what `seems_backwards`, must be of a model with something learned."""
    # A model that sees cameras alone has at most as many times the odds of a random order as there are cameras.
    rank_1, by_chance = _rank_1(opposite, identities)
    return rank_1 >= GOOD and rank_1 * (1 - by_chance) >= ODDS * by_chance * (1 - rank_1)


def _rank_1(ranks: PositiveRanks, identities: Tensor | None) -> tuple[float, float]:
    """Rank-1, and that of a random order."""
    values = hit_rate_at(ranks, 1), ranks.num_positives / ranks.num_candidates.double()
    return _mean(values[0], ranks, identities), _mean(values[1], ranks, identities)


def _precision_by_chance(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """E[AP] = (H + (P - 1) (N - H) / (N - 1)) / N of P positives among N candidates, with H = 1 + 1/2 + ... + 1/N."""
    positives, candidates = ranks.num_positives.double(), ranks.num_candidates.double()
    harmonic = torch.digamma(candidates + 1) + _EULER
    others = (positives - 1) / (candidates - 1).clamp(min=1)
    return (harmonic + others * (candidates - harmonic)) / candidates


def _mean(values: Float[Tensor, " queries"], ranks: PositiveRanks, identities: Tensor | None) -> float:
    """Mean over the queries with a positive, or over their identities."""
    values = values.where(ranks.num_positives > 0, torch.nan)
    return float(values.nanmean() if identities is None else mean_over_identities(values, identities))
