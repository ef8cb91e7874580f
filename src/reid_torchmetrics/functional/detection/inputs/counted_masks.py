"""Forms of the masks of one image on the CPU: bits, 64 pixels a word, and runs of pixels.

Runs are counted without expanding them. The number of pixels of a mask before a place follows from its runs: all runs
that end before it, and a part of the run around it. The intersection of two masks is the sum, over the runs of one, of
the pixels of the other between begin and end of the run. So the ends of all runs of one mask are looked up among the
runs of the other, if the boxes of both meet.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics._arrays import as_tensors

from .run_lengths import WORD, Ints, RunLengths, Words, unpacked

_BYTE = 8
_WORDS_PER_LOOKUP = 4  # words of bits that are made and counted in the time of one lookup
_BITS_OF_BYTES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


class CountedMasks(ABC):
    """Masks of one image in a form for counting pixels fast; made by `count_masks`."""

    size: tuple[int, int]
    counts: Any
    """numbers of pixels, ints [masks]"""
    corners: Any
    """the first column and row with a pixel, and the column and row behind the last, ints [masks, 4]; 0 without any"""

    @abstractmethod
    def __len__(self) -> int:
        """Number of masks."""

    @cached_property
    def areas(self) -> Float[Tensor, " masks"]:
        """Numbers of pixels, float64."""
        (areas,) = as_tensors(self.counts)
        return areas.double()

    def boxes(self) -> Float[Tensor, "masks 4"]:
        """Bounding boxes [x, y, width, height] of the pixels, float64; all 0 for an empty mask."""
        (corners,) = as_tensors(self.corners)
        boxes = corners.double()
        boxes[:, 2:].sub_(boxes[:, :2])
        return boxes

    @abstractmethod
    def intersections(self, others: Any) -> Float[Tensor, "masks others"]:
        """Number of common pixels of each mask and each other, in the same form, float64."""


@final
@dataclass(frozen=True)
class BitMasks(CountedMasks):
    """Masks on the CPU, one bit for a pixel, the least bit of a word first.

    Lines are rows. For intersections alone they may be columns, of both masks.
    """

    words: Words
    """[masks, lines, words]; bits beyond the end of a line are 0"""
    size: tuple[int, int]

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
        else:  # rows end with a byte, so all are packed in one go, in half the time
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
        """The first line with a pixel, and the line behind the last; [masks, 2]."""
        return _ends(torch.from_numpy(self.words.view(np.int64)).any(2).numpy())  # half of NumPy's time for a few words

    @cached_property
    def _across(self) -> Words:
        """All lines of a mask in one: a bit is set if any line has it."""
        lines: Words = self.words
        while lines.shape[1] > 1:  # joined by halves: `reduce` goes through lines one after the other
            num_lines = lines.shape[1] // 2
            joined = lines[:, :num_lines] | lines[:, num_lines : 2 * num_lines]
            if lines.shape[1] % 2:
                joined[:, 0] |= lines[:, -1]
            lines = joined
        across: Words = np.bitwise_or.reduce(lines, axis=1)
        return across

    @cached_property
    def _extents(self) -> Ints:
        """The first line and the line behind the last, and the same of words; [masks, 4]."""
        return np.concatenate([self._lines, _ends(self._across != 0)], 1)

    @cached_property
    def counts(self) -> Ints:
        """See `CountedMasks`."""
        return _num_bits(self.words)

    @cached_property
    def corners(self) -> Ints:
        """See `CountedMasks`."""
        columns = _ends(unpacked(self._across, self.words.shape[2] * WORD) != 0)
        return np.concatenate([columns, self._lines], 1)[:, [0, 2, 1, 3]]

    def intersections(self, others: BitMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`; both by rows or both by columns."""
        if len(others) > len(self):  # a step of the loop costs the same for few masks and many
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

    @property
    def pixels(self) -> Bool[Tensor, "masks height width"]:
        """The pixels."""
        return torch.from_numpy(unpacked(self.words, self.size[1])).bool()


def _ends(flags: NDArray[np.bool_]) -> Ints:
    """The first place of each row with a flag, and the place behind the last; 0 and 0 without any."""
    num_places = flags.shape[1]
    if not num_places:
        return np.zeros((len(flags), 2), dtype=np.int64)
    first, behind = flags.argmax(1), num_places - flags[:, ::-1].argmax(1)
    return np.stack([first, behind * flags.any(1)], 1)


def _num_bits(words: Words) -> Ints:
    """Number of bits set in the words of each mask."""
    bits = _bits_of_each(words)
    total: Ints = bits.reshape(len(bits), math.prod(bits.shape[1:])).sum(1, dtype=np.int64)
    return total


def _bits_by_table(words: Words) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = _BITS_OF_BYTES[np.ascontiguousarray(words).view(np.uint8)]
    return bits


_bits_of_each = getattr(np, "bitwise_count", _bits_by_table)  # NumPy 1 cannot count bits


