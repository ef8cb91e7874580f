"""Several labels for each sample, as a matrix [samples, labels] of bools: checks, bits to send, and labels in common.

Two samples with the labels 0 1 1 0 and 0 1 0 1 have one in common, and are relevant for each other. The numbers of
labels in common of a block of pairs are a product of matrices of 0 and 1, exact in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

_BITS = 63  # of a word: the sign stays free
_PAIRS_AT_A_TIME = 1 << 21  # of a query and a gallery item, whose labels in common are counted
_LEAST_QUERIES = 32  # that share one pass over a large gallery
_OWN = 0.5  # above 0, and as an integer 0
_SHAPES = "one number for each sample, [N], or bools or 0 and 1 for each sample and label, [N, labels]"
_RAGGED = "lists of unequal lengths; write True for label l of sample n into the cell [n, l] of a matrix of False"


def is_matrix(value: object) -> bool:
    """Whether a value has two dimensions, or is a list of lists."""
    if isinstance(value, Tensor):  # at once: `update` is called often
        return value.ndim == 2
    if not isinstance(value, (list, tuple)):
        return getattr(value, "ndim", None) == 2
    first = value[0] if value else None
    return isinstance(first, (list, tuple, set, frozenset)) or getattr(first, "ndim", None) == 1


def check_matrix(
    argument: str, value: object, length: int | None = None, device: Any = None
) -> Bool[Tensor, "N labels"]:
    """Raise unless `value` is a matrix of bools, or of 0 and 1, of `length` samples and on `device`; return bools.

    One column of numbers is refused: it may as well be one identity for each sample.

    Raises:
        TypeError: another dtype, or no matrix of numbers.
        ValueError: another shape or device, or other numbers.
    """
    if isinstance(value, (list, tuple)) and len({getattr(row, "shape", None) for row in value}) == 1:
        value = torch.stack(list(value)) if isinstance(value[0], Tensor) else value
    (matrix,) = _arrays.as_tensors(value, device=device)
    if not isinstance(matrix, Tensor) or matrix.ndim != 2:
        raise ValueError(f"`{argument}` must have {_SHAPES}; got {_RAGGED}.")
    if matrix.dtype not in (torch.bool, *_checks.INTEGER_DTYPES, *_checks.FLOATING_DTYPES):
        raise TypeError(f"`{argument}` must have {_SHAPES}; got {matrix.dtype}.")
    size = "N" if length is None else length
    shape = list(matrix.shape)
    if length not in (None, len(matrix)) or shape[1] == 0:
        raise ValueError(f"`{argument}` must have shape [{size}], or [{size}, 1 label or more]; got {shape}.")
    if device not in (None, matrix.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {matrix.device}.")
    if matrix.dtype == torch.bool:
        return matrix
    if shape[1] == 1:
        raise ValueError(
            f"`{argument}` must have shape [{size}] for one identity of each sample, or bools for a single label; got"
            f" {matrix.dtype} of shape {shape}, so write `[:, 0]` or `== 1` behind it."
        )
    is_known = (matrix == 0) | (matrix == 1)
    if not bool(is_known.all()):
        raise ValueError(f"`{argument}` must have {_SHAPES}; got {matrix[~is_known][0].item()} in a matrix {shape}.")
    return matrix == 1


def check_alike(argument: str, values: Tensor, others: str, before: Tensor) -> None:
    """Raise unless both are one number for each sample, or both have as many labels.

    Raises:
        ValueError: they differ.
    """
    if values.shape[1:] != before.shape[1:]:
        came, earlier = (_in_words(labels) for labels in (values, before))
        raise ValueError(f"`{argument}` must have the labels of {others}; got {came} for {earlier}.")


def _in_words(values: Tensor) -> str:
    return "one number for each sample" if values.ndim == 1 else f"a matrix of {values.shape[1]} labels"


def num_words(num_labels: int) -> int:
    """Number of words of 64 bits for the labels of a sample."""
    return -(-num_labels // _BITS)


def to_words(matrix: Bool[Tensor, "samples labels"]) -> Int[Tensor, "samples words"]:
    """The labels of each sample as bits: label 64 is bit 1 of word 1."""
    words = torch.zeros((len(matrix), num_words(matrix.shape[1])), dtype=torch.int64, device=matrix.device)
    for bit in range(min(_BITS, matrix.shape[1])):
        columns = matrix[:, bit::_BITS].long()
        words[:, : columns.shape[1]] |= columns << bit
    return words


def from_words(words: Int[Tensor, "samples words"], num_labels: int) -> Bool[Tensor, "samples labels"]:
    """The matrix that `to_words` was given."""
    matrix = torch.zeros((len(words), num_labels), dtype=torch.bool, device=words.device)
    for bit in range(min(_BITS, num_labels)):
        columns = matrix[:, bit::_BITS]
        columns.copy_((words[:, : columns.shape[1]] >> bit & 1).bool())
    return matrix


@dataclass(frozen=True)
class SharedLabels:
    """The labels of queries and of kept gallery items; the items that share one with a query are found block by block.

    They are never held for all queries, as they may be a third of the gallery for each. A query's own item is found,
    too, also if it has no label.
    """

    query: Bool[Tensor, "queries labels"]
    gallery: Bool[Tensor, "kept labels"]
    own_column: Int[Tensor, " queries"] | None = None
    """the query's own kept position, -1 where it has none"""

    def lengths(self) -> Int[Tensor, " queries"]:
        """The number of kept items that share a label with each query."""
        lengths = torch.zeros(len(self.query), dtype=torch.int64, device=self.query.device)
        for rows, _, num_shared in self._blocks(slice(0, len(self.query))):
            lengths[rows] += num_shared.count_nonzero(dim=1)
        return lengths

    def entries(self, rows: slice) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
        """The kept items that share a label with each of some queries, query by query and ascending, and how many.

        How many labels they share is the second tensor.
        """
        none = torch.empty(0, dtype=torch.int64, device=self.query.device)
        query, item, number = [none], [none], [none]
        for block, columns, num_shared in self._blocks(rows):
            row, column = num_shared.nonzero(as_tuple=True)
            query.append(row + block.start)
            item.append(column + columns.start)
            number.append(num_shared[row, column].long())
        # Blocks of the same queries follow each other; a stable sort puts the items of a query side by side.
        entries = torch.cat(item), torch.cat(number)
        if len(self.gallery) <= self._size_of_blocks[1]:
            return entries
        order = torch.cat(query).argsort(stable=True)
        return entries[0][order], entries[1][order]

    def numbers(self, rows: slice) -> Int[Tensor, "queries kept"]:
        """How many labels each kept item shares with some queries, few enough for a matrix."""
        numbers = torch.empty((rows.stop - rows.start, len(self.gallery)), dtype=torch.int16, device=self.query.device)
        for block, columns, num_shared in self._blocks(rows):
            numbers[block.start - rows.start : block.stop - rows.start, columns] = num_shared
        return numbers

    def are_shared(self) -> Bool[Tensor, " kept"]:
        """Mark the kept items that share a label with some query."""
        return (self.gallery & self.query.any(0)).any(1)

    @property
    def _size_of_blocks(self) -> tuple[int, int]:
        """Queries and gallery items of a block."""
        num_queries = max(_LEAST_QUERIES, _PAIRS_AT_A_TIME // max(1, len(self.gallery)))
        return num_queries, max(1, _PAIRS_AT_A_TIME // num_queries)

    def _blocks(self, rows: slice) -> Iterator[tuple[slice, slice, Float[Tensor, "queries items"]]]:
        """Blocks of queries and gallery items, with the number of labels that each pair shares."""
        num_queries, num_items = self._size_of_blocks
        for part in segments.ranges(rows.stop - rows.start, num_queries):
            block = slice(rows.start + part.start, rows.start + part.stop)
            query = self.query[block].float()
            for columns in segments.ranges(len(self.gallery), num_items):
                num_shared = query @ self.gallery[columns].float().T
                self._mark_own(num_shared, block, columns)
                yield block, columns, num_shared

    def _mark_own(self, num_shared: Float[Tensor, "queries items"], rows: slice, columns: slice) -> None:
        """Put a number above 0 at the own item of each query that has no label."""
        if self.own_column is None:
            return
        own = self.own_column[rows]
        row = ((own >= columns.start) & (own < columns.stop)).nonzero()[:, 0]
        column = own[row] - columns.start
        num_shared[row, column] = num_shared[row, column].clamp(min=_OWN)
