"""Boxes: formats, areas and intersection over union in float64, and checks of packed boxes with their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")
"""two corners; corner, width, height; center, width, height"""
_LARGEST_IMAGE = 2**31 - 1

Boxes = Float[Tensor, "boxes 4"]


def check_boxes(argument: str, boxes: Any) -> None:
    """Raise unless boxes are a floating point tensor [N, 4] of finite x, y, width >= 0, height >= 0."""
    _checks.floating_matrix(argument, boxes, 4)
    if len(boxes):
        check_finite(argument, boxes)
        check_sizes(argument, boxes[:, 2:])


def check_sizes(argument: str, sizes: Tensor) -> None:
    """Raise unless widths and heights are at least 0."""
    least = float(sizes.contiguous().amin())  # several times faster than on the slice itself
    if least < 0:
        raise ValueError(f"`{argument}` must have widths and heights of at least 0; got {least}.")


def check_scores(argument: str, scores: Any, length: int, device: torch.device) -> None:
    """Raise unless scores are a vector of finite floats, one for each box."""
    _checks.floating_vector(argument, scores)
    if len(scores) != length:
        raise ValueError(f"`{argument}` must have one value for each of {length} boxes; got {len(scores)}.")
    if scores.device != device:
        raise ValueError(f"`{argument}` must be on the device of the boxes, {device}; got {scores.device}.")
    if length:
        check_finite(argument, scores)


def check_areas(argument: str, areas: Any, length: int, device: torch.device) -> None:
    """Raise unless areas are a vector of finite floats of at least 0, one for each box."""
    check_scores(argument, areas, length, device)
    if length and float(areas.amin()) < 0:
        raise ValueError(f"`{argument}` must hold areas of at least 0; got {float(areas.amin())}.")


def check_image_numbers(argument: str, images: Any, length: int, device: torch.device) -> None:
    """Raise unless image numbers are a vector of ints from 0 to 2^31 - 1, one for each box."""
    _checks.integer_labels(argument, images, length, device)
    if length:
        least, most = map(int, images.aminmax())
        if least < 0 or most > _LARGEST_IMAGE:
            got = least if least < 0 else most
            raise ValueError(f"`{argument}` must hold numbers from 0 to {_LARGEST_IMAGE}; got {got}.")


def check_finite(argument: str, values: Tensor) -> None:
    """Raise unless all values, at least one, are finite."""
    extremes = torch.stack(values.aminmax())  # NaN if there is one
    if not bool(extremes.isfinite().all()):
        raise ValueError(f"`{argument}` must be finite; got {float(values[~values.isfinite()][0])}.")


def to_xywh(boxes: Float[Tensor, "boxes _"], box_format: str) -> Float[Tensor, "boxes _"]:
    """Convert boxes to corner, width and height, by subtractions in their own dtype.

    Centers are converted to corners first, as in torchvision's `box_convert`, so that float32 boxes give the same bits.

    Args:
        boxes: [boxes, 4]. Boxes in the format "xywh" may have any shape, and are returned themselves.
        box_format: "xyxy", "xywh" or "cxcywh".

    Raises:
        ValueError: an unknown format.
    """
    if box_format == "xywh":
        return boxes
    _checks.one_of("box_format", box_format, BOX_FORMATS)
    corners = to_xyxy(boxes, box_format)
    converted = corners.clone()
    converted[:, 2:].sub_(corners[:, :2])  # in half the time of joining the halves
    return converted


def to_xyxy(boxes: Boxes, box_format: str) -> Boxes:
    """Convert boxes to two corners, by additions in their own dtype, as torchvision's `box_convert`; see `to_xywh`."""
    if box_format == "xyxy":
        return boxes
    point = boxes[:, :2]
    size = boxes[:, 2:]
    if box_format == "cxcywh":
        return torch.cat([point - 0.5 * size, point + 0.5 * size], 1)
    return torch.cat([point, point + size], 1)


def from_xywh(boxes: Boxes, box_format: str) -> Boxes:
    """Convert boxes of corner, width and height to another format; the inverse of `to_xywh`."""
    if box_format == "xyxy":
        return to_xyxy(boxes, "xywh")
    if box_format == "cxcywh":
        size = boxes[:, 2:]
        return torch.cat([boxes[:, :2] + size / 2, size], 1)
    return boxes


def box_areas(boxes: Float[Tensor, "boxes _"]) -> Float[Tensor, " boxes"]:
    """Compute width times height of boxes [x, y, width, height, ...], float64."""
    return boxes[:, 2].double() * boxes[:, 3]


