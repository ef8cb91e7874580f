"""Detection metrics."""
# mypy: implicit-reexport

from .box_metric import BoxMetric, BoxOptions, explicit_signature
from .collection import DetectionMetrics
from .detection_map import DetectionMAP