@final
@dataclass(frozen=True)
class RunMasks(CountedMasks):
    """Masks by the begin and end of their runs, down the columns from left to right."""

    lengths: RunLengths
    size: tuple[int, int]
    runs: Ints
    """the begin of each run and the place behind it, [runs, 2]; none is empty"""
    first: Ints
    """the first run of each mask, and behind the last mask the number of runs; [masks + 1]"""

    @classmethod
    def of(cls, lengths: RunLengths) -> RunMasks:
        """Of run lengths, without the empty runs."""
        flips, num_flips = lengths.flips.numpy(), lengths.num_flips.numpy()
        is_open = num_flips % 2 == 1  # the last run ends with the image
        flips = np.insert(flips, num_flips.cumsum()[is_open], lengths.size[0] * lengths.size[1])
        runs, num_runs = flips.reshape(-1, 2), (num_flips + 1) // 2
        is_run = runs[:, 0] < runs[:, 1]
        if not is_run.all():
            mask = np.repeat(np.arange(len(num_runs)), num_runs)
            num_runs = np.bincount(mask[is_run], minlength=len(num_runs))
            runs = runs[is_run]
        return cls(lengths, lengths.size, runs, _sums(num_runs))

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.lengths)

    @cached_property
    def _keys(self) -> Ints:
        """The ends of the runs of all masks, ascending: each mask is shifted behind the mask before it."""
        mask = np.repeat(np.arange(len(self)), np.diff(self.first) * 2)
        return self.runs.reshape(-1) + mask * self._stride

    @property
    def _stride(self) -> int:
        return self.size[0] * self.size[1] + 1

    @cached_property
    def counts(self) -> Ints:
        """See `CountedMasks`."""
        return np.diff(_sums(self.runs[:, 1] - self.runs[:, 0])[self.first])

    @cached_property
    def corners(self) -> Ints:
        """See `CountedMasks`."""
        corners = np.zeros((len(self), 4), dtype=np.int64)
        has_any = self.counts > 0
        if has_any.any():
            first, height = self.first[:-1][has_any], self.size[0]
            begin, last = self.runs[:, 0], self.runs[:, 1] - 1
            column, last_column = begin // height, last // height
            is_within = column == last_column  # else it goes on at the top of the next column
            rows = (
                np.where(is_within, begin - column * height, 0),
                np.where(is_within, last - last_column * height, height - 1),
            )
            corners[has_any, 0], corners[has_any, 1] = column[first], np.minimum.reduceat(rows[0], first)
            corners[has_any, 2] = last_column[self.first[1:][has_any] - 1] + 1
            corners[has_any, 3] = np.maximum.reduceat(rows[1], first) + 1
        return corners

    def intersections(self, others: RunMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        mask, other, start, stop = self._pairs(others)
        num_words = (len(self) + len(others)) * self.size[1] * -(-self.size[0] // WORD)
        if int((stop - start).sum()) * _WORDS_PER_LOOKUP > num_words:
            bits, other_bits = (BitMasks(each.lengths.to_words(), self.size) for each in (self, others))
            return bits.intersections(other_bits)
        common = np.zeros((len(self), len(others)), dtype=np.int64)
        common[mask, other] = self._in_common(others, other, start, stop)
        return torch.from_numpy(common).double()

    def _pairs(self, others: RunMasks) -> tuple[Ints, Ints, Ints, Ints]:
        """Pairs of masks with boxes that meet, and the ends of runs of the first from begin to end of the second."""
        left, top, right, bottom = (each[:, None] for each in self.corners.T)
        begin, highest, end, lowest = others.corners.T
        mask, other = np.nonzero((left < end) & (right > begin) & (top < lowest) & (bottom > highest))
        if not len(mask):
            return mask, other, mask, mask
        before, behind = others.runs[others.first[other], 0], others.runs[others.first[other + 1] - 1, 1]
        shift = mask * self._stride
        start = np.searchsorted(self._keys, before + shift)
        return mask, other, start, np.searchsorted(self._keys, behind + shift, side="right")

    def _in_common(self, others: RunMasks, other: Ints, start: Ints, stop: Ints) -> Ints:
        """Number of common pixels of each pair, see `_pairs`.

        The other mask has no pixel before the first place and all behind the last, where a run of the mask may be open.
        """
        num_places = stop - start
        edges = _sums(num_places)
        which = np.arange(edges[-1]) + np.repeat(start - edges[:-1], num_places)
        place = self.runs.reshape(-1)[which]
        behind = np.searchsorted(others._keys, place + np.repeat(other * self._stride, num_places))
        # Pixels before each place: ends less begins, plus the place itself inside a run. The sums include the masks
        # before the other; between begin and end of a run they cancel, if both are looked up.
        ends = others.runs.reshape(-1)
        sums = _sums(np.where(np.arange(len(ends)) & 1, ends, -ends))
        before = sums[behind] + place * (behind & 1)
        common: Ints = np.diff(_sums(np.where(which & 1, before, -before))[edges])
        # Runs that are open at the first or the last place have only one end there.
        is_open = stop & 1
        common += sums[2 * others.first[other]] * (is_open - (start & 1))
        common += others.counts[other] * is_open
        return common


def _sums(values: Ints) -> Ints:
    """The sum of the values before each, and of all."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
