"""Rankings that seem to be in reverse order: distances that were passed as scores, or scores as distances.

Then positives come last. They may also come late with a poor model, for example one that recognizes cameras instead of
persons; but only if the order is reversed, the opposite order is good.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.retrieval.measures import average_precision, hit_rate_at, mean_over_identities
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import one_number_each

from .case import RetrievalCase
from .orders import ranks_in

LEAST_IDENTITIES = 20
"""number of identities of queries that is needed, as the queries of one identity are right or wrong together"""
LEAST_QUERIES = 100
"""number of queries that is needed if identities are not known"""
FEW_HITS, LITTLE_PRECISION = 0.5, 0.9
"""bounds for Rank-1 and mean average precision, as a factor of the values of a random order"""
GOOD, ODDS = 0.25, 20
"""Rank-1 of a good order, and its odds as a factor of the odds of a random order"""
_EULER = 0.5772156649015329


def may_be_backwards(case: RetrievalCase) -> bool:
    """Return whether scores of the user's own seem to be in reverse order."""
    options = case.options
    has_own_scores = case.matrix is not None or (options is not None and callable(options.similarity))
    return has_own_scores and seems_backwards(case.ranks, case.identities)


def find_opposite_matrix(case: RetrievalCase) -> Values | None:
    """Return the name of a matrix, and of what it seems to be."""
    if case.matrix is None or not _is_opposite_good(case):
        return None
    return {"argument": case.matrix, "other": "distances" if case.matrix == "scores" else "scores"}


def find_opposite_similarity(case: RetrievalCase) -> Values | None:
    """Return no values if a similarity function seems to return distances."""
    return {} if _is_opposite_good(case) and case.matrix is None else None


def _is_opposite_good(case: RetrievalCase) -> bool:
    """Return whether the opposite order of the scores is good."""
    sample = case.sample
    if sample is None or not may_be_backwards(case):
        return False
    identities = one_number_each(sample.problem.labels.query).get("identities")
    return is_good(ranks_in(sample, is_opposite=True), identities)


def seems_backwards(ranks: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Return whether Rank-1 and mean average precision are clearly below the values of a random order.

    They are means over identities, or over queries if identities are not known. With few queries the answer is no.
    """
    valid = ranks.num_positives > 0
    if identities is None:
        is_enough = len(valid.nonzero()) >= LEAST_QUERIES
    else:
        is_enough = len(identities[valid].unique()) >= LEAST_IDENTITIES
    if not is_enough:
        return False
    rank_1, random_rank_1 = _rank_1(ranks, identities)
    if rank_1 >= FEW_HITS * random_rank_1:
        return False
    random_precision = _mean(_random_precision(ranks), ranks, identities)
    precision = _mean(average_precision(ranks), ranks, identities)
    return precision < LITTLE_PRECISION * random_precision


def is_good(opposite: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Return whether the opposite of a ranking that `seems_backwards` is so good that a model must have learned it."""
    # A model that recognizes only cameras multiplies the odds of a random order by the number of cameras at most.
    rank_1, random_rank_1 = _rank_1(opposite, identities)
    return rank_1 >= GOOD and rank_1 * (1 - random_rank_1) >= ODDS * random_rank_1 * (1 - rank_1)


def _rank_1(ranks: PositiveRanks, identities: Tensor | None) -> tuple[float, float]:
    """Return Rank-1, and the Rank-1 of a random order."""
    rank_1 = _mean(hit_rate_at(ranks, 1), ranks, identities)
    random_rank_1 = _mean(ranks.num_positives / ranks.num_candidates.double(), ranks, identities)
    return rank_1, random_rank_1


def _random_precision(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """Return E[AP] = (H + (P - 1) (N - H) / (N - 1)) / N in a random order.

    P is the number of positives, N the number of candidates, and H = 1 + 1/2 + ... + 1/N.
    """
    positives = ranks.num_positives.double()
    candidates = ranks.num_candidates.double()
    harmonic = torch.digamma(candidates + 1) + _EULER
    share = (positives - 1) / (candidates - 1).clamp(min=1)
    return (harmonic + share * (candidates - harmonic)) / candidates


def _mean(values: Float[Tensor, " queries"], ranks: PositiveRanks, identities: Tensor | None) -> float:
    """Return the mean over the queries with a positive, or over their identities."""
    values = values.where(ranks.num_positives > 0, torch.nan)
    if identities is None:
        return float(values.nanmean())
    return float(mean_over_identities(values, identities))
