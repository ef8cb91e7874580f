"""Text files: UTF-8, or UTF-16 with a mark of the byte order, by lines, by columns, or as rows of a table in CSV.

Words of many lines are read by columns, as matching each line takes ten times as long as splitting it into words. A
mark is put behind each line, so that columns are slices of all words:

    lines    a 7 2          words    a 7 2 | a 9 1 |      columns  a a     7 9     2 1
             a 9 1

The mark is a character that no text has.
"""

from __future__ import annotations

import csv
import io
import math
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
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


_BLOCK_SIZE = 1 << 14  # characters that are read together, so that the words of a block stay in the cache
MARK = "\0"
"""the mark behind each line"""
_MAX_DIGITS = 18  # digits of an integer that always fits 64 bits


def split_words(text: str, num_columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield many lines at a time and their words, with a mark behind each line; no words at a line of other columns."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK_SIZE) + 1 or len(text)
        block = text[start:end]
        if not block.endswith("\n"):
            block = f"{block}\n"
        start = end
        words = _split_and_mark(block)
        if not _are_lines(words, num_columns, num_lines=block.count("\n")):
            # Blank lines may be anywhere.
            lines = [line for line in block.split("\n") if line and not line.isspace()]
            words = _split_and_mark("".join(f"{line}\n" for line in lines))
            if not _are_lines(words, num_columns, num_lines=len(lines)):
                yield block, []
                return
        if words:
            yield block, words


def are_decimal(letters: str) -> bool:
    """Return whether numbers have none of what Python reads as well: underscores, and digits of other scripts."""
    return "_" not in letters and letters.isascii()


def parse_floats(words: Sequence[str]) -> list[float] | None:
    """Return decimal numbers; None if some word is another one, such as "nan" or "inf"."""
    try:
        numbers = list(map(float, words))
    except ValueError:
        return None
    are_finite = math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))  # a sum may overflow
    return numbers if are_finite else None


def parse_integers(words: Sequence[str]) -> list[int] | None:
    """Return integers of at most 18 digits, with or without a sign; None if some word is another one."""
    if max(map(len, words), default=0) > _MAX_DIGITS:
        return None
    try:
        return list(map(int, words))
    except ValueError:
        return None


def _split_and_mark(lines: str) -> list[str]:
    return lines.replace("\n", f" {MARK} ").split()


def _are_lines(words: Sequence[str], num_columns: int, *, num_lines: int) -> bool:
    """Return whether a mark follows the columns of each line, and nothing else."""
    width = num_columns + 1
    return len(words) == width * num_lines and words[num_columns::width].count(MARK) == num_lines
