#!/usr/bin/env bash
# pyarrow 26.0.1: identities by which a data set is split into folders come back as integers: "07" and "7" are one.
#
# One expects: a column of strings that `write_dataset` or pandas' `to_parquet(partition_cols=...)` turns into folders such
#     as `identity=07` is the same column of strings when it is read, as all other columns are.
# What happens: the type of the column is lost, and is guessed from the names of the folders: if all are digits it is an
#     integer. Of 300 identities with the names "0" to "99", "00" to "099" and "000" to "0099" there are 100. Embeddings
#     and all else are as they were. pandas 3.1.1 refuses these folders, as its categories would not be unique.
# Why it matters: photos of animals, products and people of several sources have names such as "7" and "007", which become
#     one identity. A schema given to the reader, `partitioning(schema, flavor="hive")`, keeps them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pyarrow==26.0.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" -W error - <<'PYTHON'
import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

print("pyarrow", pa.__version__)
names = [f"{zeros}{number}" for zeros in ("", "0", "00") for number in range(100)]
table = pa.table({"identity": names * 2, "vector": np.random.default_rng(0).normal(size=600)})
by_identity = dataset.partitioning(pa.schema([("identity", pa.string())]), flavor="hive")
dataset.write_dataset(table, "photos", format="parquet", partitioning=by_identity, max_partitions=300)


def identities_of(read):
    return len(set(read["identity"].to_pylist())), str(read.schema.field("identity").type)


guessed = identities_of(parquet.read_table("photos"))
given = identities_of(dataset.dataset("photos", partitioning=by_identity).to_table())
print(f"written: {len(set(names))} identities, string")
print(f"read: {guessed[0]} identities, {guessed[1]}")
print(f"read with a schema: {given[0]} identities, {given[1]}")

assert guessed[0] == 100 and "int32" in guessed[1]
assert given == (300, "string")
print("as described")
PYTHON
