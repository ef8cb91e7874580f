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
    ConfidenceCurve,
    DetectionCurve,
    ImageErrors,
    LocalizationErrors,
    OperatingPoints,
    PrecisionRecallCurve,
    RankedDetections,
    compute_ap,
)
from .errors import ERROR_KINDS, ConfusionMatrix, ErrorBreakdown
from .evaluation import DetectionResults, evaluate_boxes, evaluate_images
from .evaluators import yolo_average_precision
from .inputs import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_RECALL_THRESHOLDS,
    Detections,
    GroundTruths,
    RunLengths,
    mask_iou,
    non_maximum_suppression,
    object_keypoint_similarity,
    pairwise_iou,
    rotated_iou,
)

__all__ = [
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_RECALL_THRESHOLDS",
    "ERROR_KINDS",
    "ConfidenceCurve",
    "ConfusionMatrix",
    "DetectionCurve",
    "DetectionResults",
    "Detections",
    "ErrorBreakdown",
    "GroundTruths",
    "ImageErrors",
    "LocalizationErrors",
    "OperatingPoints",
    "PrecisionRecallCurve",
    "RankedDetections",
    "RunLengths",
    "compute_ap",
    "evaluate_boxes",
    "evaluate_images",
    "mask_iou",
    "non_maximum_suppression",
    "object_keypoint_similarity",
    "pairwise_iou",
    "rotated_iou",
    "yolo_average_precision",
]
