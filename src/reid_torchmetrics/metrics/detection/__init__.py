"""Detection metrics."""

from .class_names import name_of
from .collection import DetectionMetrics
from .detection_map import DetectionMAP
from .result_text import convention_of
from .results import DetectionResults
from .voc_map import VocMAP
from .yolo_map import YOLO_MATCHINGS, YoloMAP
