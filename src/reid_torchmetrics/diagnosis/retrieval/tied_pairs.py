"""Positives and negatives with equal scores: if there are many, their order decides the numbers.

Codes of few bits, rounded scores and collapsed embeddings have such ties.
"""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.measures import average_precision, mean_over_queries
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

from .case import RetrievalCase, Sample
from .orders import ranks_in

MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS = 1000
"""fewer pairs in the sample show nothing"""
_QUERIES_PER_EXAMINED = 64  # one in so many queries of the sample is examined


def ties_decide(case: RetrievalCase) -> bool:
    """Return whether neither the caller nor the protocol chose the order of equal scores."""
    return case.samples.ties_are_open and bool(case.counts.valid)


def find_tied_pairs(case: RetrievalCase) -> Values | None:
    """Return the share of pairs with equal scores, if it is large, and the bounds of mean average precision."""
    if not case.samples.ties_are_open or case.sample is None:
        return None
    few_worst, few_best = _bounds(case.sample.every(_QUERIES_PER_EXAMINED))
    # A positive has one rank more for each negative with its score.
    num_tied = int((few_worst.rank - few_best.rank).sum())
    num_pairs = int((few_worst.num_positives * (few_worst.num_candidates - few_worst.num_positives)).sum())
    if num_pairs < LEAST_PAIRS or num_tied <= MOST_TIED * num_pairs:
        return None
    worst, best = (float(mean_over_queries(average_precision(ranks))) for ranks in _bounds(case.sample))
    return {
        "share": f"{num_tied / num_pairs:.0%}",
        "queries": counted(len(case.sample.scores), "query"),
        "worst": f"{worst:.4f}",
        "best": f"{best:.4f}",
    }


def _bounds(sample: Sample) -> tuple[PositiveRanks, PositiveRanks]:
    """Return the ranks where negatives go first among equal scores, and where positives do."""
    return ranks_in(sample), ranks_in(sample, positives_first=True)
