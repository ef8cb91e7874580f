"""Results of detection as text, tables, and dicts for JSON, with names of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

from torch import Tensor

from reid_torchmetrics.functional.detection import curves, evaluators, matching
from reid_torchmetrics.functional.model_tables import aligned, in_words

_COUNTS = ("ground truths", "detections")
_LIMITED = {"image and class": "an image and class", "image": "an image", "class": "a class in all images"}
_MOST_CHARACTERS = 40  # of a name in a table
_NO_LIMIT = 1e10  # of areas: COCO's largest


def named_classes(class_names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Names by label; a list names the labels 0, 1, 2 and so on.

    Raises:
        TypeError: neither a mapping nor a sequence, or something else than names by ints.
        ValueError: two classes have one name.
    """
    if class_names is None:
        return {}
    if isinstance(class_names, str) or not isinstance(class_names, (Mapping, Sequence)):
        came = type(class_names).__name__
        raise TypeError(f"`class_names` must be a mapping of labels to names or a sequence of names; got {came}.")
    named = dict(class_names if isinstance(class_names, Mapping) else enumerate(class_names))
    for label, name in named.items():
        if isinstance(label, bool) or not isinstance(label, int) or not isinstance(name, str):
            raise TypeError(f"`class_names` must have ints as labels and strings as names; got {label!r}: {name!r}.")
    # Equal names would merge classes in tables and dicts.
    seen: set[str] = set()
    for name in named.values():
        if name in seen:
            raise ValueError(f"`class_names` must give every class a name of its own; got {name!r} twice.")
        seen.add(name)
    return named


def name_of(label: int, class_names: Mapping[int, str]) -> str:
    """The name of a class, or words with its label."""
    return class_names.get(label, f"class {label}")


def summary_text(results: Any, form: str = "") -> str:
    """The numbers of `DetectionResults` as pycocotools prints them, each with its name here.

    `f"{results:.1%}"` has them in percent.
    """
    # A head with the sizes, a line for each number, and the convention of all at the end.
    sizes = f"{int(results.matches.num_positives[0].sum())} ground truths, {len(results.matches.scores)} detections"
    lines = [f"DetectionResults({len(results.images)} images, {len(results.classes)} classes, {sizes})"]
    for name, value in results.means.items():
        number = in_words(value, form or ".3f", is_share=value >= 0)
        lines.append(f" {_line(name, results.averages)} = {number}  {name}")
    lines.append(f" Means over classes; AP by rule {results.averages.rule!r}; -1 without ground truths.")
    return "\n".join(lines)


def _line(name: str, averages: evaluators.ClassAverages) -> str:
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name:<22} @[ IoU={grid.iou_thresholds[0]:<9.2f} | confidence={averages.confidence:.3f} ]"
    threshold, area, limit = _terms(name, averages)
    # The columns of pycocotools, so that both can be compared line by line.
    title = "Average Precision  (AP)" if name.startswith("map") else "Average Recall     (AR)"
    low, high = min(grid.iou_thresholds), max(grid.iou_thresholds)
    thresholds = f"{low:0.2f}:{high:0.2f}" if threshold is None else f"{threshold:0.2f}"
    limits = f" | area={area:>6s} | maxDets={limit:>3d}" if averages.has_limits else ""
    return f"{title} @[ IoU={thresholds:<9}{limits} ]"


def title_of(name: str) -> str:
    """A number of `ClassAverages.summary` as tables write it: "mAP50" for "map_50", "mAR small" for "mar_small"."""
    kind, _, term = name.partition("_")
    title = {"map": "mAP", "mar": "mAR", "f1": "F1"}.get(kind, kind)
    return f"{title}{'' if term.isdigit() or not term else ' '}{term}"


