"""Detection metrics."""
# mypy: implicit-reexport

from .box_metric import BoxMetric
from .collection import DetectionMetrics
from .detection_map import DetectionMAP
from .evaluator_metric import LvisMAP, VocMAP, YoloMAP
