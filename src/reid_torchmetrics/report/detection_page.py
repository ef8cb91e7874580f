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
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, name_of, title_of
from reid_torchmetrics.functional.detection.evaluators import AT_THRESHOLDS
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS, SHAPES_IN_WORDS
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.tasks.detection_errors import ERROR_KINDS

from .elements import Html, details, element, note, number_text, percent_text, picture, table
from .page import Page, Section, conventions_note, figures_section, folded, picture_or_reason

Boxes: TypeAlias = Callable[[Any], Mapping[str, Any]] | plot.Indexed
"""a function of the number or the name of an image that returns its boxes, or something indexed by it"""

_MOST_OPEN = 20  # classes that are seen at once
_MOST_ROWS = 1000  # a page with more is slow, and all are in its JSON
_MOST_CONFUSED = 20  # pairs of classes
_NUM_OPEN = 6  # images that are seen at once
_HEIGHT = 320  # of an image
_AP_TITLES = {"map": "AP", "map_50": "AP50", "map_75": "AP75"}


def detection_page(
    results: DetectionResults,
    compared: Sequence[Section] = (),
    *,
    class_names: Mapping[int, str] | None = None,
    num_worst: int = 20,
    pictures: plot.Pictures | None = None,
    image_names: Mapping[int | str, str] | None = None,
    detections: Boxes | None = None,
    ground_truths: Boxes | None = None,
    box_format: _names.BoxFormat = "xyxy",
) -> Page:
    """Return the page about results of a detection; for the options see `write_report`."""
    _checks.positive_int("num_worst", num_worst)
    _checks.one_of("box_format", box_format, BOX_FORMATS)
    if class_names:
        results = replace(results, class_names=class_names)
    _check_boxes(results, pictures=pictures, detections=detections, ground_truths=ground_truths)
    draw = None
    if pictures is not None:
        boxes_of = partial(_boxes_of, results, detections, ground_truths)
        draw = partial(_draw, results, pictures, boxes_of, box_format)
    data = {**results.to_dict(), "errors": _error_kinds(results)}
    sections = [
        *compared,
        Section("numbers", "Numbers", _numbers(results)),
        Section("classes", "Classes", _classes(results, data["classes"])),
        Section("errors", "Errors", _errors(results, data["errors"])),
        Section("images", "Images with the most errors", _worst_images(results, num_worst, draw, image_names or {})),
    ]
    classes = counted(len(results.classes), "class")
    shapes = SHAPES_IN_WORDS.get(results.averages.grid.iou_type or "", "objects")
    lead = f"{shapes} of {classes}; average precision as in {AP_RULES[results.averages.rule].title}."
    return Page(f"Detection results, {results.evaluator.title}", lead, sections, data)


def _numbers(results: DetectionResults) -> list[Html]:
    """Return the numbers of the evaluator, the curves next to them, and the conventions below."""
    rows = []
    conventions = {}
    for number in results.numbers.values():
        rows.append([number.heading, percent_text(number.value)])
        conventions[number.title] = number.convention
    number_table = table(f"Numbers by {results.evaluator.title}", ("measure", "value"), rows)
    figures = element("div", figures_section(results, "numbers"), conventions_note(conventions))
    return [element("div", number_table, figures, class_="beside")]


def _classes(results: DetectionResults, classes: Mapping[str, Mapping[str, float | None]]) -> list[Html]:
    """Return the numbers of each class."""
    if not classes:
        return [note("None: there are no objects.")]
    averages = results.averages
    first_class, *_ = classes.values()
    names = list(first_class)
    parts = ["Means over IoU thresholds"]
    for name, threshold in AT_THRESHOLDS.items():
        if name in names:
            parts.append(f"{_AP_TITLES[name]} at IoU {threshold:g}")
    if averages.at_confidence:
        point = f"IoU {averages.grid.iou_thresholds[0]:g} and confidence {averages.confidence:.3g}"
        parts.append(f"{', '.join(averages.at_confidence)} at {point}")
    caption = "; ".join(parts)
    columns = [_column(name, names) for name in names]
    headings = ["class", *(heading for heading, _ in columns)]
    rows = []
    for class_name, numbers in classes.items():
        row = [class_name]
        for (_, format_number), number in zip(columns, numbers.values(), strict=True):
            row.append(format_number(number))
        rows.append(row)

    num_classes = len(rows)
    if num_classes <= _MOST_OPEN:
        return [table(caption, headings, rows)]
    summary = f"All {num_classes} classes"
    if num_classes > _MOST_ROWS:
        summary = f"{_MOST_ROWS:,} of {num_classes:,} classes, those with the lowest AP; all are in the JSON below"
        rising = averages.of_classes()["map"].argsort(stable=True)  # NaN is last
        rows = [rows[place] for place in rising[:_MOST_ROWS].sort().values.tolist()]
    return [details(summary, table(caption, headings, rows, filter_by="class beginning with"))]


def _column(name: str, names: Collection[str]) -> tuple[str, Callable[[Any], str]]:
    """Return the heading of a column, and the function that writes its values; `names` are those of all columns."""
    if name in ("ground truths", "detections"):
        return name, lambda count: f"{int(count or 0):,}"
    if name == "confidence":
        return name, partial(number_text, form=".3f")
    if name.startswith("mar"):  # the largest recall is simply the recall, unless there is one at a confidence
        return "largest recall (%)" if "recall" in names else "recall (%)", percent_text
    return f"{_AP_TITLES.get(name, title_of(name))} (%)", percent_text


