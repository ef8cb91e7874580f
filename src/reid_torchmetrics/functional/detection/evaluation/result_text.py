"""Results of a detection in words, tables and dicts that go into JSON.

Names of classes by label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

from torch import Tensor

from reid_torchmetrics.functional.detection.curves import best_f1
from reid_torchmetrics.functional.detection.evaluators import AT_THRESHOLDS, ClassAverages
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches


def named_classes(class_names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Names by label; those of a list belong to 0, 1, 2 and so on.

    Raises:
        TypeError: it is neither, or has something else than names by ints.
        ValueError: two classes have one name, so that it says nothing.
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
    seen: set[str] = set()
    for name in named.values():
        if name in seen:
            raise ValueError(f"`class_names` must give every class a name of its own; got {name!r} twice.")
        seen.add(name)
    return named


def name_of(label: int, class_names: Mapping[int, str]) -> str:
    """The name of a class, or words with its label."""
    return class_names.get(label, f"class {label}")


_COUNTS = ("ground truths", "detections")
_MOST_CHARACTERS = 40  # of a name in a table


def summary_text(averages: ClassAverages, matches: Matches, num_images: int) -> str:
    """The numbers as pycocotools prints them, each with its name here."""
    sizes = {
        "images": num_images,
        "classes": len(averages.classes),
        "ground truths": int(matches.num_positives[0].sum()),
        "detections": len(matches.scores),
    }
    lines = [f"DetectionResults({', '.join(f'{size} {what}' for what, size in sizes.items())})"]
    lines += [f" {_line(name, averages)} = {float(value):0.3f}  {name}" for name, value in averages.summary().items()]
    lines.append(f" Means over classes; AP by rule {averages.rule!r}; -1 without ground truths.")
    return "\n".join(lines)


def _line(name: str, averages: ClassAverages) -> str:
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name:<22} @[ IoU={grid.iou_thresholds[0]:<9.2f} | confidence={averages.confidence:.3f} ]"
    about = _About.of(name, averages)
    title = "Average Precision  (AP)" if about.is_precision else "Average Recall     (AR)"
    low, high = min(grid.iou_thresholds), max(grid.iou_thresholds)
    thresholds = f"{about.threshold:0.2f}" if about.threshold is not None else f"{low:0.2f}:{high:0.2f}"
    limits = f" | area={about.area:>6s} | maxDets={about.limit:>3d}" if averages.has_limits else ""
    return f"{title} @[ IoU={thresholds:<9}{limits} ]"


@dataclass(frozen=True)
class _About:
    """What a number of `ClassAverages.summary` is about."""

    is_precision: bool
    threshold: float | None
    """None for the mean over all of them"""
    area: str
    limit: int

    @classmethod
    def of(cls, name: str, averages: ClassAverages) -> _About:
        """Of the number with a name."""
        grid = averages.grid
        kind, _, which = name.partition("_")
        is_precision, is_number = kind == "map", which.isdigit() and which not in [*grid.area_ranges][1:]
        limit = grid.max_detections[grid.official_limit if name == "map" else -1]
        return cls(
            is_precision=is_precision,
            threshold=int(which) / 100 if is_precision and is_number else None,
            area=which if which in grid.area_ranges else next(iter(grid.area_ranges)),
            limit=int(which) if is_number and not is_precision else limit,
        )


def convention_of(name: str, averages: ClassAverages) -> str:
    """How a number of `ClassAverages.summary` is computed, in words."""
    grid = averages.grid
    if name in averages.at_confidence:
        return f"{name} at IoU {grid.iou_thresholds[0]:g} and confidence {averages.confidence:.3g}, mean over classes"
    about = _About.of(name, averages)
    words = f"average precision, rule {averages.rule}" if about.is_precision else "largest recall"
    at = _thresholds_in_words(grid.iou_thresholds) if about.threshold is None else f"at IoU {about.threshold:g}"
    said = f"{words}, {at}, mean over classes"
    if not averages.has_limits:
        return said
    return f"{said}; {_area_in_words(about.area, grid)}; at most {about.limit} detections of an image and class"


def _thresholds_in_words(thresholds: Sequence[float]) -> str:
    low, high = min(thresholds), max(thresholds)
    if len(thresholds) == 1:
        return f"at IoU {low:g}"
    return f"mean over {len(thresholds)} IoU thresholds from {low:g} to {high:g}"


def _area_in_words(area: str, grid: CocoGrid) -> str:
    low, high = (f"{math.sqrt(end):g}²" if end else "0" for end in grid.area_ranges[area])
    return f"area range {area}, {low} to {high} pixels"


def numbers_as_dict(averages: ClassAverages) -> dict[str, Any]:
    """The numbers with the convention of each, and the options; undefined numbers are None."""
    grid = averages.grid
    limits = {"max_detections": list(grid.max_detections), "area_ranges": {**grid.area_ranges}}
    return {
        "numbers": {
            name: {"value": None if float(value) < 0 else float(value), "convention": convention_of(name, averages)}
            for name, value in averages.summary().items()
        },
        "rule": averages.rule,
        "iou_thresholds": list(grid.iou_thresholds),
        **(finite(limits) if averages.has_limits else {}),
        **({"confidence": averages.confidence} if averages.at_confidence else {}),
    }


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have, wherever they are."""
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def names_of(labels: Sequence[int], class_names: Mapping[int, str], *, is_micro: bool) -> list[str]:
    """Names of the classes of an evaluation."""
    return ["all classes together"] if is_micro else [name_of(label, class_names) for label in labels]


def class_numbers(
    averages: ClassAverages, matches: Matches, names: Sequence[str], threshold: int
) -> dict[str, dict[str, float | int]]:
    """Numbers of each class by name, in the first area range; F1 under one threshold of overlap."""
    columns: dict[str, Tensor] = {
        "ground truths": matches.num_positives[0],
        "detections": matches.class_index.bincount(minlength=len(matches.classes)),
        **averages.of_classes(),
    }
    for name, wanted in AT_THRESHOLDS.items():
        if wanted not in averages.grid.iou_thresholds:
            del columns[name]
    if not averages.at_confidence:
        best = best_f1(matches)
        columns |= {"f1": best.f1[threshold], "confidence": best.confidence[threshold]}
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)}


def table(numbers: Mapping[str, Mapping[str, float | int]]) -> str:
    """Aligned columns, one row a class; a dash where a number is undefined."""
    if not numbers:
        return "no classes"
    columns = [*next(iter(numbers.values()))]
    cells = [["class", *columns]]
    for name, row in numbers.items():
        cells.append([_cut(name), *(_cell(column, value) for column, value in row.items())])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells
    )


def _cut(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


def _cell(column: str, value: SupportsFloat) -> str:
    if column in _COUNTS:
        return str(value)
    return f"{float(value):.3f}" if math.isfinite(value) else "-"
