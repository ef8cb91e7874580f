"""Trials that compare detections with ground truths of other classes and of other images."""

from __future__ import annotations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.box_units import LEAST_BOXES
from reid_torchmetrics.diagnosis.causes import Values, is_beyond_chance, values_if
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import keypoint_boxes, pairwise_iou

from .case import DetectionCase, cause, few_are_found, has_many_objects
from .objects import ShownObjects
from .points import PointSample

FEW = 0.3
"""fraction of all ground truths that are found, if labels are numbered in two ways"""
FEW_OF_CLASSES = 0.1
"""the same fraction, as a mean over classes"""
FEW_RIGHT = 0.1
"""fraction of pairs with equal labels"""
SAME = 0.8
"""fraction of pairs in which a label has its most frequent partner"""
LOST = 0.1
"""recall of a class; few objects of an exchanged class are found with their label"""
NUM_IMAGES = 128
"""images that are compared with each other"""
MOST_BOXES = (8, 4)
"""detections and ground truths of an image that are compared"""
CLOSE = 0.7
"""overlap of a detection with a ground truth of another image"""
LEAST_IMAGES = 8
"""fewer images say nothing"""
MANY = 0.4
"""fraction of the images that fit another one"""
_ALONE_BY_LUCK = 0.14  # the share of images in such pairs is at most exp(-2) if they fit independently
FOUND = 0.6
"""fraction of the ground truths that the detections of another image find"""


def labels_are_lost(case: DetectionCase) -> bool:
    """Return whether few of many objects are found with their label, in all classes or in two of them.

    There may be many detections of which few count: LVIS leaves out those of classes that an image does not list.
    """
    are_many = has_many_objects(case) or few_are_found(case)
    return are_many and (_have_few_right(case) or _have_lost_classes(case))


def _have_few_right(case: DetectionCase) -> bool:
    num_found, num_true = case.recall_of_classes
    is_few = num_found.sum() < FEW * num_true.sum()
    return bool(is_few & ((num_found / num_true).nanmean() < FEW_OF_CLASSES))


def _have_lost_classes(case: DetectionCase) -> bool:
    num_found, num_true = case.recall_of_classes
    return int(((num_true >= LEAST_BOXES) & (num_found < LOST * num_true)).sum()) > 1


@cause(
    message="Only {num_right} of {num} ground truths that are found have the label of their detection; most frequent"
    " are {pairs}. Number the classes of `preds` and `target` alike: one of them may start at 0, and the other at 1.",
    suspect=labels_are_lost,
)
def labels(case: DetectionCase) -> Values | None:
    """Look for labels in two numberings, such as from 0 in `preds` and from 1 in `target`, or exchanged classes.

    Fewer than {FEW} of the ground truths are found with their labels, and fewer than {FEW_OF_CLASSES} in the mean over
    classes. Without labels, more than half are found, and fewer than {FEW_RIGHT} of these pairs have equal labels.
    Either `preds` and `target` have no label in common, or in {SAME} of the pairs each label has its most frequent
    partner. Or at least two classes with {LEAST_BOXES} ground truths have a recall below {LOST}, and {SAME} of the
    objects of each are found with the label of one other of them.
    """
    pairs = case.paired_labels
    num = int(pairs.counts.sum())
    if case.images.is_one_class or num < LEAST_BOXES:
        return None
    if not _are_renumbered(case, pairs.counts) and not _are_exchanged(case, pairs.counts):
        return None
    wrong = pairs.counts - pairs.counts.diag().diag()
    places = sorted(wrong.nonzero().tolist(), key=lambda place: -int(wrong[tuple(place)]))
    num_right = int(pairs.counts.diagonal().sum())
    return {"num_right": num_right, "num": num, "pairs": pairs.text(places[:3])}


