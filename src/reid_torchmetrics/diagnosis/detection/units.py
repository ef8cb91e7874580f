"""Trials on units: fractions of images and pixels, degrees, corners that are read as sizes, probabilities as masks."""

from __future__ import annotations

import math
from itertools import permutations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, ROUNDING, are_shares, are_within
from reid_torchmetrics.functional.detection.inputs import to_xyxy

from .case import DetectionCase
from .objects import ShownObjects
from .readings import MOST_FOUND

PIXELS = 2
"""most boxes in pixels have longer sides"""
FEW_SMALL = 0.01
"""fraction of boxes with a size below the position, if sizes are corners: boxes of negative size"""
LEAST_CORNERS = 20
"""different boxes"""
CLOSE = 0.8
"""ratio of the first corner to the second one, if they are close to each other"""
GROWING = 0.5
"""correlation of positions and sizes"""
SOME_OUTSIDE = 0.1
"""fraction of the boxes that must exceed their image to count as two corners"""
_EDGE = 1  # a corner may lie one pixel beyond the last row and column, if whole pixels are counted
_ROUNDED = 1e-3  # pixels: boxes may have been converted and converted back
_NUM_ANGLED = 5  # numbers of a rotated box; four corners have no angle


def keypoints_in_shares(case: DetectionCase) -> Values | None:
    """Look for labeled keypoints of ground truths within [0, 1], and outside of their box.

    A keypoint in pixels lies in its box, except for rounding. A fraction of the size does so only by chance.
    """
    objects = case.objects["target"]
    if objects.is_labeled is None or not len(objects.xywh):
        return None
    places = objects.values["keypoints"][..., :2]
    near, far = to_xyxy(objects.xywh, "xywh")[:, None].split(2, dim=2)
    is_within = ((places - 0.5).abs() <= 0.5 + ROUNDING).all(2)
    is_outside = ((places < near - ROUNDING) | (places > far + ROUNDING)).any(2)
    is_odd = is_within & is_outside & objects.is_labeled
    return _if_most(int(is_odd.sum()), int(objects.is_labeled.sum()))


def angles_in_degrees(case: DetectionCase) -> Values | None:
    """Look for angles beyond 2 pi in one of `preds` and `target`."""
    for objects in case.objects.values():
        boxes = objects.values.get("rotated_boxes")
        if boxes is not None and boxes.shape[1] == _NUM_ANGLED:
            values = _if_most(int((boxes[:, 4].abs() > 2 * math.pi).sum()), int((boxes[:, 4] != 0).sum()))
            if values is not None:
                return values
    return None


def soft_masks(case: DetectionCase) -> Values | None:
    """Look for masks with several values, and no 0, in most images."""
    extremes = [extremes_of_image.tolist() for images in case.shown for extremes_of_image in images.extremes]
    return _if_most(sum(low != 0 and low < high for low, high in extremes), len(extremes))


def _if_most(num_odd: int, num: int) -> Values | None:
    """Return the numbers as values of a message, if most of many are odd."""
    return {"num_odd": num_odd, "num": num} if num >= LEAST_BOXES and 2 * num_odd > num else None


def mixed_units(case: DetectionCase) -> Values | None:
    """Look for fractions of the image size in one of `preds` and `target`, and pixels in the other."""
    units = {argument: _unit(objects) for argument, objects in case.objects.items()}
    for shares, pixels in permutations(units):
        if units[shares] == "shares" and units[pixels] == "pixels":
            return {"num": len(case.objects[shares].images), "shares": shares, "pixels": pixels}
    return None


def sizes_of_shares(case: DetectionCase) -> Values | None:
    """Look for boxes that are fractions of the image size, if numbers for area ranges are requested."""
    sizes = list(case.grid.area_ranges)[1:]
    names = case.images.value_names
    has_sizes = bool(sizes) if names is None else any(f"_{size}" in name for name in names for size in sizes)
    sides = case.objects.values()
    if not has_sizes or any(_unit(objects) != "shares" or objects.column("area").gt(1).any() for objects in sides):
        return None
    return {"num": sum(len(objects.images) for objects in sides)}


def _unit(objects: ShownObjects) -> str | None:
    """Return the unit of boxes: "shares" of the image size, "pixels", or None if unclear.

    Boxes of one size or of whole numbers do not count as shares.
    """
    if len(objects.xywh) < LEAST_BOXES:
        return None
    boxes, sizes = objects.values["boxes"], objects.xywh[:, 2:]
    if are_within(boxes):
        return "shares" if are_shares(boxes, sizes) else None
    return "pixels" if float((sizes > PIXELS).all(1).double().mean()) >= MOST else None


def may_be_corners(case: DetectionCase) -> bool:
    """Return whether boxes have sizes, and not most ground truths are found."""
    if case.iou_type != "bbox" or case.box_format == "xyxy":
        return False
    return case.recall.num_found <= MOST_FOUND * case.recall.num_ground_truths


def corners_as_sizes(case: DetectionCase) -> Values | None:
    """Look for boxes that seem to be two corners, by the distribution of their numbers."""
    numbers = [len(objects.xywh) for objects in case.objects.values()]
    if min(numbers) < LEAST_BOXES or case.iou_type != "bbox" or case.box_format == "xyxy":
        return None
    names = [f"`{argument}`" for argument, objects in case.objects.items() if _are_corners(objects.values["boxes"])]
    return {"num": min(numbers), "names": " and ".join(names)} if names else None


def _are_corners(boxes: Tensor) -> bool:
    """Return whether sizes of boxes are almost never below their positions, often close to them, and grow with them."""
    is_small = (boxes[:, 2:] < boxes[:, :2]).any(1)
    if float(is_small.double().mean()) > FEW_SMALL:  # as for most boxes
        return False
    boxes = boxes.unique(dim=0)
    if len(boxes) < LEAST_CORNERS:
        return False
    starts, ends = boxes[:, :2], boxes[:, 2:]
    fraction_close = (starts > CLOSE * ends).double().mean(0)
    if not bool((fraction_close >= 1 - CLOSE).all()):
        return False
    # Objects of about one size may pass the check above as well, but their sizes do not grow with their positions.
    correlations = torch.corrcoef(boxes.T)
    return min(float(correlations[0, 2]), float(correlations[1, 3])) > GROWING


def corners_beyond_images(case: DetectionCase) -> Values | None:
    """Look for boxes that exceed their image, but would not as two corners."""
    if not may_be_corners(case):
        return None
    names = []
    num_outside = num_boxes = 0
    for argument, objects in case.objects.items():
        edges = case.image_sizes[objects.images] + _EDGE
        rows = edges.isfinite().all(1).nonzero()[:, 0]
        edges, boxes = edges[rows], objects.at(rows)
        if len(rows) < LEAST_BOXES:
            continue
        near, far = boxes.values["boxes"].split(2, dim=1)
        are_corners = bool(((near <= far + _ROUNDED) & (far <= edges + _ROUNDED)).all())
        num = int((boxes.xywh[:, :2] + boxes.xywh[:, 2:] > edges).any(1).sum())
        if are_corners and num >= SOME_OUTSIDE * len(rows):
            names.append(f"`{argument}`")
            num_outside += num
            num_boxes += len(rows)
    return {"num_outside": num_outside, "num": num_boxes, "names": " and ".join(names)} if names else None
