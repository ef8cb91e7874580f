"""Evaluators of masks, each from batches of masks to COCO's 12 numbers by the fastest way that it offers.

Masks are bool [n, height, width] of every image, as a model gives them, or COCO's dicts of run lengths. All peers but
TorchMetrics are told to encode all masks of an image in one call; what they keep is run lengths.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from torch import Tensor

from harness.detection_peers import COCO_LIMITS, evaluated, numbers
from harness.mask_problems import HEIGHT, NUM_CLASSES, WIDTH, Batch
from harness.torchvision_stand_in import stand_in_for_torchvision
from reid_torchmetrics import DetectionMAP


class Evaluation(ABC):
    """An evaluator that is given batches."""

    @abstractmethod
    def update(self, preds: Batch, target: Batch) -> None:
        """See some images."""

    @abstractmethod
    def numbers(self) -> list[float]:
        """COCO's 12."""


class OfMetric(Evaluation):
    """A metric of TorchMetrics, or ours."""

    def __init__(self, metric) -> None:
        """Hold it."""
        self._metric = metric

    def update(self, preds: Batch, target: Batch) -> None:
        """See `Evaluation`."""
        self._metric.update(preds, target)

    def numbers(self) -> list[float]:
        """See `Evaluation`."""
        return numbers(self._metric.compute(), COCO_LIMITS)


@dataclass
class OfRows(Evaluation):
    """An evaluator of COCO's dictionaries, for both sides."""

    tools: str
    """the module that encodes masks"""
    evaluate: Callable[[dict[str, list], list[dict[str, object]]], list[float]]
    images: list[dict[str, object]] = field(default_factory=list)
    annotations: list[dict[str, object]] = field(default_factory=list)
    results: list[dict[str, object]] = field(default_factory=list)

    def update(self, preds: Batch, target: Batch) -> None:
        """See `Evaluation`."""
        tools = importlib.import_module(self.tools)
        for found, true in zip(preds, target, strict=True):
            image = {"image_id": true["image_id"]}
            self.images.append({"id": true["image_id"], "height": HEIGHT, "width": WIDTH})
            scored = zip(encoded(found, tools), found["scores"].tolist(), found["labels"].tolist(), strict=True)
            self.results += [image | {"segmentation": mask, "score": s, "category_id": c} for mask, s, c in scored]
            masks = encoded(true, tools)
            whole = zip(masks, np.asarray(tools.area(masks)).tolist(), true["labels"].tolist(), strict=True)
            self.annotations += [
                image | {"segmentation": mask, "area": area, "category_id": label, "iscrowd": 0, "bbox": [0, 0, 1, 1]}
                for mask, area, label in whole
            ]

    def numbers(self) -> list[float]:
        """See `Evaluation`."""
        for number, row in enumerate(self.annotations, start=1):
            row["id"] = number
        categories = [{"id": label, "name": str(label)} for label in range(NUM_CLASSES)]
        truths = {"info": {}, "images": self.images, "categories": categories, "annotations": self.annotations}
        return self.evaluate(truths, self.results)


@dataclass
class OfVernier(Evaluation):
    """Run lengths of hotcoco, which encodes faster than vernier takes masks in."""

    preds: list[dict[str, object]] = field(default_factory=list)
    target: list[dict[str, object]] = field(default_factory=list)

    def update(self, preds: Batch, target: Batch) -> None:
        """See `Evaluation`."""
        tools = importlib.import_module("hotcoco.mask")
        for batch, kept in ((preds, self.preds), (target, self.target)):
            for item in batch:
                columns = {name: value for name, value in item.items() if name in ("scores", "labels")}
                kept.append(columns | {"rles": encoded(item, tools)})

    def numbers(self) -> list[float]:
        """See `Evaluation`."""
        from vernier.adapters import coco_metrics  # noqa: PLC0415

        values = coco_metrics(self.preds, self.target, iou_type="segm", parity_mode="strict", num_threads=1)
        return numbers(values, COCO_LIMITS)


def encoded(item: dict[str, object], tools) -> list[dict[str, object]]:
    """The run lengths of an image, which may be there already."""
    masks = item["masks"]
    if not isinstance(masks, Tensor):
        return masks
    return tools.encode(np.asfortranarray(masks.numpy().transpose(1, 2, 0).view(np.uint8)))


def torchmetrics(backend: str) -> Callable[[], Evaluation]:
    """`MeanAveragePrecision`, but for thresholds that are not rounded to float32."""

    def begin() -> Evaluation:
        stand_in_for_torchvision()
        from torchmetrics.detection.mean_ap import MeanAveragePrecision  # noqa: PLC0415

        thresholds = {"iou_thresholds": np.linspace(0.5, 0.95, 10), "rec_thresholds": np.linspace(0, 1, 101)}
        lists = {name: values.tolist() for name, values in thresholds.items()}
        return OfMetric(MeanAveragePrecision(iou_type="segm", backend=backend, **lists))

    return begin


def pycocotools(truths: dict[str, list], results: list[dict[str, object]]) -> list[float]:
    """Dictionaries for both."""
    from pycocotools.coco import COCO  # noqa: PLC0415
    from pycocotools.cocoeval import COCOeval  # noqa: PLC0415

    truth = COCO()
    truth.dataset = truths
    truth.createIndex()
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def faster_coco_eval(truths: dict[str, list], results: list[dict[str, object]]) -> list[float]:
    """Dictionaries for both."""
    from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415

    truth = COCO(truths)
    return evaluated(COCOeval_faster(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def hotcoco(truths: dict[str, list], results: list[dict[str, object]]) -> list[float]:
    """Dictionaries for both."""
    from hotcoco import COCO, COCOeval  # noqa: PLC0415

    truth = COCO(truths)
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def ultrafast_pycocotools(truths: dict[str, list], results: list[dict[str, object]]) -> list[float]:
    """Dictionaries for both."""
    from ultrafast_pycocotools import COCO, COCOeval  # noqa: PLC0415

    truth = COCO(truths, verbose=False)
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


class Contestant(NamedTuple):
    """An evaluator."""

    begin: Callable[[], Evaluation]
    packages: tuple[str, ...]
    """that it needs"""
    takes_run_lengths: bool = True


CONTESTANTS: dict[str, Contestant] = {
    "ours": Contestant(lambda: OfMetric(DetectionMAP(iou_type="segm")), ()),
    "hotcoco": Contestant(lambda: OfRows("hotcoco.mask", hotcoco), ("hotcoco",)),
    "ultrafast-pycocotools": Contestant(
        lambda: OfRows("ultrafast_pycocotools.mask", ultrafast_pycocotools), ("ultrafast-pycocotools",)
    ),
    "vernier": Contestant(OfVernier, ("vernier", "pyarrow", "hotcoco")),
    "faster-coco-eval": Contestant(
        lambda: OfRows("faster_coco_eval.core.mask", faster_coco_eval), ("faster-coco-eval",)
    ),
    "pycocotools": Contestant(lambda: OfRows("pycocotools.mask", pycocotools), ("pycocotools",)),
    "TorchMetrics, faster-coco-eval": Contestant(
        torchmetrics("faster_coco_eval"), ("faster-coco-eval",), takes_run_lengths=False
    ),
    "TorchMetrics": Contestant(torchmetrics("pycocotools"), ("pycocotools",), takes_run_lengths=False),
}
