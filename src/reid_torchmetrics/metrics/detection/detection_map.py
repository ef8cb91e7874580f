"""Detection: COCO's mean average precision and recall of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics.functional.detection import batches, curves, evaluation, evaluators, inputs
from reid_torchmetrics.metrics import base

from .box_metric import BoxMetric, BoxOptions, explicit_signature


class DetectionOptions(BoxOptions, total=False):
    """The options of `DetectionMAP` but for `metric` and `confidence`."""

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
def _grid_of(thresholds: Any, recalls: Any, limits: Any, ranges: Any) -> inputs.CocoGrid:
    """A grid, its area ranges as pairs; made and checked once, as a training loop asks for it each step."""
    return inputs.CocoGrid(thresholds, recalls, limits, dict(ranges))


class DetectionMAP(BoxMetric):
    """Mean average precision and recall of detected boxes as COCO defines them: the numbers of pycocotools.

    It takes the place of `torchmetrics.detection.MeanAveragePrecision`: arguments, `update`, and keys and shapes of
    what `compute` gives are the same. It runs on the device of the boxes and needs neither torchvision nor
    pycocotools. It deliberately differs in:

    - The default thresholds are pycocotools' own, in float64. TorchMetrics rounds them to float32, which moves
      `map` by 0.001 on images of COCO; `thresholds="torchmetrics"` gives its numbers.
    - `image_id` in the dicts of `target` decides which of equal scores comes first, in ascending order as in
      pycocotools, whatever the order of the batches or the processes that saw them. Images that a distributed sampler
      repeated count once, and images with other ground truths under the same id are an error. Without it, images are in
      the order in which they came; in TorchMetrics they always are.
    - `map` with `max_detection_thresholds` that do not contain 100 is that at the largest of them, not -1.
    - A detected box with a NaN is a false positive; in pycocotools, and so in TorchMetrics, most take the last ground
      truth of their class that is free. Other boxes that are inverted or not finite count as there, with a warning.
    - `update` refuses scores and areas that are not finite, and ground truths that are not or have a negative size,
      unless `invalid` is "drop", and then stores nothing of the batch. What has the wrong type is a TypeError.
    - `compute` gives all its keys also before any image was seen. In `ious` an image and class without boxes on one
      side has a tensor without entries, not an empty list.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_type: "bbox", boxes; "segm", masks; "keypoints"; "rotated", rotated boxes; or ("bbox", "segm"): then the
            type is put in front of the names of all values but `classes`, as in `bbox_map` and `segm_map`.
        iou_thresholds: least overlaps of a match; by default 0.5, 0.55, ..., 0.95, see `thresholds`.
        rec_thresholds: recalls at which precision is read, which are put in ascending order; by default 0, 0.01, ...,
            1.
        max_detection_thresholds: one or three limits of the detections of an image and class, which keep the highest
            scores; by default 1, 10, 100, of keypoints 1, 10, 20. With [100] alone `mar_100` is the only one with a
            limit in its name.
        class_metrics: also give the values of each class, which costs nothing unless `average` is "micro".
        extended_summary: also give `precision`, `recall` and `scores` on the whole grid, and `ious`.
        average: "macro" is the mean over classes, "micro" takes all labels for one class.
        backend: "pycocotools" or "faster_coco_eval"; accepted because TorchMetrics has it. Neither is used.
        area_ranges: least and largest area of ground truths by name, both inside. The first range has the values
            without a name (`map`, `mar_100`), another one `map_{name}` and `mar_{name}`. By default COCO's:
            all, small, medium, large; of keypoints all, medium, large.
        rule: how the precision-recall curve of COCO's matching becomes an average precision: "coco" reads it at 101
            recalls, "voc07" at 11, "voc" is the area under the envelope, "yolo", "yolov5" and "ultralytics" are the
            trapezoids of those code bases, see `compute_ap`. Recall and the grids of `extended_summary` remain COCO's.
        thresholds: what `iou_thresholds` and `rec_thresholds` are by default: "coco", in float64; "torchmetrics", those
            rounded to float32.
        class_names: names of the classes by label, for the keys, tables and pictures of `results`.
        metric: the name of one number, such as "map_50": it is then all that `compute` gives, a tensor that
            `LightningModule.log` takes. Besides the numbers of the dict there are "precision_50", "recall_50", "f1_50"
            and "confidence_50" for a detector that is used at one confidence, at an IoU threshold of 0.5, and with
            "_75" at 0.75: means over the classes with ground truths, for precision over the classes that also have an
            accepted detection. "lrp" is the mean optimal localization recall precision at an IoU threshold of 0.5, with
            "lrp_localization", "lrp_fp" and "lrp_fn", see `DetectionResults.localization_errors`; less is better. A
            label behind a slash, as in "map_50/7", stands for that class alone.
        confidence: where precision, recall and F1 of `metric` are taken; None for the confidence with the highest mean
            of F1 over the classes.
        invalid: how to treat detected boxes, keypoints and rotated boxes that are not finite or of negative size, as
            a network gives them while it learns. "count", they overlap nothing and count as in pycocotools: ignored
            where their area is outside of the range, such as a negative one, otherwise as false positives; one warning
            says so, and `num_invalid` counts those of this process. "drop", all such objects are left out, ground
            truths and those with such scores and areas, too; `num_dropped` counts them. "raise", they are an error.
        sigmas: of keypoints, one for each; by default COCO's 17, see `object_keypoint_similarity`.
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
        self.backend = backend
        _checks.one_of("rule", rule, curves.AP_RULES)
        if rule != "coco" and rec_thresholds is not None:
            raise ValueError(f"`rec_thresholds` must be None with rule {rule!r}; got {rec_thresholds!r}.")
        self.average, self.rule, self.thresholds, self.sigmas = average, rule, thresholds, sigmas
        self.extended_summary = base.python_bool("extended_summary", extended_summary)
        # Keypoints have other limits and area ranges by default.
        usual = self._evaluator().grid(iou_type=self.iou_type, thresholds=thresholds)
        limits = usual.max_detection_thresholds if max_detection_thresholds is None else max_detection_thresholds
        self.max_detection_thresholds = _checked_limits(limits)
        chosen = usual.iou_thresholds if iou_thresholds is None else iou_thresholds
        recalls = usual.rec_thresholds if rec_thresholds is None else rec_thresholds
        _checks.fractions("iou_thresholds", chosen)
        _checks.fractions("rec_thresholds", recalls)
        self.iou_thresholds, self.rec_thresholds = [*map(float, chosen)], sorted(map(float, recalls))
        ranges = usual.area_ranges if area_ranges is None else area_ranges
        inputs.check_area_ranges(ranges)
        self.area_ranges = {name: (float(least), float(most)) for name, (least, most) in ranges.items()}
        # Types of overlaps, limits and ranges decide the names of the values.
        names = self._grid().value_names
        # "map_50" is a threshold, but also an area range that somebody names "50".
        keys = [*names, "map_per_class", f"mar_{self.max_detection_thresholds[-1]}_per_class"]
        for name in (name for place, name in enumerate(keys) if name in keys[:place]):
            raise ValueError(f"`area_ranges` must give every value a name of its own; got {name!r} twice.")
        self.metric, self.confidence = metric, confidence
        known = evaluation.coco_names(names, self.iou_type)
        self._single = evaluation.chosen_value(metric, known, average=average, confidence=confidence)
        if self._single is not None and self._single.is_lrp:
            vars(self)["higher_is_better"] = False  # a constant of the class to TorchMetrics

    def compute(self) -> dict[str, Any] | Tensor:
        """Precision and recall averaged as COCO does, float32; -1 where there is no ground truth to average over.

        Returns:
            `map`, the mean average precision; `map_50` and `map_75` that at one IoU threshold; `map_{name}` that of an
            area range; `mar_{limit}` the mean recall with so many detections, `mar_{name}` that of an area range;
            `map_per_class` and `mar_{limit}_per_class` with `class_metrics`, else -1; `classes`, the labels of all
            boxes. With `extended_summary` also `ious`, a matrix [detections, ground truths] for every image, by its
            `image_id` or else its number, and class, detections by descending score; `precision` [T, R, K, A, M],
            `recall` [T, K, A, M] and `scores` [T, R, K, A, M], float64. With `metric` that number alone.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
        """
        return self._value()

    def _values(self, matches: Sequence[evaluation.ImageMatches]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for each in matches:
            begin = evaluation.prefix(each.request.iou_type, self.iou_type)
            values |= {begin + name: value for name, value in self._values_of_type(each).items()}
        # All types have the same classes: in the dtype of TorchMetrics, or as they are where they do not fit it.
        labels = matches[0].labels
        narrow = labels.int()
        return values | {"classes": (narrow if torch.equal(narrow.long(), labels) else labels.clone()).to(self.device)}

    def _values_of_type(self, images: evaluation.ImageMatches) -> dict[str, Any]:
        """COCO's numbers, then grids and overlaps, then the numbers of each class, in the dtypes of TorchMetrics."""
        grid, averages = images.request.grid, images.averages(self.rule)
        # One copy from the device for all numbers.
        values: dict[str, Any] = dict(zip(grid.value_names, self._rounded(averages.numbers()).unbind(), strict=True))
        if self.extended_summary:
            assert images.ids is not None  # noqa: S101 - the request is not plain
            grids = evaluators.evaluate_matches(images.matches, grid)
            image_ids = inputs.name_images(images.ids, images.names)
            overlaps = evaluation.Overlaps.matrices(images.overlaps, image_ids, grids.classes)
            values["ious"] = {group: each.to(self.device) for group, each in overlaps.items()}
            for name in ("precision", "recall", "scores"):
                values[name] = getattr(grids, name).to(compute_device(self.device))
        of_classes = (images.by_class or images).averages(self.rule).of_classes() if self.class_metrics else {}
        nothing = torch.tensor(-1.0, device="cpu")
        for name in ("map", f"mar_{grid.max_detection_thresholds[-1]}"):
            values[f"{name}_per_class"] = self._rounded(of_classes.get(name, nothing).nan_to_num(-1.0))
        return values

    def _match_requests(self) -> list[evaluation.MatchRequest]:
        """The matches of each type of overlaps; under "micro" also of the classes if their values are wanted."""
        if self._single is not None:
            return [self._request(self._single.iou_type, localization=self._single.is_lrp)]
        wanted = {"with_classes": self.average == "micro" and self.class_metrics}
        wanted["with_overlaps"] = self.extended_summary
        return [self._request(each, **wanted) for each in self.iou_type]

    def _request(self, iou_type: str | None = None, **changes: Any) -> evaluation.MatchRequest:
        return super()._request(iou_type, micro=self.average == "micro", **changes)

    def _grid(self) -> inputs.CocoGrid:
        limits, ranges = tuple(self.max_detection_thresholds), tuple(self.area_ranges.items())
        return _grid_of(tuple(self.iou_thresholds), tuple(self.rec_thresholds), limits, ranges)

    def _log_instead(self) -> str | None:
        if self.metric is not None:
            return None
        return 'DetectionMAP(metric="map")` by it, or `DetectionMetrics()` by `self.log_dict'

    def _numbers(self, value: Any) -> Any:
        names = evaluation.names_of_values(self._grid().value_names, self.iou_type)
        return {name: value[name] for name in names} if isinstance(value, Mapping) else value

    def extra_repr(self) -> str:
        """The options that decide the value, thresholds and other options where they were chosen."""
        shown = ("box_format", "max_detection_thresholds", "average", "rule", "metric")
        iou_thresholds, recalls = map(list, inputs.THRESHOLDS[self.thresholds])
        # Attributes hold what the metric made of these arguments.
        defaults = {
            "iou_type": ("bbox",),
            "iou_thresholds": iou_thresholds,
            "rec_thresholds": recalls,
            "area_ranges": inputs.COCO_AREA_RANGES,
            "class_names": {},
        }
        return base.show_arguments(self, {name: getattr(self, name) for name in shown}, defaults)


def _checked_limits(limits: Any) -> list[int]:
    if isinstance(limits, (list, tuple)):  # TorchMetrics takes floats that are whole numbers, too
        limits = [int(each) if isinstance(each, float) and each.is_integer() else each for each in limits]
    _checks.positive_ints("max_detection_thresholds", limits, distinct=False, fits_int64=False)
    if len(limits) not in (3, 1):
        raise ValueError(f"`max_detection_thresholds` must hold 3 numbers or 1; got {limits!r}.")
    return sorted(limits)
