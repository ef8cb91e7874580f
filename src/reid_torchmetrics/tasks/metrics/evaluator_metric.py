"""Metrics for other evaluators than COCO: Pascal VOC, the YOLO family and LVIS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.evaluation import ImageMatches, SingleValue, names_of_values
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS, CocoGrid
from reid_torchmetrics.metrics import base
from reid_torchmetrics.metrics.detection import BoxMetric, BoxOptions, explicit_signature
from reid_torchmetrics.tasks.evaluators import (
    FREQUENCIES,
    VOC_EVALUATOR,
    VocEvaluator,
    groups_by_frequency,
    read_frequencies,
    with_voc_options,
)

_SHOWN_IF_CHANGED = ("class_names", "invalid", "max_bytes")  # in the `repr` only if they are not the default
_HIDDEN = ("frequencies",)  # never in the `repr`: there are a thousand of them


class EvaluatorMetric(BoxMetric):
    """Base class of metrics that report means over the classes with ground truths."""

    VALUES: tuple[str, ...]
    """names of the numbers"""

    def __init__(
        self,
        box_format: _names.BoxFormat,
        iou_thresholds: Iterable[float],
        *,
        rule: _names.DetectionRule | None = None,
        confidence: float | None = None,
        metric: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(box_format, **kwargs)
        _checks.fractions("iou_thresholds", iou_thresholds)
        self.iou_thresholds = list(iou_thresholds)
        self.rule, self.confidence = EVALUATORS[self._row].checked(rule, confidence)
        self._set_metric(metric)

    def _set_metric(self, metric: str | None) -> None:
        self.metric = metric
        if metric is None:
            self._single = None
        else:
            self._single = SingleValue.parsed(metric, names_of_values(self.VALUES))

    def _grid(self, iou_type: Any = None, **options: Any) -> CocoGrid:
        return self._evaluator().grid(
            tuple(self.iou_thresholds),
            iou_type=iou_type or self.iou_type,
            drops_invalid=self.invalid == "drop",
            **options,
        )

    def compute(self) -> Any:
        """Return the numbers, float32; -1 where there are no ground truths to average over.

        Returns:
            With `metric` that number alone, a tensor without dimensions. Without it a dict of tensors by name: means
            over the classes that have ground truths; with `class_metrics` also `classes` and the values of each class,
            named with the suffix "_per_class". The annotation is `Any`, so that type checkers take the value as either.

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

        # VOC reports all classes, YOLO only classes with ground truths.
        reported: slice | Tensor = slice(None)
        if not self._evaluator().lists_all_classes:
            reported = images.matches.num_positives[0] > 0
        class_values = averages.of_classes()
        for name in self.VALUES:
            if name in class_values:
                values[f"{name}_per_class"] = self._rounded(class_values[name][reported].nan_to_num(-1.0))
        values["classes"] = averages.classes[reported].to(self.device)
        return values

    def _log_instead(self) -> str | None:
        if self.metric is not None:
            return None
        return f'{type(self).__name__}(metric="map")'

    def _numbers(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: value[name] for name in self.VALUES}

    def extra_repr(self) -> str:
        """Return the options that decide the value, in the order of the signature."""
        always = {}
        for name in base.arguments_of(type(self)):
            if name not in _SHOWN_IF_CHANGED and name not in _HIDDEN:
                always[name] = getattr(self, name)
        return base.show_arguments(self, always, {"class_names": {}}, hidden=_HIDDEN)


