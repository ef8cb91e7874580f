"""Tie policies: the order of equal scores. A row of `TIE_POLICIES` describes a policy completely."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from .counting import Negatives, Positives, count_negatives, negatives_before, sort_falling
from .top_k import keys_of_scores, scores_of_keys

_PADDING = np.iinfo(np.int64).max

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


def best_first(
    scores: Tensor,
    places: Tensor,
    positive: Tensor,
    *,
    ties: TiePolicy,
    grades: Tensor | None = None,
    whole_places: Tensor | None = None,
) -> Positives:
    """Sort the scores of each query's positives; all other items go behind them, as padding.

    Of equal scores the lower grade goes first, or the higher if positives go first, unless the policy is `by_place`.

    Args:
        scores: scores of the items that are listed for each query.
        places: their places in the gallery, or in a part of it.
        positive: marks of the positives.
        ties: the tie policy.
        grades: grades of the items, if samples have several labels.
        whole_places: places in the whole gallery, if `places` are in a part, where positives of other parts may share
            a place; needed with grades only.
    """
    # Below the lowest positive no negative has to be put in order.
    lowest = scores.where(positive, torch.inf).amin(1)
    if grades is None:
        if ties.by_place is None:
            return Positives(sort_falling(scores.where(positive, -torch.inf)), places, lowest)
        return Positives(*sort_with_places(scores, places, positive, ties.by_place), lowest)
    if ties.by_place is None and scores.dtype == torch.float32 and scores.device.type == "cpu":
        scores, grades = _sorted_with_grades(scores, grades, positive, lower_first=not ties.positives_first)
        return Positives(scores, places, lowest, grades)
    if ties.by_place is not None:
        order = ties.by_place(places if whole_places is None else whole_places)
    else:
        order = -grades if ties.positives_first else grades
    scores, places, grades = _sorted_in_order(order, positive, scores, places, grades)
    return Positives(scores, places, lowest, grades)


def _sorted_with_grades(
    scores: Tensor, grades: Tensor, positive: Tensor, *, lower_first: bool
) -> tuple[Tensor, Tensor]:
    """Return scores of positives and their grades, best first; padding scores minus infinity and has the grade 0.

    One sort of integers that hold the score and the grade takes a third of the time of two sorts with places.
    """
    grade_numbers = grades.numpy()
    most = int(grade_numbers.max(initial=0))
    keys = keys_of_scores(scores.where(positive, -torch.inf).numpy())
    keys |= grade_numbers if lower_first else most - grade_numbers
    keys[~positive.numpy()] = _PADDING
    keys.sort(axis=1)
    is_padding = keys == _PADDING
    best = scores_of_keys(keys)
    best[is_padding] = -np.inf
    digits = keys & 0xFFFFFFFF
    sorted_grades = digits if lower_first else most - digits
    sorted_grades[is_padding] = 0
    return torch.from_numpy(best), torch.from_numpy(sorted_grades)


def sort_with_places(scores: Tensor, places: Tensor, positive: Tensor, by_place: PlaceOrder) -> tuple[Tensor, Tensor]:
    """Return scores of positives and their places, best first; padding scores minus infinity and has the place -1."""
    scores, places = _sorted_in_order(by_place(places), positive, scores, places)
    return scores, places


def _sorted_in_order(
    order: Int[Tensor, "queries padded"], positive: Tensor, scores: Tensor, *companions: Tensor
) -> list[Tensor]:
    """Sort scores of positives, best first, and their companions in the same order; equal scores as `order` rises.

    Padding scores minus infinity and has -1 in companions.
    """
    # Padding is last even after positives that score minus infinity: the sort is stable.
    first = order.where(positive, torch.iinfo(torch.int64).max).argsort(dim=1)
    scores, by_score = scores.where(positive, -torch.inf).gather(1, first).sort(dim=1, descending=True, stable=True)
    place = first.gather(1, by_score)
    return [scores, *(values.where(positive, -1).gather(1, place) for values in companions)]
