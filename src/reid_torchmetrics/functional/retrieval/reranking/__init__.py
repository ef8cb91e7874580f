"""Re-ranking and query expansion: steps between embeddings and ranks."""
# mypy: implicit-reexport

from .k_reciprocal import ORIGINAL_DISTANCES, KReciprocal, rerank_k_reciprocal
from .postprocessing import Rerank, check_rerank, rerank_embeddings
from .query_expansion import EXPANSIONS, QueryExpansion, expand_queries
