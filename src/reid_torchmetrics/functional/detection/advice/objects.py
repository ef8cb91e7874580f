"""Samples of images that are matched again without labels, to tell why few ground truths are found."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

MOST_IMAGES, MOST_DETECTIONS = 256, 300
"""images of a sample, and detections of each"""
FEW_RIGHT, SAME = 0.1, 0.8
"""shares of pairs with equal labels, and of pairs with the usual ones"""
_MOST_SHOWN = 2  # pairs of labels in a text


class ObjectSample(NamedTuple):
    """The objects of some images with ground truths, evenly spread over all."""

    detections: Detections
    ground_truths: GroundTruths
    images: Tensor
    """numbers of the images, ascending"""


def sample_objects(detections: Detections, ground_truths: GroundTruths) -> ObjectSample:
    """Take some images, enough to tell; it costs the same for any number of images."""
    images = ground_truths.images.unique()
    step = -(-len(images) // MOST_IMAGES) or 1
    chosen = images[::step].contiguous()  # else `searchsorted` warns
    detection_rows = torch.isin(detections.images, chosen).nonzero()[:, 0]
    ground_truth_rows = torch.isin(ground_truths.images, chosen).nonzero()[:, 0]
    return ObjectSample(detections.at(detection_rows), ground_truths.at(ground_truth_rows), chosen)


def match_without_labels(detections: Detections, ground_truths: GroundTruths, at_least: float = 0.5) -> Matches:
    """Match objects of a sample as one class, at one overlap; `ground_truths` of the matches are kept."""
    grid = CocoGrid(
        (at_least,), max_detection_thresholds=(MOST_DETECTIONS,), area_ranges={"all": (-math.inf, math.inf)}
    )
    one_class = detections.of_one_class(), ground_truths.of_one_class()
    return match_on_grid(*one_class, grid, keep_ground_truths=True)


def rows_of_pairs(matches: Matches) -> tuple[Tensor, Tensor]:
    """Return the rows of the detections that are true positives, and of their ground truths."""
    is_found = matches.true_positive[0, 0]
    assert matches.ground_truths is not None  # noqa: S101 - they were asked for
    return matches.rows[matches.columns[is_found]], matches.ground_truths[0, 0][is_found]


class ShiftedLabels(NamedTuple):
    """Pairs of a detection and its ground truth, with labels that seem to be of two lists."""

    num_right: int
    num_found: int
    pairs: list[tuple[int, int]]
    """the most frequent labels"""


def find_shifted_labels(detections: Detections, ground_truths: GroundTruths) -> ShiftedLabels | None:
    """Return pairs of labels if most ground truths are found without labels, few of them with, and they seem a list.

    Labels 0, 1, 2 for 1, 2, 3 are found as 0 for 1, 1 for 2, 2 for 3: each label has one of its own. A classifier that
    learned nothing has other pairs, or a single label on one side.
    """
    sample = sample_objects(detections, ground_truths)
    matches = match_without_labels(sample.detections, sample.ground_truths)
    rows, true_rows = rows_of_pairs(matches)
    labels = sample.detections.labels[rows].long(), sample.ground_truths.labels[true_rows].long()
    pairs = torch.stack(labels)
    num_found, num_right = len(rows), int((pairs[0] == pairs[1]).sum())
    are_enough = num_found >= LEAST_BOXES and 2 * num_found > int(matches.num_positives.sum())
    if not are_enough or num_right >= FEW_RIGHT * num_found:
        return None
    are_disjoint = not bool(torch.isin(sample.detections.labels, sample.ground_truths.labels).any())
    if not are_disjoint and not _are_of_lists(pairs):
        return None
    kinds, counts = pairs.unique(dim=1, return_counts=True)
    most_frequent = kinds[:, counts.argsort(descending=True, stable=True)[:_MOST_SHOWN]].T.tolist()
    return ShiftedLabels(num_right, num_found, [(found, true) for found, true in most_frequent])


def _are_of_lists(pairs: Tensor) -> bool:
    """Whether each label goes with one on the other side, in most pairs after its first."""
    kinds, counts = pairs.unique(dim=1, return_counts=True)
    for labels in kinds:
        place = labels.unique(return_inverse=True)[1]
        usual = counts.new_zeros(int(place.amax()) + 1).scatter_reduce(0, place, counts, "amax")
        repeated = int(counts.sum()) - len(usual)
        if repeated < LEAST_BOXES or int((usual - 1).sum()) < SAME * repeated:
            return False
    return True
