"""Rows of JSON, decoded by type in blocks of bounded size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

_BLOCK = 1 << 22  # bytes of text that are decoded together
_MOST_ENDS = 16  # of rows that are tried in a block: texts and nested objects may look like the end of a row
_ROW_END = re.compile(rb"\}\s*,\s*\{")
_FAR = 1 << 12  # bytes before the end of a block in which ends of rows are looked for at first
_SPACES = b" \t\r\n"
NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""errors of msgspec for a text that is no JSON, is not in UTF-8, or is nested too deep"""


class UnreadRowsError(Exception):
    """Rows are not of the expected types. The reader of dicts reads them, or explains the error."""


class RowDecoder:
    """A decoder for lists of rows, which become objects with an attribute for each column.

    Args:
        columns: the type of the values under each key; a pair of a type and a default for keys that rows may lack.
        known_keys: further keys of rows, whose values are left out.
    """

    def __init__(self, columns: Mapping[str, Any], known_keys: Iterable[str]) -> None:
        self._columns = columns
        self.other_keys = set(known_keys)
        """the known keys, and further keys of the rows until now"""
        self._make_decoder()

    def decode(self, text: bytes) -> list[Any]:
        """Return the rows of a list.

        Raises:
            NO_JSON: one of these errors.
            UnreadRowsError: a row is no object, lacks a key, or has a value of another type.
        """
        try:
            rows: list[Any] = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            if "unknown field" not in str(error):
                raise UnreadRowsError from error
            keys = _keys_of(text) - self.other_keys - self._columns.keys()
            if not keys:
                raise UnreadRowsError from error
            self.other_keys |= keys
            self._make_decoder()
            return self.decode(text)
        return rows

    def _make_decoder(self) -> None:
        """Make a decoder that knows all keys, and fails at any other key, which may be a misspelled one."""
        fields: list[Any] = []
        for key, column in self._columns.items():
            fields.append((key, *column) if isinstance(column, tuple) else (key, column))
        key_by_field = {key: key for key in self._columns}
        for number, key in enumerate(self.other_keys):
            fields.append((f"other_{number}", msgspec.Raw, msgspec.UNSET))
            key_by_field[f"other_{number}"] = key
        row = msgspec.defstruct("Row", fields, rename=key_by_field, forbid_unknown_fields=True, kw_only=True, gc=False)
        self._decoder: Any = msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _keys_of(text: bytes) -> set[str]:
    """Return the keys of all rows of a list.

    Raises:
        UnreadRowsError: a row is no object.
    """
    try:
        rows = msgspec.json.decode(text, type=list[dict[str, msgspec.Raw]])
    except msgspec.ValidationError as error:
        raise UnreadRowsError from error
    return set().union(*rows)


def blocks_of(file: BinaryIO, decoder: RowDecoder) -> Iterator[list[Any]]:
    """Return the rows of a file that is a list of rows, some at a time.

    A part of the text that is JSON ends with a row: within a text or a nested object it would not be complete.

    Raises:
        UnreadRowsError: see `RowDecoder`; or the file is no list, or no JSON.
    """
    rest = file.read(_BLOCK).lstrip(_SPACES)
    if not rest.startswith(b"["):
        raise UnreadRowsError
    rest = rest[1:]
    while True:
        text = file.read(_BLOCK)
        if not text:
            break
        rows, rest = _first_rows(rest + text, decoder)
        if rows:
            yield rows
    try:
        rows = decoder.decode(b"[" + rest)
    except NO_JSON as error:
        raise UnreadRowsError from error
    yield rows


def _first_rows(text: bytes, decoder: RowDecoder) -> tuple[list[Any], bytes]:
    """Decode the complete rows at the start of a text; return them and the remaining text."""
    ends = [match.start() + 1 for match in _ROW_END.finditer(text, max(0, len(text) - _FAR))]
    if not ends:
        ends = [match.start() + 1 for match in _ROW_END.finditer(text)]
    for end in reversed(ends[-_MOST_ENDS:]):
        try:
            rows = decoder.decode(b"[" + text[:end] + b"]")
        except NO_JSON:
            continue
        return rows, text[text.index(b",", end) + 1 :]
    if ends:  # no JSON, or objects within objects
        raise UnreadRowsError
    return [], text
