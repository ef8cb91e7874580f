"""Masks as run lengths, column by column, the form of COCO's files.

In memory a mask is its flips: the places where it begins and ends, in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _extras
from reid_torchmetrics.functional.displays import Displayed

Ints = NDArray[np.int64]


@final
@dataclass(frozen=True, repr=False)
class RunLengths(Displayed):
    """Masks of one image by their flips, counted down the columns from left to right.

    Constructed by `from_coco`, `from_polygons` and `from_masks`.
    """

    size: tuple[int, int]
    """height and width of the image"""
    flips: Int[Tensor, " flips"]
    """pixels where a mask begins or ends, in turn, ascending within each mask"""
    num_flips: Int[Tensor, " masks"]

    @classmethod
    def from_coco(cls, masks: Sequence[Mapping[str, Any]], size: tuple[int, int] | None = None) -> RunLengths:
        """Return the masks of dicts with `size`, height and width, and `counts`, lengths as a list or compressed text.

        Pass `size` if there may be no mask.

        Raises:
            ValueError: sizes that differ, or lengths that do not cover the image.
        """
        sizes = {(int(mask["size"][0]), int(mask["size"][1])) for mask in masks}
        if size:
            sizes.add(size)
        if len(sizes) > 1:
            raise ValueError(f"`masks` must have one size in an image; got {' and '.join(map(str, sorted(sizes)))}.")
        height, width = sizes.pop() if sizes else (0, 0)

        lengths, num_lengths = lengths_of([mask["counts"] for mask in masks])
        flips, num_flips, is_wrong = flips_between(lengths, num_lengths, height * width)
        if is_wrong.any():
            wrong = np.split(lengths, num_lengths.cumsum()[:-1])[is_wrong.argmax()]
            raise ValueError(
                f"`counts` must be at least 0 and add up to the pixels of the image, {height * width};"
                f" got {wrong.tolist()[:5]}, ... with the sum {wrong.sum()}."
            )
        return cls((height, width), torch.from_numpy(flips), torch.from_numpy(num_flips))

    @classmethod
    def from_polygons(cls, objects: Sequence[Sequence[Any]], size: tuple[int, int]) -> RunLengths:
        """Return the masks of objects, each the union of a list of polygons [x, y, x, y, ...].

        A polygon covers the same pixels as in pycocotools' `frPyObjects`.

        Raises:
            ValueError: a polygon of less than three points.
        """
        flips, num_flips = _extras.files().flips_of_objects(objects, [size] * len(objects))
        return cls(size, torch.from_numpy(flips), torch.from_numpy(num_flips))

    @classmethod
    def from_masks(cls, masks: Bool[Tensor, "masks height width"]) -> RunLengths:
        """Return the masks of pixels."""
        num_masks, height, width = masks.shape
        # NumPy transposes and searches bytes in a third of torch's time.
        columns = np.ascontiguousarray(masks.cpu().numpy().transpose(0, 2, 1)).reshape(num_masks, height * width)
        is_flip = np.diff(columns, axis=1, prepend=False)
        num_flips = np.count_nonzero(is_flip, axis=1)
        flips = np.flatnonzero(is_flip) - np.repeat(np.arange(num_masks) * (height * width), num_flips)
        return cls((height, width), torch.from_numpy(flips), torch.from_numpy(num_flips))

    def __len__(self) -> int:
        """Return the number of masks."""
        return len(self.num_flips)

    def to_coco(self, *, compressed: bool = False) -> list[dict[str, Any]]:
        """Return dicts for `from_coco`, with lists of lengths, or with the texts of COCO's API."""
        height, width = self.size
        counts: Sequence[Any] = lengths_between(self.flips.numpy(), self.num_flips.numpy(), height * width)
        if compressed:
            counts = _extras.files().compressed(counts)
        return [{"size": [height, width], "counts": mask_counts} for mask_counts in counts]

    def to_masks(self) -> Bool[Tensor, "masks height width"]:
        """Return the pixels: a mask covers those with an odd number of flips up to them."""
        height, width = self.size
        flips = self.flips.numpy()
        mask = np.repeat(np.arange(len(self)), self.num_flips.numpy())
        is_inside = flips < height * width  # the end of the image is no flip
        num_flips = np.zeros((len(self), height * width), dtype=np.uint8)
        np.add.at(num_flips, (mask[is_inside], flips[is_inside]), 1)
        pixels = num_flips.cumsum(1, dtype=np.uint8) & 1
        return torch.from_numpy(pixels.reshape(len(self), width, height).transpose(0, 2, 1)).bool()


