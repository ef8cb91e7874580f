"""The kinds of shapes: boxes, rotated boxes and keypoints as points, their overlaps, and readings of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import (
    BOX_FORMATS,
    BoxShapes,
    box_areas,
    keypoint_boxes,
    paired_rotated_iou,
    paired_similarity,
    rotated_corners,
    to_xyxy,
)

from .objects import ShownObjects

_FORMAT_NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
_NUM_PARAMETERS = 5  # center, width, height, angle
_MIRRORED = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]  # COCO's keypoints of a person
ORDER_REMEDY = "Pass the keypoints of `preds` and `target` in one order."
_ROTATED_REMEDY = (
    "`rotated_boxes` are center x, center y, width, height, and the angle in radians from the x axis to the y axis,"
    " which points down."
)


class PairedRows(NamedTuple):
    """Rows of detections and of ground truths."""

    rows: Tensor
    true_rows: Tensor


class PlacedShapes(NamedTuple):
    """Shapes in the order of their images, and in an image of descending scores."""

    numbers: Tensor
    """numbers as they were given, see `ShapeKind`"""
    points: Tensor
    """[shapes, points, 2]"""
    is_labeled: Tensor
    """whether each point counts, [shapes, points]"""
    areas: Tensor
    """areas as they were given, or those of the boxes"""
    labels: Tensor
    images: Tensor
    """place of the image of each shape"""

    def at(self, rows: Tensor) -> PlacedShapes:
        """Return some shapes."""
        return PlacedShapes(*(column[rows] for column in self))

    def repeated(self, times: int, num_images: int) -> PlacedShapes:
        """Return the shapes several times, each time in other images."""
        rows = torch.arange(len(self.images), device="cpu").repeat(times)
        shapes = self.at(rows)
        first_images = num_images * torch.arange(times, device="cpu").repeat_interleave(len(self.images))
        return shapes._replace(images=shapes.images + first_images)


class OtherReading(NamedTuple):
    """Another meaning of the numbers of a shape."""

    name: str
    remedy: str
    points: Callable[[Tensor], Tensor]
    """returns points [shapes, points, 2] for the numbers"""


class ShapeKind(NamedTuple):
    """A kind of shape."""

    key: str
    """users' key of the numbers"""
    points: Callable[[Tensor], Tensor]
    """returns points [shapes, points, 2] for the numbers as they are read"""
    readings: Sequence[OtherReading]
    """readings that other shapes do not have, simple ones first; of `preds` or of `target`"""
    overlaps: Callable[[PairedRows, Tensor, Tensor, PlacedShapes], Tensor]
    """returns the overlaps of pairs of points in another reading, given the ground truths as they are read"""


def place(objects: ShownObjects, kind: ShapeKind, is_labeled: Tensor | None) -> PlacedShapes:
    """Return objects with their points; `is_labeled` is None if all points count."""
    points = kind.points(objects.values[kind.key])
    areas = objects.column("area")
    if len(objects.xywh):
        areas = torch.where(areas > 0, areas, box_areas(objects.xywh))
    return PlacedShapes(
        numbers=objects.values[kind.key],
        points=points,
        is_labeled=torch.ones_like(points[..., 0], dtype=torch.bool) if is_labeled is None else is_labeled,
        areas=areas,
        labels=objects.column("labels").long(),
        images=objects.images,
    )


def kind_of(iou_type: str, box_format: str, sigmas: Sequence[float]) -> ShapeKind:
    """Return the kind of shape for an `iou_type`; masks are compared by the boxes around them."""
    if iou_type == "rotated":
        return ShapeKind("rotated_boxes", _corners, _rotated_readings(), _rotated_overlaps)
    if iou_type == "keypoints":
        mirrored = OtherReading("left and right exchanged", ORDER_REMEDY, lambda numbers: numbers[:, _MIRRORED, :2])
        has_sides = len(sigmas) == len(_MIRRORED)
        overlaps = partial(_keypoint_overlaps, sigmas=sigmas)
        return ShapeKind("keypoints", lambda numbers: numbers[..., :2], [mirrored] * has_sides, overlaps)
    points = partial(_box_points, box_format=box_format)
    return ShapeKind("boxes", points, _box_readings(box_format), _box_overlaps)


