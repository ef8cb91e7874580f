"""Inputs of an evaluation: samplers, files of embeddings, labels and ranked lists, and files of detections."""

from typing import TYPE_CHECKING

from reid_torchmetrics import _signatures

if TYPE_CHECKING:  # an alias tells type checkers that a name is public
    from .box_lines import KITTI_CLASSES as KITTI_CLASSES
    from .box_lines import read_cartucho as read_cartucho
    from .box_lines import read_kitti as read_kitti
    from .label_files import NAME_PATTERNS as NAME_PATTERNS
    from .label_files import labels_from_names as labels_from_names
    from .label_files import number_identities as number_identities
    from .label_files import read_labels as read_labels
    from .list_files import read_ground_truth as read_ground_truth
    from .list_files import read_retrieved as read_retrieved
    from .open_images_files import read_open_images as read_open_images
    from .pair_files import read_pairs as read_pairs
    from .role_flags import find_self_index as find_self_index
    from .sample_files import SampleFile as SampleFile
    from .sample_files import read_samples as read_samples
    from .samplers import UnpaddedDistributedSampler as UnpaddedDistributedSampler
    from .voc_files import DOTA_CLASSES as DOTA_CLASSES
    from .voc_files import VOC_CLASSES as VOC_CLASSES
    from .voc_files import find_voc_classes as find_voc_classes
    from .voc_files import read_dota as read_dota
    from .voc_files import read_voc as read_voc
    from .yolo_files import read_yolo as read_yolo
    from .yolo_names import read_yolo_names as read_yolo_names

_NAMES = {
    "box_lines": "KITTI_CLASSES read_cartucho read_kitti",
    "label_files": "NAME_PATTERNS labels_from_names number_identities read_labels",
    "list_files": "read_ground_truth read_retrieved",
    "open_images_files": "read_open_images",
    "pair_files": "read_pairs",
    "role_flags": "find_self_index",
    "sample_files": "SampleFile read_samples",
    "samplers": "UnpaddedDistributedSampler",
    "voc_files": "DOTA_CLASSES VOC_CLASSES find_voc_classes read_dota read_voc",
    "yolo_files": "read_yolo",
    "yolo_names": "read_yolo_names",
}
"""the public names of each module, which is imported with the first of them that is used"""
__all__ = sorted(" ".join(_NAMES.values()).split())  # noqa: PLE0605 - names are written once

_signatures.import_when_used(globals(), _NAMES)
