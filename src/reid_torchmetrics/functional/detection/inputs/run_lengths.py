"""Masks as run lengths, column by column, the form of COCO's files; from COCO's dicts and from polygons.

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

_FINENESS = 5  # corners of a polygon are rounded to this part of a pixel
_LEAST_NUMBERS = 6  # three points
WORD = 64  # bits
_ALL = (1 << WORD) - 1

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


def polygon_flips(polygon: Sequence[Any], size: tuple[int, int]) -> Ints:
    """The flips of a polygon: pixels where it begins and ends, counted down the columns, ascending.

    Its corners are rounded to fifths of a pixel, its edges to the points of that grid, and the pixels of a column below
    an odd number of edges are covered. These are the roundings of pycocotools, whose masks are the reference of COCO.

    Args:
        polygon: x, y, x, y, ... of the corners.
        size: height and width of the image.

    Raises:
        ValueError: less than three corners, or an odd number of numbers.
    """
    if len(polygon) < _LEAST_NUMBERS or len(polygon) % 2:
        raise ValueError(f"`polygon` must have x and y of at least three corners; got {len(polygon)} numbers.")
    # Truncated toward 0, negative numbers too.
    corners = (_FINENESS * np.asarray(polygon, dtype=np.float64) + 0.5).astype(np.int64).reshape(-1, 2)
    x, y = _points(corners)
    # A boundary passes the middle of a column where x changes there.
    height, width = size
    step = np.flatnonzero(x[1:] != x[:-1]) + 1
    column = (np.where(x[step] < x[step - 1], x[step], x[step] - 1) + 0.5) / _FINENESS - 0.5
    is_middle = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    step, column = step[is_middle], column[is_middle].astype(np.int64)
    row = (np.minimum(y[step], y[step - 1]) + 0.5) / _FINENESS - 0.5
    row = np.ceil(row.clip(0, height)).astype(np.int64)
    flips: Ints = np.sort(column * height + row)
    return flips


def _points(corners: Ints) -> tuple[Ints, Ints]:
    """The grid points along all edges; corners are listed twice."""
    ends = np.roll(corners, -1, 0)
    is_flat = np.abs(ends - corners)[:, 0] >= np.abs(ends - corners)[:, 1]
    main = np.where(is_flat, 0, 1)
    edge = np.arange(len(corners))
    # Along its longer axis, in ascending order; the order of descending edges is reversed afterwards.
    is_turned = corners[edge, main] > ends[edge, main]
    low, high = (np.where(is_turned[:, None], *pair) for pair in ((ends, corners), (corners, ends)))
    length = high[edge, main] - low[edge, main]
    rise = high[edge, 1 - main] - low[edge, 1 - main]
    slope = np.divide(rise, length, out=np.zeros(len(edge)), where=length > 0)
    of_point = np.repeat(edge, length + 1)
    offset = np.arange(len(of_point)) - np.repeat((length + 1).cumsum() - length - 1, length + 1)
    offset = np.where(is_turned[of_point], length[of_point] - offset, offset)
    along = offset + low[edge, main][of_point]
    across = (low[edge, 1 - main][of_point] + slope[of_point] * offset + 0.5).astype(np.int64)
    flat = is_flat[of_point]
    return np.where(flat, along, across), np.where(flat, across, along)


@final
@dataclass(frozen=True)
class RunLengths:
    """Masks of one image by their flips, counted down the columns from left to right.

    Made by `from_coco` and `from_polygons`.
    """

    size: tuple[int, int]
    """height and width of the image"""
    flips: Int[Tensor, " flips"]
    """pixels where a mask begins or ends, in turn, ascending within each mask"""
    num_flips: Int[Tensor, " masks"]

    @classmethod
    def from_coco(cls, masks: Sequence[Mapping[str, Any]], size: tuple[int, int] | None = None) -> RunLengths:
        """Of dicts with `size`, height and width, and `counts`, the lengths as a list or compressed to a text.

        `size` is needed if there may be no mask.

        Raises:
            ValueError: sizes that differ, or lengths that do not cover the image.
        """
        sizes = {(int(mask["size"][0]), int(mask["size"][1])) for mask in masks} | ({size} if size else set())
        if len(sizes) > 1:
            raise ValueError(f"`masks` must have one size in an image; got {' and '.join(map(str, sorted(sizes)))}.")
        height, width = sizes.pop() if sizes else (0, 0)
        lengths, num_lengths = _lengths([mask["counts"] for mask in masks])
        ends = num_lengths.cumsum()
        sums = np.concatenate([[0], lengths.cumsum()])
        before = sums[ends - num_lengths]
        is_wrong = sums[ends] - before != height * width
        if is_wrong.any() or lengths.min(initial=0) < 0:
            is_wrong[np.searchsorted(ends, np.flatnonzero(lengths < 0), side="right")] = True
            wrong = np.split(lengths, ends[:-1])[is_wrong.argmax()]
            raise ValueError(
                f"`counts` must be at least 0 and add up to the pixels of the image, {height * width};"
                f" got {wrong.tolist()[:5]}, ... with the sum {wrong.sum()}."
            )
        flips = sums[1:] - np.repeat(before, num_lengths)
        flips = np.delete(flips, ends[num_lengths > 0] - 1)  # the end of the image is no flip
        num_flips = np.maximum(num_lengths - 1, 0)
        return cls((height, width), torch.from_numpy(flips), torch.from_numpy(num_flips))

    @classmethod
    def from_polygons(cls, objects: Sequence[Sequence[Any]], size: tuple[int, int]) -> RunLengths:
        """Of objects, each a list of polygons [x, y, x, y, ...]; an object is the union of its polygons.

        A polygon covers the pixels that pycocotools' `frPyObjects` gives it.

        Raises:
            ValueError: a polygon of less than three points.
        """
        masks = []
        for polygons in objects:
            parts = [polygon_flips(polygon, size) for polygon in polygons]
            masks.append(parts[0] if len(parts) == 1 else _union(parts))
        flips = np.concatenate(masks) if masks else np.empty(0, dtype=np.int64)
        return cls(size, torch.from_numpy(flips), torch.tensor([*map(len, masks)], dtype=torch.int64, device="cpu"))

    @classmethod
    def from_masks(cls, masks: Bool[Tensor, "masks height width"]) -> RunLengths:
        """Of pixels."""
        num_masks, height, width = masks.shape
        # NumPy transposes and searches bytes in a third of torch's time.
        columns = np.ascontiguousarray(masks.cpu().numpy().transpose(0, 2, 1)).reshape(num_masks, height * width)
        is_flip = np.diff(columns, axis=1, prepend=False)
        num_flips = np.count_nonzero(is_flip, axis=1)
        flips = np.flatnonzero(is_flip) - np.repeat(np.arange(num_masks) * (height * width), num_flips)
        return cls((height, width), torch.from_numpy(flips), torch.from_numpy(num_flips))

    def __len__(self) -> int:
        """Number of masks."""
        return len(self.num_flips)

    def to_words(self) -> Words:
        """One bit for a pixel, the least bit of a word first; [masks, width, words], a column from the top down.

        A word is the xor of its flips, each as all bits from there on, inverted if the mask covers the bit before it.
        """
        height, width = self.size
        num_words = -(-height // WORD)
        flips, num_flips = self.flips.numpy(), self.num_flips.numpy()
        mask = np.repeat(np.arange(len(num_flips)), num_flips)
        kept = flips < height * width  # the end of the image is no flip
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
        columns: Words = words.reshape(len(num_flips), width, num_words)
        if height % WORD:
            columns[:, :, -1] &= np.uint64((1 << height % WORD) - 1)  # no bits below the last row
        return columns

    def to_coco(self, *, compressed: bool = False) -> list[dict[str, Any]]:
        """Dicts as `from_coco` takes them, with lists of lengths, or with the texts of COCO's API."""
        flips, end = self.flips.split(self.num_flips.tolist()), self.size[0] * self.size[1]
        lengths = [np.diff([0, *each.tolist(), end]) for each in flips]
        counts = _compressed(lengths) if compressed else [each.tolist() for each in lengths]
        return [{"size": [*self.size], "counts": each} for each in counts]

    def to_masks(self) -> Bool[Tensor, "masks height width"]:
        """The pixels."""
        return torch.from_numpy(unpacked(self.to_words(), self.size[0]).transpose(0, 2, 1)).bool()


