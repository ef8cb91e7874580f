"""The cost of each kind of error in average precision, found by repairing the errors of this kind.

Source: Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object Detection Errors", ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import ErrorRule
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves import AP_RULES, average_precision, recalls_on
from reid_torchmetrics.functional.detection.evaluation import RESULT_METHODS, DetectionResults
from reid_torchmetrics.functional.detection.evaluators import Evaluator
from reid_torchmetrics.functional.detection.inputs import order_by_class_and_score, place_of_labels
from reid_torchmetrics.functional.detection.matching import OverlappingPairs, best_pairs, select
from reid_torchmetrics.functional.displays import Display, Displayed
from reid_torchmetrics.tasks.operating_points import curves_from_flags

from .confusion import CONFUSION_RULES, LARGEST_THRESHOLD, check_threshold, flag_of_match, match_candidates, objects_of
from .object_pairs import ObjectPairs

ERROR_KINDS: dict[str, str] = {
    "classification": "it overlaps a ground truth of another class enough",
    "localization": "it overlaps a ground truth of its class, but not enough",
    "both": "it overlaps a ground truth of another class, but not enough",
    "duplicate": "it overlaps a ground truth of its class enough, which a better one took",
    "background": "it overlaps nothing",
    "miss": "an unmatched ground truth that no detection would match with another class or place",
}
"""kinds of errors with their meanings: the first five are false positives, the last is a ground truth"""
_NONE, _CLASSIFICATION, _LOCALIZATION, _BOTH, _DUPLICATE, _BACKGROUND = range(-1, 5)
_TIDECV_RECALLS = tuple(hundredth / 100 for hundredth in range(101))  # not all are COCO's
_TIDECV_LIMIT = 100  # largest number of detections in an image, over all classes


@dataclass(frozen=True, repr=False)
class ErrorBreakdown(Displayed):
    """Errors of each kind, and the gain in average precision without them."""

    average_precision: float
    """mean over the classes with ground truths, by rule "tidecv" with ground truths or detections; NaN, like all gains,
    if there are none"""
    gains: Mapping[str, float]
    """gain in average precision for each of `ERROR_KINDS` if these errors alone are repaired"""
    false_positive_gain: float
    """gain if all false positives are dropped"""
    false_negative_gain: float
    """gain if all ground truths without a match are dropped"""
    counts: Mapping[str, int]
    """number of errors of each kind; false positives include the classes without ground truths"""
    kind: Int[Tensor, " detections"]
    """the kind of each detection in the `ObjectPairs`, as its place in `ERROR_KINDS`; -1 for no error. By rule "tidecv"
    detections in crowds have a kind, too"""
    is_missed: Bool[Tensor, " ground_truths"]

    def _display(self) -> Display:
        rows = [(kind, f"{self.counts[kind]:,}", f"{gain:.4f}") for kind, gain in self.gains.items()]
        rows.append(("all false positives", "", f"{self.false_positive_gain:.4f}"))
        rows.append(("all misses", "", f"{self.false_negative_gain:.4f}"))
        title = f"ErrorBreakdown: average precision {self.average_precision:.4f}"
        return Display(title, ("kind", "errors", "gain without them"), rows)


@torch.no_grad()
def error_breakdown(
    objects: ObjectPairs, *, iou_threshold: float = 0.5, background_threshold: float = 0.1, rule: ErrorRule = "coco"
) -> ErrorBreakdown:
    """Classify false positives and misses by their cause, and repair each kind alone.

    A false positive has the first of these kinds that applies, in the order of tidecv: localization (its largest
    overlap with a ground truth of its class lies between the thresholds, both inclusive), classification (its largest
    overlap with another class is at least `iou_threshold`), duplicate, background (no overlap is above
    `background_threshold`), both. Repairs are the paper's. An error of classification or localization becomes a true
    positive in the class of the ground truth that it overlaps most, if that is free, and is dropped otherwise; among
    several errors with one ground truth the highest score gets it and the others are dropped. Other false positives are
    dropped. Misses are ground truths without a match that no error of classification or localization overlaps most, and
    are dropped.

    Matching is COCO's, so ignored detections and ground truths are no errors, and the mean is over the classes that
    have ground truths; a class that loses all of them by a repair keeps an average precision of 0.

    By rule "tidecv" the numbers are those of tidecv 1.0.1. The best 100 detections in an image count, over all classes.
    The first of equal overlaps is taken. Detections in a crowd of their class, by more than `iou_threshold`, have a
    kind and may be repaired, but are not in the average precision before. The mean is over the classes that have ground
    truths or detections, and a class that loses both by a repair leaves it; the mean of no classes is 0. Errors of
    classification and localization compete for a ground truth even if only one kind is repaired. After a repair wrong
    detections come before right ones of the same score. Gains of `ERROR_KINDS` are not below 0. Precision is read at
    the recalls k / 100. One thing differs: tidecv has no area range. Here detections outside it are left out unless
    they are right.

    Args:
        objects: detections and ground truths in all images.
        iou_threshold: the least overlap of a match.
        background_threshold: the largest overlap of a detection on background.
        rule: the rule of average precision, see `average_precision`; or "tidecv", see above.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `rule`, thresholds outside [0, 1], below the overlap of the pairs, or in the wrong order.
    """
    _checks.one_of("rule", rule, ErrorRule)
    check_threshold(objects, "background_threshold", background_threshold)
    check_threshold(objects, "iou_threshold", iou_threshold)
    if background_threshold > iou_threshold:
        raise ValueError(
            f"`background_threshold` must be at most `iou_threshold`, {iou_threshold}; got {background_threshold}."
        )
    detections = _DetectionErrors.of(objects, iou_threshold, background_threshold, rule)
    base = detections.mean_precision()

    def gain(repaired: _DetectionErrors) -> float:
        change = repaired.mean_precision() - base
        return max(change, 0.0) if rule == "tidecv" else change

    # Each kind is repaired alone, so gains do not add up.
    gains = {}
    counts = {}
    *false_positive_kinds, miss = ERROR_KINDS
    for kind, name in enumerate(false_positive_kinds):
        gains[name] = gain(detections.repaired(kind))
        counts[name] = int((detections.kind == kind).sum())
    gains[miss] = gain(detections.without(detections.is_missed))
    counts[miss] = int(detections.is_missed.sum())
    return ErrorBreakdown(
        average_precision=base,
        gains=gains,
        false_positive_gain=detections.with_right_first() - base,
        false_negative_gain=detections.without(detections.is_free).mean_precision() - base,
        counts=counts,
        kind=detections.kind,
        is_missed=detections.is_missed,
    )


@dataclass(frozen=True)
class _DetectionErrors:
    """Detections with their kinds of errors, and the ground truths that would repair them; before or after a repair."""

    rule: str
    scores: Tensor
    class_index: Int[Tensor, " detections"]
    true_class_index: Int[Tensor, " ground_truths"]
    is_right: Bool[Tensor, " detections"]
    is_ignored: Bool[Tensor, " detections"]
    kind: Int[Tensor, " detections"]
    target: Int[Tensor, " detections"]
    """the ground truth that repairs an error of classification or localization; undefined for other detections"""
    is_free: Bool[Tensor, " ground_truths"]
    """whether the ground truth counts and has no match"""
    is_missed: Bool[Tensor, " ground_truths"]
    is_averaged: Bool[Tensor, " classes"]
    """whether the class has ground truths before any repair"""
    num_positives: Int[Tensor, " classes"]
    rows: Int[Tensor, " kept"]
    """the detections on the curves, in the order of equal scores"""

    @classmethod
    def of(cls, objects: ObjectPairs, iou_threshold: float, background_threshold: float, rule: str) -> _DetectionErrors:
        """Match the detections, and classify those without a match."""
        counts = ~objects.is_ignored
        takes_last = rule != "tidecv"
        has_same_class = objects.labels[objects.detection] == objects.true_labels[objects.ground_truth]
        has_positive = counts[objects.ground_truth]
        matched = _match(objects, has_same_class, iou_threshold, is_tidecv=rule == "tidecv")
        is_free = counts.clone()
        is_free[matched.ground_truth[matched.ground_truth >= 0]] = False

        # The largest overlap of each detection with a positive of its class, and with one of another class.
        same = _best_overlaps(objects, has_same_class & has_positive, takes_last=takes_last)
        other = _best_overlaps(objects, ~has_same_class & has_positive, takes_last=takes_last)
        kind = _classify(same.iou, other.iou, iou_threshold, background_threshold)
        kind[matched.is_right | matched.is_left_out] = _NONE

        # A ground truth is missed if no error could be repaired by it.
        target = torch.where(kind == _LOCALIZATION, same.ground_truth, other.ground_truth)
        is_missed = is_free.clone()
        is_missed[target[(kind == _LOCALIZATION) | (kind == _CLASSIFICATION)]] = False

        classes = objects.classes
        true_class_index = place_of_labels(objects.true_labels, classes).long()
        num_positives = true_class_index[counts].bincount(minlength=len(classes))
        return cls(
            rule=rule,
            scores=objects.scores,
            class_index=place_of_labels(objects.labels, classes).long(),
            true_class_index=true_class_index,
            is_right=matched.is_right,
            is_ignored=matched.is_ignored,
            kind=kind,
            target=target,
            is_free=is_free,
            is_missed=is_missed,
            is_averaged=num_positives > 0,
            num_positives=num_positives,
            rows=(~matched.is_ignored).nonzero()[:, 0],
        )

    def repaired(self, kind: int) -> _DetectionErrors:
        """Return the detections after errors of a kind are made right, or dropped where that is impossible."""
        is_repaired = self.kind == kind
        # In tidecv errors of both kinds that have targets compete, even if only one of these kinds is repaired.
        is_rival = (self.kind == _CLASSIFICATION) | (self.kind == _LOCALIZATION)
        if self.rule != "tidecv":
            is_rival = is_rival & is_repaired
        rivals = is_rival.nonzero()[:, 0]
        rivals = rivals[self.is_free[self.target[rivals]]]

        # The best of the rivals for one ground truth wins: the first in a stable order by score.
        rivals = rivals[self.scores[rivals].argsort(descending=True, stable=True)]
        place = torch.arange(len(rivals), device=rivals.device)
        first = torch.full_like(self.true_class_index, len(rivals))
        first.scatter_reduce_(0, self.target[rivals], place, "amin")
        winners = rivals[(first[self.target[rivals]] == place) & is_repaired[rivals]]

        is_right = self.is_right.clone()
        is_right[winners] = True
        class_index = self.class_index.clone()
        class_index[winners] = self.true_class_index[self.target[winners]]
        rows = self._ordered_rows(is_right | ~(self.is_ignored | is_repaired))
        return replace(self, class_index=class_index, is_right=is_right, rows=rows)

    def without(self, is_dropped: Bool[Tensor, " ground_truths"]) -> _DetectionErrors:
        """Return all detections, and the ground truths that are not dropped."""
        num_dropped = self.true_class_index[is_dropped].bincount(minlength=len(self.num_positives))
        rows = self._ordered_rows(~self.is_ignored)
        return replace(self, num_positives=self.num_positives - num_dropped, rows=rows)

    def _ordered_rows(self, is_on_curve: Bool[Tensor, " detections"]) -> Int[Tensor, " kept"]:
        """Return rows in the order of equal scores after a repair: in tidecv detections that were wrong come first."""
        rows = is_on_curve.nonzero()[:, 0]
        if self.rule == "tidecv":
            rows = rows[self.is_right[rows].int().argsort(stable=True)]
        return rows

    def with_right_first(self) -> float:
        """Return mean average precision without false positives, or in tidecv with all of them after the true ones."""
        if self.rule == "tidecv":  # classes without a true positive stay in the mean
            return replace(self, scores=self.is_right.double()).mean_precision()
        return replace(self, rows=self.is_right.nonzero()[:, 0]).mean_precision()

    def mean_precision(self) -> float:
        """Return mean average precision over the classes with ground truths before any repair, or that of tidecv."""
        is_tidecv = self.rule == "tidecv"
        is_defined = bool(self.is_averaged.any()) or (is_tidecv and bool((~self.is_ignored).any()))
        if not is_defined:
            return float("nan")

        # Repairs change classes, so detections are sorted again.
        order, class_index = order_by_class_and_score(self.class_index[self.rows].int(), self.scores[self.rows])
        is_right = self.is_right[self.rows[order]]
        curves = curves_from_flags(is_right[None], class_index, self.num_positives)
        if is_tidecv:
            is_averaged = (self.num_positives > 0) | (curves.num_detections[0] > 0)
            areas = average_precision(curves, AP_RULES["voc07"], recalls_on(is_right.device, _TIDECV_RECALLS))
        else:
            is_averaged = self.is_averaged
            areas = average_precision(curves, AP_RULES[self.rule])
        # A class that lost all its ground truths counts as 0 in the mean.
        areas = areas[0, is_averaged].nan_to_num(nan=0.0)
        return float(areas.sum() / max(1, len(areas)))


class _Matched(NamedTuple):
    """The ground truths that detections match, and the detections that are no errors."""

    ground_truth: Int[Tensor, " detections"]
    """-1 for none"""
    is_right: Bool[Tensor, " detections"]
    is_left_out: Bool[Tensor, " detections"]
    """whether the detection has no kind of error, although it is not right"""
    is_ignored: Bool[Tensor, " detections"]
    """whether it is not on the curves before any repair"""


def _match(
    objects: ObjectPairs, has_same_class: Bool[Tensor, " pairs"], iou_threshold: float, *, is_tidecv: bool
) -> _Matched:
    """Match the detections by COCO's rule, or as tidecv does."""
    counts = ~objects.is_ignored
    has_positive = counts[objects.ground_truth]
    least_overlap = iou_threshold if is_tidecv else min(iou_threshold, LARGEST_THRESHOLD)
    is_candidate = has_same_class & (objects.iou >= least_overlap)
    if is_tidecv:
        # tidecv drops crowds, and detections beyond its limit, before it matches; of equal scores the first are best.
        order = objects.scores.argsort(descending=True, stable=True)
        place = segments.ranks(objects.images[order])
        is_within = torch.empty_like(objects.is_outside).index_copy_(0, order, place < _TIDECV_LIMIT)
        is_candidate &= has_positive & is_within[objects.detection]
    match_rule = CONFUSION_RULES["coco"]._replace(takes_last=not is_tidecv)
    match = match_candidates(objects, is_candidate, match_rule)
    is_right = flag_of_match(counts, match)
    is_left_out = torch.where(match >= 0, ~is_right, objects.is_outside)
    if not is_tidecv:
        return _Matched(match, is_right, is_left_out, is_left_out)
    is_left_out = is_left_out | ~is_within
    is_ignored = is_left_out.clone()
    is_ignored[objects.detection[has_same_class & ~has_positive & (objects.iou > iou_threshold)]] = True
    is_ignored &= ~is_right
    return _Matched(match, is_right, is_left_out, is_ignored)


