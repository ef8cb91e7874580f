"""Detections with their outcomes: by image, or in the order of accumulation, with their curves; errors in each image.

A curve in this file is two arrays, recall and precision at each detection, as in evaluators in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves import AP_RULES, Curves, evenly_spaced
from reid_torchmetrics.functional.detection.evaluation import RESULT_METHODS, DetectionResults
from reid_torchmetrics.functional.detection.inputs import name_images, nearest_threshold
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, cut, more_rows

from .operating_points import at_confidence, best_confidence, number_of_class

Values = Float[Tensor, " points"]
_NUM_LINES = 20  # detections in the text of a curve


def compute_ap(
    recall: Tensor | NDArray[np.generic] | Sequence[float],
    precision: Tensor | NDArray[np.generic] | Sequence[float],
    rule: _names.DetectionRule = "coco",
) -> Float[Tensor, ""]:
    """Compute the area under the upper envelope of a curve, float64, from recall and precision at each detection.

    Evaluations start from matches and are exact; here the area depends on the rounding of recall and precision. COCO's
    own precision is m / (c + 2^-52). The area is NaN if the recall is NaN, as it is without ground truths, and 0
    without detections.

    Args:
        recall: recall at every detection, the highest score first, ascending.
        precision: precision at the same detections.
        rule: "coco": the mean of the envelope at the recalls 0, 0.01, ..., 1, where the envelope is 0 if the curve does
            not reach a recall. "voc07": the same at 0, 0.1, ..., 1, the eleven points of Pascal VOC 2007. "voc": the
            area under all points, Pascal VOC since 2010, which the YOLO family calls continuous. "yolo", "yolov5" and
            "ultralytics": trapezoids under the envelope at 0, 0.01, ..., 1. After the last recall R the envelope falls
            in a straight line to 0: at min(R + 0.001, 1) for ScaledYOLOv4, at 1 for YOLOv5, at R itself for Ultralytics
            8.4. All three read 0 at recall 1, so a perfect detector has 0.995.

    Raises:
        TypeError: arguments that are not arrays.
        ValueError: an unknown `rule`, arrays that are not [N] and [N], or a recall that falls.
    """
    _checks.one_of("rule", rule, AP_RULES)
    _checks.array_like("recall", recall)
    _checks.array_like("precision", precision)
    recall = _as_float64(recall)
    precision = _as_float64(precision)
    if recall.ndim != 1 or recall.shape != precision.shape:
        raise ValueError(
            "`recall` and `precision` must have the same shape [N];"
            f" got {list(recall.shape)} and {list(precision.shape)}."
        )
    if bool((recall.diff() < 0).any()):
        raise ValueError(f"`recall` must not fall; got {recall.tolist()}.")
    if not len(recall):
        return recall.new_zeros(())
    if bool(recall.isnan().any()):
        return recall.new_full((), torch.nan)
    return _AREAS[rule](recall, precision)


def _as_float64(values: Tensor | NDArray[np.generic] | Sequence[float]) -> Tensor:
    values = to_compute_device(values)
    return torch.as_tensor(values, dtype=torch.float64, device=getattr(values, "device", "cpu"))


def envelope_at(recall: Values, precision: Values, recalls: Float[Tensor, " recalls"]) -> Float[Tensor, " recalls"]:
    """Return the largest precision at or above each of some recalls, 0 if the curve does not reach it."""
    return functional.pad(envelope_of(precision), (0, 1))[torch.searchsorted(recall, recalls)]


def envelope_of(precision: Values) -> Values:
    """Return the largest precision at each detection or at a later one."""
    return precision.flip(0).cummax(0).values.flip(0)


def _mean_at_recalls(recall: Values, precision: Values, *, num_recalls: int) -> Float[Tensor, ""]:
    return envelope_at(recall, precision, evenly_spaced(num_recalls, recall.device)).mean()


def _trapezoids(recall: Values, precision: Values, *, first: float, tail: float) -> Float[Tensor, ""]:
    """Return the area of trapezoids under straight lines through the envelope, down to 0 at the last recall + `tail`.

    `first` is the precision at recall 0, before all others.
    """
    end = (recall[-1:] + tail).clamp(max=1)
    points = torch.cat([recall.new_zeros(1), recall, end, recall.new_ones(1)])
    heights = envelope_of(torch.cat([precision.new_full((1,), first), precision, precision.new_zeros(2)]))
    recalls = evenly_spaced(101, recall.device)
    # As in `numpy.interp`: among points with the same recall the last one counts.
    left = (torch.searchsorted(points, recalls, right=True) - 1).clamp(max=len(points) - 2)
    run = points[left + 1] - points[left]
    rise = heights[left + 1] - heights[left]
    share = torch.where(run > 0, (recalls - points[left]) / run, 1.0)
    return torch.trapezoid(heights[left] + rise * share, recalls)


_AREAS: dict[str, Callable[[Values, Values], Tensor]] = {
    "coco": partial(_mean_at_recalls, num_recalls=101),
    "voc07": partial(_mean_at_recalls, num_recalls=11),
    "voc": lambda recall, precision: (recall.diff(prepend=recall.new_zeros(1)) * envelope_of(precision)).sum(),
    "yolo": partial(_trapezoids, first=0.0, tail=1e-3),
    "yolov5": partial(_trapezoids, first=1.0, tail=1.0),
    "ultralytics": partial(_trapezoids, first=1.0, tail=0.0),
}


class ImageRows:
    """Rows that each belong to an image."""

    image: Int[Tensor, " rows"]
    image_names: tuple[str, ...] | None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.image)

    @property
    def image_ids(self) -> list[int | str]:
        """The id of the image of each row, or its name if images have names."""
        return name_images(self.image, self.image_names)


@dataclass(frozen=True, repr=False)
class DetectionCurve(Displayed, ImageRows):
    """The detections of a class by descending score, with precision and recall after each."""

    num_positives: int
    """number of ground truths that count"""
    row: Int[Tensor, " detections"]
    """as in `RankedDetections`"""
    image: Int[Tensor, " detections"]
    score: Float[Tensor, " detections"]
    is_true_positive: Bool[Tensor, " detections"]
    is_ignored: Bool[Tensor, " detections"]
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """as in `RankedDetections`"""

    @property
    def num_true_positives(self) -> Int[Tensor, " detections"]:
        """Up to and including each detection."""
        return self.is_true_positive.cumsum(0)

    @property
    def num_false_positives(self) -> Int[Tensor, " detections"]:
        """Up to and including each detection; ignored ones are neither."""
        return (~self.is_true_positive & ~self.is_ignored).cumsum(0)

    @property
    def precision(self) -> Float[Tensor, " detections"]:
        """True positives as a share of detections; NaN while all are ignored."""
        num_right = self.num_true_positives.double()
        return num_right / (num_right + self.num_false_positives)

    @property
    def recall(self) -> Float[Tensor, " detections"]:
        """True positives as a share of ground truths; NaN without ground truths."""
        return self.num_true_positives.double() / self.num_positives

    @property
    def envelope(self) -> Float[Tensor, " detections"]:
        """The largest precision at each detection or at a later one."""
        return envelope_of(self.precision.nan_to_num(0.0))

    def average_precision(self, rule: _names.DetectionRule = "voc") -> float:
        """Compute the area under the curve by a rule of `compute_ap`; NaN without ground truths."""
        if not self.num_positives:
            return float("nan")
        counts = ~self.is_ignored
        return float(compute_ap(self.recall[counts], self.precision[counts], rule))

    def at_recalls(self, num_recalls: int = 11) -> tuple[Float[Tensor, " recalls"], Float[Tensor, " recalls"]]:
        """Return recalls from 0 to 1 and the envelope there.

        Its mean at 11 recalls is the average precision by rule "voc07", at 101 recalls that by rule "coco".

        Raises:
            TypeError: `num_recalls` is not an int.
            ValueError: it is below 2.
        """
        _checks.positive_int("num_recalls", num_recalls, 2)
        counts = ~self.is_ignored
        recalls = evenly_spaced(num_recalls, self.score.device).clone()
        return recalls, envelope_at(self.recall[counts], self.precision[counts], recalls)

    def _display(self) -> Display:
        """Return a table with a line for each of the first detections, to follow the numbers by hand."""
        columns = (self.score, self.num_true_positives, self.num_false_positives, self.precision, self.recall)
        numbers = zip(*[column[:_NUM_LINES].tolist() for column in columns], strict=True)
        outcomes = zip(self.is_true_positive.tolist(), self.is_ignored.tolist(), self.image_ids, strict=True)
        rows = []
        for place, (values, outcome) in enumerate(zip(numbers, outcomes, strict=False)):
            score, num_right, num_wrong, precision, recall = values
            is_true_positive, is_ignored, image = outcome
            word = "TP" if is_true_positive else "FP"
            if is_ignored:
                word = "--"
            counts = (str(num_right), str(num_wrong))
            shares = (f"{precision:.4f}", f"{recall:.4f}")
            rows.append((str(place + 1), cut(str(image)), f"{score:.3f}", word, *counts, *shares))
        title = f"DetectionCurve: {counted(self.num_positives, 'ground truth')}, {counted(len(self), 'detection')}"
        headings = ("rank", "image", "score", "is", "TP", "FP", "precision", "recall")
        return Display(title, headings, rows, more_rows(len(self), "detection", _NUM_LINES), num_left=0)


@dataclass(frozen=True, repr=False)
class RankedDetections(Displayed, ImageRows):
    """All matched and unmatched detections, by class and descending score."""

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    num_positives: Int[Tensor, " classes"]
    """number of ground truths that count"""
    class_index: Int[Tensor, " detections"]
    row: Int[Tensor, " detections"]
    """row among the detections in the image"""
    image: Int[Tensor, " detections"]
    """its `image_id`, or the number of the image if there are no ids or ids are names"""
    score: Float[Tensor, " detections"]
    is_true_positive: Bool[Tensor, "thresholds detections"]
    is_ignored: Bool[Tensor, "thresholds detections"]
    """neither true nor false positives"""
    iou_thresholds: Sequence[float]
    """the IoU thresholds of the evaluation"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None without names"""

    def for_class(self, label: int, *, iou_threshold: float | None = None) -> DetectionCurve:
        """Return the detections of a class at an IoU threshold; None stands for the first threshold.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: a `label` without a class, or an `iou_threshold` that the evaluation does not have.
        """
        threshold = 0 if iou_threshold is None else nearest_threshold(self.iou_thresholds, iou_threshold)
        number = number_of_class(self.classes, label)
        places = (self.class_index == number).nonzero()[:, 0]
        return DetectionCurve(
            num_positives=int(self.num_positives[number]),
            row=self.row[places],
            image=self.image[places],
            score=self.score[places],
            is_true_positive=self.is_true_positive[threshold, places],
            is_ignored=self.is_ignored[threshold, places],
            image_names=self.image_names,
        )


