"""The methods of `DetectionResults` for errors, and the numbers of `DetectionMAP` for errors of localization."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import ConfusionMatrixRule, ErrorRule
from reid_torchmetrics.functional.detection.evaluation import (
    MORE_VALUES,
    RESULT_METHODS,
    DetectionResults,
    ImageMatches,
    NamedValue,
)
from reid_torchmetrics.functional.detection.evaluators import Evaluator
from reid_torchmetrics.tasks.operating_points import best_confidence

from .confusion import ConfusionMatrix, confusion_matrix
from .error_breakdown import ErrorBreakdown, error_breakdown
from .localization_error import LRP_VALUES, LocalizationErrors, localization_errors
from .object_pairs import ObjectPairs

_CONFUSION_RULES: dict[str, ConfusionMatrixRule] = {"Ultralytics": "ultralytics"}
"""rules of confusion matrices by the title of the evaluator; COCO's for all others"""


def _confusion_matrix(
    results: DetectionResults,
    *,
    iou_threshold: float,
    confidence: float | None,
    rule: ConfusionMatrixRule | None,
    num_classes: int | None,
) -> ConfusionMatrix:
    """See `DetectionResults.confusion_matrix`."""
    objects = _objects_of(results, "a confusion matrix")
    least_scores: float | Tensor
    if confidence is not None:
        least_scores = confidence
    else:
        threshold = results.averages.grid.threshold_index(iou_threshold)
        least_scores = best_confidence(results.matches, threshold=threshold)
        if results.is_micro:  # the only confidence is for all labels
            least_scores = least_scores.expand(len(objects.classes))
    if rule is None:
        rule = _CONFUSION_RULES.get(results.evaluator.title, "coco")
    return confusion_matrix(
        objects,
        least_scores,
        iou_threshold=iou_threshold,
        rule=rule,
        num_classes=num_classes,
    )


def why_no_breakdown(evaluator: Evaluator) -> str:
    """Return the reason why the errors of an evaluator have no kinds; "" if they have kinds."""
    if evaluator.has_breakdown:
        return ""
    if evaluator.is_federated:
        return "images are annotated for some classes only"
    return "a detection takes the best ground truth of all, whether it is left or not"


def _error_breakdown(
    results: DetectionResults, *, iou_threshold: float, background_threshold: float, rule: ErrorRule | None
) -> ErrorBreakdown:
    """See `DetectionResults.error_breakdown`."""
    reason = why_no_breakdown(results.evaluator)
    if reason:
        raise ValueError(
            "`error_breakdown` must be called on results of an evaluator that matches greedily and knows all"
            f" classes of each image, such as COCO; got {results.evaluator.title}: {reason}."
        )
    objects = _objects_of(results, "a breakdown of errors")
    if results.is_micro:
        no_labels = torch.zeros_like(objects.labels)
        objects = replace(objects, labels=no_labels, true_labels=torch.zeros_like(objects.true_labels))
    return error_breakdown(
        objects,
        iou_threshold=iou_threshold,
        background_threshold=background_threshold,
        rule=results.averages.rule if rule is None else rule,
    )


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


def _objects_of(results: DetectionResults, purpose: str) -> ObjectPairs:
    """Return the pairs of objects across classes; raise if the results lack them."""
    if results.objects is None:
        raise ValueError(f"`across_classes` must be True in `results(...)` for {purpose}; got False.")
    assert isinstance(results.objects, ObjectPairs)  # noqa: S101 - for the type checker
    return results.objects


def _mean_localization_error(name: str, images: ImageMatches, label: int | None, _: float | None) -> Tensor:
    """Compute a number of localization errors at the threshold of pictures and reports."""
    grid = images.request.grid
    threshold = grid.shown_threshold
    index = grid.threshold_index(threshold)
    errors = images.once(localization_errors, threshold, threshold=index)
    return errors.for_label(images.matches.classes, label).means()[name]


RESULT_METHODS.update(
    confusion_matrix=_confusion_matrix, error_breakdown=_error_breakdown, localization_errors=_localization_errors
)
for _name in LRP_VALUES:
    MORE_VALUES[_name] = NamedValue(
        partial(_mean_localization_error, _name), needs_localization=True, higher_is_better=False
    )
