"""Words of lines, read by columns: matching each line takes ten times as long as splitting it into words.

A mark is put behind each line, so that columns are slices of all words:

    lines    a 7 2          words    a 7 2 | a 9 1 |      columns  a a     7 9     2 1
             a 9 1

The mark is a character that no text has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

_BLOCK_SIZE = 1 << 14  # characters that are read together, so that the words of a block stay in the cache
MARK = "\0"
"""the mark behind each line"""
_MAX_DIGITS = 18  # digits of an integer that always fits 64 bits


def split_words(text: str, num_columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield many lines at a time and their words, with a mark behind each line; no words at a line of other columns."""
    for block in _split_blocks(text):
        words = _split_marked_words(block, num_columns)
        if words is None:
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


def _split_blocks(text: str) -> Iterator[str]:
    """Yield the lines of a text, many at a time; each block ends with a line break."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK_SIZE) + 1
        if end == 0:
            yield text[start:] if text.endswith("\n") else f"{text[start:]}\n"
            return
        yield text[start:end]
        start = end


def _split_marked_words(block: str, num_columns: int) -> list[str] | None:
    """Return the words of lines, with a mark behind each line; None if a line has another number of words."""
    words = _split_and_mark(block)
    if not _are_lines(words, num_columns, num_lines=block.count("\n")):
        # Blank lines may be anywhere.
        lines = [line for line in block.split("\n") if line and not line.isspace()]
        words = _split_and_mark("".join(f"{line}\n" for line in lines))
        if not _are_lines(words, num_columns, num_lines=len(lines)):
            return None
    return words


def _split_and_mark(lines: str) -> list[str]:
    return lines.replace("\n", f" {MARK} ").split()


def _are_lines(words: Sequence[str], num_columns: int, *, num_lines: int) -> bool:
    """Return whether a mark follows the columns of each line, and nothing else."""
    width = num_columns + 1
    return len(words) == width * num_lines and words[num_columns::width].count(MARK) == num_lines
