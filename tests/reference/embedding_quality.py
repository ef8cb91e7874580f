"""How embeddings are spread, by the definitions of the papers: loops over samples, pairs and dimensions."""

import math

import numpy as np


def rankme(embeddings: np.ndarray) -> float:
    """Garrido et al., equations 1 and 2, with their 1e-7: the singular values of the matrix, not of its Gram matrix."""
    values = np.linalg.svd(embeddings, compute_uv=False)
    shares = [value / sum(values) + 1e-7 for value in values]
    return math.exp(-sum(share * math.log(share) for share in shares))


def dead_dimensions(embeddings: np.ndarray) -> float:
    """The share of columns that have one value, but for a millionth of it."""
    dead = [bool(np.ptp(column) <= 1e-6 * np.abs(column).max()) for column in embeddings.T]
    return sum(dead) / len(dead)


def norms(embeddings: np.ndarray) -> list[float]:
    return [math.sqrt(sum(value * value for value in row)) for row in embeddings.tolist()]


def units(embeddings: np.ndarray) -> list[np.ndarray]:
    return [row / norm for row, norm in zip(embeddings, norms(embeddings), strict=True)]


def alignment(embeddings: np.ndarray, identities: list[int]) -> float:
    """Wang and Isola: the mean of |x - y|^2, alpha = 2, over the pairs of one identity."""
    rows = units(embeddings)
    pairs = [
        float(np.square(rows[one] - rows[two]).sum())
        for one in range(len(rows))
        for two in range(one)
        if identities[one] == identities[two] >= 0
    ]
    return sum(pairs) / len(pairs)


def uniformity(embeddings: np.ndarray) -> float:
    """Wang and Isola: the logarithm of the mean of exp(-t |x - y|^2), t = 2, over all pairs."""
    rows = units(embeddings)
    pairs = [
        math.exp(-2 * float(np.square(rows[one] - rows[two]).sum())) for one in range(len(rows)) for two in range(one)
    ]
    return math.log(sum(pairs) / len(pairs))


def hubness(embeddings: np.ndarray, k: int = 10) -> float:
    """Radovanovic et al.: the standardized third moment of N_k, how often a sample is among the k nearest of others."""
    rows = units(embeddings)
    occurrence = [0] * len(rows)
    for one, row in enumerate(rows):
        others = [other for other in range(len(rows)) if other != one]
        for other in sorted(others, key=lambda other: float(np.square(row - rows[other]).sum()))[:k]:
            occurrence[other] += 1
    mean = sum(occurrence) / len(occurrence)
    second, third = (sum((each - mean) ** power for each in occurrence) / len(occurrence) for power in (2, 3))
    return third / second**1.5 if second else math.nan


def quality(embeddings: np.ndarray, identities: list[int]) -> dict[str, float]:
    """All numbers, by name."""
    lengths = norms(embeddings)
    mean = sum(lengths) / len(lengths)
    return {
        "rankme": rankme(embeddings),
        "dead_dimensions": dead_dimensions(embeddings),
        "norm_mean": mean,
        "norm_std": math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths)),
        "alignment": alignment(embeddings, identities),
        "uniformity": uniformity(embeddings),
        "hubness": hubness(embeddings),
    }
