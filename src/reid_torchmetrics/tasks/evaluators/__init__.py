"""Evaluators of detections besides COCO's: Pascal VOC's and DOTA's, those of the YOLO family, and LVIS'."""
# mypy: implicit-reexport

from .best_of_all import CLAIMS, match_best_of_all
from .lvis import FREQUENCIES, groups_by_frequency, match_federated, read_frequencies
from .voc import VOC_EVALUATOR, VOC_RULES, VocEvaluator, with_voc_options
from .yolo import YOLO_RULES, YoloAverages, match_greedily, yolo_average_precision
