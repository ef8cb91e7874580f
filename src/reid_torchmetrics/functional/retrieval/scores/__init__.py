"""Similarities of embeddings, and tiles of scores on demand."""
# mypy: implicit-reexport

from .codes import (
    CODE_READERS,
    HAS_ONE,
    HAS_OTHER,
    HAS_ZERO,
    IS_CODE,
    BlocksOfRows,
    are_bits,
    as_signs,
    read_pair,
    read_with_marks,
    union_of_marks,
)
from .products import BLOCK, LANES
from .rows import WALK_BYTES, Rows, RowsInBlocks, Spares, check_pair, checked_rows, promoted
from .scores import (
    DEFAULT_MAX_BYTES,
    RERANKINGS,
    EmbeddingScores,
    MatrixScores,
    Rerank,
    Scores,
    bytes_within,
    check_rerank,
    score_embeddings,
    score_pair,
    score_rows,
    scores_from_matrix,
)
from .similarity import (
    SIMILARITIES,
    CustomSimilarity,
    check_similarity,
    gallery_statistics,
    score_dtype,
    similarity_name,
)
