"""Masks as sets of pixels, from the definitions: nothing here may come from the package."""

from collections.abc import Sequence

Pixels = frozenset[tuple[int, int]]
"""row and column of each pixel inside"""


def pixels_of(mask: Sequence[Sequence[int]]) -> Pixels:
    return frozenset(
        (row, column) for row, values in enumerate(mask) for column, value in enumerate(values) if value != 0
    )


def mask_iou(mask: Pixels, other: Pixels, *, is_crowd: bool = False) -> float:
    """Intersection over union; where `other` is a crowd, over the pixels of `mask` alone; 0 without a common pixel."""
    common = len(mask & other)
    return common / len(mask if is_crowd else mask | other) if common else 0.0


def holding_box(mask: Pixels) -> tuple[int, int, int, int]:
    """Column, row, width and height of the least box that holds all pixels; all 0 without any."""
    if not mask:
        return 0, 0, 0, 0
    rows, columns = [row for row, _ in mask], [column for _, column in mask]
    return min(columns), min(rows), max(columns) - min(columns) + 1, max(rows) - min(rows) + 1


def run_lengths(mask: Sequence[Sequence[int]]) -> list[int]:
    """How many pixels are outside, inside, outside, ... in turn, down the columns from left to right."""
    lengths, inside = [0], False
    for column in zip(*mask, strict=True):
        for value in column:
            if (value != 0) != inside:
                lengths.append(0)
                inside = not inside
            lengths[-1] += 1
    return lengths
