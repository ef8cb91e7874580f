"""Rotated boxes: areas, corners, and exact intersection over union, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

from .boxes import box_areas, check_finite, check_sizes, iou_of_areas
from .keypoints import keypoint_boxes
from .shapes import ObjectColumns, ShapeType

_Boxes5 = Float[Tensor, "boxes 5"]
_Others5 = Float[Tensor, "others 5"] | _checks.Array
_NUMBERS = 5
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18


def rotated_iou(
    boxes: _Boxes5 | _checks.Array, others: _Others5, *, is_crowd: Bool[Tensor, " others"] | _checks.Array | None = None
) -> Float[Tensor, "boxes others"]:
    """Intersection over union of every rotated box with every other, float64.

    It is exact up to rounding. The YOLO family's probIoU compares normal distributions instead: it is 1 for a square
    and the same square turned by 45 degrees, with an overlap of 0.707, and 0.119 for two squares side by side.

    Args:
        boxes: center x, center y, width, height, and the angle of rotation from the x axis to the y axis, in radians.
        others: the same.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the box alone.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: boxes that are not [N, 5] or not finite, or a negative size.
    """
    kind = RotatedType()
    first, second = kind.read("boxes", boxes, is_true=False), kind.read("others", others, is_true=True)
    _checks.same_device("boxes", first, "others", second)
    if is_crowd is not None:
        is_crowd = _checks.mask("is_crowd", is_crowd, len(second), second.device)
    return pairwise_rotated_iou(first, second, is_crowd)


def pairwise_rotated_iou(boxes: Tensor, others: Tensor, is_crowd: Tensor | None = None) -> Tensor:
    """See `rotated_iou`; float64."""
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


def rotated_corners(boxes: _Boxes5) -> Float[Tensor, "boxes 4 2"]:
    """The four corners, in order of rotation from the x axis to the y axis."""
    signs = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    along, across = (signs * boxes[:, None, 2:4]).unbind(2)
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    x, y = boxes[:, 0, None], boxes[:, 1, None]
    return torch.stack([x + along * cosine - across * sine, y + along * sine + across * cosine], 2)


@final
@dataclass(frozen=True)
class RotatedType(ShapeType):
    """Rotated boxes: tensors [boxes, 5] of center, width, height and angle in radians."""

    key: ClassVar[str] = "rotated_boxes"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Tensor:
        """See `ShapeType`."""
        if isinstance(value, Tensor) and not value.numel():  # of any shape
            return torch.empty((0, _NUMBERS), dtype=torch.float64, device=value.device)
        boxes = _checks.floating_matrix(name, value, _NUMBERS)
        if not any_values:
            check_finite(name, boxes)
            check_sizes(name, boxes[:, 2:4])
        return boxes.double()

    def are_sound(self, value: Tensor) -> Tensor:
        """See `ShapeType`: whether all numbers are finite, and sizes at least 0."""
        if value.ndim != 2:
            return super().are_sound(value)
        return value.isfinite().all(1) & (value[:, 2:4] >= 0).all(1)

    def boxes(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return keypoint_boxes(rotated_corners(shapes))

    def areas(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`."""
        return box_areas(shapes)

    def rows(self, shapes: Tensor) -> list[dict[str, Any]]:
        """See `ShapeType`: the five numbers, a key that is no one else's."""
        return [{"rotated_box": each} for each in shapes.tolist()]

    def overlaps(self, detections: Tensor, ground_truths: Tensor, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        return pairwise_rotated_iou(detections, ground_truths, columns.is_crowd)
