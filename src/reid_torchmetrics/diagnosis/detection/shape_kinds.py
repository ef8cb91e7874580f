"""The kinds of shapes: boxes, rotated boxes and keypoints as points, their overlaps, and readings of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import BoxShapes, keypoint_boxes, paired_similarity, to_xyxy
from reid_torchmetrics.tasks.rotated_boxes import paired_rotated_iou, rotated_corners

from .objects import ShownObjects

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
    """returns the overlaps of pairs of points in another reading, given the ground truths as they are read"""


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
    boxes, true_boxes = BoxShapes(keypoint_boxes(points)), BoxShapes(keypoint_boxes(true_points))
    return boxes.overlaps(pairs.rows, true_boxes, pairs.true_rows)


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
    with_visibility = torch.cat([true_points[true_rows], visibility[true_rows]], 2)
    boxes = true_points.new_zeros((len(true_rows), 4))  # all ground truths have labeled keypoints
    return paired_similarity(points[rows], with_visibility, true.areas[true_rows], boxes, sigmas)
