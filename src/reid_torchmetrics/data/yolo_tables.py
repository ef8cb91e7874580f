"""YOLO's files with boxes and polygons, the most common ones, as arrays that cover all files.

    labels/1.txt   0 .5 .5 .2 .2          rows of all files   classes  0 3 0    sizes  4 6 4    numbers  .5 .5 .2 ...
                   3 .1 .1 .1 .2 .2 .1    rows of each file   2 1
    labels/2.txt   0 .4 .4 .1 .1

Files whose lines may be something else, and files with a fault, are left to the reader of lines, which knows all kinds
of shapes and names the line that is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from .image_sizes import LEAST_SHARE, MOST_SHARE
from .word_columns import parse_floats

_NUM_BOX = 4  # numbers of a box
_MIN_POLYGON = 6  # numbers of three corners
_ENCODING = "utf-8-sig"
_MAX_CLASS = 2**53  # largest class that may be written as a float
_NUM_WORDS = 1 << 12  # words that are parsed together


class ShapeTable(NamedTuple):
    """The rows of all files of a folder."""

    labels: Int[NDArray[np.int64], " rows"]
    sizes: Int[NDArray[np.int64], " rows"]
    """number of values of each shape: 4 of a box, else x and y of the corners of a polygon"""
    numbers: Float[NDArray[np.float64], " numbers"]
    """values of all shapes, end to end, as shares of the image"""
    scores: Float[NDArray[np.float64], " rows"]
    """confidences; 1 for ground truths"""
    files: dict[str, slice]
    """rows of each file, by the name of its image"""

    def boxes(self) -> Float[NDArray[np.float64], "boxes 4"]:
        """Return center, width and height of the rows that are boxes."""
        is_box = self.sizes == _NUM_BOX
        numbers: NDArray[np.float64] = self.numbers[np.repeat(is_box, self.sizes)]
        return numbers.reshape(-1, _NUM_BOX)

    def scored_boxes(self) -> tuple[Float[NDArray[np.float64], "boxes 4"], Float[NDArray[np.float64], " boxes"]]:
        """Return the boxes, and their confidences."""
        return self.boxes(), self.scores[self.sizes == _NUM_BOX]

    def edges(self) -> Float[NDArray[np.float64], "rows 4"]:
        """Return left, top, right and bottom of each row, as shares."""
        edges: NDArray[np.float64] = np.empty((len(self.sizes), 4))
        is_box = self.sizes == _NUM_BOX
        edges[is_box] = _edges_of_boxes(self.boxes())
        if not is_box.all():
            sizes = self.sizes[~is_box]
            points = self.numbers[np.repeat(~is_box, self.sizes)].reshape(-1, 2)
            starts = (np.cumsum(sizes) - sizes) // 2
            least = np.minimum.reduceat(points, starts)
            most = np.maximum.reduceat(points, starts)
            edges[~is_box] = np.concatenate([least, most], axis=1)
        return edges


class _Words(NamedTuple):
    """The words of many lines, end to end."""

    words: list[str]
    lengths: list[int]
    """number of words of each line"""

    def split(self) -> tuple[list[str], list[str]]:
        """Return the classes and the words behind them."""
        lengths = np.array(self.lengths)
        is_first = np.zeros(len(self.words), bool)
        is_first[np.cumsum(lengths) - lengths] = True
        classes = compress(self.words, is_first.tolist())
        numbers = compress(self.words, (~is_first).tolist())
        return list(classes), list(numbers)

    def have_ids(self) -> bool:
        """Return whether the last word of all lines with two words behind the box is a whole number."""
        length = 1 + _NUM_BOX + 2
        if length not in self.lengths:
            return True
        ends = np.cumsum(self.lengths)[np.array(self.lengths) == length]
        return all(self.words[end - 1].isdecimal() for end in ends.tolist())


def read_shapes(paths: Sequence[Path], *, is_result: bool) -> ShapeTable | None:
    """Return the shapes in files; None if some line is not a class, a box or polygon, and for detections a score.

    Args:
        paths: The files, one for each image.
        is_result: Whether a confidence follows each shape, and perhaps a tracking id.
    """
    files: dict[str, slice] = {}
    labels = [np.empty(0, np.int64)]
    lengths = [np.empty(0, np.int64)]
    numbers = [np.empty(0, np.float64)]
    for words in _words_of_files(paths, files):
        if words is None or (is_result and not words.have_ids()):
            return None
        class_words, number_words = words.split()
        classes = _parse_classes(class_words)
        shares = parse_floats(number_words)
        if classes is None or shares is None:
            return None
        labels.append(classes)
        lengths.append(np.array(words.lengths, np.int64) - 1)
        numbers.append(np.array(shares, np.float64))
    return _table(np.concatenate(labels), np.concatenate(lengths), np.concatenate(numbers), files, is_result=is_result)


def leave_image(boxes: Float[NDArray[np.float64], "boxes 4"]) -> Bool[NDArray[np.bool_], " boxes"]:
    """Return whether boxes leave the image, up to rounding."""
    edges = _edges_of_boxes(boxes)
    is_outside = (edges < LEAST_SHARE) | (edges > MOST_SHARE)
    return np.asarray(is_outside.any(axis=1))


def _edges_of_boxes(boxes: Float[NDArray[np.float64], "boxes 4"]) -> Float[NDArray[np.float64], "boxes 4"]:
    centers = boxes[:, :2]
    halves = boxes[:, 2:] / 2
    return np.concatenate([centers - halves, centers + halves], axis=1)


def _words_of_files(paths: Sequence[Path], files: dict[str, slice]) -> Iterator[_Words | None]:
    """Yield the words of some thousands of lines at a time; None if a file cannot be read.

    Args:
        paths: The files.
        files: Collects the rows of each file.
    """
    words: list[str] = []
    lengths: list[int] = []
    num_rows = 0
    for path in paths:
        lines = _read_lines(path)
        if lines is None:
            yield None
            return
        start = num_rows + len(lengths)
        for line in lines:
            words_of_line = line.split()
            if words_of_line:
                words += words_of_line
                lengths.append(len(words_of_line))
        files[path.stem] = slice(start, num_rows + len(lengths))
        if len(words) >= _NUM_WORDS:
            yield _Words(words, lengths)
            num_rows += len(lengths)
            words, lengths = [], []
    if words:
        yield _Words(words, lengths)


def _read_lines(path: Path) -> list[str] | None:
    """Return the lines of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read().decode(_ENCODING)
    except (OSError, UnicodeDecodeError):
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _parse_classes(words: Sequence[str]) -> NDArray[np.int64] | None:
    """Return whole numbers, also as floats such as 2.0; None if some word is another one."""
    try:
        labels = np.array(list(map(int, words)), np.int64)
    except (ValueError, OverflowError):
        numbers = np.array(parse_floats(words) or [np.nan], np.float64)
        is_whole = (numbers == np.floor(numbers)) & (numbers <= _MAX_CLASS)  # NaN is none
        if not is_whole.all():
            return None
        labels = numbers.astype(np.int64)
    return labels if (labels >= 0).all() else None


