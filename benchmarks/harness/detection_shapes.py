"""Detection problems that are not shaped like COCO: crowded images of one class, crowds, chains, copies, one image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from harness.detection_peers import COCO_LIMITS, Limits
from harness.detection_problems import VAL2017, Batch, Boxes, Size, detection_problem, per_image

SHELF = 2000.0
"""width and height of a crowded image, pixels"""


@dataclass(frozen=True)
class Shape:
    """A problem, and how many detections of an image and class count in it."""

    make: Callable[[np.random.Generator], tuple[Batch, Batch]]
    limits: Limits = COCO_LIMITS

    def problem(self, seed: int = 0) -> tuple[Batch, Batch]:
        """Detections and ground truths of every image, float32 corners; always the same for a seed."""
        return self.make(np.random.default_rng(seed))


def found_once(rng: np.random.Generator) -> tuple[Batch, Batch]:
    """COCO val2017's ground truths, each with one detection of its class, and nothing else."""
    target = detection_problem(VAL2017)[1]
    detections = []
    for image in target:
        noise = torch.from_numpy(0.1 * rng.standard_normal(image["boxes"].shape)).float()
        sides = image["boxes"][:, 2:] - image["boxes"][:, :2]
        boxes = image["boxes"] + noise * torch.cat([sides, sides], 1)
        boxes = torch.cat([boxes[:, :2], torch.maximum(boxes[:, :2], boxes[:, 2:])], 1)
        scores = torch.from_numpy(rng.random(len(boxes)).astype(np.float32))
        detections.append({"boxes": boxes, "labels": image["labels"].clone(), "scores": scores})
    return detections, target


def crowded(
    rng: np.random.Generator, num_images: int, num_ground_truths: int, num_detections: int
) -> tuple[Batch, Batch]:
    """Images of one class, full of boxes of about one size that touch their neighbors; most are found, some twice."""
    side = SHELF / np.sqrt(num_ground_truths)
    centers = rng.random((num_images * num_ground_truths, 2)) * (SHELF - side)
    sides = side * rng.uniform(0.8, 1.2, centers.shape)
    truths = boxes_of(np.concatenate((centers, centers + sides), 1), num_images)
    chosen = rng.integers(0, num_ground_truths, (num_images, num_detections))
    chosen = (chosen + num_ground_truths * np.arange(num_images)[:, None]).ravel()
    found = shifted(rng, truths[chosen], 0.08 * side)
    return batches(num_images, found, rng.random(len(chosen)), truths)


def with_crowds(rng: np.random.Generator, num_images: int) -> tuple[Batch, Batch]:
    """Images of two classes with 20 ground truths, every other one a crowd, and 100 detections."""
    detections, target = crowded(rng, num_images, 20, 100)
    for items in (detections, target):
        for image in items:
            image["labels"] = 1 + (image["boxes"][:, 0] > SHELF / 2).long()
    for image in target:
        image["iscrowd"][::2] = 1
    return detections, target


def chains(num_images: int, length: int) -> tuple[Batch, Batch]:
    """Ground truths in a row that overlap their neighbors, each of which is taken away from the detection behind.

    The best detection is the first ground truth; each of the others lies between two, nearer to the one before, and
    scores less than the one that takes that away from it.
    """
    left = 10.0 * np.arange(length)
    truths = boxes_of(row(np.tile(left, num_images)), num_images)
    found = boxes_of(row(np.tile(np.concatenate(([0.0], left[:-1] + 4.5)), num_images)), num_images)
    return batches(num_images, found, np.tile(np.linspace(0.9, 0.1, length), num_images), truths)


def copies(rng: np.random.Generator, num_images: int, number: int) -> tuple[Batch, Batch]:
    """As many ground truths as detections in an image, all of them the same box."""
    same = boxes_of(np.tile([10.0, 10.0, 60.0, 60.0], (num_images * number, 1)), num_images)
    return batches(num_images, same, rng.random(num_images * number), same)


def single(rng: np.random.Generator) -> tuple[Batch, Batch]:
    """One image with 5 ground truths and 10 detections of three classes, as a training loop gives them."""
    detections, target = crowded(rng, 1, 5, 10)
    for items in (detections, target):
        items[0]["labels"] = 1 + (items[0]["boxes"][:, 0] / SHELF * 3).long()
    return detections, target


def row(left: np.ndarray) -> np.ndarray:
    """Corners of boxes of 30 x 30 that begin at `left`."""
    return np.stack((left, np.zeros_like(left), left + 30, np.full_like(left, 30.0)), 1)


def boxes_of(corners: np.ndarray, num_images: int) -> Boxes:
    """Boxes of class 1, as many in each image."""
    images = np.arange(num_images).repeat(len(corners) // num_images)
    return Boxes(corners, np.ones(len(corners), dtype=np.int64), images)


def shifted(rng: np.random.Generator, boxes: Boxes, by: float) -> Boxes:
    """The same boxes with edges a little off."""
    corners = boxes.corners + by * rng.standard_normal(boxes.corners.shape)
    corners = np.concatenate((corners[:, :2], np.maximum(corners[:, :2], corners[:, 2:])), 1)
    return Boxes(corners, boxes.labels, boxes.images)


def batches(num_images: int, found: Boxes, scores: np.ndarray, truths: Boxes) -> tuple[Batch, Batch]:
    """What `update` takes, for evaluators of files with areas and crowds, too."""
    size = Size(num_images, 1, len(truths.labels), len(found.labels) // num_images)
    areas = np.prod(truths.corners[:, 2:] - truths.corners[:, :2], axis=1).astype(np.float32)
    is_crowd = np.zeros(len(areas), dtype=np.int64)
    detections = per_image(size, found, scores=scores.astype(np.float32))
    return detections, per_image(size, truths, iscrowd=is_crowd, area=areas)


LIKE_DETR = Size(num_images=2_000, num_classes=80, num_ground_truths=14_712, num_detections=300)
"""as full as COCO val2017, with the 300 best queries of a DETR for each image"""

COCO = "COCO val2017"

SHAPES: dict[str, Shape] = {
    COCO: Shape(lambda _: detection_problem(VAL2017)),
    "2,000 images of COCO with 300 detections each": Shape(lambda _: detection_problem(LIKE_DETR)),
    "COCO val2017 with one detection for each ground truth": Shape(found_once),
    "300 images of 150 ground truths and 400 detections, of which 300 count": Shape(
        lambda rng: crowded(rng, 300, 150, 400), (1, 10, 300)
    ),
    "400 images of 20 ground truths, half of them crowds, and 100 detections": Shape(lambda rng: with_crowds(rng, 400)),
    "20 images with a chain of 400 overlapping boxes": Shape(lambda _: chains(20, 400), (1, 10, 400)),
    "5 images of 1,000 ground truths and 3,000 detections, of which 100 count": Shape(
        lambda rng: crowded(rng, 5, 1_000, 3_000)
    ),
    "5 images of 1,000 ground truths and 3,000 detections, of which all count": Shape(
        lambda rng: crowded(rng, 5, 1_000, 3_000), (1, 10, 3_000)
    ),
    "200 images of 100 equal boxes": Shape(lambda rng: copies(rng, 200, 100)),
    "one image of 2,000 equal boxes": Shape(lambda rng: copies(rng, 1, 2_000), (1, 10, 2_000)),
    "one image of 100 ground truths and 100,000 detections": Shape(
        lambda rng: crowded(rng, 1, 100, 100_000), (1, 10, 100_000)
    ),
}
"""all but COCO's own with one class in an image"""

SINGLE = Shape(single)
