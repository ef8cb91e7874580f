"""The kinds of shapes: boxes, rotated boxes and keypoints as points, their overlaps, and readings of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import (
    BOX_FORMATS,
    BoxShapes,
    KeypointType,
    RotatedType,
    keypoint_boxes,
    paired_rotated_iou,
    paired_similarity,
    rotated_corners,
    to_xywh,
)

from .points import PointSample, Reading, ShapeKind
from .sampled_objects import PairedRows

_FORMAT_NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
_NUM_PARAMETERS = 5  # center, width, height, angle
_MOST_DISTANCES = 1 << 22  # distances between keypoints
_MIRRORED = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]  # COCO's keypoints of a person
_LEAST_PAIRS = 16  # for the measurement of an order
_MOST_PLACES = 20  # of keypoints in a text


@final
@dataclass(frozen=True)
class BoxKind(ShapeKind):
    """Boxes, by x, y, width and height."""

    box_format: str
    """format of the users' boxes"""

    def read(self, item: Mapping[str, Any], *, is_true: bool) -> Tensor:
        """See `ShapeKind`."""
        return to_xywh(item["boxes"].double(), self.box_format)

    def points(self, numbers: Tensor) -> Tensor:
        """See `ShapeKind`: the left top and the right bottom corner."""
        near, size = numbers[:, :2], numbers[:, 2:]
        return torch.stack([near, near + size], 1)

    def overlaps(self, preds: Tensor, target: Tensor, pairs: PairedRows, sample: PointSample) -> Tensor:
        """See `ShapeKind`."""
        return _boxes(preds).overlaps(pairs.rows, _boxes(target), pairs.true_rows)

    def readings(self, sample: PointSample) -> Iterator[Reading]:
        """See `ShapeKind`: other formats of `preds`, then of `target`."""
        for argument, boxes in (("preds", sample.numbers), ("target", sample.true_numbers)):
            numbers = in_format(boxes, self.box_format)
            for name in BOX_FORMATS:
                if name == self.box_format:
                    continue
                remedy = (
                    f'`{argument}` seems to be "{name}" and is read as "{self.box_format}": pass `preds` and `target`'
                    " in one format."
                )
                points = self.points(to_xywh(numbers, name))
                yield sample.reading(argument, _FORMAT_NAMES[name], remedy, points)


def _boxes(points: Tensor) -> BoxShapes:
    """Return boxes; inverted ones have negative sizes, and overlap nothing."""
    near, far = points.unbind(1)
    return BoxShapes(torch.cat([near, (far - near).clamp(min=0)], 1))


def in_format(boxes: Tensor, box_format: str) -> Tensor:
    """Return x, y, width and height in a format."""
    if box_format == "xyxy":
        return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    if box_format == "cxcywh":
        return torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1)
    return boxes


def _turned_back(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :4], -boxes[:, 4:]], 1)


def _from_corner(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2] + boxes[:, 2:4] / 2, boxes[:, 2:]], 1)


def _from_turned_corner(boxes: Tensor) -> Tensor:
    near_to_center = rotated_corners(boxes)[:, 0] - boxes[:, :2]
    return torch.cat([boxes[:, :2] - near_to_center, boxes[:, 2:]], 1)


_ROTATED_READINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "angles in the other direction": _turned_back,
    "width and height exchanged": lambda boxes: boxes[:, [0, 1, 3, 2, 4]],
    "corner instead of center": _from_corner,
    "rotated corner instead of center": _from_turned_corner,
    "y before x": lambda boxes: boxes[:, [1, 0, 2, 3, 4]],
}
"""changes of rotated boxes, in the order in which two of them are made"""


_ROTATED_REMEDY = (
    "`rotated_boxes` are center x, center y, width, height, and the angle in radians from the x axis to the y axis,"
    " which points down."
)


