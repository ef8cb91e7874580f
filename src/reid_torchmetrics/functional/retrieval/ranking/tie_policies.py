"""Tie policies: the order of equal scores. One row of `TIE_POLICIES` holds all that a policy decides."""

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

PlaceOrder: TypeAlias = Callable[[Int[Tensor, "*places"]], Int[Tensor, "*places"]]
"""numbers that ascend in the order of items with equal scores, from the places of the items in the gallery"""


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
    """`num_counts` numbers for each positive: the negatives before it; with `groups` also the negatives above it"""
    by_place: PlaceOrder | None = None
    """order of items with equal scores; None where their places in the gallery do not matter"""
    positives_first: bool = False
    """whether a positive goes before the negatives with its score; unused where places decide"""
    groups: bool = False
    """whether measures need the groups of tied candidates; ranks are the pessimistic ones then"""
    averages: bool = False
    """whether a measure is the mean over all orders of each group; else a group counts as one, at its last rank"""

    @property
    def lists_by_place(self) -> bool:
        """Whether candidates with equal scores are listed in gallery order, positives and negatives alike."""
        return self.by_place is not None or self.averages

    @property
    def num_counts(self) -> int:
        """Numbers counted for every positive."""
        return 2 if self.groups else 1


_above = functools.partial(count_negatives, or_tied=(False,))
_above_or_level = functools.partial(count_negatives, or_tied=(True,))
_grouped = functools.partial(count_negatives, or_tied=(True, False))


def in_order(places: Int[Tensor, "*places"]) -> Int[Tensor, "*places"]:
    """Items with equal scores in the order of the gallery."""
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


def best_first(
    scores: Tensor,
    places: Tensor,
    positive: Tensor,
    *,
    ties: TiePolicy,
    grades: Tensor | None = None,
    whole_places: Tensor | None = None,
) -> Positives:
    """Sort the scores of each query's positives; all others go behind them, as padding.

    Of equal scores the lower grade goes first, or the higher where positives go first, unless places decide.
    `whole_places` are the places in the whole gallery, where `places` are those in a part of it: positives of other
    parts may share one there.
    """
    # Below the lowest positive no negative has to be put in order.
    lowest = scores.where(positive, torch.inf).amin(1)
    if grades is not None and ties.by_place is None and scores.dtype == torch.float32 and scores.device.type == "cpu":
        scores, grades = _sorted_with_grades(scores, grades, positive, lower_first=not ties.positives_first)
        return Positives(scores, places, lowest, grades)
    if grades is not None:
        by_grade = -grades if ties.positives_first else grades
        by_place = places if whole_places is None else whole_places
        order = by_grade if ties.by_place is None else ties.by_place(by_place)
        scores, places, grades = _sorted_in_order(order, positive, scores, places, grades)
        return Positives(scores, places, lowest, grades)
    if ties.by_place is None:
        return Positives(sort_falling(scores.where(positive, -torch.inf)), places, lowest)
    return Positives(*sort_with_places(scores, places, positive, ties.by_place), lowest)


def _sorted_with_grades(
    scores: Tensor, grades: Tensor, positive: Tensor, *, lower_first: bool
) -> tuple[Tensor, Tensor]:
    """Scores of positives and their grades, the best first; padding scores minus infinity and has the grade 0.

    One sort of integers with both in their bits takes a third of the time of two sorts with places.
    """
    numbers = grades.numpy()
    most = int(numbers.max(initial=0))
    keys = keys_of_scores(scores.where(positive, -torch.inf).numpy())
    keys |= numbers if lower_first else most - numbers
    keys[~positive.numpy()] = np.iinfo(np.int64).max
    keys.sort(axis=1)
    is_padding = keys == np.iinfo(np.int64).max
    best = scores_of_keys(keys)
    best[is_padding] = -np.inf
    digits = keys & 0xFFFFFFFF
    digits = digits if lower_first else most - digits
    digits[is_padding] = 0
    return torch.from_numpy(best), torch.from_numpy(digits)


def sort_with_places(scores: Tensor, places: Tensor, positive: Tensor, by_place: PlaceOrder) -> tuple[Tensor, Tensor]:
    """Scores of positives and their places, the best first; padding scores minus infinity and has the place -1."""
    scores, places = _sorted_in_order(by_place(places), positive, scores, places)
    return scores, places


def _sorted_in_order(
    order: Int[Tensor, "queries padded"], positive: Tensor, scores: Tensor, *companions: Tensor
) -> list[Tensor]:
    """Sort scores of positives, the best first, and companions in step with them; equal scores as `order` rises.

    Padding scores minus infinity and has -1 in companions.
    """
    # Padding is last even after positives that score minus infinity: the sort is stable.
    first = order.where(positive, torch.iinfo(torch.int64).max).argsort(dim=1)
    scores, by_score = scores.where(positive, -torch.inf).gather(1, first).sort(dim=1, descending=True, stable=True)
    place = first.gather(1, by_score)
    return [scores, *(values.where(positive, -1).gather(1, place) for values in companions)]
