"""Masks of one image: areas, the boxes that hold them, and intersection over union, in whole pixels.

A mask has far more pixels than a box has numbers, so the form in which masks are counted decides on the time: on the
CPU bits, 64 pixels a word, of which only those inside of the boxes of both masks are looked at; run lengths as they
are, or as bits where they are many; on other devices a product of matrices of 0 and 1. All count exactly, so the form
does not change a bit of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

from .counted_masks import BitMasks, CountedMasks, RunMasks
from .run_lengths import RunLengths

_MASK_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_MOST_CELLS = 1 << 24  # pixels of all masks that are made float32 at a time, and up to which float32 counts exactly

Masks = Bool[Tensor, "masks height width"] | Integer[Tensor, "masks height width"] | RunLengths
Others = (
    Bool[Tensor, "others other_height other_width"] | Integer[Tensor, "others other_height other_width"] | RunLengths
)


@final
@dataclass(frozen=True)
class PixelMasks(CountedMasks):
    """Masks on any device, as they are."""

    pixels: Bool[Tensor, "masks height width"]

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.pixels)

    @property
    def size(self) -> tuple[int, int]:  # type: ignore[override]
        """Height and width."""
        return self.pixels.shape[1], self.pixels.shape[2]

    def areas(self) -> Float[Tensor, " masks"]:
        """See `CountedMasks`."""
        return self.pixels.sum((1, 2)).double()

    def boxes(self) -> Float[Tensor, "masks 4"]:
        """See `CountedMasks`."""
        ends = [_first_and_behind(self.pixels.any(axis)) for axis in (1, 2)]
        first, behind = (torch.stack(each, 1) for each in zip(*ends, strict=True))
        return torch.cat([first, behind - first], 1).double()

    def intersections(self, others: PixelMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        found, true = self.pixels.flatten(1), others.pixels.flatten(1)
        common = torch.zeros((len(found), len(true)), dtype=torch.float64, device=found.device)
        size = max(1, _MOST_CELLS // max(len(found) + len(true), 1))
        for block in segments.ranges(found.shape[1], size):
            common += found[:, block].float() @ true[:, block].float().T
        return common


def count_masks(masks: Masks) -> CountedMasks:
    """The form of some masks in which they are counted fast, where they are."""
    if isinstance(masks, RunLengths):
        return RunMasks(masks)
    return BitMasks.of(masks) if masks.device.type == "cpu" else PixelMasks(masks != 0)


def counted_iou(masks: CountedMasks, others: CountedMasks, is_crowd: Tensor | None = None) -> Tensor:
    """See `mask_iou`; all of one image."""
    masks, others = _in_one_form(masks, others)
    common = masks.intersections(others)
    areas = masks.areas()[:, None]
    union = areas + others.areas() - common
    if is_crowd is not None:
        union = torch.where(is_crowd, areas, union)
    return torch.where(common > 0, common / union, 0.0)


def mask_iou(
    masks: Masks, others: Others, *, is_crowd: Bool[Tensor, " others"] | None = None
) -> Float[Tensor, "masks others"]:
    """Intersection over union of every mask of an image with every other, float64.

    Pixels are counted, so the values are those of pycocotools to the last bit. 0 where a mask is empty.

    Args:
        masks: bool or integers [masks, height, width], where 0 is outside, or `RunLengths`.
        others: the same.
        is_crowd: others that are regions with many objects: the intersection is divided by the area of the mask alone.

    Raises:
        TypeError: masks of the wrong dtype.
        ValueError: masks that are not [N, H, W], or that are of images of different sizes or on different devices.
    """
    counted, other = checked_masks("masks", masks), checked_masks("others", others)
    if isinstance(masks, Tensor) and isinstance(others, Tensor):
        _checks.same_device("masks", masks, "others", others)
    if counted.size != other.size:
        raise ValueError(f"`others` must be of an image of {_by(counted.size)}; got {_by(other.size)}.")
    if is_crowd is not None:
        _checks.mask("is_crowd", is_crowd, len(others), is_crowd.device)
    return counted_iou(counted, other, is_crowd)


def checked_masks(argument: str, masks: Any) -> CountedMasks:
    """Masks in the form in which they are counted, or an error."""
    if isinstance(masks, RunLengths):
        return count_masks(masks)
    if not isinstance(masks, Tensor):
        raise TypeError(f"`{argument}` must be a tensor or RunLengths; got {type(masks).__name__}.")
    if masks.dtype not in _MASK_DTYPES:
        raise TypeError(f"`{argument}` must have dtype bool or an integer dtype; got {masks.dtype}.")
    if masks.ndim != 3:
        raise ValueError(f"`{argument}` must have shape [N, H, W]; got {list(masks.shape)}.")
    return count_masks(masks)


def _in_one_form(masks: CountedMasks, others: CountedMasks) -> tuple[CountedMasks, CountedMasks]:
    """Run lengths beside masks of pixels become what those are, on the device of those."""
    if isinstance(masks, RunMasks) and isinstance(others, RunMasks):
        return masks, others
    devices = [each.pixels.device for each in (masks, others) if isinstance(each, PixelMasks)]
    first, second = (_as_pixels_are(each, devices) for each in (masks, others))
    return first, second


def _as_pixels_are(masks: CountedMasks, devices: list[torch.device]) -> CountedMasks:
    """Masks on the first of the devices, or as bits if there is none."""
    if isinstance(masks, RunMasks):
        pixels = masks.lengths.to_masks()
        return PixelMasks(pixels.to(devices[0])) if devices else BitMasks.of(pixels)
    return PixelMasks(masks.pixels().to(devices[0])) if devices and isinstance(masks, BitMasks) else masks


def _by(size: tuple[int, int]) -> str:
    return " x ".join(map(str, size))


def _first_and_behind(flags: Bool[Tensor, "masks places"]) -> tuple[Tensor, Tensor]:
    """As `_ends`."""
    places = torch.arange(flags.shape[1], device=flags.device)
    behind = (flags * (places + 1)).amax(1) if len(places) else flags.new_zeros(len(flags), dtype=torch.int64)
    first = len(places) - (flags * (len(places) - places)).amax(1) if len(places) else behind
    return first.minimum(behind), behind
