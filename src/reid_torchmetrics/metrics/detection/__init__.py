"""Detection metrics."""

from reid_torchmetrics.metrics.detection.class_names import name_of
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.metrics.detection.result_text import convention_of
from reid_torchmetrics.metrics.detection.results import DetectionResults
