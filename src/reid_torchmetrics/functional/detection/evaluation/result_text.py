"""Detection results as text, tables, and dicts for JSON, with names of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat

from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.detection import curves, evaluators, inputs, matching
from reid_torchmetrics.functional.displays import UNDEFINED, aligned, counted, cut
from reid_torchmetrics.functional.model_tables import Number, in_words

CLASS_COLUMNS: Registry[Callable[[matching.Matches, int], dict[str, Tensor]]] = Registry("CLASS_COLUMNS", {})
"""further columns of the numbers of classes, which tasks add: functions of matches and of the index of a threshold"""
_COUNTS = ("ground truths", "detections")
_LIMIT_SCOPES = {"image and class": "an image and class", "image": "an image", "class": "a class in all images"}
_MAX_NAME_LENGTH = 40  # in a table
_UNLIMITED_AREA = 1e10  # COCO's largest area
_MAX_LISTED = 20  # thresholds in a text


def named_classes(class_names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Return names by label; a list names the labels 0, 1, 2 and so on.

    Raises:
        TypeError: neither a mapping nor a sequence, labels that are not ints, or names that are not strings.
        ValueError: two classes have the same name.
    """
    if class_names is None:
        return {}
    if isinstance(class_names, str) or not isinstance(class_names, (Mapping, Sequence)):
        got = type(class_names).__name__
        raise TypeError(f"`class_names` must be a mapping of labels to names or a sequence of names; got {got}.")
    names = dict(class_names if isinstance(class_names, Mapping) else enumerate(class_names))
    for label, name in names.items():
        if isinstance(label, bool) or not isinstance(label, int) or not isinstance(name, str):
            raise TypeError(f"`class_names` must have ints as labels and strings as names; got {label!r}: {name!r}.")

    # Equal names would merge classes in tables and dicts.
    seen: set[str] = set()
    for name in names.values():
        if name in seen:
            raise ValueError(f"`class_names` must give every class a name of its own; got {name!r} twice.")
        seen.add(name)
    return names


def name_of(label: int, class_names: Mapping[int, str]) -> str:
    """Return the name of a class; "class 3" for label 3 without a name."""
    return class_names.get(label, f"class {label}")


def summary_text(results: Any, form: str = "") -> str:
    """Return the numbers of `DetectionResults` as pycocotools prints them, each followed by its name; "n/a" for -1.

    `f"{results:.1%}"` prints percentages.
    """
    num_ground_truths = int(results.matches.num_positives[0].sum())
    num_detections = len(results.matches.scores)
    sizes = {"image": len(results.images), "class": len(results.classes)}
    sizes |= {"ground truth": num_ground_truths, "detection": num_detections}
    lines = [f"DetectionResults({', '.join(counted(number, noun) for noun, number in sizes.items())})"]
    numbers = {name: number.text(form or ".3f") for name, number in results.numbers.items()}
    width = max(map(len, numbers.values()), default=0)
    for name, number in numbers.items():
        lines.append(f" {_line(name, results.averages)} = {number:>{width}}  {name}")
    rule = curves.AP_RULES[results.averages.rule].title
    parts = [*_options_in_words(results), f"AP as in {rule}", f"{UNDEFINED} without ground truths."]
    text = "; ".join(parts)
    lines.append(f" {text[0].upper()}{text[1:]}")
    return "\n".join(lines)


def _options_in_words(results: Any) -> list[str]:
    """Return the options of an evaluation that all its numbers share; those of COCO are left out where they are usual.

    They are the matched shapes with the evaluator, the mean over classes, and options that are not the default.
    """
    grid = results.averages.grid
    shapes = inputs.SHAPES_IN_WORDS.get(grid.iou_type, "objects")
    parts = [f"{shapes} matched by the rules of {results.evaluator.title}"]
    if grid.sigmas is not None:
        parts.append(f"sigmas {_numbers_in_words(grid.sigmas)}")
    if getattr(results.evaluator, "whole_pixels", False):
        parts.append("boxes include the pixels of both edges")
    parts += _grid_in_words(grid, results.evaluator)
    if results.averages.at_confidence:
        parts.append(f"{', '.join(results.averages.at_confidence)} at confidence {results.averages.confidence:.3g}")
    if grid.has_given_areas:
        parts.append("areas of detections as given, or of the first shape in COCO's files")
    if grid.drops_invalid:
        parts.append("invalid objects left out")
    parts.append("all labels as one class" if grid.average == "micro" else "means over classes")
    return parts


