"""Trials that look at the numbers of the first images: units, sizes, rounding, copies and scores.

Units are fractions of images and pixels, degrees, corners that are read as sizes, and probabilities as masks. Each
trial returns the values of its message, or None. Right input of any kind must pass: whole pixels, boxes of one size,
few different scores, detections of a network that answers all images alike.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES, MOST, ROUNDING, are_shares, are_within, share_of
from reid_torchmetrics.functional.world import mixed

from .case import DetectionCase, cause, has_many_objects
from .given_images import ShownObjects
from .pairings import MOST_FOUND
from .points import boxes_around

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
BEYOND = 1.01
"""factor by which an area may exceed its box, beside a pixel in width and height"""
TINY = 0.01
"""share of its box; areas are in another unit if nearly all are smaller"""
SAME_SHARE = 0.3
"""share of its box; areas are in another unit if nearly all have the same smaller share"""
DIFFERENT = 1.5
"""factor between the large and the small boxes of a data set with different boxes"""
WHOLE_PIXELS = {torch.bfloat16: 256, torch.float16: 2048}
"""the largest coordinate up to which a dtype of 16 bits represents each pixel"""
SOME_LARGE = 0.1
"""fraction of coordinates that are too large for a dtype"""
LEAST_LARGE = 30
"""different coordinates that are too large for a dtype"""
NEARLY_ALL = 0.9
"""fraction of large coordinates that are steps of a dtype; of copied objects that occur equally often"""
SOME_BETWEEN = 0.25
"""fraction of smaller coordinates that lie between the steps of the large ones"""
LEAST_COPIES = 5
"""different objects with copies"""
LEAST_EMPTY = 5
"""ground truths without an extent"""
SOME = 0.05
"""fraction of objects that are copies, or have no extent"""
MOST_TIMES = 4
"""number of times that an object occurs if files were joined; networks that answer with one box repeat it more often"""
_KEYS = {"bbox": "boxes", "keypoints": "keypoints", "rotated": "rotated_boxes"}
_SMALLEST_AREA = 1e-30  # files with an area of 0 have a smaller one
_EMPTY = {
    "segm": "no pixel, such as polygons outside of their image: they count as missed. Give polygons in the pixels of"
    " the image, or leave these objects out.",
    "keypoints": "an `area` of 0, as keypoints without an extent have if neither `area` nor `boxes` is given, such as a"
    " single labeled one: then only exact detections match. Pass `area` or `boxes` of the objects.",
}
_EMPTY_BOXES = "a width or height of 0: they count as missed. Leave these objects out, or mark them by `iscrowd`."


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
    return {"num_odd": num_odd, "num": num} if num >= LEAST_BOXES and 2 * num_odd > num else None


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
    return "pixels" if share_of((sizes > PIXELS).all(1)) >= MOST else ""


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
    return {"sign": sign, "num": sum(numbers.values()), "names": names} if names else None


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


@cause(
    message="`area` of {num} of {total} checked ground truths {problem}: it seems to be a placeholder, or to be of"
    " another unit or image size. Pass square pixels of the image of the boxes, or leave out `area`: then width"
    " times height counts.",
    suspect=has_many_objects,
    explained_by=("keypoints_in_shares", "mixed_units", "sizes_of_shares"),
)
def areas(case: DetectionCase) -> Values | None:
    """Look for areas that contradict the boxes: placeholders, another unit or another image size.

    Areas count, at least {LEAST_BOXES} ground truths have one, and one of these holds: all are equal although boxes
    differ by a factor of {DIFFERENT}; more than half exceed their box by a factor of {BEYOND} and a pixel in width and
    height; nearly all are below {TINY} of their box, or the same share below {SAME_SHARE} of it.
    """
    objects = case.counted_ground_truths
    if case.iou_type != "keypoints" and len(case.grid.area_ranges) == 1:
        return None
    objects = objects.at((objects.column("area") > 0) & (objects.xywh[:, 2:] > 0).all(1))
    areas, sizes = objects.column("area"), objects.xywh[:, 2:]
    if len(areas) < LEAST_BOXES:
        return None
    num_above = int((areas > BEYOND * (sizes + 1).prod(1)).sum())
    ends = torch.tensor([0.05, 0.95], dtype=torch.float64, device="cpu")
    box_low, box_high = sizes.prod(1).quantile(ends).tolist()
    low, high = (areas / sizes.prod(1)).quantile(ends).tolist()
    area = float(areas[0])
    num_odd = len(areas)
    if bool((areas == area).all()) and box_high > DIFFERENT * box_low:
        problem = f"is {0 if area < _SMALLEST_AREA else area:,.7g} although their boxes differ"
    elif 2 * num_above > len(areas) and not _are_boxes_of_keypoints(objects):
        num_odd, problem = num_above, "exceeds their box, within which an object lies"
    elif high < TINY or (high < SAME_SHARE and high < BEYOND * low):
        problem = f"is {high:.2g} of their box or less"
    else:
        return None
    return {"num": num_odd, "total": len(areas), "problem": problem}


def _are_boxes_of_keypoints(objects: ShownObjects) -> bool:
    """Return whether boxes were not given, but are those around labeled keypoints, which objects exceed."""
    if objects.is_labeled is None:
        return False
    return torch.allclose(boxes_around(objects.values["keypoints"][..., :2], objects.is_labeled), objects.xywh)


@cause(
    message="{num} of {total} checked ground truths have {problem}",
    suspect=lambda case: case.recall.num_ground_truths >= LEAST_EMPTY,
    explained_by=("areas",),
)
def without_extent(case: DetectionCase) -> Values | None:
    """Look for ground truths without a pixel or an extent.

    At least {LEAST_EMPTY} ground truths, and {SOME} of all, have an empty mask, a box without width or height, or
    keypoints without an extent and neither `area` nor `boxes`.
    """
    objects = case.counted_ground_truths
    areas = objects.xywh[:, 2:].prod(1)
    if case.iou_type == "segm":
        areas = objects.values.get("masks", areas)
    if case.iou_type == "keypoints":
        areas = objects.areas
    num, total = int((areas < _SMALLEST_AREA).sum()), len(areas)
    if num < LEAST_EMPTY or num < SOME * total:
        return None
    return {"num": num, "total": total, "problem": _EMPTY.get(case.iou_type, _EMPTY_BOXES)}


@cause(
    message="`{key}` of `{argument}` were rounded to {dtype}: {share} of the coordinates are above {limit}, where"
    " {dtype} cannot represent each pixel, so even a perfect detector loses overlap. Compute `{key}` in float32,"
    ' and keep targets in float32: Lightning\'s `precision="bf16-true"` converts them, "bf16-mixed" does not.',
    suspect=has_many_objects,
)
def rounded_coordinates(case: DetectionCase) -> Values | None:
    """Look for coordinates that were rounded to float16 or bfloat16, in `preds` or in `target`.

    More than {SOME_LARGE} of the coordinates, and at least {LEAST_LARGE} different ones, are above 2,048 for float16 or
    256 for bfloat16. Of these, {NEARLY_ALL} are steps of the dtype, and {SOME_BETWEEN} of the smaller coordinates lie
    between these steps.
    """
    key = _KEYS.get(case.iou_type, "")
    for argument, objects in case.objects.items():
        if key not in objects.values:
            continue
        # The position of a shape: the other numbers may have been computed from rounded ones.
        coordinates = objects.values[key][..., :2]
        for dtype, limit in WHOLE_PIXELS.items():
            share = share_of(coordinates > limit)
            if share > SOME_LARGE and _are_rounded(coordinates, dtype, limit):
                return {
                    "key": key,
                    "argument": argument,
                    "dtype": str(dtype).removeprefix("torch."),
                    "share": f"{share:.0%}",
                    "limit": f"{limit:,}",
                }
    return None


def _are_rounded(coordinates: Tensor, dtype: torch.dtype, limit: int) -> bool:
    """Return whether large coordinates are steps of a dtype, while smaller ones lie between these steps.

    The second condition does not hold for coordinates on a grid, such as multiples of 8 pixels.
    """
    large = coordinates[coordinates > limit].unique()
    if len(large) < LEAST_LARGE or share_of(large == large.to(dtype)) < NEARLY_ALL:
        return False
    octave = 2.0 ** large.median().log2().floor()
    step = 2 * octave / limit
    small = coordinates[(coordinates > 0) & (coordinates < octave)].unique()
    return float((small % step != 0).double().sum()) > SOME_BETWEEN * len(small)


@cause(
    message="{num} of {total} checked {objects} are exact copies of others in their image, and count as {effect}: a"
    " file seems to have been appended or joined twice. Leave the copies out.",
    suspect=has_many_objects,
)
def copied_objects(case: DetectionCase) -> Values | None:
    """Look for ground truths or detections that occur twice.

    At least {LEAST_COPIES} ground truths or detections, and {SOME} of all, occur equally often in their image, at most
    {MOST_TIMES} times, with the same numbers. Either scores of detections are nearly all different, or all detections
    of these images are copied.
    """
    for argument, objects, effect in (("target", "ground truths", "missed"), ("preds", "detections", "wrong")):
        copies = _find_copies(case.objects[argument])
        if copies is not None:
            return {"objects": objects, "effect": effect, **copies}
    return None


def _find_copies(objects: ShownObjects) -> Values | None:
    """Look for objects that occur again in their image, but in no other image; there they would do so by chance.

    Networks without suppression repeat detections, too, if scores and boxes are rounded, but not all of an image
    equally often; and a network that has one answer for an image repeats a single one.
    """
    if len(objects.xywh):  # keypoints may come without boxes
        objects = objects.at((objects.xywh[:, 2:] > 0).all(1))  # boxes without a side may be padding
    total = len(objects.images)
    if not total:
        return None
    matrix = torch.cat([column.view(total, -1) for column in objects.values.values()], 1)
    columns = torch.arange(matrix.shape[1], device="cpu")
    contents: Tensor = (matrix.view(torch.int64) * mixed(columns, columns)).sum(1)
    _, place, times = mixed(contents, objects.images).unique(return_inverse=True, return_counts=True)
    is_repeated = times > 1
    if is_repeated.sum() < LEAST_COPIES:
        return None
    first = torch.empty_like(times).scatter_(0, place, torch.arange(total, device="cpu"))
    objects, contents = objects.at(first), contents[first]

    _, place, num_images = contents.unique(return_inverse=True, return_counts=True)
    num_objects = objects.images.bincount()
    is_copied = is_repeated & (num_images[place] == 1) & (len(num_objects) > 1)
    has_scores = "scores" in objects.values
    if has_scores:
        is_copied &= num_objects[objects.images] > 1
    num_copied = int(is_copied.sum())
    if num_copied < LEAST_COPIES or num_copied < SOME * len(times):
        return None
    number = int(times[is_copied].mode().values)
    is_sign = is_copied & (times == number)
    if has_scores and not _are_different(objects.column("scores")):
        num_repeated = objects.images[is_sign].bincount(minlength=len(num_objects))
        is_sign &= (num_repeated == num_objects)[objects.images]
    if number > MOST_TIMES or int(is_sign.sum()) < NEARLY_ALL * num_copied:
        return None
    return {"num": int((times - 1)[is_copied].sum()), "total": total}


def _are_different(values: Tensor) -> bool:
    return len(values.unique(dim=0)) >= NEARLY_ALL * len(values)


@cause(
    message="All {num} detections have the score {score:.4g}, so that numbers depend on their order. Pass the"
    " confidence of each detection as its score.",
    suspect=has_many_objects,
)
def equal_scores(case: DetectionCase) -> Values | None:
    """Look for one score for all detections.

    At least {LEAST_BOXES} detections are right and {LEAST_BOXES} wrong, and all scores are equal although boxes differ.
    """
    scores = case.matches.scores
    num_found = case.recall.num_found
    is_mixed = min(num_found, len(scores) - num_found) >= LEAST_BOXES
    if not is_mixed or bool((scores != scores[0]).any()):
        return None
    if not _are_different(case.objects["preds"].xywh):  # a network with one answer for all images
        return None
    return {"num": len(scores), "score": float(scores[0])}
