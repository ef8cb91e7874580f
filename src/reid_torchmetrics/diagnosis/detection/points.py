"""Samples of boxes, rotated boxes and keypoints as points, for one search of other readings.

    boxes: left top and right bottom corner    rotated boxes: four corners    keypoints: themselves

Another scale, offset or axis changes points of any shape in the same way. A kind of shape adds its overlap, and the
readings that only its numbers can have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import BoxShapes, keypoint_boxes

from .sampled_objects import FOUND, PairedRows, find_ground_truths, pairs_in_images

_TRIAL_IMAGES = 32  # images in a trial
_CLOSE = 0.2  # overlap of the boxes around the points of pairs that are close


class Reading(NamedTuple):
    """A reading to try, with the points that it results in."""

    argument: str
    """`preds` or `target`: the shapes to read in another way"""
    name: str
    remedy: str
    preds: Tensor
    target: Tensor


class ShapeKind(ABC):
    """A kind of shape, for the search of other readings."""

    @abstractmethod
    def read(self, item: Mapping[str, Any], *, is_true: bool) -> Tensor:
        """Return the numbers in the dict of an image, of `preds` or of `target`, float64."""

    @abstractmethod
    def points(self, numbers: Tensor) -> Tensor:
        """Return the points [shapes, points, 2] of the numbers."""

    @abstractmethod
    def overlaps(self, preds: Tensor, target: Tensor, pairs: PairedRows, sample: PointSample) -> Tensor:
        """Return the overlaps of pairs of changed points, for a sample of the same objects."""

    @abstractmethod
    def readings(self, sample: PointSample) -> Iterator[Reading]:
        """Yield the readings that other shapes do not have, simple ones first."""

    def is_labeled(self, numbers: Tensor) -> Tensor:
        """Return whether each point of ground truths is labeled, [shapes, points]."""
        points = self.points(numbers)
        return torch.ones_like(points[:, :, 0], dtype=torch.bool)


@dataclass(frozen=True)
class PointSample:
    """The objects of some images; detections are in order of their images, and in an image of descending scores."""

    kind: ShapeKind
    numbers: Tensor
    """the numbers of detections"""
    true_numbers: Tensor
    """the numbers of ground truths, in order of their images"""
    images: Tensor
    """for each detection the place of its image in the sample"""
    true_images: Tensor
    num_images: int
    sizes: Tensor | None = None
    """width and height of each image, NaN if unknown"""
    areas: Tensor | None = None
    """areas of the ground truths, if overlaps depend on them"""
    at_least: float = FOUND
    """overlap at which a ground truth is found"""

    @cached_property
    def preds(self) -> Tensor:
        """The points of the detections."""
        return self.kind.points(self.numbers)

    @cached_property
    def target(self) -> Tensor:
        """The points of the ground truths."""
        return self.kind.points(self.true_numbers)

    @cached_property
    def is_labeled(self) -> Tensor:
        """Whether each point of the ground truths is labeled."""
        return self.kind.is_labeled(self.true_numbers)

    @cached_property
    def _pairs(self) -> PairedRows:
        return pairs_in_images(self.images, self.true_images, self.num_images)

    @cached_property
    def _ranks(self) -> Tensor:
        return segments.ranks(self.images)

    def best(self, factor: int = 1) -> Tensor:
        """Return rows of the detections with the highest scores, in each image `factor` times the ground truths."""
        most = factor * self.true_images.bincount(minlength=self.num_images)
        return (self._ranks < most[self.images]).nonzero()[:, 0]

    def reading(self, argument: str, name: str, remedy: str, points: Tensor) -> Reading:
        """Return a reading to try: other points for `preds` or for `target`."""
        if argument == "preds":
            return Reading(argument, name, remedy, points, self.target)
        return Reading(argument, name, remedy, self.preds, points)

    def trial(self) -> PointSample:
        """Return the best detections in few images, which are evenly spread."""
        step = max(1, self.num_images // _TRIAL_IMAGES)
        rows = self.best(2)
        rows = rows[self.images[rows] % step == 0]
        true_rows = (self.true_images % step == 0).nonzero()[:, 0]
        return replace(
            self,
            numbers=self.numbers[rows],
            true_numbers=self.true_numbers[true_rows],
            images=self.images[rows] // step,
            true_images=self.true_images[true_rows] // step,
            num_images=len(range(0, self.num_images, step)),
            sizes=None if self.sizes is None else self.sizes[::step],
            areas=None if self.areas is None else self.areas[true_rows],
        )

    def num_found(self, preds: Tensor, target: Tensor) -> int:
        """Return the number of ground truths that are found, for changed points of the same objects."""
        return self._num_found(self._pairs, preds, target)

    def _num_found(self, pairs: PairedRows, preds: Tensor, target: Tensor) -> int:
        overlaps = self.kind.overlaps(preds, target, pairs, self)
        return len(find_ground_truths(pairs, overlaps, self.at_least).rows)

    def num_found_elsewhere(self, preds: Tensor, target: Tensor) -> int:
        """Return the number of ground truths that the detections of other images find.

        It is the largest number for several ways to exchange images. A single image is compared with its mirror image.
        """
        if self.num_images == 1:
            low, high = target.amin((0, 1)), target.amax((0, 1))
            mirrored = (low + high - target).flip(1)  # the left top corner of a box comes first again
            return self.num_found(preds, mirrored)
        counts = []
        for shift in {max(1, self.num_images // 3), self.num_images // 2}:  # not 1: neighbors may be frames of a video
            images = (self.images + shift) % self.num_images
            pairs = pairs_in_images(images, self.true_images, self.num_images)
            counts.append(self._num_found(pairs, preds, target))
        return max(counts)

    def close_pairs(self, preds: Tensor, target: Tensor) -> PairedRows:
        """Return pairs of objects with points in about the same place, in any order."""
        boxes = BoxShapes(keypoint_boxes(preds))
        true_boxes = BoxShapes(keypoint_boxes(target, self.is_labeled))
        overlaps = boxes.overlaps(self._pairs.rows, true_boxes, self._pairs.true_rows)
        return find_ground_truths(self._pairs, overlaps, _CLOSE)