def _grid_in_words(grid: inputs.CocoGrid, evaluator: evaluators.Evaluator) -> list[str]:
    """Return the thresholds, recalls and area ranges that are not the evaluator's defaults, and sizes of groups."""
    iou_type = grid.iou_type or "bbox"
    defaults = evaluator.grid(iou_type=iou_type)
    rounded = evaluator.grid(iou_type=iou_type, thresholds="torchmetrics")
    parts = []
    for axis, title in (("iou_thresholds", "IoU thresholds"), ("rec_thresholds", "recalls")):
        thresholds = tuple(getattr(grid, axis))
        if thresholds == tuple(getattr(defaults, axis)):
            continue
        if thresholds == tuple(getattr(rounded, axis)):
            parts.append(f"{title} rounded to float32, as in TorchMetrics")
        else:
            parts.append(f"{title} {_numbers_in_words(thresholds)}")
    if grid.area_ranges != defaults.area_ranges:
        ranges = [f"{name} {_area_range_text(*ends)}" for name, ends in grid.area_ranges.items()]
        parts.append(f"area ranges {', '.join(ranges)}")
    groups = [f"{len(labels)} {name}" for name, labels in grid.class_groups.items() if labels]
    if groups:
        parts.append(f"{', '.join(groups)} classes")
    return parts


def _numbers_in_words(values: Sequence[float]) -> str:
    """Return numbers as a list, or if they are many the first, the last and how many they are."""
    if len(values) > _MAX_LISTED:
        return f"{values[0]:g} to {values[-1]:g} ({len(values)} values)"
    return ", ".join(f"{value:.9g}" for value in values)


def _line(name: str, averages: evaluators.ClassAverages) -> str:
    """Return the beginning of a line of `summary_text`, in the columns of pycocotools."""
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name:<22} @[ IoU={grid.iou_thresholds[0]:<9.2f} | confidence={averages.confidence:.3f} ]"
    terms = _terms_of(name, averages)
    title = "Average Precision  (AP)" if name.startswith("map") else "Average Recall     (AR)"
    if terms.threshold is None:
        thresholds = f"{min(grid.iou_thresholds):0.2f}:{max(grid.iou_thresholds):0.2f}"
    else:
        thresholds = f"{terms.threshold:0.2f}"
    limits = f" | area={terms.area:>6s} | maxDets={terms.limit:>3d}" if averages.has_limits else ""
    return f"{title} @[ IoU={thresholds:<9}{limits} ]"


def title_of(name: str) -> str:
    """Return the heading of a number in tables: "mAP50" for "map_50", "mAR small" for "mar_small"."""
    kind, _, term = name.partition("_")
    title = {"map": "mAP", "mar": "mAR", "f1": "F1"}.get(kind, kind)
    separator = " " if term and not term.isdigit() else ""
    return f"{title}{separator}{term}"


class _Terms(NamedTuple):
    """The options in the name of a number: 0.5, "all" and 100 for `map_50`; None, "small" and 100 for `mar_small`."""

    threshold: float | None
    """None for the mean over all thresholds"""
    area: str
    limit: int


def _terms_of(name: str, averages: evaluators.ClassAverages) -> _Terms:
    """Return the options in the name of a number of `ClassAverages.summary`."""
    grid = averages.grid
    kind, _, term = name.partition("_")
    areas = list(grid.area_ranges)
    threshold = None
    limit = grid.max_detection_thresholds[grid.official_limit if name == "map" else -1]
    # A number after "map" is a threshold, a number after "mar" is a limit, unless an area range has that name.
    if term.isdigit() and term not in areas[1:]:
        if kind == "map":
            threshold = int(term) / 100
        elif kind == "mar":
            limit = int(term)
    return _Terms(threshold, term if term in areas else areas[0], limit)


