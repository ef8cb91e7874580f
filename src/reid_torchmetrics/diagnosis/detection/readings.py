"""Other readings of shapes: formats, orders, exchanged axes, other scales and offsets, images of another size.

Shapes in a wrong reading overlap nothing, so the numbers are 0. Each reading is tried on a sample of images. A reading
that finds most ground truths explains the zeros, unless it also finds them with the detections of other images: shapes
that are everywhere, or always in one place, fit after any change of scale.

    shapes in a sample --- candidates, each a change of the points ---> the one that finds most ground truths
    the same shapes, with the ground truths of other images         ---> must find few
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.detection.inputs import keypoint_boxes

from .case import DetectionCase, cause, few_are_found
from .points import FOUND, PointSample

MOST_FOUND = 0.5
"""fraction of the sampled ground truths that a reading must find"""
FEW_FOUND = 0.5
"""fraction of the ground truths found by a reading; fewer must be found without it, and in other images"""
_BETTER = 1.1  # factor of ground truths that a less simple reading must find
_NOISE = 0.03  # of a measured factor
_LEAST_MEASURED, _LEAST_PAIRS = 16, 5  # ground truths, and close pairs, for a measurement
_NUM_FITS = 2  # measurements by pairs, each with the pairs from the one before
_MOST_PLACES = 20  # of keypoints in a text
_IN_ONE_ORDER = "Pass the keypoints of `preds` and `target` in one order."
_IN_ONE_IMAGE = (
    "`preds` and `target` must be in the pixels of the original image, x before y: undo the resizing, padding or"
    " cropping of the input."
)


class Reading(NamedTuple):
    """A reading to try, with the points that it results in."""

    argument: str
    """`preds` or `target`: the shapes to read in another way"""
    name: str
    remedy: str
    points: Tensor
    true_points: Tensor


@cause(
    message="Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of {overlap},"
    " regardless of labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are"
    " found. {remedy}",
    suspect=few_are_found,
    explained_by=(
        "keypoints_in_shares",
        "angles_in_degrees",
        "mixed_units",
        "corners_as_sizes",
        "labels",
    ),
)
def other_reading(case: DetectionCase) -> Values | None:
    """Look for shapes in another format or order, with y before x, or in resized or cropped images.

    Fewer than half of the ground truths are found, of rotated boxes at an overlap of 0.75, and labels are not the
    reason. In a sample of at most 256 images, another reading finds more than {MOST_FOUND} of the ground truths: at
    least twice as many as before, and at least twice as many as detections from other images find. Readings are another
    format of boxes; the other direction of angles, exchanged sides or a corner in place of the center of rotated boxes;
    another order of keypoints; and for all shapes, for masks by the boxes around them, y before x, another scale and
    offset, and images that were resized.
    """
    sample = case.points
    at_least = case.overlap_of_few or FOUND
    as_read = Reading("", "", "", sample.points, sample.true_points)

    def count_found(reading: Reading) -> int:
        return len(sample.pairs_found(reading.points, reading.true_points, at_least).rows)

    num_before = count_found(as_read)
    num_found, best = 0, as_read
    for reading in _readings(sample):
        num = count_found(reading)
        if num > _BETTER * num_found:  # the simplest among almost equal ones
            num_found, best = num, reading
    num_ground_truths = len(sample.true.images)
    if num_found <= MOST_FOUND * num_ground_truths or num_before >= FEW_FOUND * num_found:
        return None
    elsewhere = sample.pairs_found_elsewhere(best.points, best.true_points, at_least)
    if len(elsewhere.rows) >= FEW_FOUND * num_found:
        return None
    return {
        "argument": best.argument,
        "name": best.name,
        "remedy": best.remedy,
        "num_found": num_found,
        "num_before": num_before,
        "num_ground_truths": num_ground_truths,
        "overlap": at_least,
    }


def _readings(sample: PointSample) -> Iterator[Reading]:
    """Yield readings, simple ones first."""
    points, true_points, images = sample.points, sample.true_points, sample.found.images
    kind = sample.kind
    for name, other_points in kind.readings(sample.found.values[kind.key]).items():
        yield Reading("preds", name, kind.remedy, other_points, true_points)
    for name, other_points in kind.readings(sample.true.values[kind.key]).items():
        yield Reading("target", name, kind.remedy, points, other_points)
    if kind.key == "keypoints":
        yield from _other_order(sample)
    swapped = points.flip(2)
    yield Reading("preds", "y before x", "Pass x before y in `preds` and `target`.", swapped, true_points)
    for frame in _frames(sample.sizes):
        for read_points, suffix in ((points, ""), (swapped, ", with y before x")):
            change = _measure_change(sample, frame, read_points)
            if change is not None:
                text = frame.text.format(*(1 / change.factor).tolist()) or _text_of(change)
                changed = change.apply(read_points) * frame.unit[images, None] + frame.origin[images, None]
                yield Reading("preds", text + suffix, _IN_ONE_IMAGE, changed, true_points)


def _other_order(sample: PointSample) -> Iterator[Reading]:
    """Yield the order in which keypoints lie closest to those of the ground truths in the same place."""
    points, true_points, is_labeled = sample.points, sample.true_points, sample.is_labeled
    rows, true_rows = sample.close_pairs(keypoint_boxes(points), keypoint_boxes(true_points, is_labeled))
    if len(rows) < _LEAST_PAIRS:
        return
    is_labeled = is_labeled[true_rows]
    distances = (torch.cdist(points[rows], true_points[true_rows]) * is_labeled[:, None]).sum(0)
    places = torch.arange(len(distances), device=distances.device)
    order = torch.where(is_labeled.any(0), distances.argmin(0), places)
    if bool((order != places).any()) and bool((order.sort().values == places).all()):
        name = f"keypoints in the order {', '.join(map(str, order.tolist()[:_MOST_PLACES]))}"
        yield Reading("preds", name, _IN_ONE_ORDER, points[:, order], true_points)


class _Frame(NamedTuple):
    """Coordinates in changed images: (x - origin) / unit, before a scale that is the same for all images."""

    origin: Tensor
    """[images, 2]"""
    unit: Tensor
    """[images, 2]"""
    text: str
    """a description of the changed images, with width and height in braces"""


def _frames(sizes: Tensor) -> Iterator[_Frame]:
    """Yield the images themselves, then the usual ways to resize images with known sizes."""
    zeros = torch.zeros_like(sizes)
    yield _Frame(zeros, zeros + 1, "")
    if not bool(sizes.isfinite().all()):
        return
    longest = sizes.amax(1, keepdim=True).expand_as(sizes)
    yield _Frame(zeros, sizes, "coordinates in images stretched to {0:.4g} x {1:.4g}")
    text = "coordinates in images resized to a longest side of {0:.4g}"
    yield _Frame(zeros, longest, text)
    yield _Frame((sizes - longest) / 2, longest, text + ", and padded around")


class _Change(NamedTuple):
    """The change from detections to ground truths: a factor and an offset for each axis."""

    factor: Tensor
    offset: Tensor

    def apply(self, points: Tensor) -> Tensor:
        """Return the changed points."""
        return points * self.factor + self.offset


def _text_of(change: _Change) -> str:
    across, down = change.factor.tolist()
    right, below = change.offset.tolist()
    return f"{across:.3g} x + {right:.4g} and {down:.3g} y + {below:.4g}".replace("+ -", "- ")


def _measure_change(sample: PointSample, frame: _Frame, points: Tensor) -> _Change | None:
    """Measure the change from detections to ground truths, first by all shapes, then by pairs that are close.

    Both are compared in the coordinates of the frame; in resized images there is no offset. None if nothing fits.
    """
    is_labeled, true_images = sample.is_labeled, sample.true.images
    true_points = (sample.true_points - frame.origin[true_images, None]) / frame.unit[true_images, None]
    true_boxes = keypoint_boxes(true_points, is_labeled)
    boxes = keypoint_boxes(points)
    if len(true_boxes) < _LEAST_MEASURED:
        return None
    change = _fit(_median(boxes)[None], _median(true_boxes)[None], has_offset=not frame.text)
    for _ in range(_NUM_FITS):
        rows, true_rows = sample.close_pairs(keypoint_boxes(change.apply(points)), true_boxes)
        if len(rows) < _LEAST_PAIRS:
            return None
        close = keypoint_boxes(points[rows], is_labeled[true_rows])
        change = _fit(close, true_boxes[true_rows], has_offset=not frame.text)
    return change


def _fit(boxes: Tensor, true_boxes: Tensor, *, has_offset: bool) -> _Change:
    """Measure the change by medians of sizes and centers of pairs of boxes."""
    size, true_size = boxes[:, 2:], true_boxes[:, 2:]
    center, true_center = boxes[:, :2] + size / 2, true_boxes[:, :2] + true_size / 2
    factor = _median(true_size / size)
    factor = torch.where((factor - 1).abs() < _NOISE, 1.0, factor)  # the shapes were only moved
    offset = _median(true_center - factor * center)
    return _Change(factor, offset if has_offset else torch.zeros_like(factor))


def _median(values: Tensor) -> Tensor:
    """Return the median of the numbers in each column, without NaN."""
    return values.nanmedian(dim=0).values
