"""The page about a detection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import BOX_FORMATS
from reid_torchmetrics.plot import Pictures
from reid_torchmetrics.report.detection_errors_section import detection_errors_section, errors_data
from reid_torchmetrics.report.detection_sections import (
    Detected,
    class_names,
    classes_section,
    detection_curves_section,
    detection_numbers,
    detection_numbers_section,
)
from reid_torchmetrics.report.page import Page
from reid_torchmetrics.report.provenance import provenance_section, versions
from reid_torchmetrics.report.worst_images_section import Boxes, ImagePictures, worst_images_section

_DRAWN = ("pictures", "detections", "ground_truths")


@dataclass(frozen=True)
class DetectionOptions:
    """What may be asked for besides results; see `write_report`."""

    names: Mapping[int, str] = field(default_factory=dict)
    num_worst: int = 20
    pictures: Pictures | None = None
    detections: Boxes | None = None
    ground_truths: Boxes | None = None
    box_format: str = "xyxy"

    def __post_init__(self) -> None:
        """Check the values."""
        _checks.positive_int("num_worst", self.num_worst)
        _checks.one_of("box_format", self.box_format, BOX_FORMATS)
        given = {name: getattr(self, name) is not None for name in _DRAWN}
        if any(given.values()) and not all(given.values()):
            came = ", ".join(f"`{name}`" for name, is_given in given.items() if is_given)
            raise ValueError(f"`pictures`, `detections` and `ground_truths` must be given together; got {came} alone.")

    def image_pictures(self, names: Mapping[int, str]) -> ImagePictures | None:
        """What is drawn of images, if anything, with the names of classes."""
        if self.pictures is None or self.detections is None or self.ground_truths is None:
            return None
        return ImagePictures(self.pictures, self.detections, self.ground_truths, self.box_format, names)


def detection_page(results: Detected, options: DetectionOptions) -> Page:
    """All sections about results of a detection."""
    names = options.names or getattr(results, "class_names", {})
    data = detection_data(results, names)
    sections = [
        detection_numbers_section(results),
        classes_section(results, names),
        detection_curves_section(results, names),
        detection_errors_section(results, names),
        worst_images_section(results, options.num_worst, options.image_pictures(names)),
        provenance_section(data),
    ]
    averages = results.averages
    lead = f"{len(averages.classes)} classes; average precision by rule {averages.rule}."
    return Page("Detection", lead, sections, data)


def detection_data(results: Detected, names: Mapping[int, str]) -> dict[str, Any]:
    """Numbers and what decides them, JSON-safe: undefined numbers are None, and infinite ends of a range, too."""
    averages = results.averages
    grid = averages.grid
    precision = averages.map_per_class().tolist()
    labelled = zip(averages.classes.tolist(), class_names(results, names), precision, strict=True)
    return {
        "versions": versions(),
        "measures": detection_numbers(results),
        "classes": [
            {"label": label, "name": name, "average_precision": None if value < 0 else value}
            for label, name, value in labelled
        ],
        "errors": errors_data(results),
        "rule": averages.rule,
        "iou_thresholds": list(grid.iou_thresholds),
        "max_detections": list(grid.max_detections),
        "area_ranges": {name: [_finite(end) for end in ends] for name, ends in grid.area_ranges.items()},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
