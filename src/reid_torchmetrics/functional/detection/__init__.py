"""Detection: from boxes to matches, and from matches to precision, recall and average precision."""

from reid_torchmetrics.functional.detection.average_precision import AP_RULES, average_precision
from reid_torchmetrics.functional.detection.boxes import BOX_FORMATS, box_areas, pairwise_iou, to_xywh
from reid_torchmetrics.functional.detection.coco import (
    ClassAverages,
    CocoResults,
    average_matches,
    coco_evaluate,
    evaluate_matches,
)
from reid_torchmetrics.functional.detection.grid import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    CocoGrid,
)
from reid_torchmetrics.functional.detection.images import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matches import Matches, merge_matches
from reid_torchmetrics.functional.detection.matching import match_images
from reid_torchmetrics.functional.detection.pairs import Pairs, find_pairs
from reid_torchmetrics.functional.detection.precision_recall import Curves, find_curves

__all__ = [
    "AP_RULES",
    "BOX_FORMATS",
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_MAX_DETECTIONS",
    "COCO_RECALL_THRESHOLDS",
    "ClassAverages",
    "CocoGrid",
    "CocoResults",
    "Curves",
    "Detections",
    "GroundTruths",
    "Matches",
    "Pairs",
    "average_matches",
    "average_precision",
    "box_areas",
    "coco_evaluate",
    "evaluate_matches",
    "find_curves",
    "find_pairs",
    "match_images",
    "merge_matches",
    "pairwise_iou",
    "to_xywh",
]