class VocMAP(EvaluatorMetric):
    """Mean average precision of detected boxes by Pascal VOC's own matching; see `functional.detection.evaluate_boxes`.

    With `iou_type="rotated"` and `rule="voc07"` the numbers are those of DOTA's Task 1: `rotated_boxes` may be four
    corners, and an overlap must be above the threshold, not at it.

    The metric takes the dicts of `DetectionMAP`. `target` may also have `difficult` [ground truths], bool or int, for
    objects that need not be found; their detections are ignored. Crowds are left out.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: least overlaps of a match; `map` is the mean over them.
        iou_type: "bbox", boxes; "rotated", rotated boxes.
        rule: "voc", the area under all points, since 2010; "voc07", the mean of eleven points.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inclusive, as in VOC's annotations; False
            for boxes that end between pixels; None for False with rotated boxes, else for True.
        class_metrics: also return the values of each class.
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50", or "map_50/7" for the class with the label 7: then `compute`
            returns this number alone, a tensor for `LightningModule.log`.
        invalid: the treatment of detected boxes that are not finite or have a negative size, see `DetectionMAP`; there
            are no area ranges, so "count" makes them false positives.
        max_bytes: bound on the memory of `compute` for pairs of boxes, except for pairs that overlap; None for 256 MiB.
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

    @explicit_signature
    def __init__(
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_thresholds: Iterable[float] = (0.5,),
        *,
        iou_type: _names.VocIouType = "bbox",
        rule: _names.VocRule = "voc",
        whole_pixels: bool | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        _checks.one_of("iou_type", iou_type, _names.VocIouType)
        super().__init__(
            box_format,
            iou_thresholds,
            rule=rule,
            metric=metric,
            iou_type=iou_type,
            class_metrics=class_metrics,
            **options,
        )
        self.whole_pixels = with_voc_options(VOC_EVALUATOR, self.iou_type, whole_pixels=whole_pixels).whole_pixels

    def _evaluator(self) -> VocEvaluator:
        return with_voc_options(VOC_EVALUATOR, self.iou_type, whole_pixels=self.whole_pixels)


class YoloMAP(EvaluatorMetric):
    """Mean average precision, precision, recall and F1 of boxes by the matching and the rules of the YOLO family.

    The metric takes the dicts of `DetectionMAP`. Crowds are left out. `precision`, `recall` and `f1` are computed by
    `functional.detection.yolo_average_precision`, at the first threshold.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: least overlaps of a match; `map` is the mean over them. By default 0.5, 0.55,
            ..., 0.95.
        matching: the true positives. "ultralytics": a detection matches the best ground truth that is free, of equal
            ones the first. "scaled_yolov4": a detection belongs to the ground truth that it overlaps most. The first
            detection above the first threshold claims it, and is right if its overlap is above a threshold. "yolov4":
            a detection belongs to the ground truth that it overlaps most, and is right only if no detection with a
            higher score belongs to it.
        rule: "yolo", "yolov5", "ultralytics" or "voc", see `compute_ap`; None for "ultralytics" with the matching
            "ultralytics", else for "yolo".
        confidence: the confidence for precision, recall and F1, on lines between detections; with the matching
            "ultralytics" None stands for the confidence with the highest smoothed mean of F1, as in Ultralytics, with
            the other matchings for 0.1.
        class_metrics: also return the values of each class that has ground truths.
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50", or "map_50/7" for the class with the label 7: then `compute`
            returns this number alone, a tensor for `LightningModule.log`.
        invalid: the treatment of detected boxes that are not finite or have a negative size, see `DetectionMAP`; there
            are no area ranges, so "count" makes them false positives.
        max_bytes: bound on the memory of `compute` for pairs of boxes, except for pairs that overlap; None for 256 MiB.
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

    @explicit_signature
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
        _checks.one_of("matching", matching, _names.YoloMatching)
        self.matching = matching
        self._row = matching
        super().__init__(
            box_format,
            iou_thresholds,
            rule=rule,
            confidence=confidence,
            metric=metric,
            class_metrics=class_metrics,
            **options,
        )


