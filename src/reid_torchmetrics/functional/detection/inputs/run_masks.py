"""Masks by their runs of pixels, counted without making pixels of them.

How many pixels of a mask come before a place is known from its runs: all of those that end before, and a part of the
one that the place lies in. Two masks have in common what one has of the other between begin and end of each of its
runs. So every place where a mask begins or ends is looked up among those of the other, if the boxes of both meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.bit_masks import BitMasks
from reid_torchmetrics.functional.detection.inputs.counted_masks import CountedMasks
from reid_torchmetrics.functional.detection.inputs.run_lengths import WORD, RunLengths

_WORDS_PER_LOOKUP = 4  # so many words of bits are made and counted in the time of one place that is looked up

Ints = NDArray[np.int64]


class _Pairs(NamedTuple):
    """Pairs of masks whose boxes meet, and the places of the first that lie between begin and end of the second."""

    mask: Ints
    other: Ints
    start: Ints
    stop: Ints


@final
@dataclass(frozen=True)
class RunMasks(CountedMasks):
    """Masks by the places where their runs begin and end, down the columns from left to right."""

    lengths: RunLengths

    @property
    def size(self) -> tuple[int, int]:  # type: ignore[override]
        """Height and width."""
        return self.lengths.size

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.lengths)

    @cached_property
    def _runs(self) -> Ints:
        """Where each run begins and the place behind it, [runs, 2]; none is without pixels."""
        return self._runs_and_firsts[0]

    @cached_property
    def _first(self) -> Ints:
        """Where the runs of each mask begin, and behind the last one their number; [masks + 1]."""
        return self._runs_and_firsts[1]

    @cached_property
    def _runs_and_firsts(self) -> tuple[Ints, Ints]:
        flips, num_flips = self.lengths.flips.numpy(), self.lengths.num_flips.numpy()
        is_open = num_flips % 2 == 1  # the last run ends with the image
        flips = np.insert(flips, num_flips.cumsum()[is_open], self.size[0] * self.size[1])
        runs, num_runs = flips.reshape(-1, 2), (num_flips + 1) // 2
        is_run = runs[:, 0] < runs[:, 1]
        if not is_run.all():
            mask = np.repeat(np.arange(len(num_runs)), num_runs)
            num_runs = np.bincount(mask[is_run], minlength=len(num_runs))
            runs = runs[is_run]
        return runs, _sums(num_runs)

    @cached_property
    def _keys(self) -> Ints:
        """The places of all masks, ascending: those of each mask lie behind those of the one before."""
        mask = np.repeat(np.arange(len(self)), np.diff(self._first) * 2)
        return self._runs.reshape(-1) + mask * self._stride

    @property
    def _stride(self) -> int:
        return self.size[0] * self.size[1] + 1

    @cached_property
    def _areas(self) -> Ints:
        return np.diff(_sums(self._runs[:, 1] - self._runs[:, 0])[self._first])

    @cached_property
    def _corners(self) -> Ints:
        """The first column and row with a pixel, and those behind the last; [masks, 4]."""
        corners = np.zeros((len(self), 4), dtype=np.int64)
        has_any = self._areas > 0
        if has_any.any():
            first, height = self._first[:-1][has_any], self.size[0]
            begin, last = self._runs[:, 0], self._runs[:, 1] - 1
            column, last_column = begin // height, last // height
            is_within = column == last_column  # else it goes on at the top of the next column
            rows = (
                np.where(is_within, begin - column * height, 0),
                np.where(is_within, last - last_column * height, height - 1),
            )
            corners[has_any, 0], corners[has_any, 1] = column[first], np.minimum.reduceat(rows[0], first)
            corners[has_any, 2] = last_column[self._first[1:][has_any] - 1] + 1
            corners[has_any, 3] = np.maximum.reduceat(rows[1], first) + 1
        return corners

    def areas(self) -> Float[Tensor, " masks"]:
        """See `CountedMasks`."""
        return torch.from_numpy(self._areas).double()

    def boxes(self) -> Float[Tensor, "masks 4"]:
        """See `CountedMasks`."""
        corner, behind = self._corners[:, :2], self._corners[:, 2:]
        return torch.from_numpy(np.concatenate([corner, behind - corner], 1)).double()

    def intersections(self, others: RunMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        pairs = self._pairs(others)
        num_words = (len(self) + len(others)) * self.size[1] * -(-self.size[0] // WORD)
        if int((pairs.stop - pairs.start).sum()) * _WORDS_PER_LOOKUP > num_words:
            return self._bits.intersections(others._bits)
        common = np.zeros((len(self), len(others)), dtype=np.int64)
        common[pairs.mask, pairs.other] = self._in_common(others, pairs)
        return torch.from_numpy(common).double()

    @property
    def _bits(self) -> BitMasks:
        return BitMasks(self.lengths.to_words(), self.size, by_columns=True)

    def _pairs(self, others: RunMasks) -> _Pairs:
        left, top, right, bottom = (each[:, None] for each in self._corners.T)
        begin, highest, end, lowest = others._corners.T
        mask, other = np.nonzero((left < end) & (right > begin) & (top < lowest) & (bottom > highest))
        if not len(mask):
            return _Pairs(mask, other, mask, mask)
        before, behind = others._runs[others._first[other], 0], others._runs[others._first[other + 1] - 1, 1]
        shift = mask * self._stride
        start = np.searchsorted(self._keys, before + shift)
        return _Pairs(mask, other, start, np.searchsorted(self._keys, behind + shift, side="right"))

    def _in_common(self, others: RunMasks, pairs: _Pairs) -> Ints:
        """Number of pixels that both masks of each pair have.

        The other has none before the first place, and all behind the last, where a run of the mask may be open.
        """
        num_places = pairs.stop - pairs.start
        edges = _sums(num_places)
        which = np.arange(edges[-1]) + np.repeat(pairs.start - edges[:-1], num_places)
        place = self._runs.reshape(-1)[which]
        behind = np.searchsorted(others._keys, place + np.repeat(pairs.other * self._stride, num_places))
        # Before each place: what ends less what begins, and the place itself where a run is open. The masks that come
        # before the other are a part of the sums; between begin and end of a run they cancel, if both are looked up.
        own = others._runs.reshape(-1)
        sums = _sums(np.where(np.arange(len(own)) & 1, own, -own))
        before = sums[behind] + place * (behind & 1)
        found: Ints = np.diff(_sums(np.where(which & 1, before, -before))[edges])
        is_open = pairs.stop & 1
        found += sums[2 * others._first[pairs.other]] * (is_open - (pairs.start & 1))
        found += others._areas[pairs.other] * is_open
        return found


def _sums(values: Ints) -> Ints:
    """The sum of the values before each, and of all."""
    found = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=found[1:])
    return found