def first_invalid_counts(masks: Sequence[Mapping[str, Any]]) -> int | None:
    """Position of the first mask with `counts` that do not cover its `size`; None if there is none.

    Args:
        masks: dicts with `size`, height and width, and `counts`, lengths compressed to a text.
    """
    pixels = np.array([int(mask["size"][0]) * int(mask["size"][1]) for mask in masks], dtype=np.int64)
    try:
        lengths, num_lengths = _decompressed([mask["counts"] for mask in masks])
    except ValueError:  # some text breaks off, or is no text of COCO's API
        if len(masks) == 1:
            return 0
        are_invalid = [first_invalid_counts([mask]) is not None for mask in masks]
        return are_invalid.index(True)
    mask_of_length = np.repeat(np.arange(len(masks)), num_lengths)
    sums = np.bincount(mask_of_length, weights=lengths, minlength=len(masks))
    is_invalid = sums != pixels
    is_invalid[mask_of_length[lengths < 0]] = True
    return int(is_invalid.argmax()) if is_invalid.any() else None


def unpacked(words: Words, length: int) -> NDArray[np.uint8]:
    """The first `length` bits of each row of words, 0 or 1."""
    data = words.view(np.uint8).reshape(*words.shape[:-1], words.shape[-1] * (WORD // 8))
    return np.unpackbits(data, axis=-1, bitorder="little")[..., :length]


def _lengths(counts: Sequence[Any]) -> tuple[Ints, Ints]:
    """The lengths of all masks, and the number of each."""
    if all(isinstance(each, (str, bytes)) for each in counts):
        return _decompressed(counts)
    lengths = [
        _decompressed([each])[0] if isinstance(each, (str, bytes)) else np.asarray(each, dtype=np.int64)
        for each in counts
    ]
    return np.concatenate(lengths), np.array([*map(len, lengths)], dtype=np.int64)


def _decompressed(texts: Sequence[str | bytes]) -> tuple[Ints, Ints]:
    """The lengths of COCO's texts: five bits in each character, lowest first, and a flag for more.

    The highest bit is the sign. From the fourth number of a text on, each is the difference to the number two places
    before.
    """
    parts = [text.encode("ascii") if isinstance(text, str) else text for text in texts]
    sizes = np.array([*map(len, parts)], dtype=np.int64)
    data = np.frombuffer(b"".join(parts), dtype=np.uint8) - np.uint8(48)
    if not len(data):
        return data.astype(np.int64), sizes
    is_last = (data & 0x20) == 0
    ends = sizes.cumsum()
    if not is_last[ends[sizes > 0] - 1].all():
        raise ValueError("`counts` must be a text that COCO's API has compressed; got one that breaks off.")
    last = np.flatnonzero(is_last)
    num_before = np.diff(last, prepend=-1) - 1
    numbers = (data[last] & 0x1F).astype(np.int64)
    numbers -= (numbers & 0x10) << 1
    longer = np.flatnonzero(num_before)
    for place in range(1, int(num_before.max(initial=0)) + 1):  # the higher bits are those that came later
        numbers[longer] = (numbers[longer] << 5) | (data[last[longer] - place] & 0x1F)
        longer = longer[num_before[longer] > place]
    counts = np.diff(np.searchsorted(last, ends), prepend=0)
    return _summed(numbers, counts), counts


def _summed(numbers: Ints, counts: Ints) -> Ints:
    """Undo the differences of `_decompressed`; `counts` are the sizes of its texts."""
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


def _compressed(lengths: Sequence[Ints]) -> list[str]:
    """The inverse of `_decompressed`."""
    differences = [np.concatenate([each[:3], each[3:] - each[1:-2]]) for each in lengths]
    rest = np.concatenate([*differences, np.empty(0, dtype=np.int64)])
    columns, goes_on = [], np.ones(len(rest), dtype=bool)
    while goes_on.any():  # five bits of all numbers at a time; the last ones end with the sign
        bits, rest, begun = rest & 0x1F, rest >> 5, goes_on
        goes_on = begun & (rest != np.where(bits & 0x10, -1, 0))
        columns.append(np.where(begun, bits + 0x20 * goes_on + 48, 0))
    table = np.stack([*columns, np.zeros(len(rest), dtype=np.int64)], 1).astype(np.uint8)
    ends = np.concatenate([[0], np.count_nonzero(table, axis=1).cumsum()])
    edges = ends[np.cumsum([0, *map(len, lengths)])].tolist()
    text = table[table > 0].tobytes().decode("ascii")
    return [text[begin:end] for begin, end in pairwise(edges)]


def _union(parts: Sequence[Ints]) -> Ints:
    """The flips of the union of masks, given the flips of each."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    places = np.concatenate(parts)
    # Number of masks behind each place: +1 where a mask begins, -1 where it ends.
    steps = np.concatenate([1 - 2 * (np.arange(len(part)) % 2) for part in parts])
    places, inverse = np.unique(places, return_inverse=True)
    depth = np.bincount(inverse, weights=steps, minlength=len(places)).cumsum().astype(np.int64) > 0
    flips: Ints = places[np.diff(depth, prepend=False)]
    return flips
