"""Images, boxes and thresholds as an evaluation takes them, and the orders in which they are looked at."""

from reid_torchmetrics.functional.detection.inputs.box_checks import check_scores
from reid_torchmetrics.functional.detection.inputs.boxes import (
    BOX_FORMATS,
    Sides,
    box_areas,
    pairwise_iou,
    to_xywh,
)
from reid_torchmetrics.functional.detection.inputs.grid import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    AreaRange,
    CocoGrid,
    check_area_ranges,
    check_recalls,
)
from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs.ordering import OrderedDetections, OrderedGroundTruths, order_boxes
from reid_torchmetrics.functional.detection.inputs.overlaps import BoxOverlap, Overlap
from reid_torchmetrics.functional.detection.inputs.sorting import (
    distinct_labels,
    order_by_class_and_score,
    place_of_labels,
    starts_of_runs,
)

__all__ = [
    "BOX_FORMATS",
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_MAX_DETECTIONS",
    "COCO_RECALL_THRESHOLDS",
    "AreaRange",
    "BoxOverlap",
    "CocoGrid",
    "Detections",
    "GroundTruths",
    "OrderedDetections",
    "OrderedGroundTruths",
    "Overlap",
    "Sides",
    "box_areas",
    "check_area_ranges",
    "check_recalls",
    "check_scores",
    "distinct_labels",
    "order_boxes",
    "order_by_class_and_score",
    "pairwise_iou",
    "place_of_labels",
    "starts_of_runs",
    "to_xywh",
]
