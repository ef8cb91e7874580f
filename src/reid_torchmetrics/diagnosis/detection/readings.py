"""Other readings of boxes: formats, exchanged axes, other scales and offsets, images of another size.

Boxes in a wrong reading overlap nothing, so the numbers are 0. Each reading is tried on a sample of images. A reading
that finds most ground truths explains the zeros, unless it also finds them with the detections of other images: boxes
that are everywhere, or always in one place, fit after any change of scale.

    boxes in a sample --- candidates, each a change of the boxes ---> the one that finds most ground truths
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
"""overlap at which a ground truth is found"""
MOST_FOUND = 0.5
"""fraction of the sampled ground truths that a reading must find"""
FEW_FOUND = 0.5
"""fraction of the ground truths found by a reading; fewer must be found without it, and in other images"""
SOME_OUTSIDE = 0.1
"""fraction of the boxes that must exceed their image to count as two corners"""
_EDGE = 1  # a corner may lie one pixel beyond the last row and column, if whole pixels are counted
_ROUNDED = 1e-3  # pixels: boxes may have been converted and converted back
_ALMOST_ALL = 0.9  # fraction of ground truths: a reading that finds more is taken without trying others
_BETTER = 1.1  # factor of ground truths that a less simple reading must find
_TRIAL_IMAGES = 32  # a trial on so many images comes first if the sample has at least twice as many
_SOME = 0.25  # fraction of ground truths that the best reading must find in the trial
_NOISE = 0.03  # of a measured factor
_LEAST_MEASURED = 16  # ground truths for the measurement of a scale
_LEAST_PAIRS = 5  # pairs for the measurement of a scale
_CLOSE = 0.2  # overlap of pairs for the measurement of a scale
_NUM_FITS = 3  # measurements by pairs, each with the pairs from the one before
_FORMAT_NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
_SWAPPED = ", with y before x"


class BoxReading(NamedTuple):
    """A reading that finds most ground truths in a sample."""

    row: str
    """row of the registry"""
    argument: str
    """`preds` or `target`: the boxes to read in another way"""
    name: str
    remedy: str
    num_found: int
    num_before: int
    """number of ground truths that are found as the boxes are read now"""
    num_ground_truths: int


class _Candidate(NamedTuple):
    """A reading to try, with the boxes that it results in."""

    row: str
    argument: str
    name: str
    remedy: str
    detections: Tensor
    """x, y, width and height"""
    ground_truths: Tensor


class _Frame(NamedTuple):
    """Coordinates in resized images: (x - origin) / unit, before the scale that is the same for all images."""

    origin: Tensor
    """[images, 2]"""
    unit: Tensor
    """[images, 2]"""
    text: str
    """a description of the resized images, with width and height in braces"""


def find_reading(
    detections: Detections, ground_truths: GroundTruths, box_format: str, image_sizes: Tensor | None = None
) -> BoxReading | None:
    """Return the reading that finds most ground truths, if few are found as the boxes are read.

    Args:
        detections: boxes in all images.
        ground_truths: boxes in all images.
        box_format: format of the users' boxes.
        image_sizes: width and height of each image, by its number, NaN if unknown; None if unknown for all images.
    """
    sample = _BoxesOfImages.sampled(detections, ground_truths)
    if sample is None:
        return None
    num_before = sample.num_found(sample.preds, sample.target)
    if num_before > MOST_FOUND * sample.num_ground_truths:  # only labels differ
        return None
    # For a poor detector no reading fits, which a trial on few images shows at a lower cost.
    trial = sample.trial()
    if trial is not None and _find_best(trial, box_format, image_sizes)[0] <= _SOME * trial.num_ground_truths:
        return None
    num_found, candidate = _find_best(sample, box_format, image_sizes)
    if num_found <= MOST_FOUND * sample.num_ground_truths or num_before >= FEW_FOUND * num_found:
        return None
    if sample.num_found_elsewhere(candidate.detections, candidate.ground_truths) >= FEW_FOUND * num_found:
        return None
    return BoxReading(
        row=candidate.row,
        argument=candidate.argument,
        name=candidate.name,
        remedy=candidate.remedy,
        num_found=num_found,
        num_before=num_before,
        num_ground_truths=sample.num_ground_truths,
    )


class BoxesBeyondImages(NamedTuple):
    """Boxes in `preds` or `target` that exceed their images, and never do if they are read as two corners."""

    argument: str
    num_outside: int
    num_boxes: int


def find_corners(
    detections: Detections, ground_truths: GroundTruths, box_format: str, image_sizes: Tensor
) -> list[BoxesBeyondImages]:
    """Return which of `preds` and `target` seem to be two corners, by the edges of the images, in a sample of images.

    Args:
        detections: boxes in all images.
        ground_truths: boxes in all images.
        box_format: format of the users' boxes.
        image_sizes: width and height of each image, by its number; NaN if unknown.
    """
    sample = sample_objects(detections, ground_truths)
    corners = []
    for argument, objects in (("preds", sample.detections), ("target", sample.ground_truths)):
        sizes = image_sizes.index_select(0, objects.images.long())
        rows = sizes.isfinite().all(1).nonzero()[:, 0]
        boxes = _xywh(objects.shapes)[rows]
        edges = sizes[rows].double() + _EDGE
        if len(boxes) < LEAST_BOXES:
            continue
        numbers = _in_format(boxes, box_format)
        near, far = numbers[:, :2], numbers[:, 2:]
        are_corners = bool(((near <= far + _ROUNDED) & (far <= edges + _ROUNDED)).all())
        num_outside = int((boxes[:, :2] + boxes[:, 2:] > edges).any(1).sum())
        if are_corners and num_outside >= SOME_OUTSIDE * len(boxes):
            corners.append(BoxesBeyondImages(argument, num_outside, len(boxes)))
    return corners


def _find_best(sample: _BoxesOfImages, box_format: str, image_sizes: Tensor | None) -> tuple[int, _Candidate]:
    """Return the best reading and the number of ground truths that it finds; the simplest among almost equal ones."""
    best, *formats = _format_candidates(sample.preds, sample.target, box_format)
    num_found = sample.num_found(best.detections, best.ground_truths)
    for candidate in chain(formats, _further_candidates(sample, image_sizes)):
        if num_found > _ALMOST_ALL * sample.num_ground_truths:
            break
        num = sample.num_found(candidate.detections, candidate.ground_truths)
        if num > _BETTER * num_found:
            num_found, best = num, candidate
    return num_found, best


@dataclass(frozen=True)
class _BoxesOfImages:
    """The boxes in some images, in float64."""

    preds: Tensor
    """x, y, width and height"""
    scores: Tensor
    images: Tensor
    """for each detection the place of its image in the sample"""
    target: Tensor
    true_images: Tensor
    """for each ground truth the place of its image in the sample"""
    numbers: Tensor
    """numbers of the sampled images"""

    @classmethod
    def sampled(cls, detections: Detections, ground_truths: GroundTruths) -> _BoxesOfImages | None:
        """Return finite boxes without crowds in some images; None for few ground truths or without detections."""
        if not isinstance(detections.shapes, BoxShapes) or not isinstance(ground_truths.shapes, BoxShapes):
            return None
        if ground_truths.is_crowd is not None:
            ground_truths = ground_truths.at((~ground_truths.is_crowd).nonzero()[:, 0])
        sample = sample_objects(detections, ground_truths)
        preds = _xywh(sample.detections.shapes)
        target = _xywh(sample.ground_truths.shapes)
        is_finite = preds.isfinite().all(1)
        if len(target) < LEAST_BOXES or not bool(is_finite.any()):
            return None
        rows = is_finite.nonzero()[:, 0]
        return cls(
            preds=preds[rows],
            scores=sample.detections.scores.double()[rows],
            images=torch.searchsorted(sample.images, sample.detections.images.contiguous())[rows],
            target=target,
            true_images=torch.searchsorted(sample.images, sample.ground_truths.images.contiguous()),
            numbers=sample.images,
        )

    def trial(self) -> _BoxesOfImages | None:
        """Return the boxes in fewer images, evenly spread; None if there are not many images."""
        step = len(self.numbers) // _TRIAL_IMAGES
        if step < 2:
            return None
        rows = (self.images % step == 0).nonzero()[:, 0]
        true_rows = (self.true_images % step == 0).nonzero()[:, 0]
        return _BoxesOfImages(
            preds=self.preds[rows],
            scores=self.scores[rows],
            images=self.images[rows] // step,
            target=self.target[true_rows],
            true_images=self.true_images[true_rows] // step,
            numbers=self.numbers[::step].contiguous(),
        )

    @property
    def num_ground_truths(self) -> int:
        """Number of ground truths."""
        return len(self.target)

    def matches(self, preds: Tensor, target: Tensor, at_least: float = OVERLAP) -> tuple[Tensor, Tensor]:
        """Return rows of detections and of ground truths that overlap enough, for other boxes of the same objects."""
        return self._matches(preds, target, self.true_images, at_least)

    def _matches(self, preds: Tensor, target: Tensor, true_images: Tensor, at_least: float) -> tuple[Tensor, Tensor]:
        """Return `matches` with ground truths in other images."""
        detections = Detections.unchecked(
            boxes=_valid(preds),
            scores=self.scores,
            labels=torch.zeros_like(self.images),
            images=self.images.int(),
        )
        ground_truths = GroundTruths.unchecked(
            boxes=_valid(target),
            labels=torch.zeros_like(true_images),
            images=true_images.int(),
            is_crowd=None,
            areas=None,
        )
        return rows_of_pairs(match_without_labels(detections, ground_truths, at_least))

    def num_found(self, preds: Tensor, target: Tensor) -> int:
        """Return the number of ground truths that are found, for other boxes of the same objects."""
        return len(self.matches(preds, target)[0])

    def num_found_elsewhere(self, preds: Tensor, target: Tensor) -> int:
        """Return the number of ground truths that the detections of other images find.

        It is the largest number for several ways to exchange images. A single image is compared with its mirror image.
        """
        num_images = len(self.numbers)
        if num_images > 1:
            counts = []
            for shift in {max(1, num_images // 3), num_images // 2}:  # not 1, as neighbors may be frames of a video
                exchanged = (self.true_images + shift) % num_images
                rows, _ = self._matches(preds, target, exchanged, OVERLAP)
                counts.append(len(rows))
            return max(counts)
        near, size = target[:, :2], target[:, 2:]
        low, high = near.amin(0), (near + size).amax(0)
        mirrored = torch.cat([low + high - near - size, size], 1)
        return self.num_found(preds, mirrored)

    @cached_property
    def best(self) -> Tensor:
        """Rows of the detections with the highest scores, in each image as many as there are ground truths."""
        by_score = self.scores.argsort(descending=True, stable=True)
        order = by_score[self.images[by_score].argsort(stable=True)]
        images = self.images[order]
        num_true = self.true_images.bincount(minlength=len(self.numbers))
        return order[segments.ranks(images) < num_true[images]]


def _xywh(shapes: object) -> Tensor:
    assert isinstance(shapes, BoxShapes)  # noqa: S101 - see `sampled`
    return shapes.xywh.double()


def _valid(boxes: Tensor) -> Tensor:
    """Return boxes with negative sizes set to 0, so that they overlap nothing."""
    return torch.cat([boxes[:, :2], boxes[:, 2:].clamp(min=0)], 1)


def _further_candidates(sample: _BoxesOfImages, image_sizes: Tensor | None) -> Iterator[_Candidate]:
    """Yield readings other than formats, simple ones first."""
    preds = sample.preds
    swapped = preds[:, [1, 0, 3, 2]]
    yield _Candidate(
        row="swapped_axes",
        argument="preds",
        name="y before x",
        remedy="Pass x before y in `preds` and `target`.",
        detections=swapped,
        ground_truths=sample.target,
    )
    for boxes, suffix in ((preds, ""), (swapped, _SWAPPED)):
        candidate = _rescaled(sample, boxes, suffix)
        if candidate is not None:
            yield candidate
    if image_sizes is None:
        return
    for frame in _frames(image_sizes[sample.numbers.long()].double()):
        for boxes, suffix in ((preds, ""), (swapped, _SWAPPED)):
            candidate = _resized(sample, frame, boxes, suffix)
            if candidate is not None:
                yield candidate


def _format_candidates(preds: Tensor, target: Tensor, box_format: str) -> Iterator[_Candidate]:
    """Yield readings of the numbers of `preds`, then of `target`, in each other format."""
    for argument, boxes in (("preds", preds), ("target", target)):
        numbers = _in_format(boxes, box_format)
        for name in BOX_FORMATS:
            if name == box_format:
                continue
            converted = to_xywh(numbers, name)
            yield _Candidate(
                row="box_format",
                argument=argument,
                name=_FORMAT_NAMES[name],
                remedy=f'`{argument}` seems to be "{name}" and is read as "{box_format}": pass `preds` and `target` in'
                " one format.",
                detections=converted if argument == "preds" else preds,
                ground_truths=converted if argument == "target" else target,
            )


def _in_format(boxes: Tensor, box_format: str) -> Tensor:
    """Return x, y, width and height in a format."""
    if box_format == "xyxy":
        return torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    if box_format == "cxcywh":
        return torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1)
    return boxes


class _Fit(NamedTuple):
    """The change from detections to ground truths: a factor and an offset for each axis."""

    factor: Tensor
    offset: Tensor

    def apply(self, boxes: Tensor) -> Tensor:
        """Return the changed boxes."""
        return torch.cat([boxes[:, :2] * self.factor + self.offset, boxes[:, 2:] * self.factor], 1)

    @property
    def is_finite(self) -> bool:
        """Whether all factors are positive, and all numbers finite."""
        is_positive = self.factor.isfinite() & (self.factor > 0)
        return bool((is_positive & self.offset.isfinite()).all())


def _measure(preds: Tensor, target: Tensor, *, has_offset: bool) -> _Fit:
    """Measure the change by medians of sizes and centers of all boxes."""
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
    """Return 1 for a factor close to 1: the boxes were only moved."""
    return torch.where((factor - 1).abs() < _NOISE, 1.0, factor)


def _median(values: Tensor) -> Tensor:
    """Return the median of each column; NaN without rows."""
    if not len(values):
        return values.new_full(values.shape[1:], torch.nan)
    if len(values) <= 1 << 16:  # it averages the two middle values, but its input is limited
        return values.quantile(0.5, dim=0)
    return values.median(0).values


def _fit(
    sample: _BoxesOfImages, preds: Tensor, target: Tensor, place: Callable[[Tensor], Tensor], *, has_offset: bool
) -> _Fit | None:
    """Measure the change from detections to ground truths, first by all boxes, then by the pairs that overlap.

    Args:
        sample: the images.
        preds: boxes of all detections in the sample.
        target: boxes of all ground truths in the sample, in the coordinates that result from the change.
        place: converts changed detections to the coordinates of the sample's ground truths.
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
    """Return detections with another scale and another origin, the same in all images; None if nothing fits."""
    fit = _fit(sample, preds, sample.target, lambda boxes: boxes, has_offset=True)
    if fit is None:
        return None
    across, down = fit.factor.tolist()
    right, below = fit.offset.tolist()
    name = f"{across:.3g} x + {right:.4g} and {down:.3g} y + {below:.4g}".replace("+ -", "- ")
    return _Candidate(
        row="scale_and_offset",
        argument="preds",
        name=name + suffix,
        remedy="`preds` and `target` must be in the pixels of the same image: undo the resizing, padding or cropping of"
        " the input.",
        detections=fit.apply(preds),
        ground_truths=sample.target,
    )


