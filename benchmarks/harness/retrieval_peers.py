"""What others do where ours ranks or lists: each from the same tensors to the mean average precision or to lists."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch

from harness.problems import Problem


@functools.cache
def _compiled_rule() -> Callable[..., float]:
    """A loop of fast-reid's form over sorted rows, compiled."""
    import numba  # noqa: PLC0415

    @numba.njit
    def rule(order, query_identities, gallery_identities, query_cameras, gallery_cameras):
        total, counted = 0.0, 0
        for q in range(order.shape[0]):
            kept, hits, precisions = 0, 0, 0.0
            for column in order[q]:
                same = gallery_identities[column] == query_identities[q]
                if same and gallery_cameras[column] == query_cameras[q]:
                    continue
                kept += 1
                if same:
                    hits += 1
                    precisions += hits / kept
            if hits:
                total += precisions / hits
                counted += 1
        return total / max(1, counted)

    return rule


def _distances(problem: Problem) -> np.ndarray:
    query, gallery, *_ = problem
    return (1 - torch.nn.functional.normalize(query) @ torch.nn.functional.normalize(gallery).T).numpy()


def sorted_and_compiled(problem: Problem) -> float:
    """A distance matrix, `argsort`, and a compiled loop over the queries that finds the average precision alone."""
    return _compiled_rule()(np.argsort(_distances(problem), axis=1), *(label.numpy() for label in problem[2:]))


def faiss_lists(problem: Problem, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `k` of a flat index, which of them are right, and the first right one; junk stays in the lists."""
    import faiss  # noqa: PLC0415

    query, gallery, *labels = problem
    query_identities, gallery_identities, query_cameras, gallery_cameras = (label.numpy() for label in labels)
    index = faiss.IndexFlatIP(query.shape[1])
    index.add(torch.nn.functional.normalize(gallery).numpy())
    _, columns = index.search(torch.nn.functional.normalize(query).numpy(), min(k, len(gallery)))
    right = gallery_identities[columns] == query_identities[:, None]
    right &= gallery_cameras[columns] != query_cameras[:, None]
    return columns, np.where(right.any(1), 1 + right.argmax(1), 0)
