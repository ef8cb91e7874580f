"""Rotated boxes, by their numbers or by four corners: areas, and exact intersection over union, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

from .boxes import box_areas, check_finite, check_sizes, iou_of_areas
from .keypoints import keypoint_boxes
from .shapes import ObjectColumns, ShapeType

_Boxes5 = Float[Tensor, "boxes 5"]
_Boxes = Float[Tensor, "boxes _"]
_Others = Float[Tensor, "others _"] | _checks.Array
_Corners = Float[Tensor, "boxes 4 2"]
_NUMBERS, _OF_CORNERS = 5, 8
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18


def rotated_iou(
    boxes: _Boxes | _checks.Array, others: _Others, *, is_crowd: Bool[Tensor, " others"] | _checks.Array | None = None
) -> Float[Tensor, "boxes others"]:
    """Intersection over union of every rotated box with every other, float64.

    It is exact up to rounding. The YOLO family's probIoU compares normal distributions instead: it is 1 for a square
    and the same square turned by 45 degrees, with an overlap of 0.707, and 0.119 for two squares side by side.

    Four corners stay the polygon that they are, as in DOTA's `polyiou`, and do not become a rectangle. They may come in
    either direction, with an angle beyond 180 degrees, too. Where edges cross, parts of the other direction count as
    negative.

    Args:
        boxes: center x, center y, width, height, and the angle of rotation from the x axis to the y axis, in radians;
            or x and y of four corners in turn.
        others: either of both, too.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the box alone.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: boxes that are neither [N, 5] nor [N, 8] or not finite, or a negative size.
    """
    kind = RotatedType()
    first, second = kind.read("boxes", boxes, is_true=False), kind.read("others", others, is_true=True)
    _checks.same_device("boxes", first, "others", second)
    if is_crowd is not None:
        is_crowd = _checks.mask("is_crowd", is_crowd, len(second), second.device)
    return pairwise_rotated_iou(first, second, is_crowd)


def pairwise_rotated_iou(boxes: Tensor, others: Tensor, is_crowd: Tensor | None = None) -> Tensor:
    """See `rotated_iou`; float64."""
    if _OF_CORNERS in (boxes.shape[1], others.shape[1]):
        return _polygon_iou(rotated_corners(boxes), rotated_corners(others), is_crowd)
    common = boxes.new_zeros((len(boxes), len(others)))
    # Boxes further apart than the sum of half their diagonals are disjoint.
    reach = [each[:, 2:4].square().sum(1).sqrt() / 2 for each in (boxes, others)]
    offsets = boxes[:, None, :2] - others[:, :2]
    pairs = (offsets.square().sum(2).sqrt() <= reach[0][:, None] + reach[1]).nonzero()
    for block in segments.ranges(len(pairs), _PAIRS_AT_A_TIME.get(boxes.device.type, _MOST_PAIRS)):
        row, other = pairs[block].unbind(1)
        common[row, other] = _intersection_areas(boxes.index_select(0, row), others.index_select(0, other))
    areas, other_areas = box_areas(boxes)[:, None], box_areas(others)
    return iou_of_areas(common.minimum(areas).minimum(other_areas), areas, other_areas, is_crowd)


def _intersection_areas(boxes: _Boxes5, others: _Boxes5) -> Float[Tensor, " boxes"]:
    """Areas of the intersections of pairs: walk the edges of the other box in the frame of the box, clamped to it.

    Clamping moves a point outside to the nearest point inside. It keeps the winding number of every point inside, so
    the clamped path encloses the intersection. The path is straight between the points where an edge crosses a side.
    """
    half = boxes[:, None, 2:4] / 2
    # Corners of the other box in the frame of the box; centers first, or corners far from the origin lose digits.
    corners = rotated_corners(torch.cat([others[:, :2] - boxes[:, :2], others[:, 2:]], 1))
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    x, y = corners.unbind(2)
    corners = torch.stack([cosine * x + sine * y, cosine * y - sine * x], 2)
    # Where each edge crosses the four sides, as a share of its length, between its ends 0 and 1.
    edges = corners.roll(-1, 1) - corners
    sides = torch.stack([-half, half], 3)
    crossings = ((sides - corners[..., None]) / edges[..., None]).nan_to_num(0, 0, 0).clamp(0, 1).flatten(2)
    ends = torch.zeros_like(crossings[:, :, :1])
    places = torch.cat([ends, crossings.sort(2).values, ends + 1], 2)[..., None]
    # The clamped path, and its area by the shoelace formula.
    path = corners[:, :, None] + places * edges[:, :, None]
    x, y = path.minimum(half[:, None]).maximum(-half[:, None]).unbind(3)
    twice = (x[..., :-1] * y[..., 1:] - x[..., 1:] * y[..., :-1]).sum((1, 2))
    return (twice / 2).clamp(min=0)


def _polygon_iou(polygons: _Corners, others: Float[Tensor, "others 4 2"], is_crowd: Tensor | None) -> Tensor:
    common = polygons.new_zeros((len(polygons), len(others)))
    # Polygons with bounding boxes apart are disjoint.
    (low, high), (other_low, other_high) = (each.aminmax(dim=1) for each in (polygons, others))
    pairs = ((low[:, None] <= other_high) & (other_low <= high[:, None])).all(2).nonzero()
    for block in segments.ranges(len(pairs), _PAIRS_AT_A_TIME.get(polygons.device.type, _MOST_PAIRS)):
        row, other = pairs[block].unbind(1)
        common[row, other] = _polygon_intersections(polygons.index_select(0, row), others.index_select(0, other))
    areas, other_areas = (_turning_areas(each).abs() for each in (polygons, others))
    # Where edges cross, the union can be less than the intersection.
    return iou_of_areas(common, areas[:, None], other_areas, is_crowd).clamp(0, 1)


def _polygon_intersections(polygons: _Corners, others: _Corners) -> Float[Tensor, " boxes"]:
    """Areas of the intersections of pairs: clip the polygon to the two triangles of the other, and add both up.

    The triangles have the corners 0, 1, 2 and 0, 2, 3. Where an angle is beyond 180 degrees, one lies inside of the
    other and turns the other way, so it counts as negative.
    """
    path, other = polygons - others[:, :1], others - others[:, :1]
    common = path.new_zeros(len(path))
    for second in (1, 2):
        triangle = other[:, [0, second, second + 1]]
        area = _turning_areas(triangle)
        triangle = torch.where(area[:, None, None] < 0, triangle.flip(1), triangle)
        clipped = path
        for start, end in zip(triangle.unbind(1), triangle.roll(-1, 1).unbind(1), strict=True):
            clipped = _clip(clipped, start[:, None], end[:, None])
        common += area.sign() * _turning_areas(clipped)
    turns = [_turning_areas(each) < 0 for each in (path, other)]
    return torch.where(turns[0] == turns[1], common, -common)


def _clip(path: Float[Tensor, "boxes points 2"], start: Tensor, end: Tensor) -> Float[Tensor, "boxes twice 2"]:
    """A closed path with all that is to the right of a line moved to the line, and the points where it crosses.

    As in `_intersection_areas` the winding number of every point to the left stays, and that of others becomes 0.
    """
    x, y = (end - start).unbind(2)
    normal = functional.normalize(torch.stack([-y, x], 2), dim=2)
    depth = ((path - start) * normal).sum(2)
    following = depth.roll(-1, 1)
    share = (depth / (depth - following)).nan_to_num(0, 0, 0).clamp(0, 1)
    points = torch.stack([path, path.lerp(path.roll(-1, 1), share[..., None])], 2)
    depths = torch.stack([depth, depth.lerp(following, share)], 2)
    return (points - depths.clamp(max=0)[..., None] * normal[:, :, None]).flatten(1, 2)


def _turning_areas(paths: Float[Tensor, "boxes points 2"]) -> Float[Tensor, " boxes"]:
    """Areas that closed paths enclose, negative where they turn from the y axis to the x axis."""
    # From the first point, or paths far from the origin lose digits.
    x, y = (paths - paths[:, :1]).unbind(2)
    return (x * y.roll(-1, 1) - x.roll(-1, 1) * y).sum(1) / 2


def rotated_corners(boxes: _Boxes) -> _Corners:
    """The four corners, in order of rotation from the x axis to the y axis, or as they were given."""
    if boxes.shape[1] == _OF_CORNERS:
        return boxes.view(-1, 4, 2)
    signs = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    along, across = (signs * boxes[:, None, 2:4]).unbind(2)
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    x, y = boxes[:, 0, None], boxes[:, 1, None]
    return torch.stack([x + along * cosine - across * sine, y + along * sine + across * cosine], 2)


@final
@dataclass(frozen=True)
class RotatedType(ShapeType):
    """Rotated boxes: tensors [boxes, 5] of center, width, height and angle in radians, or [boxes, 8] of corners."""

    key: ClassVar[str] = "rotated_boxes"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Tensor:
        """See `ShapeType`."""
        if isinstance(value, Tensor) and not value.numel():  # of any shape
            return torch.empty((0, _NUMBERS), dtype=torch.float64, device=value.device)
        boxes = _checks.floating_matrix(name, value, f"{_NUMBERS} or {_OF_CORNERS}")
        if boxes.shape[1] not in (_NUMBERS, _OF_CORNERS):
            raise ValueError(f"`{name}` must have shape [N, {_NUMBERS} or {_OF_CORNERS}]; got {[*boxes.shape]}.")
        if not any_values:
            check_finite(name, boxes)
            if boxes.shape[1] == _NUMBERS:
                check_sizes(name, boxes[:, 2:4])
        return boxes.double()

    def are_sound(self, value: Tensor) -> Tensor:
        """See `ShapeType`: whether all numbers are finite, and sizes at least 0."""
        if value.ndim != 2:
            return super().are_sound(value)
        is_sound = value.isfinite().all(1)
        return is_sound if value.shape[1] == _OF_CORNERS else is_sound & (value[:, 2:4] >= 0).all(1)

    def boxes(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return keypoint_boxes(rotated_corners(shapes))

    def areas(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return _turning_areas(rotated_corners(shapes)).abs() if shapes.shape[1] == _OF_CORNERS else box_areas(shapes)

    def rows(self, shapes: Tensor) -> list[dict[str, Any]]:
        """See `ShapeType`: the five or eight numbers, a key that is no one else's."""
        return [{"rotated_box": each} for each in shapes.tolist()]

    def overlaps(self, detections: Tensor, ground_truths: Tensor, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        return pairwise_rotated_iou(detections, ground_truths, columns.is_crowd)
