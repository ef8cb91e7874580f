"""Expectations over drawn galleries from their definition: every possible draw, in fractions.

The package is compared with this module, so nothing here may come from the package.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

from tests.reference.retrieval import candidates


class Item(NamedTuple):
    """A candidate of one query."""

    score: float
    position: int
    identity: int
    positive: bool


class Expected(NamedTuple):
    """Expectations of one query, or means over queries."""

    cmc: list[Fraction]
    average_precision: Fraction
    inverse_negative_penalty: Fraction


def find_items(
    scores: Sequence[float],
    query: tuple[int, int | None],
    gallery_identities: Sequence[int],
    gallery_cameras: Sequence[int] | None = None,
    **options: object,
) -> list[Item]:
    """List the candidates of one query, given by its identity and camera."""
    found = candidates(query[0], gallery_identities, query[1], gallery_cameras, **options)
    return [
        Item(scores[position], position, gallery_identities[position], position in found.positive)
        for position in sorted(found.positive + found.negative)
    ]


def expected_draw(
    items: Sequence[Item], strata: Sequence[object], *, shots: int | None, ties: str, max_rank: int
) -> Expected | None:
    """Average over all galleries that can be drawn from one query's candidates; None without positives.

    Args:
        items: The candidates.
        strata: The stratum of each gallery position.
        shots: How many items of each stratum are drawn; None for all.
        ties: Who goes first among equal scores.
        max_rank: Length of the CMC.
    """
    if not any(item.positive for item in items):
        return None
    return mean([measure(gallery, ties=ties, max_rank=max_rank) for gallery in draws(items, strata, shots)])


def draws(items: Sequence[Item], strata: Sequence[object], shots: int | None) -> Iterator[list[Item]]:
    """All galleries; each is as likely as any other."""
    groups: dict[object, list[Item]] = {}
    for item in items:
        groups.setdefault(strata[item.position], []).append(item)
    chosen = [combinations(group, len(group) if shots is None else min(shots, len(group))) for group in groups.values()]
    for parts in product(*chosen):
        yield [item for part in parts for item in part]


def measure(gallery: Sequence[Item], *, ties: str, max_rank: int) -> Expected:
    """Rank one gallery: the CMC counts different identities, the others count items."""
    ranked = sorted(gallery, key=lambda item: (-item.score, _among_equals(item, ties), item.position))
    ranks = [rank for rank, item in enumerate(ranked, 1) if item.positive]
    ahead = len({item.identity for item in ranked[: ranks[0] - 1]})
    precision = sum(Fraction(ordinal, rank) for ordinal, rank in enumerate(ranks, 1)) / len(ranks)
    return Expected(
        [Fraction(ahead < k) for k in range(1, max_rank + 1)], Fraction(precision), Fraction(len(ranks), ranks[-1])
    )


def mean(values: Sequence[Expected]) -> Expected:
    """Average over galleries, or over queries."""
    curves = [sum(column) / len(values) for column in zip(*(value.cmc for value in values), strict=True)]
    return Expected(
        curves,
        sum(value.average_precision for value in values) / len(values),
        sum(value.inverse_negative_penalty for value in values) / len(values),
    )


def mean_of_drawn_queries(
    scores: Sequence[Sequence[float]], identities: Sequence[int], *, shots: int, ties: str, max_rank: int
) -> Expected:
    """Draw the gallery from the images; those that are left are the queries: average over all draws (VehicleID)."""
    everything = [Item(0.0, position, identity, False) for position, identity in enumerate(identities)]
    trials = []
    for gallery in draws(everything, identities, shots):
        drawn = {item.position for item in gallery}
        results = []
        for query in set(range(len(identities))) - drawn:
            items = find_items(scores[query], (identities[query], None), identities)
            ranked = [item for item in items if item.position in drawn]
            results.append(measure(ranked, ties=ties, max_rank=max_rank))
        trials.append(mean(results))
    return mean(trials)


def _among_equals(item: Item, ties: str) -> bool | int:
    return {"pessimistic": item.positive, "optimistic": not item.positive, "stable": 0}[ties]
