"""Metrics of evaluators without area ranges and limits of detections: Pascal VOC and the YOLO family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.evaluation import YOLO_MATCHINGS, ImageMatches, SingleValue, names_of_values
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS, CocoGrid
from reid_torchmetrics.metrics import base

from .box_metric import BoxMetric, BoxOptions, spelled_out

_SELDOM = ("class_names", "invalid", "max_bytes")  # in the `repr` only if they are not the default


class EvaluatorMetric(BoxMetric):
    """Base of metrics that report means over the classes with ground truths."""

    VALUES: tuple[str, ...]
    """names of the numbers"""

    def __init__(
        self,
        box_format: str,
        iou_thresholds: Iterable[float],
        *,
        rule: str | None = None,
        confidence: float | None = None,
        metric: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(box_format, **kwargs)
        _checks.fractions("iou_thresholds", iou_thresholds)
        self.iou_thresholds = [*iou_thresholds]
        self.rule, self.confidence = EVALUATORS[self._row].checked(rule, confidence)
        self._set_metric(metric)

    def _set_metric(self, metric: str | None) -> None:
        self.metric = metric
        self._single = None if metric is None else SingleValue.parsed(metric, names_of_values(self.VALUES))

    def _grid(self) -> CocoGrid:
        return self._evaluator().grid(tuple(self.iou_thresholds))

    def compute(self) -> dict[str, Tensor] | Tensor:
        """The numbers, float32; -1 where there is no ground truth to average over.

        Returns:
            Means over the classes that have ground truths, by name; with `class_metrics` also the values of each of
            `classes`, by the name and "_per_class". With `metric` that number alone.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
        """
        return self._value()

    def _values(self, matches: Sequence[ImageMatches]) -> dict[str, Tensor]:
        (images,) = matches
        averages = images.averages(self.rule, self.confidence)
        values = {name: self._rounded(value) for name, value in averages.summary().items()}
        if not self.class_metrics:
            return values
        # The values of each class, in the order of `classes`: YOLO lists only classes with ground truths, VOC all.
        is_listed = slice(None) if self._evaluator().lists_all_classes else images.matches.num_positives[0] > 0
        of_classes = averages.of_classes()
        for name in (name for name in self.VALUES if name in of_classes):
            values[f"{name}_per_class"] = self._rounded(of_classes[name][is_listed].nan_to_num(-1.0))
        return values | {"classes": averages.classes[is_listed].to(self.device)}

    def _log_instead(self) -> str | None:
        return f'{type(self).__name__}(metric="map")' if self.metric is None else None

    def _numbers(self, value: Any) -> Any:
        return {name: value[name] for name in self.VALUES} if isinstance(value, dict) else value

    def extra_repr(self) -> str:
        """The options that decide the value."""
        # All arguments in the order of the signature, but for those that are seldom chosen.
        always = self._arguments()
        always.pop("frequencies", None)  # a thousand of them
        seldom = {name: always.pop(name) for name in _SELDOM}
        seldom["class_names"] = {}
        return base.show_arguments(self, {name: getattr(self, name) for name in always}, seldom)


class VocMAP(EvaluatorMetric):
    """Mean average precision of detected boxes by Pascal VOC's own matching; see `functional.detection.evaluate_boxes`.

    It takes the dicts of `DetectionMAP`, in which `target` may also have `difficult` [ground truths], bool or int:
    objects that need not be found; a detection of one is ignored. Crowds are left out.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: least overlaps of a match; `map` is the mean over them.
        rule: "voc", the area under all points, since 2010; "voc07", the mean of eleven.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations; False
            for boxes that end between pixels.
        class_metrics: also give the values of each class.
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: how to treat detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, "count" makes them false positives.
        max_bytes: bound on the memory of `compute` for pairs of boxes, except for pairs that overlap.
        options: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import VocMAP
        >>> metric = VocMAP(metric="map")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> detections = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([detections], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found: precision is 1 up to recall 0.5
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75")
    _row = "voc"

    @spelled_out
    def __init__(
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_thresholds: Iterable[float] = (0.5,),
        *,
        rule: _names.VocRule = "voc",
        whole_pixels: bool = True,
        class_metrics: bool = False,
        metric: str | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        super().__init__(box_format, iou_thresholds, rule=rule, metric=metric, class_metrics=class_metrics, **options)
        _checks.boolean("whole_pixels", whole_pixels)
        self.whole_pixels = bool(whole_pixels)

    def _evaluator(self) -> Evaluator:
        return replace(super()._evaluator(), whole_pixels=self.whole_pixels)


class YoloMAP(EvaluatorMetric):
    """Mean average precision, precision, recall and F1 of boxes by the matching and the rules of the YOLO family.

    It takes the dicts of `DetectionMAP`. Crowds are left out. `precision`, `recall` and `f1` are computed by
    `functional.detection.yolo_average_precision`, at the first of the thresholds.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: least overlaps of a match; `map` is the mean over them. By default 0.5, 0.55,
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
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: how to treat detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, "count" makes them false positives.
        max_bytes: bound on the memory of `compute` for pairs of boxes, except for pairs that overlap.
        options: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import YoloMAP
        >>> metric = YoloMAP(matching="scaled_yolov4", metric="recall")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> detections = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([detections], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75", "precision", "recall", "f1")

    @spelled_out
    def __init__(
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_thresholds: Iterable[float] = COCO_IOU_THRESHOLDS,
        *,
        matching: _names.YoloMatching = "ultralytics",
        rule: _names.YoloRule | None = None,
        confidence: float | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        _checks.one_of("matching", matching, YOLO_MATCHINGS)
        self.matching = self._row = matching
        more: dict[str, Any] = {"rule": rule, "confidence": confidence, "metric": metric, **options}
        super().__init__(box_format, iou_thresholds, class_metrics=class_metrics, **more)
