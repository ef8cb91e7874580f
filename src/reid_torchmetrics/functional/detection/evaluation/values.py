"""The values of `compute`: one number by its name, or the dict of TorchMetrics.

A name stands for a number of the evaluator (`map_50`), or for a detector that is used at one confidence (`f1_50`). With
several types of overlaps their name comes first (`segm_map_50`); the label of a class follows a slash (`map_50/7`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import curves
from reid_torchmetrics.functional.detection.evaluators import AT_THRESHOLDS
from reid_torchmetrics.functional.detection.matching import Matches

from .image_matches import ImageMatches

POINT_VALUES = ("precision", "recall", "f1", "confidence")
"""values of a detector that is used at one confidence: fields of `OperatingPoints`"""
_POINT_NAMES = {name.replace("map", kind): (kind, at) for name, at in AT_THRESHOLDS.items() for kind in POINT_VALUES}

Names = Mapping[str, tuple[str, str]]
"""`iou_type` of each number, and its name without the type"""


def prefix(iou_type: str, iou_types: Sequence[str]) -> str:
    """The beginning of the names of a type; empty if there is only one."""
    return f"{iou_type}_" if len(iou_types) > 1 else ""


def names_of_values(value_names: Sequence[str], iou_types: Sequence[str] = ("bbox",)) -> Names:
    """The names of numbers of an evaluator, for all types of overlaps."""
    begins = {iou_type: prefix(iou_type, iou_types) for iou_type in iou_types}
    return {begin + name: (iou_type, name) for iou_type, begin in begins.items() for name in value_names}


def coco_names(value_names: Sequence[str], iou_types: Sequence[str]) -> Names:
    """The names of COCO's numbers, and of the values at one confidence."""
    return names_of_values([*value_names, *_POINT_NAMES, *curves.LRP_VALUES], iou_types)


@dataclass(frozen=True)
class SingleValue:
    """A number by its name: the mean over classes, or the value of one class."""

    name: str
    label: int | None = None
    iou_type: str = "bbox"

    @classmethod
    def parsed(cls, text: str, names: Names) -> SingleValue:
        """The number that a text names.

        Raises:
            ValueError: an unknown name, or no label behind the slash.
        """
        has_label = isinstance(text, str) and "/" in text and text not in names
        name, _, label = text.rpartition("/") if has_label else (text, "", "")
        _checks.one_of("metric", name, names)
        if has_label and not re.fullmatch(r"-?\d+", label):
            raise ValueError(f"`metric` must have a label behind the slash, as in '{name}/3'; got {text!r}.")
        iou_type, name = names[name]
        return cls(name, int(label) if has_label else None, iou_type)

    @property
    def is_point(self) -> bool:
        """Whether it depends on a confidence."""
        return self.name in _POINT_NAMES

    @property
    def is_lrp(self) -> bool:
        """Whether it is an error of localization: less is better."""
        return self.name in curves.LRP_VALUES

    def of(self, images: ImageMatches, *, rule: str, confidence: float | None) -> Tensor:
        """The number, float64; -1 without ground truths.

        Args:
            images: of all processes.
            rule: of average precision.
            confidence: where precision, recall and F1 are taken; None for the one with the highest mean of F1.
        """
        if self.is_point:
            return self._at_point(images, confidence)
        if self.is_lrp:
            grid = images.request.grid
            at, place = grid.shown_threshold, grid.threshold_index(grid.shown_threshold)
            errors = images.once(curves.localization_errors, at, threshold=place)
            return errors.of_label(images.matches.classes, self.label).means()[self.name]
        # Means over classes, or over the one class that is asked for.
        averages = images.averages(rule, confidence)
        if self.label is not None:
            averages = averages.of_label(self.label)
        return averages.numbers()[averages.value_names.index(self.name)]

    def _at_point(self, images: ImageMatches, confidence: float | None) -> Tensor:
        kind, threshold = _POINT_NAMES[self.name]
        matches, thresholds = images.matches, [*images.request.grid.iou_thresholds]
        # Classes with ground truths, or the one with the label.
        nothing = torch.tensor(-1.0, dtype=torch.float64, device=matches.num_positives.device)
        chosen = matches.num_positives[0] > 0
        if self.label is not None:
            chosen = chosen & (matches.classes == self.label)
        if threshold not in thresholds or not bool(chosen.any()):
            return nothing
        place = thresholds.index(threshold)
        # Without a confidence: the best one for this threshold, the same for all classes.
        if confidence is None:
            confidence = images.once(_best_confidence, place)
            if confidence is None:  # nothing is right
                return nothing if kind == "confidence" else nothing.new_zeros(())
        values: Tensor = getattr(images.once(curves.at_confidence, confidence), kind)[place, chosen]
        return values.nanmean().nan_to_num(0.0)


def chosen_value(metric: str | None, names: Names, *, average: str, confidence: float | None) -> SingleValue | None:
    """The single number that a metric gives, if any; raise unless its other options fit."""
    value = None if metric is None else SingleValue.parsed(metric, names)
    if value is not None and value.label is not None and average == "micro":
        raise ValueError(f"`metric` must be a mean with average 'micro', which knows one class; got {metric!r}.")
    if confidence is not None:
        _checks.number("confidence", confidence)
        if value is None or not value.is_point:
            raise ValueError(
                "`confidence` must be None unless `metric` is a precision, recall or F1, such as 'f1_50'; got"
                f" {confidence} for {metric!r}."
            )
    return value


def _best_confidence(matches: Matches, place: int) -> float | None:
    curve = curves.confidence_curve(matches, threshold=place)
    best: Any = curve.best()
    return None if best is None else float(curve.confidence[best])
