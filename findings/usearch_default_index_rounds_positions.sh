#!/usr/bin/env bash
# usearch 2.26.6: an index stores vectors in half precision unless it is told otherwise, so that places are not found.
#
# One expects: vectors that are given in float32 or float64 are stored so, and exact search finds the nearest of them.
# What happens: `dtype=None` is bfloat16 where the processor has instructions for it, else float16, else float32. Integers
#     above 256 are rounded in bfloat16: a northing of 4,178,000 m to a multiple of 16,384 m. All places of a town are one
#     point, the distances are 0.0, and which of them is returned has nothing to do with the query.
# Why it matters: of 1,000 places with a photo within 7 m, exact search finds 2 and not 995, and an index of features with
#     a large common part likewise loses neighbors, by the processor on which it was made. Pass `dtype="f32"`, and read
#     `index.dtype`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet usearch==2.26.6 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import usearch
from usearch.index import Index, ScalarKind

print("usearch", usearch.__version__)
rng = np.random.default_rng(0)
places = rng.uniform([550_000, 4_178_000], [553_000, 4_181_000], (1000, 2))  # easting and northing
photos = places + rng.uniform(-5, 5, places.shape)
numbers = np.arange(1000)


def share_found(dtype):
    """Return the type of an index, and the share of the photos whose nearest place is theirs."""
    index = Index(ndim=2, metric="l2sq", dtype=dtype)
    index.add(numbers, places)
    found = index.search(photos, 1, exact=True)
    return index.dtype, float((found.keys[:, 0] == numbers).mean())


squared = ((photos[:, None] - places) ** 2).sum(-1)
exact = float((squared.argmin(1) == numbers).mean())
print(f"NumPy: {exact:.1%} of the photos are nearest to their place")
default_kind, default = share_found(None)
_, single = share_found("f32")
_, brain = share_found("bf16")
print(f"usearch: {default:.1%} with the default, which is {default_kind} here; {single:.1%} with float32")

assert exact == single == 0.995
assert brain < 0.02
if default_kind != ScalarKind.F32:
    assert default < 0.02
print("as described")
PYTHON
