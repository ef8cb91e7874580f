#!/usr/bin/env bash
# zarr 3.1.6: rows whose file is missing are zeros, without an error or a warning.
#
# One expects: an array of 4,000 embeddings of which one file was not copied, or not yet written, cannot be read as a
#     whole, as a part of an .npy, HDF5 or Parquet file cannot.
# What happens: a chunk without a file is a chunk of the fill value, which is 0 unless one was given. The shape is that of
#     all rows, and 500 embeddings are zeros. Only `nchunks_initialized` tells how many of the chunks have a file.
# Why it matters: a cosine with a zero vector is 0, so that a gallery item of zeros is neither found nor far away, and a
#     query of zeros has all items at the same distance. Rank-1 of perfect embeddings falls by an eighth, which looks like
#     a model that is a little worse. A fill value of NaN would tell.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet zarr==3.1.6 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" -W error - <<'PYTHON'
from pathlib import Path

import numpy as np
import zarr

print("zarr", zarr.__version__)
rows = np.random.default_rng(0).normal(size=(4000, 32)).astype("float32")
rows /= np.linalg.norm(rows, axis=1, keepdims=True)


def rank_1(**options):
    """Return Rank-1 of copies of the embeddings in the array, after one of its eight files is taken away."""
    name = f"rows{len(options)}.zarr"
    array = zarr.create_array(name, shape=rows.shape, chunks=(500, 32), dtype="float32", **options)
    array[:] = rows
    Path(name, "c", "3", "0").unlink()
    read = zarr.open(name, mode="r")
    gallery = read[:]
    zeros = int((gallery == 0).all(axis=1).sum())
    unknown = int(np.isnan(gallery).any(axis=1).sum())
    nearest = (rows @ np.nan_to_num(gallery).T).argmax(axis=1)
    found = float(np.mean(nearest == np.arange(len(rows))))
    files = read.nchunks_initialized, read.nchunks
    print(f"{options}: shape {gallery.shape}, {zeros} rows of zeros, {unknown} of NaN, Rank-1 {found}, files {files}")
    return gallery.shape, zeros, unknown, found, files


assert rank_1() == ((4000, 32), 500, 0, 0.875, (7, 8))
assert rank_1(fill_value=np.nan) == ((4000, 32), 0, 500, 0.875, (7, 8))
print("as described")
PYTHON