def _best_overlaps(objects: ObjectPairs, is_pair: Bool[Tensor, " pairs"], *, takes_last: bool) -> OverlappingPairs:
    """Return the largest overlap of each detection in some of the pairs."""
    pairs = OverlappingPairs(objects.ground_truth, objects.detection, objects.iou)
    return best_pairs(select(pairs, is_pair.nonzero()[:, 0]), len(objects.labels), takes_last=takes_last)


def _classify(
    same_iou: Tensor, other_iou: Tensor, iou_threshold: float, background_threshold: float
) -> Int[Tensor, " detections"]:
    """Return the kind of error from the largest overlaps with a positive of the same class and of another class."""
    # In tidecv's order from the last kind to the first: the first that applies is written last.
    kind = torch.full_like(same_iou, _BOTH, dtype=torch.int64)
    kind[torch.maximum(same_iou, other_iou) <= background_threshold] = _BACKGROUND
    kind[same_iou >= iou_threshold] = _DUPLICATE
    kind[other_iou >= iou_threshold] = _CLASSIFICATION
    kind[(same_iou >= background_threshold) & (same_iou <= iou_threshold)] = _LOCALIZATION
    return kind


def why_no_breakdown(evaluator: Evaluator) -> str:
    """Return the reason why the errors of an evaluator have no kinds; "" if they have kinds."""
    if evaluator.has_breakdown:
        return ""
    if evaluator.is_federated:
        return "images are annotated for some classes only"
    return "a detection takes the best ground truth of all, whether it is left or not"


def _error_breakdown(
    results: DetectionResults, *, iou_threshold: float, background_threshold: float, rule: ErrorRule | None
) -> ErrorBreakdown:
    """See `DetectionResults.error_breakdown`."""
    reason = why_no_breakdown(results.evaluator)
    if reason:
        raise ValueError(
            "`error_breakdown` must be called on results of an evaluator that matches greedily and knows all"
            f" classes of each image, such as COCO; got {results.evaluator.title}: {reason}."
        )
    objects = objects_of(results, "a breakdown of errors")
    if results.is_micro:
        no_labels = torch.zeros_like(objects.labels)
        objects = replace(objects, labels=no_labels, true_labels=torch.zeros_like(objects.true_labels))
    return error_breakdown(
        objects,
        iou_threshold=iou_threshold,
        background_threshold=background_threshold,
        rule=results.averages.rule if rule is None else rule,
    )


RESULT_METHODS["error_breakdown"] = _error_breakdown
