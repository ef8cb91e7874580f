"""Re-ranking and query expansion: steps between embeddings and ranks."""
# mypy: implicit-reexport

from reid_torchmetrics.functional.retrieval.scores import RERANKINGS

from .k_reciprocal import ORIGINAL_DISTANCES, KReciprocal, rerank_k_reciprocal
from .query_expansion import EXPANSIONS, QueryExpansion, expand_queries

RERANKINGS["KReciprocal"] = KReciprocal
RERANKINGS["QueryExpansion"] = QueryExpansion
