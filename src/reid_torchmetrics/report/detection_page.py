"""The page about a detection.

What a report says of the errors of a detector: confused classes, and what each kind costs.

What a report says of a detection: COCO's numbers, classes and curves.

What a report says of single images: those with the most errors of a detector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import BOX_FORMATS, ImageErrors
from reid_torchmetrics.functional.detection.errors import ERROR_KINDS, LEAST_OVERLAP, ConfusionMatrix, ErrorBreakdown
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, convention_of, name_of
from reid_torchmetrics.functional.detection.evaluators import CocoResults
from reid_torchmetrics.plot import (
    MOST_CLASSES,
    Pictures,
    draw_boxes,
    picture_at,
    plot_confidence,
    plot_confusion_matrix,
    plot_error_breakdown,
    plot_precision_recall,
)

from .elements import Html, details, element, figure, note, percent, picture, table, thousands
from .page import Page, Section, picture_or_why, provenance_section, versions

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
    names: Mapping[int, str]
    """of classes"""

    def draw(self, image: int | str, results: DetectionResults) -> Html:
        """An image with its boxes, judged as the numbers of the section are."""
        threshold = nearest_to_half(results)
        drawn = draw_boxes(
            picture_at("pictures", self.pictures, image),
            _boxes_at(self.detections, image),
            _boxes_at(self.ground_truths, image),
            names=self.names,
            min_score=results.best_confidences(iou_threshold=threshold),
            iou_threshold=threshold,
            box_format=self.box_format,
            class_agnostic=is_micro(results),
            height=_HEIGHT,
        )
        return picture(drawn, f"image {image} with its boxes")


def _boxes_at(boxes: Boxes, image: int | str) -> Mapping[str, Any]:
    return boxes(image) if callable(boxes) else boxes[image]


def worst_images_section(results: Detected, num_worst: int, pictures: ImagePictures | None) -> Section:
    """The images with the most errors."""
    return Section("images", "Images with the most errors", _worst_images(results, num_worst, pictures))


def _worst_images(results: Detected, num_worst: int, pictures: ImagePictures | None) -> list[Html]:
    if not isinstance(results, DetectionResults):
        return [note(f"Not shown: {HOW_MATCHED}.")]
    threshold = nearest_to_half(results)
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