def _terms(name: str, averages: evaluators.ClassAverages) -> tuple[float | None, str, int]:
    """Threshold (None for the mean over all), area range and limit of a number of `ClassAverages.summary`.

    For instance 0.5, "all" and 100 for `map_50`, None, "small" and 100 for `mar_small`.
    """
    # A number is a threshold behind "map", a limit behind "mar", unless an area range has that name.
    grid, (kind, _, term) = averages.grid, name.partition("_")
    areas, is_number = [*grid.area_ranges], term.isdigit() and term not in [*grid.area_ranges][1:]
    limit = grid.max_detection_thresholds[grid.official_limit if name == "map" else -1]
    threshold = int(term) / 100 if is_number and kind == "map" else None
    if is_number and kind == "mar":
        limit = int(term)
    return threshold, term if term in areas else areas[0], limit


def convention_of(name: str, averages: evaluators.ClassAverages) -> str:
    """The convention of a number of `ClassAverages.summary`, in words."""
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name} at IoU {grid.iou_thresholds[0]:g} and confidence {averages.confidence:.3g}, mean over classes"
    threshold, area, limit = _terms(name, averages)
    words = (
        f"average precision, as in {curves.AP_RULES[averages.rule].title}"
        if name.startswith("map")
        else "largest recall"
    )
    low, high = min(grid.iou_thresholds), max(grid.iou_thresholds)
    at = f"at IoU {low if threshold is None else threshold:g}"
    if threshold is None and len(grid.iou_thresholds) > 1:
        at = f"mean over {len(grid.iou_thresholds)} IoU thresholds from {low:g} to {high:g}"
    group = name.removeprefix("map_")
    text = f"{words}; {at}; mean over {f'{group} ' * (group in grid.class_groups)}classes"
    if not averages.has_limits:
        return text
    least, most = (f"{math.sqrt(end):g}²" if end else "0" for end in grid.area_ranges[area])
    ends = f"{least} to {most} pixels"
    if grid.area_ranges[area][1] >= _NO_LIMIT:
        ends = "no limit" if least == "0" else f"{least} pixels or more"
    most_detections = f"at most {limit} detection{'s' * (limit != 1)} of {_LIMITED[grid.limited]}"
    return f"{text}; area range {area}, {ends}; {most_detections}"


def numbers_as_dict(averages: evaluators.ClassAverages) -> dict[str, Any]:
    """The numbers with their conventions, and the options; undefined numbers are None."""
    grid = averages.grid
    limits = {"max_detection_thresholds": list(grid.max_detection_thresholds), "area_ranges": {**grid.area_ranges}}
    return {
        "numbers": {
            name: {"value": None if float(value) < 0 else float(value), "convention": convention_of(name, averages)}
            for name, value in averages.known().items()
        },
        "rule": averages.rule,
        "iou_thresholds": list(grid.iou_thresholds),
        **(finite(limits) if averages.has_limits else {}),
        **({"confidence": averages.confidence} if averages.at_confidence else {}),
    }


def finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by None, at any depth."""
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def class_numbers(
    averages: evaluators.ClassAverages, matches: matching.Matches, names: Sequence[str], threshold: int
) -> dict[str, dict[str, float | int]]:
    """Numbers of each class by name, in the first area range; F1 at one IoU threshold."""
    # Counts first, then the numbers of the evaluator.
    columns: dict[str, Tensor] = {
        "ground truths": matches.num_positives[0],
        "detections": matches.class_index.bincount(minlength=len(matches.classes)),
        **averages.of_classes(),
    }
    # Columns at thresholds that the metric does not have are left out.
    for name, value in evaluators.AT_THRESHOLDS.items():
        if value not in averages.grid.iou_thresholds:
            del columns[name]
    if not averages.at_confidence:
        best = curves.best_f1(matches)
        columns |= {"f1": best.f1[threshold], "confidence": best.confidence[threshold]}
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)}


def table(numbers: Mapping[str, Mapping[str, float | int]]) -> str:
    """Aligned columns, one row a class; a dash where a number is undefined."""
    if not numbers:
        return "no classes"
    columns, *_ = map(list, numbers.values())
    cells = [["class", *columns]]
    for name, row in numbers.items():
        cells.append([_cut(name), *(_cell(column, value) for column, value in row.items())])
    return "\n".join(aligned(cells))


def _cut(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


def _cell(column: str, value: SupportsFloat) -> str:
    if column in _COUNTS:
        return str(value)
    return f"{float(value):.3f}" if math.isfinite(value) else "-"
