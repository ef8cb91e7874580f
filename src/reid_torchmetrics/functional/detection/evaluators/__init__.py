"""Evaluators: matching of detections, and the numbers that are computed from the matches."""
# mypy: implicit-reexport

from .class_averages import AT_THRESHOLDS, ClassAverages
from .coco import PrecisionGrid, average_matches, evaluate_headline, evaluate_matches
from .registry import (
    EVALUATORS,
    VOC_EVALUATOR,
    VOC_RULES,
    Evaluator,
    VocEvaluator,
    evaluator_options,
    from_name_and_options,
    match_options,
    to_name_and_options,
)
from .yolo import YOLO_RULES, YoloAverages, match_greedily, yolo_average_precision
