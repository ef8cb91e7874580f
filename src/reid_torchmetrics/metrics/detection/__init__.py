"""Detection metrics."""

from .collection import DetectionMetrics
from .detection_map import DetectionMAP
from .evaluator_metric import YOLO_MATCHINGS, VocMAP, YoloMAP
