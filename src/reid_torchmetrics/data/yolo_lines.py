"""Lines of YOLO's text files: a class, a whole number, and the numbers behind it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from .folders import Folder, list_files
from .line_tables import LineTable, is_number, parse_numbers, read_lines
from .text_files import open_text

_MAX_CLASS = 2**63 - 1
_CLASS_RULE = f"a class from 0 to {_MAX_CLASS}"
_MIN_WORDS = 5  # of a line: a class and a box
_NOTE_NAMES = ("classes", "predefined_classes", "labels")  # lists of classes, as by LabelImg
_NOTE_PREFIX = "readme"  # in exports of Roboflow


def read_yolo_lines(argument: str, folder: Folder) -> LineTable:
    """Read the lines of a folder with a file for each image; a list of classes and a README are no images.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A folder without a single file, or a line without a class, or with a word that is no number.
    """
    lines = read_lines(argument, list_files(argument, folder, ".txt", is_skipped=is_note))
    is_faulty = np.isin(lines.words, [place for place, word in enumerate(lines.vocabulary) if _find_fault(word)])
    line_of_number = np.repeat(np.arange(len(lines)), lines.lengths)
    is_faulty[line_of_number[np.isnan(lines.numbers)]] = True
    if is_faulty.any():
        raise _fault_of_words(lines, int(is_faulty.argmax()))
    return lines


def find_classes(lines: LineTable) -> Int[NDArray[np.int64], " lines"]:
    """Return the class of each line."""
    return np.array([_parse_class(word) for word in lines.vocabulary], np.int64)[lines.words]


def word_error(lines: LineTable, position: int, column: int, rule: str, fault: str) -> ValueError:
    """Return the error for the word in a column of a line."""
    words, text, where = lines.find_line(position)
    word = f"word {column + 1}, {words[column]!r}, {fault}"
    return ValueError(f"`{lines.argument}` must have {rule} in a line; got {text!r}, {where}: {word}.")


def _fault_of_words(lines: LineTable, position: int) -> ValueError:
    """Return the error for a word that cannot be read: a number behind the class, or else the class."""
    class_word, *words = lines.find_line(position).words
    for column, number in enumerate(parse_numbers(words), start=1):
        if math.isnan(number):
            fault = "has a comma" if "," in words[column - 1] else "is no number"
            return word_error(lines, position, column, "numbers behind the class", fault)
    return word_error(lines, position, 0, _CLASS_RULE, _find_fault(class_word))


def _find_fault(word: str) -> str:
    """Return what is wrong with the word of a class; "" for one that can be read."""
    try:
        label = _parse_class(word)
    except (ValueError, OverflowError):
        return "has a comma" if "," in word else "is no whole number"
    return "" if 0 <= label <= _MAX_CLASS else "is outside of it"


def _parse_class(word: str) -> int:
    """Return a class: a whole number, also as a float such as 2.0.

    Raises:
        ValueError: Another word.
        OverflowError: Infinity.
    """
    if not is_number(word) or not float(word).is_integer():
        raise ValueError(word)
    try:
        return int(word)
    except ValueError:
        return int(float(word))


def is_note(path: Path) -> bool:
    """Return whether a file is a list of classes or a README, by its name and its first line."""
    stem = path.stem.lower()
    if stem not in _NOTE_NAMES and not stem.startswith(_NOTE_PREFIX):
        return False
    with open_text(path, errors="replace") as file:
        text = file.read()
    words = text.lstrip().partition("\n")[0].split()
    is_label = len(words) >= _MIN_WORDS and all(map(is_number, words))
    return bool(words) and not is_label
