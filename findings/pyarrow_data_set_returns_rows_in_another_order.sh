#!/usr/bin/env bash
# pyarrow 26.0.1: a data set of more than ten files is read in another order than it was written in.
#
# One expects: `write_dataset(..., preserve_order=True)` and then `read_table` return the rows in the order that they had.
# What happens: the files are numbered without leading zeros and are read in the order of their names, so that part-10
#     comes between part-1 and part-2. Of 1,300 embeddings in 13 files 200 are in their row again. `read_table`,
#     `dataset` and pandas agree. Ten files keep the order.
# Why it matters: embeddings that are written in pieces are compared with identities and file names that are in a list
#     of their own. Rank-1 falls from 100 % to 22 % for a set with more than ten files, and nothing is said. Names with
#     leading zeros cannot be asked for. A list of the files, sorted by their numbers, or a column of row numbers keeps
#     the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

print("pyarrow", pa.__version__)
PIECE = 100


def by_number(path):
    return int(path.stem.removeprefix("part-"))


def rank_1(embeddings, identities):
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -np.inf)
    return float((identities[similarity.argmax(1)] == identities).mean())


numbers = {}
for pieces in (10, 13):
    generator = np.random.default_rng(0)
    identities = generator.integers(0, 5, pieces * PIECE)
    embeddings = np.eye(5, 8)[identities] + 0.05 * generator.standard_normal((len(identities), 8))
    names = [f"{number:04}" for number in range(len(identities))]
    written = pa.table({"name": names, "embedding": list(embeddings)})
    folder = f"{pieces}_files"
    options = {"max_rows_per_file": PIECE, "max_rows_per_group": PIECE, "preserve_order": True}
    ds.write_dataset(written, folder, format="parquet", **options)
    paths = [str(path) for path in sorted(Path(folder).glob("*"), key=by_number)]
    assert len(paths) == pieces
    tables = {
        "read_table": pq.read_table(folder),
        "dataset": ds.dataset(folder).to_table(),
        "pandas": pa.Table.from_pandas(pd.read_parquet(folder)),
        "list of files": ds.dataset(paths).to_table(),
    }
    for reader, table in tables.items():
        in_place = sum(map(str.__eq__, names, table["name"].to_pylist()))
        share = rank_1(np.stack(table["embedding"].to_pylist()), identities)
        numbers[pieces, reader] = in_place, round(share, 2)
        print(f"{pieces} files, {reader}: {in_place} of {len(names)} rows in place, Rank-1 {share:.2f}")

assert all(numbers[10, reader] == (1000, 1.0) for reader in tables)
assert numbers[13, "list of files"] == (1300, 1.0)
assert all(numbers[13, reader][0] == 200 for reader in ("read_table", "dataset", "pandas"))
assert all(numbers[13, reader][1] < 0.5 for reader in ("read_table", "dataset", "pandas"))
print("as described")
PYTHON
