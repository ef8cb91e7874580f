"""What `iou_type` may be: which key of the dicts holds the shapes, and how they become overlaps and areas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import (
    COCO_AREA_RANGES,
    COCO_MAX_DETECTIONS,
    COCO_SIGMAS,
    AreaRange,
    CountedMasks,
    RunLengths,
    box_areas,
    check_sigmas,
    checked_keypoints,
    checked_masks,
    checked_rotated_boxes,
    counted_iou,
    keypoint_boxes,
    pairwise_rotated_iou,
    rotated_areas,
    rotated_corners,
    similarity,
)


@runtime_checkable
class ImageShapes(Protocol):
    """The shapes of one image, of its detections or of its ground truths, in the form in which they are overlapped."""

    def __len__(self) -> int:
        """Number of shapes."""

    def boxes(self) -> Tensor:
        """Boxes [x, y, width, height] that hold them, float64."""

    def areas(self) -> Tensor:
        """Their areas, float64."""


class Truths(NamedTuple):
    """What a batch says of the ground truths of an image beside their shapes."""

    boxes: Tensor
    """x, y, width, height"""
    areas: Tensor
    """those given, and of the shapes where they are not positive"""
    is_crowd: Tensor


class ShapeType(ABC):
    """Shapes that are overlapped in `update` and let go: the metric holds overlaps and areas."""

    key: ClassVar[str]
    keeps_boxes: ClassVar[bool] = False
    """whether boxes of ground truths are looked at where they are given"""
    count_key: ClassVar[str | None] = None
    """the key of numbers that are 0 for ground truths that count in no area range, where it is given"""

    @abstractmethod
    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Any:
        """The shapes of an image, of its ground truths or of its detections; some may hold any values.

        Raises:
            TypeError: a value of the wrong type or dtype.
            ValueError: a shape that does not fit.
        """

    def are_sound(self, value: Tensor) -> Tensor:
        """Which shapes of an image, as they are given, can be evaluated, bool; all of those that `read` refuses."""
        return torch.ones(len(value), dtype=torch.bool, device=value.device)

    @abstractmethod
    def overlaps(self, found: Any, true: Any, truths: Truths) -> Tensor:
        """How much every detection overlaps every ground truth of the image, float64; NaN stands for not at all."""

    def own_areas(self, true: ImageShapes, boxes: Tensor) -> Tensor:
        """The areas of ground truths that were given none; `boxes` are those of the batch."""
        return true.areas()

    def true_areas(self, true: Any, areas: Tensor, counts: Tensor | None) -> Tensor:
        """The areas that decide on the area range; -1 for a ground truth that counts in none, see `count_key`."""
        return areas

    def check_pair(self, name: str, found: Any, true: Any) -> None:  # noqa: B027 - most shapes fit any other
        """Raise unless shapes are of the same image."""


@final
@dataclass(frozen=True)
class MaskType(ShapeType):
    """Masks: tensors [masks, height, width], or a list of COCO's dicts of run lengths."""

    key: ClassVar[str] = "masks"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> CountedMasks:
        """See `ShapeType`."""
        if isinstance(value, Tensor) and not value.numel() and value.ndim != 3:
            value = torch.zeros((0, 0, 0), dtype=torch.bool, device=value.device)
        if isinstance(value, (list, tuple)):
            value = _run_lengths(name, value)
        if isinstance(value, Tensor) and not value.numel():  # of any dtype
            value = value.bool()
        return checked_masks(name, value)

    def overlaps(self, found: CountedMasks, true: CountedMasks, truths: Truths) -> Tensor:
        """See `ShapeType`."""
        return counted_iou(found, true, truths.is_crowd)

    def check_pair(self, name: str, found: CountedMasks, true: CountedMasks) -> None:
        """See `ShapeType`."""
        if found.size != true.size:
            sizes = [" x ".join(map(str, each.size)) for each in (found, true)]
            raise ValueError(f"`{name}` must be of an image of {sizes[0]}, as those of `preds`; got {sizes[1]}.")


def _run_lengths(name: str, value: Sequence[Any]) -> RunLengths:
    for mask in value:
        if not isinstance(mask, Mapping) or not {"size", "counts"} <= mask.keys():
            came = f"a dict of {', '.join(map(repr, mask))}" if isinstance(mask, Mapping) else type(mask).__name__
            raise TypeError(
                f"`{name}` must be a tensor or a list of dicts of 'size' and 'counts'; got {came} in the list."
            )
    try:
        return RunLengths.from_coco(value)
    except ValueError as error:
        raise ValueError(f"`{name}` must hold masks of the image: {error}") from None


@dataclass(frozen=True)
class Keypoints:
    """Keypoints of an image, [objects, keypoints, 2 or 3], float64."""

    points: Tensor
    is_labeled: Tensor | None
    """of ground truths"""

    def __len__(self) -> int:
        """Number of objects."""
        return len(self.points)

    def boxes(self) -> Tensor:
        """See `ImageShapes`."""
        return keypoint_boxes(self.points[:, :, :2], self.is_labeled)

    def areas(self) -> Tensor:
        """See `ImageShapes`: of the boxes."""
        return box_areas(self.boxes())


