"""The first candidates of one query, from the definition."""

from collections.abc import Sequence

from tests.reference.retrieval import Candidates


def nearest(scores: Sequence[float], found: Candidates, k: int) -> list[tuple[int, float, bool]]:
    """Return position, score and relevance of the first k candidates; Python's sort keeps the order of equal scores."""
    order = sorted(sorted([*found.positive, *found.negative]), key=lambda position: -scores[position])
    return [(position, scores[position], position in found.positive) for position in order[:k]]
