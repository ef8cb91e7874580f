"""Vectors as TEXMEX and faiss write them: of each vector its length, an integer of 32 bits, and then its values.

.fvecs    floats of 32 bits       embeddings
.bvecs    bytes                   embeddings
.ivecs    integers of 32 bits     lists of items
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reid_torchmetrics._arrays import Array

_LENGTH = 4  # bytes


def read_vectors(path: Path, dtype: str) -> Array:
    """Return the values [N, D] of the vectors of a file, mapped.

    Raises:
        ValueError: the vectors are not all of the length of the first, or the file does not end with a vector.
    """
    num_bytes = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little", signed=True)
    size_of_vector = _LENGTH + length * np.dtype(dtype).itemsize
    if length < 1 or num_bytes % size_of_vector:
        raise ValueError(f"{num_bytes} bytes where the first vector has {length} values")
    vectors = np.memmap(path, np.dtype([("length", "<i4"), ("values", dtype, (length,))]), mode="r")
    other = np.flatnonzero(vectors["length"] != length)
    if len(other):
        found_length = vectors["length"][other[0]]
        raise ValueError(f"{found_length} values in vector {other[0]} where the first has {length}")
    values: Array = vectors["values"]
    return values
