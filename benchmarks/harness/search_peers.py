"""What people use for leave-one-out, places and codes: each from the same tensors to the same numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

RADIUS = 25.0
"""meters from a place within which an image shows it"""
CUTOFFS = (1, 5, 10, 20)


def metric_learning(embeddings: Tensor, identities: Tensor) -> dict[str, float]:
    """MAP@R, R-precision and precision at 1 by pytorch-metric-learning, with lists of faiss."""
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator  # noqa: PLC0415

    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", device=torch.device("cpu"))
    found = calculator.get_accuracy(embeddings, identities)
    return {"hit_rate_1": found[names[0]], "r_precision": found[names[1]], "map_at_r": found[names[2]]}


def places(query: Tensor, gallery: Tensor, query_positions: Tensor, gallery_positions: Tensor) -> dict[str, float]:
    """Hit rates of places by a flat index of faiss and by scikit-learn's search within a radius."""
    import faiss  # noqa: PLC0415
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    neighbors = NearestNeighbors(n_jobs=1).fit(gallery_positions.numpy())
    right = neighbors.radius_neighbors(query_positions.numpy(), radius=RADIUS, return_distance=False)
    index = faiss.IndexFlatL2(query.shape[1])
    index.add(gallery.numpy())
    _, lists = index.search(query.numpy(), max(CUTOFFS))
    hits = np.array([np.isin(listed, items) for listed, items in zip(lists, right, strict=True)])
    is_valid = np.array([len(items) > 0 for items in right])
    return {f"hit_rate_{k}": float(hits[is_valid, :k].any(axis=1).mean()) for k in CUTOFFS}


def codes(query: Tensor, gallery: Tensor, query_classes: Tensor, gallery_classes: Tensor, k: int | None) -> float:
    """Mean average precision of codes by sorting the distances of a query at a time, as hashing papers do."""
    items, classes = gallery.numpy(), gallery_classes.numpy()
    values = []
    for code, label in zip(query.numpy(), query_classes.numpy(), strict=True):
        distance = 0.5 * (len(code) - items @ code)
        is_hit = (classes == label)[np.argsort(distance)][:k]
        ranks = np.flatnonzero(is_hit) + 1.0
        values.append(np.mean(np.arange(1, len(ranks) + 1) / ranks) if len(ranks) else 0.0)
    return float(np.mean(values))
