#!/usr/bin/env bash
# Chroma 1.5.9: `get(ids=...)` returns the vectors in the order in which they were added, not in that of the ids.
#
# One expects: `collection.get(ids=names, include=["embeddings"])` returns the vector of `names[0]` first, as an array
#     that fits `names`, as `query` returns its lists in the order of the queries.
# What happens: the vectors are in the order in which they were added, whatever the order of the ids is. Ids that are
#     not there are left out, so that the array may be shorter. Of 200 vectors that were added in another order one is
#     in the row of its name. The field `ids` of the answer has the order of the vectors.
# Why it matters: vectors are fetched to compare them with the identities of the same names, for re-ranking or for exact
#     numbers beside those of approximate search. Rank-1 falls from 100 % to 5.5 %, and nothing is said.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet chromadb==1.5.9 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import chromadb
import numpy as np
from chromadb.config import Settings

print("chromadb", chromadb.__version__)
generator = np.random.default_rng(0)
names = [f"{number:04}" for number in range(200)]
identities = np.arange(200) % 20
vectors = (np.eye(20)[identities] + 0.02 * generator.standard_normal((200, 20))).astype(np.float32)
order = generator.permutation(200)
client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
collection = client.create_collection("gallery", embedding_function=None)
collection.add(ids=[names[number] for number in order], embeddings=vectors[order])


def rank_1(rows):
    similarity = rows @ rows.T
    np.fill_diagonal(similarity, -np.inf)
    return float((identities[similarity.argmax(1)] == identities).mean())


answer = collection.get(ids=names, include=["embeddings"])
fetched = np.asarray(answer["embeddings"])
in_place = int((fetched == vectors).all(1).sum())
by_name = fetched[np.argsort(answer["ids"])]
few = collection.get(ids=["0150", "0007", "0300", "0003"], include=["embeddings"])
print("rows in the place of their name:", in_place, "Rank-1:", rank_1(fetched), "sorted by name:", rank_1(by_name))
print("asked for 0150, 0007, 0300, 0003:", few["ids"])

assert answer["ids"] == [names[number] for number in order]
assert (fetched == vectors[order]).all()
assert in_place < 5
assert rank_1(fetched) < 0.2
assert rank_1(by_name) == 1
assert sorted(few["ids"]) == ["0003", "0007", "0150"]
print("as described")
PYTHON
