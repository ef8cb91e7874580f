"""Tables in text: .csv and .tsv below a row of names, and .txt with or without one.

VeRi        0001_c001_00016450_0.jpg                                names of files alone
MSMT17      0000/0000_000_01_0303morning_0015_0.jpg 0               no header
CUB         1 3                                                     no header; rows are counted
SOP         image_id class_id super_class_id path                   a header
In-shop     52712, below it image_name item_id evaluation_status    the number of rows, and a header
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance

from .array_files import UNNAMED, num_bytes_of
from .array_names import FIELD_NAMES, FURTHER_NAMES

_DELIMITERS = ",;\t"
_IMAGE = re.compile(r".*\.(?:jpe?g|png|bmp|gif|tiff?|webp|ppm)", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan", re.IGNORECASE)
_WORDS = re.findall(r"\w\w+", " ".join([*FIELD_NAMES.values(), *FURTHER_NAMES.values()]))
"""words that a header of text has; a single letter may be a label"""


def read_csv(path: Path) -> dict[str, Array]:
    """Return the columns of a table by the names in its first row; without names they are "column 1" and so on.

    Raises:
        ValueError: rows of unequal length, no rows, or a name that stands twice.
    """
    text = _text_of(path)
    delimiter = _delimiter(text.partition("\n")[0])
    rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    cells = [(rows.line_num, row) for row in rows if row]  # a blank line is none
    names = [name.strip() for name in cells[0][1]] if cells else []
    if _are_values(names):
        return _columns(path, [""] * len(names), cells)
    return _columns(path, names, cells[1:])


def read_text(path: Path) -> dict[str, Array]:
    """Return the columns of a text by white space, tabs or another delimiter, as `read_csv` does.

    A single column without a name is an array without a name; a blank line between its values is a missing one.

    Raises:
        ValueError: rows of unequal length, no rows, or a name that stands twice.
    """
    all_lines = [(place, line.strip()) for place, line in enumerate(_text_of(path).rstrip().split("\n"), start=1)]
    lines = [(place, line) for place, line in all_lines if line]
    # In-shop's lists begin with the number of their rows.
    if len(lines) > 2 and lines[0][1].isdecimal() and len(lines[1][1].split()) > 1:
        lines = lines[1:]
    delimiter = _delimiter_of_text(lines[0][1]) if lines else None
    cells = [(place, [cell.strip() for cell in line.split(delimiter)]) for place, line in lines]
    rows = [row for _, row in cells]
    if _has_header(rows):
        return _columns(path, rows[0], cells[1:])
    if rows and len(rows[0]) > 1:
        return _columns(path, [""] * len(rows[0]), cells)
    if rows and len(lines) < len(all_lines) and all(len(row) == 1 for row in rows):
        cells = [(place, [line]) for place, line in all_lines]
    columns = _columns(path, [""] if rows else [], cells)
    return {UNNAMED: columns["column 1"]}


def names_by_place(columns: Mapping[str, Any]) -> dict[str, str]:
    """Tell names of files and identities apart in the columns of a text without a header, as `names` of the readers.

    Empty where more than one column may be either, or where columns have names.
    """
    places = [name for name in columns if re.fullmatch(r"column \d+", name)]
    if not places or len(places) < len(columns):
        return {}
    # CUB counts its rows in the first column.
    counted, first = np.arange(len(columns[places[0]])), columns[places[0]]
    if len(places) > 1 and any(np.array_equal(first, counted + start) for start in (0, 1)):
        places = places[1:]
    fields = {name: "names" if are_images(columns[name]) else "identities" for name in places}
    names = {field: name for name, field in fields.items()}
    return names if len(names) == len(fields) else {}


def are_images(values: Any) -> bool:
    """Return whether all values of an array are names of image files."""
    is_text = isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim == 1
    return is_text and all(_IMAGE.fullmatch(name) for name in values.tolist())


def is_header_missing(names: Sequence[str]) -> bool:
    """Return whether the names of columns are places or values, so that the first row does not name the columns."""
    return any(_NUMBER.fullmatch(name) or _IMAGE.fullmatch(name) or name.startswith("column ") for name in names)


def parsed(texts: Sequence[str], allowance: Allowance | None = None) -> Array:
    """Integers or floats if all texts are, NaN for an empty one, else strings, of at most some bytes."""
    is_name = any("_" in text for text in texts)  # Python reads 1_2 as 12
    for dtype in () if is_name else (np.int64, np.float64):
        with suppress(ValueError, OverflowError):
            return np.array(texts, dtype=dtype)
    is_empty = np.array([not text for text in texts])
    if not is_name and is_empty.any() and not is_empty.all():
        with suppress(ValueError, OverflowError):
            return np.array([text or "nan" for text in texts], dtype=np.float64)
    if allowance is not None:
        allowance.spend("texts", num_bytes_of(texts))
    return np.array(texts, dtype=str)


def _text_of(path: Path) -> str:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return file.read()


def _delimiter(header: str) -> str:
    """Return the delimiter that makes most names of a header, and a comma where none makes two."""
    num_names = {delimiter: len(next(csv.reader([header], delimiter=delimiter), [])) for delimiter in _DELIMITERS}
    return max(num_names, key=lambda delimiter: num_names[delimiter])


def _delimiter_of_text(line: str) -> str | None:
    """Return a tab, white space (None), or another delimiter, whichever a line has first in this order."""
    if "\t" in line:
        return "\t"
    return _delimiter(line) if len(line.split()) == 1 and _delimiter(line) in line else None


def _are_values(names: Sequence[str]) -> bool:
    """Return whether a first row is one of numbers; columns may be called by their places, from 0 or 1 on."""
    counted = [[str(place + start) for place in range(len(names))] for start in (0, 1)]
    is_counted = len(names) > 1 and list(names) in counted
    return bool(names) and all(_NUMBER.fullmatch(name) for name in names) and not is_counted


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has a word of the field, or words above columns of numbers."""
    if len(rows) < 2 or any(_NUMBER.fullmatch(name) for name in rows[0]):
        return False
    columns = list(zip(*rows[1:], strict=False))  # as many as all rows have
    is_repeated = any(name in column for name, column in zip(rows[0], columns, strict=False))
    has_word = any(name.lower().replace("-", "_") in _WORDS for name in rows[0])
    has_numbers = any(parsed(column).dtype.kind != "U" for column in columns)
    return not is_repeated and (has_word or (has_numbers and len(columns) > 1))


def _columns(path: Path, names: Sequence[str], cells: Sequence[tuple[int, Sequence[str]]]) -> dict[str, Array]:
    """Return the columns of rows that are numbered by their lines."""
    # A blank cell is what pandas and R write above the numbers of rows, and Excel behind the last column.
    header = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    for line, row in cells:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} names in line {line}")
    if not cells or len(set(header)) < len(header):
        raise ValueError(f"{len(cells)} rows of {', '.join(header) or 'nothing'}")
    columns = zip(*(row for _, row in cells), strict=True)
    allowance = Allowance(path.stat().st_size)
    return {name: parsed(column, allowance) for name, column in zip(header, columns, strict=True)}
