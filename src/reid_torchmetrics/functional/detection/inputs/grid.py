"""COCO's grid for precision and recall, and the other options of an evaluation that decide its numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from reid_torchmetrics import _checks, _names

AreaRange = tuple[float, float]

COCO_IOU_THRESHOLDS: tuple[float, ...] = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""0.5 to 0.95 in steps of 0.05, in the float64 values of COCO: the ninth is 0.8999999999999999"""
COCO_MAX_DETECTIONS = (1, 10, 100)
COCO_AREA_RANGES: dict[str, AreaRange] = {
    "all": (0.0, 1e5**2),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e5**2),
}
"""least and largest area in square pixels, both inside: 32 x 32 pixels are small and medium"""
COCO_RECALL_THRESHOLDS: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 101).tolist())
"""0 to 1 in steps of 0.01, in the float64 values of COCO"""


def _in_float32(first: float, last: float, number: int) -> tuple[float, ...]:
    """Return equally spaced numbers that are rounded to float32."""
    return tuple(torch.linspace(first, last, number, dtype=torch.float32, device="cpu").tolist())


THRESHOLDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "coco": (COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS),
    "torchmetrics": (_in_float32(0.5, 0.95, 10), _in_float32(0.0, 1.0, 101)),
}
"""default thresholds and recalls by name: of pycocotools in float64, and of TorchMetrics rounded to float32"""
_OFFICIAL_LIMIT = 100  # pycocotools' AP is at 100 detections
_MOST_RANGES = 62  # each has a bit of an int64
_CLOSE = 1e-6  # closer thresholds are equal: 0.9 is 0.8999999999999999 in COCO, and may be a float32


@dataclass(frozen=True)
class CocoGrid:
    """The grid of precision and recall: thresholds T, recalls R, area ranges A, limits of detections M.

    The fields behind these say what was matched. Matching does not read them; results show, save and compare them.

    Raises:
        TypeError: a value of the wrong type.
        ValueError: an empty axis, or a value that is not allowed.
    """

    iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS
    rec_thresholds: Sequence[float] = COCO_RECALL_THRESHOLDS
    max_detection_thresholds: Sequence[int] = COCO_MAX_DETECTIONS
    """detections per image and class, ascending"""
    area_ranges: Mapping[str, AreaRange] = field(default_factory=lambda: dict(COCO_AREA_RANGES))
    """the first is the range of `map` and `mar_100`, the numbers without the name of a range"""
    class_groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """labels of groups of classes by name, such as LVIS' rare classes; each group has its own mean, `map_{name}`"""
    limited: _names.LimitOf = "image and class"
    """the scope of the limits of detections: an "image and class", an "image", or a "class" of the whole data set"""
    iou_type: _names.IouType | None = None
    """the shapes that overlap; None if they are not known, as in results files of format 2"""
    sigmas: Sequence[float] | None = None
    """sigmas of keypoints; None for COCO's"""
    average: _names.Average = "macro"
    """whether numbers are means over classes, or all labels are one class"""
    drops_invalid: bool = False
    """whether invalid objects were left out"""
    has_given_areas: bool = False
    """whether areas of detections were in the input, in place of those of the shapes"""

    def __post_init__(self) -> None:
        """Check the values."""
        _checks.fractions("iou_thresholds", self.iou_thresholds)
        limits = self.max_detection_thresholds
        _checks.positive_ints("max_detection_thresholds", limits, distinct=False, fits_int64=False)
        if list(limits) != sorted(limits):
            raise ValueError(f"`max_detection_thresholds` must ascend; got {limits!r}.")
        _checks.one_of("limited", self.limited, _names.LimitOf)
        check_area_ranges(self.area_ranges)
        _checks.fractions("rec_thresholds", self.rec_thresholds)
        if not all(map(operator.le, self.rec_thresholds, self.rec_thresholds[1:])):
            raise ValueError(f"`rec_thresholds` must ascend; got {self.rec_thresholds!r}.")
        if not isinstance(self.class_groups, Mapping):
            got = type(self.class_groups).__name__
            raise TypeError(f"`class_groups` must be a mapping of names to labels; got {got}.")
        for name, labels in self.class_groups.items():
            if not isinstance(name, str) or name in self.area_ranges or name.isdigit():
                raise ValueError(f"`class_groups` must have names that area ranges and thresholds lack; got {name!r}.")
            _checks.integers("class_groups", labels)
        # Copies, because the caller may change the mappings later.
        groups = {name: tuple(map(operator.index, labels)) for name, labels in self.class_groups.items()}
        area_ranges = {name: tuple(ends) for name, ends in self.area_ranges.items()}
        object.__setattr__(self, "area_ranges", area_ranges)
        object.__setattr__(self, "class_groups", groups)

    @property
    def value_names(self) -> list[str]:
        """Names of COCO's numbers, in the order of `ClassAverages.summary`."""
        ranges = list(self.area_ranges)[1:]
        limits = dict.fromkeys(self.max_detection_thresholds)
        names = ["map", "map_50", "map_75"]
        names += [f"map_{name}" for name in (*ranges, *self.class_groups)]
        names += [f"mar_{name}" for name in (*limits, *ranges)]
        return names

    @cached_property
    def official_limit(self) -> int:
        """Index of the limit of `map`: 100 detections as in pycocotools, or else the largest."""
        limits = list(self.max_detection_thresholds)
        if _OFFICIAL_LIMIT in limits:
            return limits.index(_OFFICIAL_LIMIT)
        return len(limits) - 1

    @property
    def shown_threshold(self) -> float:
        """IoU threshold for pictures and reports: the nearest to 0.5, the usual one."""
        return min(self.iou_thresholds, key=lambda threshold: abs(threshold - 0.5))

    def threshold_index(self, iou_threshold: float) -> int:
        """Return the index of a number in `iou_thresholds`, up to rounding.

        Raises:
            TypeError: it is no number.
            ValueError: it is not one of the thresholds.
        """
        return nearest_threshold(self.iou_thresholds, iou_threshold)


