"""Precision, recall and F1 of a detector that is used at a confidence: of each class, counted from its matches.

Detections with the same score are accepted together, so nothing here depends on the order of equal scores but by way
of matching. Matching itself does not depend on the confidence: a detection takes its ground truth from those with
lower scores, never from those with higher ones.

Precision, recall and F1 over the confidence at which a detector is used: means over classes, at every score.

Running counts of true positives and of detections that count, from which those of any first detections follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches


@dataclass(frozen=True)
class Tally:
    """Running counts of one area range, from which the counts of any first detections of a class follow.

    Detections that count are those inside the range, but for those that are matched to ignored ground truths, and true
    positives outside it: what is to be corrected stands at the matched detections.
    """

    matches: Matches
    inside: Int[Tensor, " places"]
    """detections inside the area range before each place, and before the one behind the last"""
    corrections: Int[Tensor, "thresholds columns"]
    """what is to be added to that, before each of the columns, and before the one behind the last"""
    true_positives: Int[Tensor, "thresholds columns"]
    """before the same"""

    def under(self, threshold: int) -> Tally:
        """Of one threshold of overlap alone."""
        rows = slice(threshold, threshold + 1)
        return replace(self, corrections=self.corrections[rows], true_positives=self.true_positives[rows])

    def starts_of(self, classes: Int[Tensor, " _"]) -> Int[Tensor, " _"]:
        """The place of the first detection of some classes."""
        return torch.searchsorted(self.matches.class_index, classes.to(self.matches.class_index.dtype))

    def ends_of_ties(self, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """The place behind the last detection with the class and score of each of some detections."""
        scores, classes = self.matches.scores, self.matches.class_index
        is_last = (scores[1:] != scores[:-1]) | (classes[1:] != classes[:-1])
        ends = torch.cat([is_last, is_last.new_ones(1)]).nonzero()[:, 0] + 1
        return ends[torch.searchsorted(ends, places, right=True)]

    def up_to(
        self, classes: Int[Tensor, " ends"], ends: Int[Tensor, " ends"]
    ) -> tuple[Int[Tensor, "thresholds ends"], Int[Tensor, "thresholds ends"]]:
        """True positives of each class, and detections of it that count, before some places."""
        starts = self.starts_of(classes)
        first, last = (torch.searchsorted(self.matches.columns, places) for places in (starts, ends))
        found = self.true_positives[:, last] - self.true_positives[:, first]
        corrected = self.corrections[:, last] - self.corrections[:, first]
        return found, self.inside[ends] - self.inside[starts] + corrected


def tally_matches(matches: Matches, area: int, limit: int | None) -> Tally:
    """Count the matches of an area range under a limit of detections, the largest if it is None.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an `area` that is not the number of an area range, or a negative `limit`.
    """
    _checks.index("area", area, len(matches.matched), "area ranges")
    if limit is not None:
        _checks.positive_int("limit", limit, least=0, fits_int64=False)
        matches = matches.within(limit)
    inside = ((matches.area_bits >> area) & 1).to(torch.int8)
    matched, true_positive = matches.matched[area].to(torch.int8), matches.true_positive[area].to(torch.int8)
    corrections = true_positive - matched * inside[matches.columns]
    return Tally(matches, _before(inside[None])[0], _before(corrections), _before(true_positive))


def check_occurs(matches: Matches, label: int) -> None:
    """Raise unless `label` is that of a class of the matches."""
    _checks.integer("label", label)
    if not bool((matches.classes == label).any()):
        raise ValueError(f"`label` must be the label of a class that occurs; got {label}.")


def _before(values: Int[Tensor, "rows places"]) -> Int[Tensor, "rows places+1"]:
    """Sums of each row before each place."""
    zero = torch.zeros((len(values), 1), dtype=torch.int64, device=values.device)
    return torch.cat([zero, values.cumsum(1)], 1)


@dataclass(frozen=True)
class OperatingPoints:
    """Counts of the detections of each class that score at least a confidence, at each threshold of overlap."""

    confidence: Float[Tensor, "thresholds classes"]
    num_true_positives: Int[Tensor, "thresholds classes"]
    num_detections: Int[Tensor, "thresholds classes"]
    """true and false positives"""
    num_positives: Int[Tensor, " classes"]
    """ground truths that count"""

    @property
    def precision(self) -> Float[Tensor, "thresholds classes"]:
        """Share of the detections that are right; NaN without detections."""
        return self.num_true_positives.double() / self.num_detections

    @property
    def recall(self) -> Float[Tensor, "thresholds classes"]:
        """Share of the ground truths that are found; NaN without ground truths."""
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


def at_confidence(matches: Matches, confidence: float, *, area: int = 0, limit: int | None = None) -> OperatingPoints:
    """Count the detections that score at least a confidence; ignored ones do not count.

    The confidence is rounded to the dtype of the scores, so that a float32 score of 0.7 reaches 0.7. The YOLO family
    interpolates between detections instead, see `yolo_average_precision`.

    Args:
        matches: of all images.
        confidence: the least score that is accepted.
        area: number of the area range.
        limit: number of the limit of detections per image and class; None for the largest.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an `area` that is not the number of an area range, or a negative `limit`.
    """
    _checks.number("confidence", confidence)
    tally = tally_matches(matches, area, limit)
    scores, class_index = tally.matches.scores, tally.matches.class_index
    is_accepted = scores >= torch.tensor(confidence, dtype=scores.dtype, device=scores.device)
    classes = torch.arange(len(matches.classes), device=scores.device)
    num_accepted = class_index[is_accepted].bincount(minlength=len(classes))
    found, num_detections = tally.up_to(classes, tally.starts_of(classes) + num_accepted)
    return OperatingPoints(
        torch.full(found.shape, confidence, dtype=torch.float64, device=scores.device),
        found,
        num_detections,
        matches.num_positives[area],
    )


def best_f1(matches: Matches, *, area: int = 0, limit: int | None = None) -> OperatingPoints:
    """The confidence with the highest F1 for each class and threshold of overlap, and what is counted there.

    It is the score of a true positive; of several with the same F1 it is the highest. Without a true positive every F1
    is 0: the confidence is then infinity, which accepts nothing.

    Args:
        matches: of all images.
        area: number of the area range.
        limit: number of the limit of detections per image and class; None for the largest.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an `area` that is not the number of an area range, or a negative `limit`.
    """
    tally = tally_matches(matches, area, limit)
    columns, num_positives = tally.matches.columns, matches.num_positives[area]
    classes = tally.matches.class_index[columns].long()
    found, num_detections = tally.up_to(classes, tally.ends_of_ties(columns))
    f1 = 2 * found.double() / (num_detections + num_positives[classes])
    best = f1.new_zeros((len(f1), len(num_positives)))
    best.scatter_reduce_(1, classes.expand_as(f1), f1, "amax")
    # Of the true positives with the best F1 of their class the first, which has the highest score.
    is_best = (f1 == best[:, classes]) & (f1 > 0)
    ordinal = torch.where(is_best, torch.arange(len(columns), device=columns.device), len(columns))
    first = torch.full_like(best, len(columns), dtype=torch.int64)
    first.scatter_reduce_(1, classes.expand_as(f1), ordinal, "amin")

    def at_first(values: Tensor, missing: float) -> Tensor:
        """Values [thresholds, columns] at the best column of each class."""
        return torch.cat([values, values.new_full((len(values), 1), missing)], 1).gather(1, first)

    scores = tally.matches.scores[columns].double().expand_as(f1)
    return OperatingPoints(
        at_first(scores, torch.inf), at_first(found, 0.0), at_first(num_detections, 0.0), num_positives
    )


def precision_recall_curve(
    matches: Matches, label: int, *, threshold: int = 0, area: int = 0, limit: int | None = None
) -> PrecisionRecallCurve:
    """Precision and recall of one class at each confidence that tells its detections apart, the highest first.

    Args:
        matches: of all images.
        label: the class.
        threshold: number of the threshold of overlap.
        area: number of the area range.
        limit: number of the limit of detections per image and class; None for the largest.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `label` that is not among the classes, a `threshold` or an `area` that does not exist, or a
            negative `limit`.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    check_occurs(matches, label)
    tally = tally_matches(matches, area, limit).under(threshold)
    number = torch.searchsorted(matches.classes, label)
    first, last = tally.starts_of(torch.stack([number, number + 1])).tolist()
    places = torch.arange(first, last, device=matches.classes.device)
    # One point for each distinct score; without those at which all detections are ignored.
    ends = tally.ends_of_ties(places).unique_consecutive()
    found, num_detections = (counts[0] for counts in tally.up_to(number.expand_as(ends), ends))
    counts_more = num_detections.diff(prepend=num_detections.new_zeros(1)) > 0
    ends, found, num_detections = ends[counts_more], found[counts_more], num_detections[counts_more]
    return PrecisionRecallCurve(
        found.double() / num_detections,
        found.double() / matches.num_positives[area, number],
        tally.matches.scores[ends - 1].double(),
    )


