"""What each kind of error costs in average precision, by oracles that repair it.

Source: Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object Detection Errors", ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import ErrorRule
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves import AP_RULES, average_precision, curves_from_flags, recalls_on
from reid_torchmetrics.functional.detection.inputs import order_by_class_and_score, place_of_labels
from reid_torchmetrics.functional.detection.matching import OverlappingPairs, best_pairs, select

from .confusion import CONFUSION_RULES, LARGEST_THRESHOLD, flag_of_match, match_candidates
from .object_pairs import ObjectPairs

ERROR_KINDS: dict[str, str] = {
    "classification": "it overlaps a ground truth of another class enough",
    "localization": "it overlaps a ground truth of its class, but not enough",
    "both": "it overlaps a ground truth of another class, but not enough",
    "duplicate": "it overlaps a ground truth of its class enough, which a better one took",
    "background": "it overlaps nothing",
    "miss": "a ground truth that nothing took, nor would with another class or place",
}
"""kinds of errors with their meaning: the first five of a false positive, the last of a ground truth"""
_NONE, _CLASSIFICATION, _LOCALIZATION, _BOTH, _DUPLICATE, _BACKGROUND = range(-1, 5)
_TIDECV_RECALLS = tuple(hundredth / 100 for hundredth in range(101))  # not all are COCO's
_TIDECV_LIMIT = 100  # detections of an image, over all classes


@dataclass(frozen=True)
class ErrorBreakdown:
    """Errors of each kind, and how much higher average precision would be without them."""

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
    """errors of each kind; false positives include the classes without ground truths"""
    kind: Int[Tensor, " detections"]
    """the kind of each detection of the `ObjectPairs`, as its place in `ERROR_KINDS`; -1 for no error. tidecv gives
    detections in crowds a kind, too"""
    is_missed: Bool[Tensor, " ground_truths"]


@torch.no_grad()
def error_breakdown(
    objects: ObjectPairs, *, iou_threshold: float = 0.5, background_threshold: float = 0.1, rule: ErrorRule = "coco"
) -> ErrorBreakdown:
    """Classify false positives and misses by their cause, and repair each kind alone.

    A false positive is of the first kind that holds of it, in the order of tidecv: localization (its largest overlap
    with a ground truth of its class lies between the thresholds, both inside), classification (its largest overlap with
    another class is at least `iou_threshold`), duplicate, background (no overlap is above `background_threshold`),
    both. Repairs are the paper's. An error of classification or localization becomes a true positive of the class of
    the ground truth that it overlaps most, if that is free, and is dropped otherwise; of several errors with one ground
    truth the highest score gets it and the others are dropped. Other false positives are dropped. Misses are ground
    truths that no error of classification or localization overlaps most, and are dropped.

    Matching is COCO's, so ignored detections and ground truths are no errors, and the mean is over the classes that
    have ground truths; a class that loses all of them by a repair keeps an average precision of 0.

    By rule "tidecv" all is as in tidecv 1.0.1. The best 100 detections of an image count, over all classes. The first
    of equal overlaps is taken. Detections in a crowd of their class, by more than `iou_threshold`, have a kind and may
    be repaired, but are not in the average precision before. The mean is over the classes that have ground truths or
    detections, and a class that loses both by a repair leaves it; 0 if all do. Errors of classification and
    localization compete for a ground truth even if only one kind is repaired. After a repair wrong detections come
    before right ones of the same score. Gains of `ERROR_KINDS` are not below 0. Precision is read at the recalls
    k / 100. Only detections outside the area range, unless they are right, are left out, which tidecv does not know.

    Args:
        objects: of all images.
        iou_threshold: the least overlap of a match.
        background_threshold: the largest overlap of a detection on background.
        rule: how a curve becomes an average precision, see `average_precision`; or "tidecv", see above.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `rule`, thresholds outside [0, 1], below the overlap of the pairs, or in the wrong order.
    """
    _checks.one_of("rule", rule, ErrorRule)
    objects.check_threshold("background_threshold", background_threshold)
    objects.check_threshold("iou_threshold", iou_threshold)
    if background_threshold > iou_threshold:
        raise ValueError(
            f"`background_threshold` must be at most `iou_threshold`, {iou_threshold}; got {background_threshold}."
        )
    detections = _DetectionErrors.of(objects, iou_threshold, background_threshold, rule)
    base = detections.mean_precision()

    def gain(repaired: _DetectionErrors) -> float:
        change = repaired.mean_precision() - base
        return max(change, 0.0) if rule == "tidecv" else change

    # Each kind is repaired alone: gains do not add up.
    gains = {name: gain(detections.repaired(kind)) for kind, name in enumerate([*ERROR_KINDS][:-1])}
    gains["miss"] = gain(detections.without(detections.is_missed))
    listed = [int((detections.kind == kind).sum()) for kind in range(len(ERROR_KINDS) - 1)]
    return ErrorBreakdown(
        average_precision=base,
        gains=gains,
        false_positive_gain=detections.with_right_first() - base,
        false_negative_gain=detections.without(detections.is_free).mean_precision() - base,
        counts=dict(zip(ERROR_KINDS, [*listed, int(detections.is_missed.sum())], strict=True)),
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
    """the ground truth that repairs an error of classification or localization; any number for others"""
    is_free: Bool[Tensor, " ground_truths"]
    """counts, and has no match"""
    is_missed: Bool[Tensor, " ground_truths"]
    is_averaged: Bool[Tensor, " classes"]
    """has ground truths before any repair"""
    num_positives: Int[Tensor, " classes"]
    rows: Int[Tensor, " kept"]
    """the detections on the curves, in the order of equal scores"""

    @classmethod
    def of(cls, objects: ObjectPairs, iou_threshold: float, background_threshold: float, rule: str) -> _DetectionErrors:
        counts, classes, as_tidecv = ~objects.is_ignored, objects.classes, rule == "tidecv"
        is_same = objects.labels[objects.detection] == objects.true_labels[objects.ground_truth]
        is_counted = counts[objects.ground_truth]
        # The matches, and the detections that are no errors: of tidecv those that it never sees.
        is_close = is_same & (objects.iou >= (iou_threshold if as_tidecv else min(iou_threshold, LARGEST_THRESHOLD)))
        if as_tidecv:
            is_within = _is_within_limit(objects)
            is_close &= is_counted & is_within[objects.detection]
        match = match_candidates(objects, is_close, CONFUSION_RULES["coco"]._replace(takes_last=not as_tidecv))
        is_matched = match >= 0
        is_right = flag_of_match(counts, match)
        is_left_out = torch.where(is_matched, ~is_right, objects.is_outside)
        is_ignored = is_left_out
        if as_tidecv:
            is_left_out = is_left_out | ~is_within
            is_ignored = is_left_out.clone()
            is_ignored[objects.detection[is_same & ~is_counted & (objects.iou > iou_threshold)]] = True
            is_ignored &= ~is_right
        is_free = counts.clone()
        is_free[match[is_matched]] = False
        # The largest overlaps of each detection with ground truths that count, of its class and of others.
        pairs = OverlappingPairs(objects.ground_truth, objects.detection, objects.iou)
        same, other = (
            best_pairs(select(pairs, (each & is_counted).nonzero()[:, 0]), len(match), takes_last=not as_tidecv)
            for each in (is_same, ~is_same)
        )
        # The kinds from the last to the first in tidecv's order: the first that holds is written last.
        kind = torch.full_like(match, _BOTH)
        kind[torch.maximum(same.iou, other.iou) <= background_threshold] = _BACKGROUND
        kind[same.iou >= iou_threshold] = _DUPLICATE
        kind[other.iou >= iou_threshold] = _CLASSIFICATION
        kind[(same.iou >= background_threshold) & (same.iou <= iou_threshold)] = _LOCALIZATION
        kind[is_right | is_left_out] = _NONE
        # A ground truth is missed if no error could be repaired by it.
        target = torch.where(kind == _LOCALIZATION, same.ground_truth, other.ground_truth)
        is_missed = is_free.clone()
        is_missed[target[(kind == _LOCALIZATION) | (kind == _CLASSIFICATION)]] = False
        index, true_index = (place_of_labels(each, classes).long() for each in (objects.labels, objects.true_labels))
        num_positives = true_index[counts].bincount(minlength=len(classes))
        columns = objects.scores, index, true_index, is_right, is_ignored, kind, target, is_free, is_missed
        return cls(rule, *columns, num_positives > 0, num_positives, (~is_ignored).nonzero()[:, 0])

    def repaired(self, kind: int) -> _DetectionErrors:
        """Errors of a kind made right, or dropped where they cannot be."""
        is_repaired = self.kind == kind
        # Errors of both kinds that take ground truths are rivals in tidecv, whichever is repaired.
        is_rival = (self.kind == _CLASSIFICATION) | (self.kind == _LOCALIZATION)
        rivals = (is_rival if self.rule == "tidecv" else is_rival & is_repaired).nonzero()[:, 0]
        rivals = rivals[self.is_free[self.target[rivals]]]
        # Of the rivals for one ground truth the best wins: the first in a stable order by score.
        rivals = rivals[self.scores[rivals].argsort(descending=True, stable=True)]
        place = torch.arange(len(rivals), device=rivals.device)
        first = torch.full_like(self.true_class_index, len(rivals))
        first.scatter_reduce_(0, self.target[rivals], place, "amin")
        best = rivals[(first[self.target[rivals]] == place) & is_repaired[rivals]]
        is_right, class_index = self.is_right.clone(), self.class_index.clone()
        is_right[best] = True
        class_index[best] = self.true_class_index[self.target[best]]
        rows = self._in_order(is_right | ~(self.is_ignored | is_repaired))
        return replace(self, class_index=class_index, is_right=is_right, rows=rows)

    def without(self, is_dropped: Bool[Tensor, " ground_truths"]) -> _DetectionErrors:
        """All detections, and the ground truths that are not dropped."""
        num_dropped = self.true_class_index[is_dropped].bincount(minlength=len(self.num_positives))
        return replace(self, num_positives=self.num_positives - num_dropped, rows=self._in_order(~self.is_ignored))

    def _in_order(self, is_kept: Bool[Tensor, " detections"]) -> Int[Tensor, " kept"]:
        """Rows in the order of equal scores after a repair: in tidecv what was wrong before it comes first."""
        rows = is_kept.nonzero()[:, 0]
        return rows[self.is_right[rows].int().argsort(stable=True)] if self.rule == "tidecv" else rows

    def with_right_first(self) -> float:
        """Mean average precision without false positives, or in tidecv with all of them behind the true ones."""
        if self.rule == "tidecv":  # classes without a true positive stay in the mean
            return replace(self, scores=self.is_right.double()).mean_precision()
        return replace(self, rows=self.is_right.nonzero()[:, 0]).mean_precision()

    def mean_precision(self) -> float:
        """Mean average precision over the classes that have ground truths before any repair, or as tidecv has it."""
        has_any, as_tidecv = self.is_averaged, self.rule == "tidecv"
        if not (bool(has_any.any()) or (as_tidecv and bool((~self.is_ignored).any()))):
            return float("nan")
        # Repairs change classes, so detections are ordered anew.
        order, class_index = order_by_class_and_score(self.class_index[self.rows].int(), self.scores[self.rows])
        is_right = self.is_right[self.rows[order]]
        curves = curves_from_flags(is_right[None], class_index, self.num_positives)
        if as_tidecv:
            has_any = (self.num_positives > 0) | (curves.num_detections[0] > 0)
            areas = average_precision(curves, AP_RULES["voc07"], recalls_on(is_right.device, _TIDECV_RECALLS))
        else:
            areas = average_precision(curves, AP_RULES[self.rule])
        # A class that lost all its ground truths keeps a 0 in the mean.
        areas = areas[0, has_any].nan_to_num(nan=0.0)
        return float(areas.sum() / max(1, len(areas)))


def _is_within_limit(objects: ObjectPairs) -> Bool[Tensor, " detections"]:
    """Whether each detection is among the best of its image, of equal scores the first."""
    order = objects.scores.argsort(descending=True, stable=True)
    place = segments.ranks(objects.images[order])
    return torch.empty_like(objects.is_outside).index_copy_(0, order, place < _TIDECV_LIMIT)
