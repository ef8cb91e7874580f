"""Retrieval: from embeddings, or scores, and labels to the ranks of positives, and from ranks to measures."""

from reid_torchmetrics.functional.retrieval.cmc import cmc_at, cmc_curve
from reid_torchmetrics.functional.retrieval.counting import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import (
    AP_RULES,
    EMPTY_TARGET_ACTIONS,
    average_precision,
    first_rank,
    inverse_negative_penalty,
    mean_over_queries,
)
from reid_torchmetrics.functional.retrieval.ranks import (
    DEFAULT_MAX_BYTES,
    PositiveRanks,
    rank_positives,
    rank_positives_from_scores,
)
from reid_torchmetrics.functional.retrieval.relevance import SAME_CAMERA_RULES, QueryCounts
from reid_torchmetrics.functional.retrieval.similarity import SIMILARITIES

__all__ = [
    "AP_RULES",
    "DEFAULT_MAX_BYTES",
    "EMPTY_TARGET_ACTIONS",
    "SAME_CAMERA_RULES",
    "SIMILARITIES",
    "TIE_POLICIES",
    "PositiveRanks",
    "QueryCounts",
    "RetrievalResults",
    "average_precision",
    "cmc_at",
    "cmc_curve",
    "first_rank",
    "inverse_negative_penalty",
    "mean_over_queries",
    "rank_positives",
    "rank_positives_from_scores",
]
