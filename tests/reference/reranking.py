"""k-reciprocal re-ranking and query expansion from their definitions: sets and dictionaries, one item at a time.

The package is compared with this module, so nothing here may come from the package.
"""

import math
from collections.abc import Sequence

Vector = Sequence[float]
POWERS = {"euclidean": 0.5, "squared_euclidean": 1.0, "quartic_euclidean": 2.0}


def squared_distance(first: Vector, second: Vector) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def cosine(first: Vector, second: Vector) -> float:
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    norm = math.hypot(*first) * math.hypot(*second)
    return product / norm if norm else 0.0


def normalized(vector: Vector) -> list[float]:
    norm = math.hypot(*vector)
    return [value / norm if norm else 0.0 for value in vector]


def reranked_distances(
    query: list[Vector],
    gallery: list[Vector],
    *,
    k1: int,
    k2: int,
    weight: float,
    distance: str = "squared_euclidean",
    normalize: bool = False,
) -> list[list[float]]:
    """Final distances of Zhong et al., CVPR 2017, of every query to every gallery item."""
    items = [normalized(item) if normalize else list(item) for item in [*query, *gallery]]
    everyone = range(len(items))
    original = [[squared_distance(p, q) for q in items] for p in items]
    order = [sorted(everyone, key=lambda q, p=p: (q != p, original[p][q], q)) for p in everyone]
    for p in everyone:
        largest = max(original[p])
        original[p] = [(d / largest if largest else 0.0) ** POWERS[distance] for d in original[p]]

    def reciprocal(p: int, k: int) -> set[int]:
        return {q for q in order[p][: k + 1] if p in order[q][: k + 1]}

    encodings = []
    for p in everyone:
        members = reciprocal(p, k1)
        expanded = set(members)
        for q in members:
            candidates = reciprocal(q, round(k1 / 2))
            if len(candidates & members) > 2 / 3 * len(candidates):
                expanded |= candidates
        weights = {q: math.exp(-original[p][q]) for q in expanded}
        encodings.append({q: w / math.fsum(weights.values()) for q, w in weights.items()})
    encodings = [_mean([encodings[q] for q in order[p][:k2]]) for p in everyone]

    final = []
    for p in range(len(query)):
        row = []
        for g in range(len(query), len(items)):
            keys = encodings[p].keys() | encodings[g].keys()
            pairs = [(encodings[p].get(r, 0.0), encodings[g].get(r, 0.0)) for r in keys]
            jaccard = 1 - math.fsum(map(min, pairs)) / math.fsum(map(max, pairs))
            row.append((1 - weight) * jaccard + weight * original[p][g])
        final.append(row)
    return final


def _mean(rows: list[dict[int, float]]) -> dict[int, float]:
    keys = {key for row in rows for key in row}
    return {key: math.fsum(row.get(key, 0.0) for row in rows) / len(rows) for key in keys}


def expanded_by(item: Vector, others: list[Vector], *, k: int, alpha: float) -> list[float]:
    """The mean of an item and its `k` nearest others, weighted by their cosine to the power `alpha`."""
    similarity = [cosine(item, other) for other in others]
    nearest = sorted(range(len(others)), key=lambda i: (-similarity[i], i))[:k]
    weights = [max(0.0, similarity[i]) ** alpha for i in nearest]
    return [
        (value + math.fsum(w * others[i][axis] for w, i in zip(weights, nearest, strict=True))) / (1 + len(nearest))
        for axis, value in enumerate(item)
    ]


def expanded_set(items: list[Vector], *, k: int, alpha: float) -> list[list[float]]:
    """Every item, expanded by the others."""
    return [expanded_by(item, items[:i] + items[i + 1 :], k=k, alpha=alpha) for i, item in enumerate(items)]
