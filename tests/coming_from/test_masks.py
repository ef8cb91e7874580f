"""Images without masks on a side, which TorchMetrics drops: the first table of the page on MeanAveragePrecision."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from reid_torchmetrics import DetectionMAP
from tests.coming_from.coco_files import stats_of
from tests.coming_from.pages import PAGES
from tests.functional.detection.detection_samples import Dicts, torchmetrics_peer
from tests.test_docs import tables

masks = pytest.importorskip("pycocotools.mask")
HEADER = ["12 images with masks", "pycocotools", "`DetectionMAP`", "`MeanAveragePrecision`"]


def twelve_images() -> tuple[Dicts, Dicts]:
    """Detections near the masks, and others; five images have no masks on one of the sides."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(12):
        num_true, num_wrong = below(5, generator), below(6, generator)
        true, wrong = notched(num_true, generator), notched(num_wrong, generator)
        labels = torch.randint(0, 3, (num_true,), generator=generator)
        scores = torch.rand(num_true + num_wrong, generator=generator)
        wrong_labels = torch.randint(0, 3, (num_wrong,), generator=generator)
        detected = torch.cat([true.roll(2, -1), wrong])
        preds.append({"masks": detected, "scores": scores, "labels": torch.cat([labels, wrong_labels])})
        target.append({"masks": true, "labels": labels})
    return preds, target


def below(end: int, generator: Generator) -> int:
    return int(torch.randint(0, end, (1,), generator=generator))


def notched(number: int, generator: Generator) -> Tensor:
    """Masks of rectangles without their upper left corner."""
    pixels = torch.zeros(number, 64, 80, dtype=torch.bool)
    for mask in pixels:
        left, top = below(40, generator), below(30, generator)
        width, height = 6 + below(34, generator), 6 + below(24, generator)
        mask[top : top + height, left : left + width] = True
        mask[top : top + 3, left : left + 3] = False
    return pixels


def run_lengths(mask: Tensor) -> dict[str, object]:
    encoded = masks.encode(np.asfortranarray(mask.numpy().astype(np.uint8)))
    return {"size": encoded["size"], "counts": encoded["counts"].decode()}


def write(folder: Path, preds: Dicts, target: Dicts) -> tuple[str, str]:
    """COCO's files of results and instances."""
    annotations, results = [], []
    for number, (detected, true) in enumerate(zip(preds, target, strict=True)):
        for mask, label in zip(true["masks"], true["labels"].tolist(), strict=True):
            shape = {"segmentation": run_lengths(mask), "area": float(mask.sum()), "bbox": [0, 0, 1, 1]}
            named = {"id": len(annotations) + 1, "image_id": number, "category_id": label, "iscrowd": 0}
            annotations.append(named | shape)
        rows = zip(detected["masks"], detected["labels"].tolist(), detected["scores"].tolist(), strict=True)
        for mask, label, score in rows:
            named = {"image_id": number, "category_id": label, "score": score}
            results.append(named | {"segmentation": run_lengths(mask)})
    instances = {"info": {}, "annotations": annotations, "categories": [{"id": label} for label in range(3)]}
    instances["images"] = [{"id": number, "width": 80, "height": 64} for number in range(len(preds))]
    paths = folder / "results.json", folder / "instances.json"
    for path, content in zip(paths, (results, instances), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    return str(paths[0]), str(paths[1])


def test_the_page_shows_what_pycocotools_ours_and_torchmetrics_give_for_masks(tmp_path):
    (table,) = (table for table in tables(PAGES["mean_average_precision"]) if table.header == HEADER)
    preds, target = twelve_images()
    coco = stats_of(*write(tmp_path, preds, target), "segm", {})
    ours = DetectionMAP(iou_type="segm")
    ours.update(preds, target)
    with torchmetrics_peer() as peer:
        theirs = peer(iou_type="segm")
        theirs.update(preds, target)
        values = theirs.compute()
    for row, key, place in zip(table.rows, ("map", "map_50"), (0, 1), strict=True):
        numbers = [float(cell) for cell in list(row.values())[1:]]
        expected = [float(coco[place]), float(ours.compute()[key]), float(values[key])]
        assert numbers == pytest.approx(expected, abs=5e-5)


def test_the_numbers_are_equal_without_images_that_torchmetrics_drops():
    preds, target = twelve_images()
    kept = [place for place in range(12) if len(preds[place]["labels"]) and len(target[place]["labels"])]
    assert len(kept) == 12 - 5
    values = []
    with torchmetrics_peer() as peer:
        for metric in (DetectionMAP(iou_type="segm"), peer(iou_type="segm")):
            metric.update([preds[place] for place in kept], [target[place] for place in kept])
            values.append(float(metric.compute()["map"]))
    assert values == pytest.approx([0.4576, 0.4576], abs=5e-5)  # as the page says
