"""Lines of text files, a word and the numbers behind it, as arrays that cover all files of a folder.

    labels/1.txt   0 .5 .5 .2 .2          words    0 3 0
                   3 .1 .1 .1 .2 .2 .1    lengths  4 6 4
    labels/2.txt   0 .4 .4 .1 .1          numbers  .5 .5 .2 .2 .1 .1 .1 .2 ...

A line is read again only to name it in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from .text_files import are_decimal, file_text, read_text_lines

_NUM_WORDS = 1 << 12  # words that are parsed together

Files = Mapping[str, slice]
"""lines of each image, by its name, in the order of the table"""


class Line(NamedTuple):
    """A line, as it is shown in messages."""

    words: Sequence[str]
    text: str
    where: str

    def fault(self, argument: str, rule: str, got: str = "") -> ValueError:
        """Return the error for a line that breaks a rule."""
        return ValueError(f"`{argument}` must have {rule}; got {got}{self.text!r}, {self.where}.")


@dataclass(frozen=True)
class LineTable:
    """The lines of all files of a folder."""

    argument: str
    """name of the argument, for messages"""
    files: dict[str, slice]
    """lines of each file, by its name without suffix"""
    vocabulary: list[str]
    """the distinct first words of lines"""
    words: Int[NDArray[np.int64], " lines"]
    """place of the first word of each line in the vocabulary"""
    last_words: list[str]
    lengths: Int[NDArray[np.int64], " lines"]
    """number of words behind the first one of each line"""
    numbers: Float[NDArray[np.float64], " numbers"]
    """these words as numbers, end to end; NaN for a word that is no number"""
    find_line: Callable[[int], Line]
    """reads a line again"""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def are_results(self) -> bool:
        """Whether the lines are detections."""
        return self.argument == "results"

    @cached_property
    def starts(self) -> Int[NDArray[np.int64], " lines"]:
        """Place of the first number of each line."""
        starts: NDArray[np.int64] = np.cumsum(self.lengths) - self.lengths
        return starts

    @cached_property
    def places(self) -> Int[NDArray[np.int64], " numbers"]:
        """Place of each number in its line."""
        places: NDArray[np.int64] = np.arange(len(self.numbers)) - np.repeat(self.starts, self.lengths)
        return places

    @cached_property
    def distinct_lengths(self) -> set[int]:
        """Return the lengths that lines have."""
        return set(np.unique(self.lengths).tolist())

    def columns(
        self, start: int, count: int, is_selected: Bool[NDArray[np.bool_], " lines"] | slice = slice(None)
    ) -> Float[NDArray[np.float64], "lines count"]:
        """Return adjacent numbers of some lines, which must have as many, from the one at `start` on."""
        columns: NDArray[np.float64] = self.numbers[self.starts[is_selected][:, None] + np.arange(start, start + count)]
        return columns

    def fault(self, position: int, rule: str, column: int | None = None, hint: str = "") -> ValueError:
        """Return the error for a line that breaks a rule; with a column, the message shows its word and a hint."""
        line = self.find_line(position)
        word = "" if column is None else f"{line.words[column]!r}{hint} in "
        return line.fault(self.argument, rule, word)


def exchange(ground_truths: LineTable, detections: LineTable) -> tuple[LineTable, LineTable]:
    """Return the lines of exchanged folders in the right order, ground truths first."""
    return replace(detections, argument=ground_truths.argument), replace(ground_truths, argument=detections.argument)


def read_lines(argument: str, paths: Sequence[Path]) -> LineTable:
    """Read the lines of text files.

    Raises:
        OSError: A file may not be read.
        ValueError: A file is no text in UTF-8.
    """
    files: dict[str, slice] = {}
    vocabulary: dict[str, int] = {}
    words: list[str] = []
    num_words: list[int] = []
    num_parsed = 0
    last_words: list[str] = []
    parts = [(np.empty(0, np.int64), np.empty(0, np.float64))]
    for path in paths:
        start = len(num_words)
        for line in _split_text(path):
            words_of_line = line.split()
            if words_of_line:
                words += words_of_line
                num_words.append(len(words_of_line))
                last_words.append(words_of_line[-1])
        files[path.stem] = slice(start, len(num_words))
        if len(words) >= _NUM_WORDS or path is paths[-1]:
            parts.append(_parse(words, num_words[num_parsed:], vocabulary))
            num_parsed = len(num_words)
            words = []
    places, numbers = map(np.concatenate, zip(*parts, strict=True))
    find_line = partial(_find_line, paths, files)
    lengths = np.array(num_words, np.int64) - 1
    return LineTable(argument, files, list(vocabulary), places, last_words, lengths, numbers, find_line)


def table_of_lines(argument: str, lines_by_image: Mapping[str, Sequence[Line]]) -> LineTable:
    """Return the table of the lines of each image: a class, then numbers."""
    lines = list(chain.from_iterable(lines_by_image.values()))
    ends = list(accumulate(map(len, lines_by_image.values())))
    num_words = [len(line.words) for line in lines]
    vocabulary: dict[str, int] = {}
    places, numbers = _parse(list(chain.from_iterable(line.words for line in lines)), num_words, vocabulary)
    return LineTable(
        argument,
        files=dict(zip(lines_by_image, map(slice, [0, *ends], ends), strict=True)),
        vocabulary=list(vocabulary),
        words=places,
        last_words=[line.words[-1] for line in lines],
        lengths=np.array(num_words, np.int64) - 1,
        numbers=numbers,
        find_line=lines.__getitem__,
    )


def parse_numbers(words: Collection[str]) -> list[float]:
    """Return words as numbers; NaN for a word that is none."""
    if are_decimal("".join(words)):
        with suppress(ValueError):
            return list(map(float, words))
    return [float(word) if is_number(word) else np.nan for word in words]


def is_number(word: str) -> bool:
    """Return whether a word is a number, NaN and infinity included."""
    try:
        float(word)
    except ValueError:
        return False
    return are_decimal(word)


def split_images(
    columns: Mapping[str, NDArray[Any]], files: Files, names: Collection[str], *, has_ids: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of each image as tensors, none without a file; with `has_ids` also its name as `image_id`."""
    images = []
    for name in names:
        rows = files.get(name, slice(0, 0))
        # A view would keep the objects of all images.
        image: dict[str, Any] = {key: torch.from_numpy(values[rows].copy()) for key, values in columns.items()}
        images.append(image | {"image_id": name} if has_ids else image)
    return images


def _split_text(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = file_text(path)  # of UTF-16, or raises an error that names the file
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _parse(
    words: Sequence[str], num_words: Sequence[int], vocabulary: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the places of the first words of lines in the vocabulary, which grows, and the numbers behind them."""
    counts = np.array(num_words, np.int64)
    is_first = np.zeros(len(words), np.bool_)
    is_first[np.cumsum(counts) - counts] = True
    places = [vocabulary.setdefault(word, len(vocabulary)) for word in compress(words, is_first.tolist())]
    numbers = parse_numbers(list(compress(words, (~is_first).tolist())))
    return np.array(places, np.int64), np.array(numbers, np.float64)


def _find_line(paths: Sequence[Path], files: Files, position: int) -> Line:
    """Read a line again."""
    for path, lines in zip(paths, files.values(), strict=True):
        if position < lines.stop:
            where, text = list(read_text_lines(path))[position - lines.start]
            return Line(text.split(), text, where)
    raise IndexError(position)
