"""Detection metrics."""

from reid_torchmetrics.metrics.detection.collection import DetectionMetrics
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.metrics.detection.results import DetectionResults
