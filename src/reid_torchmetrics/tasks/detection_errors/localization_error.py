"""Localization recall precision: one error for the localization of objects, false positives and misses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.evaluation import (
    MORE_VALUES,
    RESULT_METHODS,
    DetectionResults,
    ImageMatches,
    NamedValue,
)
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.displays import Display, Displayed, counted

LRP_VALUES = {
    "lrp": "error",
    "lrp_localization": "localization",
    "lrp_fp": "false_positives",
    "lrp_fn": "false_negatives",
}
"""fields of `LocalizationErrors` by the name of their mean"""


@dataclass(frozen=True, repr=False)
class LocalizationErrors(Displayed):
    """Optimal localization recall precision (oLRP) of each class, from 0 to 1, less is better.

    At a confidence the error is (localization / (1 - threshold) + fp + fn) / (tp + fp + fn), where localization is the
    sum of 1 - IoU over the true positives. All values are at the confidence with the least error. A class without
    ground truths has NaN; a class without true positives has an error of 1, and no localization and confidence.
    """

    error: Float[Tensor, " classes"]
    localization: Float[Tensor, " classes"]
    """mean of 1 - IoU over the true positives"""
    false_positives: Float[Tensor, " classes"]
    """share of the detections"""
    false_negatives: Float[Tensor, " classes"]
    """share of the ground truths"""
    confidence: Float[Tensor, " classes"]
    """the score of the last detection that counts"""

    def _display(self) -> Display:
        rows = [(name, f"{float(getattr(self, values).nanmean()):.4f}") for name, values in LRP_VALUES.items()]
        return Display(f"LocalizationErrors: means over {counted(len(self.error), 'class')}", rows=rows)

    def for_label(self, classes: Int[Tensor, " classes"], label: int | None) -> LocalizationErrors:
        """Return the values of one class, without entries if no box has the label; None stands for all classes."""
        if label is None:
            return self
        is_label = classes == label
        return LocalizationErrors(**{name: values[is_label] for name, values in vars(self).items()})

    def means(self) -> dict[str, Float[Tensor, ""]]:
        """Return means over the classes with a defined value, by the names of `metric`; -1 without such a class."""
        return {mean: getattr(self, name).nanmean().nan_to_num(-1.0) for mean, name in LRP_VALUES.items()}


def localization_errors(
    matches: Matches, iou_threshold: float, *, threshold: int = 0, area: int = 0
) -> LocalizationErrors:
    """Find the least error of each class, among equal errors the one with the highest score.

    As in the authors' code the list may be cut between detections with equal scores. Source: Oksuz et al., "One Metric
    to Measure them All", TPAMI 2022; kemaloksuz/LRP-Error.

    Args:
        matches: matches with `overlaps`.
        iou_threshold: the least overlap of a match, below 1.
        threshold: the index of this threshold.
        area: the index of the area range.

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
    sizes = matches.class_index.bincount(minlength=len(matches.classes))
    starts = segments.starts(sizes)
    classes = matches.class_index.long()

    def count_up_to(flags: Tensor) -> Tensor:
        """Return the number of true flags in the class of each detection up to this detection."""
        sums = torch.cat([sizes.new_zeros(1), flags.cumsum(0)])
        return (sums[1:] - sums[starts].index_select(0, classes)).double()

    # The error of each class if its list ends at each detection: tp, fp and fn are counts up to there.
    num_positives = matches.num_positives[area].double()
    tp = count_up_to(is_right)
    fp = count_up_to(~(is_right | is_ignored))
    fn = num_positives.index_select(0, classes) - tp
    # Sums of overlaps start anew in each class, because their rounding decides ties.
    overlap_sums = [segments.running_sums(class_overlaps) for class_overlaps in overlaps.split(sizes.tolist())]
    localization = tp - torch.cat([overlaps[:0], *overlap_sums])
    errors = (localization / (1 - iou_threshold) + fp + fn) / (tp + fp + fn)

    # The first detection with the least error of its class; classes without detections get NaN.
    infinite = torch.full_like(num_positives, torch.inf)
    least = infinite.scatter_reduce(0, classes, errors.nan_to_num(torch.inf), "amin")
    is_least = errors == least.index_select(0, classes)
    places = torch.arange(len(errors), device=classes.device)
    first = torch.full_like(sizes, len(errors))
    first.scatter_reduce_(0, classes[is_least], places[is_least], "amin")
    values = torch.stack([errors, localization / tp, fp / (tp + fp), fn / (tp + fn), matches.scores])
    best = torch.cat([values, values.new_full((len(values), 1), torch.nan)], 1).index_select(1, first)

    # Without true positives all ground truths are missed, and without ground truths nothing is defined.
    has_true_positive = torch.zeros_like(sizes).index_add_(0, classes, is_right.long()) > 0
    all_missed = torch.tensor([1.0, torch.nan, torch.nan, 1.0, torch.nan], dtype=torch.float64, device=best.device)
    best = torch.where(has_true_positive, best, all_missed[:, None]).masked_fill(num_positives == 0, torch.nan)
    error, mean_localization, false_positives, false_negatives, confidence = best
    return LocalizationErrors(error, mean_localization, false_positives, false_negatives, confidence)


def _localization_errors(results: DetectionResults, *, iou_threshold: float, area: str | None) -> LocalizationErrors:
    """See `DetectionResults.localization_errors`."""
    grid = results.averages.grid
    threshold = grid.threshold_index(iou_threshold)
    area_index = 0
    if area is not None:
        names = list(grid.area_ranges)
        _checks.one_of("area", area, names)
        area_index = names.index(area)
    return localization_errors(results.matches, grid.iou_thresholds[threshold], threshold=threshold, area=area_index)


def _mean_localization_error(name: str, images: ImageMatches, label: int | None, _: float | None) -> Tensor:
    """Compute a number of localization errors at the threshold of pictures and reports."""
    grid = images.request.grid
    threshold = grid.shown_threshold
    index = grid.threshold_index(threshold)
    errors = images.once(localization_errors, threshold, threshold=index)
    return errors.for_label(images.matches.classes, label).means()[name]


RESULT_METHODS["localization_errors"] = _localization_errors
for _name in LRP_VALUES:
    MORE_VALUES[_name] = NamedValue(
        partial(_mean_localization_error, _name), needs_localization=True, higher_is_better=False
    )
