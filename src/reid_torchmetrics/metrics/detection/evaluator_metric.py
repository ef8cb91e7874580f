"""Metrics of evaluators that know neither area ranges nor limits of detections: Pascal VOC and the YOLO family.

Detection: mean average precision of boxes as Pascal VOC has it.

Detection: mean average precision of boxes as the YOLO family has it.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.batches import INVALID, NumberedImages
from reid_torchmetrics.functional.detection.curves import RankedDetections
from reid_torchmetrics.functional.detection.evaluation import Matched, MatchRequest, name_and_label
from reid_torchmetrics.functional.detection.evaluators import (
    VOC_RULES,
    YOLO_RULES,
    VocResults,
    YoloResults,
    match_greedily,
    voc_results,
    yolo_results,
)
from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS, CocoGrid
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, Matches, match_best_of_all
from reid_torchmetrics.metrics.base import python_bool, show_arguments

from .box_metric import BoxMetric

_NOT_DECISIVE = {"self", "max_bytes", "kwargs"}
"""arguments that do not change what `compute` gives"""
_WITH_THRESHOLD = {"map_50": 0.5, "map_75": 0.75}


@dataclass(frozen=True)
class EvaluatorRequest(MatchRequest):
    """Matches that are made in another way than COCO's."""

    matching: Callable[..., Matches] | None = None
    """of detections and ground truths, with the options of `match_best_of_all` but for its claim"""
    with_difficult: bool = False
    """whether ground truths may be difficult"""

    def _match(self, numbered: NumberedImages, *, micro: bool) -> Matches:
        assert self.matching is not None  # noqa: S101 - for the type checker: it has a default for those before it
        difficult = {"is_difficult": numbered.images.ground_truth_difficult} if self.with_difficult else {}
        return self.matching(
            *numbered.boxes(one_class=micro),
            iou_thresholds=self.grid.iou_thresholds,
            keep_ground_truths=self.with_origins,
            max_bytes=self.max_bytes,
            **difficult,
        )


