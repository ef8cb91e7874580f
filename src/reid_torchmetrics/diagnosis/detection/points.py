"""A sample of objects as points, so that shapes of all kinds are compared and read in another way alike.

    boxes: left top and right bottom corner    rotated boxes: four corners    keypoints: themselves

Another scale, offset or axis changes points of any shape in the same way. A kind of shape adds its overlap, and the
readings that only its numbers can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import BoxShapes, keypoint_boxes, paired_similarity, to_xyxy
from reid_torchmetrics.functional.detection.matching import OverlappingPairs, best_pairs
from reid_torchmetrics.tasks.rotated_boxes import paired_rotated_iou, rotated_corners

from .given_images import ShownObjects

FOUND = 0.5
"""overlap at which a ground truth is found"""
MOST_PAIRS = 1 << 14
"""pairs of a detection and a ground truth in the images of a sample"""
_DETECTIONS = 2  # in an image for each ground truth, those of the highest scores
_LEAST_COUNT = 4  # ground truths for which there are detections even where an image has fewer
_MOST_POINTS = 1 << 17  # in the pairs of several readings that are compared at a time
_CLOSE = 0.2  # overlap of the boxes around the points of pairs that are close
_FORMAT_NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
_BOX_REMEDY = (
    'Pass `preds` and `target` in one format, and name it as `box_format`: "xyxy" are two corners, "xywh" are corner'
    ' and size, "cxcywh" are center and size.'
)
_ROTATED_REMEDY = (
    "`rotated_boxes` are center x, center y, width, height, and the angle in radians from the x axis to the y axis,"
    " which points down."
)


class PairedRows(NamedTuple):
    """Rows of detections and of ground truths."""

    rows: Tensor
    true_rows: Tensor


class ShapeKind(NamedTuple):
    """A kind of shape."""

    key: str
    """users' key of the numbers"""
    points: Callable[[Tensor], Tensor]
    """returns points [shapes, points, 2] for the numbers as they are read"""
    readings: Callable[[Tensor], Mapping[str, Tensor]]
    """returns points by name in other readings of the numbers, which other shapes do not have"""
    remedy: str
    """a sentence for users, if another one of these readings fits"""
    overlaps: Callable[[PairedRows, Tensor, Tensor, ShownObjects], Tensor]
    """returns the overlaps of pairs of points in other readings, given the ground truths as they are read; rows beyond
    the last ground truth stand for the same objects in the next reading"""


