"""Evidence for advice on detection: the matches of all processes, and samples of the objects of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, are_shares, are_within
from reid_torchmetrics.functional.detection.batches import sides_of
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches

from .notes import BatchNotes
from .repetitions import NO_REPETITIONS, Repetitions

Result = TypeVar("Result")

PIXELS = 2
"""sides of boxes in pixels are longer, in most boxes"""
LEAST_SHARE = 1e-9
"""an area that is less stands for 0"""
_MOST_BATCHES, _MOST_ROWS = 32, 1 << 12  # that are looked at, and of each


class BoxSample(NamedTuple):
    """Some boxes of both sides, as they were given, and the largest area that was given."""

    detections: Tensor
    ground_truths: Tensor
    largest_area: float


class Recall(NamedTuple):
    """Ground truths that are found at the first threshold, with their labels, in all area ranges."""

    num_found: int
    num_ground_truths: int
    mean_of_classes: float


def _compute_again(name: str, compute: Callable[[], Result]) -> Result:  # noqa: ARG001 - nothing is kept
    return compute()


@dataclass(frozen=True)
class DetectionEvidence:
    """What rows of advice may look at; what is costly is a function."""

    matches: Matches
    """of the images of all processes"""
    grid: CocoGrid
    objects: Callable[[], tuple[Detections, GroundTruths]]
    """all objects of this process"""
    read_sample: Callable[[], BoxSample | None] = lambda: None
    """some boxes of this process, or None if a side has none or their units were looked at before"""
    remember: Callable[[str, Callable[[], Result]], Result] = _compute_again
    """gives what was computed for the same matches under a name, or computes it"""
    notes: BatchNotes | None = None
    """what was noted of batches when they were stored"""
    iou_type: str = "bbox"
    box_format: str = "xywh"
    """format of the boxes of users"""
    is_one_class: bool = False
    """whether labels do not matter"""
    has_sizes: bool = False
    """whether a number of an area range is asked for"""
    num_without_lists: int = 0
    """images, if none has the lists of classes that some detections need"""
    label_names: Sequence[object] | None = None
    """what users call the labels, by number; None for the same"""
    read_image_sizes: Callable[[], Tensor | None] = lambda: None
    """gives width and height of each image, by its number, [images, 2]; NaN where they are not known"""
    repetitions: Repetitions = NO_REPETITIONS
    count_other_detections: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """images that came again with other detections, and all that came again"""
    count_repeated_labels: Callable[[], int] = lambda: 0
    """images since the last evaluation, if they have the labels of as many images before; 0 otherwise"""

    @cached_property
    def sample(self) -> BoxSample | None:
        """Some boxes, see `read_sample`."""
        return self.read_sample()

    @cached_property
    def many_boxes(self) -> BoxSample | None:
        """The sample, if it has enough boxes to tell their units."""
        sample = self.sample
        if sample is None or min(len(sample.detections), len(sample.ground_truths)) < LEAST_BOXES:
            return None
        return sample

    @cached_property
    def units(self) -> tuple[str | None, str | None]:
        """The units of detections and of ground truths, "shares" or "pixels", where they are sure."""
        sample = self.many_boxes
        if sample is None:
            return None, None
        sides = sample.detections, sample.ground_truths
        # As a rule boxes go beyond 1, and this is all that is looked at.
        is_within = [are_within(boxes) for boxes in sides]
        if not any(is_within) and not LEAST_SHARE < sample.largest_area < 1:
            return None, None
        units = [_unit_of(boxes, within, self.box_format) for boxes, within in zip(sides, is_within, strict=True)]
        return units[0], units[1]

    @cached_property
    def recall(self) -> Recall:
        """How many ground truths are found."""
        return self.remember("recall", self._compute_recall)

    def _compute_recall(self) -> Recall:
        num = self.matches.num_positives[0]
        right_columns = self.matches.columns[self.matches.true_positive[0, 0]]
        right = self.matches.class_index[right_columns].bincount(minlength=len(self.matches.classes))
        shares = (right.double() / num)[num > 0]
        mean = float(shares.mean()) if len(shares) else 0.0
        return Recall(int(right.sum()), int(num.sum()), mean)


def sample_boxes(blocks: Sequence[Tensor]) -> Tensor:
    """Return rows of batches from the whole run, where float64 can be computed."""
    step = -(-len(blocks) // _MOST_BATCHES)
    chosen = [block[:_MOST_ROWS] for block in blocks[::step]]
    if len(chosen) == 1:
        return to_compute_device(chosen[0])
    device = chosen[0].device
    return to_compute_device(torch.cat([block.to(device) for block in chosen]))


def _unit_of(boxes: Tensor, is_within: bool, box_format: str) -> str | None:
    """The unit of boxes if it is sure: boxes of one size or of whole numbers are not taken for shares."""
    sides = sides_of(boxes, box_format)
    if is_within:
        return "shares" if are_shares(boxes, sides) else None
    return "pixels" if float((sides > PIXELS).all(1).double().mean()) >= MOST else None
