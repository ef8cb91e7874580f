"""Detection metrics."""

from .box_metric import BoxMetric
from .collection import DetectionMetrics
from .detection_map import DetectionMAP
from .evaluator_metric import VocMAP, YoloMAP
from .lvis_map import LvisMAP