def _box_points(boxes: Tensor, box_format: str) -> Tensor:
    """Return the left top and the right bottom corner."""
    return to_xyxy(boxes, box_format).view(-1, 2, 2)


def _box_readings(box_format: str) -> list[OtherReading]:
    readings = []
    for name in BOX_FORMATS:
        if name != box_format:
            remedy = f'is read as "{box_format}": pass `preds` and `target` in one format.'
            remedy = f'`{{argument}}` seems to be "{name}" and {remedy}'
            readings.append(OtherReading(_FORMAT_NAMES[name], remedy, partial(_box_points, box_format=name)))
    return readings


def _box_overlaps(pairs: PairedRows, points: Tensor, true_points: Tensor, _: PlacedShapes) -> Tensor:
    boxes, true_boxes = BoxShapes(keypoint_boxes(points)), BoxShapes(keypoint_boxes(true_points))
    return boxes.overlaps(pairs.rows, true_boxes, pairs.true_rows)


def _parameters(numbers: Tensor) -> Tensor:
    """Return center, size and angle; four corners become a rectangle with their center and the first edge's angle."""
    if numbers.shape[1] == _NUM_PARAMETERS:
        return numbers
    corners = numbers.reshape(-1, 4, 2)
    along, across = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
    angles = torch.atan2(along[:, 1], along[:, 0])
    sides = torch.stack([along.norm(dim=1), across.norm(dim=1), angles], 1)
    return torch.cat([corners.mean(1), sides], 1)


def _corners(numbers: Tensor) -> Tensor:
    return rotated_corners(_parameters(numbers))


def _turned_back(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :4], -boxes[:, 4:]], 1)


def _from_corner(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2] + boxes[:, 2:4] / 2, boxes[:, 2:]], 1)


def _from_turned_corner(boxes: Tensor) -> Tensor:
    near_to_center = rotated_corners(boxes)[:, 0] - boxes[:, :2]
    return torch.cat([boxes[:, :2] - near_to_center, boxes[:, 2:]], 1)


_ROTATED_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "angles in the other direction": _turned_back,
    "width and height exchanged": lambda boxes: boxes[:, [0, 1, 3, 2, 4]],
    "corner instead of center": _from_corner,
    "rotated corner instead of center": _from_turned_corner,
    "y before x": lambda boxes: boxes[:, [1, 0, 2, 3, 4]],
}
"""changes of rotated boxes, in the order in which two of them are made"""


def _rotated_readings() -> list[OtherReading]:
    """Return other conventions; two of them may differ."""
    changes = [(name,) for name in _ROTATED_CHANGES] + list(combinations(_ROTATED_CHANGES, 2))
    return [OtherReading(" and ".join(names), _ROTATED_REMEDY, partial(_changed, names=names)) for names in changes]


def _changed(numbers: Tensor, names: Sequence[str]) -> Tensor:
    boxes = _parameters(numbers)
    for name in names:
        boxes = _ROTATED_CHANGES[name](boxes)
    return rotated_corners(boxes)


def _rotated_overlaps(pairs: PairedRows, points: Tensor, true_points: Tensor, true: PlacedShapes) -> Tensor:
    overlaps = _box_overlaps(pairs, points, true_points, true)
    near = (overlaps > 0).nonzero()[:, 0]
    corners, true_corners = points.flatten(1), true_points.flatten(1)
    overlaps[near] = paired_rotated_iou(corners, true_corners, pairs.rows[near], pairs.true_rows[near])
    return overlaps


def _keypoint_overlaps(
    pairs: PairedRows, points: Tensor, true_points: Tensor, true: PlacedShapes, sigmas: Sequence[float]
) -> Tensor:
    rows, true_rows = pairs
    with_visibility = torch.cat([true_points, true.is_labeled[..., None]], 2)
    boxes = true_points.new_zeros((len(true_rows), 4))  # all ground truths have labeled keypoints
    return paired_similarity(points[rows], with_visibility[true_rows], true.areas[true_rows], boxes, sigmas)
