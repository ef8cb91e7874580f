"""Precision, recall and F1 at a confidence threshold: of each class, and means over classes at every score.

All follow from running counts of the matches. Detections with the same score are accepted together, so the order of
equal scores matters only in matching. Matching itself does not depend on the confidence: a detection with a higher
score is matched first, and never loses its ground truth to a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches

from .precision_recall import number_of_class, running_counts

_ROUNDING = 1e-12  # of a running sum of F1: closer values are equal


class Tally(NamedTuple):
    """Running counts in the first area range: true positives and detections that count, before each detection.

    Detections inside the range count, unless matched to ignored ground truths; true positives outside it count, too. So
    the number inside is corrected at the matched detections, and there alone.
    """

    matches: Matches
    inside: Int[Tensor, " places"]
    """number of detections inside the area range before each place, and before the end"""
    corrections: Int[Tensor, "thresholds columns"]
    """sum of corrections before each of the columns, and before the end"""
    true_positives: Int[Tensor, "thresholds columns"]
    """number before each of the columns, and before the end"""

    def starts_of(self, classes: Int[Tensor, " _"]) -> Int[Tensor, " _"]:
        """The place of each class's first detection."""
        return torch.searchsorted(self.matches.class_index, classes.to(self.matches.class_index.dtype))

    def ends_of_ties(self, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """The place behind the last detection with the same class and score as each of some detections."""
        scores, classes = self.matches.scores, self.matches.class_index
        is_last = (scores[1:] != scores[:-1]) | (classes[1:] != classes[:-1])
        ends = torch.cat([is_last, is_last.new_ones(1)]).nonzero()[:, 0] + 1
        return ends[torch.searchsorted(ends, places, right=True)]

    def up_to(
        self, classes: Int[Tensor, " ends"], ends: Int[Tensor, " ends"]
    ) -> tuple[Int[Tensor, "thresholds ends"], Int[Tensor, "thresholds ends"]]:
        """Number of true positives of each class, and of its detections that count, before some places."""
        starts = self.starts_of(classes)
        first, last = (torch.searchsorted(self.matches.columns, places) for places in (starts, ends))
        num_true_positives = self.true_positives[:, last] - self.true_positives[:, first]
        corrections = self.corrections[:, last] - self.corrections[:, first]
        return num_true_positives, self.inside[ends] - self.inside[starts] + corrections


def tally_matches(matches: Matches, thresholds: slice = slice(None)) -> Tally:
    """Count the matches in the first area range, under some thresholds."""
    inside = matches.area_bits & 1
    matched, true_positive = (each[0, thresholds].to(torch.int8) for each in (matches.matched, matches.true_positive))
    corrections = true_positive - matched * inside[matches.columns].to(torch.int8)
    return Tally(matches, *(running_counts(values).long() for values in (inside, corrections, true_positive)))


@dataclass(frozen=True)
class OperatingPoints:
    """Counts of the detections of each class at or above a confidence, for each IoU threshold."""

    confidence: Float[Tensor, "thresholds classes"]
    num_true_positives: Int[Tensor, "thresholds classes"]
    num_detections: Int[Tensor, "thresholds classes"]
    """true and false positives"""
    num_positives: Int[Tensor, " classes"]
    """ground truths that count"""

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
        matches: of all images; they count in the first area range, and `Matches.within` takes a smaller limit.
        confidence: the least score that is accepted.

    Raises:
        TypeError: `confidence` is not a number.
    """
    _checks.number("confidence", confidence)
    tally = tally_matches(matches)
    scores, class_index = tally.matches.scores, tally.matches.class_index
    is_accepted = scores >= torch.tensor(confidence, dtype=scores.dtype, device=scores.device)
    classes = torch.arange(len(matches.classes), device=scores.device)
    num_accepted = class_index[is_accepted].bincount(minlength=len(classes))
    num_right, num_detections = tally.up_to(classes, tally.starts_of(classes) + num_accepted)
    confidences = torch.full(num_right.shape, confidence, dtype=torch.float64, device=scores.device)
    return OperatingPoints(confidences, num_right, num_detections, matches.num_positives[0])


def best_f1(matches: Matches) -> OperatingPoints:
    """The confidence with the highest F1 for each class and IoU threshold, with the counts there.

    It is the score of a true positive, the highest of several with the same F1. Without a true positive every F1 is 0:
    the confidence is then infinity, and accepts nothing.

    Args:
        matches: of all images, see `at_confidence`.
    """
    tally = tally_matches(matches)
    columns, num_positives = tally.matches.columns, matches.num_positives[0]
    classes = tally.matches.class_index[columns].long()
    # F1 at the score of each matched detection, and the best of each class.
    num_right, num_detections = tally.up_to(classes, tally.ends_of_ties(columns))
    f1 = 2 * num_right.double() / (num_detections + num_positives[classes])
    best = f1.new_zeros((len(f1), len(num_positives)))
    best.scatter_reduce_(1, classes.expand_as(f1), f1, "amax")
    # The first of the matched detections with the best F1 of their class has the highest score.
    is_best = (f1 == best[:, classes]) & (f1 > 0)
    ordinal = torch.where(is_best, torch.arange(len(columns), device=columns.device), len(columns))
    first = torch.full_like(best, len(columns), dtype=torch.int64)
    first.scatter_reduce_(1, classes.expand_as(f1), ordinal, "amin")

    def at_first(values: Tensor, missing: float) -> Tensor:
        """Values [thresholds, columns] at the best column of each class."""
        return torch.cat([values, values.new_full((len(values), 1), missing)], 1).gather(1, first)

    scores = tally.matches.scores[columns].double().expand_as(f1)
    return OperatingPoints(
        at_first(scores, torch.inf), at_first(num_right, 0.0), at_first(num_detections, 0.0), num_positives
    )


def precision_recall_curve(matches: Matches, label: int, *, threshold: int = 0) -> PrecisionRecallCurve:
    """Precision and recall of one class at each distinct score, the highest first.

    Args:
        matches: of all images.
        label: the class.
        threshold: number of the IoU threshold.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `label` that is not among the classes, or a `threshold` that does not exist.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    number = torch.tensor(number_of_class(matches.classes, label), device=matches.classes.device)
    tally = tally_matches(matches, slice(threshold, threshold + 1))
    first, last = tally.starts_of(torch.stack([number, number + 1])).tolist()
    places = torch.arange(first, last, device=matches.classes.device)
    # One point for each distinct score, unless all detections with it are ignored.
    ends = tally.ends_of_ties(places).unique_consecutive()
    num_right, num_detections = (counts[0] for counts in tally.up_to(number.expand_as(ends), ends))
    counts_more = num_detections.diff(prepend=num_detections.new_zeros(1)) > 0
    ends, num_right, num_detections = ends[counts_more], num_right[counts_more].double(), num_detections[counts_more]
    recall = num_right / matches.num_positives[0, number]
    return PrecisionRecallCurve(num_right / num_detections, recall, tally.matches.scores[ends - 1].double())


class ConfidenceCurve(NamedTuple):
    """Macro averages at each distinct score of true and false positives, descending; constant from one to the next."""

    confidence: Float[Tensor, " scores"]
    precision: Float[Tensor, " scores"]
    """mean over the classes with an accepted detection"""
    recall: Float[Tensor, " scores"]
    f1: Float[Tensor, " scores"]
    """mean of the classes' F1, not the F1 of the means"""
    num_classes: int
    """classes in the mean"""

    def best(self) -> int | None:
        """Number of the score with the highest F1, of equal ones the highest score; None if every F1 is 0."""
        highest = self.f1.max() if len(self.f1) else 0.0
        return int((self.f1 >= highest - _ROUNDING).nonzero()[0, 0]) if highest > 0 else None


def confidence_curve(matches: Matches, label: int | None = None, *, threshold: int = 0) -> ConfidenceCurve:
    """Precision, recall and F1 of the detections at or above each confidence.

    Each is the mean of the classes' own numbers, see `OperatingPoints`. Classes without ground truths are left out,
    unless `label` names one: its recall is NaN then, its F1 0. Between two scores the values of the higher one hold.
    Above the highest score nothing is accepted: recall and F1 are 0, precision is undefined. Without detections there
    are no points.

    Means are running sums over classes, in float64: a curve of n detections costs one sort, for any number of classes.

    Args:
        matches: of all images.
        label: the class; None for the mean over all classes that have ground truths.
        threshold: number of the IoU threshold.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `label` that is not among the classes, or a `threshold` that does not exist.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    tally = tally_matches(matches, slice(threshold, threshold + 1))
    num_positives = matches.num_positives[0]
    is_included = num_positives > 0
    if label is not None:
        is_included = torch.zeros_like(is_included)
        is_included[number_of_class(matches.classes, label)] = True
    places = is_included[tally.matches.class_index].nonzero()[:, 0]
    counts, changes = _changes(tally, places, num_positives)
    by_score, order = tally.matches.scores[places][counts].sort(descending=True, stable=True)
    # All detections with the same score are accepted together: the last of them has the sums.
    is_last = torch.cat([by_score[1:] != by_score[:-1], by_score.new_ones(min(1, len(by_score)), dtype=torch.bool)])
    precision, num_defined, recall, f1 = (
        segments.running_sums(change[counts][order].double())[is_last] for change in changes
    )
    num = int(is_included.sum())
    return ConfidenceCurve(by_score[is_last].double(), precision / num_defined, recall / num, f1 / num, num)


def best_confidence(matches: Matches, *, threshold: int = 0) -> Float[Tensor, " classes"]:
    """The default confidence of each class: the one with the highest F1.

    A class without true positives has no such confidence. It gets the confidence with the highest mean F1 over classes,
    the best one for all classes together; if every F1 is 0, all detections count, from minus infinity on. `best_f1`
    accepts none of them, so its counts lack their false positives.

    Args:
        matches: of all images.
        threshold: number of the IoU threshold.

    Raises:
        TypeError: `threshold` is not an int.
        ValueError: a `threshold` that does not exist.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    confidence = best_f1(matches).confidence[threshold]
    if bool(confidence.isinf().any()):
        curve = confidence_curve(matches, threshold=threshold)
        best = curve.best()
        confidence[confidence.isinf()] = -torch.inf if best is None else float(curve.confidence[best])
    return confidence


def _changes(
    tally: Tally, places: Int[Tensor, " detections"], num_positives: Int[Tensor, " classes"]
) -> tuple[Bool[Tensor, " detections"], list[Shaped[Tensor, " detections"]]]:
    """Whether each detection counts, and its changes to its class's precision, whether that is defined, recall and F1.

    A change is the difference to the value of the detections with higher scores, 0 if that is undefined.
    """
    classes = tally.matches.class_index[places].long()
    size = num_positives[classes]
    right_before, num_before = (counts[0] for counts in tally.up_to(classes, places))
    right, num = (counts[0] for counts in tally.up_to(classes, places + 1))
    return num > num_before, [
        right / num.double() - (right_before / num_before.double()).nan_to_num(nan=0.0),
        num_before == 0,
        (right - right_before) / size.double(),
        2 * (right / (num + size).double() - (right_before / (num_before + size).double()).nan_to_num(nan=0.0)),
    ]
