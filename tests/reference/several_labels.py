"""Retrieval of samples with several labels from its definitions: one query, one gallery item, one label at a time.

The package is compared with this module, so nothing here may come from the package.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Listed:
    """The candidates of a query, best first."""

    grades: list[int]
    """how many labels each shares with the query; 0 for a negative"""
    ranks: list[int]
    """the places of the positives, counted from 1"""


def num_shared(query_labels: Sequence[bool], item_labels: Sequence[bool]) -> int:
    """Count the labels that both samples have."""
    return sum(1 for mine, theirs in zip(query_labels, item_labels, strict=True) if mine and theirs)


def listed(
    scores: Sequence[float],
    query_labels: Sequence[bool],
    gallery_labels: Sequence[Sequence[bool]],
    *,
    ties: str,
    query_camera: int | None = None,
    gallery_cameras: Sequence[int] | None = None,
    same_camera: str = "same_identity",
    own_place: int = -1,
) -> Listed:
    """Rank the candidates of one query: a positive shares at least one label, and a grade counts the shared ones.

    Equal scores: `"pessimistic"` lists the lower grade first, `"optimistic"` the higher one, `"stable"` keeps the order
    of the gallery.
    """
    candidates = []
    for place, item_labels in enumerate(gallery_labels):
        grade = num_shared(query_labels, item_labels)
        same_place = gallery_cameras is not None and gallery_cameras[place] == query_camera
        is_junk = same_place and (same_camera == "all" or (same_camera == "same_identity" and grade > 0))
        if place == own_place or is_junk:
            continue
        order_of_ties = {"pessimistic": grade, "optimistic": -grade, "stable": place}[ties]
        candidates.append((-scores[place], order_of_ties, place, grade))
    grades = [grade for *_, grade in sorted(candidates)]
    return Listed(grades, [rank for rank, grade in enumerate(grades, start=1) if grade > 0])


def all_orders(scores: Sequence[float], grades: Sequence[int]) -> list[list[int]]:
    """List the grades in each order that falls by score; equal scores come in every order."""
    places = range(len(scores))
    return [
        [grades[place] for place in order]
        for order in itertools.permutations(places)
        if all(scores[first] >= scores[second] for first, second in itertools.pairwise(order))
    ]


def average_precision(grades: Sequence[int]) -> float:
    """Add up the precision at each positive, and divide by their number."""
    precisions = []
    for rank, grade in enumerate(grades, start=1):
        if grade > 0:
            precisions.append(Fraction(len(precisions) + 1, rank))
    return float(sum(precisions) / len(precisions)) if precisions else math.nan


def normalized_dcg(grades: Sequence[int], k: int, gain: str = "linear") -> float:
    """Discount the gains of the first k by log2(rank + 1), and divide by the same of the best order."""
    gains = [2**grade - 1 if gain == "exponential" else grade for grade in grades]
    if not any(gains):
        return math.nan
    return _dcg(gains, k) / _dcg(sorted(gains, reverse=True), k)


def _dcg(gains: Sequence[int], k: int) -> float:
    return sum(value / math.log2(rank + 1) for rank, value in enumerate(gains[:k], start=1))


def average_cumulative_gain(grades: Sequence[int], k: int) -> float:
    """Add up the grades of the first k, and divide by k."""
    return float(Fraction(sum(grades[:k]), k)) if any(grades) else math.nan
