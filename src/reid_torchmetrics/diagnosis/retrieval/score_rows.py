"""Rows about scores: in reverse order, infinite, or equal so often that their order decides the numbers.

If distances were passed as scores, or scores as distances, positives come last. They may also come late with a poor
model, for example one that recognizes cameras instead of persons; but only if the order is reversed, the opposite order
is good. Codes of few bits, rounded scores and collapsed embeddings have ties.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.measures import (
    average_precision,
    hit_rate_at,
    mean_over_identities,
    mean_over_queries,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import one_number_each

from .case import MOST_QUERIES, RetrievalCase, cause

LEAST_IDENTITIES = 20
"""number of identities of queries that is needed, as the queries of one identity are right or wrong together"""
LEAST_QUERIES = 100
"""number of queries that is needed if identities are not known"""
FEW_HITS = 0.5
"""bound for Rank-1, as a factor of that of a random order"""
GOOD, ODDS = 0.25, 20
"""Rank-1 of a good order, and its odds as a factor of the odds of a random order"""


def may_be_backwards(case: RetrievalCase) -> bool:
    """Return whether scores of the user's own seem to be in reverse order."""
    options = case.samples.options
    has_own_scores = case.matrix is not None or (options is not None and callable(options.similarity))
    return has_own_scores and seems_backwards(case.ranks, case.identities)


@cause(
    message="`{argument}` {problem}: right answers come last, and first in the opposite order. {remedy}",
    suspect=may_be_backwards,
)
def distances_as_scores(case: RetrievalCase) -> Values | None:
    """Look for distances that are passed as scores, or scores as distances, or a similarity that returns distances.

    There are queries of at least {LEAST_IDENTITIES} identities, or {LEAST_QUERIES} queries if identities are not known.
    Rank-1 is below {FEW_HITS} times the Rank-1 of a random order. The opposite order has a Rank-1 of at least {GOOD},
    with at least {ODDS} times the odds of a random order.
    """
    if not may_be_backwards(case):
        return None
    sample = case.sample
    identities = one_number_each(sample.problem.labels.query).get("identities")
    # A model that recognizes only cameras multiplies the odds of a random order by the number of cameras at most.
    rank_1, random_rank_1 = _rank_1(sample.ranks("pessimistic", are_opposite=True), identities)
    if rank_1 < GOOD or rank_1 * (1 - random_rank_1) < ODDS * random_rank_1 * (1 - rank_1):
        return None
    if case.matrix is None:
        remedy = "Higher must be closer, so return minus the distance."
        return {"argument": "similarity", "problem": "seems to return distances", "remedy": remedy}
    other = "distances" if case.matrix == "scores" else "scores"
    return {"argument": case.matrix, "problem": f"seem to be {other}", "remedy": f"Pass them as `{other}`."}


def seems_backwards(ranks: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Return whether Rank-1 is clearly below that of a random order. With few queries the answer is no."""
    is_valid = ranks.num_positives > 0
    num_answers, least = int(is_valid.sum()), LEAST_QUERIES
    if identities is not None:
        num_answers, least = len(identities[is_valid].unique()), LEAST_IDENTITIES
    if num_answers < least:
        return False
    rank_1, random_rank_1 = _rank_1(ranks, identities)
    return rank_1 < FEW_HITS * random_rank_1


def _rank_1(ranks: PositiveRanks, identities: Tensor | None) -> tuple[float, float]:
    """Return Rank-1, and that of a random order: means over identities, or over queries if these are not known."""
    is_valid = ranks.num_positives > 0
    hits = hit_rate_at(ranks, 1).where(is_valid, torch.nan)
    random_hits = (ranks.num_positives / ranks.num_candidates.double()).where(is_valid, torch.nan)
    if identities is None:
        identities = torch.arange(len(hits), device=hits.device)
    return float(mean_over_identities(hits, identities)), float(mean_over_identities(random_hits, identities))


@cause(
    message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
    " `junk_pairs`, or labels with a rule such as `same_camera`.",
)
def infinite_scores(case: RetrievalCase) -> Values | None:
    """Look for infinite scores or distances that are meant to leave out pairs.

    A score is -inf, or a distance is inf.
    """
    if case.matrix is None or not bool((case.sample.scores[case.sample.is_candidate] == -math.inf).any()):
        return None
    return {"argument": case.matrix, "infinite": "-inf" if case.matrix == "scores" else "inf"}


MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS, QUERIES_PER_PART = 1000, 64
"""pairs of the average query, times the parts of 64 queries that a sample has; fewer show nothing"""


def ties_decide(case: RetrievalCase) -> bool:
    """Return whether nobody chose the order of equal scores, and some query has enough pairs for a sign."""
    if not case.samples.ties_are_open:
        return False
    ranks = case.ranks
    num_pairs = ranks.num_positives * (ranks.num_candidates - ranks.num_positives)
    num_parts = -(-min(len(num_pairs), MOST_QUERIES) // QUERIES_PER_PART)
    return bool((num_parts * num_pairs >= LEAST_PAIRS).any())


@cause(
    message="{share} of the pairs of a positive and a negative have equal scores, so that the order of equal scores"
    " decides the numbers: mean average precision of {queries} is {worst} where negatives go first"
    " (`ties='pessimistic'`, the default) and {best} where positives do ('optimistic'). Pass `ties` to choose, such"
    " as 'expected'.",
    suspect=ties_decide,
    explained_by=("zero_embeddings",),
)
def tied_pairs(case: RetrievalCase) -> Values | None:
    """Look for numbers that depend on the order of equal scores.

    Neither the caller nor the protocol sets `ties`, and in a sample more than a share of {MOST_TIED} of the pairs of a
    positive and a negative have equal scores. The average query has {LEAST_PAIRS} pairs, or fewer by the number of
    parts of {QUERIES_PER_PART} queries in the sample.
    """
    if not case.samples.ties_are_open:
        return None
    ranks = case.sample.ranks("expected")
    tied = ranks.tied
    assert tied is not None  # noqa: S101 - "expected" lists the groups with equal scores
    num_tied = int((tied.num_positives * tied.num_negatives).sum())
    num_pairs = int((ranks.num_positives * (ranks.num_candidates - ranks.num_positives)).sum())
    num_queries = len(case.sample.scores)
    num_parts = -(-num_queries // QUERIES_PER_PART)
    if num_pairs * num_parts < LEAST_PAIRS * num_queries or num_tied <= MOST_TIED * num_pairs:
        return None
    worst, best = case.sample.ranks("pessimistic"), case.sample.ranks("optimistic")
    return {
        "share": f"{num_tied / num_pairs:.0%}",
        "queries": counted(num_queries, "query"),
        "worst": f"{float(mean_over_queries(average_precision(worst))):.4f}",
        "best": f"{float(mean_over_queries(average_precision(best))):.4f}",
    }
