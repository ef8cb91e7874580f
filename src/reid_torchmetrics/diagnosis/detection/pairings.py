"""Trials that compare detections with ground truths of other classes, of other images, and in other readings.

Readings are formats, orders, exchanged axes, other scales and offsets, and images of another size. Shapes in a wrong
reading overlap nothing, so the numbers are 0. Each reading is tried on a sample of images. A reading that finds most
ground truths explains the zeros, unless it also finds them with the detections of other images: shapes that are
everywhere, or always in one place, fit after any change of scale.

    shapes in a sample --- candidates, each a change of the points ---> the one that finds most ground truths
    the same shapes, with the ground truths of other images         ---> must find few
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values, is_beyond_chance
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import pairwise_iou

from .case import DetectionCase, cause, few_are_found, has_many_objects
from .given_images import ShownObjects
from .points import FOUND, PointSample, boxes_around

FEW = 0.3
"""fraction of all ground truths that are found, if labels are numbered in two ways"""
FEW_OF_CLASSES = 0.1
"""the same fraction, as a mean over classes"""
FEW_RIGHT = 0.1
"""fraction of pairs with equal labels"""
SAME = 0.8
"""fraction of pairs in which a label has its most frequent partner"""
LOST = 0.1
"""recall of a class; few objects of an exchanged class are found with their label"""
NUM_IMAGES = 128
"""images that are compared with each other"""
MOST_BOXES = (8, 4)
"""detections and ground truths of an image that are compared"""
CLOSE = 0.7
"""overlap of a detection with a ground truth of another image"""
LEAST_IMAGES = 8
"""fewer images say nothing"""
MANY = 0.4
"""fraction of the images that fit another one"""
_ALONE_BY_LUCK = 0.14  # the share of images in such pairs is at most exp(-2) if they fit independently
FITTED = 0.6
"""fraction of the ground truths that the detections of another image find"""
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


def labels_are_lost(case: DetectionCase) -> bool:
    """Return whether few of many objects are found with their label, in all classes or in two of them.

    There may be many detections of which few count: LVIS leaves out those of classes that an image does not list.
    """
    are_many = has_many_objects(case) or few_are_found(case)
    return are_many and (_have_few_right(case) or _have_lost_classes(case))


def _have_few_right(case: DetectionCase) -> bool:
    num_found, num_true = case.recall_of_classes
    is_few = num_found.sum() < FEW * num_true.sum()
    return bool(is_few & ((num_found / num_true).nanmean() < FEW_OF_CLASSES))


def _have_lost_classes(case: DetectionCase) -> bool:
    num_found, num_true = case.recall_of_classes
    return int(((num_true >= LEAST_BOXES) & (num_found < LOST * num_true)).sum()) > 1


@cause(
    message="Only {num_right} of {num} ground truths that are found have the label of their detection; most frequent"
    " are {pairs}. Number the classes of `preds` and `target` alike: one of them may start at 0, and the other at 1.",
    suspect=labels_are_lost,
)
def labels(case: DetectionCase) -> Values | None:
    """Look for labels in two numberings, such as from 0 in `preds` and from 1 in `target`, or exchanged classes.

    Fewer than {FEW} of the ground truths are found with their labels, and fewer than {FEW_OF_CLASSES} in the mean over
    classes. Without labels, more than half are found, and fewer than {FEW_RIGHT} of these pairs have equal labels.
    Either `preds` and `target` have no label in common, or in {SAME} of the pairs each label has its most frequent
    partner. Or at least two classes with {LEAST_BOXES} ground truths have a recall below {LOST}, and {SAME} of the
    objects of each are found with the label of one other of them.
    """
    pairs = case.paired_labels
    num = int(pairs.counts.sum())
    if case.images.is_one_class or num < LEAST_BOXES:
        return None
    if not _are_renumbered(case, pairs.counts) and not _are_exchanged(case, pairs.counts):
        return None
    wrong = pairs.counts - pairs.counts.diag().diag()
    places = sorted(wrong.nonzero().tolist(), key=lambda place: -int(wrong[tuple(place)]))
    num_right = int(pairs.counts.diagonal().sum())
    texts = [f"{pairs.names[predicted]} for {pairs.names[place]}" for place, predicted in places[:3]]
    return {"num_right": num_right, "num": num, "pairs": ", ".join(texts)}


def _are_renumbered(case: DetectionCase, counts: Tensor) -> bool:
    """Return whether few of the ground truths that are found have their label, because of a different numbering.

    If 0, 1, 2 stand for 1, 2, 3, then pairs are 0 for 1, 1 for 2 and 2 for 3: each label has one partner. A classifier
    that learned nothing has other pairs, or predicts a single label.
    """
    if not _have_few_right(case):
        return False
    num_pairs, sample = counts.sum(), case.points
    if 2 * num_pairs <= len(sample.true.images) or counts.diagonal().sum() >= FEW_RIGHT * num_pairs:
        return False
    if (counts.sum(0) > 0).sum() == 1 < (counts.sum(1) > 0).sum():
        return False
    are_disjoint = not bool(torch.isin(sample.found.column("labels"), sample.true.column("labels")).any())
    return are_disjoint or all(_have_one_partner(counts_of_side) for counts_of_side in (counts, counts.T))


def _have_one_partner(counts: Tensor) -> bool:
    """Return whether each label has the same partner in most pairs after its first one, among two labels or more.

    This must be so on both sides: a single class that is taken for another one has one partner, too.
    """
    largest_counts = counts.amax(1)
    num_labels = int((largest_counts > 0).sum())
    num_repeated = int(counts.sum()) - num_labels
    num_same = int(largest_counts.sum()) - num_labels
    return num_labels > 1 and num_repeated >= LEAST_BOXES and num_same >= SAME * num_repeated


def _are_exchanged(case: DetectionCase, counts: Tensor) -> bool:
    """Return whether the objects of two classes or more are found with the label of another one of them."""
    if not _have_lost_classes(case):
        return False
    num_pairs = counts.sum(1)
    largest, partners = counts.max(1)
    is_other = partners != torch.arange(len(counts), device=counts.device)
    lost = ((num_pairs >= LEAST_BOXES) & (largest >= SAME * num_pairs) & is_other).nonzero()[:, 0]
    return len(lost) > 1 and torch.equal(partners[lost].sort().values, lost)


@cause(
    message="The detections of {num} of {total} checked images find most ground truths of another image, and few"
    " of their own: image ids of both sides seem to be of different tables, or `preds` and `target` in different"
    " orders.",
    suspect=few_are_found,
    explained_by=("mixed_units", "corners_as_sizes", "labels", "other_reading"),
)
def other_images(case: DetectionCase) -> Values | None:
    """Look for detections of other images, by ids of another table or in another order.

    Fewer than half of the ground truths are found. Of at most {NUM_IMAGES} images, {MANY} have detections that find
    {FITTED} of the ground truths of another image at an overlap of {CLOSE}, and fewer of their own, in pairs in which
    each image fits no other one, which are more than by luck.
    """
    sample = case.points
    images = sample.true.images.unique()
    images = images[torch.isin(images, sample.found.images)]
    if len(images) < LEAST_IMAGES:
        return None
    images = images[:NUM_IMAGES]
    num_fits, total = _count_fits(sample, images), len(images)
    is_sign = num_fits >= MANY * total and is_beyond_chance(num_fits, total, _ALONE_BY_LUCK)
    return {"num": num_fits, "total": total} if is_sign else None


def _count_fits(sample: PointSample, images: Tensor) -> int:
    """Count the images with detections that find the ground truths of another image, if neither finds its own.

    Detections may fit any image by luck, so only pairs count in which each image fits no other one.
    """
    rows, num_detections = _first_rows(sample.found, images, MOST_BOXES[0])
    true_rows, num_true = _first_rows(sample.true, images, MOST_BOXES[1])
    true_boxes = boxes_around(sample.true_points, sample.is_labeled)[true_rows]
    overlaps = pairwise_iou(boxes_around(sample.points[rows]), true_boxes, box_format="xywh")
    # The fraction of the ground truths in each image (row) that the detections of each image (column) find.
    is_found = (segments.reduce(overlaps, "max", num_detections) >= CLOSE).double()
    fractions = segments.reduce(is_found.T.contiguous(), "sum", num_true) / num_true[:, None]
    is_missed = fractions.diagonal() < FITTED
    fits = (fractions >= FITTED) & is_missed & is_missed[:, None]
    is_alone = (fits.sum(1, keepdim=True) == 1) & (fits.sum(0) == 1)
    return int((fits & is_alone).sum())


def _first_rows(objects: ShownObjects, images: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Mark rows of the first objects in some images, and return their numbers."""
    is_first = segments.ranks(objects.images) < most
    rows = is_first & torch.isin(objects.images, images)
    return rows, objects.images[rows].bincount()[images]


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
    readings = list(_readings(sample))
    num_before, *numbers = sample.counts_found(
        [sample.points] + [reading.points for reading in readings],
        [sample.true_points] + [reading.true_points for reading in readings],
        at_least,
    )
    num_found = 0
    for reading, num in zip(readings, numbers, strict=True):
        if num > _BETTER * num_found:  # the simplest among almost equal ones
            num_found, best = num, reading
    num_ground_truths = len(sample.true.images)
    if num_found <= MOST_FOUND * num_ground_truths or num_before >= FEW_FOUND * num_found:
        return None
    if sample.count_elsewhere(best.points, best.true_points, at_least) >= FEW_FOUND * num_found:
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
    if sample.is_labeled is not None:
        yield from _other_order(sample, sample.is_labeled)
    swapped = points.flip(2)
    yield Reading("preds", "y before x", "Pass x before y in `preds` and `target`.", swapped, true_points)
    for frame in _frames(sample.sizes):
        for read_points, suffix in ((points, ""), (swapped, ", with y before x")):
            change = _measure_change(sample, frame, read_points)
            if change is not None:
                text = frame.text.format(*(1 / change.factor).tolist()) or _text_of(change)
                changed = read_points * change.factor + change.offset
                changed = changed * frame.unit[images, None] + frame.origin[images, None]
                yield Reading("preds", text + suffix, _IN_ONE_IMAGE, changed, true_points)