def _are_renumbered(case: DetectionCase, counts: Tensor) -> bool:
    """Return whether few of the ground truths that are found have their label, because of a different numbering.

    If 0, 1, 2 stand for 1, 2, 3, then pairs are 0 for 1, 1 for 2 and 2 for 3: each label has one partner. A classifier
    that learned nothing has other pairs, or predicts a single label.
    """
    if not _have_few_right(case):
        return False
    num_pairs, sample = counts.sum(), case.points
    if 2 * num_pairs <= len(sample.true.images) or counts.diagonal().sum() >= FEW_RIGHT * num_pairs:
        return False
    if (counts.sum(0) > 0).sum() == 1 < (counts.sum(1) > 0).sum():
        return False
    are_disjoint = not bool(torch.isin(sample.found.column("labels"), sample.true.column("labels")).any())
    return are_disjoint or all(_have_one_partner(counts_of_side) for counts_of_side in (counts, counts.T))


def _have_one_partner(counts: Tensor) -> bool:
    """Return whether each label has the same partner in most pairs after its first one, among two labels or more.

    This must be so on both sides: a single class that is taken for another one has one partner, too.
    """
    largest_counts = counts.amax(1)
    num_labels = int((largest_counts > 0).sum())
    num_repeated = int(counts.sum()) - num_labels
    num_same = int(largest_counts.sum()) - num_labels
    return num_labels > 1 and num_repeated >= LEAST_BOXES and num_same >= SAME * num_repeated


def _are_exchanged(case: DetectionCase, counts: Tensor) -> bool:
    """Return whether the objects of two classes or more are found with the label of another one of them."""
    if not _have_lost_classes(case):
        return False
    num_pairs = counts.sum(1)
    largest, partners = counts.max(1)
    is_other = partners != torch.arange(len(counts), device=counts.device)
    lost = ((num_pairs >= LEAST_BOXES) & (largest >= SAME * num_pairs) & is_other).nonzero()[:, 0]
    return len(lost) > 1 and torch.equal(partners[lost].sort().values, lost)


@cause(
    message="The detections of {num} of {total} checked images find most ground truths of another image, and few"
    " of their own: image ids of both sides seem to be of different tables, or `preds` and `target` in different"
    " orders.",
    suspect=few_are_found,
    explained_by=("mixed_units", "corners_as_sizes", "labels", "other_reading"),
)
def other_images(case: DetectionCase) -> Values | None:
    """Look for detections of other images, by ids of another table or in another order.

    Fewer than half of the ground truths are found. Of at most {NUM_IMAGES} images, {MANY} have detections that find
    {FOUND} of the ground truths of another image at an overlap of {CLOSE}, and fewer of their own, in pairs in which
    each image fits no other one, which are more than by luck.
    """
    sample = case.points
    images = sample.true.images.unique()
    images = images[torch.isin(images, sample.found.images)]
    if len(images) < LEAST_IMAGES:
        return None
    images = images[:NUM_IMAGES]
    num_fits, total = _count_fits(sample, images), len(images)
    is_sign = num_fits >= MANY * total and is_beyond_chance(num_fits, total, _ALONE_BY_LUCK)
    return values_if(is_sign, num=num_fits, total=total)


def _count_fits(sample: PointSample, images: Tensor) -> int:
    """Count the images with detections that find the ground truths of another image, if neither finds its own.

    Detections may fit any image by luck, so only pairs count in which each image fits no other one.
    """
    rows, num_detections = _first_rows(sample.found, images, MOST_BOXES[0])
    true_rows, num_true = _first_rows(sample.true, images, MOST_BOXES[1])
    true_boxes = keypoint_boxes(sample.true_points[true_rows], sample.is_labeled[true_rows])
    overlaps = pairwise_iou(keypoint_boxes(sample.points[rows]), true_boxes, box_format="xywh")
    # The fraction of the ground truths in each image (row) that the detections of each image (column) find.
    is_found = (segments.reduce(overlaps, "max", num_detections) >= CLOSE).double()
    fractions = segments.reduce(is_found.T.contiguous(), "sum", num_true) / num_true[:, None]
    is_missed = fractions.diagonal() < FOUND
    fits = (fractions >= FOUND) & is_missed & is_missed[:, None]
    is_alone = (fits.sum(1, keepdim=True) == 1) & (fits.sum(0) == 1)
    return int((fits & is_alone).sum())


def _first_rows(objects: ShownObjects, images: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return rows of the first objects in some images, and their numbers."""
    is_first = segments.ranks(objects.images) < most
    rows = (is_first & torch.isin(objects.images, images)).nonzero()[:, 0]
    return rows, objects.images[rows].bincount()[images]