@final
@dataclass(frozen=True)
class KeypointType(ShapeType):
    """Keypoints: tensors [objects, keypoints, 3], of detections also [objects, keypoints, 2]."""

    key: ClassVar[str] = "keypoints"
    keeps_boxes: ClassVar[bool] = True
    count_key: ClassVar[str | None] = "num_keypoints"
    sigmas: tuple[float, ...]

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Keypoints:
        """See `ShapeType`."""
        widths = (3,) if is_true else (2, 3)
        points = checked_keypoints(name, value, len(self.sigmas), widths, any_values=any_values)
        return Keypoints(points, points[:, :, 2] > 0 if is_true else None)

    def are_sound(self, value: Tensor) -> Tensor:
        """See `ShapeType`: those with finite numbers."""
        return value.flatten(1).isfinite().all(1) if value.ndim > 1 else super().are_sound(value)

    def own_areas(self, true: ImageShapes, boxes: Tensor) -> Tensor:
        """See `ShapeType`: of the boxes."""
        return box_areas(boxes)

    def overlaps(self, found: Keypoints, true: Keypoints, truths: Truths) -> Tensor:
        """See `ShapeType`: to COCO a crowd is like any other here."""
        return similarity(found.points, true.points, truths.areas, truths.boxes.double(), self.sigmas)

    def true_areas(self, true: Keypoints, areas: Tensor, counts: Tensor | None) -> Tensor:
        """See `ShapeType`: an object without a labeled keypoint does not count, unless the numbers say otherwise."""
        if counts is not None:
            return areas.masked_fill(counts.view(-1) == 0, -1)
        return areas if true.is_labeled is None else areas.masked_fill(~true.is_labeled.any(1), -1)


@dataclass(frozen=True)
class RotatedBoxes:
    """Rotated boxes of an image, [boxes, 5], float64."""

    values: Tensor

    def __len__(self) -> int:
        """Number of boxes."""
        return len(self.values)

    def boxes(self) -> Tensor:
        """See `ImageShapes`."""
        return keypoint_boxes(rotated_corners(self.values))

    def areas(self) -> Tensor:
        """See `ImageShapes`."""
        return rotated_areas(self.values)


@final
@dataclass(frozen=True)
class RotatedType(ShapeType):
    """Rotated boxes: tensors [boxes, 5] of center, width, height and angle in radians."""

    key: ClassVar[str] = "rotated_boxes"

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> RotatedBoxes:
        """See `ShapeType`."""
        return RotatedBoxes(checked_rotated_boxes(name, value, any_values=any_values))

    def are_sound(self, value: Tensor) -> Tensor:
        """See `ShapeType`: those with finite numbers, and sizes of at least 0."""
        if value.ndim != 2:
            return super().are_sound(value)
        return value.isfinite().all(1) & (value[:, 2:4] >= 0).all(1)

    def overlaps(self, found: RotatedBoxes, true: RotatedBoxes, truths: Truths) -> Tensor:
        """See `ShapeType`."""
        return pairwise_rotated_iou(found.values, true.values, truths.is_crowd)


SHAPE_TYPES: dict[str, Callable[[tuple[float, ...]], ShapeType]] = {
    "segm": lambda _: MaskType(),
    "keypoints": KeypointType,
    "rotated": lambda _: RotatedType(),
}
"""all but boxes, which are held as they are; made of the sigmas of keypoints"""
IOU_TYPES = (("bbox",), *((name,) for name in SHAPE_TYPES), ("bbox", "segm"), ("segm", "bbox"))


class Defaults(NamedTuple):
    """What COCO takes where nothing else is asked for."""

    max_detections: tuple[int, ...] = COCO_MAX_DETECTIONS
    area_ranges: Mapping[str, AreaRange] = COCO_AREA_RANGES


_WITHOUT_SMALL = {name: ends for name, ends in COCO_AREA_RANGES.items() if name != "small"}
_DEFAULTS = {"keypoints": Defaults((1, 10, 20), _WITHOUT_SMALL)}


def defaults_of(iou_type: str | Sequence[str]) -> Defaults:
    """COCO's for a type: of people with keypoints 20 count, and small ones are no group of their own.

    Raises:
        TypeError: neither a name nor a sequence of names.
        ValueError: unknown names, or names that are not evaluated together.
    """
    return _DEFAULTS.get(checked_iou_type(iou_type)[0], Defaults())


def shape_types(iou_type: Sequence[str], sigmas: Sequence[float] | None) -> dict[str, ShapeType]:
    """What overlaps the shapes that are no boxes, by name.

    Raises:
        TypeError: sigmas that are no numbers.
        ValueError: sigmas that are not positive, or are given though there are no keypoints.
    """
    if sigmas is not None and "keypoints" not in iou_type:
        raise ValueError(f"`sigmas` must be None where iou_type is not 'keypoints'; got {sigmas!r}.")
    if sigmas is not None:
        check_sigmas("sigmas", sigmas)
    given = COCO_SIGMAS if sigmas is None else tuple(map(float, sigmas))
    return {name: SHAPE_TYPES[name](given) for name in iou_type if name in SHAPE_TYPES}


def checked_iou_type(iou_type: str | Sequence[str]) -> tuple[str, ...]:
    """What is evaluated, as a tuple of names.

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
