"""The evaluators of detections, one row each: how they match detections, and the numbers that they report.

    detections, ground truths -- match --> Matches -- average --> ClassAverages

All results, tables, pictures and reports are made of these two, so that a new evaluator is a row with two functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.matching import Matches, match_best_of_all, match_federated, match_on_grid

from .class_averages import ClassAverages
from .coco import average_matches
from .yolo import YOLO_RULES, average_yolo, match_greedily

VOC_RULES = ("voc", "voc07")
"""the rules of `average_precision` that Pascal VOC had: all points since 2010, eleven points before"""


_BEST_OF_ALL = "a detection takes the best ground truth of all, whether it is left or not"


@dataclass(frozen=True)
class Evaluator:
    """An evaluator of detections."""

    title: str
    """its name in tables"""
    match: Callable[..., Matches]
    """of detections, ground truths and a grid, with `keep_ground_truths`, `max_bytes` and further options"""
    average: Callable[..., ClassAverages]
    """of matches and a grid, with `rule` and `confidence`"""
    rules: tuple[str, ...]
    """of average precision, see `average_precision`"""
    rule: _names.DetectionRule
    """by default"""
    iou_thresholds: Sequence[float] = inputs.COCO_IOU_THRESHOLDS
    """by default"""
    reports_confidence: bool = False
    """whether precision, recall and F1 at one confidence are reported"""
    confidence: float | None = None
    """by default; None for the best; in results as the evaluation had it"""
    max_detection_thresholds: tuple[int, ...] | None = None
    """limits of detections by default; None for COCO's"""
    limited: _names.LimitOf = "image and class"
    """what the limits are of, see `CocoGrid`"""
    has_limits: bool = False
    """whether area ranges and limits of detections are known; without them the grid has one range without ends"""
    knows_crowds: bool = False
    """whether detections may lie in crowds; others leave crowds out"""
    knows_difficult: bool = False
    """whether ground truths may be difficult: they need not be found"""
    is_federated: bool = False
    """whether images have lists of absent and of partly annotated classes"""
    has_breakdown: bool = True
    """whether errors have kinds: a detection takes the best unmatched ground truth, images are annotated in full, and
    the area is of `AP_RULES`"""
    lists_all_classes: bool = True
    """whether classes without ground truths have a row"""
    confusion_rule: _names.ConfusionMatrixRule = "coco"
    """of the evaluator's confusion matrix, one of `CONFUSION_RULES`"""

    @property
    def why_no_breakdown(self) -> str:
        """The reason why errors have no kinds; empty if they have."""
        if self.has_breakdown:
            return ""
        return "images are annotated for some classes only" if self.is_federated else _BEST_OF_ALL

    @property
    def extras(self) -> tuple[str, ...]:
        """What `target` may have besides the keys that all evaluators know."""
        return ("difficult",) * self.knows_difficult + ("lists",) * self.is_federated

    def checked(self, rule: _names.DetectionRule | None, confidence: float | None) -> tuple[Any, float | None]:
        """A rule of average precision and a confidence, the defaults for None.

        Raises:
            TypeError: `confidence` is not a number.
            ValueError: a rule of another evaluator, or a confidence where nothing is reported at one.
        """
        rule = self.rule if rule is None else rule
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
        """The grid with some thresholds and `options` of `CocoGrid`; None for what is usual for the type of overlaps.

        Without area ranges and limits it has one range without ends, and one limit that says nothing.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: an option without values, or with values that are not allowed.
        """
        usual: dict[str, Any] = {"max_detection_thresholds": (1,), "area_ranges": {"all": (-math.inf, math.inf)}}
        usual["iou_thresholds"] = self.iou_thresholds
        if self.has_limits:
            thresholds = "coco" if thresholds is None else thresholds
            _checks.one_of("thresholds", thresholds, inputs.THRESHOLDS)
            limits, ranges = inputs.defaults_of(iou_type)
            usual = {"max_detection_thresholds": self.max_detection_thresholds or limits, "area_ranges": ranges}
            usual["iou_thresholds"], usual["rec_thresholds"] = inputs.THRESHOLDS[thresholds]
        options["iou_thresholds"] = iou_thresholds
        chosen = {name: value for name, value in options.items() if value is not None}
        return inputs.CocoGrid(**usual | chosen, limited=self.limited)


@dataclass(frozen=True)
class VocEvaluator(Evaluator):
    """Pascal VOC's evaluator, with the options that results have as the evaluation had them."""

    whole_pixels: bool = True
    """whether a box has width + 1 times height + 1 pixels, both edges inside"""
    claim: _names.ClaimRule = "voc"
    """what claims a ground truth, one of `CLAIMS`"""

    def with_options(self, iou_type: str | Sequence[str], whole_pixels: bool | None) -> VocEvaluator:
        """Return the evaluator with its option, None for the default; for rotated boxes it is that of DOTA.

        Raises:
            TypeError: `whole_pixels` is no bool.
            ValueError: it is True for rotated boxes.
        """
        is_dota = "rotated" in iou_type
        if whole_pixels is None:
            whole_pixels = not is_dota
        _checks.boolean("whole_pixels", whole_pixels)
        if not is_dota:
            return replace(self, whole_pixels=bool(whole_pixels))
        if whole_pixels:
            raise ValueError(f"`whole_pixels` must be False with iou_type 'rotated'; got {whole_pixels}.")
        return replace(self, title="DOTA", claim="dota", whole_pixels=False)


