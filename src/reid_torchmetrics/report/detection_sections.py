"""What a report says of a detection: COCO's numbers, classes and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import CocoResults
from reid_torchmetrics.metrics.detection import DetectionResults, convention_of
from reid_torchmetrics.plot import plot_confidence, plot_precision_recall
from reid_torchmetrics.report.elements import details, element, note, table
from reid_torchmetrics.report.figures import figure
from reid_torchmetrics.report.numbers_in_words import percent, thousands
from reid_torchmetrics.report.page import Section

Detected: TypeAlias = DetectionResults | CocoResults
HOW_MATCHED = "these are results of coco_evaluate(...); those of DetectionMAP(...).results() hold which boxes are right"
COUNTED = (
    "from the confidence with the highest F1 of their class on; those of a class in which nothing is right from the"
    " confidence with the highest mean F1 of all classes on"
)
"""which detections count where no confidence is given, in words"""
_MOST_OPEN = 20  # so many classes are seen at once
_MOST_ROWS = 1000  # a page with more is slow, and all are in its JSON


def detection_numbers(results: Detected) -> dict[str, dict[str, Any]]:
    """COCO's numbers by name, undefined ones None, and the convention of each in words."""
    averages = results.averages
    return {
        name: {"value": None if float(value) < 0 else float(value), "convention": convention_of(name, averages)}
        for name, value in averages.summary().items()
    }


def detection_numbers_section(results: Detected) -> Section:
    """COCO's numbers, each with its convention."""
    rows = [
        [name, percent(math.nan if number["value"] is None else number["value"]), number["convention"]]
        for name, number in detection_numbers(results).items()
    ]
    shown = table("COCO's numbers", ("measure", "value (%)", "convention"), rows, words=["convention"])
    return Section("numbers", "Numbers", [shown])


def classes_section(results: Detected, names: Mapping[int, str]) -> Section:
    """Average precision and recall of each class."""
    columns = _class_columns(results, names)
    rows = [*zip(*columns.values(), strict=True)]
    summary = f"All {len(rows)} classes"
    if len(rows) > _MOST_ROWS:
        summary = f"{_MOST_ROWS:,} of {len(rows):,} classes, those with the lowest AP; all are in the JSON below"
        averages = results.averages
        rising = averages.average_precision[averages.grid.official_limit][0].mean(0).argsort(stable=True)  # NaN is last
        rows = [rows[place] for place in rising[:_MOST_ROWS].sort().values.tolist()]
    filter_by = "class beginning with" if len(rows) > _MOST_OPEN else None
    shown = table("Means over IoU thresholds, if no threshold is named", [*columns], rows, filter_by=filter_by)
    folded = details(summary, shown) if filter_by else shown
    return Section("classes", "Classes", [folded if rows else note("None: there are no boxes.")])


def _class_columns(results: Detected, names: Mapping[int, str]) -> dict[str, list[str]]:
    averages = results.averages
    grid = averages.grid
    precision = averages.average_precision[grid.official_limit][0]  # [thresholds, classes]
    columns = {"class": class_names(results, names)}
    if isinstance(results, DetectionResults):
        columns |= _counts_of_classes(results)
    columns["AP (%)"] = _percents(precision.mean(0))
    columns |= {
        f"AP at IoU {wanted:g} (%)": _percents(precision[place])
        for wanted in (0.5, 0.75)
        for place in [place for place, each in enumerate(grid.iou_thresholds) if each == wanted][:1]
    }
    columns["recall (%)"] = _percents(averages.recall[-1, 0].mean(0))
    return columns


def _counts_of_classes(results: DetectionResults) -> dict[str, list[str]]:
    matches = results.matches
    detections = matches.class_index.bincount(minlength=len(matches.classes))
    return {
        "ground truths": [thousands(number) for number in matches.num_positives[0].tolist()],
        "detections": [thousands(number) for number in detections.tolist()],
    }


def _percents(values: Tensor) -> list[str]:
    return [percent(value) for value in values.tolist()]


def class_names(results: Detected, names: Mapping[int, str]) -> list[str]:
    """Names of the classes of an evaluation, in its order."""
    labels = results.averages.classes.tolist()
    if isinstance(results, DetectionResults) and is_micro(results):
        return ["all classes together"]
    return [str(names.get(label, f"class {label}")) for label in labels]


def is_micro(results: DetectionResults) -> bool:
    """Whether one class stands for all."""
    return results.is_micro


def detection_curves_section(results: Detected, names: Mapping[int, str]) -> Section:
    """Precision over recall, and what is reached at each confidence."""
    at: dict[str, Any] = {"iou_threshold": nearest_to_half(results), "names": names}
    drawn = [figure(plot_precision_recall(results, **at)[0], "precision-recall", "Precision over recall.")]
    if isinstance(results, CocoResults):
        drawn.append(note(f"Precision over confidence is not shown: {HOW_MATCHED}."))
    else:
        said = "Precision, recall and F1 of the detections that score at least so much."
        drawn.append(figure(plot_confidence(results, **at)[0], "confidence", said))
    return Section("curves", "Curves", [element("div", *drawn, class_="figures")])


def nearest_to_half(results: Detected) -> float:
    """The threshold of overlap that is the nearest to the usual one."""
    return min(results.averages.grid.iou_thresholds, key=lambda threshold: abs(threshold - 0.5))
