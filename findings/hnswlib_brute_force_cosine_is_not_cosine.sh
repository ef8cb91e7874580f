#!/usr/bin/env bash
# hnswlib 0.8.0: the distances of brute-force search in the space "cosine" are below 0, and no cosine distances.
#
# One expects: `BFIndex("cosine", dim)` returns 1 - cos, between 0 and 2, as `Index("cosine", dim)` of the same package.
# What happens: `BFIndex` normalizes the items, but not the queries. Its distance is 1 - |q| cos: about -2 for the nearest
#     item where 0.28 is right. `Index` normalizes both. The order is the same.
# Why it matters: a threshold on the distance, such as for duplicates or for an open set, that was chosen with one of both
#     classes fails with the other one, and the brute-force numbers are what an approximate index is checked against.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet hnswlib==0.8.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import hnswlib
import numpy as np

print("hnswlib", version("hnswlib"))
generator = np.random.default_rng(0)
gallery = generator.standard_normal((500, 16)).astype(np.float32)
query = generator.standard_normal((50, 16)).astype(np.float32)
brute_force = hnswlib.BFIndex("cosine", 16)
brute_force.init_index(500)
brute_force.add_items(gallery)
graph = hnswlib.Index("cosine", 16)
graph.init_index(500, ef_construction=400, M=32, random_seed=0)
graph.add_items(gallery, num_threads=1)
graph.set_ef(400)
norms = np.linalg.norm(query, axis=1, keepdims=True)
cosines = query @ gallery.T / norms / np.linalg.norm(gallery, axis=1)
items, brute_distances = brute_force.knn_query(query, 3)
same_items, graph_distances = graph.knn_query(query, 3)
right = 1 - np.take_along_axis(cosines, items.astype(np.int64), 1)
print("brute force:", brute_distances[0], "graph:", graph_distances[0], "1 - cos:", right[0])

assert (items == same_items).all()
assert np.allclose(graph_distances, right, atol=1e-5)
assert (brute_distances < 0).all()
assert np.allclose(brute_distances, 1 - norms * (1 - right), atol=1e-4)
print("as described")
PYTHON
