"""What `iou_type` may be: which key of the dicts holds the shapes, and how they become overlaps and areas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import CountedMasks, RunLengths, checked_masks, counted_iou


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

    @abstractmethod
    def read(self, name: str, value: Any) -> Any:
        """The shapes of an image.

        Raises:
            TypeError: a value of the wrong type or dtype.
            ValueError: a shape that does not fit.
        """

    @abstractmethod
    def overlaps(self, found: Any, true: Any, truths: Truths) -> Tensor:
        """How much every detection overlaps every ground truth of the image, float64."""

    def true_areas(self, true: ImageShapes, areas: Tensor) -> Tensor:
        """The areas that decide on the area range; -1 for a ground truth that counts in none."""
        return areas

    def check_pair(self, name: str, found: Any, true: Any) -> None:  # noqa: B027 - most shapes fit any other
        """Raise unless shapes are of the same image."""


@final
@dataclass(frozen=True)
class MaskType(ShapeType):
    """Masks: tensors [masks, height, width], or a list of COCO's dicts of run lengths."""

    key: ClassVar[str] = "masks"

    def read(self, name: str, value: Any) -> CountedMasks:
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


SHAPE_TYPES: dict[str, Callable[[], ShapeType]] = {"segm": MaskType}
"""all but boxes, which are held as they are"""
IOU_TYPES = (("bbox",), *((name,) for name in SHAPE_TYPES), ("bbox", "segm"), ("segm", "bbox"))


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
