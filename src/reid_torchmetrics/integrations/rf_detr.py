"""A back end for RF-DETR: `DetectionMAP` evaluates the images of RF-DETR's metric."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torchmetrics.detection.helpers import CocoBackend

from reid_torchmetrics import _checks
from reid_torchmetrics.metrics.detection import DetectionMAP

# Keys of `update`, and names of RF-DETR's states without the prefix "detection_" or "groundtruth_".
_DETECTION_STATES = {"boxes": "box", "masks": "mask", "labels": "labels", "scores": "scores"}
_GROUND_TRUTH_STATES = {"boxes": "box", "masks": "mask", "labels": "labels", "iscrowd": "crowds", "area": "area"}


class RfDetrBackend(CocoBackend):
    """A back end for the registry of RF-DETR; it has a method `results` and uses no evaluator of COCO's API."""

    requires_bbox = False
    uses_coco_evaluator = False
    unused_backend_methods = ("_get_coco_datasets", "_get_coco_format", "_coco_stats_to_tensor_dict")

    def __init__(self) -> None:
        super().__init__("faster_coco_eval")  # it encodes the masks in `update`

    @staticmethod
    def results(metric: Any) -> dict[str, Tensor]:
        """Compute the numbers of the images in RF-DETR's metric, by its keys, float32; -1 for undefined numbers.

        `map_per_class`, `mar_{limit}_per_class` and `classes` are vectors.
        """
        evaluator = DetectionMAP(
            "xywh",
            metric.iou_type,
            metric.iou_thresholds,
            metric.rec_thresholds,
            metric.max_detection_thresholds,
            metric.class_metrics,
            sync_on_compute=False,
        )
        evaluator.warn_on_many_detections = False
        preds = _images(metric, "detection", _DETECTION_STATES)
        target = _images(metric, "groundtruth", _GROUND_TRUTH_STATES)
        evaluator.update(preds, target)
        values: Any = evaluator.compute()
        numbers = {}
        for name, value in values.items():
            is_vector = name.endswith(("per_class", "classes"))
            numbers[name] = value.view(-1) if is_vector else value
        return numbers


def _images(metric: Any, prefix: str, states: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the images as `update` takes them; without boxes or masks if the metric has none."""
    columns = {}
    for key, name in states.items():
        values = getattr(metric, f"{prefix}_{name}")
        if values:
            columns[key] = values
    images = [dict(zip(columns, image, strict=True)) for image in zip(*columns.values(), strict=True)]
    for image in images:
        if "boxes" in image:  # TorchMetrics stores [1, 0] for no boxes
            image["boxes"] = image["boxes"].view(-1, 4)
        if "masks" in image:  # TorchMetrics stores pairs of size and counts
            image["masks"] = [{"size": size, "counts": counts} for size, counts in image["masks"]]
    return images


def register_rf_detr(name: str | None = None) -> None:
    """Replace the back ends of RF-DETR by this package, under their names, because the settings accept no other names.

    Call this in each process before the training starts. The numbers are equal to those of RF-DETR's own back ends, bit
    for bit.

    Args:
        name: the only back end to replace, one of RF-DETR's values of `eval_backend`; all of them by default, so that
            every value of the setting evaluates with this package.

    Raises:
        ImportError: RF-DETR is not installed, or has no such registry.
        ValueError: an unknown name.
    """
    coco_map: Any = importlib.import_module("rfdetr.training.coco_map")
    backends = vars(coco_map)["_BACKENDS"]
    if name is not None:
        _checks.one_of("name", name, backends)
    names = list(backends) if name is None else [name]
    for backend_name in names:
        backends[backend_name] = RfDetrBackend
    metric_class = coco_map.OnePassCocoMeanAveragePrecision
    compute = metric_class.compute

    @functools.wraps(compute)
    def compute_by_backend(metric: Any) -> Any:
        backend = vars(metric)["_coco_backend"]
        if isinstance(backend, RfDetrBackend):
            return backend.results(metric)
        return compute(metric)

    metric_class.compute = compute_by_backend
