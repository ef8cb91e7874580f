"""Masks of one image: areas, bounding boxes and intersection over union, in whole pixels.

Time depends on the form of the masks. On the CPU masks are bits, 64 pixels a word, and only words inside both boxes are
compared; run lengths are counted as they are, or as bits if they are many; on other devices intersections are a product
of matrices of 0 and 1. All forms count exactly, and give the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

from .boxes import iou_of_areas
from .counted_masks import BitMasks, CountedMasks, RunMasks
from .run_lengths import RunLengths
from .shapes import ObjectColumns, ShapeType

_MOST_CELLS = 1 << 24  # pixels converted to float32 at a time; float32 counts exactly up to here

Masks = Bool[Tensor, "_masks _height _width"] | Integer[Tensor, "_masks _height _width"] | RunLengths | _checks.Array


@final
@dataclass(frozen=True)
class PixelMasks(CountedMasks):
    """Masks of pixels, on any device."""

    pixels: Bool[Tensor, "masks height width"]

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.pixels)

    @property
    def size(self) -> tuple[int, int]:  # type: ignore[override]
        """Height and width."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def counts(self) -> Int[Tensor, " masks"]:
        """See `CountedMasks`."""
        return self.pixels.sum((1, 2))

    @property
    def corners(self) -> Int[Tensor, "masks 4"]:
        """See `CountedMasks`."""
        return torch.stack([_ends(self.pixels.any(axis)) for axis in (1, 2)], 2).flatten(1)

    def intersections(self, others: PixelMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        pixels, other_pixels = self.pixels.flatten(1), others.pixels.flatten(1)
        common = torch.zeros((len(pixels), len(other_pixels)), dtype=torch.float64, device=pixels.device)
        size = max(1, _MOST_CELLS // max(len(pixels) + len(other_pixels), 1))
        for block in segments.ranges(pixels.shape[1], size):
            common += pixels[:, block].float() @ other_pixels[:, block].float().T
        return common


def counted_iou(masks: CountedMasks, others: CountedMasks, is_crowd: Tensor | None = None) -> Tensor:
    """See `mask_iou`; all of one image."""
    masks, others = _in_one_form(masks, others)
    common = masks.intersections(others)
    return iou_of_areas(common, masks.areas[:, None], others.areas, is_crowd)


def mask_iou(
    masks: Masks, others: Masks, *, is_crowd: Bool[Tensor, " others"] | _checks.Array | None = None
) -> Float[Tensor, "masks others"]:
    """Intersection over union of every mask of an image with every other, float64.

    Pixels are counted, so the values are those of pycocotools to the last bit. 0 if a mask is empty.

    Args:
        masks: bool or integers [masks, height, width] with 0 outside, or `RunLengths`.
        others: the same.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the mask alone.

    Raises:
        TypeError: masks of the wrong dtype.
        ValueError: masks that are not [N, H, W], of images of different sizes, or on different devices.
    """
    masks, others, is_crowd = _arrays.as_tensors(masks, others, is_crowd)
    counted, other = checked_masks("masks", masks), checked_masks("others", others)
    if isinstance(masks, Tensor) and isinstance(others, Tensor):
        _checks.same_device("masks", masks, "others", others)
    if counted.size != other.size:
        raise ValueError(f"`others` must be of an image of {_by(counted.size)}; got {_by(other.size)}.")
    if is_crowd is not None:
        _checks.mask("is_crowd", is_crowd, len(others), is_crowd.device)
    return counted_iou(counted, other, is_crowd)


def checked_masks(argument: str, masks: Any) -> CountedMasks:
    """Check masks, and convert them to the fastest form.

    Raises:
        TypeError: neither a tensor nor run lengths, or a tensor of floats, such as probabilities.
        ValueError: a tensor that is not [N, H, W].
    """
    if isinstance(masks, RunLengths):
        return RunMasks.of(masks)
    if not isinstance(masks, Tensor):
        raise TypeError(f"`{argument}` must be a tensor or RunLengths; got {type(masks).__name__}.")
    # torchvision's Mask R-CNN gives probabilities [N, 1, H, W].
    has_channel = masks.ndim == 4 and masks.shape[1] == 1
    pixels = "masks[:, 0]" if has_channel else "masks"
    if masks.dtype not in (torch.bool, *_checks.INTEGER_DTYPES):
        remedy = (
            f" of shape {list(masks.shape)}: give `{pixels} > 0.5` of probabilities"
            if masks.is_floating_point()
            else ""
        )
        raise TypeError(f"`{argument}` must have dtype bool or an integer dtype; got {masks.dtype}{remedy}.")
    if masks.ndim != 3:
        remedy = f": give `{pixels}`" if has_channel else ""
        raise ValueError(f"`{argument}` must have shape [N, H, W]; got {list(masks.shape)}{remedy}.")
    return BitMasks.of(masks) if masks.device.type == "cpu" else PixelMasks(masks != 0)


def _in_one_form(masks: CountedMasks, others: CountedMasks) -> tuple[CountedMasks, CountedMasks]:
    """Run lengths beside masks of pixels become pixels or bits like them, on their device."""
    if isinstance(masks, RunMasks) and isinstance(others, RunMasks):
        return masks, others
    devices = [each.pixels.device for each in (masks, others) if isinstance(each, PixelMasks)]

    def converted(form: CountedMasks) -> CountedMasks:
        form = BitMasks.of(form.lengths.to_masks()) if isinstance(form, RunMasks) else form
        return PixelMasks(form.pixels.to(devices[0])) if devices and isinstance(form, BitMasks) else form

    return converted(masks), converted(others)


def _by(size: tuple[int, int]) -> str:
    return " x ".join(map(str, size))


def _ends(flags: Bool[Tensor, "masks places"]) -> Int[Tensor, "masks 2"]:
    """The first place of each row with a flag, and the place behind the last; 0 and 0 without any."""
    if not flags.numel():
        return flags.new_zeros((len(flags), 2), dtype=torch.int64)
    first, behind = flags.byte().argmax(1), flags.shape[1] - flags.flip(1).byte().argmax(1)
    return torch.stack([first, behind * flags.any(1)], 1)


@final
@dataclass(frozen=True)
class MaskType(ShapeType):
    """Masks: tensors [masks, height, width], or a list of COCO's dicts of run lengths."""

    key: ClassVar[str] = "masks"
    has_coordinates: ClassVar[bool] = False

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> CountedMasks:
        """See `ShapeType`."""
        if isinstance(value, (list, tuple)):
            value = _run_lengths(name, value)
        elif isinstance(value, Tensor) and not value.numel():  # of any dtype, and any shape without entries
            value = value.bool() if value.ndim == 3 else value.new_zeros((0, 0, 0), dtype=torch.bool)
        return checked_masks(name, value)

    def boxes(self, shapes: CountedMasks) -> Tensor:
        """See `ShapeType`."""
        return shapes.boxes()

    def areas(self, shapes: CountedMasks) -> Tensor:
        """See `ShapeType`."""
        return shapes.areas

    def overlaps(self, detections: CountedMasks, ground_truths: CountedMasks, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        return counted_iou(detections, ground_truths, columns.is_crowd)

    def rows(self, shapes: Any) -> list[dict[str, Any]]:
        """See `ShapeType`: run lengths, as texts."""
        lengths = shapes.lengths if isinstance(shapes, RunMasks) else RunLengths.from_masks(shapes.pixels)
        return [{"segmentation": each} for each in lengths.to_coco(compressed=True)]

    def check_pair(self, name: str, detections: CountedMasks, ground_truths: CountedMasks) -> None:
        """See `ShapeType`."""
        if detections.size != ground_truths.size:
            wanted, came = _by(detections.size), _by(ground_truths.size)
            raise ValueError(f"`{name}` must be of an image of {wanted}, as those of `preds`; got {came}.")


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