def flips_between(lengths: Ints, num_lengths: Ints, num_pixels: Ints | int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return the flips of all masks, and for each mask their number and whether its lengths do not cover its image.

    Args:
        lengths: lengths of all masks.
        num_lengths: their number for each mask.
        num_pixels: number of pixels of the image, or of that of each mask.
    """
    # `sums` are the places of all flips, counted through all masks.
    ends = num_lengths.cumsum()
    sums = np.concatenate([[0], lengths.cumsum()])
    before = sums[ends - num_lengths]
    is_wrong: NDArray[np.bool_] = sums[ends] - before != num_pixels
    if lengths.min(initial=0) < 0:
        is_wrong[np.searchsorted(ends, np.flatnonzero(lengths < 0), side="right")] = True
    is_flip = np.ones(len(lengths), dtype=bool)
    is_flip[ends[num_lengths > 0] - 1] = False  # the end of the image is no flip
    flips = (sums[1:] - np.repeat(before, num_lengths))[is_flip]
    return flips, np.maximum(num_lengths - 1, 0), is_wrong


def lengths_between(flips: Ints, num_flips: Ints, num_pixels: Ints | int) -> list[list[int]]:
    """Return the lengths of each mask as a list, given the flips of all masks and the pixels of their images."""
    ends = num_flips.cumsum()
    places = np.insert(flips, ends, num_pixels)
    lengths = np.diff(places, prepend=0)
    starts = ends - num_flips + np.arange(len(ends))
    lengths[starts] = places[starts]
    numbers = lengths.tolist()
    bounds = [*starts.tolist(), len(numbers)]
    return [numbers[start:end] for start, end in pairwise(bounds)]


def lengths_of(counts: Sequence[Any]) -> tuple[Ints, Ints]:
    """Return the lengths of all masks, given as lists or texts, and the number of lengths of each mask."""
    if all(isinstance(mask_counts, (str, bytes)) for mask_counts in counts):
        return decompressed(counts)
    lengths = []
    for mask_counts in counts:
        if isinstance(mask_counts, (str, bytes)):
            lengths.append(decompressed([mask_counts])[0])
        else:
            lengths.append(np.asarray(mask_counts, dtype=np.int64))
    return np.concatenate(lengths), np.array(list(map(len, lengths)), dtype=np.int64)


def decompressed(texts: Sequence[str | bytes]) -> tuple[Ints, Ints]:
    """Return the lengths in COCO's texts, and the number of lengths in each text.

    A character has five bits of a number, lowest first, and a flag for more. The highest bit is the sign. From the
    fourth number of a text on, each number is the difference to the number two places before.
    """
    sizes = np.array(list(map(len, texts)), dtype=np.int64)
    if set(map(type, texts)) <= {str}:
        encoded = "".join(texts).encode("ascii")  # type: ignore[arg-type]
    else:
        encoded = b"".join(text.encode("ascii") if isinstance(text, str) else text for text in texts)
    data = np.frombuffer(encoded, dtype=np.uint8) - np.uint8(48)
    if not len(data):
        return data.astype(np.int64), sizes
    is_last = (data & 0x20) == 0
    ends = sizes.cumsum()
    if not is_last[ends[sizes > 0] - 1].all():
        raise ValueError("`counts` must be a text that COCO's API has compressed; got one that breaks off.")

    # The last character of a number has its highest bits; earlier characters are appended below them.
    last = np.flatnonzero(is_last)
    num_before = np.diff(last, prepend=-1) - 1
    numbers = (data[last] & 0x1F).astype(np.int64)
    numbers -= (numbers & 0x10) << 1
    longer = np.flatnonzero(num_before)
    for distance in range(1, int(num_before.max(initial=0)) + 1):
        numbers[longer] = (numbers[longer] << 5) | (data[last[longer] - distance] & 0x1F)
        longer = longer[num_before[longer] > distance]
    counts = np.diff(np.searchsorted(last, ends), prepend=0)
    return _summed(numbers, counts), counts


def _summed(numbers: Ints, counts: Ints) -> Ints:
    """Undo the differences of `decompressed`; `counts` are the numbers of values in its texts."""
    # In two columns, each text from a new row on, so that numbers two places apart share a column.
    num_rows = (counts + 1) // 2
    first = num_rows.cumsum() - num_rows
    place = np.arange(len(numbers)) + np.repeat(2 * first - counts.cumsum() + counts, counts)
    table = np.zeros((num_rows.sum() + 1, 2), dtype=np.int64)  # a row of 0 before the others
    table[1:].reshape(-1)[place] = numbers
    heads = first[counts > 0] + 1
    first_numbers = table[heads, 0]
    table[heads, 0] = 0  # the first number of a text is in no difference
    table = table.cumsum(0)
    table[1:] -= np.repeat(table[first], num_rows, 0)
    table[heads, 0] = first_numbers
    summed: Ints = table[1:].reshape(-1)[place]
    return summed
