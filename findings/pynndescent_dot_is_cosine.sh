#!/usr/bin/env bash
# PyNNDescent 0.7.0: `metric="dot"` searches by cosine; the inner product is called "inner_product".
#
# One expects: "dot" finds the items with the largest dot product, as the metric of this name does in faiss (IP), LanceDB,
#     Qdrant and Annoy.
# What happens: vectors are divided by their norms first. Of 10 neighbors of 50 queries nearly all are the nearest by
#     cosine, and 44 % are among those with the largest dot product.
# Why it matters: for embeddings whose norm says something, such as those of recommenders, an index by "dot" answers
#     another question, and its recall against exact products is low for a reason that no search parameter changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pynndescent==0.7.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pynndescent import NNDescent

print("pynndescent", version("pynndescent"))
generator = np.random.default_rng(0)
gallery = generator.standard_normal((500, 16)) * generator.uniform(0.2, 5, (500, 1))
gallery = gallery.astype(np.float32)
query = generator.standard_normal((50, 16)).astype(np.float32)
products = query @ gallery.T
nearest = {"dot product": products, "cosine": products / np.linalg.norm(gallery, axis=1)}
shares = {}
for metric in ("dot", "inner_product"):
    found, _ = NNDescent(gallery, metric=metric, n_neighbors=30, random_state=0).query(query, 10, epsilon=0.5)
    for name, scores in nearest.items():
        exact = np.argsort(-scores, axis=1)[:, :10]
        shares[metric, name] = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact)])
        print(f"metric={metric!r}: {shares[metric, name]:.3f} of the 10 nearest by {name}")

assert shares["dot", "cosine"] > 0.99 > 0.6 > shares["dot", "dot product"]
assert shares["inner_product", "dot product"] > 0.99
print("as described")
PYTHON
