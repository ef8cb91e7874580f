"""Images with masks for the tests of `DetectionMAP`, and the same as COCO's rows."""

from random import Random
from typing import Any

import numpy as np
import torch
from pycocotools import mask as coco_masks
from torch import Tensor

Dicts = list[dict[str, Any]]

HEIGHT, WIDTH = 45, 70
LEVELS = 6


def _mask(random: Random) -> Tensor:
    """A box with a corner cut out; sometimes nothing, and sometimes all."""
    mask = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    if random.random() < 0.1:
        return mask if random.random() < 0.5 else ~mask
    top, left = random.randrange(HEIGHT), random.randrange(WIDTH)
    height, width = random.randint(1, HEIGHT), random.randint(1, WIDTH)
    mask[top : top + height, left : left + width] = True
    mask[top : top + height // 3, left : left + width // 2] = False
    return mask


def _most(mask: Tensor) -> float:
    """The area of the box around a mask, which no area exceeds."""
    return float(mask.any(0).sum() * mask.any(1).sum())


def _moved(mask: Tensor, random: Random) -> Tensor:
    return torch.roll(mask, (random.randint(-3, 3), random.randint(-3, 3)), (0, 1))


def _stacked(masks: list[Tensor]) -> Tensor:
    return torch.stack(masks) if masks else torch.zeros(0, HEIGHT, WIDTH, dtype=torch.bool)


def mask_images(
    seed: int, num_images: int = 6, *, num_classes: int = 2, with_boxes: bool = False
) -> tuple[Dicts, Dicts]:
    """Random images: equal scores, crowds, given areas, empty masks, images without anything on a side."""
    random = Random(seed)  # noqa: S311
    preds, target = [], []
    for image in range(num_images):
        true = [_mask(random) for _ in range(random.randint(0, 4))]
        found = [_moved(mask, random) for mask in true if random.random() < 0.8]
        found += [_mask(random) for _ in range(random.randint(0, 3))]
        preds.append(
            {
                "masks": _stacked(found),
                "scores": torch.tensor([random.randint(1, LEVELS) / LEVELS for _ in found], dtype=torch.float64),
                "labels": torch.tensor([random.randrange(num_classes) for _ in found], dtype=torch.int64),
            }
        )
        target.append(
            {
                "masks": _stacked(true),
                "labels": torch.tensor([random.randrange(num_classes) for _ in true], dtype=torch.int64),
                "iscrowd": torch.tensor([int(random.random() < 0.2) for _ in true], dtype=torch.int64),
                "area": torch.tensor([min(random.choice([0.0, 500.0, 1024.0, 2000.0]), _most(mask)) for mask in true]),
                "image_id": 10 + image,
            }
        )
        if with_boxes:
            for item in (preds[-1], target[-1]):
                corners = torch.tensor([[random.random() * 40, random.random() * 30] for _ in item["labels"]])
                item["boxes"] = torch.cat([corners.view(-1, 2), corners.view(-1, 2) + 20], 1)
    return preds, target


def compressed(masks: Tensor) -> Dicts:
    """COCO's run lengths, as texts."""
    return [coco_masks.encode(np.asfortranarray(mask)) for mask in masks.numpy().astype(np.uint8)]


def coco_rows(preds: Dicts, target: Dicts) -> tuple[Dicts, Dicts, Dicts]:
    """Results, annotations and images."""
    results: Dicts = []
    annotations: Dicts = []
    for found, true in zip(preds, target, strict=True):
        for mask, score, label in zip(compressed(found["masks"]), found["scores"], found["labels"], strict=True):
            row = {"image_id": true["image_id"], "category_id": int(label), "score": float(score)}
            results.append(row | {"segmentation": mask})
        for row, mask in enumerate(compressed(true["masks"])):
            area = float(true["area"][row]) or float(coco_masks.area(mask))
            columns = {"category_id": int(true["labels"][row]), "iscrowd": int(true["iscrowd"][row]), "area": area}
            annotations.append({"image_id": true["image_id"], "segmentation": mask, "bbox": [0, 0, 1, 1], **columns})
    images = [{"id": true["image_id"], "height": HEIGHT, "width": WIDTH} for true in target]
    return results, annotations, images
