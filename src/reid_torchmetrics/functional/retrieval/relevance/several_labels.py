"""Several labels for each sample, as a matrix [samples, labels] of bools: packed bits, and what a task adds.

Two samples with the labels 0 1 1 0 and 0 1 0 1 share one, so they are relevant for each other.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics._registries import Registry

SEVERAL_LABELS: Registry[Any] = Registry("SEVERAL_LABELS", {})
"""`check_matrix`, which returns a matrix of labels as bools or raises; and `SharedLabels`, which finds the items that
share a label with a query"""
_BITS = 63  # bits of a word that are used: the sign stays free


def is_matrix(value: object) -> bool:
    """Return whether a value has two dimensions, or is a list of lists."""
    if isinstance(value, Tensor):  # at once: `update` is called often
        return value.ndim == 2
    if not isinstance(value, (list, tuple)):
        return getattr(value, "ndim", None) == 2
    first = value[0] if value else None
    return isinstance(first, (list, tuple, set, frozenset)) or getattr(first, "ndim", None) == 1


def check_alike(argument: str, values: Tensor, other_argument: str, other_values: Tensor) -> None:
    """Raise unless both are one number for each sample, or both are matrices with as many labels.

    Raises:
        ValueError: they differ.
    """
    if values.shape[1:] != other_values.shape[1:]:
        raise ValueError(
            f"`{argument}` must have the labels of {other_argument}; got {_describe(values)} for"
            f" {_describe(other_values)}."
        )


def _describe(values: Tensor) -> str:
    return "one number for each sample" if values.ndim == 1 else f"a matrix of {values.shape[1]} labels"


def num_words(num_labels: int) -> int:
    """Return the number of words of 64 bits for the labels of a sample."""
    return -(-num_labels // _BITS)


def to_words(matrix: Bool[Tensor, "samples labels"]) -> Int[Tensor, "samples words"]:
    """Pack the labels of each sample into words of bits: label 64 is bit 1 of word 1."""
    words = torch.zeros((len(matrix), num_words(matrix.shape[1])), dtype=torch.int64, device=matrix.device)
    for bit in range(min(_BITS, matrix.shape[1])):
        columns = matrix[:, bit::_BITS].long()
        words[:, : columns.shape[1]] |= columns << bit
    return words


def from_words(words: Int[Tensor, "samples words"], num_labels: int) -> Bool[Tensor, "samples labels"]:
    """Return the matrix that `to_words` has packed."""
    matrix = torch.zeros((len(words), num_labels), dtype=torch.bool, device=words.device)
    for bit in range(min(_BITS, num_labels)):
        columns = matrix[:, bit::_BITS]
        columns.copy_((words[:, : columns.shape[1]] >> bit & 1).bool())
    return matrix
