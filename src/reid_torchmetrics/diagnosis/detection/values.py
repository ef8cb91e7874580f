"""Trials that look at the numbers of the first images: sizes, rounding, copies and scores.

Each trial returns the values of its message, or None. Right input of any kind must pass: whole pixels, boxes of one
size, few different scores, detections of a network that answers all images alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import to_xywh, to_xyxy
from reid_torchmetrics.functional.fingerprints import mixed

from .case import DetectionCase, ShownColumns

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
"""copied ground truths"""
LEAST_EMPTY = 5
"""ground truths without an extent"""
SOME = 0.05
"""fraction of objects that are copies, or have no extent"""
MOST_TIMES = 4
"""number of times that an object occurs if files were joined; networks that answer with one box repeat it more often"""
FEW_FOUND = 0.1
"""fraction of the ground truths that detections of one score must find"""
_MOST_ROUNDED = 1 << 11  # objects whose coordinates are looked at
_KEYS = {"bbox": "boxes", "keypoints": "keypoints", "rotated": "rotated_boxes"}
_SMALLEST_AREA = 1e-30  # files with an area of 0 have a smaller one
_EMPTY = {
    "segm": "no pixel, such as polygons outside of their image: they count as missed. Give polygons in the pixels of"
    " the image, or leave these objects out.",
    "keypoints": "an `area` of 0, as keypoints without an extent have if neither `area` nor `boxes` is given, such as a"
    " single labeled one: then only exact detections match. Pass `area` or `boxes` of the objects.",
}
_EMPTY_BOXES = "a width or height of 0: they count as missed. Leave these objects out, or mark them by `iscrowd`."


def has_some_ground_truths(case: DetectionCase) -> bool:
    """Suspect that the first ground truths have no extent as soon as there are a few."""
    return case.recall.num_ground_truths >= LEAST_EMPTY


def _true_sizes(case: DetectionCase) -> tuple[Tensor, Tensor, Tensor, ShownColumns] | None:
    """Return rows of ground truths without crowds, with their widths and heights and areas, 0 where it is not given."""
    objects = case.columns[1]
    columns = objects.values
    if "boxes" not in columns:
        return None
    is_counted = columns.get("iscrowd", torch.zeros_like(objects.images)) == 0
    if "keypoints" in columns:
        is_counted &= (columns["keypoints"][..., 2] > 0).any(1)
    rows = is_counted.nonzero()[:, 0]
    sizes = to_xywh(columns["boxes"].double(), case.box_format)[rows, 2:]
    areas = columns.get("area", torch.zeros_like(objects.images)).double()[rows]
    return rows, sizes, areas, objects


def odd_areas(case: DetectionCase) -> Values | None:
    """Look for areas that contradict the boxes of their objects, where areas count."""
    found = _true_sizes(case)
    if found is None or (case.iou_type != "keypoints" and len(case.grid.area_ranges) == 1):
        return None
    rows, sizes, areas, objects = found
    given = ((areas > 0) & (sizes > 0).all(1)).nonzero()[:, 0]
    sizes, areas = sizes[given], areas[given]
    if len(areas) < LEAST_BOXES:
        return None
    num_above = int((areas > BEYOND * (sizes + 1).prod(1)).sum())
    ends = torch.tensor([0.05, 0.95], dtype=torch.float64, device="cpu")
    box_low, box_high = sizes.prod(1).quantile(ends).tolist()
    low, high = (areas / sizes.prod(1)).quantile(ends).tolist()
    area = float(areas[0])
    if bool((areas == area).all()) and box_high > DIFFERENT * box_low:
        value = 0 if area < _SMALLEST_AREA else area
        return {"num": len(areas), "total": len(areas), "problem": f"is {value:,.7g} although their boxes differ"}
    if 2 * num_above > len(areas) and not _are_boxes_of_keypoints(sizes, objects, rows[given]):
        return {"num": num_above, "total": len(areas), "problem": "exceeds their box, within which an object lies"}
    if high < TINY or (high < SAME_SHARE and high < BEYOND * low):
        return {"num": len(areas), "total": len(areas), "problem": f"is {high:.2g} of their box or less"}
    return None


def _are_boxes_of_keypoints(sizes: Tensor, objects: ShownColumns, rows: Tensor) -> bool:
    """Return whether boxes were not given, but are those around labeled keypoints, which objects exceed."""
    if "keypoints" not in objects.values:
        return False
    points = objects.values["keypoints"].double()[rows]
    is_unlabeled = (points[..., 2:] <= 0).expand_as(points)
    low = points.masked_fill(is_unlabeled, torch.inf).amin(1)
    high = points.masked_fill(is_unlabeled, -torch.inf).amax(1)
    return torch.allclose((high - low)[:, :2], sizes)


def without_extent(case: DetectionCase) -> Values | None:
    """Look for ground truths without a pixel or an extent, which nothing but an exact detection matches."""
    found = _true_sizes(case)
    if found is None:
        return None
    rows, sizes, areas, objects = found
    is_empty = sizes.prod(1) <= 0
    if case.iou_type == "segm":
        if "masks" not in objects.values:
            return None
        is_empty = objects.values["masks"][rows] == 0
    if case.iou_type == "keypoints":
        is_empty = torch.where(areas > 0, areas < _SMALLEST_AREA, is_empty)
    num = int(is_empty.sum())
    if num < LEAST_EMPTY or num < SOME * len(rows):
        return None
    return {"num": num, "total": len(rows), "problem": _EMPTY.get(case.iou_type, _EMPTY_BOXES)}


def rounded_coordinates(case: DetectionCase) -> Values | None:
    """Look for coordinates that were rounded to 16 bits, by their values, as they may have another dtype now."""
    key = _KEYS.get(case.iou_type, "")
    for side, argument in enumerate(("preds", "target")):
        column = case.columns[side].values.get(key)
        if column is None:
            continue
        column = column[:: len(column) // _MOST_ROUNDED + 1].double()
        readings = [column]
        if key == "boxes":  # corners may have been rounded before they became sizes
            readings.append(to_xyxy(column, case.box_format))
        elif key == "keypoints":
            points = column[..., :2]  # detections may have two numbers, and a third one is ignored
            readings = [points[column[..., 2] > 0] if argument == "target" else points]
        elif column.shape[1] == 5:  # without angles
            readings = [column[:, :4]]
        for dtype, limit in WHOLE_PIXELS.items():
            for coordinates in readings:
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
    distinct = coordinates.unique()
    large = distinct[distinct > limit]
    if len(large) < LEAST_LARGE or float((large == large.to(dtype)).double().mean()) < NEARLY_ALL:
        return False
    octave = 2.0 ** large.median().log2().floor()
    step = 2 * octave / limit
    small = distinct[(distinct > 0) & (distinct < octave)]
    return float((small % step != 0).double().sum()) > SOME_BETWEEN * len(small)


class _Objects(NamedTuple):
    """The different objects of each image, without those of no extent."""

    times: Tensor
    """number of times that an object occurs in its image"""
    images: Tensor
    contents: Tensor
    """hash of all values of an object"""
    scores: Tensor

    @classmethod
    def of(cls, case: DetectionCase, side: int) -> _Objects:
        """Return the objects of `preds` (0) or `target` (1)."""
        images, columns = case.columns[side]
        if "boxes" not in columns:
            return cls(*[images[:0]] * 4)
        has_extent = (to_xywh(columns["boxes"], case.box_format)[:, 2:] > 0).all(1)
        rows = has_extent.nonzero()[:, 0]
        images = images[rows]
        matrix = torch.cat([column[rows, None].double().flatten(1) for column in columns.values()], 1)
        places = torch.arange(matrix.shape[1], device="cpu")
        contents: Tensor = (matrix.view(torch.int64) * mixed(places, places)).sum(1)
        _, place, times = mixed(contents, images).unique(return_inverse=True, return_counts=True)
        first = torch.empty_like(times).scatter_(0, place, torch.arange(len(place), device="cpu"))
        return cls(times, images[first], contents[first], columns.get("scores", columns["labels"])[rows][first])

    def are_copied(self) -> Tensor:
        """Return which objects occur again in their image, but in no other image; there they would do so by chance."""
        _, place, num_images = self.contents.unique(return_inverse=True, return_counts=True)
        is_rare: Tensor = num_images[place] == 1
        has_others = len(self.images.unique()) > 1
        return is_rare & (self.times > 1) & has_others


def _are_different(values: Tensor) -> bool:
    return len(values.unique()) >= NEARLY_ALL * len(values)


def copied_ground_truths(case: DetectionCase) -> Values | None:
    """Look for ground truths that occur twice in an image."""
    objects = _Objects.of(case, 1)
    num = int((objects.times - 1)[objects.are_copied()].sum())
    total = int(objects.times.sum())
    return {"num": num, "total": total} if num >= LEAST_COPIES and num >= SOME * total else None


def copied_detections(case: DetectionCase) -> Values | None:
    """Look for detections that occur equally often in their image, as in files that were joined.

    Networks without suppression repeat detections, too, if scores and boxes are rounded, but not all of an image
    equally often; and a network that has one answer for an image repeats a single one.
    """
    objects = _Objects.of(case, 0)
    num_objects = objects.images.bincount()
    is_copied = objects.are_copied() & (num_objects[objects.images] > 1)
    times = objects.times[is_copied]
    if len(times) < LEAST_BOXES or len(times) < SOME * len(objects.times):
        return None
    number = int(times.mode().values)
    is_sign = is_copied & (objects.times == number)
    if not _are_different(objects.scores):
        num_repeated = objects.images[is_sign].bincount(minlength=len(num_objects))
        is_sign &= (num_repeated == num_objects)[objects.images]
    if number > MOST_TIMES or int(is_sign.sum()) < NEARLY_ALL * len(times):
        return None
    return {"num": int((times - 1).sum()), "total": int(objects.times.sum())}


def equal_scores(case: DetectionCase) -> Values | None:
    """Look for one score of all detections, if different boxes are right and wrong, so that their order matters."""
    scores = case.matches.scores
    num_found, num_true = case.recall
    is_mixed = min(num_found, len(scores) - num_found) >= LEAST_BOXES
    if not is_mixed or num_found < FEW_FOUND * num_true or bool((scores != scores[0]).any()):
        return None
    if not _are_different(_Objects.of(case, 0).contents):  # a network with one answer for all images
        return None
    return {"num": len(scores), "score": float(scores[0])}
