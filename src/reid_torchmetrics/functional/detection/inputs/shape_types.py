"""The values of `iou_type`, with COCO's options for each.

A new kind of shape is a `ShapeType` and a row of `SHAPE_TYPES`; metrics and `evaluate_images` know it then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def defaults_of(iou_type: str | Sequence[str]) -> tuple[tuple[int, ...], dict[str, AreaRange]]:
    """COCO's limits of detections and its area ranges: with keypoints other limits, and no small range.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    if checked_iou_type(iou_type)[0] != "keypoints":
        return COCO_MAX_DETECTIONS, COCO_AREA_RANGES
    return (1, 10, 20), {name: ends for name, ends in COCO_AREA_RANGES.items() if name != "small"}


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
