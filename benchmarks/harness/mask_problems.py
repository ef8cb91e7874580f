"""Images with masks, drawn batch by batch: nobody holds those of all images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

Batch = list[dict[str, object]]
BATCH = 8
"""images given to `update` at a time"""
HEIGHT, WIDTH = 480, 640
NUM_FOUND, NUM_TRUE, NUM_CLASSES = 50, 15, 10
REACH = 1.06
"""times its radius a mask reaches from its center"""


def batches(num_images: int, *, run_lengths: bool, seed: int = 0) -> Iterator[tuple[Batch, Batch]]:
    """Detections and ground truths of a few images after the others, as bool masks or as COCO's dicts."""
    rng = np.random.default_rng(seed)
    for first in range(0, num_images, BATCH):
        yield drawn(rng, range(first + 1, min(first + BATCH, num_images) + 1), run_lengths=run_lengths)


def drawn(rng: np.random.Generator, images: range, *, run_lengths: bool) -> tuple[Batch, Batch]:
    """Ellipses with a bite, and detections that are moved and stretched ones."""
    preds, target = [], []
    for image in images:
        centers = rng.random((NUM_TRUE, 2)) * (HEIGHT, WIDTH)
        radii = np.exp(rng.uniform(np.log(10), np.log(160), (NUM_TRUE, 2)))
        labels = rng.integers(NUM_CLASSES, size=NUM_TRUE)
        chosen = rng.integers(NUM_TRUE, size=NUM_FOUND)
        moved = centers[chosen] + rng.normal(size=(NUM_FOUND, 2)) * radii[chosen] * 0.15
        sizes = radii[chosen] * np.exp(0.15 * rng.normal(size=(NUM_FOUND, 2)))
        scores = torch.from_numpy(rng.random(NUM_FOUND).astype(np.float32))
        found, true = bitten_ellipses(moved, sizes), bitten_ellipses(centers, radii)
        masks = [encoded(each) if run_lengths else each for each in (found, true)]
        preds.append({"masks": masks[0], "scores": scores, "labels": torch.from_numpy(labels[chosen])})
        target.append({"masks": masks[1], "labels": torch.from_numpy(labels), "image_id": image})
    return preds, target


def bitten_ellipses(centers: np.ndarray, radii: np.ndarray) -> Tensor:
    """Masks [n, height, width], of which only the part around each ellipse is computed."""
    masks = np.zeros((len(centers), HEIGHT, WIDTH), dtype=bool)
    for mask, (y, x), (h, w) in zip(masks, centers, radii, strict=True):
        top, left = (max(0, int(center - REACH * radius)) for center, radius in ((y, h), (x, w)))
        rows = np.arange(top, min(HEIGHT, int(y + REACH * h) + 2))[:, None]
        columns = np.arange(left, min(WIDTH, int(x + REACH * w) + 2))
        inside = ((rows - y) / h) ** 2 + ((columns - x) / w) ** 2 + 0.1 * np.sin(columns / 7.0) < 1
        mask[top : top + len(rows), left : left + len(columns)] = inside
    return torch.from_numpy(masks)


def encoded(masks: Tensor) -> list[dict[str, object]]:
    """COCO's dicts of compressed run lengths."""
    from pycocotools import mask  # noqa: PLC0415

    return mask.encode(np.asfortranarray(masks.numpy().transpose(1, 2, 0).view(np.uint8)))
