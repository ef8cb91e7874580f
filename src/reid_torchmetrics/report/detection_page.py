"""The page about a detection: numbers, classes, curves, errors, and the images with the most errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch

from reid_torchmetrics import _checks, _names, _progress, plot
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.errors import ERROR_KINDS
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, name_of, title_of
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS

from .elements import UNDEFINED, Html, details, element, note, percent, picture, table
from .page import Page, Section, conventions_note, figures_section, folded, picture_or_why

Boxes: TypeAlias = Callable[[Any], Mapping[str, Any]] | plot.Indexed
"""a function of the number or the name of an image, or something indexed by it, that gives the boxes"""

_MOST_OPEN = 20  # classes that are seen at once
_MOST_ROWS = 1000  # a page with more is slow, and all are in its JSON
_MOST_CONFUSED = 20  # pairs of classes
_NUM_OPEN, _HEIGHT = 6, 320  # of images
_HEADINGS = {"map": "AP (%)", "map_50": "AP at IoU 0.5 (%)", "map_75": "AP at IoU 0.75 (%)"}


def detection_page(
    results: DetectionResults,
    compared: Sequence[Section] = (),
    *,
    class_names: Mapping[int, str] | None = None,
    num_worst: int = 20,
    pictures: plot.Pictures | None = None,
    detections: Boxes | None = None,
    ground_truths: Boxes | None = None,
    box_format: _names.BoxFormat = "xyxy",
) -> Page:
    """All sections about results of a detection; for the options see `write_report`."""
    _checks.positive_int("num_worst", num_worst)
    _checks.one_of("box_format", box_format, BOX_FORMATS)
    if class_names:
        results = replace(results, class_names=class_names)
    _check_boxes(results, pictures=pictures, detections=detections, ground_truths=ground_truths)
    draw = None if pictures is None else partial(_draw, results, pictures, (detections, ground_truths), box_format)
    data = {**results.to_dict(), "errors": _error_kinds(results)}
    sections = [
        *compared,
        Section("numbers", "Numbers", _numbers(results, data["numbers"])),
        Section("classes", "Classes", _classes(results, data["classes"])),
        Section("errors", "Errors", _errors(results, data["errors"])),
        Section("images", "Images with the most errors", _worst_images(results, num_worst, draw)),
    ]
    num_classes = len(results.classes)
    precision = f"average precision as in {AP_RULES[results.averages.rule].title}"
    lead = f"{num_classes} class{'es' * (num_classes != 1)}; {precision}."
    return Page(f"Detection results, {results.evaluator.title}", lead, sections, data)


def _numbers(results: DetectionResults, numbers: Mapping[str, Any]) -> list[Html]:
    """The numbers of the evaluator beside curves, and below them how they were computed."""
    rows = [[f"{title_of(name)} (%)", percent(number["value"])] for name, number in numbers.items()]
    shown = table(f"Numbers by {results.evaluator.title}", ("measure", "value"), rows)
    conventions = {title_of(name): each["convention"] for name, each in numbers.items()}
    right = element("div", figures_section(results, "numbers"), conventions_note(conventions))
    return [element("div", shown, right, class_="beside")]


def _classes(results: DetectionResults, classes: Mapping[str, Mapping[str, float | None]]) -> list[Html]:
    """The numbers of each class."""
    if not classes:
        return [note("None: there are no boxes.")]
    averages, (names, *_) = results.averages, classes.values()
    caption = "Means over IoU thresholds, if no threshold is named"
    if averages.at_confidence:
        at = f"IoU {averages.grid.iou_thresholds[0]:g} and confidence {averages.confidence:.3g}"
        caption = f"{caption}; {', '.join(averages.at_confidence)} at {at}"
    headings, forms = zip(*(_column(name, names) for name in names), strict=True)
    numbers = [[form(value) for form, value in zip(forms, each.values(), strict=True)] for each in classes.values()]
    rows = [[name, *of_class] for name, of_class in zip(classes, numbers, strict=True)]
    summary = f"All {len(rows)} classes"
    if len(rows) > _MOST_ROWS:
        summary = f"{_MOST_ROWS:,} of {len(rows):,} classes, those with the lowest AP; all are in the JSON below"
        rising = averages.of_classes()["map"].argsort(stable=True)  # NaN is last
        rows = [rows[place] for place in rising[:_MOST_ROWS].sort().values.tolist()]
    if len(rows) <= _MOST_OPEN:
        return [table(caption, ("class", *headings), rows)]
    return [details(summary, table(caption, ("class", *headings), rows, filter_by="class beginning with"))]


def _column(name: str, names: Collection[str]) -> tuple[str, Callable[[Any], str]]:
    """The heading of one of the columns with these names, and how its values are written."""
    if name in ("ground truths", "detections"):
        return name, lambda count: f"{int(count or 0):,}"
    if name == "confidence":
        return name, lambda value: UNDEFINED if value is None else f"{value:.3f}"
    if name.startswith("mar"):  # the largest recall is simply the recall, unless there is one at a confidence
        return "largest recall (%)" if "recall" in names else "recall (%)", percent
    return _HEADINGS.get(name, f"{title_of(name)} (%)"), percent


def _error_kinds(results: DetectionResults) -> dict[str, Any] | None:
    """Counts and gains of each kind of errors; None where they are not known."""
    if plot.why_no_kinds_of_errors(results):
        return None
    breakdown = results.error_breakdown()
    gains = None if math.isnan(breakdown.average_precision) else dict(breakdown.gains)
    return {"iou_threshold": results.averages.grid.shown_threshold, "counts": dict(breakdown.counts), "gains": gains}


def _errors(results: DetectionResults, kinds: Mapping[str, Any] | None) -> list[Html]:
    """Confused classes and kinds of errors, at the IoU threshold nearest to 0.5."""
    if why_not := plot.why_no_errors(results):
        return [note(f"Not shown: {why_not}")]
    beside = []
    if kinds is not None:
        counts, gains = kinds["counts"], kinds["gains"] or {}
        rows = [[kind, f"{counts[kind]:,}", percent(gains.get(kind)), said] for kind, said in ERROR_KINDS.items()]
        headings = ("kind", "errors", "AP gained (points)", "meaning")
        beside.append(table("Kinds of errors", headings, rows, words="meaning"))
    confused = results.confusion_matrix(num_classes=plot.MOST_CLASSES).most_confused(_MOST_CONFUSED).tolist()
    if not confused:
        return [figures_section(results, "errors", *beside), note("No class is detected as another.")]
    rows = [[*(name_of(each, results.class_names) for each in pair), f"{count:,}"] for *pair, count in confused]
    columns = ("ground truth", "detected as", "times")
    most = table("Classes that are confused most", columns, rows, words="detected as")
    return [figures_section(results, "errors", *beside, most)]


def _worst_images(results: DetectionResults, num_worst: int, draw: Callable[[int | str], Html] | None) -> list[Html]:
    """The images with the most errors."""
    worst = results.worst_images(num_worst)
    said = note(f"Detections count at IoU {results.averages.grid.shown_threshold:g}, {plot.COUNTED}.")
    if not len(worst):
        return [note(f"None: {_why_none(results)}"), said]
    counts = worst.num_true_positives, worst.num_false_positives, worst.num_misses
    columns = worst.image_ids, *(values.tolist() for values in counts)
    rows = zip(*(map(str, column) for column in columns), strict=True)
    listed = table("Boxes of each image", ("image", "right", "wrong", "missed"), rows)
    if draw is None:
        return [said, listed]
    images = _progress.steps(worst.image_ids, "Pictures")
    items = [element("li", element("p", f"image {each}"), picture_or_why(partial(draw, each))) for each in images]
    shown = folded(items, _NUM_OPEN, lambda some, _: element("ul", *some, class_="lists grid"), "")
    return [said, *shown, details("Their boxes in numbers", listed)]


def _why_none(results: DetectionResults) -> str:
    """The reason why no image has an error."""
    if not len(results.images):
        return "there are no images."
    if not int(results.num_positives.sum()):
        return "there are neither ground truths nor detections that count."
    return "every ground truth is found, and nothing else."


def _check_boxes(results: DetectionResults, **options: object) -> None:
    """Raise unless pictures come with boxes of both sides, or alone to results that hold the boxes."""
    given = [f"`{name}`" for name, option in options.items() if option is not None]
    if 0 < len(given) < len(options) and (given != ["`pictures`"] or results.boxes is None):
        rule = "be given together, or `pictures` alone for `results(boxes=True)`"
        came = f"{', '.join(given)} alone"
        raise ValueError(f"`pictures`, `detections` and `ground_truths` must {rule}; got {came}.")


def _draw(results: DetectionResults, pictures: Any, sides: Sequence[Any], box_format: str, image: int | str) -> Html:
    """An image with its boxes, by default of the results, judged as the numbers of the section are."""
    if sides[0] is None:
        of_results = results.boxes_of([image] if isinstance(image, str) else torch.tensor([image], device="cpu"))
        boxes = [boxes for (boxes,) in of_results]
    else:
        boxes = [side(image) if callable(side) else side[image] for side in sides]
    options = plot.judged_like(results) | {"box_format": box_format, "height": _HEIGHT}
    pixels = plot.draw_boxes(plot.picture_at("pictures", pictures, image), *boxes, **options)
    return picture(pixels, f"image {image} with its boxes")
