"""Run lengths as the texts of COCO's API: written, and checked for many masks together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.inputs import decompressed

Ints = NDArray[np.int64]


def compressed(lengths: Sequence[Ints]) -> list[str]:
    """Compress lengths to COCO's texts, the inverse of `decompressed`."""
    differences = [np.concatenate([numbers[:3], numbers[3:] - numbers[1:-2]]) for numbers in lengths]
    rest = np.concatenate([*differences, np.empty(0, dtype=np.int64)])

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
    mask_of_length = np.repeat(np.arange(len(masks)), num_lengths)
    sums = np.bincount(mask_of_length, weights=lengths, minlength=len(masks))
    is_invalid = sums != pixels
    is_invalid[mask_of_length[lengths < 0]] = True
    if not is_invalid.any():
        return None
    return int(is_invalid.argmax())
