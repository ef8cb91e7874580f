"""Numbers of values in the columns of a Parquet file, from its footer in Thrift's compact protocol.

PyArrow ends the process where the metadata of a column are damaged, which only its own readers expect.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

_END_SIZE = 8  # the length of the footer, and PAR1
_BOOLEANS = (1, 2)
_BYTE, _DOUBLE, _BINARY, _STRUCT = 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_LISTS = (9, 10)
_LONG_LIST = 15  # the length follows
_ROW_GROUPS, _COLUMNS, _METADATA, _PATH, _NUM_VALUES = 4, 1, 3, 3, 5
"""numbers of the fields of a footer, a row group, a column and its metadata"""


def count_values(path: Path, names: Collection[str]) -> int:
    """Return the number of values in some columns, those in their lists included.

    Raises:
        ValueError: The footer is damaged.
    """
    with path.open("rb") as file:
        file.seek(-_END_SIZE, os.SEEK_END)
        file.seek(-_END_SIZE - int.from_bytes(file.read(4), "little"), os.SEEK_END)
        try:
            groups = _read_struct(file)[_ROW_GROUPS]
            columns = [column[_METADATA] for group in groups for column in group[_COLUMNS]]
            return sum(column[_NUM_VALUES] for column in columns if column[_PATH][0].decode() in names)
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError("a damaged footer") from error


def _read_struct(file: BinaryIO) -> dict[int, Any]:
    """Return the values of a structure by the numbers of its fields."""
    fields: dict[int, Any] = {}
    number = 0
    while header := file.read(1)[0]:
        step = header >> 4
        number = number + step if step else _read_integer(file)
        kind = header & 0xF
        fields[number] = kind == _BOOLEANS[0] if kind in _BOOLEANS else _read_value(file, kind)
    return fields


def _read_value(file: BinaryIO, kind: int) -> Any:
    if kind in _INTEGERS:
        return _read_integer(file)
    if kind == _BINARY:
        return file.read(_read_unsigned(file))
    if kind == _STRUCT:
        return _read_struct(file)
    if kind in _LISTS:
        header = file.read(1)[0]
        length = header >> 4
        if length == _LONG_LIST:
            length = _read_unsigned(file)
        return [_read_value(file, header & 0xF) for _ in range(length)]
    if kind == _DOUBLE:
        return file.read(8)
    if kind in (*_BOOLEANS, _BYTE):
        return file.read(1)[0]
    raise ValueError(f"a footer with a value of type {kind}")


def _read_integer(file: BinaryIO) -> int:
    number = _read_unsigned(file)
    return (number >> 1) ^ -(number & 1)


def _read_unsigned(file: BinaryIO) -> int:
    number = 0
    shift = 0
    while True:
        byte = file.read(1)[0]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number
