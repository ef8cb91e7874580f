"""A back end for the evaluation of RF-DETR: the images of its metric, evaluated by `DetectionMAP`."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from torch import Tensor
from torchmetrics.detection.helpers import CocoBackend

from reid_torchmetrics import _checks
from reid_torchmetrics.metrics.detection import DetectionMAP

# The keys of `update`, and the ends of the names of the states with their values.
_STATES = {"boxes": "box", "masks": "mask", "labels": "labels"}
_SIDES = {"detection": {"scores": "scores"}, "groundtruth": {"iscrowd": "crowds", "area": "area"}}


class RfDetrBackend(CocoBackend):
    """A back end as the registry of RF-DETR has them: it calls no evaluator of COCO's API, and has a results method."""

    requires_bbox = False
    uses_coco_evaluator = False
    unused_backend_methods = ("_get_coco_datasets", "_get_coco_format", "_coco_stats_to_tensor_dict")

    def __init__(self) -> None:
        super().__init__("faster_coco_eval")  # it encodes the masks in `update`

    @staticmethod
    def results(metric: Any) -> dict[str, Tensor]:
        """The numbers of the images that the metric of RF-DETR holds, by its keys, float32; -1 for what is undefined.

        `map_per_class`, `mar_{limit}_per_class` and `classes` are vectors.
        """
        thresholds = metric.iou_thresholds, metric.rec_thresholds, metric.max_detection_thresholds
        ours = DetectionMAP("xywh", metric.iou_type, *thresholds, metric.class_metrics, sync_on_compute=False)
        ours.warn_on_many_detections = False
        ours.update(*(_images(metric, side) for side in _SIDES))
        values: Any = ours.compute()
        vectors = "per_class", "classes"
        return {name: value.view(-1) if name.endswith(vectors) else value for name, value in values.items()}


def _images(metric: Any, side: str) -> list[dict[str, Any]]:
    """The images of a side, as `update` takes them; without boxes or masks if the metric has none."""
    states = {key: getattr(metric, f"{side}_{name}") for key, name in (_STATES | _SIDES[side]).items()}
    filled = {key: values for key, values in states.items() if values}
    images = [dict(zip(filled, image, strict=True)) for image in zip(*filled.values(), strict=True)]
    for image in images:  # TorchMetrics has boxes [1, 0] for none, and pairs of size and counts
        if "boxes" in image:
            image["boxes"] = image["boxes"].view(-1, 4)
        if "masks" in image:
            image["masks"] = [{"size": size, "counts": counts} for size, counts in image["masks"]]
    return images


def register_rf_detr(name: str = "hotcoco") -> None:
    """Let RF-DETR evaluate by this package: under the name of one of its back ends, for its settings know no others.

    Call it before the training begins, in each process. Numbers are those of the other back ends, bit for bit.

    Args:
        name: the value of `eval_backend`, one of RF-DETR's; "hotcoco" is its default.

    Raises:
        ImportError: RF-DETR is not installed, or has no such registry.
        ValueError: an unknown name.
    """
    coco_map: Any = importlib.import_module("rfdetr.training.coco_map")
    backends = vars(coco_map)["_BACKENDS"]
    _checks.one_of("name", name, backends)
    backends[name] = RfDetrBackend
    metric_class = coco_map.OnePassCocoMeanAveragePrecision
    compute = metric_class.compute

    @functools.wraps(compute)
    def compute_by_backend(metric: Any) -> dict[str, Tensor]:
        backend = vars(metric)["_coco_backend"]
        return backend.results(metric) if isinstance(backend, RfDetrBackend) else compute(metric)

    metric_class.compute = compute_by_backend
