"""Overlaps of rotated boxes, as five numbers or as four corners: exact intersection over union, in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import iou_of_areas

Boxes = Float[Tensor, "boxes _"]
Corners = Float[Tensor, "boxes 4 2"]
NUM_PARAMETERS = 5  # center x, center y, width, height, angle
NUM_COORDINATES = 8  # x and y of four corners
_CORNER_ROUNDING = 2.0**-20  # rounding of corners from float32, relative to their largest coordinate
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18


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
