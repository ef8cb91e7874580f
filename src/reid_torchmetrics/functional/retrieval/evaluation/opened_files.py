"""What may stand in the place of embeddings: files that a reader has opened, or labels where there is no gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.retrieval.relevance import DECIDING, EXTRA, LABELS

Files: TypeAlias = Sequence[Any]
"""The shards of a side, in order: each has `embeddings` [N, D], and `labels` by their names in `LABELS` or others"""


def are_files(value: object) -> bool:
    """Whether an argument is a list of opened files."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(hasattr(each, "embeddings") and hasattr(each, "labels") for each in value)


def are_labels(value: object) -> bool:
    """Whether an argument is one row of integers or names, and so no embeddings."""
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(isinstance(each, (int, str)) for each in value)
    if isinstance(value, Tensor):
        return value.ndim == 1 and not value.is_floating_point() and not value.is_complex()
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iuU"


def read_files(argument: str, files: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The embeddings of all files, and their labels by the names of arguments, such as `query_identities`.

    A single file stays where it is, mapped; several are copied into one tensor.

    Raises:
        ValueError: a label that is also given, or that some files lack.
    """
    labels: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    names_in_files = dict.fromkeys(name for file in files for name in file.labels)
    for name in names_in_files:
        if name in LABELS and name not in DECIDING:
            continue
        columns = [file.labels[name] for file in files if name in file.labels]
        label = f"{argument}_{name if name in LABELS else EXTRA}"
        if len(columns) < len(files):
            raise ValueError(f"`{argument}` must have `{name}` in all files; got it in {len(columns)} of {len(files)}.")
        if given.get(label) is not None:
            raise ValueError(f"`{label}` must come once; got it, and `{name}` in the files of `{argument}`.")
        if name in LABELS:
            labels[label] = _end_to_end(columns)
        else:
            extra[name] = _end_to_end(columns)
            labels[label] = extra
    first, *others = (file.embeddings[:] for file in files)
    if not others:
        return first, labels
    tensors: list[Tensor] = [tensor for tensor in _arrays.as_tensors(first, *others) if isinstance(tensor, Tensor)]
    return torch.cat(tensors), labels


def _end_to_end(columns: Sequence[Any]) -> Any:
    """Labels of shards, integers, names or positions, one after the other."""
    rows = [row for column in columns for row in column.tolist()]
    if isinstance(rows[0] if rows else 0, list):  # positions
        return torch.tensor(rows, dtype=torch.float64, device="cpu")
    return rows
