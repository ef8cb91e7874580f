"""Detection: COCO's mean average precision and recall of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics.functional.detection import batches, curves, evaluation, evaluators, inputs
from reid_torchmetrics.metrics import base

from .box_metric import BoxMetric, BoxOptions, explicit_signature


class DetectionOptions(BoxOptions, total=False):
    """The options of `DetectionMAP`, except for `metric` and `confidence`."""

    box_format: _names.BoxFormat
    iou_type: _names.IouType | Sequence[_names.IouType]
    iou_thresholds: Iterable[float] | None
    rec_thresholds: Iterable[float] | None
    max_detection_thresholds: Iterable[int] | None
    class_metrics: bool
    extended_summary: bool
    average: _names.Average
    backend: _names.Backend
    area_ranges: Mapping[str, inputs.AreaRange] | None
    rule: _names.DetectionRule
    thresholds: _names.ThresholdsName
    sigmas: Sequence[float] | None
    keep_shapes: bool


@lru_cache(maxsize=8)
def _cached_grid(ranges: Any, **fields: Any) -> inputs.CocoGrid:
    """Return a grid, given its area ranges as pairs; each is made and checked once, as every training step needs it."""
    return inputs.CocoGrid(area_ranges=dict(ranges), **fields)


class DetectionMAP(BoxMetric):
    """Mean average precision and recall of detected boxes as COCO defines them: the numbers of pycocotools.

    It takes the place of `torchmetrics.detection.MeanAveragePrecision`: it has the same arguments and `update`, and the
    result of `compute` has the same keys and shapes. It runs on the device of the boxes and needs neither torchvision
    nor pycocotools. The intended differences are:

    - The default thresholds are pycocotools' own, in float64. TorchMetrics rounds them to float32, which moves
      `map` by 0.001 on images of COCO; `thresholds="torchmetrics"` gives its numbers.
    - Detections with equal scores are in ascending order of `image_id` in the dicts of `target`, as in pycocotools, for
      any order of the batches and any number of processes. Images that a distributed sampler repeated count once, and
      images with the same id and different ground truths are an error. Without `image_id`, images are in the order of
      updates, as they always are in TorchMetrics.
    - `map` with `max_detection_thresholds` that do not contain 100 is the number at the largest limit, not -1.
    - A detected box with a NaN is a false positive; in pycocotools, and therefore in TorchMetrics, most of them match
      the last free ground truth of their class. Other boxes that are inverted or not finite count as there, with a
      warning.
    - `update` refuses scores and areas that are not finite, and ground truths that are not finite or have a negative
      size, unless `invalid` is "drop". It then stores nothing of the batch. A wrong type is a TypeError.
    - The result of `compute` has all keys also before the first image. In `ious` an image and class without detections
      or without ground truths has a tensor without entries, not an empty list.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_type: "bbox", boxes; "segm", masks; "keypoints"; "rotated", rotated boxes; or ("bbox", "segm"): then the
            names of all values except `classes` begin with the type, as in `bbox_map` and `segm_map`.
        iou_thresholds: least overlaps of a match; by default 0.5, 0.55, ..., 0.95, see `thresholds`.
        rec_thresholds: recalls at which precision is read, in any order; by default 0, 0.01, ..., 1.
        max_detection_thresholds: one or three limits for the detections of an image and class, the highest scores
            first; by default 1, 10, 100, for keypoints 1, 10, 20. With [100] the only `mar_{limit}` is `mar_100`.
        class_metrics: also return the values of each class, at no cost unless `average` is "micro".
        extended_summary: also return `precision`, `recall` and `scores` on the whole grid, and `ious`.
        average: "macro" is the mean over classes, "micro" treats all labels as one class.
        backend: "pycocotools" or "faster_coco_eval"; accepted because TorchMetrics has it. Neither is used.
        area_ranges: least and largest area of ground truths by name, both inclusive. The values of the first range have
            no suffix (`map`, `mar_100`), the others are `map_{name}` and `mar_{name}`. By default COCO's: all, small,
            medium, large; for keypoints all, medium, large.
        rule: the average precision for a precision-recall curve of COCO's matching: "coco" reads the curve at 101
            recalls, "voc07" at 11, "voc" is the area under the envelope, "yolo", "yolov5" and "ultralytics" are the
            trapezoids of those code bases, see `compute_ap`. Recall and the grids of `extended_summary` remain COCO's.
        thresholds: the defaults of `iou_thresholds` and `rec_thresholds`: "coco", in float64; "torchmetrics", rounded
            to float32.
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50": then `compute` returns this number alone, a tensor for
            `LightningModule.log`. Besides the numbers of the dict there are "precision_50", "recall_50", "f1_50" and
            "confidence_50" for a detector that is used at one confidence, at an IoU threshold of 0.5, and with "_75" at
            0.75: means over the classes with ground truths, for precision over the classes that also have an accepted
            detection. "lrp" is the mean optimal localization recall precision at an IoU threshold of 0.5, with
            "lrp_localization", "lrp_fp" and "lrp_fn", see `DetectionResults.localization_errors`; less is better. A
            label after a slash, as in "map_50/7", selects the number of that class.
        confidence: the confidence for precision, recall and F1 of `metric`; None for the confidence with the highest
            mean of F1 over the classes.
        invalid: the treatment of detected boxes, keypoints and rotated boxes that are not finite or have a negative
            size, as networks predict them early in training. "count": they overlap nothing and count as in pycocotools,
            ignored where their area is outside the range (a negative one always is), otherwise as false positives; a
            warning says so once, and `num_invalid` counts them on this process. "drop": all such objects are left out,
            also ground truths, and also objects with such scores or areas; `num_dropped` counts them. "raise": they are
            an error.
        sigmas: one for each keypoint; by default COCO's 17, see `object_keypoint_similarity`.
        keep_shapes: keep masks as run lengths, keypoints and rotated boxes, so that `tm_to_coco` writes them.
        max_bytes: bound on the memory of `compute` for pairs of boxes, except for pairs that overlap; None for 256 MiB.
        options: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import DetectionMAP
        >>> metric = DetectionMAP()
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> detections = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([detections], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> values = metric.compute()  # one of two is found: precision is 1 up to recall 0.5, then 0
        >>> values["map"], values["mar_100"]
        (tensor(0.5050), tensor(0.5000))
    """

    @explicit_signature
    def __init__(  # noqa: PLR0917 - the order of TorchMetrics
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_type: _names.IouType | Sequence[_names.IouType] = "bbox",
        iou_thresholds: Iterable[float] | None = None,
        rec_thresholds: Iterable[float] | None = None,
        max_detection_thresholds: Iterable[int] | None = None,
        class_metrics: bool = False,  # noqa: FBT002
        extended_summary: bool = False,  # noqa: FBT002
        average: _names.Average = "macro",
        backend: _names.Backend = "pycocotools",
        *,
        area_ranges: Mapping[str, inputs.AreaRange] | None = None,
        rule: _names.DetectionRule = "coco",
        thresholds: _names.ThresholdsName = "coco",
        metric: str | None = None,
        confidence: float | None = None,
        sigmas: Sequence[float] | None = None,
        keep_shapes: bool = False,
        **options: Unpack[BoxOptions],
    ) -> None:
        super().__init__(box_format, iou_type=iou_type, sigmas=sigmas, class_metrics=class_metrics, **options)
        self.keep_shapes = base.python_bool("keep_shapes", keep_shapes)
        if keep_shapes and self._shape_types:
            self._keeps_shapes = True
            self._add_growing_states(batches.KEPT_STATES)
        _checks.one_of("average", average, _names.Average)
        _checks.one_of("backend", backend, _names.Backend)
        _checks.one_of("rule", rule, curves.AP_RULES)
        if rule != "coco" and rec_thresholds is not None:
            raise ValueError(f"`rec_thresholds` must be None with rule {rule!r}; got {rec_thresholds!r}.")
        self.backend = backend
        self.average = average
        self.rule = rule
        self.thresholds = thresholds
        self.sigmas = sigmas
        self.extended_summary = base.python_bool("extended_summary", extended_summary)
        self._set_grid(iou_thresholds, rec_thresholds, max_detection_thresholds, area_ranges)
        self.metric = metric
        self.confidence = confidence
        value_names = evaluation.coco_names(self._grid().value_names, self.iou_type)
        self._single = evaluation.chosen_value(metric, value_names, average=average, confidence=confidence)
        row = None if self._single is None else self._single.row
        if row is not None and not row.higher_is_better:
            vars(self)["higher_is_better"] = False  # a constant of the class to TorchMetrics

    def _set_grid(
        self,
        iou_thresholds: Iterable[float] | None,
        rec_thresholds: Iterable[float] | None,
        max_detection_thresholds: Iterable[int] | None,
        area_ranges: Mapping[str, inputs.AreaRange] | None,
    ) -> None:
        """Check and set the options of the grid; None stands for the evaluator's default."""
        # Keypoints have other limits and area ranges by default.
        default = self._evaluator().grid(iou_type=self.iou_type, thresholds=self.thresholds)
        if iou_thresholds is None:
            iou_thresholds = default.iou_thresholds
        if rec_thresholds is None:
            rec_thresholds = default.rec_thresholds
        if max_detection_thresholds is None:
            max_detection_thresholds = default.max_detection_thresholds
        if area_ranges is None:
            area_ranges = default.area_ranges

        self.max_detection_thresholds = _sorted_limits(max_detection_thresholds)
        _checks.fractions("iou_thresholds", iou_thresholds)
        _checks.fractions("rec_thresholds", rec_thresholds)
        self.iou_thresholds = list(map(float, iou_thresholds))
        self.rec_thresholds = sorted(map(float, rec_thresholds))
        inputs.check_area_ranges(area_ranges)
        self.area_ranges = {name: (float(least), float(most)) for name, (least, most) in area_ranges.items()}

        # An area range that is named "50" would have the value "map_50", as the threshold 0.5 has.
        largest_limit = self.max_detection_thresholds[-1]
        value_names = [*self._grid().value_names, "map_per_class", f"mar_{largest_limit}_per_class"]
        for position, name in enumerate(value_names):
            if name in value_names[:position]:
                raise ValueError(f"`area_ranges` must give every value a name of its own; got {name!r} twice.")

    def compute(self) -> Any:
        """Return COCO's averages of precision and recall, float32; -1 where there are no ground truths to average over.

        Returns:
            With `metric` that number alone, a tensor without dimensions. Without it a dict of tensors by name: `map`,
            the mean average precision; `map_50` and `map_75`, at one IoU threshold; `map_{name}`, in an area range;
            `mar_{limit}`, the mean recall with at most that many detections; `mar_{name}`, in an area range;
            `map_per_class` and `mar_{limit}_per_class` with `class_metrics`, else -1; `classes`, the labels of all
            boxes. With `extended_summary` also `ious`, a dict of matrices [detections, ground truths] for every image
            (by its `image_id`, else its number) and class, detections by descending score; `precision`
            [T, R, K, A, M], `recall` [T, K, A, M] and `scores` [T, R, K, A, M], float64. The annotation is `Any`, so
            that type checkers take the value as either.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
        """
        return self._value()

    def _values(self, matches: Sequence[evaluation.ImageMatches]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        num_types = len(self.iou_type)
        of_classes = matches[num_types:] or matches
        for image_matches, matches_of_classes in zip(matches[:num_types], of_classes, strict=True):
            prefix = evaluation.prefix(image_matches.request.iou_type, self.iou_type)
            for name, value in self._values_of_type(image_matches, matches_of_classes).items():
                values[prefix + name] = value
        # All types have the same labels. They are int32 as in TorchMetrics, or int64 where they do not fit.
        labels = matches[0].labels
        int32_labels = labels.int()
        fits_int32 = torch.equal(int32_labels.long(), labels)
        values["classes"] = (int32_labels if fits_int32 else labels.clone()).to(self.device)
        return values

    def _values_of_type(self, images: evaluation.ImageMatches, of_classes: evaluation.ImageMatches) -> dict[str, Any]:
        """Return the values for one `iou_type` in the dtypes of TorchMetrics: numbers, grids, numbers per class.

        `of_classes` are the matches of each class.
        """
        grid = images.request.grid
        averages = images.averages(self.rule)
        # One copy from the device for all numbers.
        numbers = self._rounded(averages.numbers()).unbind()
        values: dict[str, Any] = dict(zip(grid.value_names, numbers, strict=True))
        if self.extended_summary:
            values.update(self._extended_summary(images))
        class_values = {}
        if self.class_metrics:
            class_values = of_classes.averages(self.rule).of_classes()
        no_value = torch.tensor(-1.0, device="cpu")
        for name in ("map", f"mar_{grid.max_detection_thresholds[-1]}"):
            value = class_values.get(name, no_value)
            values[f"{name}_per_class"] = self._rounded(value.nan_to_num(-1.0))
        return values

    def _extended_summary(self, images: evaluation.ImageMatches) -> dict[str, Any]:
        """Return the overlaps in each image and class, and precision, recall and scores on the whole grid."""
        assert images.ids is not None  # noqa: S101 - the request has overlaps
        grids = evaluators.evaluate_matches(images.matches, images.request.grid)
        image_ids = inputs.name_images(images.ids, images.names)
        overlaps = evaluation.Overlaps.matrices(images.overlaps, image_ids, grids.classes)
        summary: dict[str, Any] = {}
        summary["ious"] = {image_and_class: matrix.to(self.device) for image_and_class, matrix in overlaps.items()}
        for name in ("precision", "recall", "scores"):
            summary[name] = getattr(grids, name).to(compute_device(self.device))
        return summary

    def _match_requests(self) -> list[evaluation.MatchRequest]:
        """Return one request per `iou_type`; with "micro" and values of classes also one each for their matches."""
        if self._single is not None:
            row = self._single.row
            localization = row is not None and row.needs_localization
            return [self._request(self._single.iou_type, localization=localization)]
        requests = [self._request(iou_type, with_overlaps=self.extended_summary) for iou_type in self.iou_type]
        if self.average == "micro" and self.class_metrics:
            for request in requests[:]:
                grid = replace(request.grid, average="macro")
                requests.append(replace(request, grid=grid, with_overlaps=False))
        return requests

    def _grid(self, iou_type: Any = None) -> inputs.CocoGrid:
        return _cached_grid(
            ranges=tuple(self.area_ranges.items()),
            iou_thresholds=tuple(self.iou_thresholds),
            rec_thresholds=tuple(self.rec_thresholds),
            max_detection_thresholds=tuple(self.max_detection_thresholds),
            iou_type=iou_type or self.iou_type[0],
            sigmas=None if self.sigmas is None else tuple(self.sigmas),
            average=self.average,
            drops_invalid=self.invalid == "drop",
        )

    def _log_instead(self) -> str | None:
        if self.metric is not None:
            return None
        return 'DetectionMAP(metric="map")` by it, or `DetectionMetrics()` by `self.log_dict'

    def _numbers(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        names = evaluation.names_of_values(self._grid().value_names, self.iou_type)
        return {name: value[name] for name in names}

    def extra_repr(self) -> str:
        """Return the options that decide the value; thresholds and some others only if they are not the defaults."""
        names = ("box_format", "max_detection_thresholds", "average", "rule", "metric")
        always = {name: getattr(self, name) for name in names}
        iou_thresholds, rec_thresholds = inputs.THRESHOLDS[self.thresholds]
        # The metric converts these arguments, so its attributes differ from the defaults in the signature.
        defaults = {
            "iou_type": ("bbox",),
            "iou_thresholds": list(iou_thresholds),
            "rec_thresholds": list(rec_thresholds),
            "area_ranges": inputs.COCO_AREA_RANGES,
            "class_names": {},
        }
        return base.show_arguments(self, always, defaults)


def _sorted_limits(limits: Any) -> list[int]:
    """Return limits in ascending order; raise unless they are one or three positive integers."""
    if isinstance(limits, (list, tuple)):  # TorchMetrics takes floats that are whole numbers, too
        limits = [int(limit) if isinstance(limit, float) and limit.is_integer() else limit for limit in limits]
    _checks.positive_ints("max_detection_thresholds", limits, distinct=False, fits_int64=False)
    if len(limits) not in (3, 1):
        raise ValueError(f"`max_detection_thresholds` must hold 3 numbers or 1; got {limits!r}.")
    return sorted(limits)
