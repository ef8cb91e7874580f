"""Positives and negatives with equal scores: if there are many, their order decides the numbers.

Codes of few bits, rounded scores and collapsed embeddings have such ties.
"""

from __future__ import annotations

import torch

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.measures import average_precision, mean_over_queries

from .case import RetrievalCase, Sample
from .orders import ranks_in

MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS = 1000
"""fewer pairs in the sample show nothing"""
_MOST_EXAMINED = 4
_QUERIES_PER_EXAMINED = 64  # one in so many queries of the sample is examined


def ties_decide(case: RetrievalCase) -> bool:
    """Return whether neither the caller nor the protocol chose the order of equal scores."""
    return case.ties_are_open and bool(case.counts.valid)


def find_tied_pairs(case: RetrievalCase) -> Values | None:
    """Return the share of pairs with equal scores, if it is large, and the bounds of mean average precision."""
    sample = case.sample
    if sample is None or not case.ties_are_open:
        return None
    num_tied, num_pairs = count_tied_pairs(sample)
    if num_pairs < LEAST_PAIRS or num_tied <= MOST_TIED * num_pairs:
        return None
    bounds = []
    for positives_first in (False, True):
        ranks = ranks_in(sample, positives_first=positives_first)
        bounds.append(f"{float(mean_over_queries(average_precision(ranks))):.4f}")
    worst, best = bounds
    queries = counted(len(sample.queries), "query")
    return {"share": f"{num_tied / num_pairs:.0%}", "queries": queries, "worst": worst, "best": best}


def count_tied_pairs(sample: Sample) -> tuple[int, int]:
    """Count the pairs of a positive and a negative with equal scores, and all such pairs, of a few queries."""
    num_queries = len(sample.queries)
    num_examined = min(_MOST_EXAMINED, -(-num_queries // _QUERIES_PER_EXAMINED))
    num_tied, num_pairs = 0, 0
    for number in range(num_examined):
        row = number * num_queries // num_examined
        positive = sample.is_positive[row]
        positive_scores = sample.scores[row, positive]
        negative_scores = sample.scores[row, sample.is_candidate[row] & ~positive].sort().values
        # The negatives with the score of a positive are one run of the sorted scores.
        start = torch.searchsorted(negative_scores, positive_scores)
        stop = torch.searchsorted(negative_scores, positive_scores, right=True)
        num_tied += int((stop - start).sum())
        num_pairs += len(positive_scores) * len(negative_scores)
    return num_tied, num_pairs