class EvaluatorMetric(BoxMetric):
    """Base of metrics whose numbers are means over the classes that have ground truths."""

    VALUES: tuple[str, ...]
    """names of the numbers"""

    def __init__(
        self,
        box_format: str,
        iou_thresholds: Sequence[float],
        *,
        class_metrics: bool,
        metric: str | None,
        invalid: str,
        max_bytes: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(box_format, None, **kwargs)
        _checks.one_of("invalid", invalid, INVALID)
        _checks.fractions("iou_thresholds", iou_thresholds)
        _checks.positive_int("max_bytes", max_bytes)
        self.iou_thresholds, self.invalid, self.max_bytes = [*iou_thresholds], invalid, max_bytes
        self.class_metrics = python_bool("class_metrics", class_metrics)
        self.metric = metric
        self._single = None if metric is None else name_and_label(metric, self.VALUES)

    @abstractmethod
    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        """Labels, and the numbers of each by name, float64; NaN where a class has no ground truths."""

    def _request(self, matching: Callable[..., Matches], *, with_difficult: bool = False) -> EvaluatorRequest:
        """Matches of all labels by themselves, in one area range that holds everything."""
        grid = CocoGrid(tuple(self.iou_thresholds), (0.0,), (1,), {"all": (0.0, float("inf"))})
        return EvaluatorRequest(
            grid, (False,), self.max_bytes, self.box_format, matching=matching, with_difficult=with_difficult
        )

    def compute(self) -> dict[str, Tensor] | Tensor:
        """The numbers, float32; -1 where there is no ground truth to average over.

        Returns:
            Means over the classes that have ground truths, by name; with `class_metrics` also those of each of
            `classes`, by the name and "_per_class". With `metric` that number alone.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
        """
        return self._by_workers(lambda: self._value(self._match(self._match_request())))

    def _value(self, matched: Matched) -> dict[str, Tensor] | Tensor:
        classes, values = self._class_values(matched.found.matches[0])
        if self._single is not None:
            name, label = self._single
            return self._rounded(_mean(values[name] if label is None else values[name][classes == label]))
        found = {name: self._rounded(_mean(each)) for name, each in values.items()}
        if self.class_metrics:
            found |= {f"{name}_per_class": self._rounded(each.nan_to_num(-1.0)) for name, each in values.items()}
            found["classes"] = classes.to(self.device)
        return found

    def _rounded(self, values: Tensor) -> Tensor:
        return values.to(self.device, torch.float32)

    def _precision_at(self, average_precision: Tensor) -> dict[str, Tensor]:
        """`map` and its like of each class, from average precisions [thresholds, classes]."""
        thresholds, undefined = self.iou_thresholds, torch.full_like(average_precision[0], torch.nan)
        found = {"map": average_precision.mean(0)}
        for name, at in _WITH_THRESHOLD.items():
            found[name] = average_precision[thresholds.index(at)] if at in thresholds else undefined
        return found

    def _with_origins(self) -> tuple[Matches, Callable[[RankedDetections], RankedDetections]]:
        """Matches whose rows are counted in each image, and what gives images their ids; all processes must ask."""
        with self._synced():
            matched = self._match(replace(self._match_request(), with_origins=True))
        return matched.found.matches[0], lambda ranked: _with_ids(matched, ranked)

    def _log_instead(self) -> str | None:
        return f'{type(self).__name__}(metric="map")' if self.metric is None else None

    def _option_texts(self) -> dict[str, str]:
        """The options that decide the value, as texts that are the same on all processes."""
        return {name: repr(getattr(self, name)) for name in self._arguments() if name not in _NOT_DECISIVE}

    def _arguments(self) -> dict[str, Any]:
        """The names of the arguments, and their defaults."""
        parameters = inspect.signature(type(self).__init__).parameters.items()
        return {name: each.default for name, each in parameters if name not in ("self", "kwargs")}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the values that are one number, or several results over time; see `torchmetrics.Metric`.

        Needs matplotlib.
        """
        val = self.compute() if val is None else val
        return self._plot([*map(self._numbers, val)] if isinstance(val, Sequence) else self._numbers(val), ax)

    def _numbers(self, value: Any) -> Any:
        return {name: value[name] for name in self.VALUES} if isinstance(value, dict) else value

    def extra_repr(self) -> str:
        """The options that decide the value."""
        always = self._arguments()
        seldom = {name: always.pop(name) for name in ("invalid", "max_bytes")}
        return show_arguments(self, {name: getattr(self, name) for name in always}, seldom)


def _mean(values: Tensor) -> Tensor:
    return values.nanmean().nan_to_num(-1.0)


def _with_ids(matched: Matched, ranked: RankedDetections) -> RankedDetections:
    assert matched.numbering is not None  # noqa: S101 - the request is not plain
    assert ranked.image is not None  # noqa: S101 - matches know their images
    ids = matched.numbering.ids_by_number.to(ranked.image.device)
    return replace(ranked, image=ids[ranked.image], image_names=matched.numbering.names)


_MATCHINGS = {pixels: partial(match_best_of_all, claim="voc", whole_pixels=pixels) for pixels in (False, True)}


class VocMAP(EvaluatorMetric):
    """Mean average precision of detected boxes by Pascal VOC's own matching; see `functional.detection.voc_evaluate`.

    It takes the dicts of `DetectionMAP`, in which `target` may also have `difficult` [ground truths], bool or int:
    objects that need not be found, and of which a detection is neither right nor wrong. Crowds are left out.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: overlaps from which on a detection is right; `map` is the mean over them.
        rule: "voc", the area under all points, since 2010; "voc07", the mean of eleven.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations; False
            for boxes that end between pixels.
        class_metrics: also give the values of each class.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: what becomes of detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, those that "count" are false positives.
        max_bytes: bound on what `compute` holds of pairs of boxes at a time, but for those that overlap.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import VocMAP
        >>> metric = VocMAP(metric="map")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> found = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found: precision is 1 up to recall 0.5
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75")
    _flags = ("difficult",)

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] = (0.5,),
        *,
        rule: str = "voc",
        whole_pixels: bool = True,
        class_metrics: bool = False,
        metric: str | None = None,
        invalid: str = "count",
        max_bytes: int = DEFAULT_MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            box_format,
            iou_thresholds,
            class_metrics=class_metrics,
            metric=metric,
            invalid=invalid,
            max_bytes=max_bytes,
            **kwargs,
        )
        _checks.one_of("rule", rule, VOC_RULES)
        _checks.boolean("whole_pixels", whole_pixels)
        self.rule, self.whole_pixels = rule, bool(whole_pixels)
        self._add_growing_state("ground_truth_difficult", torch.empty(0, dtype=torch.bool, device="cpu"))

    def _match_request(self) -> EvaluatorRequest:
        return self._request(_MATCHINGS[self.whole_pixels], with_difficult=True)

    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        results = voc_results(matches, rule=self.rule)
        return results.classes, self._precision_at(results.average_precision)

    def results(self) -> VocResults:
        """Everything in float64: average precisions, and every detection with what it was found to be.

        The same on all processes; all must ask. `ranked.of_class(label)` is the curve of a class, to be printed or
        drawn.
        """
        matches, with_ids = self._with_origins()
        results = voc_results(matches, rule=self.rule)
        return replace(results, ranked=with_ids(results.ranked))


