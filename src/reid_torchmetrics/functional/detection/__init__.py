"""Detection: from boxes to matches, and from matches to precision, recall and average precision.

The way through the modules: `images` (what comes in), `boxes` and `shapes`; `ordering` and `sorting` put them in
order, `pairs` finds those that overlap, `assignment` and, where detections compete, `deferred_acceptance` say which of
them match, and `matching` makes `matches` of it: the waist. From there `precision_recall` and `average_precision` lead
to `coco` on its `grid`, and `operating_points` and `image_errors` to the use of a detector. `pascal_voc` and `yolo`
judge detections in their own way (`true_positive_flags`) and share the curves.

Rows are taken by `index_select` where there may be many: on a CPU that needs a half (numbers) to a quarter (boxes) of
the time of `[...]` with a tensor.
"""

from reid_torchmetrics.functional.detection.curves import (
    AP_RULES,
    ConfidenceCurve,
    Curves,
    ImageErrors,
    OperatingPoints,
    PrecisionRecallCurve,
    at_confidence,
    average_precision,
    best_f1,
    confidence_curve,
    curves_from_matches,
    image_errors,
    precision_recall_curve,
)
from reid_torchmetrics.functional.detection.evaluators import (
    VOC_RULES,
    YOLO_RULES,
    ClassAverages,
    CocoResults,
    VocResults,
    YoloResults,
    average_matches,
    coco_evaluate,
    evaluate_matches,
    greedy_true_positives,
    voc_evaluate,
    yolo_average_precision,
)
from reid_torchmetrics.functional.detection.inputs import (
    BOX_FORMATS,
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    BoxShapes,
    CocoGrid,
    Detections,
    GroundTruths,
    RunLengths,
    Shapes,
    Sides,
    TableShapes,
    box_areas,
    mask_iou,
    non_maximum_suppression,
    pairwise_iou,
    to_xywh,
)
from reid_torchmetrics.functional.detection.matching import Matches, Pairs, find_pairs, match_images, merge_matches

__all__ = [
    "AP_RULES",
    "BOX_FORMATS",
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_MAX_DETECTIONS",
    "COCO_RECALL_THRESHOLDS",
    "VOC_RULES",
    "YOLO_RULES",
    "BoxShapes",
    "ClassAverages",
    "CocoGrid",
    "CocoResults",
    "ConfidenceCurve",
    "Curves",
    "Detections",
    "GroundTruths",
    "ImageErrors",
    "Matches",
    "OperatingPoints",
    "Pairs",
    "PrecisionRecallCurve",
    "RunLengths",
    "Shapes",
    "Sides",
    "TableShapes",
    "VocResults",
    "YoloResults",
    "at_confidence",
    "average_matches",
    "average_precision",
    "best_f1",
    "box_areas",
    "coco_evaluate",
    "confidence_curve",
    "curves_from_matches",
    "evaluate_matches",
    "find_pairs",
    "greedy_true_positives",
    "image_errors",
    "mask_iou",
    "match_images",
    "merge_matches",
    "non_maximum_suppression",
    "pairwise_iou",
    "precision_recall_curve",
    "to_xywh",
    "voc_evaluate",
    "yolo_average_precision",
]
