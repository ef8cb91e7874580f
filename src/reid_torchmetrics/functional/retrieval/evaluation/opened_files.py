"""Arguments in the place of embeddings: files that a reader has opened, or labels where there is no gallery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from reid_torchmetrics import _arrays

Files: TypeAlias = Sequence[Any]
"""The shards of a side, in order: each has `embeddings` [N, D], and `labels` by their names in `LABELS` or others"""


def are_files(value: object) -> bool:
    """Return whether an argument is a list of opened files."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(hasattr(file, "embeddings") and hasattr(file, "labels") for file in value)


def are_labels(value: object, query: object) -> bool:
    """Return whether an argument beside the queries is labels, and so no gallery: a row of values, or a label matrix.

    A matrix of integers or bools is labels unless the queries are codes of the same width.
    """
    if are_files(value):
        return False
    value, query = _arrays.as_tensors(_arrays.as_array(value), _arrays.as_array(query))
    if isinstance(value, (list, tuple)):  # of strings, or of numbers with None
        return len(value) > 0 and all(label is None or isinstance(label, (str, int, float)) for label in value)
    if isinstance(value, np.ndarray):  # of strings or objects
        return value.ndim == 1
    if not isinstance(value, Tensor) or value.is_complex():
        return False
    if value.ndim != 2:
        return value.ndim == 1 and len(value) > 0
    are_codes = isinstance(query, Tensor) and not query.is_floating_point()
    return not value.is_floating_point() and not (are_codes and query.shape[1:] == value.shape[1:])
