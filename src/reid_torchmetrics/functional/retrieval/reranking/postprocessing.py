"""The option `rerank`: k-reciprocal re-ranking or query expansion, before items are ranked."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, Scores, score_embeddings

from .k_reciprocal import KReciprocal
from .query_expansion import QueryExpansion

Rerank = KReciprocal | QueryExpansion


def check_rerank(rerank: object, similarity: object) -> None:
    """Raise unless `rerank` is None, or can be used with `similarity`."""
    _checks.instance("rerank", rerank, (KReciprocal, QueryExpansion))
    if isinstance(rerank, KReciprocal) and similarity not in ("cosine", "euclidean"):
        got = repr(similarity) if isinstance(similarity, str) else type(similarity).__name__
        raise ValueError(f"`similarity` must be 'cosine' or 'euclidean' for k-reciprocal re-ranking; got {got}.")


def rerank_embeddings(
    query: Tensor,
    gallery: Tensor,
    relevance: Relevance,
    rerank: Rerank,
    *,
    similarity: _names.SimilarityName | CustomSimilarity,
    max_bytes: int | None,
) -> Scores:
    """Return the scores of embeddings after re-ranking or query expansion.

    k-reciprocal re-ranking starts from Euclidean distances; with "cosine" embeddings are scaled to norm 1 first.
    """
    if isinstance(rerank, KReciprocal):
        rerank = replace(rerank, normalize=rerank.normalize or similarity == "cosine")
        return rerank.rerank(query, gallery, kept=relevance.kept, self_index=relevance.self_index, max_bytes=max_bytes)
    query, gallery = rerank.expand(query, gallery, self_index=relevance.self_index, max_bytes=max_bytes)
    return score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes)