class Sides(NamedTuple):
    """Edges and areas of boxes, one float64 column each."""

    left: Tensor
    top: Tensor
    right: Tensor
    bottom: Tensor
    area: Tensor

    @classmethod
    def of(cls, boxes: Boxes) -> Sides:
        """Return the sides of boxes [x, y, width, height] as in COCO: the right edge is x + width."""
        left, top, width, height = boxes.T.to(torch.float64, memory_format=torch.contiguous_format).unbind()
        return cls(left, top, left + width, top + height, width * height)

    @classmethod
    def of_corners(cls, boxes: Boxes, *, whole_pixels: bool = True) -> Sides:
        """Return the sides of boxes [x, y, width, height] as in Pascal VOC: areas are computed from corners.

        So the intersection of two equal boxes is their area to the last bit, and their overlap 1. With `whole_pixels`
        the right and bottom edges are the last pixels inside: both edges count, and a box is one pixel wider and higher
        than the difference of its edges.
        """
        left, top, width, height = boxes.T.to(torch.float64, memory_format=torch.contiguous_format).unbind()
        right = left + width + int(whole_pixels)
        bottom = top + height + int(whole_pixels)
        return cls(left, top, right, bottom, (right - left) * (bottom - top))

    def at(self, rows: Tensor) -> Sides:
        """Return the sides of the boxes of some rows."""
        return Sides(*(column.index_select(0, rows) for column in self))


def common_areas(boxes: Sides, others: Sides) -> Tensor:
    """Compute the areas of the intersections of boxes and others, broadcast."""
    width = torch.minimum(boxes.right, others.right).sub_(torch.maximum(boxes.left, others.left)).clamp_(min=0)
    height = torch.minimum(boxes.bottom, others.bottom).sub_(torch.maximum(boxes.top, others.top)).clamp_(min=0)
    return width.mul_(height)


def overlap(boxes: Sides, others: Sides, is_crowd: Tensor | None = None) -> Tensor:
    """Compute intersection over union of boxes and others, broadcast; over the box's area if the other is a crowd.

    The terms are added in the order (area + area of the other) - intersection, as in pycocotools, so the last bit is
    the same. The overlap is 0 if boxes only touch, or one is empty.
    """
    return iou_of_areas(common_areas(boxes, others), boxes.area, others.area, is_crowd)


def iou_of_areas(common: Tensor, areas: Tensor, other_areas: Tensor, is_crowd: Tensor | None) -> Tensor:
    """Compute intersection over union from areas; intersection over the first area if the other is a crowd."""
    union = (areas + other_areas).sub_(common)
    if is_crowd is not None:
        union = torch.where(is_crowd, areas, union)
    return torch.where(common > 0, common / union, 0.0)


def pairwise_iou(
    boxes1: Float[Tensor, "boxes1 4"] | _checks.Array,
    boxes2: Float[Tensor, "boxes2 4"] | _checks.Array,
    *,
    box_format: _names.BoxFormat,
    is_crowd: Bool[Tensor, " boxes2"] | _checks.Integers | None = None,
    whole_pixels: bool = False,
) -> Float[Tensor, "boxes1 boxes2"]:
    """Compute the intersection over union of every box in `boxes1` with every box in `boxes2`, float64.

    The arithmetic is that of pycocotools' mask API, COCO's reference. There is no default format: COCO's is "xywh",
    torchvision's and `DetectionMAP`'s is "xyxy", and boxes of one read as the other give plausible numbers.

    Args:
        boxes1: boxes in the format, such as detections.
        boxes2: boxes in the format, such as ground truths.
        box_format: "xyxy", "xywh" or "cxcywh", see `to_xywh`.
        is_crowd: whether each of `boxes2` is a region with many objects: then the intersection is divided by the
            area of the box in `boxes1` alone.
        whole_pixels: count both edges of a box, as in Pascal VOC.

    Raises:
        TypeError: boxes of the wrong dtype.
        ValueError: an unknown format, boxes that are not [N, 4] or not finite, or a negative size, as of corners in
            the wrong order.
    """
    boxes1, boxes2, is_crowd = _arrays.as_tensors(boxes1, boxes2, is_crowd)
    find_sides = Sides.of_corners if whole_pixels else Sides.of
    boxes1 = checked_boxes("boxes1", boxes1, box_format)
    boxes2 = checked_boxes("boxes2", boxes2, box_format)
    columns = [column[:, None] for column in find_sides(boxes1)]
    return overlap(Sides(*columns), find_sides(boxes2), is_crowd)


def checked_boxes(argument: str, boxes: Tensor, box_format: str) -> Boxes:
    """Check boxes, integers too, and convert them to corner, width and height."""
    if isinstance(boxes, Tensor) and not (boxes.is_floating_point() or boxes.is_complex()):
        boxes = boxes.double()
    _checks.floating_matrix(argument, boxes, 4)
    boxes = to_xywh(boxes, box_format)
    check_boxes(argument, boxes)
    return boxes