def nearest_threshold(thresholds: Sequence[float], iou_threshold: float) -> int:
    """Return the index of a threshold, up to rounding.

    Raises:
        TypeError: it is no number.
        ValueError: it is not one of the thresholds.
    """
    _checks.number("iou_threshold", iou_threshold)
    nearest = min(thresholds, key=lambda threshold: abs(threshold - iou_threshold), default=math.nan)
    if not abs(nearest - iou_threshold) < _CLOSE:  # also for NaN
        names = _checks.listed([f"{threshold:g}" for threshold in thresholds], str)
        raise ValueError(f"`iou_threshold` must be one of {names}; got {iou_threshold}.")
    return list(thresholds).index(nearest)


def check_area_ranges(area_ranges: object) -> None:
    """Raise unless the ranges are a mapping of at most 62 names to a least and a largest area."""
    if not isinstance(area_ranges, Mapping):
        got = type(area_ranges).__name__
        raise TypeError(f"`area_ranges` must be a mapping of names to (least, largest) area; got {got}.")
    if not 0 < len(area_ranges) <= _MOST_RANGES:
        raise ValueError(f"`area_ranges` must have 1 to {_MOST_RANGES} ranges; got {len(area_ranges)}.")
    for name, ends in area_ranges.items():
        if not isinstance(name, str):
            raise TypeError(f"`area_ranges` must have strings as names; got {name!r}.")
        if not isinstance(ends, (tuple, list)) or len(ends) != 2 or not all(map(_is_number, ends)):
            raise TypeError(f"`area_ranges` must have pairs of numbers as values; got {ends!r} for {name!r}.")
        if math.isnan(ends[0]) or not ends[0] <= ends[1]:
            raise ValueError(f"`area_ranges` must have a least area first; got {ends!r} for {name!r}.")


def _is_number(value: object) -> bool:
    """Return whether a value is an int or a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
