"""Recall of ranked lists against exact search, from its definition: one query at a time, Python numbers."""

from collections.abc import Sequence


def index_recall(
    retrieved: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], k: int, tolerance: float
) -> list[float]:
    """Return, for each query, the share of k that its list holds of the items that score at least as the exact k-th.

    The first k entries of a list count, each item once; -1 is no item. A score that is lower by `tolerance` times the
    largest of the query's k best scores, by size, is as good.
    """
    recalls = []
    for items, scores_of_items in zip(retrieved, scores, strict=True):
        best = sorted(scores_of_items, reverse=True)[:k]
        least = best[-1] - tolerance * max(abs(score) for score in best)
        right = {item for item in items[:k] if item >= 0 and scores_of_items[item] >= least}
        recalls.append(len(right) / len(best))
    return recalls
