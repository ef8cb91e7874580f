"""What an evaluation is fed from: samplers, and files of detections."""

from reid_torchmetrics.data.samplers import UnpaddedDistributedSampler
from reid_torchmetrics.data.voc_files import VOC_CLASSES, read_voc
from reid_torchmetrics.data.yolo_files import read_yolo

__all__ = ["VOC_CLASSES", "UnpaddedDistributedSampler", "read_voc", "read_yolo"]
