"""Precision, recall and F1 of a detector that is used at a confidence: of each class, counted from its matches.

Detections with the same score are accepted together, so nothing here depends on the order of equal scores but by way
of matching. Matching itself does not depend on the confidence: a detection takes its ground truth from those with
lower scores, never from those with higher ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves.tally import check_occurs, tally_matches
from reid_torchmetrics.functional.detection.matching import Matches


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
