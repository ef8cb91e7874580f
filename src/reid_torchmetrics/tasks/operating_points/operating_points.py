"""Precision, recall and F1 at a confidence threshold: for each class, and means over classes at every score.

All numbers follow from running counts of the matches. Detections with the same score are accepted together, so the
order of equal scores matters only in matching. Matching itself does not depend on the confidence: a detection with a
higher score is matched first, and never loses its ground truth to one with a lower score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves import running_counts
from reid_torchmetrics.functional.detection.evaluation import (
    CLASS_COLUMNS,
    MORE_VALUES,
    RESULT_METHODS,
    DetectionResults,
    ImageMatches,
    NamedValue,
)
from reid_torchmetrics.functional.detection.evaluators import AT_THRESHOLDS
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.displays import Displayed, displayed

_ROUNDING = 1e-12  # of a running sum of F1: values that are closer are equal


class Tally(NamedTuple):
    """Running counts in the first area range: true positives and detections that count, before each detection.

    Detections inside the range count, unless matched to ignored ground truths; true positives outside it count, too. So
    the number of detections inside is corrected at the matched detections only.
    """

    matches: Matches
    inside: Int[Tensor, " places"]
    """number of detections inside the area range before each place, and before the end"""
    corrections: Int[Tensor, "thresholds columns"]
    """sum of corrections before each column, and before the end"""
    true_positives: Int[Tensor, "thresholds columns"]
    """number of true positives before each column, and before the end"""

    def starts_of(self, classes: Int[Tensor, " _"]) -> Int[Tensor, " _"]:
        """Return the place of each class's first detection."""
        return torch.searchsorted(self.matches.class_index, classes.to(self.matches.class_index.dtype))

    def ends_of_ties(self, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """Return the place after the last detection with the same class and score as the detection at each place."""
        scores = self.matches.scores
        classes = self.matches.class_index
        is_last = (scores[1:] != scores[:-1]) | (classes[1:] != classes[:-1])
        ends = torch.cat([is_last, is_last.new_ones(1)]).nonzero()[:, 0] + 1
        return ends[torch.searchsorted(ends, places, right=True)]

    def up_to(
        self, classes: Int[Tensor, " ends"], ends: Int[Tensor, " ends"]
    ) -> tuple[Int[Tensor, "thresholds ends"], Int[Tensor, "thresholds ends"]]:
        """Return the numbers of true positives and of detections that count in each class before some places."""
        starts = self.starts_of(classes)
        first = torch.searchsorted(self.matches.columns, starts)
        last = torch.searchsorted(self.matches.columns, ends)
        num_true_positives = self.true_positives[:, last] - self.true_positives[:, first]
        corrections = self.corrections[:, last] - self.corrections[:, first]
        return num_true_positives, self.inside[ends] - self.inside[starts] + corrections


def tally_matches(matches: Matches, thresholds: slice = slice(None)) -> Tally:
    """Count the matches in the first area range, under some thresholds."""
    inside = matches.area_bits & 1
    matched = matches.matched[0, thresholds].to(torch.int8)
    true_positive = matches.true_positive[0, thresholds].to(torch.int8)
    corrections = true_positive - matched * inside[matches.columns].to(torch.int8)
    return Tally(
        matches=matches,
        inside=running_counts(inside).long(),
        corrections=running_counts(corrections).long(),
        true_positives=running_counts(true_positive).long(),
    )


@dataclass(frozen=True, repr=False)
class OperatingPoints(Displayed):
    """Counts of the detections of each class at or above a confidence, for each IoU threshold."""

    confidence: Float[Tensor, "thresholds classes"]
    num_true_positives: Int[Tensor, "thresholds classes"]
    num_detections: Int[Tensor, "thresholds classes"]
    """number of true and false positives"""
    num_positives: Int[Tensor, " classes"]
    """number of ground truths that count"""

    @property
    def precision(self) -> Float[Tensor, "thresholds classes"]:
        """True positives as a share of detections; NaN without detections."""
        return self.num_true_positives.double() / self.num_detections

    @property
    def recall(self) -> Float[Tensor, "thresholds classes"]:
        """True positives as a share of ground truths; NaN without ground truths."""
        return self.num_true_positives.double() / self.num_positives

    @property
    def f1(self) -> Float[Tensor, "thresholds classes"]:
        """2 tp / (detections + ground truths), the harmonic mean of both; NaN without detections and ground truths."""
        return 2 * self.num_true_positives.double() / (self.num_detections + self.num_positives)


@displayed
class PrecisionRecallCurve(NamedTuple):
    """Precision and recall of one class at each distinct score of its true and false positives, descending."""

    precision: Float[Tensor, " scores"]
    recall: Float[Tensor, " scores"]
    """NaN without ground truths"""
    scores: Float[Tensor, " scores"]


def at_confidence(matches: Matches, confidence: float) -> OperatingPoints:
    """Count the detections at or above a confidence; ignored ones do not count.

    The confidence is rounded to the dtype of the scores, so that a float32 score of 0.7 reaches 0.7. The YOLO family
    interpolates between detections instead, see `yolo_average_precision`.

    Args:
        matches: matches in all images, counted in the first area range; `Matches.within` applies a smaller limit.
        confidence: the least score that is accepted.

    Raises:
        TypeError: `confidence` is not a number.
    """
    _checks.number("confidence", confidence)
    tally = tally_matches(matches)
    scores = matches.scores
    is_accepted = scores >= torch.tensor(confidence, dtype=scores.dtype, device=scores.device)
    classes = torch.arange(len(matches.classes), device=scores.device)
    num_accepted = matches.class_index[is_accepted].bincount(minlength=len(classes))
    num_true_positives, num_detections = tally.up_to(classes, tally.starts_of(classes) + num_accepted)
    return OperatingPoints(
        confidence=torch.full(num_true_positives.shape, confidence, dtype=torch.float64, device=scores.device),
        num_true_positives=num_true_positives,
        num_detections=num_detections,
        num_positives=matches.num_positives[0],
    )


def best_f1(matches: Matches) -> OperatingPoints:
    """Find the confidence with the highest F1 for each class and IoU threshold, with the counts there.

    It is the score of a true positive, the highest of several with the same F1. Without a true positive every F1 is 0:
    the confidence is then infinity, and no detection is accepted.

    Args:
        matches: matches in all images, see `at_confidence`.
    """
    tally = tally_matches(matches)
    columns = matches.columns
    num_columns = len(columns)
    num_positives = matches.num_positives[0]
    classes = matches.class_index[columns].long()

    # F1 at the score of each matched detection, and the best F1 of each class.
    num_true_positives, num_detections = tally.up_to(classes, tally.ends_of_ties(columns))
    f1 = 2 * num_true_positives.double() / (num_detections + num_positives[classes])
    best = f1.new_zeros((len(f1), len(num_positives)))
    best.scatter_reduce_(1, classes.expand_as(f1), f1, "amax")

    # The first matched detection with the best F1 of its class has the highest score.
    is_best = (f1 == best[:, classes]) & (f1 > 0)
    best_columns = torch.where(is_best, torch.arange(num_columns, device=columns.device), num_columns)
    first = torch.full_like(best, num_columns, dtype=torch.int64)
    first.scatter_reduce_(1, classes.expand_as(f1), best_columns, "amin")

    def at_first(values: Tensor, missing: float) -> Tensor:
        """Return the values [thresholds, columns] at the best column of each class."""
        return torch.cat([values, values.new_full((len(values), 1), missing)], 1).gather(1, first)

    scores = matches.scores[columns].double().expand_as(f1)
    return OperatingPoints(
        confidence=at_first(scores, torch.inf),
        num_true_positives=at_first(num_true_positives, 0.0),
        num_detections=at_first(num_detections, 0.0),
        num_positives=num_positives,
    )


def precision_recall_curve(matches: Matches, label: int, *, threshold: int = 0) -> PrecisionRecallCurve:
    """Compute precision and recall of one class at each distinct score, the highest first.

    Args:
        matches: matches in all images.
        label: the class.
        threshold: index of the IoU threshold.

    Raises:
        TypeError: `label` is not an int.
        ValueError: it is not among the classes.
    """
    number = torch.tensor(number_of_class(matches.classes, label), device=matches.classes.device)
    tally = tally_matches(matches, slice(threshold, threshold + 1))
    first, end = tally.starts_of(torch.stack([number, number + 1])).tolist()
    places = torch.arange(first, end, device=matches.classes.device)
    ends = tally.ends_of_ties(places).unique_consecutive()
    num_true_positives, num_detections = tally.up_to(number.expand_as(ends), ends)

    # One point for each distinct score, unless all detections with this score are ignored.
    is_point = num_detections[0].diff(prepend=num_detections.new_zeros(1)) > 0
    ends = ends[is_point]
    num_right = num_true_positives[0, is_point].double()
    return PrecisionRecallCurve(
        precision=num_right / num_detections[0, is_point],
        recall=num_right / matches.num_positives[0, number],
        scores=matches.scores[ends - 1].double(),
    )


@displayed
class ConfidenceCurve(NamedTuple):
    """Macro averages at each distinct score of true and false positives, descending; constant between two scores."""

    confidence: Float[Tensor, " scores"]
    precision: Float[Tensor, " scores"]
    """mean over the classes with an accepted detection"""
    recall: Float[Tensor, " scores"]
    f1: Float[Tensor, " scores"]
    """mean of the classes' F1, not the F1 of the means"""
    num_classes: int
    """number of classes in the mean"""

    def best(self) -> int | None:
        """Return the index of the score with the highest F1, of equal ones the highest score; None if every F1 is 0."""
        highest = self.f1.max() if len(self.f1) else 0.0
        if highest <= 0:
            return None
        return int((self.f1 >= highest - _ROUNDING).nonzero()[0, 0])


def confidence_curve(matches: Matches, label: int | None = None, *, threshold: int = 0) -> ConfidenceCurve:
    """Compute precision, recall and F1 of the detections at or above each confidence.

    Each number is the mean of the numbers of the classes, see `OperatingPoints`. Classes without ground truths are left
    out, unless `label` names one: its recall is NaN, its F1 0. Between two scores the values of the higher score hold.
    Above the highest score nothing is accepted: recall and F1 are 0, precision is undefined. Without detections there
    are no points.

    Means are running sums over classes, in float64: a curve of n detections costs one sort, for any number of classes.

    Args:
        matches: matches in all images.
        label: the class; None for the mean over all classes that have ground truths.
        threshold: index of the IoU threshold.

    Raises:
        TypeError: `label` is not an int.
        ValueError: it is not among the classes.
    """
    tally = tally_matches(matches, slice(threshold, threshold + 1))
    num_positives = matches.num_positives[0]
    is_included = num_positives > 0
    if label is not None:
        is_included = torch.zeros_like(is_included)
        is_included[number_of_class(matches.classes, label)] = True
    places = is_included[matches.class_index].nonzero()[:, 0]
    counts, changes = _changes(tally, places, num_positives)
    scores, order = matches.scores[places][counts].sort(descending=True, stable=True)

    # All detections with the same score are accepted together: the last of them has the sums.
    is_last = torch.cat([scores[1:] != scores[:-1], scores.new_ones(min(1, len(scores)), dtype=torch.bool)])

    def sum_at_scores(change: Tensor) -> Tensor:
        return segments.running_sums(change[counts][order].double())[is_last]

    precision, num_defined, recall, f1 = map(sum_at_scores, changes)
    num_classes = int(is_included.sum())
    return ConfidenceCurve(
        confidence=scores[is_last].double(),
        precision=precision / num_defined,
        recall=recall / num_classes,
        f1=f1 / num_classes,
        num_classes=num_classes,
    )


def best_confidence(matches: Matches, *, threshold: int = 0) -> Float[Tensor, " classes"]:
    """Return the default confidence of each class: the one with the highest F1.

    A class without true positives has no such confidence. It gets the confidence with the highest mean F1 over classes,
    the best one for all classes together; if every F1 is 0, all detections count, from minus infinity on. `best_f1`
    accepts none of them, so its counts lack their false positives.

    Args:
        matches: matches in all images.
        threshold: index of the IoU threshold.
    """
    confidence = best_f1(matches).confidence[threshold]
    if bool(confidence.isinf().any()):
        best = _best_mean_confidence(matches, threshold)
        confidence[confidence.isinf()] = -torch.inf if best is None else best
    return confidence


def _changes(
    tally: Tally, places: Int[Tensor, " detections"], num_positives: Int[Tensor, " classes"]
) -> tuple[Bool[Tensor, " detections"], list[Shaped[Tensor, " detections"]]]:
    """Return whether each detection counts, and the changes that it makes to four numbers of its class.

    The numbers are precision, whether that is defined, recall and F1. A change is the difference to the value before
    the detection; an undefined value counts as 0.
    """
    classes = tally.matches.class_index[places].long()
    num_positives = num_positives[classes]
    # The tally has one threshold.
    right_before, num_before = (counts[0] for counts in tally.up_to(classes, places))
    right, num = (counts[0] for counts in tally.up_to(classes, places + 1))
    precision_before = (right_before / num_before.double()).nan_to_num(nan=0.0)
    half_f1_before = (right_before / (num_before + num_positives).double()).nan_to_num(nan=0.0)
    return num > num_before, [
        right / num.double() - precision_before,
        num_before == 0,
        (right - right_before) / num_positives.double(),
        2 * (right / (num + num_positives).double() - half_f1_before),
    ]


def number_of_class(classes: Int[Tensor, " classes"], label: int) -> int:
    """Return the place of a label among the classes.

    Raises:
        TypeError: the label is not an int.
        ValueError: the label is not among the classes.
    """
    _checks.integer("label", label)
    places = (classes == label).nonzero()[:, 0].tolist()
    if not places:
        raise ValueError(f"`label` must be the label of a class that occurs; got {label}.")
    return int(places[0])


def _best_confidences(results: DetectionResults, *, threshold: int) -> dict[int, float]:
    """See `DetectionResults.best_confidences`."""
    # Labels belong to detections, so look up the confidence of the class of each detection.
    confidences = best_confidence(results.matches, threshold=threshold)[results.matches.class_index.long()]
    return dict(zip(results.labels.tolist(), confidences.tolist(), strict=True))


def _columns_of_f1(matches: Matches, threshold: int) -> dict[str, Tensor]:
    """Return the highest F1 of each class, and its confidence."""
    best = best_f1(matches)
    return {"f1": best.f1[threshold], "confidence": best.confidence[threshold]}


def _best_mean_confidence(matches: Matches, threshold_index: int) -> float | None:
    """Return the confidence with the highest mean F1; None without true positives."""
    curve = confidence_curve(matches, threshold=threshold_index)
    best = curve.best()
    return None if best is None else float(curve.confidence[best])


def _value_at_point(
    kind: str, iou_threshold: float, images: ImageMatches, label: int | None, confidence: float | None
) -> Tensor:
    """Compute a field of `OperatingPoints` at an IoU threshold, as a `NamedValue`."""
    matches = images.matches
    thresholds = list(images.request.grid.iou_thresholds)
    undefined = torch.tensor(-1.0, dtype=torch.float64, device=matches.num_positives.device)

    # The mean is over classes with ground truths, or the class with the label.
    is_averaged = matches.num_positives[0] > 0
    if label is not None:
        is_averaged = is_averaged & (matches.classes == label)
    if iou_threshold not in thresholds or not bool(is_averaged.any()):
        return undefined

    index = thresholds.index(iou_threshold)
    if confidence is None:
        confidence = images.once(_best_mean_confidence, index)
    if confidence is None:  # there is no true positive
        return undefined if kind == "confidence" else undefined.new_zeros(())
    points = images.once(at_confidence, confidence)
    values: Tensor = getattr(points, kind)[index, is_averaged]
    return values.nanmean().nan_to_num(0.0)


RESULT_METHODS.update(
    at_confidence=at_confidence,
    best_f1=best_f1,
    best_confidences=_best_confidences,
    confidence_curve=confidence_curve,
    precision_recall_curve=precision_recall_curve,
)
CLASS_COLUMNS["f1"] = _columns_of_f1
for _map_name, _iou_threshold in AT_THRESHOLDS.items():
    for _kind in ("precision", "recall", "f1", "confidence"):  # fields of `OperatingPoints`, such as `f1_50`
        _compute = partial(_value_at_point, _kind, _iou_threshold)
        MORE_VALUES[_map_name.replace("map", _kind)] = NamedValue(_compute, takes_confidence=True)
