"""Evaluators: matching of detections, and the numbers that are computed from the matches."""
# mypy: implicit-reexport

from .class_averages import AT_THRESHOLDS, ClassAverages
from .coco import PrecisionGrid, average_matches, evaluate_matches
from .registry import EVALUATORS, Evaluator, average_without_limits, evaluator_options, own_options
