"""Localization recall precision: how well objects are localized, and how many are wrong or missed, in one error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches

_MEANS = ("lrp", "lrp_localization", "lrp_fp", "lrp_fn")
LRP_VALUES = dict(zip(_MEANS, ("error", "localization", "false_positives", "false_negatives"), strict=True))
"""names of the means, and the fields of `LocalizationErrors`"""


@dataclass(frozen=True)
class LocalizationErrors:
    """Optimal localization recall precision (oLRP) of each class, from 0 to 1, less is better.

    At a confidence the error is (localization / (1 - threshold) + wrong + missed) / (right + wrong + missed), where
    localization is the sum of 1 - IoU of what is right. All values are at the confidence with the least error. A class
    without ground truths has NaN; one of which nothing is right an error of 1, and no localization and confidence.
    """

    error: Float[Tensor, " classes"]
    localization: Float[Tensor, " classes"]
    """mean of 1 - IoU of what is right"""
    false_positives: Float[Tensor, " classes"]
    """share of the detections"""
    false_negatives: Float[Tensor, " classes"]
    """share of the ground truths"""
    confidence: Float[Tensor, " classes"]
    """the score of the last detection that counts"""

    def of_label(self, classes: Int[Tensor, " classes"], label: int | None) -> LocalizationErrors:
        """The values of one class, of none if no box has the label; of all for None."""
        if label is None:
            return self
        return LocalizationErrors(*(each[classes == label] for each in vars(self).values()))

    def means(self) -> dict[str, Float[Tensor, ""]]:
        """Means over the classes where a value is defined, by the names of `metric`; -1 where there is none."""
        return {name: getattr(self, each).nanmean().nan_to_num(-1.0) for name, each in LRP_VALUES.items()}


def localization_errors(
    matches: Matches, iou_threshold: float, *, threshold: int = 0, area: int = 0
) -> LocalizationErrors:
    """The least error of each class, of several the one with the highest score.

    As in the authors' code the list may be cut between detections with equal scores. Source: Oksuz et al., "One Metric
    to Measure them All", TPAMI 2022; kemaloksuz/LRP-Error.

    Args:
        matches: with `overlaps`.
        iou_threshold: the least overlap of a match, below 1.
        threshold: the number of this threshold.
        area: the number of the area range.

    Raises:
        ValueError: matches without `overlaps`, or an `iou_threshold` of 1.
    """
    if matches.overlaps is None:
        raise ValueError("`localization` must be True in `results(...)` for errors of localization; got False.")
    if iou_threshold >= 1:
        raise ValueError(f"`iou_threshold` must be below 1 for errors of localization; got {iou_threshold}.")
    is_right, is_ignored = matches.outcomes(threshold, area)
    overlaps = torch.zeros_like(matches.scores, dtype=torch.float64)
    overlaps[matches.columns] = matches.overlaps[area, threshold] * matches.true_positive[area, threshold]
    # Sums up to each detection of its class; those of overlaps begin anew, for their rounding decides ties.
    sizes = matches.class_index.bincount(minlength=len(matches.classes))
    starts, classes = segments.starts(sizes), matches.class_index.long()

    def up_to(flags: Tensor) -> Tensor:
        sums = torch.cat([sizes.new_zeros(1), flags.cumsum(0)])
        return (sums[1:] - sums[starts].index_select(0, classes)).double()

    parts = [segments.running_sums(each) for each in overlaps.split(sizes.tolist())]
    right, wrong = up_to(is_right), up_to(~(is_right | is_ignored))
    num_positives = matches.num_positives[area].double()
    lost = right - torch.cat([overlaps[:0], *parts])
    missed = num_positives.index_select(0, classes) - right
    errors = (lost / (1 - iou_threshold) + wrong + missed) / (right + wrong + missed)
    # The first detection with the least error of its class; values behind the last stand for none.
    nothing = torch.full_like(num_positives, torch.inf)
    least = nothing.scatter_reduce(0, classes, errors.nan_to_num(torch.inf), "amin")
    is_best, places = errors == least.index_select(0, classes), torch.arange(len(errors), device=classes.device)
    first = torch.full_like(sizes, len(errors))
    first.scatter_reduce_(0, classes[is_best], places[is_best], "amin")
    values = torch.stack([errors, lost / right, wrong / (right + wrong), missed / (right + missed), matches.scores])
    best = torch.cat([values, values.new_full((len(values), 1), torch.nan)], 1).index_select(1, first)
    # Where nothing is right all is missed, and without ground truths nothing is defined.
    any_right = torch.zeros_like(sizes).index_add_(0, classes, is_right.long()) > 0
    without = torch.tensor([1.0, torch.nan, torch.nan, 1.0, torch.nan], dtype=torch.float64, device=best.device)
    best = torch.where(any_right, best, without[:, None]).masked_fill(num_positives == 0, torch.nan)
    return LocalizationErrors(*best)
