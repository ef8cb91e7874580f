"""All pairs of the items of one set, where each pair is multiplied once.

A block of products serves its rows as queries and, transposed, its columns. Only the blocks on the diagonal and above
it are multiplied. Scores that can be compared between queries may differ in their last digit between the two
directions, as they are finished in another order, so both directions are looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce
from math import isqrt
from typing import TypeVar, final

import torch
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, SymmetricScores

Result = TypeVar("Result")

_MOST_ITEMS = 2016  # in a block: a sort of more pairs leaves the cache
_UNIT = 48  # items; a block has a multiple of it
_FEWEST_BLOCKS = 3
_FEWEST_DIMENSIONS = 96
_BYTES_PER_PAIR = 8  # masks and marks, besides the product, the transposed one, and a copy that is sorted
_MOST_BLOCKS = 2  # at a time
_PAIRS_AT_A_TIME = 16  # of blocks; they are shared among threads


@final
class SymmetricPairs:
    """The pairs of a leave-one-out problem, in blocks that are multiplied once for both directions."""

    def __init__(self, scores: Scores, products: SymmetricScores, relevance: Relevance) -> None:
        """Take scores and relevance of a problem that `find_symmetric_pairs` has examined."""
        self._scores, self._products, self._relevance = scores, products, relevance
        self._blocks = segments.ranges(products.num_items, _size_of_blocks(products))

    def reduce(
        self, look: Callable[[Tensor, Tensor], Result], add: Callable[[Result, Result], Result], nothing: Result
    ) -> Result | None:
        """Add up what comes of looking at the scores of each block, and at the mask of its impostors.

        None if a product is not the same in both orders, so that the sum is of no use.
        """
        pairs = list(itertools.combinations_with_replacement(range(len(self._blocks)), 2))
        total = nothing
        for some in _progress.steps(segments.ranges(len(pairs), _PAIRS_AT_A_TIME), "Pairs"):
            results = workers.share(lambda pair: self._look_at(*pair, look, add), pairs[some], most=_MOST_BLOCKS)
            for result in results:
                if result is None:
                    return None
                total = reduce(add, result, total)
        return total

    def _look_at(
        self, first: int, second: int, look: Callable[[Tensor, Tensor], Result], add: Callable[[Result, Result], Result]
    ) -> list[Result] | None:
        rows, columns = self._blocks[first], self._blocks[second]
        numbers = torch.arange(self._products.num_items, device="cpu")
        first_items = self._products.prepare(first, numbers[rows])
        second_items = first_items if first == second else self._products.prepare(second, numbers[columns])
        if first_items is None or second_items is None:
            return None
        values = torch.empty((len(first_items), len(second_items)), dtype=self._products.dtype, device="cpu")
        self._products.multiply(first_items, second_items, values)
        results = []
        if first != second:
            transposed = values.T.contiguous()
            results.append(self._look_at_side(transposed, columns, rows, numbers, look))
        elif not torch.equal(values, values.T):
            return None
        results.append(self._look_at_side(values, rows, columns, numbers, look))
        return results

    def _look_at_side(
        self, values: Tensor, rows: slice, columns: slice, numbers: Tensor, look: Callable[[Tensor, Tensor], Result]
    ) -> Result:
        self._products.finish(values, numbers[columns])
        self._scores.to_comparable(values, rows)
        _, impostor = self._relevance.pairs(rows, columns, self._relevance.tile(rows))
        return look(values, impostor)


def find_symmetric_pairs(scores: Scores, relevance: Relevance) -> SymmetricPairs | None:
    """Return the pairs of a problem with all items as queries, in their order; None for other problems.

    None, too, where a block does not fit the bound on scores, and where products would hardly take time.
    """
    own = relevance.own_column
    if own is None or relevance.junk_pairs is not None or relevance.num_kept != relevance.num_queries:
        return None
    if not torch.equal(own, torch.arange(len(own), device=own.device)):
        return None
    products = scores.symmetric(own)
    if products is None or products.dimension < _FEWEST_DIMENSIONS:
        return None
    size = _size_of_blocks(products)
    if size < _UNIT or products.num_items <= (_FEWEST_BLOCKS - 1) * size:
        return None
    return SymmetricPairs(scores, products, relevance)


def _size_of_blocks(products: SymmetricScores) -> int:
    """Number of items in a block, so that a few blocks fit half of the bound on scores."""
    bytes_of_pair = 3 * products.dtype.itemsize + _BYTES_PER_PAIR
    most = min(_MOST_ITEMS, isqrt(products.max_bytes // (2 * _MOST_BLOCKS * bytes_of_pair)))
    return most - most % _UNIT
