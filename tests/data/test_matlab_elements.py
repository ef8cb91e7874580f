"""Arrays in MATLAB's files that SciPy does not write: MATLAB's strings, cells without a value, nested cells."""

import struct

import numpy as np
import pytest

from reid_torchmetrics.data import read_samples

NUMBERS, CELLS, TEXT, FUNCTION, OPAQUE = 6, 1, 4, 16, 17
"""classes of arrays"""
EMPTY = struct.pack("<II", 14, 0)
"""a cell without a value"""


def element(kind, contents):
    return struct.pack("<II", kind, len(contents)) + contents + bytes(-len(contents) % 8)


def array(array_class, name, *elements, shape=(3, 1)):
    flags = element(6, struct.pack("<II", array_class, 0))
    sides = element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, flags + sides + element(1, name.encode()) + b"".join(elements))


def text(name, characters, shape):
    return array(TEXT, name, element(4, characters.encode("utf-16-le")), shape=shape)


def string(name):
    """A string array, as MATLAB writes it: without a shape."""
    values = array(13, "", element(6, bytes(12)))
    return element(
        14,
        b"".join(
            [
                element(6, struct.pack("<II", OPAQUE, 0)),
                *map(element, (1, 1, 1), (name.encode(), b"MCOS", b"string")),
                values,
            ]
        ),
    )


def nested(depth):
    cell = text("", "a", (1, 1))
    for _ in range(depth):
        cell = array(CELLS, "inner", cell, shape=(1, 1))
    return cell


STRINGS = "`names`, an object, such as a string array, which `cellstr` converts"
ARRAYS = {
    "strings": ([string("names"), string("label")], STRINGS),
    "a function": ([array(FUNCTION, "names", EMPTY)], "`names`, a function"),
    "a cell without a value": ([array(CELLS, "names", text("", "a", (1, 1)), EMPTY, EMPTY)], "`names`, a cell array"),
    "nested cells": ([array(CELLS, "names", nested(1), nested(5), nested(5000))], "`names`, a cell array"),
    "strings in cells": ([array(CELLS, "names", string(""), string(""), string(""))], "`names`, a cell array"),
    "a text of one axis": ([text("names", "abc", (3,))], ""),
    "a text without an axis": ([text("names", "a", ())], ""),
    "a text of three axes": ([text("names", "abc", (3, 1, 1))], ""),
}
"""arrays that are no names, and how they are called; a text alone may be a note"""


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_that_are_no_texts_are_passed_over_by_name(kind, tmp_path):
    arrays, description = ARRAYS[kind]
    embeddings = array(NUMBERS, "feat", element(9, np.arange(1.0, 7).tobytes()), shape=(3, 2))
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + embeddings + b"".join(arrays))
    (samples,) = read_samples(path)
    assert samples.embeddings.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert (samples.names, samples.unread_names) == (None, description)
