#!/usr/bin/env bash
# Dask 2026.8.0: a frame from pandas holds embeddings as strings of six numbers and "...".
#
# One expects: `dask.dataframe.from_pandas(frame, npartitions=2).compute()` returns what is in the frame.
# What happens: a column whose rows are arrays is a column of objects, which Dask converts to strings of Arrow. NumPy
#     prints long arrays in short, so that an embedding of 2,048 numbers becomes a text with the first and last three.
# Why it matters: nothing warns, the numbers cannot be recovered, and the frame looks the same when it is printed. The
#     option `dataframe.convert-string`, set to False before the frame is made, keeps the arrays.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet "dask[dataframe]==2026.8.0" pandas==3.0.6 pyarrow==25.0.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import dask
import dask.dataframe
import numpy as np
import pandas as pd

print("dask", dask.__version__, "pandas", pd.__version__)
embeddings = np.random.default_rng(0).standard_normal((4, 2048)).astype(np.float32)
frame = pd.DataFrame({"embedding": list(embeddings), "identity": [0, 0, 1, 1]})
row = dask.dataframe.from_pandas(frame, npartitions=2).compute()["embedding"].iloc[0]
print("before:", type(frame["embedding"].iloc[0]).__name__, "of", len(embeddings[0]), "numbers")
print("after:", type(row).__name__, repr(row))
with dask.config.set({"dataframe.convert-string": False}):
    kept = dask.dataframe.from_pandas(frame, npartitions=2).compute()["embedding"].iloc[0]
print("with the option:", type(kept).__name__, "of", len(kept), "numbers")

assert isinstance(row, str) and "..." in row and len(row) < 100
assert np.array_equal(kept, embeddings[0])
print("as described")
PYTHON
