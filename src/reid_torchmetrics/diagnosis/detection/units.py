"""Trials on units: fractions of images and pixels, degrees, corners that are read as sizes, probabilities as masks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.box_units import LEAST_BOXES, MOST, ROUNDING, are_shares, are_within
from reid_torchmetrics.diagnosis.causes import Values, values_if

from .case import DetectionCase, cause, has_many_objects
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


@cause(
    message="Most labeled keypoints of ground truths, {num_odd} of {num}, lie within [0, 1] and outside of the box"
    " of the object: they seem to be fractions of the image size. Multiply them by width and height of the image.",
    suspect=has_many_objects,
)
def keypoints_in_shares(case: DetectionCase) -> Values | None:
    """Look for keypoints as fractions of the image size.

    There are at least {LEAST_BOXES} ground truths, and most of their labeled keypoints lie within [0, 1], and left of
    their box or above it.
    """
    # A keypoint in pixels lies in its box, except for rounding. A fraction of the size does so only by chance.
    objects = case.objects["target"]
    if objects.is_labeled is None or not len(objects.xywh):
        return None
    places = objects.values["keypoints"][..., :2]
    is_within = ((places - 0.5).abs() <= 0.5 + ROUNDING).all(2)
    is_before_box = (places < objects.xywh[:, None, :2] - ROUNDING).any(2)
    is_odd = is_within & is_before_box & objects.is_labeled
    return _if_most(int(is_odd.sum()), int(objects.is_labeled.sum()))


@cause(
    message="Most angles of `rotated_boxes`, {num_odd} of {num}, are beyond 2 pi: they seem to be degrees. Pass"
    " radians, for example with `torch.deg2rad`.",
    suspect=has_many_objects,
)
def angles_in_degrees(case: DetectionCase) -> Values | None:
    """Look for angles of rotated boxes in degrees.

    In `preds` or in `target` there are at least {LEAST_BOXES} angles other than 0, and most of them are beyond 2 pi.
    """
    for objects in case.objects.values():
        boxes = objects.values.get("rotated_boxes")
        if boxes is not None and boxes.shape[1] == _NUM_ANGLED:
            values = _if_most(int((boxes[:, 4].abs() > 2 * math.pi).sum()), int((boxes[:, 4] != 0).sum()))
            if values is not None:
                return values
    return None


@cause(
    message="The masks of {num_odd} of {num} images have several values and no 0, but every pixel other than 0"
    " belongs to a mask. Pass bool masks, such as `masks > 0.5` for probabilities.",
    suspect=has_many_objects,
)
def soft_masks(case: DetectionCase) -> Values | None:
    """Look for masks that hold probabilities.

    At least {LEAST_BOXES} images have numeric masks, and most of these have several values and no 0.
    """
    extremes = [extremes_of_image.tolist() for extremes_of_image in case.shown.extremes]
    return _if_most(sum(low != 0 and low < high for low, high in extremes), len(extremes))


def _if_most(num_odd: int, num: int) -> Values | None:
    """Return the numbers as values of a message, if most of many are odd."""
    return values_if(num >= LEAST_BOXES and 2 * num_odd > num, num_odd=num_odd, num=num)


@cause(
    message="Most of {num} checked boxes of `{shares}` lie within [0, 1], boxes of `{pixels}` do not: the first"
    " seem to be fractions of the image size, the others pixels. Multiply the fractions by width and height of the"
    " image.",
    suspect=has_many_objects,
    explained_by=("keypoints_in_shares",),
)
def mixed_units(case: DetectionCase) -> Values | None:
    """Look for boxes as fractions of the image size in one of `preds` and `target`, and in pixels in the other.

    `preds` and `target` have at least {LEAST_BOXES} boxes each. In one of them, {MOST} of the boxes lie within [0, 1];
    in the other, both sides of {MOST} of the boxes are longer than {PIXELS}.
    """
    units = {_unit(objects): argument for argument, objects in case.objects.items()}
    if set(units) != {"shares", "pixels"}:
        return None
    shares, pixels = units["shares"], units["pixels"]
    return {"num": len(case.objects[shares].images), "shares": shares, "pixels": pixels}


@cause(
    message="Most of {num} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
    ' has no meaning. Pass boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` to leave out such numbers.',
    suspect=has_many_objects,
)
def sizes_of_shares(case: DetectionCase) -> Values | None:
    """Look for area ranges in square pixels for boxes that are fractions of the image size.

    A number for an area range is requested, `preds` and `target` have at least {LEAST_BOXES} boxes each, and {MOST} of
    the boxes in both lie within [0, 1].
    """
    sizes = list(case.grid.area_ranges)[1:]
    names = case.images.value_names
    has_sizes = bool(sizes) if names is None else any(f"_{size}" in name for name in names for size in sizes)
    sides = case.objects.values()
    if not has_sizes or any(_unit(objects) != "shares" or objects.column("area").gt(1).any() for objects in sides):
        return None
    return {"num": sum(len(objects.images) for objects in sides)}


def _unit(objects: ShownObjects) -> str:
    """Return the unit of boxes: "shares" of the image size, "pixels", or "" if unclear.

    Boxes of one size or of whole numbers do not count as shares.
    """
    if len(objects.xywh) < LEAST_BOXES:
        return ""
    boxes, sizes = objects.values["boxes"], objects.xywh[:, 2:]
    if are_within(boxes):
        return "shares" if are_shares(boxes, sizes) else ""
    return "pixels" if float((sizes > PIXELS).all(1).double().mean()) >= MOST else ""


def have_sizes(case: DetectionCase) -> bool:
    """Return whether boxes are read as position and size."""
    return case.iou_type == "bbox" and case.box_format != "xyxy"


@cause(
    message="{sign} in {num} checked boxes of {names}: they seem to be two corners that are read as position and size."
    ' Pass `box_format="xyxy"`; COCO files must hold x, y, width and height.',
    suspect=have_sizes,
    explained_by=("mixed_units",),
)
def corners_as_sizes(case: DetectionCase) -> Values | None:
    """Look for two corners that are read as position and size.

    The `box_format` is not "xyxy", and one of these holds. Of at least {LEAST_CORNERS} different boxes, at most
    {FEW_SMALL} have a width below x or a height below y, in a fifth of them x is above {CLOSE} of the width, in a fifth
    y is above {CLOSE} of the height, and sizes grow with positions. Or width and height of images are known,
    {SOME_OUTSIDE} of at least {LEAST_BOXES} boxes exceed their image, and none does if they are read as two corners;
    and so it is on both sides, or at most {MOST_FOUND} of the ground truths are found.
    """
    if not have_sizes(case):
        return None
    sign = "Almost no width is below its x, and almost no height below its y,"
    numbers = {f"`{argument}`": _count_like_corners(objects) for argument, objects in case.objects.items()}
    if not any(numbers.values()):
        sign = "Sizes exceed the image, but would not as corners,"
        numbers = {f"`{name}`": _count_beyond(objects, case.image_sizes) for name, objects in case.objects.items()}
        if not all(numbers.values()) and case.recall.num_found > MOST_FOUND * case.recall.num_ground_truths:
            return None
    names = " and ".join(name for name in numbers if numbers[name])
    return values_if(names, sign=sign, num=sum(numbers.values()), names=names)


def _count_like_corners(objects: ShownObjects) -> int:
    """Return the number of boxes if sizes are almost never below positions, often close to them, and grow with them."""
    boxes = objects.values.get("boxes", objects.xywh)
    is_small = (boxes[:, 2:] < boxes[:, :2]).any(1)
    if is_small.sum() > FEW_SMALL * len(boxes):  # as for most boxes
        return 0
    boxes = boxes.unique(dim=0)
    if len(boxes) < LEAST_CORNERS:
        return 0
    starts, ends = boxes[:, :2], boxes[:, 2:]
    fraction_close = (starts > CLOSE * ends).double().mean(0)
    # Objects of about one size may pass the checks above as well, but their sizes do not grow with their positions.
    correlations = torch.corrcoef(boxes.T)
    grow = min(float(correlations[0, 2]), float(correlations[1, 3])) > GROWING
    return len(objects.images) if grow and bool((fraction_close >= 1 - CLOSE).all()) else 0


def _count_beyond(objects: ShownObjects, image_sizes: Tensor) -> int:
    """Return the number of boxes if many exceed their image, but none would as two corners."""
    edges = image_sizes[objects.images] + _EDGE
    has_size = edges.isfinite().all(1)
    edges, objects = edges[has_size], objects.at(has_size)
    near, far = objects.values.get("boxes", objects.xywh).split(2, dim=1)
    are_corners = bool(((near <= far + _ROUNDED) & (far <= edges + _ROUNDED)).all())
    num_outside = int((objects.xywh.view(-1, 2, 2).sum(1) > edges).any(1).sum())
    is_odd = are_corners and num_outside >= SOME_OUTSIDE * len(edges) and len(edges) >= LEAST_BOXES
    return len(edges) if is_odd else 0
