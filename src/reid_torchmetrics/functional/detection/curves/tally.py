"""Running counts of true positives and of detections that count, from which those of any first detections follow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.matching import Matches


@dataclass(frozen=True)
class Tally:
    """Running counts of one area range, from which the counts of any first detections of a class follow.

    Detections that count are those inside the range, but for those that are matched to ignored ground truths, and true
    positives outside it: what is to be corrected stands at the matched detections.
    """

    matches: Matches
    inside: Int[Tensor, " places"]
    """detections inside the area range before each place, and before the one behind the last"""
    corrections: Int[Tensor, "thresholds columns"]
    """what is to be added to that, before each of the columns, and before the one behind the last"""
    true_positives: Int[Tensor, "thresholds columns"]
    """before the same"""

    def under(self, threshold: int) -> Tally:
        """Of one threshold of overlap alone."""
        rows = slice(threshold, threshold + 1)
        return replace(self, corrections=self.corrections[rows], true_positives=self.true_positives[rows])

    def starts_of(self, classes: Int[Tensor, " _"]) -> Int[Tensor, " _"]:
        """The place of the first detection of some classes."""
        return torch.searchsorted(self.matches.class_index, classes.to(self.matches.class_index.dtype))

    def ends_of_ties(self, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """The place behind the last detection with the class and score of each of some detections."""
        scores, classes = self.matches.scores, self.matches.class_index
        is_last = (scores[1:] != scores[:-1]) | (classes[1:] != classes[:-1])
        ends = torch.cat([is_last, is_last.new_ones(1)]).nonzero()[:, 0] + 1
        return ends[torch.searchsorted(ends, places, right=True)]

    def up_to(
        self, classes: Int[Tensor, " ends"], ends: Int[Tensor, " ends"]
    ) -> tuple[Int[Tensor, "thresholds ends"], Int[Tensor, "thresholds ends"]]:
        """True positives of each class, and detections of it that count, before some places."""
        starts = self.starts_of(classes)
        first, last = (torch.searchsorted(self.matches.columns, places) for places in (starts, ends))
        found = self.true_positives[:, last] - self.true_positives[:, first]
        corrected = self.corrections[:, last] - self.corrections[:, first]
        return found, self.inside[ends] - self.inside[starts] + corrected


def tally_matches(matches: Matches, area: int, limit: int | None) -> Tally:
    """Count the matches of an area range under a limit of detections, the largest if it is None.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an `area` that is not the number of an area range, or a negative `limit`.
    """
    _checks.index("area", area, len(matches.matched), "area ranges")
    if limit is not None:
        _checks.positive_int("limit", limit, least=0, fits_int64=False)
        matches = matches.within(limit)
    inside = ((matches.area_bits >> area) & 1).to(torch.int8)
    matched, true_positive = matches.matched[area].to(torch.int8), matches.true_positive[area].to(torch.int8)
    corrections = true_positive - matched * inside[matches.columns]
    return Tally(matches, _before(inside[None])[0], _before(corrections), _before(true_positive))


def check_occurs(matches: Matches, label: int) -> None:
    """Raise unless `label` is that of a class of the matches."""
    _checks.integer("label", label)
    if not bool((matches.classes == label).any()):
        raise ValueError(f"`label` must be the label of a class that occurs; got {label}.")


def _before(values: Int[Tensor, "rows places"]) -> Int[Tensor, "rows places+1"]:
    """Sums of each row before each place."""
    zero = torch.zeros((len(values), 1), dtype=torch.int64, device=values.device)
    return torch.cat([zero, values.cumsum(1)], 1)
