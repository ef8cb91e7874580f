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
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, Rows, bytes_within, check_pair

from .neighbors import ItemSet, find_neighbors

EXPANSIONS = get_args(_names.Expansion)
"""Queries by gallery items, and the gallery stays as it is (Chum et al., Radenovic et al.); gallery items by each
other, then queries by the expanded gallery; queries and gallery items as one set, by each other (fast-reid)."""

_MOST_BYTES = 32 << 20  # of neighbors that are averaged at a time


@dataclass(frozen=True, kw_only=True)
class QueryExpansion:
    """Options of query expansion: `k` and `alpha` as in `expand_queries`, and what is expanded."""

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

    @torch.no_grad()
    def expand(
        self,
        query: Float[Tensor, "queries dim"] | _checks.Array,
        gallery: Float[Tensor, "gallery dim"] | _checks.Array,
        *,
        self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
        max_bytes: int | None = None,
    ) -> tuple[Float[Tensor, "queries dim"], Float[Tensor, "gallery dim"]]:
        """Queries and gallery after the expansion; what is not expanded is returned as it is.

        A query with a position in the gallery, `self_index`, is not expanded by itself.
        """
        query, gallery = check_pair(query, gallery)
        max_bytes = bytes_within(max_bytes, query.device)
        # A query that is a gallery item is one item.
        items = ItemSet.of(query, gallery, self_index)
        if self.expanded == "together":
            expanded = self._by_each_other(items.rows.all(), max_bytes)
            return expanded[items.of_query], expanded[items.of_gallery]
        if self.expanded == "gallery_first":
            gallery = self._by_each_other(gallery, max_bytes)
        return self._by_gallery(query, gallery, items.of_query - (items.rows.size - len(gallery)), max_bytes), gallery

    def _by_each_other(self, items: Tensor, max_bytes: int) -> Tensor:
        return self._by_gallery(items, items, torch.arange(len(items), device=items.device), max_bytes)

    def _by_gallery(
        self, query: Tensor, gallery: Tensor, self_index: Int[Tensor, " queries"], max_bytes: int
    ) -> Float[Tensor, "queries dim"]:
        """The weighted mean of each query, with weight 1, and its neighbors in the gallery, divided by their number.

        `self_index` are the queries' own positions in the gallery, negative for none.
        """
        out = torch.empty(query.shape, dtype=Rows([query, gallery]).dtype, device=query.device)
        if not len(gallery):
            return out.copy_(query)
        # One neighbor more, where a query may be its own: it goes last, all others keep their order. [queries, k]
        scores = EmbeddingScores(Rows([query]), Rows([gallery]), similarity="cosine", max_bytes=max_bytes)
        nearest = find_neighbors(scores, self.k + bool((self_index >= 0).any()))
        cosines = nearest.scores.clone()
        scores.to_comparable(cosines, slice(0, len(query)))
        is_self = nearest.positions == self_index[:, None]
        order = is_self.byte().argsort(dim=1, stable=True)[:, : self.k]  # not every device sorts bools
        positions, is_self = nearest.positions.gather(1, order), is_self.gather(1, order)
        weights = (cosines.gather(1, order).clamp(0, 1) ** self.alpha).masked_fill(is_self, 0)
        step = max(1, min(_MOST_BYTES, max_bytes) // (16 * (order.shape[1] + 1) * query.shape[1]))
        for rows in segments.ranges(len(query), step):
            total = (gallery[positions[rows]].double() * weights[rows, :, None]).sum(1)
            out[rows] = (total + query[rows]) / (1 + (~is_self[rows]).sum(1, keepdim=True))
        return out


def expand_queries(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    gallery: Float[Tensor, "gallery dim"] | _checks.Array,
    *,
    k: int = 5,
    alpha: float = 3.0,
    max_bytes: int | None = None,
) -> Float[Tensor, "queries dim"]:
    """(q + sum_i s_i^alpha g_i) / (k + 1): the mean of a query and its `k` nearest gallery items, by cosine s_i.

    `alpha` 0 is average query expansion. A negative cosine counts as 0, so that every power is defined; fast-reid
    gives NaN, or with an even `alpha` a positive weight. Embeddings enter with the norms that they have. Where there
    are fewer than `k` gallery items, it is the mean of all of them and the query. fast-reid's `qe_k` counts the item
    itself, so it is k + 1.

    Returns:
        Expanded queries, in the dtype of the embeddings, at least in float32.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, or embeddings that are not finite.
    """
    return QueryExpansion(k=k, alpha=alpha).expand(query, gallery, max_bytes=max_bytes)[0]