def _frames(sizes: Tensor) -> list[_Frame]:
    """Return the usual ways to resize images with known sizes."""
    longest = sizes.amax(1, keepdim=True).expand_as(sizes)
    zeros = torch.zeros_like(sizes)
    return [
        _Frame(zeros, sizes, "boxes in images stretched to {0:.4g} x {1:.4g}"),
        _Frame(zeros, longest, "boxes in images resized to a longest side of {0:.4g}"),
        _Frame(
            (sizes - longest) / 2,
            longest,
            "boxes in images resized to a longest side of {0:.4g}, and padded around",
        ),
    ]


def _resized(sample: _BoxesOfImages, frame: _Frame, preds: Tensor, suffix: str) -> _Candidate | None:
    """Return detections converted from resized images to the original ones; None if nothing fits."""
    if not bool(frame.unit.isfinite().all()):
        return None
    origin = frame.origin[sample.images]
    unit = frame.unit[sample.images]
    true_origin = frame.origin[sample.true_images]
    true_unit = frame.unit[sample.true_images]
    near, size = sample.target[:, :2], sample.target[:, 2:]
    target = torch.cat([(near - true_origin) / true_unit, size / true_unit], 1)

    def place(boxes: Tensor) -> Tensor:
        return torch.cat([boxes[:, :2] * unit + origin, boxes[:, 2:] * unit], 1)

    fit = _fit(sample, preds, target, place, has_offset=False)
    if fit is None:
        return None
    return _Candidate(
        row="image_size",
        argument="preds",
        name=frame.text.format(*(1 / fit.factor).tolist()) + suffix,
        remedy="Convert the boxes to the pixels of the original images.",
        detections=place(fit.apply(preds)),
        ground_truths=sample.target,
    )
