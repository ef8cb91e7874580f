"""Scores that are changed before they are ranked."""

from reid_torchmetrics.functional.retrieval.reranking.k_reciprocal import (
    ORIGINAL_DISTANCES,
    KReciprocal,
    rerank_k_reciprocal,
)
from reid_torchmetrics.functional.retrieval.reranking.postprocessing import Rerank, check_rerank, rerank_embeddings
from reid_torchmetrics.functional.retrieval.reranking.query_expansion import (
    EXPANSIONS,
    QueryExpansion,
    expand_queries,
    expand_set,
)
