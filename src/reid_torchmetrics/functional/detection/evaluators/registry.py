"""The evaluators of detections, one row each: their matching, and the numbers that they report.

    detections, ground truths -- match --> Matches -- average --> ClassAverages

All results, tables, pictures and reports follow from these two, so a new evaluator is a row with two functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

from .class_averages import ClassAverages
from .coco import average_matches


@dataclass(frozen=True)
class Evaluator:
    """An evaluator of detections. A subclass may have further fields, which are options of `match`."""

    title: str
    """its name in tables"""
    match: Callable[..., Matches]
    """matches detections to ground truths on a grid, with `keep_ground_truths`, `max_bytes` and further options"""
    average: Callable[..., ClassAverages]
    """computes averages from matches and a grid, with `rule` and `confidence`"""
    rules: tuple[str, ...]
    """allowed rules of average precision, see `average_precision`"""
    rule: _names.DetectionRule
    """the default rule"""
    iou_thresholds: Sequence[float] = inputs.COCO_IOU_THRESHOLDS
    """the default thresholds"""
    iou_types: tuple[str, ...] | None = None
    """the shapes that it matches; None for all"""
    with_options: Callable[..., Any] | None = None
    """returns the evaluator with options of the user, from the evaluator, an `iou_type` and `whole_pixels`"""
    with_edges: Callable[..., inputs.Shapes] | None = None
    """returns shapes with the edges that it counts, from the evaluator and shapes; None for shapes as they are"""
    reports_confidence: bool = False
    """whether precision, recall and F1 at one confidence are reported"""
    confidence: float | None = None
    """the default confidence, None for the best one; in results the confidence of the evaluation"""
    max_detection_thresholds: tuple[int, ...] | None = None
    """the default limits of detections; None for COCO's"""
    limited: _names.LimitOf = "image and class"
    """the scope of the limits, see `CocoGrid`"""
    has_limits: bool = False
    """whether there are area ranges and limits of detections; without them the grid has one range without ends"""
    has_crowds: bool = False
    """whether detections may lie in crowds; other evaluators leave crowds out"""
    has_difficult: bool = False
    """whether ground truths may be difficult: they need not be found"""
    is_federated: bool = False
    """whether images have lists of absent and of partly annotated classes"""
    has_breakdown: bool = True
    """whether errors have kinds: a detection takes the best unmatched ground truth, images are annotated in full, and
    the average precision has a rule in `AP_RULES`"""
    lists_all_classes: bool = True
    """whether classes without ground truths have a row"""

    @property
    def extras(self) -> tuple[str, ...]:
        """Names of the data in `target` that not all evaluators read."""
        names = []
        if self.has_difficult:
            names.append("difficult")
        if self.is_federated:
            names.append("lists")
        return tuple(names)

    def checked(self, rule: _names.DetectionRule | None, confidence: float | None) -> tuple[Any, float | None]:
        """Return a rule of average precision and a confidence, with the defaults in place of None.

        Raises:
            TypeError: `confidence` is not a number.
            ValueError: a rule of another evaluator, or a confidence if no number depends on one.
        """
        if rule is None:
            rule = self.rule
        _checks.one_of("rule", rule, self.rules)
        if confidence is None:
            return rule, self.confidence
        _checks.number("confidence", confidence)
        if not self.reports_confidence:
            raise ValueError(
                f"`confidence` must be None with this evaluator, which reports nothing at one; got {confidence}."
            )
        return rule, confidence

    def grid(
        self,
        iou_thresholds: Sequence[float] | None = None,
        *,
        iou_type: _names.IouType | Sequence[_names.IouType] = "bbox",
        thresholds: _names.ThresholdsName | None = None,
        **options: Any,
    ) -> inputs.CocoGrid:
        """Return a grid with thresholds and `options` of `CocoGrid`; None stands for the default of the `iou_type`.

        Without area ranges and limits the grid has one range without ends, and a limit without effect.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: an option without values, or with values that are not allowed.
        """
        fields: dict[str, Any] = {"limited": self.limited, "iou_type": inputs.checked_iou_type(iou_type)[0]}
        if self.has_limits:
            if thresholds is None:
                thresholds = "coco"
            _checks.one_of("thresholds", thresholds, inputs.THRESHOLDS)
            default_limits, fields["area_ranges"] = inputs.defaults_of(iou_type)
            fields["max_detection_thresholds"] = self.max_detection_thresholds or default_limits
            fields["iou_thresholds"], fields["rec_thresholds"] = inputs.THRESHOLDS[thresholds]
        else:
            fields["area_ranges"] = {"all": (-math.inf, math.inf)}
            fields["max_detection_thresholds"] = (1,)
            fields["iou_thresholds"] = self.iou_thresholds
        options["iou_thresholds"] = iou_thresholds
        fields.update({name: value for name, value in options.items() if value is not None})
        return inputs.CocoGrid(**fields)


def own_options(evaluator: Evaluator) -> dict[str, Any]:
    """Return the options of an evaluator's matching that no other evaluator has."""
    shared = {field.name for field in fields(Evaluator)}
    return {name: value for name, value in vars(evaluator).items() if name not in shared}


# Rows are compared as parts of cache keys, and a partial only equals itself, so it is made once.
average_without_limits = partial(average_matches, has_limits=False)

EVALUATORS: Registry[Evaluator] = Registry(
    "EVALUATORS",
    {
        "coco": Evaluator(
            title="COCO",
            match=match_on_grid,
            average=average_matches,
            rules=tuple(AP_RULES),
            rule="coco",
            has_limits=True,
            has_crowds=True,
        )
    },
)
"""The evaluators by name."""


def evaluator_options(evaluator: Evaluator) -> dict[str, Any]:
    """Return the options of an evaluator that results keep."""
    return {"title": evaluator.title, "confidence": evaluator.confidence, **own_options(evaluator)}
