"""Forms of the masks of one image on the CPU: bits, 64 pixels per word, and runs of pixels.

Runs are counted without expanding them. The number of pixels of a mask before a place follows from its runs: all runs
that end before it, and a part of the run around it. The intersection of two masks is the sum, over the runs of one, of
the pixels of the other between begin and end of the run. So the ends of all runs of one mask are looked up among the
runs of the other, if the boxes of both meet.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _extras
from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional import segments

from .run_lengths import Ints, RunLengths, lengths_between

Words = NDArray[np.uint64]

_BYTE = 8  # bits
_WORD = 64
_WORDS_PER_LOOKUP = 1  # words of bits that are made, compared and counted in the time of one lookup
_MASKS_AT_A_TIME = 1 << 10
_BITS_OF_BYTES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


class CountedMasks(ABC):
    """Masks of one image in a form for counting pixels fast; constructed by `checked_masks`."""

    size: tuple[int, int]
    counts: Any
    """numbers of pixels, ints [masks]"""
    corners: Any
    """first column and row with a pixel, then column and row after the last, ints [masks, 4]; 0 for empty masks"""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of masks."""

    @cached_property
    def areas(self) -> Float[Tensor, " masks"]:
        """Numbers of pixels, float64."""
        (areas,) = as_tensors(self.counts)
        return areas.double()

    def boxes(self) -> Float[Tensor, "masks 4"]:
        """Return the bounding boxes [x, y, width, height] of the pixels, float64; all 0 for an empty mask."""
        (corners,) = as_tensors(self.corners)
        boxes = corners.double()
        boxes[:, 2:].sub_(boxes[:, :2])
        return boxes

    @abstractmethod
    def intersections(self, others: Any) -> Float[Tensor, "masks others"]:
        """Count the common pixels of each mask and each other, in the same form, float64."""


