"""Tables in text: .csv and .tsv below a row of names, and .txt with or without one.

VeRi        0001_c001_00016450_0.jpg                                names of files alone
MSMT17      0000/0000_000_01_0303morning_0015_0.jpg 0               no header
CUB         1 3                                                     no header; rows are counted
SOP         image_id class_id super_class_id path                   a header
In-shop     52712, below it image_name item_id evaluation_status    the number of rows, and a header
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics import _hints
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.files import Allowance

from .array_files import UNNAMED, count_bytes
from .array_names import FIELD_NAMES, FURTHER_NAMES
from .text_files import REMARK, find_delimiter, read_rows, table_text
from .word_columns import are_decimal

_MOST_CHARACTERS = 40  # of a text in a message
_IMAGE = re.compile(r".*\.(?:jpe?g|png|bmp|gif|tiff?|webp|ppm)", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan", re.IGNORECASE)
_WORDS = re.findall(r"\w\w+", " ".join([*FIELD_NAMES.values(), *FURTHER_NAMES.values()]))
"""words in the header of a text; a single letter may be a label"""


def read_csv(path: Path) -> dict[str, Array]:
    """Return the columns of a table by the names in its first row, or as "column 1" and so on without names.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    delimiter, numbered_rows = read_rows(path)
    names = [name.strip() for name in numbered_rows[0][1]] if numbered_rows else []
    if _are_values(names):
        return _parse_columns(path, [""] * len(names), numbered_rows, delimiter)
    return _parse_columns(path, names, numbered_rows[1:], delimiter)


def read_text(path: Path) -> dict[str, Array]:
    """Return the columns of a text by white space, tabs or another delimiter, as `read_csv` does.

    A single column without a name is an array without a name; a blank line between its values is a missing one.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    text = table_text(path).removeprefix(REMARK).rstrip()
    all_lines = list(enumerate(map(str.strip, text.split("\n")), start=1))
    lines = [(number, line) for number, line in all_lines if line]
    # In-shop's lists begin with the number of their rows.
    if len(lines) > 2 and lines[0][1].isdecimal() and len(lines[1][1].split()) > 1:
        lines = lines[1:]
    if not lines:
        raise ValueError("0 rows of nothing")

    delimiter = _find_text_delimiter(lines[0][1])
    numbered_rows = [(number, list(map(str.strip, line.split(delimiter)))) for number, line in lines]
    rows = [row for _, row in numbered_rows]
    if _has_header(rows):
        return _parse_columns(path, rows[0], numbered_rows[1:], delimiter)
    if len(rows[0]) > 1:
        return _parse_columns(path, [""] * len(rows[0]), numbered_rows, delimiter)
    if len(lines) < len(all_lines) and all(len(row) == 1 for row in rows):
        numbered_rows = [(number, [line]) for number, line in all_lines]
    columns = _parse_columns(path, [""], numbered_rows, delimiter)
    return {UNNAMED: columns["column 1"]}


def parse_vectors(name: str, texts: Sequence[str]) -> Array:
    """Return vectors that were written as text, "[0.1, 0.2]" by JSON or "[0.1 0.2]" by NumPy, as float64 [N, D].

    Raises:
        ValueError: A text is no vector, lacks numbers that NumPy left out, or has another length than the first.
    """
    vectors: list[list[float]] = []
    for row, text in enumerate(texts):
        words = text.strip("[]() \n").replace(",", " ").split()
        start = text[:_MOST_CHARACTERS]
        if "..." in words:
            raise ValueError(
                f"`{name}` must hold whole vectors; got {start!r} in row {row}, whose middle NumPy left out: write"
                " `vector.tolist()` into the table."
            )
        try:
            vector = [float(word) if are_decimal(word) else float("") for word in words]
        except ValueError:
            raise ValueError(f"`{name}` must hold vectors, such as '[0.1, 0.2]'; got {start!r} in row {row}.") from None
        if vectors and len(vector) != len(vectors[0]):
            rule = f"hold vectors of one length, {len(vectors[0])} as in row 0"
            raise ValueError(f"`{name}` must {rule}; got {len(vector)} in row {row}.")
        vectors.append(vector)
    return np.array(vectors)


def names_by_place(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of file names and of identities in a text without a header, as `names` of the readers.

    Empty if more than one column may be either, or if columns have names.
    """
    column_names = [name for name in columns if re.fullmatch(r"column \d+", name)]
    if not column_names or len(column_names) < len(columns):
        return {}
    if len(column_names) > 1:
        # CUB counts its rows in the first column.
        first = columns[column_names[0]]
        from_zero = np.arange(len(first))
        if np.array_equal(first, from_zero) or np.array_equal(first, from_zero + 1):
            column_names = column_names[1:]
    names = {}
    for name in column_names:
        key = "names" if are_images(columns[name]) else "identities"
        names[key] = name
    return names if len(names) == len(column_names) else {}


