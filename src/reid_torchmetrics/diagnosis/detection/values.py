"""Trials that look at the numbers of the first images: sizes, rounding, copies and scores.

Each trial returns the values of its message, or None. Right input of any kind must pass: whole pixels, boxes of one
size, few different scores, detections of a network that answers all images alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.box_units import LEAST_BOXES
from reid_torchmetrics.diagnosis.causes import Values, held
from reid_torchmetrics.functional.detection.inputs import keypoint_boxes
from reid_torchmetrics.functional.world import mixed

from .case import DetectionCase, cause, has_many_objects
from .objects import ShownObjects

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


def _counted_ground_truths(case: DetectionCase) -> ShownObjects:
    """Return the ground truths that count, with their boxes."""
    objects = case.objects["target"]
    held("boxes", objects.values.get("boxes"))
    return objects.at(objects.is_counted)


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
    objects = _counted_ground_truths(case)
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
    return torch.allclose(keypoint_boxes(objects.values["keypoints"][..., :2], objects.is_labeled), objects.xywh)


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
    objects = _counted_ground_truths(case)
    areas = objects.xywh[:, 2:].prod(1)
    if case.iou_type == "segm":
        areas = objects.values.get("masks", areas)
    if case.iou_type == "keypoints":
        given = objects.column("area")
        areas = torch.where(given > 0, given, areas)
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
            share = float((coordinates > limit).double().mean())
            if share > SOME_LARGE and _are_rounded(coordinates, dtype, limit):
                name = str(dtype).removeprefix("torch.")
                values = {"key": key, "argument": argument, "dtype": name}
                return values | {"share": f"{share:.0%}", "limit": f"{limit:,}"}
    return None


def _are_rounded(coordinates: Tensor, dtype: torch.dtype, limit: int) -> bool:
    """Return whether large coordinates are steps of a dtype, while smaller ones lie between these steps.

    The second condition does not hold for coordinates on a grid, such as multiples of 8 pixels.
    """
    large = coordinates[coordinates > limit].unique()
    if len(large) < LEAST_LARGE or float((large == large.to(dtype)).double().mean()) < NEARLY_ALL:
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
        objects = objects.at((objects.xywh[:, 2:] > 0).all(1).nonzero()[:, 0])  # boxes without a side may be padding
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
