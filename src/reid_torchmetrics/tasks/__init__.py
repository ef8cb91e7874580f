"""Further evaluations, built on `functional` and `metrics`, which know nothing of them; `tasks.metrics` has metrics."""

from reid_torchmetrics import _signatures

from .comparison import Comparison, Difference, Interval, bootstrap_interval, compare
from .detection_errors import ERROR_KINDS, ConfusionMatrix, ErrorBreakdown, LocalizationErrors
from .duplicates import Duplicates, find_duplicates
from .evaluators import yolo_average_precision
from .identification import Identification
from .lists import IndexLists, evaluate_lists, index_lists
from .operating_points import (
    ConfidenceCurve,
    DetectionCurve,
    ImageErrors,
    OperatingPoints,
    PrecisionRecallCurve,
    RankedDetections,
    compute_ap,
)
from .person_search import person_search
from .reranking import KReciprocal, QueryExpansion, expand_queries, rerank_k_reciprocal
from .rotated_boxes import rotated_iou
from .streams import Counts, GalleryStatistics, RankCounter, evaluate_stream
from .suppression import non_maximum_suppression
from .vector_indexes import IndexRecall, index_recall
from .verification import (
    ScoreHistogram,
    Verification,
    accuracy_over_folds,
    fnmr_at_fmr,
    global_average_precision,
    score_histogram,
    verify,
    verify_pairs,
)
from .votes import knn_accuracy

__all__ = [
    "ERROR_KINDS",
    "Comparison",
    "ConfidenceCurve",
    "ConfusionMatrix",
    "Counts",
    "DetectionCurve",
    "Difference",
    "Duplicates",
    "ErrorBreakdown",
    "GalleryStatistics",
    "Identification",
    "ImageErrors",
    "IndexLists",
    "IndexRecall",
    "Interval",
    "KReciprocal",
    "LocalizationErrors",
    "OperatingPoints",
    "PrecisionRecallCurve",
    "QueryExpansion",
    "RankCounter",
    "RankedDetections",
    "ScoreHistogram",
    "Verification",
    "accuracy_over_folds",
    "bootstrap_interval",
    "compare",
    "compute_ap",
    "evaluate_lists",
    "evaluate_stream",
    "expand_queries",
    "find_duplicates",
    "fnmr_at_fmr",
    "global_average_precision",
    "index_lists",
    "index_recall",
    "knn_accuracy",
    "non_maximum_suppression",
    "person_search",
    "rerank_k_reciprocal",
    "rotated_iou",
    "score_histogram",
    "verify",
    "verify_pairs",
    "yolo_average_precision",
]

_signatures.tell_hints(globals())
