"""Images that count twice: on several processes, or again on one process with other detections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import Images, number_ids
from reid_torchmetrics.functional.detection.inputs import to_xywh
from reid_torchmetrics.functional.fingerprints import LEAST_GATHERED

CLOSE_SUMS = 0.1
"""relative difference of sums of scores or boxes; rounding may add or remove a weak detection"""


class Repetitions(NamedTuple):
    """Images with the same ground truths on several processes."""

    are_gathered: bool = False
    """whether two processes hold the same images"""
    are_padded: bool = False
    """whether the last images of a process are the first of the first process"""

    @classmethod
    def of(cls, fingerprints: Sequence[Tensor]) -> Repetitions:
        """Compare the images of all processes without ids, by fingerprints of their ground truths."""
        sums = [int(prints.sum()) for prints in fingerprints if _are_distinct(prints)]
        return cls(are_gathered=len(set(sums)) < len(sums), are_padded=_are_padded(fingerprints))


def _are_distinct(prints: Tensor) -> bool:
    """Return whether enough images are different ones for a comparison of sums."""
    return len(prints.unique()) >= max(LEAST_GATHERED, (len(prints) + 1) // 2)


def _are_padded(fingerprints: Sequence[Tensor]) -> bool:
    """Return whether equally many images are on all processes, and the last ones of one are those that begin."""
    first = fingerprints[0]
    if not len(first) or not int(first[0]) or any(len(prints) != len(first) for prints in fingerprints):
        return False
    for process, prints in enumerate(fingerprints):
        places = (prints == first[0]).nonzero()[:, 0].tolist()
        if process == 0:
            places = places[1:]  # without the first image itself
        if len(places) == 1 and torch.equal(prints[places[0] :], first[: len(prints) - places[0]]):
            return True
    return False


def count_other_detections(images: Images, ids: Tensor) -> int:
    """Return the number of repeated images with other detections.

    Detections differ if the sum of their scores or boxes differs, because rounding may lose a single detection.

    Args:
        images: images of this process.
        ids: ids of the images, or numbers of their names.
    """
    boxes = to_xywh(images.detection_boxes, images.detection_format)
    columns = torch.stack([images.detection_scores.double(), boxes.double().abs().sum(1)], dim=1)
    sums = segments.reduce(columns, "sum", lengths=images.detection_counts)
    # Compare each repeated image with the first image that has its id.
    first = number_ids(ids.to(images.device))[1]
    is_repeated = first != torch.arange(len(first), device=first.device)
    repeated = is_repeated.nonzero()[:, 0]
    first_sums = sums[first[repeated]]
    is_different = ((sums[repeated] - first_sums).abs() > CLOSE_SUMS * first_sums).any(1)
    return int(is_different.sum())
