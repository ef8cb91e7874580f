"""Inputs of an evaluation: samplers, files of embeddings, labels and ranked lists, and files of detections."""

from reid_torchmetrics import _signatures
from reid_torchmetrics._arrays import number_identities

from .cartucho_files import read_cartucho
from .kitti_files import KITTI_CLASSES, read_kitti
from .label_files import NAME_PATTERNS, labels_from_names, read_labels
from .list_files import read_ground_truth, read_retrieved
from .open_images_files import read_open_images
from .pair_files import read_pairs
from .role_flags import find_self_index
from .sample_files import SampleFile, read_samples
from .samplers import UnpaddedDistributedSampler
from .voc_files import DOTA_CLASSES, VOC_CLASSES, find_voc_classes, read_dota, read_voc
from .yolo_files import read_yolo
from .yolo_names import read_yolo_names

__all__ = [
    "DOTA_CLASSES",
    "KITTI_CLASSES",
    "NAME_PATTERNS",
    "VOC_CLASSES",
    "SampleFile",
    "UnpaddedDistributedSampler",
    "find_self_index",
    "find_voc_classes",
    "labels_from_names",
    "number_identities",
    "read_cartucho",
    "read_dota",
    "read_ground_truth",
    "read_kitti",
    "read_labels",
    "read_open_images",
    "read_pairs",
    "read_retrieved",
    "read_samples",
    "read_voc",
    "read_yolo",
    "read_yolo_names",
]


def __dir__() -> list[str]:  # without what the command takes
    return __all__


_signatures.tell_hints(globals())
