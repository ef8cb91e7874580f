"""Further evaluations, built on `functional` and `metrics`, which know nothing of them; `tasks.metrics` has metrics."""

from typing import TYPE_CHECKING

from reid_torchmetrics import _signatures

# An alias tells type checkers that a name is public. A module of the name would hide it from mypy.
if TYPE_CHECKING:
    from .comparison import Comparison as Comparison
    from .comparison import Difference as Difference
    from .comparison import Interval as Interval
    from .comparison import bootstrap_interval as bootstrap_interval
    from .comparison import compare as compare
    from .detection_errors import ERROR_KINDS as ERROR_KINDS
    from .detection_errors import ConfusionMatrix as ConfusionMatrix
    from .detection_errors import ErrorBreakdown as ErrorBreakdown
    from .detection_errors import LocalizationErrors as LocalizationErrors
    from .duplicates import Duplicates as Duplicates
    from .duplicates import find_duplicates as find_duplicates
    from .evaluators import yolo_average_precision as yolo_average_precision
    from .identification import Identification as Identification
    from .lists import IndexLists as IndexLists
    from .lists import evaluate_lists as evaluate_lists
    from .lists import index_lists as index_lists
    from .operating_points import ConfidenceCurve as ConfidenceCurve
    from .operating_points import DetectionCurve as DetectionCurve
    from .operating_points import ImageErrors as ImageErrors
    from .operating_points import OperatingPoints as OperatingPoints
    from .operating_points import PrecisionRecallCurve as PrecisionRecallCurve
    from .operating_points import RankedDetections as RankedDetections
    from .operating_points import compute_ap as compute_ap
    from .persons_in_images import person_search as person_search
    from .reranking import KReciprocal as KReciprocal
    from .reranking import QueryExpansion as QueryExpansion
    from .reranking import expand_queries as expand_queries
    from .reranking import rerank_k_reciprocal as rerank_k_reciprocal
    from .rotated_boxes import rotated_iou as rotated_iou
    from .streams import Counts as Counts
    from .streams import GalleryStatistics as GalleryStatistics
    from .streams import RankCounter as RankCounter
    from .streams import evaluate_stream as evaluate_stream
    from .suppression import non_maximum_suppression as non_maximum_suppression
    from .vector_indexes import IndexRecall as IndexRecall
    from .vector_indexes import index_recall as index_recall
    from .verification import ScoreHistogram as ScoreHistogram
    from .verification import Verification as Verification
    from .verification import accuracy_over_folds as accuracy_over_folds
    from .verification import fnmr_at_fmr as fnmr_at_fmr
    from .verification import global_average_precision as global_average_precision
    from .verification import score_histogram as score_histogram
    from .verification import verify as verify
    from .verification import verify_pairs as verify_pairs
    from .votes import knn_accuracy as knn_accuracy

_NAMES = {
    "comparison": "Comparison Difference Interval bootstrap_interval compare",
    "detection_errors": "ERROR_KINDS ConfusionMatrix ErrorBreakdown LocalizationErrors",
    "duplicates": "Duplicates find_duplicates",
    "evaluators": "yolo_average_precision",
    "identification": "Identification",
    "lists": "IndexLists evaluate_lists index_lists",
    "operating_points": "ConfidenceCurve DetectionCurve ImageErrors OperatingPoints PrecisionRecallCurve"
    " RankedDetections compute_ap",
    "persons_in_images": "person_search",
    "reranking": "KReciprocal QueryExpansion expand_queries rerank_k_reciprocal",
    "rotated_boxes": "rotated_iou",
    "streams": "Counts GalleryStatistics RankCounter evaluate_stream",
    "suppression": "non_maximum_suppression",
    "vector_indexes": "IndexRecall index_recall",
    "verification": "ScoreHistogram Verification accuracy_over_folds fnmr_at_fmr global_average_precision"
    " score_histogram verify verify_pairs",
    "votes": "knn_accuracy",
}
"""the public names of each module or package, which is imported with the first of them that is used"""
__all__ = sorted(" ".join(_NAMES.values()).split())  # noqa: PLE0605 - names are written once

_signatures.import_when_used(globals(), _NAMES)
