"""Query expansion: an embedding is averaged with its nearest ones, before anything is ranked.

Sources: average query expansion, Chum et al., "Total Recall", ICCV 2007; alpha query expansion, Radenovic et al.,
"Fine-tuning CNN Image Retrieval with No Human Annotation", TPAMI 2018; of the gallery ("database-side feature
augmentation"), Arandjelovic and Zisserman, "Three things everyone should know to improve object retrieval", CVPR 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import (
    EmbeddingScores,
    Rows,
    Scores,
    bytes_within,
    check_pair,
    score_embeddings,
)

from .neighbors import ItemSet, find_neighbors

EXPANSIONS = get_args(_names.Expansion)
"""The embeddings that are expanded; see `QueryExpansion.expanded`."""

_MOST_BYTES = 32 << 20  # of neighbors that are averaged at a time
_BYTES_PER_VALUE = 16  # of a neighbor in the mean: its float64 value, and the product with its weight


@dataclass(frozen=True, kw_only=True)
class QueryExpansion:
    """Options of query expansion: `k` and `alpha` as in `expand_queries`, and the embeddings that are expanded."""

    k: int = 5
    alpha: float = 3.0
    expanded: _names.Expansion = "queries"
    """"queries" by gallery items, and the gallery stays as it is (Chum et al., Radenovic et al.); "gallery_first",
    gallery items by each other, then queries by the expanded gallery; "together", queries and gallery items as one set,
    by each other (fast-reid)"""

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.positive_int("k", self.k)
        _checks.nonnegative("alpha", self.alpha)
        _checks.one_of("expanded", self.expanded, EXPANSIONS)

    def check_similarity(self, similarity: object) -> None:
        """Accept any similarity."""

    def score(
        self,
        query: Tensor,
        gallery: Tensor,
        relevance: Relevance,
        *,
        similarity: _names.SimilarityName,
        max_bytes: int | None,
    ) -> Scores:
        """Return the scores of the expanded embeddings."""
        query, gallery = self.expand(query, gallery, self_index=relevance.self_index, max_bytes=max_bytes)
        return score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes)

    @torch.no_grad()
    def expand(
        self,
        query: Float[Tensor, "queries dim"] | _checks.Array,
        gallery: Float[Tensor, "gallery dim"] | _checks.Array,
        *,
        self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
        max_bytes: int | None = None,
    ) -> tuple[Float[Tensor, "queries dim"], Float[Tensor, "gallery dim"]]:
        """Return queries and gallery after the expansion; embeddings that are not expanded are returned as they are.

        A query with a position in the gallery, `self_index`, is not expanded by itself.
        """
        query, gallery = check_pair(query, gallery)
        max_bytes = bytes_within(max_bytes, query.device)
        # A query that is a gallery item is one item.
        items = ItemSet.unite(query, gallery, self_index)
        if self.expanded == "together":
            expanded = self._expand_by_each_other(items.rows.all(), max_bytes)
            return expanded[items.query_items], expanded[items.gallery_items]
        if self.expanded == "gallery_first":
            gallery = self._expand_by_each_other(gallery, max_bytes)
        num_new = items.rows.size - len(gallery)
        own_column = items.query_items - num_new
        return self._expand_by_gallery(query, gallery, own_column, max_bytes), gallery

    def _expand_by_each_other(self, items: Tensor, max_bytes: int) -> Tensor:
        own_column = torch.arange(len(items), device=items.device)
        return self._expand_by_gallery(items, items, own_column, max_bytes)

    def _expand_by_gallery(
        self, query: Tensor, gallery: Tensor, own_column: Int[Tensor, " queries"], max_bytes: int
    ) -> Float[Tensor, "queries dim"]:
        """Sum each query, with weight 1, and its weighted neighbors in the gallery, and divide by their number.

        `own_column` are the queries' own positions in the gallery, negative for none.
        """
        out = torch.empty(query.shape, dtype=Rows([query, gallery]).dtype, device=query.device)
        if not len(gallery):
            return out.copy_(query)
        # Find one neighbor more where a query may be its own.
        scores = EmbeddingScores(Rows([query]), Rows([gallery]), similarity="cosine", max_bytes=max_bytes)
        has_itself = bool((own_column >= 0).any())
        nearest = find_neighbors(scores, self.k + has_itself)
        cosines = nearest.scores.clone()
        scores.to_comparable(cosines, slice(0, len(query)))

        # The query itself goes last, with weight 0; all others keep their order: [queries, k].
        is_self = nearest.positions == own_column[:, None]
        order = is_self.byte().argsort(dim=1, stable=True)[:, : self.k]  # not every device sorts bools
        positions = nearest.positions.gather(1, order)
        is_self = is_self.gather(1, order)
        weights = cosines.gather(1, order).clamp(0, 1) ** self.alpha
        weights = weights.masked_fill(is_self, 0)

        num_values = (order.shape[1] + 1) * query.shape[1]
        step = max(1, min(_MOST_BYTES, max_bytes) // (_BYTES_PER_VALUE * num_values))
        for rows in segments.ranges(len(query), step):
            neighbors = gallery[positions[rows]].double()
            total = (neighbors * weights[rows, :, None]).sum(1)
            num_neighbors = (~is_self[rows]).sum(1, keepdim=True)
            out[rows] = (total + query[rows]) / (1 + num_neighbors)
        return out


def expand_queries(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    gallery: Float[Tensor, "gallery dim"] | _checks.Array,
    *,
    k: int = 5,
    alpha: float = 3.0,
    max_bytes: int | None = None,
) -> Float[Tensor, "queries dim"]:
    """Compute (q + sum_i s_i^alpha g_i) / (k + 1): the mean of a query and its `k` nearest items, by cosine s_i.

    `alpha` 0 is average query expansion. A negative cosine counts as 0, so that every power is defined; fast-reid
    gives NaN, or with an even `alpha` a positive weight. Embeddings are not normalized. If there are fewer than `k`
    gallery items, it is the mean of all of them and the query. fast-reid's `qe_k` counts the item itself, so it is
    k + 1.

    Returns:
        Expanded queries, in the dtype of the embeddings, at least in float32.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, or embeddings that are not finite.
    """
    return QueryExpansion(k=k, alpha=alpha).expand(query, gallery, max_bytes=max_bytes)[0]
