#!/usr/bin/env bash
# polars 2.1.0: the difference of two ranks is never below 0: rank 1 minus rank 4 is 4294967293.
#
# One expects: `before - after`, for two columns that `rank("min")` made, is above 0 for queries that got better and
#     below 0 for those that got worse, as in pandas and SciPy.
# What happens: `rank` returns unsigned numbers of 32 bits, except with its default method "average", and so do
#     `arg_sort`, `len` and row numbers. A difference below 0 becomes one near 2^32, and its `sign` is 1. Of 100 queries
#     50 get better and 50 get worse, and 100 of them count as better.
# Why it matters: wins and losses, the sign test and changes of ranks are computed from such differences. A mean is so
#     large that one sees it, but a number of wins is not, and nothing is said. `diff` within one column returns signed
#     numbers, and `cast(pl.Int64)` before the difference gives the right ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet polars==2.1.0 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import polars as pl
from scipy.stats import rankdata

print("polars", pl.__version__)
QUERIES, ITEMS = 100, 20
generator = np.random.default_rng(0)
scores = np.stack([generator.permutation(ITEMS) for _ in range(QUERIES)]).astype(float)
scores[:, 0] = 10.5  # the item that is right, in the middle
changed = scores.copy()
changed[::2, 0], changed[1::2, 0] = 15.5, 5.5  # better for half of the queries, and worse for the others
table = pl.DataFrame(
    {
        "query": np.repeat(np.arange(QUERIES), ITEMS),
        "item": np.tile(np.arange(ITEMS), QUERIES),
        "before": scores.ravel(),
        "after": changed.ravel(),
    }
)


def counts(kind=None, **options):
    ranks = [pl.col(name).rank(descending=True, **options).over("query") for name in ("before", "after")]
    ranks = [rank if kind is None else rank.cast(kind) for rank in ranks]
    right = table.with_columns(change=ranks[0] - ranks[1]).filter(pl.col("item") == 0)["change"]
    return right.dtype, (right > 0).sum(), (right < 0).sum(), right.sign().sum()


changes = np.array([rankdata(-one)[0] - rankdata(-other)[0] for one, other in zip(scores, changed, strict=True)])
found = {
    "min": counts(method="min"),
    "ordinal": counts(method="ordinal"),
    "average": counts(method="average"),
    "min, signed": counts(pl.Int64, method="min"),
}
print("SciPy: better", (changes > 0).sum(), "worse", (changes < 0).sum())
for name, (kind, better, worse, signs) in found.items():
    print(f"{name}: {kind}, better {better}, worse {worse}, sum of signs {signs}")

assert ((changes > 0).sum(), (changes < 0).sum()) == (50, 50)
assert found["min"] == found["ordinal"] == (pl.UInt32, 100, 0, 100)
assert found["average"][1:] == found["min, signed"][1:] == (50, 50, 0)
print("as described")
PYTHON
