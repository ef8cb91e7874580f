"""The values of `iou_type`, with COCO's options for each.

A new kind of shape is a `ShapeType` and a row of `SHAPE_TYPES`; metrics and `evaluate_images` know it then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .grid import COCO_AREA_RANGES, COCO_MAX_DETECTIONS, AreaRange
from .keypoints import COCO_SIGMAS, KeypointType, check_sigmas
from .masks import MaskType
from .rotated_boxes import RotatedType
from .shapes import ShapeType

SHAPE_TYPES: dict[str, Callable[[tuple[float, ...]], ShapeType]] = {
    "segm": lambda _: MaskType(),
    "keypoints": KeypointType,
    "rotated": lambda _: RotatedType(),
}
"""all kinds but boxes, each made from the sigmas of keypoints"""
# Alone or, as in instance segmentation, boxes beside masks.
IOU_TYPES = (("bbox",), *((name,) for name in SHAPE_TYPES), ("bbox", "segm"), ("segm", "bbox"))


class Defaults(NamedTuple):
    """COCO's options for an `iou_type`."""

    max_detections: tuple[int, ...] = COCO_MAX_DETECTIONS
    area_ranges: Mapping[str, AreaRange] = COCO_AREA_RANGES


_WITHOUT_SMALL = {name: ends for name, ends in COCO_AREA_RANGES.items() if name != "small"}
_DEFAULTS = {"keypoints": Defaults((1, 10, 20), _WITHOUT_SMALL)}


def defaults_of(iou_type: str | Sequence[str]) -> Defaults:
    """COCO's options for a type: with keypoints at most 20 detections count, and there is no small area range.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    return _DEFAULTS.get(checked_iou_type(iou_type)[0], Defaults())


def shape_types(iou_type: Sequence[str], sigmas: Sequence[float] | None) -> dict[str, ShapeType]:
    """The kinds of shapes to evaluate beside boxes, by name.

    Raises:
        TypeError: sigmas that are no numbers.
        ValueError: sigmas that are not positive, or without keypoints.
    """
    if sigmas is not None and "keypoints" not in iou_type:
        raise ValueError(f"`sigmas` must be None where iou_type is not 'keypoints'; got {sigmas!r}.")
    if sigmas is not None:
        check_sigmas("sigmas", sigmas)
    given = COCO_SIGMAS if sigmas is None else tuple(map(float, sigmas))
    return {name: SHAPE_TYPES[name](given) for name in iou_type if name in SHAPE_TYPES}


def checked_iou_type(iou_type: str | Sequence[str]) -> tuple[str, ...]:
    """Check an `iou_type`; a tuple of names.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    listed = (iou_type,) if isinstance(iou_type, str) else iou_type
    if not isinstance(listed, (tuple, list)):
        raise TypeError(f"`iou_type` must be a name or a tuple of names; got {type(iou_type).__name__}.")
    if tuple(listed) not in IOU_TYPES:
        names = ", ".join(map(repr, ("bbox", *SHAPE_TYPES)))
        raise ValueError(f"`iou_type` must be one of {names} or ('bbox', 'segm'); got {iou_type!r}.")
    return tuple(listed)