class _Family(NamedTuple):
    match: Callable[..., Matches]
    rule: str
    """of average precision, by default"""
    confidence: float | None
    """where precision, recall and F1 are taken by default, or None for the best, see `yolo_average_precision`"""


YOLO_MATCHINGS: dict[str, _Family] = {
    "ultralytics": _Family(match_greedily, "ultralytics", None),
    "scaled_yolov4": _Family(partial(match_best_of_all, claim="scaled_yolov4"), "yolo", 0.1),
    "yolov4": _Family(partial(match_best_of_all, claim="yolov4"), "yolo", 0.1),
}
"""How detections are matched, see `YoloMAP`."""


class YoloMAP(EvaluatorMetric):
    """Mean average precision, precision, recall and F1 of boxes by the matching and the rules of the YOLO family.

    It takes the dicts of `DetectionMAP`. Crowds are left out. `precision`, `recall` and `f1` are those of
    `functional.detection.yolo_average_precision` at the first of the thresholds.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: overlaps from which on a detection is right; `map` is the mean over them. By default 0.5, 0.55,
            ..., 0.95.
        matching: "ultralytics", a detection takes the best ground truth that is left, see `match_greedily`;
            "scaled_yolov4", it belongs to the best of all, which the first detection above the first threshold claims,
            and must overlap it by more than a threshold; "yolov4", it belongs to the best of all, and no detection with
            a higher score may, see `match_best_of_all`.
        rule: one of `functional.detection.YOLO_RULES`; None for "ultralytics" with the first matching, "yolo" with the
            others.
        confidence: where precision, recall and F1 are taken, on lines between detections; None with the first matching
            for the one where the smoothed mean of F1 is highest, as Ultralytics does, and for 0.1 with the others.
        class_metrics: also give the values of each class that has ground truths.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: what becomes of detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, those that "count" are false positives.
        max_bytes: bound on what `compute` holds of pairs of boxes at a time, but for those that overlap.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import YoloMAP
        >>> metric = YoloMAP(matching="scaled_yolov4", metric="recall")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> found = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75", "precision", "recall", "f1")

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS,
        *,
        matching: str = "ultralytics",
        rule: str | None = None,
        confidence: float | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        invalid: str = "count",
        max_bytes: int = DEFAULT_MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            box_format,
            iou_thresholds,
            class_metrics=class_metrics,
            metric=metric,
            invalid=invalid,
            max_bytes=max_bytes,
            **kwargs,
        )
        _checks.one_of("matching", matching, YOLO_MATCHINGS)
        family = YOLO_MATCHINGS[matching]
        rule = family.rule if rule is None else rule
        _checks.one_of("rule", rule, YOLO_RULES)
        if confidence is None:
            confidence = family.confidence
        else:
            _checks.number("confidence", confidence)
        self.matching, self.rule, self.confidence = matching, rule, confidence

    def _match_request(self) -> EvaluatorRequest:
        return self._request(YOLO_MATCHINGS[self.matching].match)

    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        found = yolo_results(matches, rule=self.rule, confidence=self.confidence)
        at_confidence = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
        return found.classes, self._precision_at(found.average_precision) | at_confidence

    def results(self) -> YoloResults:
        """Everything in float64: average precisions, and every detection with what it was found to be.

        The same on all processes; all must ask. `ranked.of_class(label)` is the curve of a class, to be printed or
        drawn.
        """
        matches, with_ids = self._with_origins()
        found = yolo_results(matches, rule=self.rule, confidence=self.confidence)
        return found._replace(ranked=with_ids(found.ranked))
