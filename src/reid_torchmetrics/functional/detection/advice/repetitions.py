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
"""relative difference of sums of scores or boxes: rounding may add or remove a weak detection"""


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
        world: the processes. One message is sent, and a second one if the numbers in the first allow for padding.
        compute_fingerprints: gives those of the images of this process.
        has_ids: whether the images of this process have ids, by which repetitions are left out.
    """
    if world.size == 1:
        return NO_REPETITIONS

    def describe() -> tuple[Tensor | None, list[int]]:
        """Number of images, fingerprint of the first, and sum of all, or 0 if they cannot tell images apart."""
        if has_ids:
            return None, [0, 0, 0]
        prints = compute_fingerprints()
        if not len(prints):
            return prints, [0, 0, 0]
        is_telling = len(prints.unique()) >= max(LEAST_GATHERED, (len(prints) + 1) // 2)
        return prints, [len(prints), int(prints[0]), int(prints.sum()) if is_telling else 0]

    prints, table = world.guarded_all_gather(describe)
    totals = [total for _, _, total in table if total]
    are_gathered = len(set(totals)) < len(totals)
    num_images, first, _ = table[0]
    if not first or any(num != num_images for num, _, _ in table):
        return Repetitions(are_gathered, are_padded=False)
    assert prints is not None  # noqa: S101 - this process has as many images as the first

    def find_end() -> tuple[None, list[int]]:
        """Length and sum of the run at the end of this process that may be the beginning of process 0."""
        places = (prints == first).nonzero()[:, 0].tolist()
        if world.process == 0:
            places = places[1:]  # but for the first image itself
        if len(places) != 1:
            return None, [0, 0]
        return None, [len(prints) - places[0], int(prints[places[0] :].sum())]

    _, runs = world.guarded_all_gather(find_end)
    if world.process:  # the first process alone says it
        return Repetitions(are_gathered, are_padded=False)
    are_padded = any(length and int(prints[:length].sum()) == total for length, total in runs)
    return Repetitions(are_gathered, are_padded)


def count_other_detections(images: Images, ids: Tensor) -> tuple[int, int]:
    """Return how many images came again with other detections, and how many came again.

    Detections differ if their scores or boxes have another sum: rounding may lose a single one.

    Args:
        images: of this process.
        ids: their ids, or numbers of their names.
    """
    boxes = to_xywh(images.detection_boxes, images.detection_format)
    columns = torch.stack([images.detection_scores.double(), boxes.double().abs().sum(1)], dim=1)
    sums = segments.reduce(columns, "sum", lengths=images.detection_counts)
    # Each repetition beside the first image of its id.
    first = number_ids(ids.to(images.device))[1]
    again = (first != torch.arange(len(first), device=first.device)).nonzero()[:, 0]
    sums, first_sums = sums[again], sums[first[again]]
    num_other = int(((sums - first_sums).abs() > CLOSE * first_sums).any(1).sum())
    return num_other, len(again)
