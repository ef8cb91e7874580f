"""The overlaps of all boxes of an image and class, for the `ious` of the extended summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import Detections, GroundTruths, distinct_labels, place_of_labels
from reid_torchmetrics.functional.detection.matching import find_pairs

Group = tuple[int | str, int]
"""image, by number or name, and class"""


@dataclass(frozen=True)
class Overlaps:
    """Intersection over union of every detection with every ground truth of its image and class."""

    groups: Tensor
    """number of the image, label, number of detections, number of ground truths: int64 [groups, 4]"""
    values: Tensor
    """float32, group after group, and in a group ground truth after ground truth"""

    @classmethod
    def of(cls, detections: Detections, ground_truths: GroundTruths, *, most: int, max_bytes: int) -> Overlaps:
        """Of the `most` detections with the highest scores in each image and class."""
        # Every pair overlaps by at least 0, so the pairs of a group are a whole matrix, ground truth by ground truth.
        pairs = find_pairs(detections, ground_truths, at_least=0.0, most=most, max_bytes=max_bytes)
        classes = distinct_labels(detections.labels, ground_truths.labels)
        keys = [
            side.images.long() * len(classes) + place_of_labels(side.labels, classes)
            for side in (detections, ground_truths)
        ]
        groups, place = torch.cat(keys).unique(return_inverse=True)
        found, true = (each.bincount(minlength=len(groups)) for each in place.split([len(key) for key in keys]))
        size = max(len(classes), 1)
        columns = [groups // size, classes[groups % size], found.clamp(max=most), true]
        return cls(torch.stack(columns, 1), pairs.iou.float())

    @staticmethod
    def matrices(parts: Sequence[Overlaps], called: Sequence[int | str], classes: Tensor) -> dict[Group, Tensor]:
        """A matrix [detections, ground truths] for every image and class, detections by descending score.

        Args:
            parts: of all processes.
            called: what each image is called.
            classes: all labels.
        """
        none = parts[0].values[:0].view(0, 0)
        found = dict.fromkeys(product(called, classes.tolist()), none)
        for part in parts:
            groups = part.groups.tolist()
            blocks = part.values.split([num_found * num_true for _, _, num_found, num_true in groups])
            for (image, label, num_found, num_true), block in zip(groups, blocks, strict=True):
                found[called[image], label] = block.view(num_true, num_found).T
        return found
