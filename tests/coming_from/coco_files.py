"""Writes COCO's files of some images, and evaluates them by pycocotools."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools import mask as masks

from tests.functional.detection.detection_samples import Dicts
from tests.pycocotools_peer import run_coco

SIZE = {"height": 300, "width": 300}


def write(
    folder: Path, preds: Dicts, target: Dicts, *, first_id: int, is_xywh: bool, with_masks: bool
) -> tuple[str, str]:
    """Write results and instances, with the pixels of boxes as masks. Annotations are numbered from `first_id`."""
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for found, true in zip(preds, target, strict=True):
        image = {"image_id": true["image_id"]}
        for place, (box, label) in enumerate(_rows(true, is_xywh=is_xywh)):
            number = {
                "id": first_id + len(annotations),
                "iscrowd": int(true["iscrowd"][place]) if "iscrowd" in true else 0,
            }
            area = float(true["area"][place]) if "area" in true and true["area"][place] > 0 else box[2] * box[3]
            shape = _shape(box, with_masks=with_masks) | {"area": area}
            annotations.append({**image, **number, **shape, "category_id": label, "ignore": place % 2})
        for (box, label), score in zip(_rows(found, is_xywh=is_xywh), found["scores"].tolist(), strict=True):
            shape = _shape(box, with_masks=with_masks)
            results.append({**image, **shape, "category_id": label, "score": score})
    categories = sorted({row["category_id"] for row in annotations + results})
    data_set = {
        "info": {},
        "images": [{"id": true["image_id"], **SIZE} for true in target],
        "categories": [{"id": label} for label in categories],
        "annotations": annotations,
    }
    paths = folder / "results.json", folder / "instances.json"
    for path, content in zip(paths, (results, data_set), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    return str(paths[0]), str(paths[1])


def _rows(image: dict[str, Any], *, is_xywh: bool) -> list[tuple[list[float], int]]:
    """Corner, width, height and label of each box."""
    boxes = image["boxes"].double().clone()
    if not is_xywh:
        boxes[:, 2:] -= boxes[:, :2]
    return list(zip(boxes.tolist(), image["labels"].tolist(), strict=True))


def _shape(box: list[float], *, with_masks: bool) -> dict[str, Any]:
    """A box, and its pixels."""
    if not with_masks:
        return {"bbox": box}
    left, top, width, height = map(round, box)
    pixels = np.zeros((SIZE["height"], SIZE["width"]), dtype=np.uint8, order="F")
    pixels[max(top, 0) : top + height, max(left, 0) : left + width] = 1
    found = masks.encode(pixels)
    return {"bbox": box, "segmentation": {"size": found["size"], "counts": found["counts"].decode()}}


def stats_of(results: str, instances: str, iou_type: str, params: dict[str, Any]) -> list[float]:
    """COCO's 12 numbers."""
    evaluator, _ = run_coco(instances, results, iou_type, **params)
    return evaluator.stats.tolist()