@dataclass(frozen=True)
class PointSample:
    """The ground truths of the first images, and the detections of the highest scores."""

    kind: ShapeKind
    found: ShownObjects
    """detections by image, and in an image by descending score"""
    true: ShownObjects
    """ground truths by image"""
    sizes: Tensor
    """width and height of each image, NaN if unknown"""
    points: Tensor
    """points of the detections, [detections, points, 2]"""
    true_points: Tensor
    """points of the ground truths, [ground truths, points, 2]"""

    is_labeled: Tensor | None
    """whether each point of the ground truths counts; None if all do"""

    @cached_property
    def _pairs(self) -> PairedRows:
        return self._pairs_in(self.found.images)

    def _pairs_in(self, images: Tensor) -> PairedRows:
        """Return every detection with every ground truth of its image, given images for the detections."""
        counts = self.true.images.bincount(minlength=len(self.sizes))
        return PairedRows(*segments.runs(segments.starts(counts)[images], counts[images]))

    def pairs_found(self, at_least: float) -> PairedRows:
        """Return the ground truths that are found without labels, each with its detection of the highest score."""
        overlaps = self.kind.overlaps(self._pairs, self.points, self.true_points, self.true)
        return _find_best(self._pairs, overlaps, at_least)

    def counts_found(
        self, points: list[Tensor], true_points: list[Tensor], at_least: float, pairs: PairedRows | None = None
    ) -> list[int]:
        """Return the number of ground truths that are found without labels in each of some readings of all points.

        Args:
            points: points of the detections, in each reading.
            true_points: points of the ground truths, in each reading.
            at_least: the overlap at which a ground truth is found.
            pairs: rows that are compared; None for those of the same images.
        """
        rows, true_rows = pairs or self._pairs
        num_true = len(self.true_points)
        counts = []
        for part in segments.ranges(len(points), max(1, _MOST_POINTS // (1 + len(rows) * self.points.shape[1]))):
            # The readings are compared as one sample, with rows of their own.
            reading = torch.arange(len(points[part]), device=rows.device)[:, None]
            placed = PairedRows(
                rows=(rows + reading * len(self.points)).flatten(),
                true_rows=(true_rows + reading * num_true).flatten(),
            )
            overlaps = self.kind.overlaps(placed, torch.cat(points[part]), torch.cat(true_points[part]), self.true)
            found = _find_best(placed, overlaps, at_least).true_rows // num_true
            counts += found.bincount(minlength=len(reading)).tolist()
        return counts

    def count_elsewhere(self, points: Tensor, true_points: Tensor, at_least: float) -> int:
        """Count the ground truths that the detections of other images find, or of the mirrored one if it is alone."""
        pairs = None
        num_images = len(self.sizes)
        if num_images == 1:
            low, high = true_points.amin((0, 1)), true_points.amax((0, 1))
            true_points = low + high - true_points
        else:  # the next images may be frames of the same video
            pairs = self._pairs_in((self.found.images + num_images // 2) % num_images)
        return self.counts_found([points], [true_points], at_least, pairs)[0]

    def close_pairs(self, boxes: Tensor, true_boxes: Tensor) -> PairedRows:
        """Return pairs of objects in about the same place, given boxes around them."""
        return _find_best(self._pairs, _paired_iou(self._pairs, boxes, true_boxes), _CLOSE)


def _find_best(pairs: PairedRows, overlaps: Tensor, at_least: float) -> PairedRows:
    """Return one detection for each ground truth that is found.

    A detection finds the ground truth that it overlaps most, if it does so by `at_least`.
    """
    near = overlaps >= at_least
    rows, true_rows = pairs.rows[near], pairs.true_rows[near]
    if not len(rows):
        return PairedRows(rows, true_rows)
    best = best_pairs(OverlappingPairs(true_rows, rows, overlaps[near]), int(rows.max()) + 1, takes_last=True)
    rows = (best.iou >= at_least).nonzero()[:, 0]
    first = rows.new_full((int(true_rows.max()) + 1,), len(best.iou))
    first.scatter_reduce_(0, best.ground_truth[rows], rows, "amin")
    true_rows = (first < len(best.iou)).nonzero()[:, 0]
    return PairedRows(first[true_rows], true_rows)


def sample_points(detections: ShownObjects, ground_truths: ShownObjects, sizes: Tensor, kind: ShapeKind) -> PointSample:
    """Return the objects of the first images as points.

    Args:
        detections: detections in the first images.
        ground_truths: ground truths in the first images.
        sizes: width and height of each image, NaN if unknown.
        kind: the kind of shapes.

    Raises:
        NotHeldError: there are few ground truths, or no finite detections.
    """
    if kind.key not in detections.values or kind.key not in ground_truths.values:
        raise NotHeldError(f"`{kind.key}`")
    true_rows = ground_truths.is_counted.nonzero()[:, 0]
    images = ground_truths.images[true_rows]
    counts = images.bincount(minlength=len(sizes))
    most_detections = _DETECTIONS * counts.clamp(min=_LEAST_COUNT)
    # Of a crowded image some ground truths are compared, at equal distances.
    most_true = torch.minimum(counts, (MOST_PAIRS // most_detections).clamp(min=LEAST_BOXES))
    places = segments.ranks(images) * most_true[images]
    num_images = max(1, int(((most_detections * most_true).cumsum(0) <= MOST_PAIRS).sum()))
    true = ground_truths.at(true_rows[(places % counts[images] < most_true[images]) & (images < num_images)])

    points = kind.points(detections.values[kind.key])
    rows = points.flatten(1).isfinite().all(1).nonzero()[:, 0]
    rows = rows[detections.column("scores")[rows].argsort(descending=True, stable=True)]
    rows = rows[detections.images[rows].argsort(stable=True)]
    images = detections.images[rows]
    rows = rows[(images < num_images) & (segments.ranks(images) < most_detections[images])]
    if len(true.images) < LEAST_BOXES or not len(rows):
        raise NotHeldError("sample of objects")
    return PointSample(
        kind,
        found=detections.at(rows),
        true=true,
        sizes=sizes[:num_images],
        points=points[rows],
        true_points=kind.points(true.values[kind.key]),
        is_labeled=true.is_labeled if kind.key == "keypoints" else None,
    )


def boxes_around(points: Tensor, is_labeled: Tensor | None = None) -> Tensor:
    """Return the boxes [x, y, width, height] around points [objects, points, 2], around labeled ones of keypoints."""
    if is_labeled is not None:
        return keypoint_boxes(points, is_labeled)
    low, high = points.aminmax(dim=1)
    return torch.cat([low, high - low], 1)


def _paired_iou(pairs: PairedRows, boxes: Tensor, true_boxes: Tensor) -> Tensor:
    """Compute intersection over union of pairs of boxes [x, y, width, height]."""
    return BoxShapes(boxes).overlaps(pairs.rows, BoxShapes(true_boxes), pairs.true_rows)


def kind_of(iou_type: str, box_format: str, sigmas: Sequence[float]) -> ShapeKind:
    """Return the kind of shape for an `iou_type`; masks are compared by the boxes around them."""
    if iou_type == "rotated":
        return ShapeKind("rotated_boxes", rotated_corners, _rotated_readings, _ROTATED_REMEDY, _rotated_overlaps)
    if iou_type == "keypoints":
        overlaps = partial(_keypoint_overlaps, sigmas=sigmas)
        return ShapeKind("keypoints", lambda numbers: numbers[..., :2], lambda _: {}, "", overlaps)
    points = partial(_box_points, box_format=box_format)
    return ShapeKind("boxes", points, partial(_box_readings, box_format=box_format), _BOX_REMEDY, _box_overlaps)


def _box_points(boxes: Tensor, box_format: str) -> Tensor:
    """Return the left top and the right bottom corner."""
    return to_xyxy(boxes, box_format).view(-1, 2, 2)


def _box_readings(boxes: Tensor, box_format: str) -> dict[str, Tensor]:
    """Return the points of other formats."""
    return {words: _box_points(boxes, name) for name, words in _FORMAT_NAMES.items() if name != box_format}


def _box_overlaps(pairs: PairedRows, points: Tensor, true_points: Tensor, _: ShownObjects) -> Tensor:
    return _paired_iou(pairs, boxes_around(points), boxes_around(true_points))


def _turned_back(corners: Tensor) -> Tensor:
    """Mirror boxes at the horizontal line through their center."""
    x, y = corners.unbind(2)
    return torch.stack([x, 2 * y.mean(1, keepdim=True) - y], 2)


def _with_other_sides(corners: Tensor) -> Tensor:
    """Turn boxes by a quarter around their center."""
    center = corners.mean(1, keepdim=True)
    x, y = (corners - center).unbind(2)
    return center + torch.stack([-y, x], 2)


def _from_corner(corners: Tensor) -> Tensor:
    """Move boxes by half of their sides, as if they were not rotated."""
    along, across = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
    sides = torch.stack([along.norm(dim=1), across.norm(dim=1)], 1)
    return corners + sides[:, None] / 2


def _from_turned_corner(corners: Tensor) -> Tensor:
    return corners + corners.mean(1, keepdim=True) - corners[:, :1]


def _from_swapped_center(corners: Tensor) -> Tensor:
    center = corners.mean(1, keepdim=True)
    return corners + (center.flip(2) - center)


_ROTATED_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "angles in the other direction": _turned_back,
    "width and height exchanged": _with_other_sides,
    "corner instead of center": _from_corner,
    "rotated corner instead of center": _from_turned_corner,
    "y before x": _from_swapped_center,
}
"""changes of rotated boxes, in the order in which two of them are made"""


def _rotated_readings(numbers: Tensor) -> dict[str, Tensor]:
    """Return the corners of other conventions; two of them may differ."""
    readings = {}
    for names in [(name,) for name in _ROTATED_CHANGES] + list(combinations(_ROTATED_CHANGES, 2)):
        corners = rotated_corners(numbers)
        for name in names:
            corners = _ROTATED_CHANGES[name](corners)
        readings[" and ".join(names)] = corners
    return readings


def _rotated_overlaps(pairs: PairedRows, points: Tensor, true_points: Tensor, true: ShownObjects) -> Tensor:
    overlaps = _box_overlaps(pairs, points, true_points, true)
    near = overlaps > 0
    corners, true_corners = points.flatten(1), true_points.flatten(1)
    overlaps[near] = paired_rotated_iou(corners, true_corners, pairs.rows[near], pairs.true_rows[near])
    return overlaps


def _keypoint_overlaps(
    pairs: PairedRows, points: Tensor, true_points: Tensor, true: ShownObjects, sigmas: Sequence[float]
) -> Tensor:
    rows, true_rows = pairs
    visibility = true.values["keypoints"][..., 2:]
    objects = true_rows % len(visibility)
    with_visibility = torch.cat([true_points[true_rows], visibility[objects]], 2)
    boxes = true_points.new_zeros((len(true_rows), 4))  # all ground truths have labeled keypoints
    return paired_similarity(points[rows], with_visibility, true.areas[objects], boxes, sigmas)
