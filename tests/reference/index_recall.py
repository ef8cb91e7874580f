"""Recall of ranked lists against exact search, from its definition: one query at a time, Python numbers."""

import math
from collections.abc import Sequence


def index_recall(
    retrieved: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    k: int,
    tolerance: float,
    allowed: Sequence[Sequence[bool]] | None = None,
    self_index: Sequence[int] | None = None,
) -> list[float]:
    """Return, for each query, the share of k that its list holds of the items that score at least as the exact k-th.

    The first k entries of a list count, each item once; -1 is no item. A score that is lower by `tolerance` times the
    largest of the query's k best scores, by size, is as good. Only allowed items are searched and are right. The query
    itself is not searched, and its list is the one without it. NaN where there is nothing to search.
    """
    recalls = []
    for query, (items, scores_of_items) in enumerate(zip(retrieved, scores, strict=True)):
        own_place = -2 if self_index is None else self_index[query]
        searched = {
            item
            for item in range(len(scores_of_items))
            if item != own_place and (allowed is None or allowed[query][item])
        }
        if not searched:
            recalls.append(math.nan)
            continue
        best = sorted((scores_of_items[item] for item in searched), reverse=True)[:k]
        least = best[-1] - tolerance * max(abs(score) for score in best)
        others = [item for item in items if item != own_place or item == -1]
        right = {item for item in others[:k] if item in searched and scores_of_items[item] >= least}
        recalls.append(len(right) / len(best))
    return recalls
