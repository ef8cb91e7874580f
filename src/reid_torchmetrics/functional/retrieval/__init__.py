"""Retrieval: from embeddings, or scores, and labels to the ranks of positives, and from ranks to measures."""

from reid_torchmetrics import _extras

from .evaluation import (
    PROTOCOLS,
    Breakdown,
    CameraPairs,
    GalleryDraw,
    Protocol,
    RankLists,
    RetrievalResults,
    evaluate,
    evaluate_scores,
    find_protocol,
    mean_by,
)
from .measures import (
    MEASURES,
    Measure,
    average_precision,
    average_precision_at_r,
    binary_preference,
    cmc_at,
    cmc_curve,
    cumulative_gain_at,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    mean_over_identities,
    mean_over_queries,
    mean_precision_recall_curve,
    median_over_queries,
    normalized_dcg,
    precision_at,
    precision_recall_curve,
    r_precision,
    recall_at,
    reciprocal_rank,
    retrieval_rank,
)
from .ranking import PositiveRanks, rank_positives, rank_positives_from_scores
from .relevance import Relevance, find_relevance
from .scores import score_embeddings, scores_from_matrix

__all__ = [
    "MEASURES",
    "PROTOCOLS",
    "Breakdown",
    "CameraPairs",
    "GalleryDraw",
    "Measure",
    "PositiveRanks",
    "Protocol",
    "RankLists",
    "Relevance",
    "RetrievalResults",
    "average_precision",
    "average_precision_at_r",
    "binary_preference",
    "cmc_at",
    "cmc_curve",
    "cumulative_gain_at",
    "evaluate",
    "evaluate_scores",
    "find_protocol",
    "find_relevance",
    "first_rank",
    "hit_rate_at",
    "inverse_negative_penalty",
    "mean_by",
    "mean_over_identities",
    "mean_over_queries",
    "mean_precision_recall_curve",
    "median_over_queries",
    "normalized_dcg",
    "precision_at",
    "precision_recall_curve",
    "r_precision",
    "rank_positives",
    "rank_positives_from_scores",
    "recall_at",
    "reciprocal_rank",
    "retrieval_rank",
    "score_embeddings",
    "scores_from_matrix",
]

# Names that moved to tasks can be imported from here as before, and errors say where other names are. To type checkers
# no other name exists.
globals()["__getattr__"] = _extras.names_elsewhere(__name__)
