"""Samples of images that are matched again without labels, to learn why few ground truths are found."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import OverlappingPairs, best_pairs

MOST_IMAGES = 256
"""images in a sample"""
MOST_DETECTIONS = 100
"""detections per image of a sample"""
MOST_PAIRS = 1 << 17
"""pairs of a detection and a ground truth in the images of a sample"""
FOUND = 0.5
"""overlap at which a ground truth is found"""


class PairedRows(NamedTuple):
    """Rows of detections and of ground truths."""

    rows: Tensor
    true_rows: Tensor


class SampledObjects(NamedTuple):
    """The objects in some images with ground truths, evenly spread over all images, without crowds."""

    detections: Detections
    """by image, and in an image by descending score"""
    ground_truths: GroundTruths
    """by image"""
    images: Tensor
    """numbers of the images, ascending"""
    places: Tensor
    """place of the image of each detection in `images`"""
    true_places: Tensor
    """place of the image of each ground truth in `images`"""


def sample_objects(detections: Detections, ground_truths: GroundTruths) -> SampledObjects:
    """Return the objects in a sample of images, so that later checks cost the same for any number of images."""
    if ground_truths.is_crowd is not None:
        ground_truths = ground_truths.at((~ground_truths.is_crowd).nonzero()[:, 0])
    images = ground_truths.images.unique()
    num_pairs = MOST_DETECTIONS * len(ground_truths.images)
    most_images = min(MOST_IMAGES, MOST_PAIRS * len(images) // max(1, num_pairs))
    step = -(-len(images) // max(1, most_images)) or 1
    images = images[::step].contiguous()  # otherwise `searchsorted` warns
    rows = torch.isin(detections.images, images).nonzero()[:, 0]
    rows = rows[detections.scores[rows].argsort(descending=True, stable=True)]
    rows = rows[detections.images[rows].argsort(stable=True)]
    detections = detections.at(rows[segments.ranks(detections.images[rows]) < MOST_DETECTIONS])
    true_rows = torch.isin(ground_truths.images, images).nonzero()[:, 0]
    ground_truths = ground_truths.at(true_rows[ground_truths.images[true_rows].argsort(stable=True)])
    places = torch.searchsorted(images, detections.images)
    return SampledObjects(detections, ground_truths, images, places, torch.searchsorted(images, ground_truths.images))


def pairs_in_images(images: Tensor, true_images: Tensor, num_images: int) -> PairedRows:
    """Return every detection with every ground truth of its image, which are in order of their images."""
    counts = true_images.bincount(minlength=num_images)
    return PairedRows(*segments.runs(segments.starts(counts)[images], counts[images]))


def find_ground_truths(pairs: PairedRows, overlaps: Tensor, at_least: float) -> PairedRows:
    """Return the ground truths that are found without labels, each with its detection of the highest score.

    A detection finds the ground truth that it overlaps most, if it does so by `at_least`. Rows of `pairs` ascend, and
    the detections of an image are in order of their scores.
    """
    num_detections = int(pairs.rows[-1]) + 1 if len(pairs.rows) else 0
    best = best_pairs(OverlappingPairs(pairs.true_rows, pairs.rows, overlaps), num_detections, takes_last=True)
    rows = (best.iou >= at_least).nonzero()[:, 0]
    true_rows = best.ground_truth[rows]
    num_ground_truths = int(true_rows.amax()) + 1 if len(rows) else 0
    first = rows.new_full((num_ground_truths,), num_detections).scatter_reduce_(0, true_rows, rows, "amin")
    found = (first < num_detections).nonzero()[:, 0]
    return PairedRows(first[found], found)


def pair_labels(sample: SampledObjects) -> tuple[Tensor, Tensor]:
    """Return the labels of detections that find a ground truth, and of these ground truths."""
    pairs = pairs_in_images(sample.places, sample.true_places, len(sample.images))
    overlaps = sample.detections.shapes.overlaps(pairs.rows, sample.ground_truths.shapes, pairs.true_rows)
    rows, true_rows = find_ground_truths(pairs, overlaps, FOUND)
    return sample.detections.labels[rows].long(), sample.ground_truths.labels[true_rows].long()
