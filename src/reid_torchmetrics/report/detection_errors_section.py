"""What a report says of the errors of a detector: confused classes, and what each kind costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reid_torchmetrics.functional.detection.errors import (
    ERROR_KINDS,
    LEAST_OVERLAP,
    ConfusionMatrix,
    ErrorBreakdown,
)
from reid_torchmetrics.metrics.detection import DetectionResults, name_of
from reid_torchmetrics.plot import MOST_CLASSES, plot_confusion_matrix, plot_error_breakdown
from reid_torchmetrics.report.detection_sections import COUNTED, Detected, nearest_to_half
from reid_torchmetrics.report.elements import Html, element, note, table
from reid_torchmetrics.report.figures import figure
from reid_torchmetrics.report.numbers_in_words import percent, thousands
from reid_torchmetrics.report.page import Section

_MOST_LISTED = 20  # pairs of classes
_HOW = "DetectionMAP(...).results(across_classes=True) holds which boxes of different classes overlap"


def detection_errors_section(results: Detected, names: Mapping[int, str]) -> Section:
    """Confused classes and kinds of errors, at the threshold of overlap that is the nearest to 0.5."""
    return Section("errors", "Errors", _errors(results, names))


def _errors(results: Detected, names: Mapping[int, str]) -> list[Html]:
    threshold = nearest_to_half(results)
    if not isinstance(results, DetectionResults) or results.objects is None or threshold < LEAST_OVERLAP:
        return [note(f"Not shown: {_HOW}, from {LEAST_OVERLAP:g} on.")]
    matrix = results.confusion_matrix(iou_threshold=threshold, num_classes=MOST_CLASSES)
    breakdown = results.error_breakdown(iou_threshold=threshold)
    said = (
        f"Detections are matched without regard to class, {COUNTED}."
        " Rows are ground truths, and background those of detections that took none."
    )
    drawn = [
        figure(plot_confusion_matrix(matrix, names=names)[0], "confusion", said),
        figure(
            plot_error_breakdown(breakdown)[0],
            "kinds-of-errors",
            "Kinds of errors after TIDE, of all detections: what average precision gains if one kind is repaired.",
        ),
    ]
    return [element("div", *drawn, class_="figures"), _kinds_table(breakdown), *_confused(matrix, names)]


def _kinds_table(breakdown: ErrorBreakdown) -> Html:
    rows = [
        [kind, thousands(breakdown.counts[kind]), percent(breakdown.gains[kind]), meaning]
        for kind, meaning in ERROR_KINDS.items()
    ]
    return table("Kinds of errors", ("kind", "errors", "AP gained (points)", "meaning"), rows, words=["meaning"])


def _confused(matrix: ConfusionMatrix, names: Mapping[int, str]) -> list[Html]:
    listed = matrix.most_confused(_MOST_LISTED).tolist()
    if not listed:
        return [note("No class is detected as another.")]
    rows = [[name_of(true, names), name_of(found, names), thousands(count)] for true, found, count in listed]
    columns = ("ground truth", "detected as", "times")
    return [table("Classes that are confused most", columns, rows, words=["detected as"])]


def errors_data(results: Detected) -> dict[str, Any] | None:
    """Counts and gains of each kind, for JSON; None where they are not known."""
    threshold = nearest_to_half(results)
    if not isinstance(results, DetectionResults) or results.objects is None or threshold < LEAST_OVERLAP:
        return None
    breakdown = results.error_breakdown(iou_threshold=threshold)
    is_defined = breakdown.average_precision == breakdown.average_precision
    return {
        "iou_threshold": threshold,
        "counts": dict(breakdown.counts),
        "gains": dict(breakdown.gains) if is_defined else None,
    }
