"""Trials that compare detections with ground truths of other classes and of other images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.batches import ShownImage
from reid_torchmetrics.functional.detection.inputs import pairwise_iou, to_xywh
from reid_torchmetrics.functional.detection.matching import Matches

from .case import DetectionCase
from .labels import SAME

LOST = 0.1
"""recall of a class; few objects of an exchanged class are found with their label"""
NUM_IMAGES = (32, 128)
"""numbers of images that are compared with each other, in two trials"""
MOST_BOXES = (8, 4)
"""detections and ground truths of an image that are compared"""
CLOSE = 0.7
"""overlap of a detection with a ground truth of another image"""
LEAST_IMAGES = 8
"""images with two ground truths or more that fit another image"""
SPECIFIC = 2
"""factor between the fits at one distance and at an average one; detections may fit as many images"""
MANY = 0.4
"""fraction of the images that fit another one"""
FOUND = 0.6
"""fraction of the ground truths that the detections of another image find"""


def misses_many(case: DetectionCase) -> bool:
    """Return whether enough ground truths for two classes are missed."""
    recall = case.recall
    return recall.num_ground_truths - recall.num_found >= 2 * (1 - LOST) * LEAST_BOXES


def exchanged_labels(case: DetectionCase) -> Values | None:
    """Look for classes that are exchanged: objects of each are found with the label of another."""
    if case.images.is_one_class or int(_are_lost(case.matches).sum()) < 2:
        return None
    labels, true_labels = case.paired_labels
    if not len(labels):
        return None
    pairs = torch.stack([true_labels, labels])
    classes, places = pairs.unique(return_inverse=True)
    counts = torch.zeros(len(classes), len(classes), dtype=torch.int64, device=classes.device)
    counts.index_put_(tuple(places), torch.ones_like(places[0]), accumulate=True)
    num_found = counts.sum(1)
    largest, partners = counts.max(1)
    is_other = partners != torch.arange(len(classes), device=classes.device)
    is_lost = (num_found >= LEAST_BOXES) & (largest >= SAME * num_found) & is_other
    lost = is_lost.nonzero()[:, 0]
    if len(lost) < 2 or not torch.equal(partners[lost].sort().values, lost):
        return None
    names = classes.tolist() if case.images.label_names is None else [case.images.label_names[k] for k in classes]
    texts = [f"{names[partner]} for {names[place]}" for place, partner in zip(lost, partners[lost], strict=True)]
    return {"num": int(largest[lost].sum()), "total": int(num_found[lost].sum()), "pairs": ", ".join(texts[:3])}


def _are_lost(matches: Matches) -> Tensor:
    """Return which classes have many ground truths, and hardly any that is found."""
    num_positives = matches.num_positives[0]
    true_positives = matches.columns[matches.true_positive[0, 0]]
    num_found = matches.class_index[true_positives].bincount(minlength=len(num_positives))
    return (num_positives >= LEAST_BOXES) & (num_found < LOST * num_positives)


def other_images(case: DetectionCase) -> Values | None:
    """Look for images with detections that find the ground truths of another image alone."""
    shown = [pair for pair in case.shown if all(len(item.get("boxes", ())) for item in pair)]
    if len(shown) < LEAST_IMAGES:
        return None
    for num_images in NUM_IMAGES:  # for most detectors few images show at a lower cost that nothing fits
        images = shown[:num_images]
        num_fits = _count_fits(images, case.box_format)
        if num_fits < LEAST_IMAGES // 2:
            return None
    if num_fits < max(LEAST_IMAGES, MANY * len(images)):
        return None
    return {"num": num_fits, "total": len(images)}


def _count_fits(images: Sequence[ShownImage], box_format: str) -> int:
    """Count the images with detections that find the ground truths of another image, if neither finds its own.

    A single ground truth may be found by chance. So all other images must be at the same distance in the order of
    images, or have several ground truths, each image its own.
    """
    sides, counts = [], []
    for side, most in enumerate(MOST_BOXES):
        boxes = [_valid_boxes(pair[side], most, box_format) for pair in images]
        counts.append(torch.tensor(list(map(len, boxes)), dtype=torch.int64, device="cpu"))
        sides.append(torch.cat([torch.zeros(0, 4, dtype=torch.float64, device="cpu"), *boxes]))
    overlaps = pairwise_iou(*sides, box_format="xywh")
    # The fraction of the ground truths in each image (row) that the detections of each image (column) find.
    is_found = (segments.reduce(overlaps, "max", counts[0]) >= CLOSE).double()
    fractions = segments.reduce(is_found.T.contiguous(), "sum", counts[1]) / counts[1][:, None]
    is_missed = fractions.diagonal() < FOUND
    fits = (fractions >= FOUND) & is_missed & is_missed[:, None]
    places, others = fits.nonzero().T
    distances = ((places - others) % max(1, len(images))).bincount(minlength=1)
    num_at_distance = int(distances.amax())
    if num_at_distance * len(images) < SPECIFIC * len(places):
        num_at_distance = 0
    partners = fits & (counts[1] > 1)[:, None]
    num_partners = min(int(partners.any(axis).sum()) for axis in (0, 1))
    if int(partners.sum()) > SPECIFIC * num_partners:
        num_partners = 0
    return max(num_at_distance, num_partners)


def _valid_boxes(item: Mapping[str, Tensor], most: int, box_format: str) -> Tensor:
    """Return x, y, width and height of the boxes with the highest scores, or the first ones; invalid ones as zeros."""
    boxes = to_xywh(item["boxes"].double(), box_format)
    if "scores" in item:
        boxes = boxes[item["scores"].argsort(descending=True, stable=True)]
    boxes = boxes[:most]
    is_valid = boxes.isfinite().all(1) & (boxes[:, 2:] >= 0).all(1)
    return torch.where(is_valid[:, None], boxes, 0.0)
