"""Positives and negatives with equal scores: if there are many, their order decides the numbers.

Codes of few bits, rounded scores and collapsed embeddings have such ties.
"""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.measures import average_precision, mean_over_queries

from .case import RetrievalCase, cause

MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS = 10_000
"""fewer pairs in the sample show nothing"""


def ties_decide(case: RetrievalCase) -> bool:
    """Return whether neither the caller nor the protocol chose the order of equal scores."""
    return case.samples.ties_are_open and bool(case.counts.valid)


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

    Neither the caller nor the protocol sets `ties`, and in a sample of at least {LEAST_PAIRS} pairs of a positive and a
    negative more than a share of {MOST_TIED} have equal scores.
    """
    if not case.samples.ties_are_open:
        return None
    worst, best = case.sample.ranks("pessimistic"), case.sample.ranks("optimistic")
    # A positive has one rank more for each negative with its score.
    num_tied = int((worst.rank - best.rank).sum())
    num_pairs = int((worst.num_positives * (worst.num_candidates - worst.num_positives)).sum())
    if num_pairs < LEAST_PAIRS or num_tied <= MOST_TIED * num_pairs:
        return None
    return {
        "share": f"{num_tied / num_pairs:.0%}",
        "queries": counted(len(case.sample.scores), "query"),
        "worst": f"{float(mean_over_queries(average_precision(worst))):.4f}",
        "best": f"{float(mean_over_queries(average_precision(best))):.4f}",
    }
