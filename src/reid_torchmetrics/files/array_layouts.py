"""Headers of arrays in files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

_HEADERS: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayLayout(NamedTuple):
    """The layout of the numbers of an array in a file, as `numpy.save` writes it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    order: Literal["C", "F"]

    @classmethod
    def read(cls, name: str, file: IO[bytes], size: int) -> ArrayLayout:
        """Read the header of the data of `size` bytes that start at the current position of a file.

        Raises:
            ValueError: Another version of the format, or a shape that does not fit the size.
        """
        start = file.tell()
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"{name} in version {version[0]}.{version[1]} of the format")
        shape, is_fortran, dtype = _HEADERS[version](file)
        layout = cls(shape, dtype, file.tell(), "F" if is_fortran else "C")
        if dtype.hasobject:  # of any size, as only pickle reads them
            return layout
        # Without bytes, any number of values would fit into the file.
        if dtype.itemsize == 0:
            raise ValueError(f"{name} of dtype {dtype.str}, whose values have no bytes")
        if any(length < 0 for length in shape):
            raise ValueError(f"{name} of shape {list(shape)}")
        if layout.offset - start + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{name} of shape {list(shape)} and dtype {dtype} in {size} bytes")
        return layout

    def map_file(self, path: Path) -> np.memmap[Any, Any]:
        """Return the array in a file, mapped."""
        return np.memmap(path, mode="r", shape=self.shape, dtype=self.dtype, offset=self.offset, order=self.order)
