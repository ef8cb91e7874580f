"""Near duplicates and their groups, from the definition."""

from collections.abc import Iterable, Sequence


def pairs(scores: Sequence[Sequence[float]], threshold: float, *, within: bool) -> list[tuple[int, int, float]]:
    """Every query and gallery item with a score of at least the threshold; within one set those with a later item."""
    return [
        (query, item, score)
        for query, row in enumerate(scores)
        for item, score in enumerate(row)
        if score >= threshold and (item > query or not within)
    ]


def groups(found: Iterable[tuple[object, object]]) -> set[frozenset[object]]:
    """What is connected by pairs: two groups become one with every pair between them."""
    merged: set[frozenset[object]] = set()
    for pair in found:
        joined = {group for group in merged if group & {*pair}}
        merged = (merged - joined) | {frozenset(pair).union(*joined)}
    return merged