_ROUNDING = 1e-12  # of a running sum of F1: values that are this close are the same


class ConfidenceCurve(NamedTuple):
    """Macro averages at each distinct score of true and false positives, descending; constant from one to the next."""

    confidence: Float[Tensor, " scores"]
    precision: Float[Tensor, " scores"]
    """mean over the classes of which a detection is accepted"""
    recall: Float[Tensor, " scores"]
    f1: Float[Tensor, " scores"]
    """mean of the F1 of each class, which is not the F1 of the means"""
    num_classes: int
    """classes in the mean"""

    def best(self) -> int | None:
        """Number of the score with the highest F1, of equal ones the highest score; None if every F1 is 0."""
        highest = self.f1.max() if len(self.f1) else 0.0
        return int((self.f1 >= highest - _ROUNDING).nonzero()[0, 0]) if highest > 0 else None


def confidence_curve(
    matches: Matches, label: int | None = None, *, threshold: int = 0, area: int = 0, limit: int | None = None
) -> ConfidenceCurve:
    """Precision, recall and F1 with the detections that score at least a confidence, for every confidence at once.

    Each is the mean of the classes' own numbers, see `OperatingPoints`. Classes without ground truths are left out,
    unless one is asked for by its label: its recall is NaN then, its F1 0. At a confidence between two scores that of
    the higher one holds. Above the highest score nothing is accepted: recall and F1 are 0, precision is not defined.
    Without detections there are no points.

    The sums over classes are running ones, in float64: a curve of n detections costs one sort of them, for any number
    of classes.

    Args:
        matches: of all images.
        label: the class; None for the mean over all classes that have ground truths.
        threshold: number of the threshold of overlap.
        area: number of the area range.
        limit: number of the limit of detections per image and class; None for the largest.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `label` that is not among the classes, a `threshold` or an `area` that does not exist, or a
            negative `limit`.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    tally = tally_matches(matches, area, limit).under(threshold)
    num_positives = matches.num_positives[area]
    is_chosen = num_positives > 0 if label is None else _is_of(matches, label)
    places = is_chosen[tally.matches.class_index].nonzero()[:, 0]
    steps = _steps(tally, places, num_positives)
    by_score, order = tally.matches.scores[places][steps.counts].sort(descending=True, stable=True)
    # All detections with the same score are accepted together: the last of them has the sums.
    is_last = torch.cat([by_score[1:] != by_score[:-1], by_score.new_ones(min(1, len(by_score)), dtype=torch.bool)])

    def sums(changes: Tensor) -> Tensor:
        return segments.running_sums(changes[steps.counts][order].double())[is_last]

    num_classes = int(is_chosen.sum())
    return ConfidenceCurve(
        by_score[is_last].double(),
        sums(steps.precision) / sums(steps.is_first),
        sums(steps.recall) / num_classes,
        sums(steps.f1) / num_classes,
        num_classes,
    )


def best_confidence(matches: Matches, *, threshold: int = 0) -> Float[Tensor, " classes"]:
    """The confidence from which detections of each class count where none is given: that with the highest F1.

    A class in which nothing is right has no such confidence. Its detections count from the confidence with the highest
    mean F1 over classes, at which a detector is used with one confidence for all; where every F1 is 0 all of them
    count, from minus infinity on. `best_f1` accepts none of them, so its counts lack their false positives.

    Args:
        matches: of all images.
        threshold: number of the threshold of overlap.

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


