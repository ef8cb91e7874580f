"""Advice where many positives tie with negatives: then the order of equal scores decides the numbers.

Codes of few bits, rounded scores and collapsed embeddings have such ties. A few queries tell how many there are; the
whole problem is ranked a second time only where there are many.
"""

from __future__ import annotations

import torch

from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores

MOST_TIED = 0.05
"""the share of pairs of a positive and a negative that may tie without a word"""
_LEAST_PAIRS = 1000  # fewer pairs of the examined queries tell nothing
_MOST_QUERIES = 8
_QUERIES_PER_EXAMINED = 64  # so that what is examined costs little beside the ranking


def count_tied_pairs(scores: Scores, relevance: Relevance) -> tuple[int, int]:
    """Count pairs of a positive and a negative with equal scores, and all such pairs, of a few queries spread evenly.

    Of a part of the gallery these are the pairs within the part.
    """
    if scores.sent is not None or not relevance.num_kept:
        return 0, 0
    num_queries = relevance.num_queries
    num_examined = min(_MOST_QUERIES, -(-num_queries // _QUERIES_PER_EXAMINED))
    num_tied, num_pairs = 0, 0
    columns = slice(0, relevance.num_kept)
    for number in range(num_examined):
        query = number * num_queries // num_examined
        row = slice(query, query + 1)
        values = torch.empty((1, relevance.num_kept), dtype=scores.dtype, device=scores.device)
        scores.fill(values, row, columns)
        positive, negative = relevance.pairs(row, columns, relevance.tile(row))
        of_positives = values[positive]
        of_negatives = values[negative].sort().values
        first = torch.searchsorted(of_negatives, of_positives)
        behind_last = torch.searchsorted(of_negatives, of_positives, right=True)
        num_tied += int((behind_last - first).sum())
        num_pairs += len(of_positives) * len(of_negatives)
    return num_tied, num_pairs


def are_many(num_tied: int, num_pairs: int) -> bool:
    """Return whether enough pairs tie for a word about it."""
    return num_pairs >= _LEAST_PAIRS and num_tied > MOST_TIED * num_pairs


def words_for_ties(share: float, worst: float, best: float) -> str:
    """Describe many tied pairs in words, with the bounds of mean average precision."""
    return (
        f"{share:.0%} of the pairs of a positive and a negative have equal scores, so that the order of equal scores"
        f" decides the numbers: mean average precision is {worst:.4f} where negatives go first (`ties='pessimistic'`,"
        f" the default) and {best:.4f} where positives do ('optimistic'). Pass `ties` to choose, such as 'expected'."
    )
