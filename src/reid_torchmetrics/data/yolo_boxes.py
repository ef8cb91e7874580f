"""YOLO's files with a box in each line, the most common ones, read by columns: arrays of all files, checked at once.

    labels/1.txt   0 .5 .5 .2 .2      rows of all files   classes  0 3 0    boxes  [3, 4]    rows of each file  2 1
                   3 .1 .1 .1 .1
    labels/2.txt   0 .4 .4 .1 .1

Files with other lines, and files with a fault, are left to the reader of lines, which knows all kinds of shapes and
names the line that is at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from .word_columns import columns_of_blocks, parse_floats
from .yolo_lines import LEAST_SHARE, MOST_SHARE

_NUM_BOX = 4
_ENCODING = "utf-8-sig"
_MAX_CLASS = 2**53  # of a class that is written as a float


class BoxTable(NamedTuple):
    """The rows of all files of a folder."""

    labels: Int[NDArray[np.int64], " rows"]
    boxes: Float[NDArray[np.float64], "rows 4"]
    """center, width and height, as shares of the image"""
    scores: Float[NDArray[np.float64], " rows"] | None
    """None for ground truths"""
    files: dict[str, slice]
    """the rows of a file, by the name of its image"""


def read_boxes(paths: Sequence[Path], *, is_result: bool) -> BoxTable | None:
    """Return the boxes in files; None if some line is anything else than a class, a box in the image, and a score.

    Args:
        paths: the files, one for each image.
        is_result: whether a confidence follows each box, and perhaps a tracking id in all lines.
    """
    texts = []
    files = {}
    num_rows = 0
    for path in paths:
        text = _read_text(path)
        if text is None:
            return None
        num_lines = text.count("\n")
        files[path.stem] = slice(num_rows, num_rows + num_lines)
        num_rows += num_lines
        texts.append(text)
    columns = _read_columns("".join(texts), _num_columns(texts, is_result=is_result), is_result=is_result)
    if columns is None or len(columns[0]) != num_rows:
        return None
    labels, numbers = columns
    is_share = (numbers >= LEAST_SHARE) & (numbers <= MOST_SHARE)  # NaN is none
    if not is_share.all() or (labels < 0).any():
        return None
    boxes = np.ascontiguousarray(numbers[:, :_NUM_BOX])
    scores = numbers[:, _NUM_BOX] if is_result else None
    return BoxTable(labels, boxes, scores, files)


def edges_of(boxes: Float[NDArray[np.float64], "rows 4"]) -> Float[NDArray[np.float64], "rows 4"]:
    """Return left, top, right and bottom of boxes."""
    centers = boxes[:, :2]
    halves = boxes[:, 2:] / 2
    return np.concatenate([centers - halves, centers + halves], axis=1)


def count_leaving(boxes: Float[NDArray[np.float64], "rows 4"]) -> int:
    """Return how many boxes leave the image."""
    edges = edges_of(boxes)
    is_outside = (edges < LEAST_SHARE) | (edges > MOST_SHARE)
    return int(np.count_nonzero(is_outside.any(axis=1)))


def _read_text(path: Path) -> str | None:
    """Return the lines of a file that are not blank, each with a line break; None if the file cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read().decode(_ENCODING)
    except (OSError, UnicodeDecodeError):
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.strip()
    if "\n\n" in text or "\n " in text or "\n\t" in text:
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        text = "\n".join(lines)
    return f"{text}\n" if text else ""


def _num_columns(texts: Sequence[str], *, is_result: bool) -> int:
    """Return how many words a line has: as many as the first one if that has a tracking id."""
    num_columns = 1 + _NUM_BOX + is_result
    for text in texts:
        if text:
            first_line = text.partition("\n")[0]
            has_id = is_result and len(first_line.split()) == num_columns + 1
            return num_columns + has_id
    return num_columns


def _read_columns(
    text: str, num_columns: int, *, is_result: bool
) -> tuple[NDArray[np.int64], Float[NDArray[np.float64], "rows columns"]] | None:
    """Return the classes and the numbers behind them, without tracking ids; None if a line is of another form."""
    num_numbers = _NUM_BOX + is_result
    labels = [np.empty(0, np.int64)]
    numbers = [np.empty((0, num_numbers), np.float64)]
    for columns in columns_of_blocks(text, num_columns):
        if columns is None:
            return None
        ids = columns[1 + num_numbers :]
        if not all(word.isdecimal() for words in ids for word in words):
            return None
        classes = _parse_classes(columns[0])
        shares = [parse_floats(words) for words in columns[1 : 1 + num_numbers]]
        if classes is None or any(words is None for words in shares):
            return None
        labels.append(classes)
        numbers.append(np.array(shares, np.float64).T)
    return np.concatenate(labels), np.concatenate(numbers)


def _parse_classes(words: Sequence[str]) -> NDArray[np.int64] | None:
    """Return whole numbers, also as floats such as 2.0; None if some word is none."""
    try:
        return np.array(list(map(int, words)), np.int64)
    except (ValueError, OverflowError):
        numbers = np.array(parse_floats(words) or [np.nan], np.float64)
    is_whole = (numbers == np.floor(numbers)) & (np.abs(numbers) <= _MAX_CLASS)  # NaN is none
    return numbers.astype(np.int64) if is_whole.all() else None
