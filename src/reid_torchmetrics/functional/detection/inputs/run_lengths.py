"""Masks as the lengths of their runs, column by column, which is the form of COCO's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.polygons import polygon_flips

WORD = 64  # bits
_ALL = (1 << WORD) - 1

Counts = NDArray[np.int64]
Words = NDArray[np.uint64]


@final
@dataclass(frozen=True)
class RunLengths:
    """Masks of one image by the places where they begin and end, counted down the columns from left to right.

    They are made by `from_coco` and `from_polygons`.
    """

    size: tuple[int, int]
    """height and width of the image"""
    flips: Int[Tensor, " flips"]
    """the pixels from which on a mask is there or is not, in turn, ascending in each mask"""
    num_flips: Int[Tensor, " masks"]

    @classmethod
    def from_coco(cls, masks: Sequence[Mapping[str, Any]], size: tuple[int, int] | None = None) -> RunLengths:
        """Of dicts with `size`, height and width, and `counts`, the lengths as a list or compressed to a text.

        `size` is needed where there may be no mask.

        Raises:
            ValueError: sizes that differ, or lengths that do not cover the image.
        """
        sizes = {(int(mask["size"][0]), int(mask["size"][1])) for mask in masks} | ({size} if size else set())
        if len(sizes) > 1:
            raise ValueError(f"`masks` must have one size in an image; got {' and '.join(map(str, sorted(sizes)))}.")
        height, width = sizes.pop() if sizes else (0, 0)
        return cls._of_flips((height, width), [_flips(mask["counts"], height * width) for mask in masks])

    @classmethod
    def from_polygons(cls, objects: Sequence[Sequence[Any]], size: tuple[int, int]) -> RunLengths:
        """Of objects, each a list of polygons [x, y, x, y, ...]; a pixel that any polygon covers belongs to the object.

        Which pixels a polygon covers is what pycocotools' `frPyObjects` says.

        Raises:
            ValueError: a polygon of less than three points.
        """
        found = []
        for polygons in objects:
            parts = [polygon_flips(polygon, size) for polygon in polygons]
            found.append(parts[0] if len(parts) == 1 else _joined(parts))
        return cls._of_flips(size, found)

    @classmethod
    def _of_flips(cls, size: tuple[int, int], found: Sequence[Counts]) -> RunLengths:
        flips = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        counts = torch.tensor([len(each) for each in found], dtype=torch.int64)
        return cls(size, torch.from_numpy(flips), counts)

    def __len__(self) -> int:
        """Number of masks."""
        return len(self.num_flips)

    def to_words(self) -> Words:
        """One bit for a pixel, the least bit of a word first; [masks, width, words], a column from the top down.

        A word is all that changes in it, turned round if the mask is there before it.
        """
        height, width = self.size
        num_words = -(-height // WORD)
        flips, num_flips = self.flips.numpy(), self.num_flips.numpy()
        mask = np.repeat(np.arange(len(num_flips)), num_flips)
        kept = flips < height * width  # where a mask ends with the image nothing changes
        column, row = np.divmod(flips[kept], max(height, 1))
        place = (mask[kept] * width + column) * num_words + row // WORD
        first = np.flatnonzero(np.diff(place, prepend=-1))
        words = np.zeros(len(num_flips) * width * num_words, dtype=np.uint64)
        is_odd = np.zeros(words.shape, dtype=np.uint8)
        if len(first):
            behind = np.left_shift(np.uint64(_ALL), (row % WORD).astype(np.uint64))
            words[place[first]] = np.bitwise_xor.reduceat(behind, first)
            is_odd[place[first]] = np.diff(first, append=len(place)) % 2
        of_masks = is_odd.reshape(len(num_flips), width * num_words)
        before = (of_masks.cumsum(1, dtype=np.uint8) - of_masks) & 1
        words ^= before.reshape(-1) * np.uint64(_ALL)
        found: Words = words.reshape(len(num_flips), width, num_words)
        if height % WORD:
            found[:, :, -1] &= np.uint64((1 << height % WORD) - 1)  # below the last row
        return found

    def to_coco(self) -> list[dict[str, Any]]:
        """Dicts as `from_coco` takes them, with lists of lengths."""
        flips = self.flips.split(self.num_flips.tolist())
        ends = [0], [self.size[0] * self.size[1]]
        lengths = [np.diff([*ends[0], *each.tolist(), *ends[1]]).tolist() for each in flips]
        return [{"size": [*self.size], "counts": each} for each in lengths]

    def to_masks(self) -> Bool[Tensor, "masks height width"]:
        """The pixels."""
        return torch.from_numpy(unpacked(self.to_words(), self.size[0]).transpose(0, 2, 1)).bool()


def unpacked(words: Words, length: int) -> NDArray[np.uint8]:
    """The bits of each row of words, 0 or 1, of which so many are there."""
    data = words.view(np.uint8).reshape(*words.shape[:-1], words.shape[-1] * (WORD // 8))
    return np.unpackbits(data, axis=-1, bitorder="little")[..., :length]


def _flips(counts: str | bytes | Sequence[int], num_pixels: int) -> Counts:
    """Where the mask begins and ends; its lengths are of what is not there, of what is, and so on."""
    lengths = _decompressed(counts) if isinstance(counts, (str, bytes)) else np.asarray(counts, dtype=np.int64)
    flips = lengths.cumsum()
    if lengths.min(initial=0) < 0 or lengths.sum() != num_pixels:
        raise ValueError(
            f"`counts` must be at least 0 and add up to the pixels of the image, {num_pixels};"
            f" got {lengths.tolist()[:5]}, ... with the sum {lengths.sum()}."
        )
    return flips[:-1]


def _decompressed(text: str | bytes) -> Counts:
    """The lengths of COCO's text: in each character five bits, the least ones first, and whether more follow.

    The highest bit is the sign. From the fourth number on, each is the difference to the one two places before.
    """
    data = np.frombuffer(text.encode("ascii") if isinstance(text, str) else text, dtype=np.uint8).astype(np.int64) - 48
    if not len(data):
        return data
    last = np.flatnonzero((data & 0x20) == 0)
    if not len(last) or last[-1] != len(data) - 1:
        raise ValueError("`counts` must be a text that COCO's API has compressed; got one that breaks off.")
    first = np.concatenate([[0], last[:-1] + 1])
    place = np.arange(len(data)) - np.repeat(first, last - first + 1)
    numbers = np.add.reduceat((data & 0x1F) << 5 * place, first)
    is_negative = (data[last] & 0x10) > 0
    numbers -= np.where(is_negative, 1 << 5 * (place[last] + 1), 0)
    numbers[1::2] = numbers[1::2].cumsum()
    numbers[2::2] = numbers[2::2].cumsum()
    return numbers


def _joined(parts: Sequence[Counts]) -> Counts:
    """What any of some masks covers."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    places = np.concatenate(parts)
    # How many masks are there behind each place: what a mask adds there is 1 where it begins, and -1 where it ends.
    steps = np.concatenate([1 - 2 * (np.arange(len(part)) % 2) for part in parts])
    places, inverse = np.unique(places, return_inverse=True)
    depth = np.bincount(inverse, weights=steps, minlength=len(places)).cumsum().astype(np.int64) > 0
    found: Counts = places[np.diff(depth, prepend=False)]
    return found
