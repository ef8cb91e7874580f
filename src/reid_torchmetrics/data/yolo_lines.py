"""Lines of YOLO's text files: a class, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .array_files import read_text_lines
from .folders import Folder, list_files
from .image_sizes import are_shares, are_within

_MAX_CLASS = 2**63 - 1
_CLASS_RULE = f"a class from 0 to {_MAX_CLASS}"
_MAX_VISIBILITY = 2
_MIN_WORDS = 5  # of a line: a class and a box
_NOTE_NAMES = ("classes", "predefined_classes")  # lists of classes by LabelImg
_NOTE_PREFIX = "readme"  # in exports of Roboflow


class Line(NamedTuple):
    """A line of a file."""

    label: int
    numbers: list[float]
    """numbers behind the class: the shape, and in results the confidence and perhaps a tracking id"""
    text: str
    where: str

    @property
    def last_word(self) -> str:
        """Text of the last number as it is written: 7 or 7.0."""
        return self.text.rsplit(maxsplit=1)[-1]

    def __str__(self) -> str:
        return f"{self.text!r}, {self.where}"


def list_images(argument: str, folder: Folder) -> list[Path]:
    """Return the file of each image; a list of classes and a README are no images.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A folder without a single file.
    """
    return list_files(argument, folder, ".txt", is_skipped=_is_note)


def read_lines(argument: str, paths: Sequence[Path]) -> dict[str, list[Line]]:
    """Read the lines of each image, by its name.

    Raises:
        OSError: A file may not be read.
        ValueError: A line without a class, or with a word that is no number.
    """
    lines = {}
    for path in paths:
        lines[path.stem] = [_parse_line(argument, text, where) for where, text in read_text_lines(path)]
    return lines


def check_shares(argument: str, line: Line, size: int, free: range = range(0)) -> None:
    """Raise unless numbers of a line are shares of the image, from 0 to 1.

    Args:
        argument: The name of the argument, for messages.
        line: The line.
        size: Number of values that are checked.
        free: Positions of visibilities, 0, 1 or 2, or of the confidences of keypoints.

    Raises:
        ValueError: The message names the word.
    """
    shares = line.numbers[:size]
    free_slice = slice(free.start, free.stop, free.step)
    visibilities = shares[free_slice]
    del shares[free_slice]
    if are_shares(shares) and are_within(visibilities, 0, _MAX_VISIBILITY):
        return
    for position, number in enumerate(line.numbers[:size]):
        is_allowed = 0 <= number <= _MAX_VISIBILITY if position in free else are_shares([number])
        if not is_allowed:
            raise _word_error(argument, "numbers from 0 to 1", line.text, line.where, position + 1, "is none")


def _is_note(path: Path) -> bool:
    """Return whether a file is a list of classes or a README, by its name and its first line."""
    stem = path.stem.lower()
    if stem not in _NOTE_NAMES and not stem.startswith(_NOTE_PREFIX):
        return False
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    words = text.lstrip().partition("\n")[0].split()
    is_label = len(words) >= _MIN_WORDS and all(_parse_number(word) is not None for word in words)
    return bool(words) and not is_label


def _parse_line(argument: str, text: str, where: str) -> Line:
    words = text.split()
    try:
        numbers = list(map(float, words[1:]))
    except ValueError:
        are_numbers = [_parse_number(word) is not None for word in words]
        position = are_numbers.index(False, 1)
        fault = "has a comma" if "," in words[position] else "is no number"
        raise _word_error(argument, "numbers behind the class", text, where, position, fault) from None
    return Line(_parse_class(argument, words[0], text, where), numbers, text, where)


def _parse_class(argument: str, word: str, text: str, where: str) -> int:
    """Return a class: a whole number, also as a float such as 2.0.

    Raises:
        ValueError: Another word, or a number beyond the range of int64.
    """
    try:
        label = int(word)
    except ValueError:
        number = _parse_number(word)
        if number is None or not number.is_integer():
            fault = "has a comma" if "," in word else "is no whole number"
            raise _word_error(argument, _CLASS_RULE, text, where, 0, fault) from None
        label = int(number)
    if not 0 <= label <= _MAX_CLASS:
        raise _word_error(argument, _CLASS_RULE, text, where, 0, "is outside of it")
    return label


def _parse_number(word: str) -> float | None:
    """Return a word as a number; None if it is none."""
    try:
        return float(word)
    except ValueError:
        return None


def _word_error(argument: str, rule: str, text: str, where: str, position: int, fault: str) -> ValueError:
    """Return the error for the word at a position of a line."""
    word = f"word {position + 1}, {text.split()[position]!r}, {fault}"
    return ValueError(f"`{argument}` must have {rule} in a line; got {text!r}, {where}: {word}.")
