"""Input of evaluations: samplers, and readers of files of detections."""

from .samplers import UnpaddedDistributedSampler
from .text_files import VOC_CLASSES, read_voc, read_yolo

__all__ = ["VOC_CLASSES", "UnpaddedDistributedSampler", "read_voc", "read_yolo"]
