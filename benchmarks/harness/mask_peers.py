"""Evaluators of masks, each from batches of masks to COCO's 12 numbers by the fastest way that it offers.

Masks are bool [n, height, width] of every image, as a model gives them, or COCO's dicts of run lengths. Peers are told
to encode all masks of an image in one call; what they keep is run lengths.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from harness.detection_peers import COCO_LIMITS, evaluated, numbers
from harness.mask_problems import HEIGHT, NUM_CLASSES, WIDTH, Batch
from reid_torchmetrics import DetectionMAP


class Evaluation(ABC):
    """An evaluator that is given batches."""

    @abstractmethod
    def update(self, preds: Batch, target: Batch) -> None:
        """See some images."""

    @abstractmethod
    def numbers(self) -> list[float]:
        """COCO's 12."""


class Ours(Evaluation):
    """`DetectionMAP`."""

    def __init__(self) -> None:
        """Hold it."""
        self._metric = DetectionMAP(iou_type="segm")

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


def pycocotools(truths: dict[str, list], results: list[dict[str, object]]) -> list[float]:
    """Dictionaries for both."""
    from pycocotools.coco import COCO  # noqa: PLC0415
    from pycocotools.cocoeval import COCOeval  # noqa: PLC0415

    truth = COCO()
    truth.dataset = truths
    truth.createIndex()
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


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


CONTESTANTS: dict[str, tuple[Callable[[], Evaluation], tuple[str, ...]]] = {
    "ours": (Ours, ()),
    "hotcoco": (lambda: OfRows("hotcoco.mask", hotcoco), ("hotcoco",)),
    "ultrafast-pycocotools": (
        lambda: OfRows("ultrafast_pycocotools.mask", ultrafast_pycocotools),
        ("ultrafast-pycocotools",),
    ),
    "vernier": (OfVernier, ("vernier", "pyarrow", "hotcoco")),
    "pycocotools": (lambda: OfRows("pycocotools.mask", pycocotools), ("pycocotools",)),
}
"""what begins an evaluation, and the packages that it needs"""
