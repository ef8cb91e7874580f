"""Similarities of embeddings, and tiles of scores on demand."""

from reid_torchmetrics.functional.retrieval.scores.rows import WALK_BYTES, Rows, check_pair, non_finite_rows, promoted
from reid_torchmetrics.functional.retrieval.scores.scores import (
    DEFAULT_MAX_BYTES,
    EmbeddingScores,
    Scores,
    check_match,
    equal_ranges,
    given_scores,
    score_dtype,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.scores.sharded_scores import score_rows
from reid_torchmetrics.functional.retrieval.scores.similarity import (
    SIMILARITIES,
    CustomSimilarity,
    check_similarity,
    survey,
)

__all__ = [
    "DEFAULT_MAX_BYTES",
    "SIMILARITIES",
    "WALK_BYTES",
    "CustomSimilarity",
    "EmbeddingScores",
    "Rows",
    "Scores",
    "check_match",
    "check_pair",
    "check_similarity",
    "equal_ranges",
    "given_scores",
    "non_finite_rows",
    "promoted",
    "score_dtype",
    "score_embeddings",
    "score_rows",
    "survey",
]
