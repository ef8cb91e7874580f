"""Masks on the CPU, one bit for a pixel: 64 pixels are looked at at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.counted_masks import CountedMasks
from reid_torchmetrics.functional.detection.inputs.run_lengths import WORD, Words, unpacked

_BYTE = 8

Ints = NDArray[np.int64]


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
        num_words = -(-width // WORD)
        if not masks.numel():
            return cls(np.zeros((num_masks, height, num_words), dtype=np.uint64), (height, width))
        pixels = (masks if masks.dtype in (torch.bool, torch.uint8) else masks != 0).numpy()
        if width % _BYTE:
            packed = np.packbits(pixels, axis=2, bitorder="little")
        else:  # no byte is of two rows, so all are packed in one go, in half the time
            packed = np.packbits(pixels, bitorder="little").reshape(num_masks, height, width // _BYTE)
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
        return _ends(torch.from_numpy(self.words.view(np.int64)).any(2).numpy())  # half of NumPy's time for a few words

    @cached_property
    def _across(self) -> Words:
        """Which places of a line have pixels in any line."""
        found: Words = self.words
        while found.shape[1] > 1:  # lines are joined by halves, for NumPy goes through them one after the other
            num_lines = found.shape[1] // 2
            joined = found[:, :num_lines] | found[:, num_lines : 2 * num_lines]
            if found.shape[1] % 2:
                joined[:, 0] |= found[:, -1]
            found = joined
        across: Words = np.bitwise_or.reduce(found, axis=1)
        return across

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


def _ends(flags: NDArray[np.bool_]) -> Ints:
    """The first place of each row with a flag, and the one behind the last; 0 and 0 without any."""
    num_places = flags.shape[1]
    if not num_places:
        return np.zeros((len(flags), 2), dtype=np.int64)
    first, behind = flags.argmax(1), num_places - flags[:, ::-1].argmax(1)
    return np.stack([first, behind * flags.any(1)], 1)


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
