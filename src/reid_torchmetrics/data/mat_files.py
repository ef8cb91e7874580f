"""MATLAB's files of versions 5 to 7.2: real arrays of numbers by name, mapped where they are not compressed.

A file is a header of 128 bytes and elements, each a tag, its type and its size, before the data. An array is an element
of elements; SciPy, whose reader a damaged file may crash, writes a row for a list:

    matrix | 4 + 4: class, flags | dimensions: 1, 3 | name: query_cam | numbers: 1 2 1
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reid_torchmetrics._arrays import Array

_HEADER, _VERSION, _TAG = 128, 124, 8
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""types of elements"""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""types of arrays; their numbers may take less room"""
_COMPLEX = 0x0800


def read_mat(path: Path) -> dict[str, Array]:
    """The arrays of a file by name, without structures, cells, texts, sparse and complex ones.

    Raises:
        ValueError: a damaged file, or one of another version.
    """
    contents = np.memmap(path, np.uint8, mode="r")
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(contents[_VERSION:_HEADER].tobytes())
    if order is None:
        raise ValueError(f"a header of {contents[:20].tobytes()!r}")
    arrays = {}
    for kind, matrix in _elements(contents[_HEADER:], order):
        if kind != _MATRIX:
            continue
        (_, flags), (_, shape), (_, name), *parts = _elements(matrix, order)
        flag = int(flags.view(f"{order}u4")[0])
        # Numbers of a class are stored in the smallest type that has all of them.
        if flag & 0xFF in _CLASSES and not flag & _COMPLEX and len(name):
            ((numbers, values),) = parts
            array = values.view(order + _NUMBERS[numbers]).astype(order + _CLASSES[flag & 0xFF], copy=False)
            arrays[name.tobytes().decode()] = array.reshape(shape.view(f"{order}i4"), order="F")
    return arrays


def _elements(data: Array, order: str) -> Iterator[tuple[int, Array]]:
    """The types and the bytes of elements one after the other; small ones have both in their tag.

    A compressed element holds another one, and is the only one that ends anywhere.
    """
    place = 0
    while place < len(data):
        kind, size = struct.unpack(f"{order}II", data[place : place + _TAG].tobytes())
        is_small = kind >> 16
        if is_small:
            kind, size = kind & 0xFFFF, kind >> 16
        start = place + (_TAG // 2 if is_small else _TAG)
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - start} are left")
        place = start + size
        if kind == _COMPRESSED:
            yield from _elements(np.frombuffer(zlib.decompress(data[start:place].tobytes()), np.uint8), order)
        else:
            yield kind, data[start:place]
            place = -(-place // _TAG) * _TAG  # elements begin at multiples of 8 bytes