def match_options(evaluator: Evaluator, *, is_difficult: Any = None, lists: Any = None) -> dict[str, Any]:
    """Return the options of `match` that not all evaluators know.

    Args:
        evaluator: whose detections are matched.
        is_difficult: ground truths that need not be found, or None; left out for evaluators that do not know such.
        lists: of absent and of partly annotated classes, or None, see `match_federated`; likewise.
    """
    options = {}
    if evaluator.knows_difficult:
        options["is_difficult"] = is_difficult
    if evaluator.is_federated:
        options["lists"] = lists
    if isinstance(evaluator, VocEvaluator):
        options["whole_pixels"] = evaluator.whole_pixels
        options["claim"] = evaluator.claim
    return options


def _average(matches: Matches, grid: inputs.CocoGrid, *, rule: Any, has_limits: bool, **_: Any) -> ClassAverages:
    """Average without a confidence."""
    return average_matches(matches, grid, rule=rule, has_limits=has_limits)


# Rows hold functions and partials of them, made once: rows are compared as parts of cache keys.
_with_limits, _without_limits = (partial(_average, has_limits=has_limits) for has_limits in (True, False))
_yolo = partial(Evaluator, average=average_yolo, rules=YOLO_RULES, reports_confidence=True, lists_all_classes=False)
_lvis = partial(Evaluator, match=match_federated, average=_with_limits, rules=tuple(AP_RULES), rule="coco")
_lvis = partial(_lvis, has_limits=True, knows_crowds=True, is_federated=True, has_breakdown=False)
_yolov4 = partial(_yolo, rule="yolo", confidence=0.1, has_breakdown=False)

VOC_EVALUATOR = VocEvaluator(
    title="Pascal VOC",
    match=match_best_of_all,
    average=_without_limits,
    rules=VOC_RULES,
    rule="voc",
    iou_thresholds=(0.5,),
    knows_difficult=True,
    has_breakdown=False,
)

EVALUATORS: dict[str, Evaluator] = {
    "coco": Evaluator("COCO", match_on_grid, _with_limits, tuple(AP_RULES), "coco", has_limits=True, knows_crowds=True),
    "lvis": _lvis("LVIS", max_detection_thresholds=(300,), limited="image"),
    "lvis_fixed": _lvis("LVIS, fixed AP", max_detection_thresholds=(10_000,), limited="class"),
    "voc": VOC_EVALUATOR,
    "ultralytics": _yolo("Ultralytics", match_greedily, rule="ultralytics", confusion_rule="ultralytics"),
    "scaled_yolov4": _yolov4("ScaledYOLOv4", partial(match_best_of_all, claim="scaled_yolov4")),
    "yolov4": _yolov4("YOLOv4", partial(match_best_of_all, claim="yolov4")),
}
"""The evaluators by name."""

_WITHOUT_EFFECT = {"claim": "voc", "whole_pixels": False}
"""options of Pascal VOC that older files have with any evaluator, and their value there"""


def evaluator_options(evaluator: Evaluator) -> dict[str, Any]:
    """Return the options that results have as the evaluation had them."""
    options = {"title": evaluator.title, "confidence": evaluator.confidence}
    if isinstance(evaluator, VocEvaluator):
        options |= {"claim": evaluator.claim, "whole_pixels": evaluator.whole_pixels}
    return options


def to_name_and_options(evaluator: Evaluator) -> tuple[str, dict[str, Any]]:
    """Return the name of an evaluator in `EVALUATORS`, and its options.

    Raises:
        ValueError: an evaluator of one's own.
    """
    options = evaluator_options(evaluator)
    for name, row in EVALUATORS.items():
        if type(row) is type(evaluator) and replace(row, **options) == evaluator:
            return name, options
    names = ", ".join(EVALUATORS)
    raise ValueError(f"`evaluator` must be one of {names}, with its options; got {evaluator.title!r}.")


def from_name_and_options(name: str, options: Mapping[str, Any]) -> Evaluator:
    """Return an evaluator: the inverse of `to_name_and_options`.

    Raises:
        ValueError: an unknown name, or an option that the evaluator does not have.
    """
    _checks.one_of("evaluator", name, EVALUATORS)
    row = EVALUATORS[name]
    known = evaluator_options(row)
    changed = {}
    for option, value in options.items():
        if option in known:
            changed[option] = value
        elif option not in _WITHOUT_EFFECT or value != _WITHOUT_EFFECT[option]:
            names = ", ".join(known)
            raise ValueError(f"`option` of evaluator {name!r} must be one of {names}; got {option}={value!r}.")
    return replace(row, **changed)
