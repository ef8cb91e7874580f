"""Names of the numbers that a metric may return from `compute`, and their values.

A name is a number of the evaluator (`map_50`), or a number of a detector that is used at one confidence (`f1_50`). With
several types of overlaps the type comes first (`segm_map_50`). The label of a class follows a slash (`map_50/7`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry

from .image_matches import ImageMatches


@dataclass(frozen=True)
class NamedValue:
    """A number of `DetectionMAP` that is not one of COCO's."""

    compute: Callable[[ImageMatches, int | None, float | None], Tensor]
    """computes the number in float64 from the matches of all images, the label of a class (None for the mean over
    classes), and the confidence of the metric; -1 without ground truths"""
    takes_confidence: bool = False
    """whether it depends on a confidence, None for the one with the highest mean F1"""
    needs_localization: bool = False
    """whether it needs the overlaps of all matches"""
    higher_is_better: bool = True


Names = Mapping[str, tuple[str, str]]
"""`iou_type` and name without the type, by full name"""


def prefix(iou_type: str, iou_types: Sequence[str]) -> str:
    """Return the prefix of names for a type of overlaps; empty if there is only one type."""
    return f"{iou_type}_" if len(iou_types) > 1 else ""


def names_of_values(value_names: Sequence[str], iou_types: Sequence[str] = ("bbox",)) -> Names:
    """Return the names of an evaluator's numbers, for all types of overlaps."""
    names = {}
    for iou_type in iou_types:
        for name in value_names:
            names[prefix(iou_type, iou_types) + name] = (iou_type, name)
    return names


def coco_names(value_names: Sequence[str], iou_types: Sequence[str]) -> Names:
    """Return the names of COCO's numbers, and of the numbers in `MORE_VALUES`."""
    return names_of_values([*value_names, *MORE_VALUES], iou_types)


@dataclass(frozen=True)
class SingleValue:
    """A number with a name: the mean over classes, or the value of one class."""

    name: str
    label: int | None = None
    iou_type: str = "bbox"

    @classmethod
    def parsed(cls, text: str, names: Names) -> SingleValue:
        """Return the number for a text.

        Raises:
            ValueError: an unknown name, or no label after the slash.
        """
        if not isinstance(text, str) or "/" not in text or text in names:
            _checks.one_of("metric", text, names)
            iou_type, name = names[text]
            return cls(name, None, iou_type)
        full_name, _, label = text.rpartition("/")
        _checks.one_of("metric", full_name, names)
        if not re.fullmatch(r"-?\d+", label):
            raise ValueError(f"`metric` must have a label behind the slash, as in '{full_name}/3'; got {text!r}.")
        iou_type, name = names[full_name]
        return cls(name, int(label), iou_type)

    @property
    def row(self) -> NamedValue | None:
        """The row in `MORE_VALUES`; None for a number of the evaluator."""
        return MORE_VALUES.get(self.name)

    @property
    def takes_confidence(self) -> bool:
        """Whether it depends on a confidence."""
        return self.row is not None and self.row.takes_confidence

    def of(self, images: ImageMatches, *, rule: str, confidence: float | None) -> Tensor:
        """Compute the number, float64; -1 without ground truths.

        Args:
            images: matches of the images of all processes.
            rule: rule for average precision.
            confidence: confidence for precision, recall and F1; None for the one with the highest mean F1.
        """
        if self.row is not None:
            return self.row.compute(images, self.label, confidence)
        averages = images.averages(rule, confidence)
        if self.label is not None:
            averages = averages.for_label(self.label)
        return averages.numbers()[averages.value_names.index(self.name)]


def chosen_value(metric: str | None, names: Names, *, average: str, confidence: float | None) -> SingleValue | None:
    """Return the single number that a metric computes, if any; raise unless its other options fit."""
    value = None if metric is None else SingleValue.parsed(metric, names)
    if value is not None and value.label is not None and average == "micro":
        raise ValueError(f"`metric` must be a mean with average 'micro', which knows one class; got {metric!r}.")
    if confidence is not None:
        _checks.number("confidence", confidence)
        if value is None or not value.takes_confidence:
            raise ValueError(
                "`confidence` must be None unless `metric` is a precision, recall or F1, such as 'f1_50'; got"
                f" {confidence} for {metric!r}."
            )
    return value


MORE_VALUES: Registry[NamedValue] = Registry("MORE_VALUES", {})
"""the numbers of `DetectionMAP` that are not COCO's, which tasks add, by name"""
