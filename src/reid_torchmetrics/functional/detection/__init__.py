"""Detection: from boxes to matches, and from matches to precision, recall and average precision.

The way through the modules: `images` (what comes in), `boxes` and `shapes`; `ordering` puts them in order, `pairs`
finds those that overlap, `assignment` and, where detections compete, `deferred_acceptance` match them, and `matching`
makes `matches` of it: the waist. From there `precision_recall` and `average_precision` lead to `coco` on its `grid`,
and `operating_points` and `image_errors` to the use of a detector. Errors across classes need `object_pairs`, whose
overlaps are of any class: `confusion` counts them, and `error_breakdown` says what they cost. `best_of_all` and `yolo`
match detections in their own way and share the curves.

Rows are taken by `index_select` where there may be many: on a CPU that needs a half (numbers) to a quarter (boxes) of
the time of `[...]` with a tensor.
"""

from .curves import (
    AP_RULES,
    ConfidenceCurve,
    DetectionCurve,
    ImageErrors,
    LocalizationErrors,
    OperatingPoints,
    PrecisionRecallCurve,
    RankedDetections,
    compute_ap,
)
from .errors import CONFUSION_RULES, ERROR_KINDS, ConfusionMatrix, ErrorBreakdown
from .evaluation import DetectionResults, evaluate_boxes, evaluate_images
from .evaluators import EVALUATORS, VOC_RULES, YOLO_RULES, Evaluator, match_greedily, yolo_average_precision
from .inputs import (
    BOX_FORMATS,
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    THRESHOLDS,
    CocoGrid,
    Detections,
    GroundTruths,
    RunLengths,
    Shapes,
    mask_iou,
    non_maximum_suppression,
    object_keypoint_similarity,
    pairwise_iou,
    rotated_iou,
)
from .matching import CLAIMS, Matches, match_best_of_all, match_images

__all__ = [
    "AP_RULES",
    "BOX_FORMATS",
    "CLAIMS",
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_MAX_DETECTIONS",
    "COCO_RECALL_THRESHOLDS",
    "CONFUSION_RULES",
    "ERROR_KINDS",
    "EVALUATORS",
    "THRESHOLDS",
    "VOC_RULES",
    "YOLO_RULES",
    "CocoGrid",
    "ConfidenceCurve",
    "ConfusionMatrix",
    "DetectionCurve",
    "DetectionResults",
    "Detections",
    "ErrorBreakdown",
    "Evaluator",
    "GroundTruths",
    "ImageErrors",
    "LocalizationErrors",
    "Matches",
    "OperatingPoints",
    "PrecisionRecallCurve",
    "RankedDetections",
    "RunLengths",
    "Shapes",
    "compute_ap",
    "evaluate_boxes",
    "evaluate_images",
    "mask_iou",
    "match_best_of_all",
    "match_greedily",
    "match_images",
    "non_maximum_suppression",
    "object_keypoint_similarity",
    "pairwise_iou",
    "rotated_iou",
    "yolo_average_precision",
]
