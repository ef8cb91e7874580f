"""Evidence for advice on detection: matches from all processes, and samples of objects from this process."""

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
"""most boxes in pixels have longer sides"""
LEAST_SHARE = 1e-9
"""a smaller area counts as 0"""
_MAX_BATCHES = 32  # in a sample
_MAX_ROWS = 1 << 12  # of each batch in a sample


class BoxSample(NamedTuple):
    """Some boxes as users passed them, and the largest `area` that they passed."""

    detections: Tensor
    ground_truths: Tensor
    largest_area: float


class Recall(NamedTuple):
    """Numbers of ground truths that are found at the first threshold, with their labels, in all area ranges."""

    num_found: int
    num_ground_truths: int
    mean_of_classes: float


def _compute_again(name: str, compute: Callable[[], Result]) -> Result:  # noqa: ARG001 - nothing is stored
    return compute()


@dataclass(frozen=True)
class DetectionEvidence:
    """The input of conditions; functions provide what is costly to compute."""

    matches: Matches
    """matches of the images of all processes"""
    grid: CocoGrid
    objects: Callable[[], tuple[Detections, GroundTruths]]
    """returns all objects of this process"""
    read_sample: Callable[[], BoxSample | None] = lambda: None
    """returns some boxes of this process; None if there are none in `preds` or `target`, or they were checked before"""
    remember: Callable[[str, Callable[[], Result]], Result] = _compute_again
    """returns the value computed for the same matches under a name; computes it first if there is none"""
    notes: BatchNotes | None = None
    """notes on batches, taken when they were stored"""
    iou_type: str = "bbox"
    box_format: str = "xywh"
    """format of the users' boxes"""
    is_one_class: bool = False
    """whether labels do not matter"""
    has_sizes: bool = False
    """whether a number for an area range is requested"""
    num_without_lists: int = 0
    """number of images, if none has the lists of classes that some detections need"""
    label_names: Sequence[object] | None = None
    """the users' label for each label number; None if both are equal"""
    read_image_sizes: Callable[[], Tensor | None] = lambda: None
    """returns width and height of each image, by its number, [images, 2]; NaN if unknown"""
    repetitions: Repetitions = NO_REPETITIONS
    count_other_detections: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """returns the number of repeated images with other detections, and of all repeated images"""
    count_repeated_labels: Callable[[], int] = lambda: 0
    """returns the number of images since the last evaluation, if they have the labels of all images before; else 0"""

    @cached_property
    def sample(self) -> BoxSample | None:
        """Some boxes, see `read_sample`."""
        return self.read_sample()

    @cached_property
    def many_boxes(self) -> BoxSample | None:
        """The sample, if it has enough boxes to infer their units."""
        sample = self.sample
        if sample is None or min(len(sample.detections), len(sample.ground_truths)) < LEAST_BOXES:
            return None
        return sample

    @cached_property
    def units(self) -> tuple[str | None, str | None]:
        """The units of detections and of ground truths: "shares" of the image size, "pixels", or None if unclear."""
        sample = self.many_boxes
        if sample is None:
            return None, None
        # Most data sets have boxes beyond 1, so this first check is usually the only one.
        are_detections_within = are_within(sample.detections)
        are_ground_truths_within = are_within(sample.ground_truths)
        are_areas_small = LEAST_SHARE < sample.largest_area < 1
        if not (are_detections_within or are_ground_truths_within or are_areas_small):
            return None, None
        return (
            _unit_of(sample.detections, are_detections_within, self.box_format),
            _unit_of(sample.ground_truths, are_ground_truths_within, self.box_format),
        )

    @cached_property
    def recall(self) -> Recall:
        """The number of ground truths that are found."""
        return self.remember("recall", self._compute_recall)

    def _compute_recall(self) -> Recall:
        num_positives = self.matches.num_positives[0]
        true_positives = self.matches.columns[self.matches.true_positive[0, 0]]
        num_found = self.matches.class_index[true_positives].bincount(minlength=len(self.matches.classes))
        recalls = (num_found.double() / num_positives)[num_positives > 0]
        mean = float(recalls.mean()) if len(recalls) else 0.0
        return Recall(int(num_found.sum()), int(num_positives.sum()), mean)


def sample_boxes(blocks: Sequence[Tensor]) -> Tensor:
    """Return rows of batches from the whole run, on a device that can compute float64."""
    step = -(-len(blocks) // _MAX_BATCHES)
    parts = [block[:_MAX_ROWS] for block in blocks[::step]]
    if len(parts) == 1:
        return to_compute_device(parts[0])
    device = parts[0].device
    return to_compute_device(torch.cat([part.to(device) for part in parts]))


def _unit_of(boxes: Tensor, is_within: bool, box_format: str) -> str | None:
    """Return the unit of boxes if it is clear; boxes of one size or of whole numbers do not count as shares."""
    sides = sides_of(boxes, box_format)
    if is_within:
        return "shares" if are_shares(boxes, sides) else None
    is_long = (sides > PIXELS).all(1)
    return "pixels" if float(is_long.double().mean()) >= MOST else None
