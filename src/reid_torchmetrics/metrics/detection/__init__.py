"""Detection metrics."""

from reid_torchmetrics.metrics.detection.class_names import name_of
from reid_torchmetrics.metrics.detection.collection import DetectionMetrics
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.metrics.detection.result_text import convention_of
from reid_torchmetrics.metrics.detection.results import DetectionResults
from reid_torchmetrics.metrics.detection.voc_map import VocMAP
from reid_torchmetrics.metrics.detection.yolo_map import YOLO_MATCHINGS, YoloMAP