def ranked_detections(results: DetectionResults) -> RankedDetections:
    """Return detections with their outcomes in the first area range; none is beyond the largest limit."""
    matches = results.matches
    is_true_positive, is_ignored = matches.outcomes()
    number = matches.images.long()
    return RankedDetections(
        classes=matches.classes,
        num_positives=matches.num_positives[0],
        class_index=matches.class_index.long(),
        row=matches.rows.long(),
        image=results.images.to(number.device)[number],
        score=matches.scores.double(),
        is_true_positive=is_true_positive,
        is_ignored=is_ignored,
        iou_thresholds=tuple(results.averages.grid.iou_thresholds),
        image_names=results.image_names,
    )


def curves_from_flags(
    is_true_positive: Bool[Tensor, "thresholds detections"],
    class_index: Int[Tensor, " detections"],
    num_positives: Int[Tensor, " classes"],
) -> Curves:
    """Return precision-recall curves [thresholds, classes], given detections by class and descending score."""
    num_classes = len(num_positives)
    shape = (len(is_true_positive), num_classes)
    classes = class_index.long()
    starts = torch.searchsorted(classes, torch.arange(num_classes + 1, device=classes.device))
    threshold, places = is_true_positive.nonzero(as_tuple=True)
    curve = threshold * num_classes + classes[places]
    num_true_positives = curve.bincount(minlength=math.prod(shape))
    return Curves(
        num_true_positives=num_true_positives.view(shape),
        num_positives=num_positives.expand(shape),
        num_detections=starts.diff().expand(shape),
        counts=places - starts[classes[places]] + 1,
        places=places,
    )


