"""Other readings of boxes: formats, exchanged axes, other scales and offsets, images of another size.

Boxes in another reading overlap nothing, so the numbers are 0. Each reading is tried on a sample of images. A reading
that finds most ground truths explains the zeros, unless it finds them in wrong images as well: boxes that are
everywhere, or always in one place, fit after any change of scale.

    boxes of a sample --- candidates, each a change of the boxes ---> the one that finds most ground truths
    the same boxes, with the ground truths of other images        ---> must find few
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS, BoxShapes, Detections, GroundTruths, to_xywh

from .objects import match_without_labels, rows_of_pairs, sample_objects

OVERLAP = 0.5
"""of a ground truth that is found"""
MOST_FOUND = 0.5
"""share of the ground truths of the sample that a reading must find"""
FEW_FOUND = 0.5
"""share of the ground truths that a reading finds: fewer must be found without it, and in wrong images"""
SOME_OUTSIDE = 0.1
"""share of the boxes of a side that must leave their image, for them to be two corners"""
_EDGE = 1  # a corner may lie one pixel beyond the last row and column, as whole pixels are counted
_ROUNDED = 1e-3  # pixels, of boxes that were converted and are converted back
_ALMOST_ALL = 0.9  # a reading that finds as many is taken without a look at the others
_BETTER = 1.1  # a reading that is less simple must find so many times as many
_TRIAL_IMAGES = 32  # that a sample of more than twice as many is tried on first
_SOME = 0.25  # of their ground truths, that the best reading must find
_NOISE = 0.03  # of a factor that is measured
_LEAST_MEASURED, _LEAST_PAIRS = 16, 5  # ground truths, and pairs, that a scale is measured by
_CLOSE = 0.2  # overlap of pairs that a scale is measured by
_NUM_FITS = 3  # each is measured by the pairs of the one before
_FORMAT_NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
_SWAPPED = ", with y before x"


class BoxReading(NamedTuple):
    """A reading that finds most ground truths of a sample."""

    row: str
    """of the registry"""
    argument: str
    """the side that seems to be meant in another way"""
    name: str
    remedy: str
    num_found: int
    num_before: int
    """ground truths that are found as the boxes are read now"""
    num_ground_truths: int


class _Candidate(NamedTuple):
    row: str
    argument: str
    name: str
    remedy: str
    detections: Tensor
    """x, y, width and height"""
    ground_truths: Tensor


class _Frame(NamedTuple):
    """Coordinates in images of another size, of the sizes of the images: (x - origin) / unit, for each ground truth."""

    origin: Tensor
    """[images, 2]"""
    unit: Tensor
    """[images, 2]"""
    text: str
    """what images are resized to, with the width and height in braces"""


def find_reading(
    detections: Detections, ground_truths: GroundTruths, box_format: str, image_sizes: Tensor | None = None
) -> BoxReading | None:
    """Return the reading that finds most ground truths, if few are found as the boxes are read.

    Args:
        detections: of all images, boxes.
        ground_truths: of all images, boxes.
        box_format: in which users gave the boxes.
        image_sizes: width and height of each image, by its number, NaN where not known; None for no image.
    """
    sample = _BoxesOfImages.sampled(detections, ground_truths)
    if sample is None:
        return None
    num_before = sample.num_found(sample.preds, sample.target)
    if num_before > MOST_FOUND * sample.num_ground_truths:  # the labels differ
        return None
    # A poor detector fits no reading on few images either, and costs less there.
    trial = sample.trial()
    if trial is not None and _find_best(trial, box_format, image_sizes)[0] <= _SOME * trial.num_ground_truths:
        return None
    num_found, candidate = _find_best(sample, box_format, image_sizes)
    if num_found <= MOST_FOUND * sample.num_ground_truths or num_before >= FEW_FOUND * num_found:
        return None
    if sample.num_found_elsewhere(candidate.detections, candidate.ground_truths) >= FEW_FOUND * num_found:
        return None
    texts = candidate.row, candidate.argument, candidate.name, candidate.remedy
    return BoxReading(*texts, num_found, num_before, sample.num_ground_truths)


class BoxesBeyondImages(NamedTuple):
    """Boxes of one side that leave their images as they are read, and never do as two corners."""

    argument: str
    num_outside: int
    num_boxes: int


def find_corners(
    detections: Detections, ground_truths: GroundTruths, box_format: str, image_sizes: Tensor
) -> list[BoxesBeyondImages]:
    """Return the sides with boxes that seem to be two corners by the edges of their images, on a sample of images.

    Args:
        detections: of all images, boxes.
        ground_truths: of all images, boxes.
        box_format: in which users gave the boxes.
        image_sizes: width and height of each image, by its number; NaN where not known.
    """
    sample = sample_objects(detections, ground_truths)
    found = []
    for argument, side in (("preds", sample.detections), ("target", sample.ground_truths)):
        sizes = image_sizes.index_select(0, side.images.long())
        rows = sizes.isfinite().all(1).nonzero()[:, 0]
        boxes, edges = _xywh(side.shapes)[rows], sizes[rows].double() + _EDGE
        if len(boxes) < LEAST_BOXES:
            continue
        numbers = _in_format(boxes, box_format)
        near, far = numbers[:, :2], numbers[:, 2:]
        are_corners = bool(((near <= far + _ROUNDED) & (far <= edges + _ROUNDED)).all())
        num_outside = int((boxes[:, :2] + boxes[:, 2:] > edges).any(1).sum())
        if are_corners and num_outside >= SOME_OUTSIDE * len(boxes):
            found.append(BoxesBeyondImages(argument, num_outside, len(boxes)))
    return found


def _find_best(sample: _BoxesOfImages, box_format: str, image_sizes: Tensor | None) -> tuple[int, _Candidate]:
    """Return the number of ground truths that the best reading finds, and the reading: the simplest of about equals."""
    first, *others = _format_candidates(sample.preds, sample.target, box_format)
    num_found, best = sample.num_found(first.detections, first.ground_truths), first
    for candidate in chain(others, _further_candidates(sample, image_sizes)):
        if num_found > _ALMOST_ALL * sample.num_ground_truths:
            break
        num = sample.num_found(candidate.detections, candidate.ground_truths)
        if num > _BETTER * num_found:
            num_found, best = num, candidate
    return num_found, best


@dataclass(frozen=True)
class _BoxesOfImages:
    """The boxes of some images, in float64."""

    preds: Tensor
    """x, y, width and height"""
    scores: Tensor
    images: Tensor
    """place of the image in the sample"""
    target: Tensor
    true_images: Tensor
    numbers: Tensor
    """of the images of the sample"""

    @classmethod
    def sampled(cls, detections: Detections, ground_truths: GroundTruths) -> _BoxesOfImages | None:
        """Take finite boxes and no crowds of some images; None for too few ground truths, or for no detections."""
        shapes = detections.shapes, ground_truths.shapes
        if not isinstance(shapes[0], BoxShapes) or not isinstance(shapes[1], BoxShapes):
            return None
        if ground_truths.is_crowd is not None:
            ground_truths = ground_truths.at((~ground_truths.is_crowd).nonzero()[:, 0])
        chosen = sample_objects(detections, ground_truths)
        preds, target = (_xywh(side.shapes) for side in (chosen.detections, chosen.ground_truths))
        is_finite = preds.isfinite().all(1)
        scores, places = (
            chosen.detections.scores.double(),
            torch.searchsorted(chosen.images, chosen.detections.images.contiguous()),
        )
        if len(target) < LEAST_BOXES or not bool(is_finite.any()):
            return None
        true_places = torch.searchsorted(chosen.images, chosen.ground_truths.images.contiguous())
        rows = is_finite.nonzero()[:, 0]
        return cls(preds[rows], scores[rows], places[rows], target, true_places, chosen.images)

    def trial(self) -> _BoxesOfImages | None:
        """Return fewer of the images, evenly spread; None if there are not many."""
        step = len(self.numbers) // _TRIAL_IMAGES
        if step < 2:
            return None
        rows = (self.images % step == 0).nonzero()[:, 0]
        true_rows = (self.true_images % step == 0).nonzero()[:, 0]
        return _BoxesOfImages(
            self.preds[rows],
            self.scores[rows],
            self.images[rows] // step,
            self.target[true_rows],
            self.true_images[true_rows] // step,
            self.numbers[::step].contiguous(),
        )

    @property
    def num_ground_truths(self) -> int:
        """Number of ground truths."""
        return len(self.target)

    def matches(self, preds: Tensor, target: Tensor, at_least: float = OVERLAP) -> tuple[Tensor, Tensor]:
        """Return rows of detections and of ground truths that overlap enough, for other boxes of the same objects."""
        return self._matches(preds, target, self.true_images, at_least)

    def _matches(self, preds: Tensor, target: Tensor, true_images: Tensor, at_least: float) -> tuple[Tensor, Tensor]:
        labels, true_labels = torch.zeros_like(self.images), torch.zeros_like(true_images)
        detections = Detections.unchecked(
            boxes=_valid(preds), scores=self.scores, labels=labels, images=self.images.int()
        )
        ground_truths = GroundTruths.unchecked(
            boxes=_valid(target), labels=true_labels, images=true_images.int(), is_crowd=None, areas=None
        )
        return rows_of_pairs(match_without_labels(detections, ground_truths, at_least))

    def num_found(self, preds: Tensor, target: Tensor) -> int:
        """Return how many ground truths are found, for other boxes of the same objects."""
        return len(self.matches(preds, target)[0])

    def num_found_elsewhere(self, preds: Tensor, target: Tensor) -> int:
        """Return how many ground truths are found by the detections of other images, or of a single image in a mirror.

        Of several ways to exchange the images it is the largest number.
        """
        num_images = len(self.numbers)
        if num_images > 1:
            shifts = {max(1, num_images // 3), num_images // 2}  # neighbors may be frames of a video
            exchanged = [(self.true_images + shift) % num_images for shift in shifts]
            return max(len(self._matches(preds, target, others, OVERLAP)[0]) for others in exchanged)
        near, size = target[:, :2], target[:, 2:]
        low, high = near.amin(0), (near + size).amax(0)
        mirrored = torch.cat([low + high - near - size, size], 1)
        return self.num_found(preds, mirrored)

    @cached_property
    def best(self) -> Tensor:
        """Rows of the detections with the highest scores, in each image as many as there are ground truths."""
        num_images = len(self.numbers)
        by_score = self.scores.argsort(descending=True, stable=True)
        order = by_score[self.images[by_score].argsort(stable=True)]
        place = segments.ranks(self.images[order])
        num_true = self.true_images.bincount(minlength=num_images)
        return order[place < num_true[self.images[order]]]


def _xywh(shapes: object) -> Tensor:
    assert isinstance(shapes, BoxShapes)  # noqa: S101 - see `sampled`
    return shapes.xywh.double()


def _valid(boxes: Tensor) -> Tensor:
    """Return boxes of negative size as boxes of no size, that overlap nothing."""
    return torch.cat([boxes[:, :2], boxes[:, 2:].clamp(min=0)], 1)


def _further_candidates(sample: _BoxesOfImages, image_sizes: Tensor | None) -> Iterator[_Candidate]:
    """Give readings that are not another format, simple ones first."""
    preds, target = sample.preds, sample.target
    swapped = preds[:, [1, 0, 3, 2]]
    remedy = "Give x before y on both sides."
    yield _Candidate("swapped_axes", "preds", "y before x", remedy, swapped, target)
    for boxes, suffix in ((preds, ""), (swapped, _SWAPPED)):
        candidate = _rescaled(sample, boxes, suffix)
        if candidate is not None:
            yield candidate
    frames = [] if image_sizes is None else _frames(image_sizes[sample.numbers.long()].double())
    for frame in frames:
        for boxes, suffix in ((preds, ""), (swapped, _SWAPPED)):
            candidate = _resized(sample, frame, boxes, suffix)
            if candidate is not None:
                yield candidate


def _format_candidates(preds: Tensor, target: Tensor, box_format: str) -> Iterator[_Candidate]:
    """Give the numbers of one side, read in each format but the one that they were read in."""
    for argument, boxes in (("preds", preds), ("target", target)):
        numbers = _in_format(boxes, box_format)
        for name in BOX_FORMATS:
            if name == box_format:
                continue
            read = to_xywh(numbers, name)
            sides = (read, target) if argument == "preds" else (preds, read)
            remedy = f'`{argument}` seems to be "{name}" and is read as "{box_format}": give both sides in one format.'
            yield _Candidate("box_format", argument, _FORMAT_NAMES[name], remedy, *sides)


def _in_format(boxes: Tensor, box_format: str) -> Tensor:
    """Return x, y, width and height in a format."""
    if box_format == "xyxy":
        return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    if box_format == "cxcywh":
        return torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1)
    return boxes


class _Fit(NamedTuple):
    """The change from detections to ground truths: a factor and an offset of each axis."""

    factor: Tensor
    offset: Tensor

    def apply(self, boxes: Tensor) -> Tensor:
        return torch.cat([boxes[:, :2] * self.factor + self.offset, boxes[:, 2:] * self.factor], 1)

    @property
    def is_finite(self) -> bool:
        is_positive = self.factor.isfinite() & (self.factor > 0)
        return bool((is_positive & self.offset.isfinite()).all())


def _measure(preds: Tensor, target: Tensor, *, has_offset: bool) -> _Fit:
    """Measure the change by medians of sizes and centers of both sides."""
    factor = _whole_if_close(_median(target[:, 2:]) / _median(preds[:, 2:]))
    if not has_offset:
        return _Fit(factor, torch.zeros_like(factor))
    return _Fit(factor, _median(_centers(target)) - factor * _median(_centers(preds)))


def _measure_pairs(preds: Tensor, target: Tensor, *, has_offset: bool) -> _Fit:
    """Measure the change by medians over pairs of a detection and its ground truth."""
    factor = _whole_if_close(_median(target[:, 2:] / preds[:, 2:]))
    if not has_offset:
        return _Fit(factor, torch.zeros_like(factor))
    return _Fit(factor, _median(_centers(target) - factor * _centers(preds)))


def _centers(boxes: Tensor) -> Tensor:
    return boxes[:, :2] + boxes[:, 2:] / 2


def _whole_if_close(factor: Tensor) -> Tensor:
    """Return 1 for a factor that is 1 but for noise: boxes that were moved."""
    return torch.where((factor - 1).abs() < _NOISE, 1.0, factor)


def _median(values: Tensor) -> Tensor:
    """Return the median of each column; NaN without rows."""
    if not len(values):
        return values.new_full(values.shape[1:], torch.nan)
    return values.quantile(0.5, dim=0) if len(values) <= 1 << 16 else values.median(0).values


def _fit(
    sample: _BoxesOfImages, preds: Tensor, target: Tensor, place: Callable[[Tensor], Tensor], *, has_offset: bool
) -> _Fit | None:
    """Measure the change from detections to ground truths, then again by the pairs that it makes.

    Args:
        sample: the images.
        preds: boxes of all detections of the sample.
        target: boxes of all ground truths, in the coordinates that the detections seem to have, but for the change.
        place: puts changed detections back where the ground truths of the sample are.
        has_offset: whether the change has an offset.
    """
    if sample.num_ground_truths < _LEAST_MEASURED:
        return None
    fit = _measure(preds[sample.best], target, has_offset=has_offset)
    for _ in range(_NUM_FITS):
        if not fit.is_finite:
            return None
        rows, true_rows = sample.matches(place(fit.apply(preds)), sample.target, _CLOSE)
        if len(rows) < _LEAST_PAIRS:
            break
        fit = _measure_pairs(preds[rows], target[true_rows], has_offset=has_offset)
    return fit if fit.is_finite else None


def _rescaled(sample: _BoxesOfImages, preds: Tensor, suffix: str) -> _Candidate | None:
    """Give detections with another scale and another origin, the same in all images."""
    fit = _fit(sample, preds, sample.target, lambda boxes: boxes, has_offset=True)
    if fit is None:
        return None
    across, down = fit.factor.tolist()
    right, below = fit.offset.tolist()
    name = f"{across:.3g} x + {right:.4g} and {down:.3g} y + {below:.4g}".replace("+ -", "- ")
    remedy = "Both sides must be in the pixels of the same image: undo the resizing, padding or cropping of the input."
    return _Candidate("scale_and_offset", "preds", name + suffix, remedy, fit.apply(preds), sample.target)


def _frames(sizes: Tensor) -> list[_Frame]:
    """Give the usual ways to resize images of known sizes."""
    longest = sizes.amax(1, keepdim=True).expand_as(sizes)
    zeros = torch.zeros_like(sizes)
    return [
        _Frame(zeros, sizes, "boxes in images stretched to {0:.4g} x {1:.4g}"),
        _Frame(zeros, longest, "boxes in images resized to a longest side of {0:.4g}"),
        _Frame(
            (sizes - longest) / 2, longest, "boxes in images resized to a longest side of {0:.4g}, and padded around"
        ),
    ]


def _resized(sample: _BoxesOfImages, frame: _Frame, preds: Tensor, suffix: str) -> _Candidate | None:
    """Give detections, put back from images of another size to their own."""
    if not bool(frame.unit.isfinite().all()):
        return None
    origin, unit = frame.origin[sample.images], frame.unit[sample.images]
    true_origin, true_unit = frame.origin[sample.true_images], frame.unit[sample.true_images]
    near, size = sample.target[:, :2], sample.target[:, 2:]
    target = torch.cat([(near - true_origin) / true_unit, size / true_unit], 1)

    def place(boxes: Tensor) -> Tensor:
        return torch.cat([boxes[:, :2] * unit + origin, boxes[:, 2:] * unit], 1)

    fit = _fit(sample, preds, target, place, has_offset=False)
    if fit is None:
        return None
    name = frame.text.format(*(1 / fit.factor).tolist()) + suffix
    remedy = "Put the boxes back into the pixels of the original images."
    return _Candidate("image_size", "preds", name, remedy, place(fit.apply(preds)), sample.target)
