"""Means over groups of queries, and of queries drawn at random, one value at a time."""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray


def pooled(
    vectors: NDArray[np.float64], labels: Sequence[Hashable]
) -> tuple[list[Hashable], list[NDArray[np.float64]]]:
    """Return the labels in the order in which they first appear, and the mean unit vector of each."""
    seen = list(dict.fromkeys(labels))
    means = []
    for label in seen:
        total = np.zeros(vectors.shape[1])
        for vector, own in zip(vectors, labels, strict=True):
            if own == label:
                norm = math.sqrt(sum(x * x for x in vector))
                total += vector / (norm or 1.0)
        means.append(total / list(labels).count(label))
    return seen, means


def mean_by(
    values: Sequence[float], labels: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], float, int, int]]:
    """Return for each label, in order: the mean of the values that are numbers, how many they are, and of how many."""
    table = []
    for label in sorted(set(labels)):
        group = [value for value, own in zip(values, labels, strict=True) if own == label]
        valid = [value for value in group if not math.isnan(value)]
        table.append((label, sum(valid) / len(valid) if valid else math.nan, len(valid), len(group)))
    return table


def percentile_interval(
    clusters: Sequence[Sequence[float]], draws: Sequence[Sequence[int]], confidence: float
) -> tuple[float, float]:
    """Return the interval of the mean over all values of the clusters that each draw names."""
    means = []
    for draw in draws:
        values = [value for cluster in draw for value in clusters[cluster]]
        means.append(sum(values) / len(values))
    means.sort()
    return quantile(means, (1 - confidence) / 2), quantile(means, (1 + confidence) / 2)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return what lies at a share of the way from the first to the last value."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
