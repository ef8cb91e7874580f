"""Several labels for each sample, as a matrix [samples, labels] of bools: checks, and shared labels.

The numbers of shared labels for a block of pairs are a product of matrices of 0 and 1, exact in float32.
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
from reid_torchmetrics.functional.retrieval.relevance import BITS_OF_A_WORD, SEVERAL_LABELS, width_of

_PAIRS_AT_A_TIME = 1 << 21  # pairs of a query and a gallery item in a block
_LEAST_QUERIES = 32  # queries that share one pass over a large gallery
_OWN = 0.5  # marks the query's own item if it shares no label: above 0, but 0 as an integer
_SHAPES = "one number for each sample, [N], or bools or 0 and 1 for each sample and label, [N, labels]"
_REMEDY = "; write True for label l of sample n into the cell [n, l] of a matrix of False"


def check_matrix(
    argument: str, value: object, length: int | None = None, device: Any = None
) -> Bool[Tensor, "N labels"]:
    """Return a matrix of bools, or of 0 and 1, as bools; raise unless it has `length` samples and is on `device`.

    One column of numbers is refused, because it may as well be one identity for each sample.

    Raises:
        TypeError: a wrong dtype, or not a matrix of numbers.
        ValueError: a wrong shape or device, or numbers other than 0 and 1.
    """
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        shapes = {getattr(row, "shape", None) for row in value}
        if len(shapes) == 1:
            value = torch.stack(list(value))
    (matrix,) = _arrays.as_tensors(value, device=device)
    if not isinstance(matrix, Tensor) or matrix.ndim != 2:
        raise ValueError(f"`{argument}` must have {_SHAPES}; got {_describe_lists(value)}.")
    is_number = matrix.dtype in (torch.bool, *_checks.INTEGER_DTYPES, *_checks.FLOATING_DTYPES)
    if matrix.layout != torch.strided or not is_number:
        got = matrix.dtype if matrix.layout == torch.strided else f"{matrix.layout}, so write `.to_dense()`"
        raise TypeError(f"`{argument}` must have {_SHAPES}; got {got}.")
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
    is_valid = (matrix == 0) | (matrix == 1)
    if not bool(is_valid.all()):
        raise ValueError(f"`{argument}` must have {_SHAPES}; got {matrix[~is_valid][0].item()} in a matrix {shape}.")
    return matrix == 1


def _describe_lists(value: object) -> str:
    """Return what is no matrix, with what to write instead."""
    if hasattr(value, "toarray"):
        return f"{type(value).__name__}, so write `.toarray()`"
    are_sets = isinstance(value, (list, tuple)) and any(isinstance(row, (set, frozenset)) for row in value)
    return ("sets" if are_sets else "lists of unequal lengths") + _REMEDY


@dataclass(frozen=True)
class SharedLabels:
    """The labels of queries and of kept gallery items, to find the items that share a label with a query.

    Such items are found block by block, and never stored for all queries, as they may be a third of the gallery for
    each query. A query's own item is among them even if it has no label.
    """

    query: Bool[Tensor, "queries labels"]
    gallery: Bool[Tensor, "kept labels"]
    own_column: Int[Tensor, " queries"] | None = None
    """the query's own kept position, -1 where it has none"""

    def lengths(self) -> Int[Tensor, " queries"]:
        """Return the number of kept items that share a label with each query."""
        lengths = torch.zeros(len(self.query), dtype=torch.int64, device=self.query.device)
        for rows, _, num_shared in self._blocks(slice(0, len(self.query))):
            lengths[rows] += num_shared.count_nonzero(dim=1)
        return lengths

    def entries(self, rows: slice) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
        """Find the kept items that share a label with each of some queries, query by query and ascending.

        Returns:
            The items, and the number of labels that each shares with its query.
        """
        none = torch.empty(0, dtype=torch.int64, device=self.query.device)
        query_parts, item_parts, number_parts = [none], [none], [none]
        for block, columns, num_shared in self._blocks(rows):
            row, column = num_shared.nonzero(as_tuple=True)
            query_parts.append(row + block.start)
            item_parts.append(column + columns.start)
            number_parts.append(num_shared[row, column].long())
        items = torch.cat(item_parts)
        numbers = torch.cat(number_parts)
        _, num_items = self._block_size
        if len(self.gallery) <= num_items:
            return items, numbers
        # The same queries have several blocks; a stable sort makes the items of a query adjacent, still ascending.
        order = torch.cat(query_parts).argsort(stable=True)
        return items[order], numbers[order]

    def numbers(self, rows: slice) -> Int[Tensor, "queries kept"]:
        """Return the number of labels that each kept item shares with some queries, few enough for a matrix."""
        numbers = torch.empty((rows.stop - rows.start, len(self.gallery)), dtype=torch.int16, device=self.query.device)
        for block, columns, num_shared in self._blocks(rows):
            numbers[block.start - rows.start : block.stop - rows.start, columns] = num_shared
        return numbers

    def are_shared(self) -> Bool[Tensor, " kept"]:
        """Mark the kept items that share a label with some query."""
        return (self.gallery & self.query.any(0)).any(1)

    @property
    def _block_size(self) -> tuple[int, int]:
        """Return the numbers of queries and of gallery items in a block."""
        num_queries = max(_LEAST_QUERIES, _PAIRS_AT_A_TIME // max(1, len(self.gallery)))
        return num_queries, max(1, _PAIRS_AT_A_TIME // num_queries)

    def _blocks(self, rows: slice) -> Iterator[tuple[slice, slice, Float[Tensor, "queries items"]]]:
        """Iterate over blocks of queries and gallery items, with the number of labels that each pair shares."""
        num_queries, num_items = self._block_size
        for part in segments.ranges(rows.stop - rows.start, num_queries):
            block = slice(rows.start + part.start, rows.start + part.stop)
            query = self.query[block].float()
            for columns in segments.ranges(len(self.gallery), num_items):
                num_shared = query @ self.gallery[columns].float().T
                self._mark_own(num_shared, block, columns)
                yield block, columns, num_shared

    def _mark_own(self, num_shared: Float[Tensor, "queries items"], rows: slice, columns: slice) -> None:
        """Set a number above 0 for each query's own item in a block, even if it has no label."""
        if self.own_column is None:
            return
        own_column = self.own_column[rows]
        is_inside = (own_column >= columns.start) & (own_column < columns.stop)
        row = is_inside.nonzero()[:, 0]
        column = own_column[row] - columns.start
        num_shared[row, column] = num_shared[row, column].clamp(min=_OWN)


def to_words(matrix: Bool[Tensor, "samples labels"]) -> Int[Tensor, "samples words"]:
    """Pack the labels of each sample into words of bits: label 64 is bit 1 of word 1."""
    num_words = width_of(matrix)
    words = torch.zeros((len(matrix), num_words), dtype=torch.int64, device=matrix.device)
    for bit in range(min(BITS_OF_A_WORD, matrix.shape[1])):
        columns = matrix[:, bit::BITS_OF_A_WORD].long()
        words[:, : columns.shape[1]] |= columns << bit
    return words


def from_words(words: Int[Tensor, "samples words"], num_labels: int) -> Bool[Tensor, "samples labels"]:
    """Return the matrix that `to_words` has packed."""
    matrix = torch.zeros((len(words), num_labels), dtype=torch.bool, device=words.device)
    for bit in range(min(BITS_OF_A_WORD, num_labels)):
        columns = matrix[:, bit::BITS_OF_A_WORD]
        columns.copy_((words[:, : columns.shape[1]] >> bit & 1).bool())
    return matrix


SEVERAL_LABELS["check_matrix"] = check_matrix
SEVERAL_LABELS["SharedLabels"] = SharedLabels
SEVERAL_LABELS["to_words"] = to_words
SEVERAL_LABELS["from_words"] = from_words