class LvisMAP(EvaluatorMetric):
    """Mean average precision and recall of boxes or masks as LVIS defines them: the numbers of lvis-api.

    The metric takes the dicts of `DetectionMAP`. In LVIS each image is annotated for some classes only: `target` may
    have `neg_category_ids`, the labels of classes that are surely absent, and `not_exhaustive_category_ids`, the labels
    of classes with more objects than annotated, both lists of ints. A detection counts only if its class has a ground
    truth or is surely absent; in a class with more objects it is right or ignored. Ground truths with `iscrowd` are
    ignored, and each matches one detection: LVIS has no crowds. Detections and ground truths without area are dropped.

    The area of a detected mask is the area of the mask, unless `preds` has `detection_area`. `coco_to_tm` gives it for
    results that also have a `bbox`, since lvis-api takes the area of the box. With `fixed`, the first images win among
    equal scores at the limit. Pictures ignore the lists: there a detection of a class without ground truths is ignored.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_type: "bbox", boxes; "segm", masks.
        iou_thresholds: least overlaps of a match; by default 0.5, 0.55, ..., 0.95.
        fixed: fixed AP: limit the detections of a class in all images, not those of an image (Dave et al., "Evaluating
            Large-Vocabulary Object Detectors: The Devil is in the Details", 2021).
        max_detections: the most detections of an image over all classes, or with `fixed` of a class; None for 300, or
            with `fixed` for 10,000.
        frequencies: "r", "c" or "f" by label, for `map_rare`, `map_common` and `map_frequent`, else these are -1;
            `read_frequencies` reads them from a data set.
        class_metrics: also return the values of each class.
        metric: the name of one number, such as "map_rare", or "map_50/7" for the class with the label 7: then `compute`
            returns this number alone, a tensor for `LightningModule.log`.
        options: see `DetectionMAP` and `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import LvisMAP
        >>> metric = LvisMAP(metric="map")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> labels = torch.tensor([3, 7])  # the image is not annotated for class 7
        >>> detections = {"boxes": boxes, "scores": torch.tensor([0.8, 0.9]), "labels": labels}
        >>> metric.update([detections], [{"boxes": boxes[:1], "labels": labels[:1], "neg_category_ids": [5]}])
        >>> metric.compute()
        tensor(1.)
    """

    _row = "lvis"

    @explicit_signature
    def __init__(
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_type: _names.LvisIouType = "bbox",
        iou_thresholds: Iterable[float] = COCO_IOU_THRESHOLDS,
        *,
        fixed: bool = False,
        max_detections: int | None = None,
        frequencies: Mapping[int, str] | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        _checks.boolean("fixed", fixed)
        _checks.one_of("iou_type", iou_type, _names.LvisIouType)
        if max_detections is not None:
            _checks.positive_int("max_detections", max_detections)
        super().__init__(box_format, iou_thresholds, iou_type=iou_type, class_metrics=class_metrics, **options)
        self.fixed = bool(fixed)
        self.max_detections = max_detections
        self._row = "lvis_fixed" if fixed else "lvis"
        if frequencies is not None and not isinstance(frequencies, Mapping):
            raise TypeError(f"`frequencies` must be a mapping of labels to letters; got {type(frequencies).__name__}.")
        self.frequencies = dict(frequencies or {})
        _checks.integers("frequencies", self.frequencies)
        for letter in self.frequencies.values():
            _checks.one_of("frequencies", letter, FREQUENCIES)
        # The grid needs these options, and `metric` must be one of its values.
        self.VALUES = tuple(self._grid().value_names)
        self._set_metric(metric)

    def _grid(self, iou_type: Any = None, **options: Any) -> CocoGrid:
        limits = None if self.max_detections is None else (self.max_detections,)
        class_groups = groups_by_frequency(self.frequencies)
        return super()._grid(iou_type, max_detection_thresholds=limits, class_groups=class_groups, **options)

    @staticmethod
    def read_frequencies(path: str) -> dict[int, str]:
        """Read the `frequency` of each category of a data set, "r", "c" or "f", by its id.

        Raises:
            ValueError: the file has no `categories`, or one without a whole `id` or with another frequency.
        """
        return read_frequencies(path)
