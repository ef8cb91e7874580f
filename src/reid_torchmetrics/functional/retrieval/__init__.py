"""Retrieval: from embeddings, or scores, and labels to the ranks of positives, and from ranks to measures."""

from reid_torchmetrics.functional.retrieval.draws.drawn_galleries import DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.draws.sampled_galleries import SampledDraws, sample_draws
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw
from reid_torchmetrics.functional.retrieval.evaluation.bootstrap import Interval, bootstrap_interval
from reid_torchmetrics.functional.retrieval.evaluation.breakdown import Breakdown, mean_by
from reid_torchmetrics.functional.retrieval.evaluation.camera_pairs import CameraPairs
from reid_torchmetrics.functional.retrieval.evaluation.evaluate import evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation.nearest import Nearest, nearest
from reid_torchmetrics.functional.retrieval.evaluation.pooling import PooledQueries, pool_queries
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.protocols import PROTOCOLS, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation.report_names import REPORTS
from reid_torchmetrics.functional.retrieval.evaluation.results import RetrievalResults
from reid_torchmetrics.functional.retrieval.measures.average_precision import (
    AP_NORMALISERS,
    AP_RULES,
    average_precision,
    average_precision_at_r,
)
from reid_torchmetrics.functional.retrieval.measures.cmc import CMC_MODES, cmc_at, cmc_curve
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    PRECISION_DIVISORS,
    hit_rate_at,
    normalised_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.measures.extremes import first_rank, inverse_negative_penalty
from reid_torchmetrics.functional.retrieval.measures.means import (
    EMPTY_TARGET_ACTIONS,
    mean_over_identities,
    mean_over_queries,
    median_over_queries,
)
from reid_torchmetrics.functional.retrieval.measures.precision_recall import (
    mean_precision_recall_curve,
    precision_recall_curve,
)
from reid_torchmetrics.functional.retrieval.ranking.counting import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.ranking.labels import (
    SAME_CAMERA_RULES,
    find_listed_relevance,
    find_relevance,
)
from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import PositiveRanks, TiedGroups
from reid_torchmetrics.functional.retrieval.ranking.ranks import count_ranks, rank_positives, rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking.relevance import QueryCounts, Relevance
from reid_torchmetrics.functional.retrieval.ranking.scores import DEFAULT_MAX_BYTES, given_scores, score_embeddings
from reid_torchmetrics.functional.retrieval.ranking.similarity import SIMILARITIES
from reid_torchmetrics.functional.retrieval.reranking.k_reciprocal import (
    ORIGINAL_DISTANCES,
    KReciprocal,
    rerank_k_reciprocal,
)
from reid_torchmetrics.functional.retrieval.reranking.query_expansion import (
    EXPANSIONS,
    QueryExpansion,
    expand_queries,
    expand_set,
)
from reid_torchmetrics.functional.retrieval.verification.recognition import global_average_precision
from reid_torchmetrics.functional.retrieval.verification.verify import Verification, fnmr_at_fmr, verify

__all__ = [
    "AP_NORMALISERS",
    "AP_RULES",
    "CMC_MODES",
    "DEFAULT_MAX_BYTES",
    "EMPTY_TARGET_ACTIONS",
    "EXPANSIONS",
    "ORIGINAL_DISTANCES",
    "PRECISION_DIVISORS",
    "PROTOCOLS",
    "REPORTS",
    "SAME_CAMERA_RULES",
    "SIMILARITIES",
    "TIE_POLICIES",
    "Breakdown",
    "CameraPairs",
    "DrawnResults",
    "GalleryDraw",
    "Interval",
    "KReciprocal",
    "Nearest",
    "PooledQueries",
    "PositiveRanks",
    "Protocol",
    "QueryCounts",
    "QueryExpansion",
    "Relevance",
    "RetrievalResults",
    "SampledDraws",
    "TiedGroups",
    "Verification",
    "average_precision",
    "average_precision_at_r",
    "bootstrap_interval",
    "cmc_at",
    "cmc_curve",
    "count_ranks",
    "evaluate",
    "evaluate_scores",
    "expand_queries",
    "expand_set",
    "expect_draws",
    "find_listed_relevance",
    "find_protocol",
    "find_relevance",
    "first_rank",
    "fnmr_at_fmr",
    "given_scores",
    "global_average_precision",
    "hit_rate_at",
    "inverse_negative_penalty",
    "mean_by",
    "mean_over_identities",
    "mean_over_queries",
    "mean_precision_recall_curve",
    "median_over_queries",
    "nearest",
    "normalised_dcg",
    "pool_queries",
    "precision_at",
    "precision_recall_curve",
    "r_precision",
    "rank_positives",
    "rank_positives_from_scores",
    "recall_at",
    "reciprocal_rank",
    "rerank_k_reciprocal",
    "sample_draws",
    "score_embeddings",
    "verify",
]
