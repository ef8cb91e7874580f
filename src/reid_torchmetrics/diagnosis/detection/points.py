"""A sample of objects as points, so that shapes of all kinds are compared and read in another way alike.

    boxes: left top and right bottom corner    rotated boxes: four corners    keypoints: themselves

Another scale, offset or axis changes points of any shape in the same way. A kind of shape adds its overlap, and the
readings that only its numbers can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.box_units import LEAST_BOXES
from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import BoxShapes
from reid_torchmetrics.functional.detection.matching import OverlappingPairs, best_pairs

from .objects import ShownObjects
from .shape_kinds import PairedRows, ShapeKind

FOUND = 0.5
"""overlap at which a ground truth is found"""
MOST_PAIRS = 1 << 14
"""pairs of a detection and a ground truth in the images of a sample"""
_DETECTIONS = 2  # in an image for each ground truth, those of the highest scores
_LEAST_COUNT = 4  # ground truths for which there are detections even where an image has fewer
_CLOSE = 0.2  # overlap of the boxes around the points of pairs that are close


@dataclass(frozen=True)
class PointSample:
    """The ground truths of the first images, and the detections of the highest scores."""

    kind: ShapeKind
    found: ShownObjects
    """detections by image, and in an image by descending score"""
    true: ShownObjects
    """ground truths by image"""
    sizes: Tensor
    """width and height of each image, NaN if unknown"""

    @cached_property
    def points(self) -> Tensor:
        """Points of the detections, [detections, points, 2]."""
        return self.kind.points(self.found.values[self.kind.key])

    @cached_property
    def true_points(self) -> Tensor:
        """Points of the ground truths, [ground truths, points, 2]."""
        return self.kind.points(self.true.values[self.kind.key])

    @cached_property
    def is_labeled(self) -> Tensor:
        """Whether each point of the ground truths counts."""
        is_labeled = self.true.is_labeled
        return torch.ones_like(self.true_points[..., 0], dtype=torch.bool) if is_labeled is None else is_labeled

    @cached_property
    def _pairs(self) -> PairedRows:
        return self._pairs_in(self.found.images)

    def _pairs_in(self, images: Tensor) -> PairedRows:
        """Return every detection with every ground truth of its image, given images for the detections."""
        counts = self.true.images.bincount(minlength=len(self.sizes))
        return PairedRows(*segments.runs(segments.starts(counts)[images], counts[images]))

    def pairs_found(self, points: Tensor, true_points: Tensor, at_least: float) -> PairedRows:
        """Return the ground truths that are found without labels, each with its detection of the highest score."""
        return self._find(self._pairs, points, true_points, at_least)

    def pairs_found_elsewhere(self, points: Tensor, true_points: Tensor, at_least: float) -> PairedRows:
        """Return the ground truths that the detections of other images find, or of the mirrored one if it is alone."""
        num_images = len(self.sizes)
        if num_images == 1:
            low, high = true_points.amin((0, 1)), true_points.amax((0, 1))
            return self.pairs_found(points, low + high - true_points, at_least)
        # The next images may be frames of the same video.
        pairs = self._pairs_in((self.found.images + num_images // 2) % num_images)
        return self._find(pairs, points, true_points, at_least)

    def close_pairs(self, boxes: Tensor, true_boxes: Tensor) -> PairedRows:
        """Return pairs of objects in about the same place, given boxes around them."""
        overlaps = BoxShapes(boxes).overlaps(self._pairs.rows, BoxShapes(true_boxes), self._pairs.true_rows)
        return _find_best(self._pairs, overlaps, _CLOSE)

    def _find(self, pairs: PairedRows, points: Tensor, true_points: Tensor, at_least: float) -> PairedRows:
        return _find_best(pairs, self.kind.overlaps(pairs, points, true_points, self.true), at_least)


def _find_best(pairs: PairedRows, overlaps: Tensor, at_least: float) -> PairedRows:
    """Return one detection for each ground truth that is found.

    A detection finds the ground truth that it overlaps most, if it does so by `at_least`.
    """
    near = overlaps >= at_least
    rows, true_rows = pairs.rows[near], pairs.true_rows[near]
    if not len(rows):
        return PairedRows(rows, true_rows)
    best = best_pairs(OverlappingPairs(true_rows, rows, overlaps[near]), int(rows.max()) + 1, takes_last=True)
    rows = (best.iou >= at_least).nonzero()[:, 0]
    first = rows.new_full((int(true_rows.max()) + 1,), len(best.iou))
    first.scatter_reduce_(0, best.ground_truth[rows], rows, "amin")
    true_rows = (first < len(best.iou)).nonzero()[:, 0]
    return PairedRows(first[true_rows], true_rows)


def sample_points(detections: ShownObjects, ground_truths: ShownObjects, sizes: Tensor, kind: ShapeKind) -> PointSample:
    """Return the objects of the first images as points.

    Args:
        detections: detections in the first images.
        ground_truths: ground truths in the first images.
        sizes: width and height of each image, NaN if unknown.
        kind: the kind of shapes.

    Raises:
        NotHeldError: there are few ground truths, or no finite detections.
    """
    if kind.key not in detections.values or kind.key not in ground_truths.values:
        raise NotHeldError(f"`{kind.key}`")
    true = ground_truths.at(ground_truths.is_counted)
    counts = true.images.bincount(minlength=len(sizes))
    most_detections = _DETECTIONS * counts.clamp(min=_LEAST_COUNT)
    # Of a crowded image some ground truths are compared, at equal distances.
    most_true = torch.minimum(counts, (MOST_PAIRS // most_detections).clamp(min=LEAST_BOXES))
    places = segments.ranks(true.images) * most_true[true.images]
    true = true.at(places % counts[true.images] < most_true[true.images])
    num_images = max(1, int(((most_detections * most_true).cumsum(0) <= MOST_PAIRS).sum()))
    true = true.at(true.images < num_images)
    rows = kind.points(detections.values[kind.key]).flatten(1).isfinite().all(1).nonzero()[:, 0]
    rows = rows[detections.column("scores")[rows].argsort(descending=True, stable=True)]
    rows = rows[detections.images[rows].argsort(stable=True)]
    images = detections.images[rows]
    rows = rows[(images < num_images) & (segments.ranks(images) < most_detections[images])]
    if len(true.images) < LEAST_BOXES or not len(rows):
        raise NotHeldError("sample of objects")
    return PointSample(kind, detections.at(rows), true, sizes[:num_images])
