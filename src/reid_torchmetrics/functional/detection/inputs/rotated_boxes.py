"""Rotated boxes: areas, corners, and exact intersection over union, in float64."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

RotatedBoxes = Float[Tensor, "boxes 5"]
_NUMBERS = 5
_PAIRS_AT_A_TIME = {"cpu": 1 << 12}  # stay in the cache
_MOST_PAIRS = 1 << 18


def rotated_iou(
    boxes: RotatedBoxes, others: Float[Tensor, "others 5"], *, is_crowd: Bool[Tensor, " others"] | None = None
) -> Float[Tensor, "boxes others"]:
    """Intersection over union of every rotated box with every other, float64.

    It is that of the areas themselves, but for rounding, unlike the probIoU of the YOLO family, which compares normal
    distributions: that is 1 for a square and the same square turned by 45 degrees, which overlap by 0.707, and 0.119
    for two squares side by side.

    Args:
        boxes: center x, center y, width, height, and the angle in radians by which the box is turned from the x axis
            to the y axis.
        others: the same.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the box alone.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: boxes that are not [N, 5] or not finite, or a negative size.
    """
    first, second = checked_rotated_boxes("boxes", boxes), checked_rotated_boxes("others", others)
    _checks.same_device("boxes", boxes, "others", others)
    if is_crowd is not None:
        _checks.mask("is_crowd", is_crowd, len(others), others.device)
    return pairwise_rotated_iou(first, second, is_crowd)


def pairwise_rotated_iou(boxes: Tensor, others: Tensor, is_crowd: Tensor | None = None) -> Tensor:
    """See `rotated_iou`; float64."""
    areas, other_areas = (rotated_areas(each) for each in (boxes, others))
    common = _intersections(boxes, others).minimum(areas[:, None]).minimum(other_areas)
    union = areas[:, None] + other_areas - common
    if is_crowd is not None:
        union = torch.where(is_crowd, areas[:, None], union)
    return torch.where(common > 0, common / union, 0.0)


def _intersections(boxes: Tensor, others: Tensor) -> Tensor:
    """The area that each box has in common with each of the others."""
    common = boxes.new_zeros((len(boxes), len(others)))
    # Beyond the sum of half the diagonals nothing is in common.
    reach = [each[:, 2:4].square().sum(1).sqrt() / 2 for each in (boxes, others)]
    offsets = boxes[:, None, :2] - others[:, :2]
    pairs = (offsets.square().sum(2).sqrt() <= reach[0][:, None] + reach[1]).nonzero()
    size = _PAIRS_AT_A_TIME.get(boxes.device.type, _MOST_PAIRS)
    for block in segments.ranges(len(pairs), size):
        row, other = pairs[block].unbind(1)
        common[row, other] = _area_in_common(boxes.index_select(0, row), others.index_select(0, other))
    return common


def _area_in_common(boxes: RotatedBoxes, others: RotatedBoxes) -> Float[Tensor, " boxes"]:
    """Of pairs: go along the edges of the other box, as seen from the box, and stay inside of it.

    A point that would be outside is moved to the nearest point inside. That keeps how often each point inside is gone
    around, so the way encloses the intersection. It is straight between the places where an edge crosses a side.
    """
    half = boxes[:, None, 2:4] / 2
    # Centers first: corners far from the origin would be rounded to its scale.
    corners = rotated_corners(torch.cat([others[:, :2] - boxes[:, :2], others[:, 2:]], 1))
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    x, y = corners.unbind(2)
    corners = torch.stack([cosine * x + sine * y, cosine * y - sine * x], 2)
    edges = corners.roll(-1, 1) - corners
    sides = torch.stack([-half, half], 3)
    crossings = ((sides - corners[..., None]) / edges[..., None]).nan_to_num(0, 0, 0).clamp(0, 1).flatten(2)
    ends = torch.zeros_like(crossings[:, :, :1])
    places = torch.cat([ends, crossings.sort(2).values, ends + 1], 2)[..., None]
    way = corners[:, :, None] + places * edges[:, :, None]
    x, y = way.minimum(half[:, None]).maximum(-half[:, None]).unbind(3)
    twice = (x[..., :-1] * y[..., 1:] - x[..., 1:] * y[..., :-1]).sum((1, 2))
    return (twice / 2).clamp(min=0)


def rotated_corners(boxes: RotatedBoxes) -> Float[Tensor, "boxes 4 2"]:
    """The four corners, in the order in which they are gone around from the x axis to the y axis."""
    signs = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], dtype=boxes.dtype, device=boxes.device)
    along, across = (signs * boxes[:, None, 2:4]).unbind(2)
    cosine, sine = boxes[:, 4].cos()[:, None], boxes[:, 4].sin()[:, None]
    x, y = boxes[:, 0, None], boxes[:, 1, None]
    return torch.stack([x + along * cosine - across * sine, y + along * sine + across * cosine], 2)


def rotated_areas(boxes: RotatedBoxes) -> Float[Tensor, " boxes"]:
    """Width times height, float64."""
    return boxes[:, 2].double() * boxes[:, 3]


def checked_rotated_boxes(argument: str, boxes: Any, *, any_values: bool = False) -> Tensor:
    """Rotated boxes as float64, or an error; without entries of any shape."""
    if isinstance(boxes, Tensor) and not boxes.numel():
        return torch.empty((0, _NUMBERS), dtype=torch.float64, device=boxes.device)
    _checks.floating_matrix(argument, boxes, _NUMBERS)
    if not any_values and not bool(boxes.isfinite().all()):
        raise ValueError(f"`{argument}` must be finite; got {float(boxes[~boxes.isfinite()][0])}.")
    if not any_values and (least := float(boxes[:, 2:4].min())) < 0:
        raise ValueError(f"`{argument}` must have widths and heights of at least 0; got {least}.")
    found: Tensor = boxes.double()
    return found
