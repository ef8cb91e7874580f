"""The methods of `DetectionResults` for operating points, the columns of classes, and the numbers of `DetectionMAP`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluation import (
    CLASS_COLUMNS,
    MORE_VALUES,
    RESULT_METHODS,
    DetectionResults,
    ImageMatches,
    NamedValue,
)
from reid_torchmetrics.functional.detection.evaluators import AT_THRESHOLDS
from reid_torchmetrics.functional.detection.matching import Matches

from .detection_curves import RankedDetections, list_matches, ranked_detections
from .image_errors import ImageErrors, image_errors
from .operating_points import at_confidence, best_confidence, best_f1, confidence_curve, precision_recall_curve

_POINT_VALUES = ("precision", "recall", "f1", "confidence")
"""values of a detector that is used at one confidence: fields of `OperatingPoints`"""


def _ranked(results: DetectionResults) -> RankedDetections:
    """See `DetectionResults.ranked`."""
    ranked = ranked_detections(results.matches)
    return replace(
        ranked,
        image=results.images.to(ranked.image.device)[ranked.image],
        image_names=results.image_names,
        iou_thresholds=tuple(results.averages.grid.iou_thresholds),
    )


def _best_confidences(results: DetectionResults, *, threshold: int) -> dict[int, float]:
    """See `DetectionResults.best_confidences`."""
    # Labels belong to detections, so look up the confidence of the class of each detection.
    confidences = best_confidence(results.matches, threshold=threshold)[results.matches.class_index.long()]
    return dict(zip(results.labels.tolist(), confidences.tolist(), strict=True))


def _image_errors(results: DetectionResults, *, threshold: int, confidence: float | None) -> ImageErrors:
    """See `DetectionResults.image_errors`."""
    if confidence is None:
        least_scores = best_confidence(results.matches, threshold=threshold)
    else:
        least_scores = at_confidence(results.matches, confidence).confidence[threshold]
    counts = image_errors(results.matches, results.num_positives, least_scores, threshold=threshold)
    return replace(counts, image=results.images, image_names=results.image_names)


def _columns_of_f1(matches: Matches, threshold: int) -> dict[str, Tensor]:
    """Return the highest F1 of each class, and its confidence."""
    best = best_f1(matches)
    return {"f1": best.f1[threshold], "confidence": best.confidence[threshold]}


def _best_mean_confidence(matches: Matches, threshold_index: int) -> float | None:
    """Return the confidence with the highest mean F1; None without true positives."""
    curve = confidence_curve(matches, threshold=threshold_index)
    best: Any = curve.best()
    return None if best is None else float(curve.confidence[best])


def _value_at_point(
    kind: str, iou_threshold: float, images: ImageMatches, label: int | None, confidence: float | None
) -> Tensor:
    """Compute a field of `OperatingPoints` at an IoU threshold, as a `NamedValue`."""
    matches = images.matches
    thresholds = list(images.request.grid.iou_thresholds)
    undefined = torch.tensor(-1.0, dtype=torch.float64, device=matches.num_positives.device)

    # The mean is over classes with ground truths, or the class with the label.
    is_averaged = matches.num_positives[0] > 0
    if label is not None:
        is_averaged = is_averaged & (matches.classes == label)
    if iou_threshold not in thresholds or not bool(is_averaged.any()):
        return undefined

    index = thresholds.index(iou_threshold)
    if confidence is None:
        confidence = images.once(_best_mean_confidence, index)
    if confidence is None:  # there is no true positive
        return undefined if kind == "confidence" else undefined.new_zeros(())
    points = images.once(at_confidence, confidence)
    values: Tensor = getattr(points, kind)[index, is_averaged]
    return values.nanmean().nan_to_num(0.0)


def _values_at_points() -> dict[str, NamedValue]:
    """Return the rows of values at one confidence by name, such as `f1_50`."""
    rows = {}
    for map_name, iou_threshold in AT_THRESHOLDS.items():
        for kind in _POINT_VALUES:
            compute = partial(_value_at_point, kind, iou_threshold)
            rows[map_name.replace("map", kind)] = NamedValue(compute, takes_confidence=True)
    return rows


RESULT_METHODS.update(
    detections=list_matches,
    ranked=_ranked,
    at_confidence=at_confidence,
    best_f1=best_f1,
    best_confidences=_best_confidences,
    image_errors=_image_errors,
    confidence_curve=confidence_curve,
    precision_recall_curve=precision_recall_curve,
)
CLASS_COLUMNS["f1"] = _columns_of_f1
MORE_VALUES.update(_values_at_points())
