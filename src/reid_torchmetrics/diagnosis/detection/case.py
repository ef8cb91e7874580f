"""The input of the rows of detection: finished matches, facts, and samples of what this process was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, are_shares, are_within
from reid_torchmetrics.functional.detection.batches import ShownImage, ShownMasks, sides_of
from reid_torchmetrics.functional.detection.evaluation import ImageMatches, MatchedImages
from reid_torchmetrics.functional.detection.inputs import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches

from .sampled_objects import SampledObjects, pair_labels, sample_objects

PIXELS = 2
"""most boxes in pixels have longer sides"""
_KEYS_OF_OBJECTS = ("labels", "scores", "boxes", "area", "iscrowd", "keypoints", "rotated_boxes", "masks")
_MAX_BATCHES = 32  # in a sample
_MAX_ROWS = 1 << 12  # of each batch in a sample


class SampledBoxes(NamedTuple):
    """Some boxes as users passed them, from the whole run, and the largest `area` that they passed."""

    detections: Tensor
    ground_truths: Tensor
    largest_area: float


class ShownColumns(NamedTuple):
    """Values of all objects in the first images, on one side."""

    images: Tensor
    """place of the image of each object"""
    values: dict[str, Tensor]
    """values that all objects have, by the users' key; numbers of pixels in the place of `masks`"""

    @classmethod
    def of(cls, items: Sequence[Mapping[str, Any]]) -> ShownColumns:
        """Join the values of images."""
        counts = torch.tensor([len(item["labels"]) for item in items], dtype=torch.int64, device="cpu")
        columns = {}
        for key in _KEYS_OF_OBJECTS:
            parts = []
            for item in items:
                part = item.get(key)
                part = part.num_pixels if isinstance(part, ShownMasks) else part
                if isinstance(part, Tensor) and len(part):
                    parts.append(part.cpu())
            has_all = sum(map(len, parts)) == int(counts.sum())
            if parts and has_all and len({part.shape[1:] for part in parts}) == 1:
                columns[key] = torch.cat(parts)
        return cls(torch.repeat_interleave(counts), columns)


class FoundCounts(NamedTuple):
    """Numbers of ground truths that are found at the first threshold, with their labels, in all area ranges."""

    num_found: int
    num_ground_truths: int
    """ground truths that count: no crowds"""


class DetectionCase:
    """Finished matches of detections, and what they were computed from.

    Suspicions read `recall`, `matches`, `grid`, the facts in `images`, and the numbers of objects; trials read the
    rest, which is computed when it is first read.
    """

    def __init__(self, results: Any, images: MatchedImages) -> None:
        """Take `ImageMatches`, `DetectionResults` or `Matches`."""
        self.results = results
        self.images = images
        """facts about the images of all processes, such as `num_without_lists`, `value_names` and `label_names`"""
        self.matches: Matches = results if isinstance(results, Matches) else results.matches
        """matches of the images of all processes; detections beyond the largest limit are left out"""
        self.grid = images.grid
        self.iou_type = images.iou_type
        """"bbox", "segm", "keypoints" or "rotated"; "" for shapes of a user"""
        self.box_format = images.box_format
        """format of the users' boxes in `sample` and `shown`"""

    @cached_property
    def recall(self) -> FoundCounts:
        """The numbers of ground truths that are found, and of all; it is computed once for the same matches."""
        if isinstance(self.results, ImageMatches):
            return self.results.remember("recall", self._count_found)
        return self._count_found()

    @cached_property
    def mean_recall_of_classes(self) -> float:
        """The recall at the first threshold, as a mean over the classes with ground truths."""
        num_positives = self.matches.num_positives[0]
        true_positives = self.matches.columns[self.matches.true_positive[0, 0]]
        num_found = self.matches.class_index[true_positives].bincount(minlength=len(self.matches.classes))
        recalls = (num_found.double() / num_positives)[num_positives > 0]
        return float(recalls.mean()) if len(recalls) else 0.0

    @cached_property
    def objects(self) -> tuple[Detections, GroundTruths]:
        """All objects of this process: boxes as x, y, width and height; other shapes as a table of overlaps.

        `images` of both are numbers of images of this process, as in `image_sizes`.
        """
        return self.images.objects()

    @cached_property
    def sampled_objects(self) -> SampledObjects:
        """The objects of some images, which are spread over all images of this process."""
        return sample_objects(*self.objects)

    @cached_property
    def paired_labels(self) -> tuple[Tensor, Tensor]:
        """The labels of sampled detections that find a ground truth, and of these ground truths."""
        return pair_labels(self.sampled_objects)

    @cached_property
    def image_sizes(self) -> Tensor | None:
        """Width and height of each image of this process, by its number, [images, 2].

        NaN if unknown; None if all are unknown.
        """
        return self.images.image_sizes()

    @cached_property
    def shown(self) -> Sequence[ShownImage]:
        """The first images that this process was given, at most 256: `preds` and `target` of each, on the CPU.

        The dicts have the users' keys: `boxes` in `box_format` (those around other shapes, if they were not given),
        `scores`, `labels`, `detection_area`; `iscrowd`, `area` (only if the batch or file had them; 0 where an image
        lacked it), `image_id`, `orig_size` (height, width), `difficult`, `num_keypoints`, lists of classes;
        `keypoints` [objects, keypoints, 3], `rotated_boxes` [objects, 5 or 8] as they were given, and in the place of
        `masks` the facts `ShownMasks`. Boxes of integers are float64.
        """
        return self.images.shown()

    @cached_property
    def columns(self) -> tuple[ShownColumns, ShownColumns]:
        """The values of all objects of `shown`: of `preds`, and of `target`."""
        detections, ground_truths = zip(*self.shown, strict=True) if self.shown else ((), ())
        return ShownColumns.of(detections), ShownColumns.of(ground_truths)

    @cached_property
    def sample(self) -> SampledBoxes | None:
        """Some boxes from the whole run, in `box_format`; None if there are none in `preds` or `target`."""
        detections = _sampled(self.images.detection_boxes)
        ground_truths = _sampled(self.images.ground_truth_boxes)
        if not len(detections) or not len(ground_truths):
            return None
        areas = _sampled(self.images.ground_truth_areas)
        return SampledBoxes(detections, ground_truths, float(areas.amax()) if len(areas) else 0.0)

    @cached_property
    def many_boxes(self) -> SampledBoxes | None:
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
        if not (are_detections_within or are_ground_truths_within):
            return None, None
        return (
            _unit_of(sample.detections, are_detections_within, self.box_format),
            _unit_of(sample.ground_truths, are_ground_truths_within, self.box_format),
        )

    @property
    def has_sizes(self) -> bool:
        """Whether a number for an area range is requested."""
        sizes = list(self.grid.area_ranges)[1:]
        if self.images.value_names is None:
            return bool(sizes)
        return any(f"_{size}" in name for name in self.images.value_names for size in sizes)

    def _count_found(self) -> FoundCounts:
        num_found = self.matches.true_positive[0, 0].sum()
        return FoundCounts(*torch.stack([num_found, self.matches.num_positives[0].sum()]).tolist())


def _sampled(blocks: Sequence[Tensor]) -> Tensor:
    """Return rows of batches from the whole run, on a device that can compute float64."""
    if not blocks:
        return torch.empty(0, device="cpu")
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
