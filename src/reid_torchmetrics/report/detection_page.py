"""The page about a detection.

What a report says of the errors of a detector: confused classes, and what each kind costs.

What a report says of a detection: COCO's numbers, classes and curves.

What a report says of single images: those with the most errors of a detector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import BOX_FORMATS, ImageErrors
from reid_torchmetrics.functional.detection.errors import ERROR_KINDS, LEAST_OVERLAP, ConfusionMatrix, ErrorBreakdown
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, name_of
from reid_torchmetrics.plot import (
    COUNTED,
    MOST_CLASSES,
    Pictures,
    draw_boxes,
    picture_at,
)

from .elements import Html, details, element, note, percent, picture, table, thousands
from .page import Page, Section, figures_section, picture_or_why, provenance_section, versions

_MOST_OPEN = 20  # so many classes are seen at once
_MOST_ROWS = 1000  # a page with more is slow, and all are in its JSON
_HEADINGS = {"map": "AP (%)", "map_50": "AP at IoU 0.5 (%)", "map_75": "AP at IoU 0.75 (%)", "f1": "F1 (%)"}
_COUNTS = ("ground truths", "detections")


def detection_numbers_section(results: DetectionResults) -> Section:
    """The numbers of the evaluator, each with its convention."""
    rows = [
        [name, percent(math.nan if number["value"] is None else number["value"]), number["convention"]]
        for name, number in results.to_dict(iou_threshold=_threshold(results))["numbers"].items()
    ]
    shown = table(
        f"{results.evaluator.title}'s numbers", ("measure", "value (%)", "convention"), rows, words=["convention"]
    )
    return Section("numbers", "Numbers", [shown])


def _threshold(results: DetectionResults) -> float:
    return results.averages.grid.shown_threshold


def classes_section(results: DetectionResults) -> Section:
    """The numbers of each class."""
    numbers = results.class_numbers(iou_threshold=_threshold(results))
    rows = [[name, *(_cell(column, value) for column, value in of_class.items())] for name, of_class in numbers.items()]
    columns = ["class", *(_heading(column) for column in next(iter(numbers.values()), {}))]
    summary = f"All {len(rows)} classes"
    if len(rows) > _MOST_ROWS:
        summary = f"{_MOST_ROWS:,} of {len(rows):,} classes, those with the lowest AP; all are in the JSON below"
        rising = results.averages.of_classes()["map"].argsort(stable=True)  # NaN is last
        rows = [rows[place] for place in rising[:_MOST_ROWS].sort().values.tolist()]
    filter_by = "class beginning with" if len(rows) > _MOST_OPEN else None
    shown = table("Means over IoU thresholds, if no threshold is named", columns, rows, filter_by=filter_by)
    folded = details(summary, shown) if filter_by else shown
    return Section("classes", "Classes", [folded if rows else note("None: there are no boxes.")])


def _heading(column: str) -> str:
    if column in (*_COUNTS, "confidence"):
        return column
    return _HEADINGS.get(column, "recall (%)" if column.startswith("mar") else f"{column} (%)")


def _cell(column: str, value: float) -> str:
    if column in _COUNTS:
        return thousands(int(value))
    return f"{value:.3f}" if column == "confidence" else percent(value)


def detection_curves_section(results: DetectionResults) -> Section:
    """Precision over recall, and what is reached at each confidence."""
    return Section("curves", "Curves", [figures_section(results, "curves")])


_MOST_LISTED = 20  # pairs of classes
_HOW = "results(across_classes=True) of a metric holds which boxes of different classes overlap"


def detection_errors_section(results: DetectionResults) -> Section:
    """Confused classes and kinds of errors, at the threshold of overlap that is the nearest to 0.5."""
    return Section("errors", "Errors", _errors(results))


def _errors(results: DetectionResults) -> list[Html]:
    threshold = _threshold(results)
    if results.objects is None or threshold < LEAST_OVERLAP:
        return [note(f"Not shown: {_HOW}, from {LEAST_OVERLAP:g} on.")]
    shown = [figures_section(results, "errors")]
    if results.evaluator.matches_greedily:
        shown.append(_kinds_table(results.error_breakdown(iou_threshold=threshold)))
    matrix = results.confusion_matrix(iou_threshold=threshold, num_classes=MOST_CLASSES)
    return [*shown, *_confused(matrix, results.class_names)]


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
    rows = [[name_of(true, names), name_of(detected, names), thousands(count)] for true, detected, count in listed]
    columns = ("ground truth", "detected as", "times")
    return [table("Classes that are confused most", columns, rows, words=["detected as"])]


def errors_data(results: DetectionResults) -> dict[str, Any] | None:
    """Counts and gains of each kind, for JSON; None where they are not known."""
    threshold = _threshold(results)
    if results.objects is None or threshold < LEAST_OVERLAP or not results.evaluator.matches_greedily:
        return None
    breakdown = results.error_breakdown(iou_threshold=threshold)
    is_defined = breakdown.average_precision == breakdown.average_precision
    return {
        "iou_threshold": threshold,
        "counts": dict(breakdown.counts),
        "gains": dict(breakdown.gains) if is_defined else None,
    }


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

    def image_pictures(self) -> ImagePictures | None:
        """What is drawn of images, if anything."""
        if self.pictures is None or self.detections is None or self.ground_truths is None:
            return None
        return ImagePictures(self.pictures, self.detections, self.ground_truths, self.box_format)


def detection_page(results: DetectionResults, options: DetectionOptions) -> Page:
    """All sections about results of a detection."""
    if options.names:
        results = replace(results, class_names=options.names)
    data = {
        "versions": versions(),
        **results.to_dict(iou_threshold=_threshold(results)),
        "errors": errors_data(results),
    }
    sections = [
        detection_numbers_section(results),
        classes_section(results),
        detection_curves_section(results),
        detection_errors_section(results),
        worst_images_section(results, options.num_worst, options.image_pictures()),
        provenance_section(data),
    ]
    averages = results.averages
    lead = f"{len(averages.classes)} classes; average precision by rule {averages.rule}."
    return Page("Detection", lead, sections, data)


_NUM_OPEN = 4
_HEIGHT = 320


class Indexed(Protocol):
    """A sequence or a mapping of dicts."""

    def __getitem__(self, number: Any, /) -> Mapping[str, Any]:
        """The boxes of the image with a number or a name."""


Boxes: TypeAlias = Callable[[Any], Mapping[str, Any]] | Indexed
"""what gives the boxes of the image with a number or a name: a function, or what is indexed by it"""


@dataclass(frozen=True)
class ImagePictures:
    """What is drawn of images."""

    pictures: Pictures
    detections: Boxes
    ground_truths: Boxes
    box_format: str

    def draw(self, image: int | str, results: DetectionResults) -> Html:
        """An image with its boxes, judged as the numbers of the section are."""
        threshold = _threshold(results)
        drawn = draw_boxes(
            picture_at("pictures", self.pictures, image),
            _boxes_at(self.detections, image),
            _boxes_at(self.ground_truths, image),
            names=results.class_names,
            min_score=results.best_confidences(iou_threshold=threshold),
            iou_threshold=threshold,
            box_format=self.box_format,
            class_agnostic=results.is_micro,
            height=_HEIGHT,
        )
        return picture(drawn, f"image {image} with its boxes")


def _boxes_at(boxes: Boxes, image: int | str) -> Mapping[str, Any]:
    return boxes(image) if callable(boxes) else boxes[image]


def worst_images_section(results: DetectionResults, num_worst: int, pictures: ImagePictures | None) -> Section:
    """The images with the most errors."""
    return Section("images", "Images with the most errors", _worst_images(results, num_worst, pictures))


def _worst_images(results: DetectionResults, num_worst: int, pictures: ImagePictures | None) -> list[Html]:
    threshold = _threshold(results)
    worst = results.worst_images(num_worst, iou_threshold=threshold)
    said = f"Detections count at IoU {threshold:g}, {COUNTED}."
    if not len(worst):
        return [note(f"None: {_why_none(results)}"), note(said)]
    shown = [note(said), _errors_table(worst)]
    return shown if pictures is None else [*shown, *_drawn(results, worst, pictures)]


def _why_none(results: DetectionResults) -> str:
    """How it came about that no image has an error."""
    if not len(results.images):
        return "there are no images."
    if not int(results.num_positives.sum()):
        return "there are neither ground truths nor detections that count."
    return "every ground truth is found, and nothing else."


def _errors_table(worst: ImageErrors) -> Html:
    counts = worst.num_true_positives, worst.num_false_positives, worst.num_misses
    columns = worst.image_ids, *(values.tolist() for values in counts)
    rows = zip(*([str(each) for each in column] for column in columns), strict=True)
    return table("Boxes of each image", ("image", "right", "wrong", "missed"), rows)


def _drawn(results: DetectionResults, worst: ImageErrors, pictures: ImagePictures) -> list[Html]:
    items = [
        element("li", element("p", f"image {image}"), picture_or_why(partial(pictures.draw, image, results)))
        for image in worst.image_ids
    ]
    first, others = items[:_NUM_OPEN], items[_NUM_OPEN:]
    shown = [element("ul", *first, class_="lists")]
    return [*shown, details(f"{len(others)} more", element("ul", *others, class_="lists"))] if others else shown
