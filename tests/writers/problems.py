"""Small problems of detection and of retrieval, and their numbers from the definitions; nothing comes from the package.

Boxes have whole pixels and sizes are powers of two, so that no format rounds them.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference import detection, retrieval

CLASSES = ("zebra", "apple", "mug")
"""in an order that is not that of their names, nor of their first appearance"""
SEED = 1928
"""one of a problem without equal scores, and without an overlap close to a threshold"""
SIZES = ((512, 256), (256, 512), (1024, 512))
"""width and height of images"""


PEOPLE = ("vera", "olaf", "pia", "anna", "emil")


class Box(NamedTuple):
    """An object, or a detection with a score."""

    label: str
    x: int
    y: int
    width: int
    height: int
    score: float | None = None

    @property
    def corners(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.x + self.width, self.y + self.height


@dataclass(frozen=True)
class Side:
    """One of both sides of a problem as a tool sees it: with images and classes in an order of its own."""

    boxes: dict[str, list[Box]]
    """by the name of the image, without suffix"""
    sizes: dict[str, tuple[int, int]]
    classes: Sequence[str] = CLASSES
    first: int = 1
    """the number of the first image and of the first class, where a tool lets its user choose it"""

    @property
    def class_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes, self.first)}

    @property
    def image_ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.boxes, self.first)}

    def numbered(self, classes: Sequence[str] | None = None, images: Sequence[str] | None = None, first: int = 1):
        """The same boxes under other numbers."""
        boxes = {name: self.boxes[name] for name in images or self.boxes}
        return Side(boxes, self.sizes, classes or self.classes, first)


def detections(num_images: int = 12) -> tuple[Side, Side]:
    """Ground truths and detections; the second image has no object, the fourth has no detection."""
    draw = random.Random(SEED)  # noqa: S311 - no secret
    sizes: dict[str, tuple[int, int]] = {}
    truth: dict[str, list[Box]] = {}
    found: dict[str, list[Box]] = {}
    for number in range(num_images):
        name = f"shot_{(7 * number) % num_images:02d}"
        width, height = sizes[name] = SIZES[number % 3]
        truth[name], found[name] = [], []
        for _ in range(0 if number == 1 else draw.randint(2, 4)):
            size = draw.randint(24, width // 3), draw.randint(24, height // 3)
            x, y = draw.randint(0, width - size[0] - 8), draw.randint(0, height - size[1] - 8)
            label = draw.choice(CLASSES)
            truth[name].append(Box(label, x, y, *size))
            if number != 3 and draw.random() < 0.85:
                moved = x + draw.randint(0, 8), y + draw.randint(0, 8)
                found[name].append(Box(label, *moved, *size, score=_score(draw)))
        if number != 3:
            found[name].append(Box(draw.choice(CLASSES), 1, 1, width // 4, height // 4, _score(draw)))
    return Side(truth, sizes), Side(found, sizes)


def _score(draw: random.Random) -> float:
    return draw.randint(300, 900) / 1000


def mean_average_precision(truth: Side, found: Side) -> float:
    """COCO's mAP, by a loop."""
    images, labels = list(truth.boxes), list(CLASSES)
    ground_truths = [
        detection.GroundTruth(
            images.index(image), labels.index(box.label), box[1:5], is_crowd=False, area=box[3] * box[4]
        )
        for image, boxes in truth.boxes.items()
        for box in boxes
    ]
    rows = [
        detection.Detection(images.index(image), labels.index(box.label), box[1:5], box.score)
        for image, boxes in found.boxes.items()
        for box in boxes
    ]
    return detection.evaluate(rows, ground_truths, detection.Setting(range(len(labels)))).summary()["map"]


def distance_to_thresholds(truth: Side, found: Side) -> float:
    """How far an overlap is at least from a threshold of COCO."""
    return min(
        abs(detection.iou(box[1:5], other[1:5]) - threshold)
        for image, boxes in found.boxes.items()
        for box in boxes
        for other in truth.boxes[image]
        for threshold in detection.IOU_THRESHOLDS
    )


class People(NamedTuple):
    """One side of a problem of re-identification."""

    embeddings: NDArray[np.float32]
    names: list[str]
    """of people"""
    paths: list[str]


def people(num_queries: int = 20, num_items: int = 60) -> tuple[People, People]:
    """Queries and a gallery, in which the people appear in different orders; one of the gallery is in no query."""
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(len(PEOPLE), 8))
    sides = []
    for side, number, labels in (("query", num_queries, PEOPLE[:-1]), ("gallery", num_items, PEOPLE[::-1])):
        numbers = rng.integers(0, len(labels), number)
        names = [labels[place] for place in numbers]
        points = centers[[PEOPLE.index(name) for name in names]] + 1.5 * rng.normal(size=(number, 8))
        paths = [f"{side}/{row:03d}.jpg" for row in range(number)]
        sides.append(People(points.astype(np.float32), names, paths))
    return sides[0], sides[1]


def retrieval_map(query: People, gallery: People) -> float:
    """mAP over all queries, by a loop."""
    scores = retrieval.similarity(query.embeddings, gallery.embeddings)
    precisions = []
    for row, name in zip(scores, query.names, strict=True):
        candidates = retrieval.candidates(PEOPLE.index(name), [PEOPLE.index(other) for other in gallery.names])
        hits = retrieval.ranked_hits(row, candidates.positive, candidates.negative)
        precisions.append(retrieval.average_precision(hits))
    return math.fsum(precisions) / len(precisions)
