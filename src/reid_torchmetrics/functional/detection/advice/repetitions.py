"""Images that count twice: on several processes, or again on one process with other detections."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import Images, number_ids
from reid_torchmetrics.functional.detection.inputs import to_xywh
from reid_torchmetrics.functional.fingerprints import LEAST_GATHERED
from reid_torchmetrics.functional.world import World

CLOSE = 0.1
"""relative difference of sums of scores or boxes; rounding may add or remove a weak detection"""


class Repetitions(NamedTuple):
    """Images with the same ground truths on several processes."""

    are_gathered: bool
    """whether two processes hold the same images"""
    are_padded: bool
    """whether the last images of a process are the first of the first process"""


NO_REPETITIONS = Repetitions(are_gathered=False, are_padded=False)


def find_repetitions(world: World, compute_fingerprints: Callable[[], Tensor], *, has_ids: bool) -> Repetitions:
    """Compare the images of all processes by fingerprints of their ground truths; all processes must call.

    Args:
        world: the processes. They exchange one message, and a second one if the numbers in the first allow padding.
        compute_fingerprints: returns the fingerprints of the images of this process.
        has_ids: whether the images of this process have ids; then repetitions do not count.
    """
    if world.size == 1:
        return NO_REPETITIONS

    def summarize() -> tuple[Tensor | None, list[int]]:
        """Return fingerprints, and their number, the first one and their sum; 0 for a sum of too few different ones."""
        if has_ids:
            return None, [0, 0, 0]
        fingerprints = compute_fingerprints()
        if not len(fingerprints):
            return fingerprints, [0, 0, 0]
        num_distinct = len(fingerprints.unique())
        are_distinct = num_distinct >= max(LEAST_GATHERED, (len(fingerprints) + 1) // 2)
        total = int(fingerprints.sum()) if are_distinct else 0
        return fingerprints, [len(fingerprints), int(fingerprints[0]), total]

    fingerprints, table = world.guarded_all_gather(summarize)
    totals = [total for _, _, total in table if total]
    are_gathered = len(set(totals)) < len(totals)
    num_images, first, _ = table[0]
    if not first or any(num != num_images for num, _, _ in table):
        return Repetitions(are_gathered, are_padded=False)
    assert fingerprints is not None  # noqa: S101 - this process has as many images as the first

    def find_end() -> tuple[None, list[int]]:
        """Return length and sum of the last images of this process that may be the first ones of process 0."""
        places = (fingerprints == first).nonzero()[:, 0].tolist()
        if world.process == 0:
            places = places[1:]  # without the first image itself
        if len(places) != 1:
            return None, [0, 0]
        start = places[0]
        return None, [len(fingerprints) - start, int(fingerprints[start:].sum())]

    _, ends = world.guarded_all_gather(find_end)
    if world.process:  # only the first process warns
        return Repetitions(are_gathered, are_padded=False)
    are_padded = any(length and int(fingerprints[:length].sum()) == total for length, total in ends)
    return Repetitions(are_gathered, are_padded)


def count_other_detections(images: Images, ids: Tensor) -> tuple[int, int]:
    """Return the number of repeated images with other detections, and the number of all repeated images.

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
    is_different = ((sums[repeated] - first_sums).abs() > CLOSE * first_sums).any(1)
    return int(is_different.sum()), len(repeated)
