"""The first candidates of one query, and its first positive, from the definition."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.retrieval import Candidates


class Found(NamedTuple):
    """Position, score and relevance of the first k candidates, and rank and position of the first positive."""

    listed: list[tuple[int, float, bool]]
    first_rank: int
    first_position: int


def nearest(scores: Sequence[float], found: Candidates, k: int, ties: str = "stable") -> Found:
    """List all candidates in order; equal scores as a tie policy says, and among equals in the order of the gallery."""
    turn = {"pessimistic": 1, "grouped": 1, "optimistic": -1, "stable": 0, "expected": 0}[ties]

    def order(position: int) -> tuple[float, int, int]:
        return -scores[position], turn * (position in found.positive), position

    everything = sorted([*found.positive, *found.negative], key=order)
    hits = [rank for rank, position in enumerate(everything, start=1) if position in found.positive]
    listed = [(position, scores[position], position in found.positive) for position in everything[:k]]
    return Found(listed, hits[0] if hits else 0, everything[hits[0] - 1] if hits else -1)
