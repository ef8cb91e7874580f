"""Evaluators of masks, each from lists of masks to COCO's 12 numbers by the fastest way that it offers.

Masks are bool [n, height, width] of every image, as a model gives them. All peers but TorchMetrics are told to encode
all masks of an image in one call; what they keep is run lengths.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from harness.detection_peers import COCO_LIMITS, evaluated, numbers, stand_in_for_torchvision
from reid_torchmetrics import DetectionMAP

Batch = list[dict[str, Tensor]]
BATCH = 8
"""images given to `update` at a time"""
HEIGHT, WIDTH = 480, 640
NUM_FOUND, NUM_TRUE, NUM_CLASSES = 50, 15, 10


def mask_problem(num_images: int, seed: int = 0) -> tuple[Batch, Batch]:
    """Ellipses with a bite, and detections that are moved and stretched ones."""
    rng = np.random.default_rng(seed)
    rows, columns = np.arange(HEIGHT)[:, None], np.arange(WIDTH)
    preds, target = [], []
    for image in range(num_images):
        centers = rng.random((NUM_TRUE, 2)) * (HEIGHT, WIDTH)
        radii = np.exp(rng.uniform(np.log(10), np.log(160), (NUM_TRUE, 2)))
        labels = rng.integers(NUM_CLASSES, size=NUM_TRUE)
        chosen = rng.integers(NUM_TRUE, size=NUM_FOUND)
        moved = centers[chosen] + rng.normal(size=(NUM_FOUND, 2)) * radii[chosen] * 0.15
        sizes = radii[chosen] * np.exp(0.15 * rng.normal(size=(NUM_FOUND, 2)))

        def masks(at: np.ndarray, size: np.ndarray) -> Tensor:
            drawn = [
                ((rows - y) / h) ** 2 + ((columns - x) / w) ** 2 + 0.1 * np.sin(columns / 7.0) < 1
                for (y, x), (h, w) in zip(at, size, strict=True)
            ]
            return torch.from_numpy(np.stack(drawn))

        scores = torch.from_numpy(rng.random(NUM_FOUND).astype(np.float32))
        found_labels = torch.from_numpy(labels[chosen])
        preds.append({"masks": masks(moved, sizes), "scores": scores, "labels": found_labels})
        target.append({"masks": masks(centers, radii), "labels": torch.from_numpy(labels), "image_id": image + 1})
    return preds, target


def ours(preds: Batch, target: Batch) -> list[float]:
    """`DetectionMAP`."""
    return _of_metric(DetectionMAP(iou_type="segm"), preds, target)


def torchmetrics(backend: str) -> Callable[[Batch, Batch], list[float]]:
    """`MeanAveragePrecision`, but for thresholds that are not rounded to float32."""

    def evaluate(preds: Batch, target: Batch) -> list[float]:
        stand_in_for_torchvision()
        from torchmetrics.detection.mean_ap import MeanAveragePrecision  # noqa: PLC0415

        thresholds = {"iou_thresholds": np.linspace(0.5, 0.95, 10), "rec_thresholds": np.linspace(0, 1, 101)}
        lists = {name: values.tolist() for name, values in thresholds.items()}
        return _of_metric(MeanAveragePrecision(iou_type="segm", backend=backend, **lists), preds, target)

    return evaluate


def _of_metric(metric, preds: Batch, target: Batch) -> list[float]:
    for start in range(0, len(target), BATCH):
        metric.update(preds[start : start + BATCH], target[start : start + BATCH])
    return numbers(metric.compute(), COCO_LIMITS)


def pycocotools(preds: Batch, target: Batch) -> list[float]:
    """Dictionaries for both."""
    from pycocotools import mask  # noqa: PLC0415
    from pycocotools.coco import COCO  # noqa: PLC0415
    from pycocotools.cocoeval import COCOeval  # noqa: PLC0415

    truths, results = rows(preds, target, mask)
    truth = COCO()
    truth.dataset = truths
    truth.createIndex()
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def faster_coco_eval(preds: Batch, target: Batch) -> list[float]:
    """Dictionaries for both."""
    from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415
    from faster_coco_eval.core import mask  # noqa: PLC0415

    truths, results = rows(preds, target, mask)
    truth = COCO(truths)
    return evaluated(COCOeval_faster(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def hotcoco(preds: Batch, target: Batch) -> list[float]:
    """Dictionaries for both."""
    from hotcoco import COCO, COCOeval, mask  # noqa: PLC0415

    truths, results = rows(preds, target, mask)
    truth = COCO(truths)
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def ultrafast_pycocotools(preds: Batch, target: Batch) -> list[float]:
    """Dictionaries for both."""
    from ultrafast_pycocotools import COCO, COCOeval, mask  # noqa: PLC0415

    truths, results = rows(preds, target, mask)
    truth = COCO(truths, verbose=False)
    return evaluated(COCOeval(truth, truth.loadRes(results), "segm"), COCO_LIMITS)


def rows(preds: Batch, target: Batch, tools) -> tuple[dict[str, list], list[dict[str, object]]]:
    """A data set and results, whose masks a library has encoded."""
    annotations, results, images = [], [], []
    for found, true in zip(preds, target, strict=True):
        image = {"image_id": true["image_id"]}
        images.append({"id": true["image_id"], "height": HEIGHT, "width": WIDTH})
        scored = zip(_encoded(found, tools), found["scores"].tolist(), found["labels"].tolist(), strict=True)
        results += [
            image | {"segmentation": mask, "score": score, "category_id": label} for mask, score, label in scored
        ]
        masks = _encoded(true, tools)
        whole = zip(masks, np.asarray(tools.area(masks)).tolist(), true["labels"].tolist(), strict=True)
        annotations += [
            image | {"segmentation": mask, "area": area, "category_id": label, "iscrowd": 0, "bbox": [0, 0, 1, 1]}
            for mask, area, label in whole
        ]
    for number, row in enumerate(annotations, start=1):
        row["id"] = number
    categories = [{"id": label, "name": str(label)} for label in range(NUM_CLASSES)]
    return {"info": {}, "images": images, "categories": categories, "annotations": annotations}, results


def _encoded(item: dict[str, Tensor], tools) -> list[dict[str, object]]:
    return tools.encode(np.asfortranarray(item["masks"].numpy().transpose(1, 2, 0).view(np.uint8)))


CONTESTANTS: dict[str, tuple[Callable[[Batch, Batch], list[float]], str]] = {
    "ours": (ours, "torch"),
    "hotcoco": (hotcoco, "hotcoco"),
    "ultrafast-pycocotools": (ultrafast_pycocotools, "ultrafast-pycocotools"),
    "faster-coco-eval": (faster_coco_eval, "faster-coco-eval"),
    "pycocotools": (pycocotools, "pycocotools"),
    "TorchMetrics, faster-coco-eval": (torchmetrics("faster_coco_eval"), "faster-coco-eval"),
    "TorchMetrics": (torchmetrics("pycocotools"), "pycocotools"),
}
"""the functions, and the package that each needs"""
