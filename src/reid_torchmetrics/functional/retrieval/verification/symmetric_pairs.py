"""All pairs of the items in one set, with one product for both directions of a pair.

A block of products has the scores of its rows as queries, and transposed the scores of its columns as queries. Only
blocks on the diagonal and above it are multiplied. Both directions are counted, because scores that are comparable
between queries are finished in another order of operations and may differ in their last digit.
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
from reid_torchmetrics.functional.retrieval.scores import FEWEST_DIMENSIONS, LANES, Scores, SymmetricScores

Result = TypeVar("Result")

_MOST_ITEMS = 2016
"""number of items in a block; sorting more pairs leaves the cache"""
_FEWEST_BLOCKS = 3
_BYTES_PER_PAIR = 8
"""bytes for masks, besides the product, the transposed product and a sorted copy"""
_MOST_BLOCKS = 2
"""number of blocks at a time"""
_BLOCKS_PER_STEP = 16
"""number of blocks that threads share between two steps of the progress bar"""


@final
class SymmetricPairs:
    """Pairs of a leave-one-out problem, in blocks that are multiplied once for both directions."""

    def __init__(self, scores: Scores, products: SymmetricScores, relevance: Relevance) -> None:
        """Take scores and relevance of a problem that `find_symmetric_pairs` has checked."""
        self._scores = scores
        self._products = products
        self._relevance = relevance
        self._ranges = segments.ranges(products.num_items, _num_items_in_block(products))

    def reduce(
        self, work: Callable[[Tensor, Tensor], Result], add: Callable[[Result, Result], Result], initial: Result
    ) -> Result | None:
        """Apply `work` to the scores and the mask of impostors in each block, and add the results to `initial`.

        Returns:
            The sum; None if a product is not the same in both orders, because the pairs are not symmetric then.
        """
        blocks = list(itertools.combinations_with_replacement(range(len(self._ranges)), 2))
        total = initial
        for step in _progress.steps(segments.ranges(len(blocks), _BLOCKS_PER_STEP), "Pairs"):
            results_of_blocks = workers.share(
                lambda block: self._work_on_block(*block, work),
                blocks[step],
                most=_MOST_BLOCKS,
            )
            for results in results_of_blocks:
                if results is None:
                    return None
                total = reduce(add, results, total)
        return total

    def _work_on_block(self, first: int, second: int, work: Callable[[Tensor, Tensor], Result]) -> list[Result] | None:
        """Apply `work` to both directions of a block; None if a block on the diagonal is not symmetric."""
        rows = self._ranges[first]
        columns = self._ranges[second]
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
            results.append(self._work_on_direction(transposed, columns, rows, numbers, work))
        elif not torch.equal(values, values.T):
            return None
        results.append(self._work_on_direction(values, rows, columns, numbers, work))
        return results

    def _work_on_direction(
        self, values: Tensor, rows: slice, columns: slice, numbers: Tensor, work: Callable[[Tensor, Tensor], Result]
    ) -> Result:
        """Finish the scores of `rows` as queries, and apply `work` to them."""
        self._products.finish(values, numbers[columns])
        self._scores.to_comparable(values, rows)
        _, impostor = self._relevance.pairs(rows, columns, self._relevance.tile(rows))
        return work(values, impostor)


def find_symmetric_pairs(scores: Scores, relevance: Relevance) -> SymmetricPairs | None:
    """Return the pairs of a problem in which all items are queries in the same order; None for other problems.

    Also returns None if a block does not fit the bound on scores, or if products take little time.
    """
    own = relevance.own_column
    if own is None or relevance.junk_pairs is not None or relevance.num_kept != relevance.num_queries:
        return None
    if not torch.equal(own, torch.arange(len(own), device=own.device)):
        return None
    products = scores.symmetric(own)
    if products is None or products.dimension < FEWEST_DIMENSIONS:
        return None
    num_items = _num_items_in_block(products)
    if num_items < LANES or products.num_items <= (_FEWEST_BLOCKS - 1) * num_items:
        return None
    return SymmetricPairs(scores, products, relevance)


def _num_items_in_block(products: SymmetricScores) -> int:
    """Return the number of items in a block; `_MOST_BLOCKS` blocks fit half of the bound on scores."""
    bytes_per_pair = 3 * products.dtype.itemsize + _BYTES_PER_PAIR
    most_pairs = products.max_bytes // (2 * _MOST_BLOCKS * bytes_per_pair)
    most_items = min(_MOST_ITEMS, isqrt(most_pairs))
    return most_items - most_items % LANES
