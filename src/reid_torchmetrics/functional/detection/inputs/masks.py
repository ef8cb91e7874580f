"""Masks of one image: areas, the boxes that hold them, and intersection over union, in whole pixels.

A mask has far more pixels than a box has numbers, so the form in which masks are counted decides on the time: on the
CPU bits, 64 pixels a word, of which only those inside of the boxes of both masks are looked at; on other devices a
product of matrices of 0 and 1. Run lengths become bits without becoming pixels. All count exactly, so the form does not
change a bit of the result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs.run_lengths import WORD, RunLengths, Words, unpacked

_MASK_DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_BYTE = 8
_MOST_CELLS = 1 << 24  # pixels of all masks that are made float32 at a time, and up to which float32 counts exactly

Ints = NDArray[np.int64]
Masks = Bool[Tensor, "masks height width"] | Integer[Tensor, "masks height width"] | RunLengths
Others = (
    Bool[Tensor, "others other_height other_width"] | Integer[Tensor, "others other_height other_width"] | RunLengths
)


class CountedMasks(ABC):
    """Masks of one image in a form in which pixels are counted fast; made by `count_masks`."""

    size: tuple[int, int]

    @abstractmethod
    def __len__(self) -> int:
        """Number of masks."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " masks"]:
        """Numbers of pixels, float64."""

    @abstractmethod
    def boxes(self) -> Float[Tensor, "masks 4"]:
        """The boxes [x, y, width, height] that hold all pixels, float64; all 0 for a mask without any."""

    @abstractmethod
    def intersections(self, others: Any) -> Float[Tensor, "masks others"]:
        """Number of pixels that each mask has in common with each of others of the same class, float64."""


@final
@dataclass(frozen=True)
class BitMasks(CountedMasks):
    """Masks on the CPU, one bit for a pixel, the least bit of a word first; "lines" are rows or columns."""

    words: Words
    """[masks, lines, words]; bits beyond the end of a line are 0"""
    size: tuple[int, int]
    by_columns: bool = False

    @classmethod
    def of(cls, masks: Tensor) -> BitMasks:
        """Of a tensor [masks, height, width] on the CPU, row by row."""
        num_masks, height, width = masks.shape
        pixels = (masks if masks.dtype in (torch.bool, torch.uint8) else masks != 0).numpy()
        if width % _BYTE:
            packed = np.packbits(pixels, axis=2, bitorder="little")
        else:  # no byte is of two rows, so all are packed in one go, in half the time
            packed = np.packbits(pixels, bitorder="little").reshape(num_masks, height, width // _BYTE)
        num_words = -(-width // WORD)
        if width % WORD:
            padded = np.zeros((num_masks, height, num_words * (WORD // _BYTE)), dtype=np.uint8)
            padded[:, :, : packed.shape[2]] = packed
            packed = padded
        return cls(packed.view(np.uint64).reshape(num_masks, height, num_words), (height, width))

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.words)

    @cached_property
    def _lines(self) -> Ints:
        """The first line with a pixel, and the one behind the last; [masks, 2]."""
        return _ends(np.bitwise_or.reduce(self.words, axis=2) != 0)

    @cached_property
    def _across(self) -> Words:
        """Which places of a line have pixels in any line."""
        found: Words = np.bitwise_or.reduce(self.words, axis=1)
        return found

    @cached_property
    def _extents(self) -> Ints:
        """The first line and the one behind the last, the first word and the one behind the last; [masks, 4]."""
        return np.concatenate([self._lines, _ends(self._across != 0)], 1)

    @cached_property
    def _areas(self) -> Float[Tensor, " masks"]:
        return torch.from_numpy(_num_bits(self.words)).double()

    def areas(self) -> Float[Tensor, " masks"]:
        """See `CountedMasks`."""
        return self._areas

    def boxes(self) -> Float[Tensor, "masks 4"]:
        """See `CountedMasks`."""
        ends = [_ends(unpacked(self._across, self.words.shape[2] * WORD) != 0), self._lines]
        horizontal, vertical = reversed(ends) if self.by_columns else ends
        first, behind = (np.stack([horizontal[:, end], vertical[:, end]], 1) for end in (0, 1))
        return torch.from_numpy(np.concatenate([first, behind - first], 1)).double()

    def intersections(self, others: BitMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`; both by rows or both by columns."""
        if len(others) > len(self):  # a step of the loop takes as long for few masks as for many
            return others.intersections(self).T
        common = np.zeros((len(self), len(others)), dtype=np.int64)
        top, bottom, left, right = self._extents.T
        for number, (first, behind, first_word, behind_word) in enumerate(others._extents.tolist()):
            near = (top < behind) & (bottom > first) & (left < behind_word) & (right > first_word)
            if near.any():
                window = self.words[near, first:behind, first_word:behind_word]
                window &= others.words[number, first:behind, first_word:behind_word]
                common[near, number] = _num_bits(window)
        return torch.from_numpy(common).double()

    def pixels(self) -> Bool[Tensor, "masks height width"]:
        """The pixels."""
        height, width = self.size
        flags = unpacked(self.words, height if self.by_columns else width)
        return torch.from_numpy(flags.transpose(0, 2, 1) if self.by_columns else flags).bool()


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
        return BitMasks(masks.to_words(), masks.size, by_columns=True)
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
    """Run lengths, which are counted by columns, go by rows beside masks that do, and to the device of such masks."""
    if isinstance(masks, BitMasks) and isinstance(others, BitMasks):
        if masks.by_columns == others.by_columns:
            return masks, others
        return (_by_rows(masks), others) if masks.by_columns else (masks, _by_rows(others))
    devices = [each.pixels.device for each in (masks, others) if isinstance(each, PixelMasks)]
    first, second = (
        PixelMasks(each.pixels().to(devices[0])) if isinstance(each, BitMasks) else each for each in (masks, others)
    )
    return first, second


def _by_rows(masks: BitMasks) -> BitMasks:
    return BitMasks.of(masks.pixels())


def _by(size: tuple[int, int]) -> str:
    return " x ".join(map(str, size))


def _ends(flags: NDArray[np.bool_]) -> Ints:
    """The first place of each row with a flag, and the one behind the last; 0 and 0 without any."""
    num_places = flags.shape[1]
    if not num_places:
        return np.zeros((len(flags), 2), dtype=np.int64)
    first, behind = flags.argmax(1), num_places - flags[:, ::-1].argmax(1)
    return np.stack([first, behind * flags.any(1)], 1)


def _first_and_behind(flags: Bool[Tensor, "masks places"]) -> tuple[Tensor, Tensor]:
    """As `_ends`."""
    places = torch.arange(flags.shape[1], device=flags.device)
    behind = (flags * (places + 1)).amax(1) if len(places) else flags.new_zeros(len(flags), dtype=torch.int64)
    first = len(places) - (flags * (len(places) - places)).amax(1) if len(places) else behind
    return first.minimum(behind), behind


def _num_bits(words: Words) -> Ints:
    """How many bits are set in the words of each mask."""
    bits = _bits_of_each(words)
    total: Ints = bits.reshape(len(bits), math.prod(bits.shape[1:])).sum(1, dtype=np.int64)
    return total


_BITS_OF_BYTES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def _bits_by_table(words: Words) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = _BITS_OF_BYTES[np.ascontiguousarray(words).view(np.uint8)]
    return found


_bits_of_each = getattr(np, "bitwise_count", _bits_by_table)  # NumPy 1 cannot count bits