@final
@dataclass(frozen=True)
class BitMasks(CountedMasks):
    """Masks on the CPU, one bit for a pixel, the least bit of a word first."""

    words: Words
    """[masks, rows, words]; bits beyond the end of a row are 0"""
    size: tuple[int, int]

    @classmethod
    def from_pixels(cls, masks: Tensor) -> BitMasks:
        """Return the masks of a tensor [masks, height, width] on the CPU, row by row."""
        num_masks, height, width = masks.shape
        num_words = -(-width // _WORD)
        if not masks.numel():
            return cls(np.zeros((num_masks, height, num_words), dtype=np.uint64), (height, width))
        if masks.dtype not in (torch.bool, torch.uint8):
            masks = masks != 0
        pixels = masks.numpy()
        if width % _BYTE:
            packed = np.packbits(pixels, axis=2, bitorder="little")
        else:  # rows end with a byte, so all are packed at once, in half the time
            packed = np.packbits(pixels, bitorder="little").reshape(num_masks, height, width // _BYTE)
        if width % _WORD:
            padded = np.zeros((num_masks, height, num_words * (_WORD // _BYTE)), dtype=np.uint8)
            padded[:, :, : packed.shape[2]] = packed
            packed = padded
        return cls(packed.view(np.uint64).reshape(num_masks, height, num_words), (height, width))

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.words)

    @cached_property
    def _rows(self) -> Ints:
        """First row with a pixel, and row after the last; [masks, 2]."""
        # By torch, in half of NumPy's time for a few words.
        has_pixel = torch.from_numpy(self.words.view(np.int64)).any(2)
        return _ends(has_pixel.numpy())

    @cached_property
    def _across(self) -> Words:
        """All rows of a mask in one: a bit is set if it is set in any row."""
        # Joined by halves, because `reduce` goes through rows one after the other.
        rows: Words = self.words
        while rows.shape[1] > 1:
            num_rows = rows.shape[1] // 2
            joined = rows[:, :num_rows] | rows[:, num_rows : 2 * num_rows]
            if rows.shape[1] % 2:
                joined[:, 0] |= rows[:, -1]
            rows = joined
        across: Words = np.bitwise_or.reduce(rows, axis=1)
        return across

    @cached_property
    def _extents(self) -> Ints:
        """First row with a pixel and row after the last, and the same for words; [masks, 4]."""
        return np.concatenate([self._rows, _ends(self._across != 0)], 1)

    @cached_property
    def counts(self) -> Ints:
        """See `CountedMasks`."""
        return _num_bits(self.words)

    @cached_property
    def corners(self) -> Ints:
        """See `CountedMasks`."""
        columns = _ends(_unpacked(self._across, self.words.shape[2] * _WORD) != 0)
        return np.concatenate([columns, self._rows], 1)[:, [0, 2, 1, 3]]

    def intersections(self, others: BitMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        if len(others) > len(self):  # a step of the loop costs the same for few masks and many
            return others.intersections(self).T
        common = np.zeros((len(self), len(others)), dtype=np.int64)
        top, bottom, left, right = self._extents.T
        for number, (other_top, other_bottom, other_left, other_right) in enumerate(others._extents.tolist()):
            is_near = (top < other_bottom) & (bottom > other_top) & (left < other_right) & (right > other_left)
            if is_near.any():
                window = self.words[is_near, other_top:other_bottom, other_left:other_right]
                window &= others.words[number, other_top:other_bottom, other_left:other_right]
                common[is_near, number] = _num_bits(window)
        return torch.from_numpy(common).double()

    @property
    def pixels(self) -> Bool[Tensor, "masks height width"]:
        """The pixels."""
        return torch.from_numpy(_unpacked(self.words, self.size[1])).bool()


def _unpacked(words: Words, length: int) -> NDArray[np.uint8]:
    """Return the first `length` bits of each row of words, 0 or 1."""
    data = words.view(np.uint8).reshape(*words.shape[:-1], words.shape[-1] * (_WORD // _BYTE))
    return np.unpackbits(data, axis=-1, bitorder="little")[..., :length]


def _ends(flags: NDArray[np.bool_]) -> Ints:
    """Return the first place of each row with a flag, and the place after the last; 0 and 0 without flags."""
    num_places = flags.shape[1]
    if not num_places:
        return np.zeros((len(flags), 2), dtype=np.int64)
    first = flags.argmax(1)
    end = num_places - flags[:, ::-1].argmax(1)
    return np.stack([first, end * flags.any(1)], 1)


def _num_bits(words: Words) -> Ints:
    """Count the bits that are set in the words of each mask."""
    bits = _count_bits(words)
    total: Ints = bits.reshape(len(bits), math.prod(bits.shape[1:])).sum(1, dtype=np.int64)
    return total


def _bits_by_table(words: Words) -> NDArray[np.uint8]:
    """Count the bits of each byte; NumPy 1 cannot count the bits of words."""
    bits: NDArray[np.uint8] = _BITS_OF_BYTES[np.ascontiguousarray(words).view(np.uint8)]
    return bits


_count_bits = getattr(np, "bitwise_count", _bits_by_table)


@final
@dataclass(frozen=True)
class RunMasks(CountedMasks):
    """Masks by their flips, down the columns from left to right, of one image or of several."""

    flips: Ints
    """see `RunLengths`"""
    num_flips: Ints
    sizes: Ints
    """height and width of the image of each mask, [masks, 2]"""
    size: tuple[int, int] = (0, 0)
    """height and width, if all masks are of one image"""

    @classmethod
    def from_run_lengths(cls, lengths: RunLengths) -> RunMasks:
        """Return the masks of one image."""
        sizes = np.full((len(lengths), 2), lengths.size)
        return cls(lengths.flips.numpy(), lengths.num_flips.numpy(), sizes, lengths.size)

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.num_flips)

    def __getitem__(self, masks: slice) -> RunMasks:
        """Return masks in a row; their `size` is that of the first one, and holds if all are of one image."""
        start, stop, _ = masks.indices(len(self))
        first, last = self._flip_edges[[start, max(start, stop)]]
        sizes = self.sizes[masks]
        size = tuple(sizes[0].tolist()) if len(sizes) else (0, 0)
        return self._measured(RunMasks(self.flips[first:last], self.num_flips[masks], sizes, size), masks)

    @classmethod
    def joined(cls, parts: Sequence[RunMasks]) -> RunMasks:
        """Return the masks of several images, part after part."""
        return cls(
            flips=np.concatenate([part.flips for part in parts]),
            num_flips=np.concatenate([part.num_flips for part in parts]),
            sizes=np.concatenate([part.sizes for part in parts]),
        )

    def at(self, masks: Ints) -> RunMasks:
        """Return some masks in another order."""
        ranges = zip(self._flip_edges[masks].tolist(), self._flip_edges[masks + 1].tolist(), strict=True)
        flips = np.concatenate([self.flips[:0], *(self.flips[first:end] for first, end in ranges)])
        return self._measured(RunMasks(flips, self.num_flips[masks], self.sizes[masks]), masks)

    def _measured(self, selected: RunMasks, masks: Any) -> RunMasks:
        """Return some of the masks with the numbers of pixels and the corners that were computed for all."""
        for name in ("counts", "corners"):
            if name in vars(self):
                vars(selected)[name] = vars(self)[name][masks]
        return selected

    def _parts(self) -> list[RunMasks]:
        """Return the masks, some at a time, with runs that stay in the cache of a CPU."""
        return [self[part] for part in segments.ranges(len(self), _MASKS_AT_A_TIME)]

    @cached_property
    def _flip_edges(self) -> Ints:
        return _sums(self.num_flips)

    def to_coco(self) -> list[dict[str, Any]]:
        """Return dicts of `size` and `counts`, the texts of COCO's API."""
        lengths = lengths_between(self.flips, self.num_flips, self.sizes.prod(1))
        pairs = zip(self.sizes.tolist(), _extras.files().compressed(lengths), strict=True)
        return [{"size": size, "counts": counts} for size, counts in pairs]

    def _all_runs(self) -> tuple[Ints, Ints]:
        """Return the runs and their edges as `_runs` has them, with empty runs."""
        flips = self.flips
        is_open = self.num_flips % 2 == 1  # the last run ends with the image
        if is_open.any():
            flips = np.insert(flips, self._flip_edges[1:][is_open], self.sizes.prod(1)[is_open])
        return flips.reshape(-1, 2), _sums((self.num_flips + 1) // 2)

    @cached_property
    def _runs(self) -> tuple[Ints, Ints]:
        """Return the runs that are not empty, and their edges.

        The runs are [runs, 2], the begin of each and the place after its end. The edges are the first run of each mask,
        then the number of all runs; [masks + 1].
        """
        runs, edges = self._all_runs()
        is_empty = runs[:, 0] >= runs[:, 1]
        if not is_empty.any():
            return runs, edges
        num_empty = _sums(is_empty.astype(np.int64))[edges]  # before each edge
        return runs.compress(~is_empty, axis=0), edges - num_empty  # in a fifth of the time of an index

    @cached_property
    def _keys(self) -> Ints:
        """Begins and ends of the runs of all masks, ascending: each mask is shifted by the pixels of earlier masks."""
        runs, edges = self._runs
        return runs.reshape(-1) + np.repeat(self._shifts, np.diff(edges) * 2)

    @cached_property
    def _shifts(self) -> Ints:
        """The shift of the keys of each mask."""
        return _sums(self.sizes.prod(1) + 1)[:-1]

    @cached_property
    def counts(self) -> Ints:
        """See `CountedMasks`."""
        if len(self) > _MASKS_AT_A_TIME:
            return np.concatenate([part.counts for part in self._parts()])
        runs, edges = self._all_runs()
        return np.diff(_sums(runs[:, 1] - runs[:, 0])[edges])

    @cached_property
    def corners(self) -> Ints:
        """See `CountedMasks`."""
        if len(self) > _MASKS_AT_A_TIME:
            return np.concatenate([part.corners for part in self._parts()])
        corners = np.zeros((len(self), 4), dtype=np.int64)
        has_any = self.counts > 0
        if not has_any.any():
            return corners
        runs, edges = self._runs
        height = np.repeat(self.sizes[:, 0], np.diff(edges))
        begin = runs[:, 0]
        last = runs[:, 1] - 1
        first_column = (begin / height).astype(np.int64)  # exact, and faster than by integers
        last_column = (last / height).astype(np.int64)
        # A run that does not end in its first column goes on at the top of the next column.
        is_within = first_column == last_column
        top = np.where(is_within, begin - first_column * height, 0)
        bottom = np.where(is_within, last - last_column * height, height - 1)
        # From the first and last run of each mask, and over all its runs.
        first_run = edges[:-1][has_any]
        last_run = edges[1:][has_any] - 1
        corners[has_any, 0] = first_column[first_run]
        corners[has_any, 1] = np.minimum.reduceat(top, first_run)
        corners[has_any, 2] = last_column[last_run] + 1
        corners[has_any, 3] = np.maximum.reduceat(bottom, first_run) + 1
        return corners

    def intersections(self, others: RunMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        mask, other = np.indices((len(self), len(others))).reshape(2, -1)
        common = self.intersections_of(others, mask, other)
        if common is None:
            return self.to_bits().intersections(others.to_bits())
        return common.view(len(self), len(others))

    def intersections_of(self, others: RunMasks, mask: Ints, other: Ints) -> Float[Tensor, " pairs"] | None:
        """Count the common pixels of each pair of a mask and another one of the same image, float64.

        None means that bits are faster, because the masks have many runs.
        """
        left, top, right, bottom = self.corners[mask].T
        other_left, other_top, other_right, other_bottom = others.corners[other].T
        is_near = (left < other_right) & (right > other_left) & (top < other_bottom) & (bottom > other_top)
        pairs = np.flatnonzero(is_near)
        common = np.zeros(len(mask))
        if len(pairs):
            mask, other = mask[pairs], other[pairs]
            start, stop = self._keys_within(others, mask, other)
            sizes = np.concatenate([self.sizes, others.sizes])
            num_words = int((sizes[:, 0] * -(-sizes[:, 1] // _WORD)).sum())
            if int((stop - start).sum()) * _WORDS_PER_LOOKUP > num_words:
                return None
            common[pairs] = self._count_common(others, other, start, stop)
        return torch.from_numpy(common)

    def to_bits(self) -> BitMasks:
        """Return the masks of one image as bits."""
        lengths = RunLengths(self.size, torch.from_numpy(self.flips), torch.from_numpy(self.num_flips))
        return BitMasks.from_pixels(lengths.to_masks())

    def _keys_within(self, others: RunMasks, mask: Ints, other: Ints) -> tuple[Ints, Ints]:
        """Return the range of the keys of each mask from the first begin to the last end of the other mask's runs."""
        runs, edges = others._runs
        begin = runs[edges[other], 0]
        end = runs[edges[other + 1] - 1, 1]
        shift = self._shifts[mask]
        return np.searchsorted(self._keys, begin + shift), np.searchsorted(self._keys, end + shift, side="right")

    def _count_common(self, others: RunMasks, other: Ints, start: Ints, stop: Ints) -> Ints:
        """Count the common pixels of each pair, see `_keys_within`.

        The other mask has no pixel before its first begin and all pixels before its last end, where a run of the mask
        may be open.
        """
        # The begins and ends of the mask's runs in the range of the other mask, pair after pair.
        runs, _ = self._runs
        other_runs, other_edges = others._runs
        num_places = stop - start
        edges = _sums(num_places)
        key = np.arange(edges[-1]) + np.repeat(start - edges[:-1], num_places)
        place = runs.reshape(-1)[key]
        other_key = np.searchsorted(others._keys, place + np.repeat(others._shifts[other], num_places))
        # Pixels of the other mask before each place: ends less begins, plus the place itself inside a run. The sums
        # include earlier masks, which cancel between begin and end of a run if both are looked up.
        ends = other_runs.reshape(-1)
        sums = _sums(np.where(np.arange(len(ends)) & 1, ends, -ends))
        before = sums[other_key] + place * (other_key & 1)
        common: Ints = np.diff(_sums(np.where(key & 1, before, -before))[edges])
        # Runs that are open at the first or the last place have only one end there.
        is_open = stop & 1
        common += sums[2 * other_edges[other]] * (is_open - (start & 1))
        common += others.counts[other] * is_open
        return common


def _sums(values: Ints) -> Ints:
    """Return the sum of the values before each value, and the sum of all."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
