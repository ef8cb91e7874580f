"""The shape of rotated boxes: `iou_type="rotated"`, and their overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import (
    SHAPE_TYPES,
    SHAPES_IN_WORDS,
    ObjectColumns,
    ShapeType,
    box_areas,
    check_finite,
    check_sizes,
    keypoint_boxes,
)

from .polygons import (
    NUM_COORDINATES,
    NUM_PARAMETERS,
    Boxes,
    crossing_edges,
    pairwise_rotated_iou,
    rotated_corners,
    turning_areas,
)

_AnyBoxes = Boxes | Float[Tensor, "boxes 4 2"] | _checks.Array
_OtherBoxes = Float[Tensor, "boxes2 _"] | Float[Tensor, "boxes2 4 2"] | _checks.Array
_CORNER_SHAPE = (4, 2)
_COLUMNS = f"{NUM_PARAMETERS} or {NUM_COORDINATES}] or [N, 4, 2"
CORNER_ORDER = (
    "corners in turn around the box, such as left top, right top, right bottom, left bottom, whose edges do not cross"
)
"""the rule for four corners in a message"""


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
            return torch.empty((0, NUM_PARAMETERS), dtype=torch.float64, device=value.device)
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


def _rotated_type(_: tuple[float, ...]) -> RotatedType:
    """Return the type of rotated boxes, which needs no sigmas."""
    return RotatedType()


SHAPE_TYPES["rotated"] = _rotated_type
SHAPES_IN_WORDS["rotated"] = "rotated boxes"
