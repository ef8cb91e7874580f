"""Text files: UTF-8, or UTF-16 with a mark of the byte order, by lines or as rows of a table in CSV."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .array_files import reading

_MARKS_OF_UTF_16 = (BOM_UTF16_LE, BOM_UTF16_BE)
_DELIMITERS = ",;\t|"
REMARK = "# "
"""the mark that `numpy.savetxt` writes before the names of columns"""
_NOTE_ON_DELIMITER = re.compile(r"sep=(.)\r?\n")
"""the first line of a table by Excel"""


class CsvRows(NamedTuple):
    """The rows of a table in CSV."""

    delimiter: str
    numbered_rows: list[tuple[int, list[str]]]
    """the number of its last line, and the cells of each row"""


def open_text(path: Path, *, newline: str | None = None, errors: str | None = None) -> io.TextIOWrapper:
    """Open a text in UTF-8, with or without a mark at its start, or in UTF-16 with one, as Windows' shells write it."""
    file = path.open("rb")
    encoding = "utf-16" if file.peek(2)[:2] in _MARKS_OF_UTF_16 else "utf-8-sig"
    return io.TextIOWrapper(file, encoding, errors=errors, newline=newline)


def file_text(path: Path) -> str:
    """Return the text of a file."""
    with reading(path, "text in UTF-8"), open_text(path) as file:
        return file.read()


def read_text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each line of a file that is not blank."""
    yield from split_lines(path, file_text(path))


def split_lines(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yield the place, such as "run.txt:3", and the text of each line that is not blank."""
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if line:
            yield f"{path}:{number}", line


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank, stripped; "" if there is none."""
    with reading(path, "text in UTF-8"), open_text(path) as file:
        for line in file:
            if line and not line.isspace():
                return line.strip()
    return ""


def table_text(path: Path, *, newline: str | None = None) -> str:
    """Return the text of a table.

    Raises:
        ValueError: The file is no text, or has a null character.
    """
    with open_text(path, newline=newline) as file:
        text = file.read()
    if "\0" in text:
        raise ValueError("a null character")
    return text


def read_rows(path: Path) -> CsvRows:
    """Read a table in CSV by the delimiter that its first line names or that splits its header into most names.

    Blank lines are no rows.

    Raises:
        ValueError: The file is no text, or has a null character.
        csv.Error: The file is no CSV.
    """
    text = table_text(path, newline="")
    note = _NOTE_ON_DELIMITER.match(text)
    num_notes = 0
    if note is not None:
        num_notes = 1
        text = text[note.end() :]
    text = text.removeprefix(REMARK)
    delimiter = find_delimiter(text.partition("\n")[0]) if note is None else note[1]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    return CsvRows(delimiter, [(num_notes + reader.line_num, row) for row in reader if row])


def find_delimiter(header: str) -> str:
    """Return the delimiter that splits a header into most names, or a comma if none splits it."""
    num_names = {delimiter: len(next(csv.reader([header], delimiter=delimiter), [])) for delimiter in _DELIMITERS}
    return max(num_names, key=num_names.__getitem__)