def join_positions(columns: Mapping[str, Any], user_names: Mapping[str, str]) -> dict[str, Any]:
    """Join two columns of coordinates, such as easting and northing, as positions.

    Args:
        columns: Columns of a table by name.
        user_names: Names of columns from the user, for other meanings; they are not joined.
    """
    joined = dict(columns)
    spellings = {}
    for name, values in columns.items():
        if name not in user_names.values() and np.ndim(values) == 1:
            spellings[name.lower()] = name
    for joined_name in FIELD_NAMES["positions"].split():
        pair = [spellings[word] for word in joined_name.split("/") if word in spellings]
        if "/" in joined_name and len(pair) == 2:
            joined[joined_name] = np.stack([joined.pop(name) for name in pair], axis=1)
    return joined


def are_images(values: Any) -> bool:
    """Return whether all values of an array are names of image files."""
    is_text = isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim == 1
    return is_text and all(_IMAGE.fullmatch(name) for name in values.tolist())


def is_header_missing(names: Sequence[str]) -> bool:
    """Return whether some column has a place or a value as its name, so that the first row is no header."""
    return any(_NUMBER.fullmatch(name) or _IMAGE.fullmatch(name) or name.startswith("column ") for name in names)


def parse_cells(texts: Sequence[str], allowance: Allowance | None = None) -> Array:
    """Convert texts to integers or floats if all are numbers, with NaN for empty ones; else return strings.

    Raises:
        ValueError: The strings take more bytes than `allowance` allows.
    """
    if all(are_decimal(text.strip()) for text in texts):
        for dtype in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                return np.array(texts, dtype=dtype)
        num_empty = sum(not text for text in texts)
        if 0 < num_empty < len(texts):
            with suppress(ValueError, OverflowError):
                return np.array([text or "nan" for text in texts], dtype=np.float64)
    if allowance is not None:
        allowance.spend("texts", count_bytes(texts))
    return np.array(texts, dtype=str)


def _find_text_delimiter(line: str) -> str | None:
    """Return a tab, white space (None), or another delimiter: the first one that a line has, in this order."""
    if "\t" in line:
        return "\t"
    if len(line.split()) > 1:
        return None
    delimiter = find_delimiter(line)
    return delimiter if delimiter in line else None


def _are_values(names: Sequence[str]) -> bool:
    """Return whether a first row is one of numbers; columns may be called by their places, from 0 or 1 on."""
    from_zero = [str(place) for place in range(len(names))]
    one_based = [str(place + 1) for place in range(len(names))]
    if len(names) > 1 and list(names) in (from_zero, one_based):
        return False
    return bool(names) and all(_NUMBER.fullmatch(name) for name in names)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has a word of the field, or words above columns of numbers."""
    header, *values = rows
    if not values or any(_NUMBER.fullmatch(name) for name in header):
        return False
    columns = list(zip(*values, strict=False))  # as many as all rows have
    if any(name in column for name, column in zip(header, columns, strict=False)):
        return False
    if any(name.lower().replace("-", "_") in _WORDS for name in header):
        return True
    return len(columns) > 1 and any(parse_cells(column).dtype.kind != "U" for column in columns)


def _with_decimal_points(cells: Sequence[str]) -> Sequence[str]:
    """Return numbers with points in the place of decimal commas, as Excel and R write them; other cells as they are."""
    changed = [cell.replace(",", ".") for cell in cells]
    are_numbers = all(_NUMBER.fullmatch(cell.strip()) or not cell for cell in changed)
    return changed if are_numbers else cells


def _parse_columns(
    path: Path, names: Sequence[str], numbered_rows: Sequence[tuple[int, Sequence[str]]], delimiter: str | None
) -> dict[str, Array]:
    """Return the columns of a table by name.

    Args:
        path: The file, for the number of bytes that it may take.
        names: Names of the columns; "" for a column without a name.
        numbered_rows: The number of each line, and its cells.
        delimiter: The delimiter of the cells; commas in numbers are decimal ones beside another one.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    # A blank cell is what pandas and R write above the numbers of rows, and Excel behind the last column.
    header = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    for line_number, row in numbered_rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} names in line {line_number}")
    if not numbered_rows or len(set(header)) < len(header):
        raise ValueError(f"{len(numbered_rows)} rows of {_hints.listed(header, str) or 'nothing'}")
    columns: Iterable[Sequence[str]] = zip(*(row for _, row in numbered_rows), strict=True)
    if delimiter != ",":
        columns = map(_with_decimal_points, columns)
    allowance = Allowance(path.stat().st_size)
    return {name: parse_cells(column, allowance) for name, column in zip(header, columns, strict=True)}
