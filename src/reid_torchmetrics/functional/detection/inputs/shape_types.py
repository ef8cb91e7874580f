"""The values of `iou_type`, with COCO's options for each.

To add a kind of shape, write a `ShapeType` and add a row to `SHAPE_TYPES`, for metrics and `evaluate_images`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reid_torchmetrics import _hints
from reid_torchmetrics._registries import Registry

from .grid import COCO_AREA_RANGES, COCO_MAX_DETECTIONS, AreaRange
from .keypoints import COCO_SIGMAS, KeypointType, check_sigmas
from .masks import MaskType
from .shapes import ShapeType

SHAPE_TYPES: Registry[Callable[[tuple[float, ...]], ShapeType]] = Registry(
    "SHAPE_TYPES",
    {
        "segm": lambda _: MaskType(),
        "keypoints": KeypointType,
    },
)
"""functions that construct all kinds of shapes but boxes from the sigmas of keypoints"""
SHAPES_IN_WORDS = Registry("SHAPES_IN_WORDS", {"bbox": "boxes", "segm": "masks", "keypoints": "keypoints"})
"""the shapes of each `iou_type`, for texts"""
IOU_TYPES = (("bbox",), *((name,) for name in SHAPE_TYPES), ("bbox", "segm"), ("segm", "bbox"))
"""one kind alone or, as in instance segmentation, boxes beside masks"""


def defaults_of(iou_type: str | Sequence[str]) -> tuple[tuple[int, ...], dict[str, AreaRange]]:
    """Return COCO's limits of detections and its area ranges: for keypoints other limits, and no small range.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    if checked_iou_type(iou_type)[0] != "keypoints":
        return COCO_MAX_DETECTIONS, COCO_AREA_RANGES
    area_ranges = {name: ends for name, ends in COCO_AREA_RANGES.items() if name != "small"}
    return (1, 10, 20), area_ranges


def shape_types(iou_type: Sequence[str], sigmas: Sequence[float] | None) -> dict[str, ShapeType]:
    """Return the kinds of shapes to evaluate beside boxes, by name.

    Raises:
        TypeError: sigmas that are no numbers.
        ValueError: sigmas that are not positive, or without keypoints.
    """
    if sigmas is not None and "keypoints" not in iou_type:
        raise ValueError(f"`sigmas` must be None where iou_type is not 'keypoints'; got {sigmas!r}.")
    keypoint_sigmas: tuple[float, ...] = COCO_SIGMAS
    if sigmas is not None:
        check_sigmas("sigmas", sigmas)
        keypoint_sigmas = tuple(map(float, sigmas))
    return {name: SHAPE_TYPES[name](keypoint_sigmas) for name in iou_type if name in SHAPE_TYPES}


def checked_iou_type(iou_type: str | Sequence[str]) -> tuple[str, ...]:
    """Check an `iou_type`, and return it as a tuple of names.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    names = (iou_type,) if isinstance(iou_type, str) else iou_type
    if not isinstance(names, (tuple, list)):
        raise TypeError(f"`iou_type` must be a name or a tuple of names; got {type(iou_type).__name__}.")
    if tuple(names) not in IOU_TYPES:
        known_names = _hints.listed(("bbox", *SHAPE_TYPES))
        raise ValueError(f"`iou_type` must be one of {known_names} or ('bbox', 'segm'); got {iou_type!r}.")
    return tuple(names)
