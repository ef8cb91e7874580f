"""Tie policies: the order of equal scores. A row of `TIE_POLICIES` describes a policy completely."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from jaxtyping import Int
from torch import Tensor

from .counting import Negatives, Positives, count_negatives, negatives_before

PlaceOrder: TypeAlias = Callable[[Int[Tensor, "*places"]], Int[Tensor, "*places"]]
"""returns numbers that ascend in the order of items with equal scores, from the places of the items in the gallery"""


@final
@dataclass(frozen=True)
class TiePolicy:
    """The order of equal scores, for ranks, lists and groups.

    The order of two tied positives never changes which ranks they take, so a policy is about a positive and a negative.
    """

    name: str
    sentence: str
    """the rule, for the docs"""
    count: Callable[[Negatives, Positives], Int[Tensor, "counts queries padded"]]
    """returns `num_counts` numbers for each positive: the negatives before it; with `groups` also those above it"""
    by_place: PlaceOrder | None = None
    """order of items with equal scores; None if their places in the gallery do not matter"""
    positives_first: bool = False
    """True if a positive goes before the negatives with its score; unused with `by_place`"""
    groups: bool = False
    """True if measures need the groups of tied candidates; ranks are pessimistic then"""
    averages: bool = False
    """True if a measure is the mean over all orders of a group; else all items of a group have its last rank"""

    @property
    def lists_by_place(self) -> bool:
        """True if candidates with equal scores are listed in gallery order, positives and negatives alike."""
        return self.by_place is not None or self.averages

    @property
    def num_counts(self) -> int:
        """Number of counts for every positive."""
        return 2 if self.groups else 1


_above = functools.partial(count_negatives, or_tied=(False,))
_above_or_level = functools.partial(count_negatives, or_tied=(True,))
_grouped = functools.partial(count_negatives, or_tied=(True, False))


def in_order(places: Int[Tensor, "*places"]) -> Int[Tensor, "*places"]:
    """Order items with equal scores as in the gallery."""
    return places


_POLICIES = (
    TiePolicy("pessimistic", "a negative with the same score goes before the positive", _above_or_level),
    TiePolicy("optimistic", "the positive goes before a negative with the same score", _above, positives_first=True),
    TiePolicy("stable", "items with the same score keep the order of the gallery", negatives_before, by_place=in_order),
    TiePolicy("grouped", "items with the same score all take the last of their ranks", _grouped, groups=True),
    TiePolicy(
        "expected",
        "a measure is the mean over all orders of items with the same score",
        _grouped,
        groups=True,
        averages=True,
    ),
)
TIE_POLICIES: dict[str, TiePolicy] = {policy.name: policy for policy in _POLICIES}
"""the tie policies by name"""

DRAWN_TIES = tuple(policy.name for policy in _POLICIES if not policy.groups)
"""the policies of `TIE_POLICIES` that put the items of a drawn gallery in a definite order"""
