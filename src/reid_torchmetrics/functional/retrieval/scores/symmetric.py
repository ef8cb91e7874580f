"""Scores among the items of one set, where each item is a query and a gallery item for all others.

The product of two items serves both of them as the query. What makes a score of it, such as the norm of the gallery
item, differs between the two directions.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .products import full_precision, product
from .rows import Rows
from .similarity import Similarity


@final
class SymmetricScores:
    """Products of blocks of the items of one set, and their scores in both directions.

    Prepared items are kept where they fit half of `max_bytes`, so that a block is prepared once.
    """

    def __init__(self, items: Rows, similarity: Similarity, dtype: torch.dtype, *, max_bytes: int) -> None:
        """Take the items, all of them queries, and a similarity that was prepared for them."""
        self.num_items, self.dimension = items.size, items.dimension
        self.dtype, self.max_bytes = dtype, max_bytes
        self._items, self._similarity = items, similarity
        self._keeps_prepared = items.size * items.dimension * dtype.itemsize <= max_bytes // 2
        self._prepared: dict[int, Tensor] = {}

    def prepare(self, number: int, items: Int[Tensor, " items"]) -> Float[Tensor, "items dim"] | None:
        """Prepare the block of some items with a number; None where queries are prepared in another way.

        In float64 a query is divided by a power of two, for example, and a gallery item is not.
        """
        if number in self._prepared:
            return self._prepared[number]
        rows = self._items.select(items).read(slice(0, len(items)), self.dtype)
        prepared = self._similarity.gallery(rows)
        as_query = self._similarity.query(rows)
        is_same = as_query.data_ptr() == prepared.data_ptr() or torch.equal(as_query, prepared)
        if not is_same:
            return None
        if self._keeps_prepared:
            self._prepared[number] = prepared
        return prepared

    def between(self, queries: Int[Tensor, " queries"], items: Int[Tensor, " items"]) -> Float[Tensor, "queries items"]:
        """Scores of a few items as queries against others; each has the bits that it has in a block."""
        prepared = [
            self._similarity.gallery(self._items.select(some).read(slice(0, len(some)), self.dtype))
            for some in (queries, items)
        ]
        scores = torch.empty((len(queries), len(items)), dtype=self.dtype, device=queries.device)
        self.multiply(prepared[0], prepared[1], scores)
        self.finish(scores, items)
        return scores

    def multiply(self, first: Tensor, second: Tensor, out: Float[Tensor, "first second"]) -> None:
        """Write the products of two prepared blocks into `out`."""
        with full_precision(out.device, foreign=False):
            product(first, second, out)

    def finish(self, products: Float[Tensor, "queries gallery"], items: Int[Tensor, " gallery"]) -> None:
        """Turn products, in place, into scores of queries against these gallery items."""
        self._similarity.finish(products, items)
