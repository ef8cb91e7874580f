"""Run lengths as the texts of COCO's API: written, and checked for many masks together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.inputs import decompressed, flips_between

Ints = NDArray[np.int64]


def compressed(lengths: Sequence[Sequence[int]]) -> list[str]:
    """Compress lengths to COCO's texts, the inverse of `decompressed`."""
    numbers = np.fromiter(chain.from_iterable(lengths), np.int64)
    num_lengths = np.array(list(map(len, lengths)), dtype=np.int64)
    place = np.arange(len(numbers)) - np.repeat(num_lengths.cumsum() - num_lengths, num_lengths)
    # From the fourth number of a text on, each number is the difference to the number two places before.
    rest = numbers.copy()
    rest[2:] -= np.where(place[2:] > 2, numbers[:-2], 0)

    # Five bits of all numbers at a time, until only the sign is left of each.
    columns = []
    goes_on = np.ones(len(rest), dtype=bool)
    while goes_on.any():
        bits = rest & 0x1F
        rest = rest >> 5
        has_character = goes_on
        sign = np.where(bits & 0x10, -1, 0)
        goes_on = has_character & (rest != sign)
        columns.append(np.where(has_character, bits + 0x20 * goes_on + 48, 0))
    table = np.stack([*columns, np.zeros(len(rest), dtype=np.int64)], 1).astype(np.uint8)

    # The characters of each text: those of its numbers, one after the other.
    ends = np.concatenate([[0], np.count_nonzero(table, axis=1).cumsum()])
    edges = ends[np.cumsum([0, *map(len, lengths)])].tolist()
    text = table[table > 0].tobytes().decode("ascii")
    return [text[begin:end] for begin, end in pairwise(edges)]


def first_invalid_counts(masks: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the position of the first mask with `counts` that do not cover its `size`; None if there is none.

    Args:
        masks: dicts with `size`, height and width, and `counts`, lengths compressed to a text.
    """
    pixels = np.array([int(mask["size"][0]) * int(mask["size"][1]) for mask in masks], dtype=np.int64)
    try:
        lengths, num_lengths = decompressed([mask["counts"] for mask in masks])
    except ValueError:  # some text breaks off, or is no text of COCO's API
        if len(masks) == 1:
            return 0
        are_invalid = [first_invalid_counts([mask]) is not None for mask in masks]
        return are_invalid.index(True)
    _, _, is_wrong = flips_between(lengths, num_lengths, pixels)
    return int(is_wrong.argmax()) if is_wrong.any() else None
