#!/usr/bin/env bash
# datasets 5.2.0: `filter` finds none of three rows, as the format "numpy" makes float32 of columns of float64.
#
# One expects: `frames.filter(condition)` keeps the rows for which the condition is true, and a format changes the
#     container, not the numbers.
# What happens: a row that is read by its number keeps float64, but arrays of numbers are made float32, and `filter`
#     reads arrays even if it is not batched. Of frames at intervals of 10 seconds 3 are later than the first 15
#     seconds, and `filter` returns 0 of them: seconds since 1970 are multiples of 128 in float32. `map` in batches
#     stores the rounded numbers, row by row it does not. With the format "torch" all is float32.
# Why it matters: times and positions (UTM) decide what is a match or the same sequence, and scores become ties. The
#     features still say float64. `with_format("numpy", dtype=numpy.float64)` keeps the numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet datasets==5.2.0 numpy==2.4.6 pandas==3.0.6 pyarrow==25.0.1
HF_HUB_OFFLINE=1 HF_DATASETS_CACHE="$folder/cache" "$folder/env/bin/python" - <<'PYTHON'
import datasets
import numpy as np

print("datasets", datasets.__version__)
datasets.disable_progress_bars()
START = 1_700_000_000.0
stored = datasets.Dataset.from_dict({"time": [START + 10 * number for number in range(5)]})
frames = stored.with_format("numpy")
print("feature:", frames.features["time"].dtype, "one row:", frames[1]["time"].dtype, "rows:", frames[:]["time"].dtype)


def late(row):
    return row["time"] > START + 15


counts = {
    "loop over rows": sum(bool(late(frames[number])) for number in range(5)),
    "filter": len(frames.filter(late)),
    "filter in batches": len(frames.filter(late, batched=True)),
    "filter without a format": len(stored.filter(late)),
    "filter with dtype=float64": len(frames.with_format("numpy", dtype=np.float64).filter(late)),
}
copies = {}
for batched in (False, True):
    copied = frames.map(lambda row: {"copy": row["time"]}, batched=batched).with_format(None)
    copies["map in batches" if batched else "map"] = [time - START for time in copied["copy"]]
print("frames after 15 seconds:", counts)
print("copies of the times:", copies)

assert frames.features["time"].dtype == frames[1]["time"].dtype == "float64" != frames[:]["time"].dtype
assert list(counts.values()) == [3, 0, 0, 3, 3]
assert copies == {"map": [0.0, 10.0, 20.0, 30.0, 40.0], "map in batches": [0.0] * 5}
print("as described")
PYTHON
