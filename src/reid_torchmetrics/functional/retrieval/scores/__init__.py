"""Similarities of embeddings, and tiles of scores on demand."""

from reid_torchmetrics.functional.retrieval.scores.rows import WALK_BYTES, Rows, check_pair, non_finite_rows, promoted
from reid_torchmetrics.functional.retrieval.scores.scores import (
    DEFAULT_MAX_BYTES,
    EmbeddingScores,
    Scores,
    check_match,
    given_scores,
    score_dtype,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.scores.sharded_scores import score_rows
from reid_torchmetrics.functional.retrieval.scores.similarity import (
    SIMILARITIES,
    CustomSimilarity,
    check_similarity,
    gallery_statistics,
)
from reid_torchmetrics.functional.retrieval.scores.walk import (
    FEWEST_ROWS,
    Panel,
    SharedWalk,
    Walk,
    bytes_of_sort,
    cut_in_panels,
    rows_with_gallery,
)
