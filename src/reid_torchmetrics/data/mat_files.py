"""MATLAB's files of versions 5 to 7.2: real arrays of numbers by name, mapped where they are not compressed.

A file is a header of 128 bytes and elements, each a tag, its type and its size, before the data. An array is an element
of elements; SciPy, whose reader a damaged file may crash, writes a row for a list:

    matrix | 4 + 4: class, flags | dimensions: 1, 3 | name: query_cam | numbers: 1 2 1
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance

_HEADER, _VERSION, _TAG = 128, 124, 8
_FIRST = 1024  # compressed bytes that hold at least a tag
_MATRIX, _COMPRESSED = 14, 15
_HDF5 = b"\x00\x02IM"
"""the version 7.3"""
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""types of elements"""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""types of arrays; their numbers may take less room"""
_COMPLEX = 0x0800


def is_version_7_3(path: Path) -> bool:
    """Return whether a file is of version 7.3, HDF5 behind the same header."""
    with path.open("rb") as file:
        return file.read(_HEADER)[_VERSION:] == _HDF5


def read_mat(path: Path) -> dict[str, Array]:
    """Return the arrays of a file by name, without structures, cells, texts, sparse and complex ones.

    Raises:
        ValueError: The file is damaged, of another version, has a name twice, or would inflate to more than
            `Allowance` allows.
    """
    allowance = Allowance(path.stat().st_size)
    contents = np.memmap(path, np.uint8, mode="r")
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(contents[_VERSION:_HEADER].tobytes())
    if order is None:
        raise ValueError(f"a header of {contents[:20].tobytes()!r}")
    arrays: dict[str, Array] = {}
    for matrix in _matrices(contents[_HEADER:], order, allowance):
        name, array = _named_array(matrix, order, allowance)
        if name in arrays:
            raise ValueError(f"two arrays called `{name}`")
        if array is not None:
            arrays[name] = array
    return arrays


def _matrices(data: Array, order: str, allowance: Allowance) -> Iterator[Array]:
    """The bytes of each array, inflated where they are compressed; a file has nothing else, but zeros at its end."""
    for kind, contents, place in _elements(data, order):
        if kind == _COMPRESSED:
            yield _inflated(contents, order, allowance)
        elif kind == _MATRIX:
            yield contents
        elif data[place:].any():
            raise ValueError(f"an element of type {kind} where an array must be")
        else:
            return


def _inflated(contents: Array, order: str, allowance: Allowance) -> Array:
    """The bytes of an array that a compressed element holds.

    The size that the array has according to its tag is inflated and no more.
    """
    tag = zlib.decompressobj().decompress(contents[:_FIRST].tobytes(), _TAG)
    kind, size = struct.unpack(f"{order}II", tag)
    if kind != _MATRIX:
        raise ValueError(f"a compressed element of type {kind} where an array must be")
    allowance.spend("a compressed array", size)
    inflater = zlib.decompressobj()
    # With room for one more byte zlib reaches the end of the stream and compares the checksum.
    inflated = inflater.decompress(contents.tobytes(), _TAG + size + 1)
    if not inflater.eof or len(inflated) != _TAG + size:
        raise ValueError(f"a compressed array of {size} bytes in a stream of another length")
    return np.frombuffer(inflated, np.uint8, offset=_TAG)


def _named_array(matrix: Array, order: str, allowance: Allowance) -> tuple[str, Array | None]:
    """The name and the values of an array; None for the values of other classes than numbers."""
    # Only the first elements are read before the class is known: a cell array may have millions.
    elements = _elements(matrix, order)
    (_, flags, _), (_, shape, _), (_, letters, _) = islice(elements, 3)
    flag = int(flags.view(f"{order}u4")[0])
    name = letters.tobytes().decode()
    if flag & 0xFF not in _CLASSES or flag & _COMPLEX or not name:
        return name, None
    ((stored, values, place),) = islice(elements, 1)
    if place < len(matrix):
        raise ValueError(f"`{name}` with {len(matrix) - place} bytes behind its values")
    # Numbers of a class are stored in the smallest type that has all of them.
    numbers = values.view(order + _NUMBERS[stored])
    lengths = shape.view(f"{order}i4")
    if (lengths < 0).any():
        raise ValueError(f"`{name}` of shape {lengths.tolist()}")
    dtype = np.dtype(order + _CLASSES[flag & 0xFF])
    if dtype != numbers.dtype:
        allowance.spend(f"`{name}`", numbers.size * dtype.itemsize)
    return name, numbers.astype(dtype, copy=False).reshape(lengths, order="F")


def _elements(data: Array, order: str) -> Iterator[tuple[int, Array, int]]:
    """The type and the bytes of elements one after the other, and where the next one begins.

    Small elements have their bytes in their tag. A compressed element is the only one that may end anywhere.
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
        if kind != _COMPRESSED:
            place = -(-place // _TAG) * _TAG  # elements begin at multiples of 8 bytes
        yield kind, data[start : start + size], place
