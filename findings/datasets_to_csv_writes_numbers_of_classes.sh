#!/usr/bin/env bash
# datasets 5.2.0: `to_csv` and `to_json` write the numbers of classes without their names, which two data sets do not share.
#
# One expects: a column of the type ClassLabel, which is shown and selected by names, is written with names; or a file that
#     is read again can be joined with another one by this column.
# What happens: each data set numbers the names in its own features, in the order of their list. Queries of the identities
#     b, c and d and a gallery of a, b, c and d are written as 0, 1, 2 and 0, 1, 2, 3, and no file has a name. `to_parquet`
#     keeps the names in the metadata of the file, where pandas and polars do not look.
# Why it matters: both files are right, each by itself. Joined by the column, each query is another identity: Rank-1 of
#     perfect embeddings is 0.0. Casting the column to `Value("string")` does not help, as it makes "0" of 0;
#     `features["label"].int2str` gives the names.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet datasets==5.2.0 pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON' 2>/dev/null
import datasets
import numpy as np
import pandas as pd
from datasets import ClassLabel, Dataset, Features, Value

datasets.disable_progress_bars()
print("datasets", datasets.__version__)
vectors = np.eye(4)


def written(names, form):
    """Write a data set with one row for each name, read the file, and return its labels and the names by the features."""
    features = Features({"row": Value("int64"), "label": ClassLabel(names=names)})
    data = Dataset.from_dict({"row": range(len(names)), "label": names}, features=features)
    name = f"{'_'.join(names)}.{form}"
    if form == "csv":
        data.to_csv(name)
        table = pd.read_csv(name)
    elif form == "json":
        data.to_json(name)
        table = pd.read_json(name, lines=True)
    else:
        data.to_parquet(name)
        table = pd.read_parquet(name)
    return table["label"].to_numpy(), np.array(data.features["label"].int2str(data["label"][:]))


def rank_1(query_labels, gallery_labels):
    nearest = (vectors[1:] @ vectors.T).argmax(axis=1)  # each query has the vector of its name
    return float(np.mean(gallery_labels[nearest] == query_labels))


for form in ("csv", "json", "parquet"):
    query, query_names = written(["b", "c", "d"], form)
    gallery, gallery_names = written(["a", "b", "c", "d"], form)
    by_file, by_name = rank_1(query, gallery), rank_1(query_names, gallery_names)
    print(f"{form}: queries {query.tolist()}, gallery {gallery.tolist()}: Rank-1 {by_file}; by names {by_name}")
    assert (query.tolist(), gallery.tolist()) == ([0, 1, 2], [0, 1, 2, 3])
    assert (by_file, by_name) == (0.0, 1.0)
as_text = Dataset.from_dict({"label": ["b"]}, features=Features({"label": ClassLabel(names=["b"])}))
as_text = as_text.cast_column("label", Value("string"))
print("cast to a string:", as_text["label"][:])
assert as_text["label"][:] == ["0"]
print("as described")
PYTHON