@dataclass(frozen=True)
class MatchedDetections(ImageRows):
    """Every detection with its ground truth at each threshold, sorted by image and place in the image.

    Detections beyond the largest limit per image and class were not matched and are left out.
    """

    image: Tensor
    """its `image_id`, or the number of the image if there are no ids or ids are names, int64 [detections]"""
    index: Tensor
    """place among the detections in the image, int64 [detections]"""
    label: Tensor
    """int64 [detections]"""
    score: Tensor
    """[detections]"""
    iou_thresholds: tuple[float, ...]
    ground_truth: Tensor
    """place of its match among the ground truths in the image; -1 for none, int64 [thresholds, detections]"""
    is_true_positive: Tensor
    """bool [thresholds, detections]"""
    is_ignored: Tensor
    """whether it counts neither as right nor as wrong, because it matches a crowd or a ground truth outside the first
    area range, or matches none and its box is outside that range; bool [thresholds, detections]"""
    boxes: Tensor | None = None
    """in the metric's `box_format`, [detections, 4], or corners of rotated boxes, [detections, 8]; None unless the
    results hold boxes"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None if they have no names"""


def list_matches(results: DetectionResults) -> MatchedDetections:
    """See `DetectionResults.detections`."""
    matches = results.matches
    # The columns hold matched detections only; all other detections have no ground truth.
    true_positive, ignored = matches.outcomes()
    ground_truths = matches.columns.new_full(true_positive.shape, -1)
    if matches.ground_truths is not None:
        ground_truths[:, matches.columns] = matches.ground_truths[0].to(ground_truths.dtype)

    # Sort by image, then by row; the last key comes first.
    by_row = matches.rows.argsort()
    order = by_row[matches.images[by_row].argsort(stable=True)]
    number = matches.images[order].long()
    index = matches.rows[order].long()
    boxes = None
    if results.boxes is not None:
        boxes = torch.empty((0, 4), device=number.device)
        parts = []
        for image in results.images.tolist():
            corners_or_sizes, *_ = results.boxes[image].detections.values()
            parts.append(corners_or_sizes.to(number.device))
        if parts:
            # The boxes of an image begin after those of all images before it.
            counts = torch.tensor([len(part) for part in parts], dtype=torch.int64, device=number.device)
            boxes = torch.cat(parts)[segments.starts(counts)[number] + index]
    return MatchedDetections(
        image=results.images.to(order.device)[number],  # users know images by `image_id`, matches by number
        index=index,
        label=results.labels[order],
        score=matches.scores[order],
        iou_thresholds=tuple(results.averages.grid.iou_thresholds),
        ground_truth=ground_truths[:, order],
        is_true_positive=true_positive[:, order],
        is_ignored=ignored[:, order],
        boxes=boxes,
        image_names=results.image_names,
    )


