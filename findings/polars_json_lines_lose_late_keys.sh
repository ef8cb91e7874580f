#!/usr/bin/env bash
# polars 2.1.0: `read_ndjson` drops a key that no one of the first 100 lines has, and says nothing.
#
# One expects: a column for each key that occurs, null where a line lacks it, as pandas, DuckDB and `read_ndjson` itself
#     give it for a key that is lacking in the later lines.
# What happens: the columns are those of the first 100 lines. A key that comes later, in however many lines, is not in the
#     frame. (A number that is whole in the first lines and not in a later one is an error.)
# Why it matters: objects of COCO with "iscrowd", detections with a mask, samples of a second data set with a camera come
#     behind others that have no such key. 150 of 300 rows have one, and the frame has none: junk then counts as negative.
#     `infer_schema_length=None` reads all lines first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet polars==2.1.0 pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json

import pandas as pd
import polars as pl

print("polars", pl.__version__)
plain = [{"image": f"a{row}", "identity": row} for row in range(150)]
with_camera = [{"image": f"b{row}", "identity": row, "camera": row % 6} for row in range(150)]


def columns(rows, **options):
    with open("rows.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return pl.read_ndjson("rows.jsonl", **options).columns


late, early = columns(plain + with_camera), columns(with_camera + plain)
all_lines = columns(plain + with_camera, infer_schema_length=None)
in_pandas = list(pd.read_json("rows.jsonl", lines=True).columns)
print("the camera in lines 151 to 300:", late)
print("the camera in lines 1 to 150:", early)
print("infer_schema_length=None:", all_lines)
print("pandas:", in_pandas)

assert late == ["image", "identity"]
assert early == all_lines == in_pandas == ["image", "identity", "camera"]
print("as described")
PYTHON
