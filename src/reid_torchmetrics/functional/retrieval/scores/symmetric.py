"""Scores among the items of one set, where each item is a query and a gallery item for all others.

The product of two items serves both of them as the query. The step from a product to a score, such as a division by the
norm of the gallery item, differs between the two directions.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .products import full_precision, product
from .rows import Rows
from .similarity import Similarity

FEWEST_DIMENSIONS = 96
"""for shorter embeddings a product takes less time than to transpose it, so that sharing products does not pay"""


@final
class SymmetricScores:
    """Products of blocks of the items of one set, and their scores in both directions.

    Half of `max_bytes` is for prepared items: if all of them fit, a block is prepared once. The other half,
    `bytes_for_blocks`, is for products and counts.
    """

    def __init__(self, items: Rows, similarity: Similarity, dtype: torch.dtype, *, max_bytes: int) -> None:
        """Take the items, all of them queries, and a similarity that was prepared for them."""
        self.num_items = items.size
        self.dimension = items.dimension
        self.dtype = dtype
        self.max_bytes = max_bytes
        self.bytes_for_blocks = max_bytes // 2
        self._items = items
        self._similarity = similarity
        self._keeps_prepared = items.size * items.dimension * dtype.itemsize <= max_bytes // 2
        self._prepared: dict[int, Tensor] = {}

    def prepare(self, number: int, items: Int[Tensor, " items"]) -> Float[Tensor, "items dim"] | None:
        """Prepare the items of the block `number`; return None if queries and gallery items are prepared differently.

        In float64, for example, a query is divided by a power of two, and a gallery item is not.
        """
        if number in self._prepared:
            return self._prepared[number]
        rows = self._read(items)
        prepared = self._similarity.gallery(rows)
        as_query = self._similarity.query(rows)
        is_same = as_query.data_ptr() == prepared.data_ptr() or torch.equal(as_query, prepared)
        if not is_same:
            return None
        if self._keeps_prepared:
            self._prepared[number] = prepared
        return prepared

    def _read(self, items: Int[Tensor, " items"]) -> Float[Tensor, "items dim"]:
        return self._items.select(items).read(slice(0, len(items)), self.dtype)

    def between(self, queries: Int[Tensor, " queries"], items: Int[Tensor, " items"]) -> Float[Tensor, "queries items"]:
        """Return the scores of a few items as queries against other items; the bits equal those in a block."""
        prepared_queries = self._similarity.gallery(self._read(queries))
        prepared_items = self._similarity.gallery(self._read(items))
        scores = torch.empty((len(queries), len(items)), dtype=self.dtype, device=queries.device)
        self.multiply(prepared_queries, prepared_items, scores)
        self.finish(scores, items)
        return scores

    def multiply(self, first: Tensor, second: Tensor, out: Float[Tensor, "first second"]) -> None:
        """Write the products of two prepared blocks into `out`."""
        with full_precision(out.device, foreign=False):
            product(first, second, out)

    def finish(self, products: Float[Tensor, "queries gallery"], items: Int[Tensor, " gallery"]) -> None:
        """Turn products, in place, into scores of queries against the gallery items `items`."""
        self._similarity.finish(products, items)