def numbers_of(results: Any) -> dict[str, Number]:
    """Return the numbers of `DetectionResults` with their titles and conventions; NaN for -1."""
    options = _options_in_words(results)
    numbers = {}
    for name, mean in results.means.items():
        convention = "; ".join([_quantity_in_words(name, results.averages), *options])
        numbers[name] = Number(name, title_of(name), math.nan if mean < 0 else mean, convention)
    return numbers


def _quantity_in_words(name: str, averages: evaluators.ClassAverages) -> str:
    """Return the definition of a number of `ClassAverages.summary` in words, without options that all numbers share."""
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name} at IoU {grid.iou_thresholds[0]:g}"
    terms = _terms_of(name, averages)
    quantity = "largest recall"
    if name.startswith("map"):
        quantity = f"average precision, as in {curves.AP_RULES[averages.rule].title}"

    low = min(grid.iou_thresholds)
    high = max(grid.iou_thresholds)
    num_thresholds = len(grid.iou_thresholds)
    thresholds = f"at IoU {low if terms.threshold is None else terms.threshold:g}"
    if terms.threshold is None and num_thresholds > 1:
        thresholds = f"mean over {num_thresholds} IoU thresholds from {low:g} to {high:g}"

    group = name.removeprefix("map_")
    text = f"{quantity}; {thresholds}"
    if group in grid.class_groups:
        text = f"{text}; {group} classes alone"
    if not averages.has_limits:
        return text

    plural = "" if terms.limit == 1 else "s"
    limit = f"at most {terms.limit} detection{plural} of {_LIMIT_SCOPES[grid.limited]}"
    return f"{text}; area range {terms.area}, {_area_range_text(*grid.area_ranges[terms.area])}; {limit}"


def _area_range_text(least: float, most: float) -> str:
    """Describe an area range by the sides of squares, such as "32² to 96² pixels"."""
    start = f"{math.sqrt(least):g}²" if least else "0"
    if most >= _UNLIMITED_AREA:
        return f"{start} pixels or more" if least else "no limit"
    end = f"{math.sqrt(most):g}²" if most else "0"
    return f"{start} to {end} pixels"


def finite(value: Any) -> Any:
    """Replace infinite and undefined numbers by None, at any depth, because JSON does not have them."""
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def class_numbers(
    averages: evaluators.ClassAverages, matches: matching.Matches, names: Sequence[str], threshold: int
) -> dict[str, dict[str, float | int]]:
    """Return numbers by name of each class, in the first area range; `CLASS_COLUMNS` at one IoU threshold."""
    columns: dict[str, Tensor] = {
        "ground truths": matches.num_positives[0],
        "detections": matches.class_index.bincount(minlength=len(matches.classes)),
        **averages.of_classes(),
    }
    # Leave out columns for thresholds that the metric does not have.
    for name, value in evaluators.AT_THRESHOLDS.items():
        if value not in averages.grid.iou_thresholds:
            del columns[name]
    if not averages.at_confidence:
        for column in CLASS_COLUMNS:
            columns.update(CLASS_COLUMNS[column](matches, threshold))
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)}


def table(numbers: Mapping[str, Mapping[str, float | int]]) -> str:
    """Return aligned columns with a row for each class."""
    if not numbers:
        return "no classes"
    columns, *_ = numbers.values()
    cells = [["class", *columns]]
    for name, row in numbers.items():
        texts = [_cell(column, value) for column, value in row.items()]
        cells.append([cut(name, _MAX_NAME_LENGTH), *texts])
    return "\n".join(aligned(cells))


def _cell(column: str, value: SupportsFloat) -> str:
    if column in _COUNTS:
        return str(value)
    return in_words(float(value) if math.isfinite(value) else math.nan, ".3f")
