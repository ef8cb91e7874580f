"""MATLAB's files of versions 5 to 7.2: real arrays of numbers by name, mapped where they are not compressed, and texts.

A file is a header of 128 bytes and elements, each a tag, its type and its size, before the data. An array is an element
of elements; SciPy, whose reader a damaged file may crash, writes a row for a list:

    matrix | 4 + 4: class, flags | dimensions: 1, 3 | name: query_cam | numbers: 1 2 1
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics.files import Allowance

from .foreign_forms import Unread

_HEADER_SIZE = 128
_VERSION_OFFSET = 124
_TAG_SIZE = 8
_FIRST_BYTES = 1024  # compressed bytes that hold at least a tag
_MATRIX = 14
_COMPRESSED = 15
_HDF5 = b"\x00\x02IM"
"""bytes of version 7.3"""
_BYTE_ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}
"""byte orders by the bytes of versions 5 to 7.2"""
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""dtypes of elements, by their types"""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""dtypes of arrays, by their classes; the elements of an array may have a smaller type"""
_CELLS, _TEXT, _OPAQUE = 1, 4, 17
_OTHER_CLASSES = {
    _CELLS: "a cell array",
    2: "a structure",
    3: "an object",
    _TEXT: "text",
    5: "a sparse matrix",
    16: "a function",
    _OPAQUE: "an object, such as a string array, which `cellstr` converts",
}
_CODECS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
"""encodings of texts, by the types of their elements"""
_CLASS = 0x08FF  # the bits of the class among the flags, and the one of complex numbers, which make another class

_Element: TypeAlias = tuple[int, Array, int]
"""the type and the bytes of an element, and the offset of the next one"""


def is_version_7_3(path: Path) -> bool:
    """Return whether a file is of version 7.3, HDF5 behind the same header."""
    with path.open("rb") as file:
        return file.read(_HEADER_SIZE)[_VERSION_OFFSET:] == _HDF5


def read_mat(path: Path) -> dict[str, Any]:
    """Return the arrays of numbers and texts of a file by name.

    Rows of characters are texts of one length, and cells hold a text each. Other cells, a single text, structures,
    sparse and complex arrays are `Unread`.

    Raises:
        ValueError: The file is damaged, of another version, has a name twice, or would inflate to more than
            `Allowance` allows.
    """
    allowance = Allowance(path.stat().st_size)
    contents = np.memmap(path, np.uint8, mode="r")
    order = _BYTE_ORDERS.get(contents[_VERSION_OFFSET:_HEADER_SIZE].tobytes())
    if order is None:
        raise ValueError(f"a header of {contents[:20].tobytes()!r}")
    arrays: dict[str, Any] = {}
    for matrix in _split_matrices(contents[_HEADER_SIZE:], order, allowance):
        name, array = _read_matrix(matrix, order, allowance)
        if name in arrays:
            raise ValueError(f"two arrays called `{name}`")
        if name:
            arrays[name] = array
    return arrays


def _split_matrices(data: Array, order: str, allowance: Allowance) -> Iterator[Array]:
    """Yield the bytes of each array, inflated if they are compressed; a file has nothing else, but zeros at its end."""
    for kind, contents, end in _split_elements(data, order):
        if kind == _COMPRESSED:
            yield _inflate(contents, order, allowance)
        elif kind == _MATRIX:
            yield contents
        elif data[end:].any():
            raise ValueError(f"an element of type {kind} where an array must be")
        else:
            return


def _inflate(contents: Array, order: str, allowance: Allowance) -> Array:
    """Return the bytes of the array in a compressed element: as many as its tag says.

    Raises:
        ValueError: The element holds something else, or another number of bytes.
    """
    tag = zlib.decompressobj().decompress(contents[:_FIRST_BYTES].tobytes(), _TAG_SIZE)
    kind, size = struct.unpack(f"{order}II", tag)
    if kind != _MATRIX:
        raise ValueError(f"a compressed element of type {kind} where an array must be")
    allowance.spend("a compressed array", size)
    inflater = zlib.decompressobj()
    # With room for one more byte zlib reaches the end of the stream and compares the checksum.
    inflated = inflater.decompress(contents.tobytes(), _TAG_SIZE + size + 1)
    if not inflater.eof or len(inflated) != _TAG_SIZE + size:
        raise ValueError(f"a compressed array of {size} bytes in a stream of another length")
    return np.frombuffer(inflated, np.uint8, offset=_TAG_SIZE)


def _read_matrix(matrix: Array, order: str, allowance: Allowance) -> tuple[str, Array | Unread]:
    """Return the name and the values of an array; `Unread` for values that are neither numbers nor texts."""
    array_class, shape, name, elements = _read_header(matrix, order)
    texts = None
    if array_class == _TEXT:
        texts = _read_texts(elements, shape, order, allowance)
    elif array_class == _CELLS:
        texts = _read_cells(elements, order, allowance)
    if texts is not None and len(texts) > 1:
        return name, texts
    if array_class not in _CLASSES or not name:
        return name, Unread(_OTHER_CLASSES.get(array_class, "complex numbers"))
    ((kind, value_bytes, end),) = islice(elements, 1)
    if end < len(matrix):
        raise ValueError(f"`{name}` with {len(matrix) - end} bytes behind its values")
    # Numbers of a class are stored in the smallest type that has all of them.
    numbers = value_bytes.view(order + _NUMBERS[kind])
    dtype = np.dtype(order + _CLASSES[array_class])
    if dtype != numbers.dtype:
        allowance.spend(f"`{name}`", numbers.size * dtype.itemsize)
    return name, numbers.astype(dtype, copy=False).reshape(shape, order="F")


def _read_header(matrix: Array, order: str) -> tuple[int, list[int], str, Iterator[_Element]]:
    """Return the class, the shape and the name of an array, and the elements behind them."""
    # Only the first elements are read before the class is checked: a cell array may have millions.
    elements = _split_elements(matrix, order)
    ((_, flag_bytes, _),) = islice(elements, 1)
    array_class = int(flag_bytes.view(f"{order}u4")[0]) & _CLASS
    shape: list[int] = []
    if array_class != _OPAQUE:  # the only class without a shape
        ((_, shape_bytes, _),) = islice(elements, 1)
        shape = shape_bytes.view(f"{order}i4").tolist()
    ((_, name_bytes, _),) = islice(elements, 1)
    name = name_bytes.tobytes().decode()
    if min(shape, default=0) < 0:
        raise ValueError(f"`{name}` of shape {shape}")
    return array_class, shape, name, elements


def _read_texts(elements: Iterator[_Element], shape: list[int], order: str, allowance: Allowance) -> Array | None:
    """Return the rows of a matrix of characters as texts, without the blanks that fill them; None for another array."""
    ((kind, value_bytes, _),) = islice(elements, 1)
    if kind not in _CODECS or len(shape) != 2:
        return None
    codec = _CODECS[kind]
    if codec not in ("utf-8", "latin-1"):
        codec += "-le" if order == "<" else "-be"
    # In UTF-32 all characters are as long.
    characters = np.frombuffer(value_bytes.tobytes().decode(codec, "replace").encode("utf-32-le"), np.dtype("<u4"))
    if characters.size != math.prod(shape):
        return None
    rows = np.ascontiguousarray(characters.reshape(shape, order="F"))
    allowance.spend("a text", 4 * max(rows.size, len(rows)))  # rows may be many, and empty
    if not rows.size:
        return np.zeros(max(1, len(rows)), dtype="U1")
    return np.char.rstrip(rows.view(f"<U{rows.shape[1]}")[:, 0])


def _read_cells(elements: Iterator[_Element], order: str, allowance: Allowance) -> Array | None:
    """Return the texts of cells; None if a cell is anything else."""
    texts: list[str] = []
    for _, cell, _ in elements:
        if not len(cell):  # an empty matrix
            return None
        array_class, shape, _, elements_of_cell = _read_header(cell, order)
        if array_class != _TEXT:
            return None
        text = _read_texts(elements_of_cell, shape, order, allowance)
        if text is None or len(text) != 1:
            return None
        texts.append(text.item())
    allowance.spend("a cell array", len(texts) * max(map(len, texts), default=0) * 4)
    return np.array(texts)


def _split_elements(data: Array, order: str) -> Iterator[_Element]:
    """Yield the elements one after the other.

    Small elements have their bytes in their tag. A compressed element is the only one that may end anywhere.
    """
    offset = 0
    while offset < len(data):
        kind, size = struct.unpack(f"{order}II", data[offset : offset + _TAG_SIZE].tobytes())
        start = offset + _TAG_SIZE
        is_small = kind >> 16
        if is_small:
            size = kind >> 16
            kind &= 0xFFFF
            start = offset + _TAG_SIZE // 2
        end = start + size
        if end > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - start} are left")
        offset = end
        if kind != _COMPRESSED:
            offset = -(-end // _TAG_SIZE) * _TAG_SIZE  # elements begin at multiples of 8 bytes
        yield kind, data[start:end], offset
