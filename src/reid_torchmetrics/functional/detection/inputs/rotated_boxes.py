"""Rotated boxes, by their numbers or by four corners: areas, and exact intersection over union, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

from .boxes import box_areas, check_finite, check_sizes, iou_of_areas
from .keypoints import keypoint_boxes
from .shapes import ObjectColumns, ShapeType

_Boxes = Float[Tensor, "boxes _"]
_AnyBoxes = _Boxes | Float[Tensor, "boxes 4 2"] | _checks.Array
_Others = Float[Tensor, "others _"] | Float[Tensor, "others 4 2"] | _checks.Array
_Corners = Float[Tensor, "boxes 4 2"]
_NUMBERS, _OF_CORNERS = 5, 8
_CORNER_SHAPE = (4, 2)  # of a box with x and y in rows
_COLUMNS = f"{_NUMBERS} or {_OF_CORNERS}] or [N, 4, 2"
_CORNER_ROUNDING = 2.0**-20  # of corners that were computed in float32, relative to their largest coordinate
CORNER_ORDER = (
    "corners in turn around the box, such as left top, right top, right bottom, left bottom, whose edges do not cross"
)
"""the rule for four corners in a message"""
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18


def rotated_iou(
    boxes: _AnyBoxes, others: _Others, *, is_crowd: Bool[Tensor, " others"] | _checks.Array | None = None
) -> Float[Tensor, "boxes others"]:
    """Intersection over union of every rotated box with every other, float64.

    It is exact up to rounding. The YOLO family's probIoU compares normal distributions instead: it is 1 for a square
    and the same square turned by 45 degrees, with an overlap of 0.707, and 0.119 for two squares side by side.

    Four corners stay the polygon that they are, as in DOTA's `polyiou`, and do not become a rectangle. They may come in
    either direction, with an angle beyond 180 degrees, too. Their edges must not cross: left top, right top, left
    bottom, right bottom is an error, because parts of such a shape would count as negative.

    Args:
        boxes: center x, center y, width, height, and the angle of rotation from the x axis to the y axis, in radians;
            or x and y of four corners in turn, [N, 8] or [N, 4, 2].
        others: either of both, too.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the box alone.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: boxes that are neither [N, 5] nor [N, 8] nor [N, 4, 2] or not finite, a negative size, or edges
            that cross.
    """
    kind = RotatedType()
    first, second = kind.read("boxes", boxes, is_true=False), kind.read("others", others, is_true=True)
    _checks.same_device("boxes", first, "others", second)
    kind.check_images(["boxes", "others"], [first, second])
    if is_crowd is not None:
        is_crowd = _checks.mask("is_crowd", is_crowd, len(second), second.device)
    return pairwise_rotated_iou(first, second, is_crowd)


def pairwise_rotated_iou(boxes: Tensor, others: Tensor, is_crowd: Tensor | None = None) -> Tensor:
    """See `rotated_iou`; float64."""
    common = boxes.new_zeros((len(boxes), len(others)))
    # Where bounding boxes are apart, nothing is in common.
    (low, high), (other_low, other_high) = (rotated_corners(each).aminmax(dim=1) for each in (boxes, others))
    pairs = ((low[:, None] <= other_high) & (other_low <= high[:, None])).all(2).nonzero()
    (centers, corners), (other_centers, other_corners) = _around_centers(boxes), _around_centers(others)
    for block in segments.ranges(len(pairs), _PAIRS_AT_A_TIME.get(boxes.device.type, _MOST_PAIRS)):
        row, other = pairs[block].unbind(1)
        # Centers first, or corners far from the origin lose digits.
        offsets = other_centers.index_select(0, other) - centers.index_select(0, row)
        moved = other_corners.index_select(0, other) + offsets[:, None]
        common[row, other] = _common_areas(corners.index_select(0, row), moved)
    areas, other_areas = _turning_areas(boxes)[:, None], _turning_areas(others)
    common *= areas.sign() * other_areas.sign()
    # By rounding, and where edges cross, the union can be less than the intersection.
    return iou_of_areas(common, areas.abs(), other_areas.abs(), is_crowd).clamp(0, 1)


def _common_areas(polygons: _Corners, others: _Corners) -> Float[Tensor, " boxes"]:
    """Areas of the intersections of pairs, negative if they turn in different directions.

    A polygon is all that is below its edges to the right, less all that is below those to the left, or the other way
    round. So the sum over pairs of edges of what is below both is what both polygons have in common.
    """
    near = polygons[:, :1]  # or polygons far from the origin lose digits
    columns = zip(_edges(polygons - near), _edges(others - near), strict=True)
    x, y, slope, low, high, sign = ((each[:, :, None], other[:, None]) for each, other in columns)
    left, right = torch.maximum(*low), torch.minimum(*high)
    # Heights of both edges at both ends of what is below both, and there of the other above the first.
    first, second = ([b + s * (at - a) for a, b, s in zip(x, y, slope, strict=True)] for at in (left, right))
    above = first[1] - first[0], second[1] - second[0]
    least, most = torch.minimum(*above).clamp(max=0), torch.maximum(*above)
    below = torch.where(most > 0, least * (least / (least - most)), least + most)
    areas = sign[0] * sign[1] * (right - left).clamp(min=0) * (first[0] + second[0] + below) / 2
    return areas.nan_to_num(0, 0, 0).sum((1, 2))  # of edges apart that are almost upright


def _edges(polygons: _Corners) -> tuple[Float[Tensor, "boxes 4"], ...]:
    """Where edges start, their slopes, their least and largest x, and the sign of their direction along it."""
    (x, y), (end, end_y) = polygons.unbind(2), polygons.roll(-1, 1).unbind(2)
    slope = ((end_y - y) / (end - x)).nan_to_num(0, 0, 0)  # below an upright edge is nothing
    return x, y, slope, x.minimum(end), x.maximum(end), (end - x).sign()


def _turning_areas(boxes: _Boxes) -> Float[Tensor, " boxes"]:
    """Areas, negative of corners that turn from the y axis to the x axis, and 0 of boxes of negative size."""
    if boxes.shape[1] == _NUMBERS:
        return boxes[:, 2:4].clamp(min=0).prod(1)
    # From the first corner, or polygons far from the origin lose digits.
    x, y = (rotated_corners(boxes) - boxes[:, None, :2]).unbind(2)
    return (x * y.roll(-1, 1) - x.roll(-1, 1) * y).sum(1) / 2


def rotated_corners(boxes: _Boxes) -> _Corners:
    """The four corners, in order of rotation from the x axis to the y axis, or as they were given."""
    centers, corners = _around_centers(boxes)
    return centers[:, None] + corners


def _around_centers(boxes: _Boxes) -> tuple[Float[Tensor, "boxes 2"], _Corners]:
    """Centers, and corners as seen from there; the origin for boxes that were given as corners."""
    if boxes.shape[1] == _OF_CORNERS:
        return torch.zeros_like(boxes[:, :2]), boxes.view(-1, 4, 2)
    signs = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    along, across = (signs * boxes[:, None, 2:4].clamp(min=0)).unbind(2)  # a negative size is none
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    return boxes[:, :2], torch.stack([along * cosine - across * sine, along * sine + across * cosine], 2)


def crossing_edges(boxes: _Boxes) -> Bool[Tensor, " boxes"]:
    """Whether two opposite edges of each box have a point inside of both in common; False for boxes [boxes, 5].

    Such corners are not in turn: left top, right top, left bottom, right bottom. One of the two parts turns in the
    other direction and counts as negative, so the area means nothing. A corner that lies on an edge or on another
    corner crosses nothing: it leaves a triangle or a line, with the right area. So does a crossing that is not larger
    than the rounding of the corners, of which the area is almost 0 in either order.
    """
    if boxes.shape[1] != _OF_CORNERS:
        return torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    corners = boxes.double().view(-1, 4, 2)
    starts = corners - corners[:, :1]
    edges = starts.roll(-1, 1) - starts
    # Of each edge, the side of the two corners behind it: on which side they lie, times a length.
    to_next = starts.roll(-2, 1) - starts
    to_last = starts.roll(-3, 1) - starts
    next_side = edges[:, :, 0] * to_next[:, :, 1] - edges[:, :, 1] * to_next[:, :, 0]
    last_side = edges[:, :, 0] * to_last[:, :, 1] - edges[:, :, 1] * to_last[:, :, 0]
    rounding = _CORNER_ROUNDING * corners.abs().amax((1, 2)) * starts.abs().amax((1, 2))
    is_next_beside = next_side.abs() > rounding[:, None]
    is_last_beside = last_side.abs() > rounding[:, None]
    is_separating = is_next_beside & is_last_beside & (next_side.sign() != last_side.sign())
    # Two edges cross if each has the ends of the other on both of its sides.
    return (is_separating[:, :2] & is_separating[:, 2:]).any(1)


@final
@dataclass(frozen=True)
class RotatedType(ShapeType):
    """Rotated boxes: tensors [boxes, 5] of center, width, height and angle in radians, or corners.

    Corners are x and y of four corners in turn, [boxes, 8] or [boxes, 4, 2].
    """

    key: ClassVar[str] = "rotated_boxes"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Tensor:
        """See `ShapeType`."""
        if isinstance(value, Tensor) and not value.numel():  # of any shape
            return torch.empty((0, _NUMBERS), dtype=torch.float64, device=value.device)
        if isinstance(value, (Tensor, np.ndarray)) and value.shape[1:] == _CORNER_SHAPE:
            value = value.reshape(len(value), _OF_CORNERS)
        boxes = _checks.floating_matrix(name, value, _COLUMNS)
        if boxes.shape[1] not in (_NUMBERS, _OF_CORNERS):
            raise ValueError(f"`{name}` must have shape [N, {_COLUMNS}]; got {list(boxes.shape)}.")
        if not any_values:
            check_finite(name, boxes)
            if boxes.shape[1] == _NUMBERS:
                check_sizes(name, boxes[:, 2:4])
        return boxes.double()

    def are_sound(self, value: Tensor) -> Tensor:
        """See `ShapeType`: whether all numbers are finite, sizes are at least 0, and edges do not cross."""
        if value.shape[1:] == _CORNER_SHAPE:
            value = value.reshape(len(value), _OF_CORNERS)
        if value.ndim != 2:
            return super().are_sound(value)
        is_finite = value.isfinite().all(1)
        if value.shape[1] == _OF_CORNERS:
            return is_finite & ~crossing_edges(value)
        return is_finite & (value[:, 2:4] >= 0).all(1)

    def check_images(self, names: Sequence[str], images: Sequence[Tensor]) -> None:
        """See `ShapeType`: raise if edges cross."""
        corners_by_device: dict[torch.device, list[Tensor]] = {}
        for boxes in images:
            if boxes.shape[1] == _OF_CORNERS:
                corners_by_device.setdefault(boxes.device, []).append(boxes)
        if not any(bool(crossing_edges(torch.cat(corners)).any()) for corners in corners_by_device.values()):
            return
        for name, boxes in zip(names, images, strict=True):
            rows = crossing_edges(boxes).nonzero()[:, 0].tolist()
            if rows:
                row = rows[0]
                raise ValueError(f"`{name}` must have {CORNER_ORDER}; got {boxes[row].tolist()} in row {row}.")

    def measurable(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`: boxes with edges that cross become points."""
        is_crossing = crossing_edges(shapes)[:, None]
        return torch.where(is_crossing, torch.zeros_like(shapes), shapes)

    def boxes(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return keypoint_boxes(rotated_corners(shapes))

    def areas(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return box_areas(shapes) if shapes.shape[1] == _NUMBERS else _turning_areas(shapes).abs()

    def rows(self, shapes: Tensor) -> list[dict[str, Any]]:
        """See `ShapeType`: the five or eight numbers, a key that is no one else's."""
        return [{"rotated_box": each} for each in shapes.tolist()]

    def overlaps(self, detections: Tensor, ground_truths: Tensor, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        return pairwise_rotated_iou(detections, ground_truths, columns.is_crowd)
