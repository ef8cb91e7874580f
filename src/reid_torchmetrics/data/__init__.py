"""Inputs of an evaluation: samplers, and files of detections."""

from .samplers import UnpaddedDistributedSampler
from .voc_files import VOC_CLASSES, read_voc
from .yolo_files import read_yolo

__all__ = ["VOC_CLASSES", "UnpaddedDistributedSampler", "read_voc", "read_yolo"]