def _other_order(sample: PointSample, is_labeled: Tensor) -> Iterator[Reading]:
    """Yield the order in which keypoints lie closest to those of the ground truths in the same place."""
    points, true_points = sample.points, sample.true_points
    rows, true_rows = sample.close_pairs(boxes_around(points), boxes_around(true_points, is_labeled))
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


def _text_of(change: _Change) -> str:
    across, down = change.factor.tolist()
    right, below = change.offset.tolist()
    return f"{across:.3g} x + {right:.4g} and {down:.3g} y + {below:.4g}".replace("+ -", "- ")


def _measure_change(sample: PointSample, frame: _Frame, points: Tensor) -> _Change | None:
    """Measure the change from detections to ground truths, first by all shapes, then by pairs that are close.

    Both are compared in the coordinates of the frame; in resized images there is no offset. None if nothing fits.
    """
    is_labeled, true_images = sample.is_labeled, sample.true.images
    if len(true_images) < _LEAST_MEASURED:
        return None
    true_points = (sample.true_points - frame.origin[true_images, None]) / frame.unit[true_images, None]
    true_boxes = boxes_around(true_points, is_labeled)
    medians = [boxes.nanmedian(dim=0, keepdim=True).values for boxes in (boxes_around(points), true_boxes)]
    change = _fit(*medians, has_offset=not frame.text)
    for _ in range(_NUM_FITS):
        rows, true_rows = sample.close_pairs(boxes_around(points * change.factor + change.offset), true_boxes)
        if len(rows) < _LEAST_PAIRS:
            return None
        close = boxes_around(points[rows], None if is_labeled is None else is_labeled[true_rows])
        change = _fit(close, true_boxes[true_rows], has_offset=not frame.text)
    return change


def _fit(boxes: Tensor, true_boxes: Tensor, *, has_offset: bool) -> _Change:
    """Measure the change by medians of sizes and centers of pairs of boxes, without NaN."""
    size, true_size = boxes[:, 2:], true_boxes[:, 2:]
    center, true_center = boxes[:, :2] + size / 2, true_boxes[:, :2] + true_size / 2
    factor = (true_size / size).nanmedian(dim=0).values
    factor = torch.where((factor - 1).abs() < _NOISE, 1.0, factor)  # the shapes were only moved
    offset = (true_center - factor * center).nanmedian(dim=0).values
    return _Change(factor, offset if has_offset else torch.zeros_like(factor))
