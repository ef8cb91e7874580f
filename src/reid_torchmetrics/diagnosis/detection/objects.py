"""Samples of images that are matched again without labels, to learn why few ground truths are found."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

MOST_IMAGES = 256
"""images in a sample"""
MOST_DETECTIONS = 300
"""detections per image of a sample"""
FEW_RIGHT = 0.1
"""fraction of pairs with equal labels"""
SAME = 0.8
"""fraction of pairs in which a label has its most frequent partner"""
_MAX_PAIRS = 2  # pairs of labels in a text


class ObjectSample(NamedTuple):
    """The objects in some images with ground truths, evenly spread over all images."""

    detections: Detections
    ground_truths: GroundTruths
    images: Tensor
    """numbers of the images, ascending"""


def sample_objects(detections: Detections, ground_truths: GroundTruths) -> ObjectSample:
    """Return the objects in a sample of images, so that later checks cost the same for any number of images."""
    images = ground_truths.images.unique()
    step = -(-len(images) // MOST_IMAGES) or 1
    sampled = images[::step].contiguous()  # otherwise `searchsorted` warns
    detection_rows = torch.isin(detections.images, sampled).nonzero()[:, 0]
    ground_truth_rows = torch.isin(ground_truths.images, sampled).nonzero()[:, 0]
    return ObjectSample(detections.at(detection_rows), ground_truths.at(ground_truth_rows), sampled)


def match_without_labels(detections: Detections, ground_truths: GroundTruths, at_least: float = 0.5) -> Matches:
    """Match the objects of a sample as one class, at one overlap; the matches have `ground_truths`."""
    grid = CocoGrid(
        (at_least,),
        max_detection_thresholds=(MOST_DETECTIONS,),
        area_ranges={"all": (-math.inf, math.inf)},
    )
    return match_on_grid(detections.as_one_class(), ground_truths.as_one_class(), grid, keep_ground_truths=True)


def rows_of_pairs(matches: Matches) -> tuple[Tensor, Tensor]:
    """Return the rows of the detections that are true positives, and of their ground truths."""
    is_true_positive = matches.true_positive[0, 0]
    assert matches.ground_truths is not None  # noqa: S101 - they were requested
    return matches.rows[matches.columns[is_true_positive]], matches.ground_truths[0, 0][is_true_positive]


class ShiftedLabels(NamedTuple):
    """Pairs of a detection and its ground truth, with labels that seem to be numbered differently."""

    num_right: int
    num_found: int
    pairs: list[tuple[int, int]]
    """the most frequent pairs of a detected label and a ground truth's label"""


def find_shifted_labels(detections: Detections, ground_truths: GroundTruths) -> ShiftedLabels | None:
    """Return pairs of labels if most ground truths are found without labels, but few with labels, for one reason.

    The reason is a different numbering. If 0, 1, 2 stand for 1, 2, 3, then pairs are 0 for 1, 1 for 2 and 2 for 3: each
    label has one partner. A classifier that learned nothing has other pairs, or predicts a single label.
    """
    sample = sample_objects(detections, ground_truths)
    matches = match_without_labels(sample.detections, sample.ground_truths)
    rows, true_rows = rows_of_pairs(matches)
    labels = sample.detections.labels[rows].long()
    true_labels = sample.ground_truths.labels[true_rows].long()
    num_found = len(rows)
    num_right = int((labels == true_labels).sum())
    are_enough = num_found >= LEAST_BOXES and 2 * num_found > int(matches.num_positives.sum())
    if not are_enough or num_right >= FEW_RIGHT * num_found:
        return None

    pairs = torch.stack([labels, true_labels])
    are_disjoint = not bool(torch.isin(sample.detections.labels, sample.ground_truths.labels).any())
    if not are_disjoint and not _have_one_partner(pairs):
        return None
    distinct, counts = pairs.unique(dim=1, return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    most_frequent = distinct[:, order[:_MAX_PAIRS]].T.tolist()
    return ShiftedLabels(num_right, num_found, [(label, true_label) for label, true_label in most_frequent])


def _have_one_partner(pairs: Tensor) -> bool:
    """Return whether each label has the same partner in most pairs after its first one, on both sides."""
    distinct, counts = pairs.unique(dim=1, return_counts=True)
    for labels in distinct:
        place = labels.unique(return_inverse=True)[1]
        largest_counts = counts.new_zeros(int(place.amax()) + 1).scatter_reduce(0, place, counts, "amax")
        num_repeated = int(counts.sum()) - len(largest_counts)
        if num_repeated < LEAST_BOXES or int((largest_counts - 1).sum()) < SAME * num_repeated:
            return False
    return True
