"""Trials on boxes that seem to be two corners, although they are read as position and size."""

from __future__ import annotations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from .case import DetectionCase
from .point_samples import numbers_of
from .readings import MOST_FOUND
from .shape_kinds import in_format

FEW_SMALL = 0.01
"""fraction of boxes with a size below the position, if sizes are corners: boxes of negative size"""
LEAST_CORNERS = 20
"""different boxes"""
CLOSE = 0.8
"""ratio of the first corner to the second one, if they are close to each other"""
SOME_OUTSIDE = 0.1
"""fraction of the boxes that must exceed their image to count as two corners"""
_EDGE = 1  # a corner may lie one pixel beyond the last row and column, if whole pixels are counted
_ROUNDED = 1e-3  # pixels: boxes may have been converted and converted back


def may_be_corners(case: DetectionCase) -> bool:
    """Return whether boxes have sizes, and not most ground truths are found."""
    recall = case.recall
    if case.iou_type != "bbox" or case.box_format == "xyxy":
        return False
    return recall.num_found <= MOST_FOUND * recall.num_ground_truths


def corners_as_sizes(case: DetectionCase) -> Values | None:
    """Return values if boxes seem to be two corners, by the distribution of their numbers."""
    sample = case.many_boxes
    if sample is None or case.iou_type != "bbox" or case.box_format == "xyxy":
        return None
    names = []
    if _are_corners(sample.detections):
        names.append("`preds`")
    if _are_corners(sample.ground_truths):
        names.append("`target`")
    if not names:
        return None
    return {"num": min(len(sample.detections), len(sample.ground_truths)), "names": " and ".join(names)}


def _are_corners(boxes: Tensor) -> bool:
    """Return whether sizes of boxes are almost never below their positions, often close to them, and grow with them."""
    is_small = (boxes[:, 2:] < boxes[:, :2]).any(1)
    if float(is_small.double().mean()) > FEW_SMALL:  # as for most boxes
        return False
    boxes = boxes.double().unique(dim=0)
    if len(boxes) < LEAST_CORNERS:
        return False
    starts, ends = boxes[:, :2], boxes[:, 2:]
    fraction_close = (starts > CLOSE * ends).double().mean(0)
    if not bool((fraction_close >= 1 - CLOSE).all()):
        return False
    # Objects of about one size may pass the check above as well, but their sizes do not grow with their positions:
    # the correlation of sizes and positions must be above 0.5.
    corners = torch.stack([starts, ends])
    spread = corners - corners.mean(1, keepdim=True)
    covariance = spread.prod(0).sum(0)
    return bool((covariance > 0.5 * spread.square().sum(1).prod(0).sqrt()).all())


def corners_beyond_images(case: DetectionCase) -> Values | None:
    """Return values if boxes seem to be two corners, by the edges of their images, in a sample of images."""
    if not may_be_corners(case) or case.image_sizes is None:
        return None
    sample = case.sampled_objects
    names = []
    num_outside = num_boxes = 0
    for argument, objects in (("preds", sample.detections), ("target", sample.ground_truths)):
        sizes = case.image_sizes.index_select(0, objects.images.long())
        rows = sizes.isfinite().all(1).nonzero()[:, 0]
        boxes = numbers_of(objects)[rows]
        edges = sizes[rows].double() + _EDGE
        if len(boxes) < LEAST_BOXES:
            continue
        numbers = in_format(boxes, case.box_format)
        near, far = numbers[:, :2], numbers[:, 2:]
        are_corners = bool(((near <= far + _ROUNDED) & (far <= edges + _ROUNDED)).all())
        num = int((boxes[:, :2] + boxes[:, 2:] > edges).any(1).sum())
        if are_corners and num >= SOME_OUTSIDE * len(boxes):
            names.append(f"`{argument}`")
            num_outside += num
            num_boxes += len(boxes)
    return {"num_outside": num_outside, "num": num_boxes, "names": " and ".join(names)} if names else None
