"""Rotated boxes as a shape of objects, five numbers or four corners: exact intersection over union, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import (
    SHAPE_TYPES,
    SHAPES_IN_WORDS,
    ObjectColumns,
    ShapeType,
    box_areas,
    check_finite,
    check_sizes,
    iou_of_areas,
    keypoint_boxes,
)

Boxes = Float[Tensor, "boxes _"]
Corners = Float[Tensor, "boxes 4 2"]
NUM_PARAMETERS = 5  # center x, center y, width, height, angle
NUM_COORDINATES = 8  # x and y of four corners
_CORNER_ROUNDING = 2.0**-20  # rounding of corners from float32, relative to their largest coordinate
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18
_AnyBoxes = Boxes | Float[Tensor, "boxes 4 2"] | _checks.Array
_OtherBoxes = Float[Tensor, "boxes2 _"] | Float[Tensor, "boxes2 4 2"] | _checks.Array
_CORNER_SHAPE = (4, 2)
_COLUMNS = f"{NUM_PARAMETERS} or {NUM_COORDINATES}] or [N, 4, 2"
CORNER_ORDER = (
    "corners in turn around the box, such as left top, right top, right bottom, left bottom, whose edges do not cross"
)
"""the rule for four corners in a message"""


def pairwise_rotated_iou(boxes: Tensor, others: Tensor, is_crowd: Tensor | None = None) -> Tensor:
    """Compute `rotated_iou` for float64 tensors in the form of `RotatedType.read`."""
    # Pairs with intersecting bounding boxes; the others have nothing in common.
    low, high = rotated_corners(boxes).aminmax(dim=1)
    other_low, other_high = rotated_corners(others).aminmax(dim=1)
    pairs = ((low[:, None] <= other_high) & (other_low <= high[:, None])).all(2).nonzero()

    row, other = pairs.unbind(1)
    iou = boxes.new_zeros((len(boxes), len(others)))
    iou[row, other] = paired_rotated_iou(boxes, others, row, other, is_crowd)
    return iou


def paired_rotated_iou(
    boxes: Tensor, others: Tensor, row: Tensor, other: Tensor, is_crowd: Tensor | None = None
) -> Float[Tensor, " pairs"]:
    """Compute `rotated_iou` of pairs of rows, for float64 tensors in the form of `RotatedType.read`."""
    centers, corners = _around_centers(boxes)
    other_centers, other_corners = _around_centers(others)
    parts = [boxes.new_zeros(0)]
    for block in segments.ranges(len(row), _PAIRS_AT_A_TIME.get(boxes.device.type, _MOST_PAIRS)):
        block_row, block_other = row[block], other[block]
        # Centers first, or corners far from the origin lose digits.
        offsets = other_centers.index_select(0, block_other) - centers.index_select(0, block_row)
        moved = other_corners.index_select(0, block_other) + offsets[:, None]
        parts.append(_common_areas(corners.index_select(0, block_row), moved))

    areas = turning_areas(boxes).index_select(0, row)
    other_areas = turning_areas(others).index_select(0, other)
    common = torch.cat(parts) * (areas.sign() * other_areas.sign())
    is_crowd = None if is_crowd is None else is_crowd.index_select(0, other)
    # By rounding, and where edges cross, the union can be less than the intersection.
    return iou_of_areas(common, areas.abs(), other_areas.abs(), is_crowd).clamp(0, 1)


class _Edges(NamedTuple):
    """The edges of polygons; each field is [boxes, 4], or has more axes for pairs of edges."""

    x: Tensor
    """x of the first point"""
    y: Tensor
    """y of the first point"""
    slope: Tensor
    low: Tensor
    """least x"""
    high: Tensor
    """largest x"""
    sign: Tensor
    """1 for an edge to the right, -1 for an edge to the left, 0 for an upright edge"""

    def height_at(self, x: Tensor) -> Tensor:
        """Return y of the edges at some x."""
        return self.y + self.slope * (x - self.x)


def _common_areas(polygons: Corners, others: Corners) -> Float[Tensor, " boxes"]:
    """Compute the areas of the intersections of pairs, negative if they turn in different directions.

    A polygon is the region below its edges to the right, less the region below its edges to the left, or the other way
    round. So the intersection of two polygons is a sum over pairs of edges: the region below both edges, with the
    product of their signs.
    """
    # Relative to a corner, or polygons far from the origin lose digits.
    near = polygons[:, :1]
    edges = _Edges(*(column[:, :, None] for column in _edges(polygons - near)))
    other_edges = _Edges(*(column[:, None] for column in _edges(others - near)))
    left = torch.maximum(edges.low, other_edges.low)
    right = torch.minimum(edges.high, other_edges.high)

    # Between left and right, the lower edge is the first edge plus `above`, where that is negative.
    height_left = edges.height_at(left)
    height_right = edges.height_at(right)
    above_left = other_edges.height_at(left) - height_left
    above_right = other_edges.height_at(right) - height_right
    least = torch.minimum(above_left, above_right).clamp(max=0)
    most = torch.maximum(above_left, above_right)
    below = torch.where(most > 0, least * (least / (least - most)), least + most)
    areas = edges.sign * other_edges.sign * (right - left).clamp(min=0) * (height_left + height_right + below) / 2
    return areas.nan_to_num(0, 0, 0).sum((1, 2))  # of edges apart that are almost upright


def _edges(polygons: Corners) -> _Edges:
    """Return the edges of polygons, from each corner to the next."""
    x, y = polygons.unbind(2)
    end_x, end_y = polygons.roll(-1, 1).unbind(2)
    return _Edges(
        x=x,
        y=y,
        slope=((end_y - y) / (end_x - x)).nan_to_num(0, 0, 0),  # nothing is below an upright edge
        low=x.minimum(end_x),
        high=x.maximum(end_x),
        sign=(end_x - x).sign(),
    )


def turning_areas(boxes: Boxes) -> Float[Tensor, " boxes"]:
    """Compute areas, negative for corners that turn from the y axis to the x axis, and 0 for negative sizes."""
    if boxes.shape[1] == NUM_PARAMETERS:
        return boxes[:, 2:4].clamp(min=0).prod(1)
    # From the first corner, or polygons far from the origin lose digits.
    x, y = (rotated_corners(boxes) - boxes[:, None, :2]).unbind(2)
    return (x * y.roll(-1, 1) - x.roll(-1, 1) * y).sum(1) / 2


def rotated_corners(boxes: Boxes) -> Corners:
    """Return the four corners in order of rotation from the x axis to the y axis; corners keep their order."""
    centers, corners = _around_centers(boxes)
    return centers[:, None] + corners


def _around_centers(boxes: Boxes) -> tuple[Float[Tensor, "boxes 2"], Corners]:
    """Return centers, and corners relative to them; the center of boxes that are corners is the origin."""
    if boxes.shape[1] == NUM_COORDINATES:
        return torch.zeros_like(boxes[:, :2]), boxes.view(-1, 4, 2)
    signs = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    sizes = boxes[:, None, 2:4].clamp(min=0)  # a negative size counts as 0
    along, across = (signs * sizes).unbind(2)
    cosine = boxes[:, 4].cos()[:, None]
    sine = boxes[:, 4].sin()[:, None]
    x = along * cosine - across * sine
    y = along * sine + across * cosine
    return boxes[:, :2], torch.stack([x, y], 2)


def crossing_edges(boxes: Boxes) -> Bool[Tensor, " boxes"]:
    """Return whether two opposite edges of each box cross, inside of both; False for boxes [boxes, 5].

    Such corners are not in turn: left top, right top, left bottom, right bottom. One of the two parts turns in the
    other direction and counts as negative, so the area has no meaning. A corner that lies on an edge or on another
    corner is no crossing: the shape is a triangle or a line, with the right area. Nor is a crossing within the rounding
    of the corners, where the area is almost 0 in either order.
    """
    if boxes.shape[1] != NUM_COORDINATES:
        return torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    corners = boxes.double().view(-1, 4, 2)
    starts = corners - corners[:, :1]
    edges = starts.roll(-1, 1) - starts
    # The signed distance of the next two corners from each edge, times the length of the edge.
    to_next = starts.roll(-2, 1) - starts
    to_last = starts.roll(-3, 1) - starts
    next_side = edges[:, :, 0] * to_next[:, :, 1] - edges[:, :, 1] * to_next[:, :, 0]
    last_side = edges[:, :, 0] * to_last[:, :, 1] - edges[:, :, 1] * to_last[:, :, 0]
    rounding = _CORNER_ROUNDING * corners.abs().amax((1, 2)) * starts.abs().amax((1, 2))
    is_next_apart = next_side.abs() > rounding[:, None]
    is_last_apart = last_side.abs() > rounding[:, None]
    is_separating = is_next_apart & is_last_apart & (next_side.sign() != last_side.sign())
    # Two edges cross if each has the ends of the other on both of its sides.
    return (is_separating[:, :2] & is_separating[:, 2:]).any(1)


@final
@dataclass(frozen=True)
class RotatedType(ShapeType):
    """Rotated boxes: tensors [boxes, 5] with center, width, height and angle in radians, or corners.

    Corners are x and y of four corners in turn, [boxes, 8] or [boxes, 4, 2].
    """

    key: ClassVar[str] = "rotated_boxes"
    has_corners: ClassVar[bool] = True
    fault: ClassVar[str] = f"{ShapeType.fault} or corners that are not in turn, so that edges cross"
    reason: ClassVar[str] = "the network has not learned yet, or corners come in another order"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Tensor:
        """See `ShapeType`."""
        if isinstance(value, Tensor) and not value.numel():  # of any shape
            return torch.empty((0, NUM_PARAMETERS), dtype=torch.float64, device=compute_device(value.device))
        if isinstance(value, (Tensor, np.ndarray)) and value.shape[1:] == _CORNER_SHAPE:
            value = value.reshape(len(value), NUM_COORDINATES)
        boxes = _checks.floating_matrix(name, value, _COLUMNS)
        if boxes.shape[1] not in (NUM_PARAMETERS, NUM_COORDINATES):
            raise ValueError(f"`{name}` must have shape [N, {_COLUMNS}]; got {list(boxes.shape)}.")
        if not any_values:
            check_finite(name, boxes)
            if boxes.shape[1] == NUM_PARAMETERS:
                check_sizes(name, boxes[:, 2:4])
        return boxes.double()

    def are_valid(self, value: Tensor) -> Tensor:
        """See `ShapeType`: whether all numbers are finite, sizes are at least 0, and edges do not cross."""
        if value.shape[1:] == _CORNER_SHAPE:
            value = value.reshape(len(value), NUM_COORDINATES)
        if value.ndim != 2:
            return super().are_valid(value)
        is_finite = value.isfinite().all(1)
        if value.shape[1] == NUM_COORDINATES:
            return is_finite & ~crossing_edges(value)
        return is_finite & (value[:, 2:4] >= 0).all(1)

    def rules_in_files(self, shapes: Tensor) -> dict[str, Tensor]:
        """See `ShapeType`."""
        return {
            CORNER_ORDER: ~crossing_edges(shapes),
            "finite numbers and sizes of at least 0": self.are_valid(shapes),
        }

    def check_images(self, names: Sequence[str], images: Sequence[Tensor]) -> None:
        """See `ShapeType`: raise if edges cross."""
        corners_by_device: dict[torch.device, list[Tensor]] = {}
        for boxes in images:
            if boxes.shape[1] == NUM_COORDINATES:
                corners_by_device.setdefault(boxes.device, []).append(boxes)
        are_crossing = [crossing_edges(torch.cat(corners)).any() for corners in corners_by_device.values()]
        if not any(map(bool, are_crossing)):
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

    def corners(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return rotated_corners(shapes).flatten(1)

    def areas(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        if shapes.shape[1] == NUM_PARAMETERS:
            return box_areas(shapes)
        return turning_areas(shapes).abs()

    def rows(self, shapes: Tensor) -> list[dict[str, Any]]:
        """See `ShapeType`: the five or eight numbers, by a key of this package."""
        return [{"rotated_box": numbers} for numbers in shapes.tolist()]

    def overlaps(self, detections: Tensor, ground_truths: Tensor, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        return pairwise_rotated_iou(detections, ground_truths, columns.is_crowd)


def rotated_iou(
    boxes1: _AnyBoxes, boxes2: _OtherBoxes, *, is_crowd: Bool[Tensor, " boxes2"] | _checks.Array | None = None
) -> Float[Tensor, "boxes1 boxes2"]:
    """Compute the intersection over union of every rotated box in `boxes1` with every one in `boxes2`, float64.

    It is exact up to rounding. The YOLO family's probIoU compares normal distributions instead: it is 1 for a square
    and the same square turned by 45 degrees, with an overlap of 0.707, and 0.119 for two squares side by side.

    Four corners stay the polygon that they are, as in DOTA's `polyiou`, and do not become a rectangle. They may come in
    either direction, with an angle beyond 180 degrees, too. Their edges must not cross: left top, right top, left
    bottom, right bottom is an error, because parts of such a shape would count as negative.

    Args:
        boxes1: center x, center y, width, height, and the angle of rotation from the x axis to the y axis, in radians;
            or x and y of four corners in turn, [N, 8] or [N, 4, 2].
        boxes2: rotated boxes in one of the same forms.
        is_crowd: whether each of `boxes2` is a region with many objects: then the intersection is divided by the
            area of the box in `boxes1` alone.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: boxes that are neither [N, 5] nor [N, 8] nor [N, 4, 2] or not finite, a negative size, or edges
            that cross.
    """
    kind = RotatedType()
    boxes1 = kind.read("boxes1", boxes1, is_true=False)
    boxes2 = kind.read("boxes2", boxes2, is_true=True)
    _checks.same_device("boxes1", boxes1, "boxes2", boxes2)
    kind.check_images(["boxes1", "boxes2"], [boxes1, boxes2])
    if is_crowd is not None:
        is_crowd = _checks.mask("is_crowd", is_crowd, len(boxes2), boxes2.device)
    return pairwise_rotated_iou(boxes1, boxes2, is_crowd)


SHAPE_TYPES["rotated"] = lambda _: RotatedType()
SHAPES_IN_WORDS["rotated"] = "rotated boxes"
