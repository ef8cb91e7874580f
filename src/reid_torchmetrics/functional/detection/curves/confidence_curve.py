"""Precision, recall and F1 over the confidence at which a detector is used: means over classes, at every score."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves.operating_points import best_f1
from reid_torchmetrics.functional.detection.curves.tally import Tally, check_occurs, tally_matches
from reid_torchmetrics.functional.detection.matching import Matches

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