class _Steps(NamedTuple):
    """By how much each detection changes what its class has with it and those that score more."""

    counts: Bool[Tensor, " detections"]
    """whether it is a true or a false positive; what is ignored changes nothing"""
    is_first: Bool[Tensor, " detections"]
    """whether the class has no precision without it"""
    precision: Float[Tensor, " detections"]
    recall: Float[Tensor, " detections"]
    f1: Float[Tensor, " detections"]


def _steps(tally: Tally, places: Int[Tensor, " detections"], num_positives: Int[Tensor, " classes"]) -> _Steps:
    classes = tally.matches.class_index[places].long()
    size = num_positives[classes]
    found_before, seen_before = (counts[0] for counts in tally.up_to(classes, places))
    found, seen = (counts[0] for counts in tally.up_to(classes, places + 1))
    return _Steps(
        seen > seen_before,
        seen_before == 0,
        found / seen.double() - _or_zero(found_before / seen_before.double()),
        (found - found_before) / size.double(),
        2 * (found / (seen + size).double() - _or_zero(found_before / (seen_before + size).double())),
    )


def _or_zero(values: Float[Tensor, " detections"]) -> Float[Tensor, " detections"]:
    """0 for what is not defined, as the first change is the whole value."""
    return values.nan_to_num(nan=0.0)


def _is_of(matches: Matches, label: int) -> Bool[Tensor, " classes"]:
    check_occurs(matches, label)
    return matches.classes == label
