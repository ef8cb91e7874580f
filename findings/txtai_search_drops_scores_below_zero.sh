#!/usr/bin/env bash
# txtai 9.14.0: `Embeddings.search(query, 500)` in an exact index of 500 items returns about half of them.
#
# One expects: an exact search for as many items as there are returns all of them, the farthest last.
# What happens: items with a cosine of 0 or less are left out, silently. The index below, `embeddings.ann.search`, has them.
# Why it matters: embeddings that are centered have negative cosines for half of all pairs. Measures of whole lists, such
#     as the rank of the last match, and the recall at a large k see lists that end early for a reason that is no loss of
#     the index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet txtai==9.14.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from txtai import Embeddings

print("txtai", version("txtai"))
generator = np.random.default_rng(0)
rows = generator.standard_normal((501, 16)).astype(np.float32)
rows /= np.linalg.norm(rows, axis=1, keepdims=True)
query, gallery = rows[0], rows[1:]
embeddings = Embeddings({"method": "external", "backend": "numpy"})
embeddings.index([(number, row, None) for number, row in enumerate(gallery)])
found = embeddings.search(query, 500)
(below,) = embeddings.ann.search(query[None], 500)
cosines = gallery @ query
print(f"search: {len(found)} items, the last has {found[-1][1]:.4f}; the index: {len(below)} items")
print(f"items with a cosine above 0: {(cosines > 0).sum()} of 500")

assert len(found) == (cosines > 0).sum() < 300
assert len(below) == 500
print("as described")
PYTHON
