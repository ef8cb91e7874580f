"""Detection problems of the benchmarks' size: what a detector of middling quality says of made images.

Numbers and shares are COCO val2017's: 5,000 images with 36,781 ground truths of 80 classes, three tenths of them of one
class and a few of the rarest; two fifths smaller than 32 x 32 pixels, a quarter larger than 96 x 96; one in a hundred a
crowd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

WIDTH, HEIGHT = 640, 480
"""of every image, pixels"""

CROWDS = 0.012
"""share of the ground truths"""
CONFUSED = 0.3
"""ground truths that are found as another class, too"""
IN_CONTEXT = 0.5
"""share of the noise that is of classes that the image has"""

Batch = list[dict[str, Tensor]]
"""of every image, what `update` takes"""


@dataclass(frozen=True)
class Size:
    """How much of everything there is."""

    num_images: int
    num_classes: int
    num_ground_truths: int
    num_detections: int
    """of an image, in the mean"""

    def times(self, factor: float) -> Size:
        """As many more images, as full as before."""
        return replace(
            self, num_images=round(factor * self.num_images), num_ground_truths=round(factor * self.num_ground_truths)
        )


VAL2017 = Size(num_images=5_000, num_classes=80, num_ground_truths=36_781, num_detections=100)


@dataclass(frozen=True)
class Boxes:
    """Boxes of all images, by columns."""

    corners: np.ndarray
    """[n, 4] float64: left, top, right, bottom"""
    labels: np.ndarray
    images: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Boxes:
        """Some of them, by number or by mask."""
        return Boxes(self.corners[rows], self.labels[rows], self.images[rows])

    def moved(self, rng: np.random.Generator, part: np.ndarray) -> Boxes:
        """Boxes whose edges are off by a part of their width and height, inside the image."""
        sides = self.corners[:, 2:] - self.corners[:, :2]
        corners = self.corners + part[:, None] * np.tile(sides, 2) * rng.standard_normal(self.corners.shape)
        corners = np.clip(corners, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT])
        return replace(self, corners=np.concatenate((corners[:, :2], np.maximum(corners[:, :2], corners[:, 2:])), 1))


def detection_problem(size: Size, seed: int = 0) -> tuple[Batch, Batch]:
    """Detections and ground truths of every image, float32 corners, each tensor in memory of its own.

    Labels begin with 1. Ground truths have areas smaller than their boxes, as those of masks are. Detections come in
    the order of their scores.
    """
    rng = np.random.default_rng(seed)
    shares = class_shares(size.num_classes)
    classes = rng.choice(size.num_classes, (size.num_images, 3), p=shares) + 1  # of which an image's objects are
    ground_truths, is_crowd = made_ground_truths(rng, size, classes)
    areas = np.prod(ground_truths.corners[:, 2:] - ground_truths.corners[:, :2], axis=1) * rng.uniform(
        0.4, 0.9, len(is_crowd)
    )
    detections, scores = made_detections(rng, size, classes, ground_truths, is_crowd)
    predictions = per_image(size, detections, scores=scores.astype(np.float32))
    return predictions, per_image(size, ground_truths, iscrowd=is_crowd.astype(np.int64), area=areas.astype(np.float32))


def class_shares(num_classes: int) -> np.ndarray:
    """Three tenths for the first class; the others fall geometrically, the last to a 100th of the second."""
    others = np.geomspace(1, 1 / 100, num_classes - 1)
    return np.concatenate(([0.3], 0.7 * others / others.sum()))


def made_ground_truths(rng: np.random.Generator, size: Size, classes: np.ndarray) -> tuple[Boxes, np.ndarray]:
    """Ground truths by image, and which of them are crowds; some images have many, some have none."""
    crowding = rng.gamma(1.5, size=size.num_images)
    images = np.sort(rng.choice(size.num_images, size.num_ground_truths, p=crowding / crowding.sum()))
    is_crowd = rng.random(len(images)) < CROWDS
    labels = classes[images, rng.choice(3, len(images), p=(0.6, 0.25, 0.15))]
    return made_boxes(rng, labels, images, root_area=52 * np.where(is_crowd, 3, 1)), is_crowd


def made_boxes(
    rng: np.random.Generator, labels: np.ndarray, images: np.ndarray, *, root_area: float | np.ndarray
) -> Boxes:
    """Boxes anywhere in the image; `root_area` is the median of the root of their areas."""
    root, aspect = (np.exp(deviation * rng.standard_normal(len(labels))) for deviation in (1.2, 0.4))
    sides = root_area * np.stack((root * aspect, root / aspect), 0)
    sides = np.clip(sides.T, 3, (WIDTH, HEIGHT))
    corner = rng.random(sides.shape) * ((WIDTH, HEIGHT) - sides)
    return Boxes(np.concatenate((corner, corner + sides), 1), labels, images)


def made_detections(
    rng: np.random.Generator, size: Size, classes: np.ndarray, ground_truths: Boxes, is_crowd: np.ndarray
) -> tuple[Boxes, np.ndarray]:
    """Most ground truths, some of them again or as another class; members of crowds; the rest is noise of low score."""
    shares, single, crowd = class_shares(size.num_classes), ground_truths[~is_crowd], ground_truths[is_crowd]
    root_area = np.sqrt(np.prod(single.corners[:, 2:] - single.corners[:, :2], axis=1))
    found = single[rng.random(len(root_area)) < 0.07 + 0.14 * np.log(root_area)]
    again = single[np.repeat(np.arange(len(root_area)), rng.poisson(0.6, len(root_area)))]
    confused = single[rng.random(len(root_area)) < CONFUSED]
    confused = replace(confused, labels=rng.choice(size.num_classes, len(confused.labels), p=shares) + 1)
    members = crowd[np.repeat(np.arange(len(crowd.labels)), 5)]
    kinds = [scored(rng, *kind) for kind in ((found, 0.07, 4, 2), (again, 0.15, 1.5, 5), (confused, 0.08, 1.5, 4))]
    kinds.append(scored(rng, members, 0.3, 2, 3))
    wanted = rng.poisson(size.num_detections, size.num_images)
    missing = wanted - sum(np.bincount(kind.images, minlength=size.num_images) for kind, _ in kinds)
    images = np.repeat(np.arange(size.num_images), np.maximum(missing, 0))
    labels = rng.choice(size.num_classes, len(images), p=shares) + 1
    labels = np.where(rng.random(len(images)) < IN_CONTEXT, classes[images, rng.integers(0, 3, len(images))], labels)
    kinds.append(scored(rng, made_boxes(rng, labels, images, root_area=60.0), 0.0, 1, 12))
    return joined(kinds)


def scored(
    rng: np.random.Generator, boxes: Boxes, part: float, first: float, second: float
) -> tuple[Boxes, np.ndarray]:
    """Boxes moved by more or less than a part of their size, and beta-distributed scores, the lower the further off."""
    parts = part * rng.exponential(size=len(boxes.labels))
    return boxes.moved(rng, parts), rng.beta(first, second, len(boxes.labels)) * np.exp(-2 * parts)


def joined(kinds: list[tuple[Boxes, np.ndarray]]) -> tuple[Boxes, np.ndarray]:
    """All of them, by image and descending score."""
    columns = zip(*((boxes.corners, boxes.labels, boxes.images, scores) for boxes, scores in kinds), strict=True)
    corners, labels, images, scores = map(np.concatenate, columns)
    order = np.lexsort((-scores, images))
    return Boxes(corners, labels, images)[order], scores[order]


def per_image(size: Size, boxes: Boxes, **others: np.ndarray) -> Batch:
    """Columns that are sorted by image, as one dictionary of tensors for each image."""
    counts = np.bincount(boxes.images, minlength=size.num_images).tolist()
    columns = {"boxes": boxes.corners.astype(np.float32), "labels": boxes.labels.astype(np.int64)} | others
    parts = {
        name: [part.clone() for part in torch.from_numpy(column).split(counts)] for name, column in columns.items()
    }
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
