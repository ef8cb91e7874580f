"""Vectors as TEXMEX and faiss write them: of each vector its length, an integer of 32 bits, and then its values.

.fvecs    floats of 32 bits       embeddings
.bvecs    bytes                   embeddings
.ivecs    integers of 32 bits     lists of items
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reid_torchmetrics._arrays import Array

_LENGTH_SIZE = 4  # bytes


def read_vectors(path: Path, dtype: str) -> Array:
    """Return the values [N, D] of the vectors of a file, mapped.

    Raises:
        ValueError: Vectors of unequal lengths, or a file that does not end with a vector.
    """
    num_bytes = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_SIZE), "little", signed=True)
    vector_size = _LENGTH_SIZE + length * np.dtype(dtype).itemsize
    if length < 1 or num_bytes % vector_size:
        raise ValueError(f"{num_bytes} bytes where the first vector has {length} values")
    vectors = np.memmap(path, np.dtype([("length", "<i4"), ("values", dtype, (length,))]), mode="r")
    deviating = np.flatnonzero(vectors["length"] != length)
    if len(deviating):
        first = deviating[0]
        raise ValueError(f"{vectors['length'][first]} values in vector {first} where the first has {length}")
    values: Array = vectors["values"]
    return values
