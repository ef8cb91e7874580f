"""Lines of YOLO's text files, a class and the numbers behind it, as arrays that cover all files of a folder.

    labels/1.txt   0 .5 .5 .2 .2          labels   0 3 0
                   3 .1 .1 .1 .2 .2 .1    lengths  4 6 4
    labels/2.txt   0 .4 .4 .1 .1          numbers  .5 .5 .2 .2 .1 .1 .1 .2 ...

A line is read again only to name it in an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from .array_files import read_text_lines, read_utf_8
from .folders import Folder, list_files

_MAX_CLASS = 2**63 - 1
_CLASS_RULE = f"a class from 0 to {_MAX_CLASS}"
_MIN_WORDS = 5  # of a line: a class and a box
_NOTE_NAMES = ("classes", "predefined_classes")  # lists of classes by LabelImg
_NOTE_PREFIX = "readme"  # in exports of Roboflow
_NUM_WORDS = 1 << 12  # words that are parsed together


@dataclass(frozen=True)
class LineTable:
    """The lines of all files of a folder."""

    argument: str
    """name of the argument, for messages"""
    paths: Sequence[Path]
    files: dict[str, slice]
    """lines of each file, by the name of its image"""
    labels: Int[NDArray[np.int64], " lines"]
    lengths: Int[NDArray[np.int64], " lines"]
    """numbers behind the class of each line: the shape, in results the confidence and perhaps an id"""
    numbers: Float[NDArray[np.float64], " numbers"]
    """numbers of all lines, end to end"""
    ends_whole: Bool[NDArray[np.bool_], " lines"]
    """whether the last word of a line has only digits, as that of a tracking id: 7, but not 7.0"""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Int[NDArray[np.int64], " lines"]:
        """Place of the first number of each line."""
        starts: NDArray[np.int64] = np.cumsum(self.lengths) - self.lengths
        return starts

    @cached_property
    def distinct_lengths(self) -> set[int]:
        """Return the lengths that lines have."""
        return set(np.unique(self.lengths).tolist())

    def first(
        self, count: int, is_selected: Bool[NDArray[np.bool_], " lines"] | slice = slice(None)
    ) -> Float[NDArray[np.float64], "lines count"]:
        """Return the first numbers of some lines, which must have as many."""
        first: NDArray[np.float64] = self.numbers[self.starts[is_selected][:, None] + np.arange(count)]
        return first

    def with_length(self, length: int) -> LineTable:
        """Return the lines with a length, which cannot be named in errors."""
        is_selected = self.lengths == length
        return LineTable(
            argument=self.argument,
            paths=(),
            files={},
            labels=self.labels[is_selected],
            lengths=self.lengths[is_selected],
            numbers=self.numbers[np.repeat(is_selected, self.lengths)],
            ends_whole=self.ends_whole[is_selected],
        )

    def line(self, position: int) -> str:
        """Return the text of a line and its place, for a message."""
        text, where = self._find_line(position)
        return f"{text!r}, {where}"

    def word_error(self, position: int, column: int, rule: str, fault: str) -> ValueError:
        """Return the error for a number of a line, counted from the class on."""
        return _word_error(self.argument, *self._find_line(position), column, rule, fault)

    def _find_line(self, position: int) -> tuple[str, str]:
        for path, lines in zip(self.paths, self.files.values(), strict=True):
            if position < lines.stop:
                where, text = list(read_text_lines(path))[position - lines.start]
                return text, where
        raise IndexError(position)


def list_images(argument: str, folder: Folder) -> list[Path]:
    """Return the file of each image; a list of classes and a README are no images.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A folder without a single file.
    """
    return list_files(argument, folder, ".txt", is_skipped=is_note)


def read_lines(argument: str, paths: Sequence[Path]) -> LineTable:
    """Read the lines of a file for each image.

    Raises:
        OSError: A file may not be read.
        ValueError: A line without a class, or with a word that is no number.
    """
    files: dict[str, slice] = {}
    words: list[str] = []
    all_lengths: list[int] = []
    num_parsed = 0
    parts = [(np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.bool_))]
    try:
        for path in paths:
            start = len(all_lengths)
            for line in _split_lines(path):
                words_of_line = line.split()
                if words_of_line:
                    words += words_of_line
                    all_lengths.append(len(words_of_line))
            files[path.stem] = slice(start, len(all_lengths))
            if len(words) >= _NUM_WORDS or path is paths[-1]:
                parts.append(_parse(words, all_lengths[num_parsed:]))
                num_parsed = len(all_lengths)
                words = []
    except ValueError:
        _raise_for_word(argument, paths)
        raise
    labels, numbers, ends_whole = map(np.concatenate, zip(*parts, strict=True))
    lengths = np.array(all_lengths, np.int64) - 1
    return LineTable(argument, paths, files, labels, lengths, numbers, ends_whole)


def _split_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = read_utf_8(path)  # raises an error that names the file
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _parse(
    words: Sequence[str], lengths: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the classes of lines, the numbers behind them, and whether lines end with a whole number.

    Args:
        words: Words of the lines, end to end.
        lengths: Number of words of each line.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    is_class = np.zeros(len(words), np.bool_)
    is_class[ends - np.array(lengths, np.int64)] = True
    class_words = list(compress(words, is_class.tolist()))
    label_of_word = {word: _parse_class(word) for word in set(class_words)}
    labels = np.array([label_of_word[word] for word in class_words], np.int64)
    numbers = np.array(list(map(float, compress(words, (~is_class).tolist()))), np.float64)
    ends_whole = np.array([words[end - 1].isdecimal() for end in ends.tolist()], np.bool_)
    return labels, numbers, ends_whole


def _parse_class(word: str) -> int:
    """Return a class: a whole number, also as a float such as 2.0.

    Raises:
        ValueError: Another word, or a number beyond the range of int64; the message is what is wrong with the word.
    """
    try:
        label = int(word)
    except ValueError:
        if not is_number(word) or not float(word).is_integer():
            raise ValueError("has a comma" if "," in word else "is no whole number") from None
        label = int(float(word))
    if not 0 <= label <= _MAX_CLASS:
        raise ValueError("is outside of it")
    return label


def is_number(word: str) -> bool:
    """Return whether a word is a number, NaN and infinity included."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _raise_for_word(argument: str, paths: Sequence[Path]) -> None:
    """Raise for the first line with a word that cannot be read: a number behind the class, or else the class."""
    for path in paths:
        for where, text in read_text_lines(path):
            class_word, *numbers = text.split()
            for column, word in enumerate(numbers, start=1):
                if not is_number(word):
                    fault = "has a comma" if "," in word else "is no number"
                    raise _word_error(argument, text, where, column, "numbers behind the class", fault)
            with _naming_class(argument, text, where):
                _parse_class(class_word)


@contextmanager
def _naming_class(argument: str, text: str, where: str) -> Iterator[None]:
    """Name the line in an error about its class."""
    try:
        yield
    except ValueError as error:
        raise _word_error(argument, text, where, 0, _CLASS_RULE, str(error)) from None


def _word_error(argument: str, text: str, where: str, column: int, rule: str, fault: str) -> ValueError:
    """Return the error for the word at a position of a line."""
    word = f"word {column + 1}, {text.split()[column]!r}, {fault}"
    return ValueError(f"`{argument}` must have {rule} in a line; got {text!r}, {where}: {word}.")


def is_note(path: Path) -> bool:
    """Return whether a file is a list of classes or a README, by its name and its first line."""
    stem = path.stem.lower()
    if stem not in _NOTE_NAMES and not stem.startswith(_NOTE_PREFIX):
        return False
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    words = text.lstrip().partition("\n")[0].split()
    is_label = len(words) >= _MIN_WORDS and all(map(is_number, words))
    return bool(words) and not is_label