def _table(
    labels: NDArray[np.int64],
    lengths: NDArray[np.int64],
    numbers: NDArray[np.float64],
    files: dict[str, slice],
    *,
    is_result: bool,
) -> ShapeTable | None:
    """Return the table of rows; None if some row is no box or polygon in the image.

    Args:
        labels: Classes.
        lengths: Number of values behind each class.
        numbers: These values of all rows, end to end.
        files: Rows of each file.
        is_result: Whether a confidence follows each shape, and perhaps a tracking id.
    """
    sizes = lengths - is_result
    if is_result:
        sizes = np.where(lengths == _NUM_BOX + 2, _NUM_BOX, sizes)  # with a tracking id
    is_shape = (sizes == _NUM_BOX) | ((sizes >= _MIN_POLYGON) & (sizes % 2 == 0))
    # Keypoints and four corners have as many numbers in all lines that are no boxes.
    may_be_other_shapes = len(set(sizes.tolist()) - {_NUM_BOX}) == 1
    if may_be_other_shapes or not is_shape.all():
        return None
    starts = np.cumsum(lengths) - lengths
    column = np.arange(len(numbers)) - np.repeat(starts, lengths)
    size_of_row = np.repeat(sizes, lengths)
    is_checked = column < size_of_row + is_result
    is_share = (numbers >= LEAST_SHARE) & (numbers <= MOST_SHARE)  # NaN is none
    if not (is_share | ~is_checked).all():
        return None
    scores = numbers[starts + sizes] if is_result else np.ones(len(sizes))
    shapes = numbers[column < size_of_row]
    return ShapeTable(labels, sizes, shapes, scores, files)
