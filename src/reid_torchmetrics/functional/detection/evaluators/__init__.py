"""The evaluators of the field: COCO, Pascal VOC, and the YOLO family."""

from .coco import ClassAverages, CocoResults, average_matches, coco_evaluate, evaluate_headline, evaluate_matches
from .pascal_voc import VOC_RULES, VocResults, voc_evaluate, voc_results
from .yolo import (
    YOLO_RULES,
    YoloResults,
    greedy_true_positives,
    match_greedily,
    true_positives,
    yolo_average_precision,
    yolo_results,
)