def _error_kinds(results: DetectionResults) -> dict[str, Any] | None:
    """Return counts and gains of each kind of errors; None where errors have no kinds."""
    if plot.why_no_kinds_of_errors(results):
        return None
    breakdown = results.error_breakdown()
    gains = None if math.isnan(breakdown.average_precision) else dict(breakdown.gains)
    return {"iou_threshold": results.averages.grid.shown_threshold, "counts": dict(breakdown.counts), "gains": gains}


def _errors(results: DetectionResults, kinds: Mapping[str, Any] | None) -> list[Html]:
    """Return confused classes and kinds of errors, at the IoU threshold nearest to 0.5."""
    reason = plot.why_no_errors(results)
    if reason:
        return [note(f"Not shown: {reason}")]
    tables = []
    if kinds is not None:
        gains = kinds["gains"] or {}
        rows = []
        for kind, meaning in ERROR_KINDS.items():
            rows.append([kind, f"{kinds['counts'][kind]:,}", percent_text(gains.get(kind)), meaning])
        headings = ("kind", "errors", "AP gained (points)", "meaning")
        tables.append(table("Kinds of errors", headings, rows, words="meaning"))
    confused = results.confusion_matrix(num_classes=plot.MOST_CLASSES).most_confused(_MOST_CONFUSED).tolist()
    if not confused:
        return [figures_section(results, "errors", *tables), note("No class is detected as another.")]
    rows = []
    for label, detected_label, count in confused:
        true_name = name_of(label, results.class_names)
        detected_name = name_of(detected_label, results.class_names)
        rows.append([true_name, detected_name, f"{count:,}"])
    columns = ("ground truth", "detected as", "times")
    tables.append(table("Classes that are confused most", columns, rows, words="detected as"))
    return [figures_section(results, "errors", *tables)]


def _worst_images(
    results: DetectionResults,
    num_worst: int,
    draw: Callable[[int | str], Html] | None,
    image_names: Mapping[int | str, str],
) -> list[Html]:
    """Return the images with the most errors: as pictures if they can be drawn, and their counts as a table."""
    worst = results.worst_images(num_worst)
    remark = note(f"Detections count at IoU {results.averages.grid.shown_threshold:g}, {plot.COUNTED}.")
    if len(worst) == 0:
        return [note(f"None: {_why_no_worst_image(results)}"), remark]
    counts = torch.stack([worst.num_true_positives, worst.num_false_positives, worst.num_misses], dim=1).tolist()
    rows = []
    titles = {}
    for image_id, image_counts in zip(worst.image_ids, counts, strict=True):
        titles[image_id] = ", ".join([str(image_id), *filter(None, [image_names.get(image_id)])])
        rows.append([titles[image_id], *map(str, image_counts)])
    count_table = table("Objects of each image", ("image", "right", "wrong", "missed"), rows)
    if draw is None:
        return [remark, count_table]
    items = []
    for image_id in _progress.steps(worst.image_ids, "Pictures"):
        caption = element("p", f"Image {titles[image_id]}")
        items.append(element("li", caption, picture_or_reason(partial(draw, image_id))))
    pictures = folded(items, _NUM_OPEN, lambda items, _: element("ul", *items, class_="lists grid"), "")
    return [remark, *pictures, details("Their objects in numbers", count_table)]


def _why_no_worst_image(results: DetectionResults) -> str:
    """Return the reason why no image has an error."""
    if len(results.images) == 0:
        return "there are no images."
    if not int(results.num_positives.sum()):
        return "there are neither ground truths nor detections that count."
    return "every ground truth is found, and nothing else."


def _check_boxes(results: DetectionResults, **options: object) -> None:
    """Raise unless pictures come with detections and ground truths, or alone for results that hold the boxes."""
    names = [f"`{name}`" for name, option in options.items() if option is not None]
    if 0 < len(names) < len(options) and (names != ["`pictures`"] or results.boxes is None):
        rule = "be given together, or `pictures` alone for `results(boxes=True)`"
        got = f"{_checks.listed(names, str)} alone"
        raise ValueError(f"`pictures`, `detections` and `ground_truths` must {rule}; got {got}.")


def _boxes_of(
    results: DetectionResults, detections: Boxes | None, ground_truths: Boxes | None, image: int | str
) -> list[Any]:
    """Return the detections and the ground truths of an image; None: those of the results."""
    if detections is None or ground_truths is None:
        images = [image] if isinstance(image, str) else torch.tensor([image], device="cpu")
        (predicted,), (true,) = results.boxes_of(images)
        return [predicted, true]
    return [boxes(image) if callable(boxes) else boxes[image] for boxes in (detections, ground_truths)]


def _draw(
    results: DetectionResults,
    pictures: plot.Pictures,
    boxes_of: Callable[[int | str], list[Any]],
    box_format: _names.BoxFormat,
    image: int | str,
) -> Html:
    """Draw an image with its boxes, judged like the errors of the results."""
    predicted, true = boxes_of(image)
    original = plot.picture_at("pictures", pictures, image)
    options = plot.judged_like(results)
    pixels = plot.draw_boxes(original, predicted, true, box_format=box_format, height=_HEIGHT, **options)
    return picture(pixels, f"image {image} with its boxes")