@final
class RotatedKind(ShapeKind):
    """Rotated boxes, by center, width, height and angle."""

    def read(self, item: Mapping[str, Any], *, is_true: bool) -> Tensor:
        """See `ShapeKind`: four corners become a rectangle with their center and the angle of the first edge."""
        numbers = RotatedType().read("rotated_boxes", item["rotated_boxes"], is_true=is_true, any_values=True)
        if numbers.shape[1] == _NUM_PARAMETERS:
            return numbers
        corners = numbers.view(-1, 4, 2)
        along, across = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
        angles = torch.atan2(along[:, 1], along[:, 0])
        sides = torch.stack([along.norm(dim=1), across.norm(dim=1), angles], 1)
        return torch.cat([corners.mean(1), sides], 1)

    def points(self, numbers: Tensor) -> Tensor:
        """See `ShapeKind`: the four corners."""
        return rotated_corners(numbers)

    def overlaps(self, preds: Tensor, target: Tensor, pairs: PairedRows, sample: PointSample) -> Tensor:
        """See `ShapeKind`."""
        low, high = preds.aminmax(dim=1)
        true_low, true_high = target.aminmax(dim=1)
        rows, true_rows = pairs
        meets = (low[rows] <= true_high[true_rows]) & (true_low[true_rows] <= high[rows])
        near = meets.all(1).nonzero()[:, 0]
        overlaps = preds.new_zeros(len(rows))
        corners, true_corners = preds.flatten(1), target.flatten(1)
        overlaps[near] = paired_rotated_iou(corners, true_corners, rows[near], true_rows[near])
        return overlaps

    def readings(self, sample: PointSample) -> Iterator[Reading]:
        """See `ShapeKind`: other conventions of `preds`, then of `target`; two of them may differ."""
        changes = [(name,) for name in _ROTATED_READINGS] + list(combinations(_ROTATED_READINGS, 2))
        for argument, numbers in (("preds", sample.numbers), ("target", sample.true_numbers)):
            for names in changes:
                changed = numbers
                for name in names:
                    changed = _ROTATED_READINGS[name](changed)
                yield sample.reading(argument, " and ".join(names), _ROTATED_REMEDY, self.points(changed))


@final
@dataclass(frozen=True)
class KeypointKind(ShapeKind):
    """Keypoints, by x, y and visibility."""

    shape_type: KeypointType

    def read(self, item: Mapping[str, Any], *, is_true: bool) -> Tensor:
        """See `ShapeKind`."""
        numbers = self.shape_type.read("keypoints", item["keypoints"], is_true=is_true, any_values=True)
        return numbers if is_true else numbers[:, :, :2]

    def points(self, numbers: Tensor) -> Tensor:
        """See `ShapeKind`: the keypoints."""
        return numbers[:, :, :2]

    def is_labeled(self, numbers: Tensor) -> Tensor:
        """See `ShapeKind`."""
        return numbers[:, :, 2] > 0

    def overlaps(self, preds: Tensor, target: Tensor, pairs: PairedRows, sample: PointSample) -> Tensor:
        """See `ShapeKind`."""
        assert sample.areas is not None  # noqa: S101 - ground truths have areas here
        rows, true_rows = pairs
        with_visibility = torch.cat([target, sample.true_numbers[:, :, 2:]], 2)
        boxes = target.new_zeros((len(true_rows), 4))  # all ground truths have labeled keypoints
        return paired_similarity(
            preds[rows], with_visibility[true_rows], sample.areas[true_rows], boxes, self.shape_type.sigmas
        )

    def readings(self, sample: PointSample) -> Iterator[Reading]:
        """See `ShapeKind`: COCO's mirror order, then the order in which keypoints lie closest to the ground truths'."""
        remedy = "Pass the keypoints of `preds` and `target` in one order."
        num_keypoints = len(self.shape_type.sigmas)
        if num_keypoints == len(_MIRRORED):
            yield sample.reading("preds", "left and right exchanged", remedy, sample.preds[:, _MIRRORED])

        rows, true_rows = sample.close_pairs(sample.preds, sample.target)
        if len(rows) < _LEAST_PAIRS:
            return
        most = _MOST_DISTANCES // num_keypoints**2
        points, true_points = sample.preds[rows[:most]], sample.target[true_rows[:most]]
        is_labeled = sample.is_labeled[true_rows[:most]]
        size = keypoint_boxes(true_points, is_labeled)[:, 2:].sum(1)
        distances = torch.cdist(points, true_points) / size[:, None, None]
        distances = (distances * is_labeled[:, None]).nan_to_num(0.0).sum(0)
        places = torch.arange(num_keypoints, device=distances.device)
        order = torch.where(is_labeled.any(0), distances.argmin(0), places)
        if bool((order != places).any()) and bool((order.sort().values == places).all()):
            name = f"keypoints in the order {', '.join(map(str, order.tolist()[:_MOST_PLACES]))}"
            yield sample.reading("preds", name, remedy, sample.preds[:, order])