@dataclass(frozen=True, repr=False)
class ImageErrors(Displayed, ImageRows):
    """Numbers of true positives, false positives and misses in each image, at a confidence."""

    image: Int[Tensor, " images"]
    """number of the image, or its `image_id`"""
    num_true_positives: Int[Tensor, " images"]
    num_false_positives: Int[Tensor, " images"]
    num_misses: Int[Tensor, " images"]
    """number of ground truths that count, and have no match among the detections at or above the confidence"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None without names"""

    @property
    def num_errors(self) -> Int[Tensor, " images"]:
        """Number of false positives and misses: a box of a wrong class or place is one of each."""
        return self.num_false_positives + self.num_misses

    def _display(self) -> Display:
        worst = self.worst(NUM_ROWS)
        numbers = (worst.image_ids, worst.num_true_positives, worst.num_false_positives, worst.num_misses)
        rows = []
        for image, *counts in zip(*numbers, strict=True):
            rows.append((cut(str(image)), *(f"{int(count):,}" for count in counts)))
        num_images = int((self.num_errors > 0).sum())
        title = f"ImageErrors: {num_images:,} of {counted(len(self), 'image')} with errors, the worst first"
        columns = ["image", "true positives", "false positives", "misses"] if rows else []
        return Display(title, columns, rows, more_rows(num_images, "image"))

    def worst(self, n: int) -> ImageErrors:
        """Return the `n` images with the most errors; among equal numbers more misses come first, then earlier images.

        Images without errors are left out, so there may be fewer.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        order = self.num_misses.argsort(descending=True, stable=True)
        order = order[self.num_errors[order].argsort(descending=True, stable=True)]
        worst = order[self.num_errors[order] > 0][:n]
        return ImageErrors(
            image=self.image[worst],
            num_true_positives=self.num_true_positives[worst],
            num_false_positives=self.num_false_positives[worst],
            num_misses=self.num_misses[worst],
            image_names=self.image_names,
        )


def image_errors(
    matches: Matches,
    num_positives: Int[Tensor, " images"],
    confidence: Float[Tensor, " classes"],
    *,
    threshold: int = 0,
) -> ImageErrors:
    """Count true positives, false positives and misses in each image in the first area range, without ignored ones.

    Summed over images these are the counts of `at_confidence`, or of `best_f1`, which has a confidence per class.
    `best_confidence` returns these confidences, and one for classes without true positives.

    Args:
        matches: matches in images that are numbered from 0.
        num_positives: number of ground truths in each image that count.
        confidence: the least accepted score of each class; rounded to the dtype of the scores.
        threshold: index of the IoU threshold.
    """
    is_accepted = matches.scores >= confidence.to(matches.scores.dtype).index_select(0, matches.class_index)
    is_right, is_ignored = matches.outcomes(threshold)

    def count(flags: Tensor) -> Tensor:
        return matches.images[flags & is_accepted].long().bincount(minlength=len(num_positives))

    num_true_positives = count(is_right)
    return ImageErrors(
        image=torch.arange(len(num_positives), device=num_positives.device),
        num_true_positives=num_true_positives,
        num_false_positives=count(~(is_right | is_ignored)),
        num_misses=num_positives - num_true_positives,
    )


def _image_errors(results: DetectionResults, *, threshold: int, confidence: float | None) -> ImageErrors:
    """See `DetectionResults.image_errors`."""
    if confidence is None:
        least_scores = best_confidence(results.matches, threshold=threshold)
    else:
        least_scores = at_confidence(results.matches, confidence).confidence[threshold]
    counts = image_errors(results.matches, results.num_positives, least_scores, threshold=threshold)
    return replace(counts, image=results.images, image_names=results.image_names)


RESULT_METHODS["detections"] = list_matches
RESULT_METHODS["image_errors"] = _image_errors
RESULT_METHODS["ranked"] = ranked_detections
