"""Other readings of shapes: formats, orders, exchanged axes, other scales and offsets, images of another size.

Shapes in a wrong reading overlap nothing, so the numbers are 0. Each reading is tried on a sample of images. A reading
that finds most ground truths explains the zeros, unless it also finds them with the detections of other images: shapes
that are everywhere, or always in one place, fit after any change of scale.

    shapes in a sample --- candidates, each a change of the points ---> the one that finds most ground truths
    the same shapes, with the ground truths of other images         ---> must find few
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.detection.inputs import keypoint_boxes

from .case import DetectionCase
from .conditions import overlap_of_few
from .point_samples import sample_case
from .points import PointSample, Reading
from .sampled_objects import FOUND

MOST_FOUND = 0.5
"""fraction of the sampled ground truths that a reading must find"""
FEW_FOUND = 0.5
"""fraction of the ground truths found by a reading; fewer must be found without it, and in other images"""
_ALMOST_ALL = 0.9  # fraction of ground truths: a reading that finds more is taken without trying others
_BETTER = 1.1  # factor of ground truths that a less simple reading must find
_SOME = 0.25  # fraction of ground truths that the best reading must find in the trial
_NOISE = 0.03  # of a measured factor
_LEAST_MEASURED = 16  # ground truths for the measurement of a scale
_LEAST_PAIRS = 5  # pairs for the measurement of a scale
_NUM_FITS = 3  # measurements by pairs, each with the pairs from the one before
_IN_ONE_IMAGE = (
    "`preds` and `target` must be in the pixels of the original image, x before y: undo the resizing, padding or"
    " cropping of the input."
)


def other_reading(case: DetectionCase) -> Values | None:
    """Return the values of the message if another reading of the shapes finds most ground truths."""
    sample = sample_case(case)
    if sample is None:
        return None
    return find_reading(replace(sample, at_least=overlap_of_few(case) or FOUND))


def find_reading(sample: PointSample) -> Values | None:
    """Return the reading that finds most ground truths, if few are found as the shapes are read, and the numbers."""
    # For a poor detector no reading fits, which a trial on few objects shows at a lower cost.
    trial = sample.trial()
    if _find_best(trial)[0] <= _SOME * len(trial.target):
        return None
    num_ground_truths = len(sample.target)
    num_before = sample.num_found(sample.preds, sample.target)
    if num_before > MOST_FOUND * num_ground_truths:  # only labels differ
        return None
    num_found, reading = _find_best(sample)
    if reading is None or num_found <= MOST_FOUND * num_ground_truths or num_before >= FEW_FOUND * num_found:
        return None
    if sample.num_found_elsewhere(reading.preds, reading.target) >= FEW_FOUND * num_found:
        return None
    return {
        "argument": reading.argument,
        "name": reading.name,
        "remedy": reading.remedy,
        "num_found": num_found,
        "num_before": num_before,
        "num_ground_truths": num_ground_truths,
        "overlap": sample.at_least,
    }


def _find_best(sample: PointSample) -> tuple[int, Reading | None]:
    """Return the best reading and the number of ground truths that it finds; the simplest among almost equal ones."""
    num_found = 0
    best: Reading | None = None
    for reading in chain(sample.kind.readings(sample), _further_readings(sample)):
        num = sample.num_found(reading.preds, reading.target)
        if num > _BETTER * num_found:
            num_found, best = num, reading
        if num_found > _ALMOST_ALL * len(sample.target):
            break
    return num_found, best


class _ResizedImages(NamedTuple):
    """Coordinates in changed images: (x - origin) / unit, before a scale that is the same for all images."""

    origin: Tensor
    """[images, 2]"""
    unit: Tensor
    """[images, 2]"""
    text: str
    """a description of the changed images, with width and height in braces"""

    def to_original(self, points: Tensor, images: Tensor) -> Tensor:
        """Convert points to the original images, given the image of each shape."""
        return points * self.unit[images, None] + self.origin[images, None]

    def from_original(self, points: Tensor, images: Tensor) -> Tensor:
        """Convert points in the original images, given the image of each shape."""
        return (points - self.origin[images, None]) / self.unit[images, None]


def _further_readings(sample: PointSample) -> Iterator[Reading]:
    """Yield readings that any shape can have, simple ones first."""
    swapped = sample.preds.flip(2)
    yield sample.reading("preds", "y before x", "Pass x before y in `preds` and `target`.", swapped)
    for frame in _frames(sample):
        for points, suffix in ((sample.preds, ""), (swapped, ", with y before x")):
            change = _measure_change(sample, frame, points)
            if change is not None:
                text = frame.text.format(*(1 / change.factor).tolist()) or _text_of(change)
                changed = frame.to_original(change.apply(points), sample.images)
                yield sample.reading("preds", text + suffix, _IN_ONE_IMAGE, changed)


def _frames(sample: PointSample) -> Iterator[_ResizedImages]:
    """Yield the images themselves, then the usual ways to resize images with known sizes."""
    zeros = sample.preds.new_zeros((sample.num_images, 2))
    yield _ResizedImages(zeros, zeros + 1, "")
    sizes = sample.sizes
    if sizes is None or not bool(sizes.isfinite().all()):
        return
    longest = sizes.amax(1, keepdim=True).expand_as(sizes)
    yield _ResizedImages(zeros, sizes, "coordinates in images stretched to {0:.4g} x {1:.4g}")
    text = "coordinates in images resized to a longest side of {0:.4g}"
    yield _ResizedImages(zeros, longest, text)
    yield _ResizedImages((sizes - longest) / 2, longest, text + ", and padded around")


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


def _measure_change(sample: PointSample, frame: _ResizedImages, preds: Tensor) -> _Change | None:
    """Measure the change from detections to ground truths, first by all shapes, then by pairs that are close.

    Both are compared in the coordinates of the frame; in resized images there is no offset. None if nothing fits.
    """
    best = sample.best()
    if len(sample.target) < _LEAST_MEASURED or len(best) < _LEAST_PAIRS:
        return None
    target = keypoint_boxes(frame.from_original(sample.target, sample.true_images), sample.is_labeled)
    change = _medians(keypoint_boxes(preds[best]), target, has_offset=not frame.text, in_pairs=False)
    for _ in range(_NUM_FITS):
        changed = frame.to_original(change.apply(preds), sample.images)
        rows, true_rows = sample.close_pairs(changed, sample.target)
        if len(rows) < _LEAST_PAIRS:
            return None
        close = keypoint_boxes(preds[rows], sample.is_labeled[true_rows])
        change = _medians(close, target[true_rows], has_offset=not frame.text, in_pairs=True)
    return change


def _medians(preds: Tensor, target: Tensor, *, has_offset: bool, in_pairs: bool) -> _Change:
    """Measure the change by medians of sizes and centers of boxes: over pairs, or of each side by itself."""
    size, true_size = preds[:, 2:], target[:, 2:]
    center, true_center = preds[:, :2] + size / 2, target[:, :2] + true_size / 2
    factor = _median(true_size / size) if in_pairs else _median(true_size) / _median(size)
    factor = torch.where((factor - 1).abs() < _NOISE, 1.0, factor)  # the shapes were only moved
    if not has_offset:
        return _Change(factor, torch.zeros_like(factor))
    if in_pairs:
        return _Change(factor, _median(true_center - factor * center))
    return _Change(factor, _median(true_center) - factor * _median(center))


def _median(values: Tensor) -> Tensor:
    """Return the median of the numbers in each column, of two in the middle their mean."""
    return values.nanquantile(0.5, dim=0)
