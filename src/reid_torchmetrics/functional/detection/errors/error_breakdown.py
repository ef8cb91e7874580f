"""What each kind of error costs in average precision, by oracles that repair it.

Source: Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object Detection Errors", ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import AP_RULES, average_precision, curves_from_flags
from reid_torchmetrics.functional.detection.inputs import order_by_class_and_score, place_of_labels

from .confusion import flag_of_match, match_each_class
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


@dataclass(frozen=True)
class ErrorBreakdown:
    """Errors of each kind, and how much higher average precision would be without them."""

    average_precision: float
    """mean over the classes that have ground truths; NaN, like all gains, if none has any"""
    gains: Mapping[str, float]
    """gain in average precision for each of `ERROR_KINDS` if these errors alone are repaired"""
    false_positive_gain: float
    """gain if all false positives are dropped"""
    false_negative_gain: float
    """gain if all ground truths without a match are dropped"""
    counts: Mapping[str, int]
    """errors of each kind; false positives include the classes without ground truths"""
    kind: Int[Tensor, " detections"]
    """the kind of each detection of the `ObjectPairs`, as its place in `ERROR_KINDS`; -1 for no error"""
    is_missed: Bool[Tensor, " ground_truths"]


@torch.no_grad()
def error_breakdown(
    objects: ObjectPairs, *, iou_threshold: float = 0.5, background_threshold: float = 0.1, rule: str = "coco"
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
    have ground truths; a class that loses all of them by a repair keeps an average precision of 0. tidecv 1.0.1 takes
    the mean over classes without ground truths, too, takes the first of equal overlaps, and lets errors of
    classification and localization compete for a ground truth even if only one kind is repaired.

    Args:
        objects: of all images.
        iou_threshold: the least overlap of a match.
        background_threshold: the largest overlap of a detection on background.
        rule: how a curve becomes an average precision, see `average_precision`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `rule`, thresholds outside [0, 1], below the overlap of the pairs, or in the wrong order.
    """
    _checks.one_of("rule", rule, AP_RULES)
    objects.check_threshold("background_threshold", background_threshold)
    objects.check_threshold("iou_threshold", iou_threshold)
    if background_threshold > iou_threshold:
        raise ValueError(
            f"`background_threshold` must be at most `iou_threshold`, {iou_threshold}; got {background_threshold}."
        )
    detections = _DetectionErrors.of(objects, iou_threshold, background_threshold)

    def mean(repairs: _Repairs) -> float:
        return detections.mean_precision(repairs, rule)

    # Each kind is repaired alone: gains do not add up.
    base = mean(detections.repaired(_NONE))
    gains = {name: mean(detections.repaired(kind)) - base for kind, name in enumerate([*ERROR_KINDS][:-1])}
    gains["miss"] = mean(detections.without(detections.is_missed)) - base
    right_alone = _Repairs(detections.class_index, detections.is_right, detections.is_right, detections.num_positives)
    listed = [int((detections.kind == kind).sum()) for kind in range(len(ERROR_KINDS) - 1)]
    return ErrorBreakdown(
        average_precision=base,
        gains=gains,
        false_positive_gain=mean(right_alone) - base,
        false_negative_gain=mean(detections.without(detections.is_free)) - base,
        counts=dict(zip(ERROR_KINDS, [*listed, int(detections.is_missed.sum())], strict=True)),
        kind=detections.kind,
        is_missed=detections.is_missed,
    )


class _Repairs(NamedTuple):
    """The detections and ground truths that average precision is computed from, after a repair."""

    class_index: Int[Tensor, " detections"]
    is_right: Bool[Tensor, " detections"]
    is_kept: Bool[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]


@dataclass(frozen=True)
class _DetectionErrors:
    """Detections with their kinds of errors, and the ground truths that would repair them."""

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
    num_positives: Int[Tensor, " classes"]

    @classmethod
    def of(cls, objects: ObjectPairs, iou_threshold: float, background_threshold: float) -> _DetectionErrors:
        match, counts, classes = match_each_class(objects, iou_threshold), ~objects.is_ignored, objects.classes
        is_matched = match >= 0
        is_right = flag_of_match(counts, match)
        is_ignored = torch.where(is_matched, ~is_right, objects.is_outside)
        is_free = counts.clone()
        is_free[match[is_matched]] = False
        # The largest overlaps of each detection with ground truths that count, of its class and of others.
        is_same = objects.labels[objects.detection] == objects.true_labels[objects.ground_truth]
        is_counted = counts[objects.ground_truth]
        same, same_target = _largest(objects, is_same & is_counted)
        other, other_target = _largest(objects, ~is_same & is_counted)
        # The kinds from the last to the first in tidecv's order: the first that holds is written last.
        kind = torch.full_like(match, _BOTH)
        kind[torch.maximum(same, other) <= background_threshold] = _BACKGROUND
        kind[same >= iou_threshold] = _DUPLICATE
        kind[other >= iou_threshold] = _CLASSIFICATION
        kind[(same >= background_threshold) & (same <= iou_threshold)] = _LOCALIZATION
        kind[is_right | is_ignored] = _NONE
        # A ground truth is missed if no error could be repaired by it.
        target = torch.where(kind == _LOCALIZATION, same_target, other_target)
        is_missed = is_free.clone()
        is_missed[target[(kind == _LOCALIZATION) | (kind == _CLASSIFICATION)]] = False
        index, true_index = (place_of_labels(each, classes).long() for each in (objects.labels, objects.true_labels))
        num_positives = true_index[counts].bincount(minlength=len(classes))
        return cls(
            *(objects.scores, index, true_index, is_right, is_ignored, kind, target, is_free, is_missed), num_positives
        )

    def repaired(self, kind: int) -> _Repairs:
        """Errors of a kind made right, or dropped where they cannot be; `_NONE` repairs nothing."""
        is_repaired = (self.kind == kind) & (kind != _NONE)
        rivals = (is_repaired & (kind in (_CLASSIFICATION, _LOCALIZATION))).nonzero()[:, 0]
        rivals = rivals[self.is_free[self.target[rivals]]]
        # Of the rivals for one ground truth the best wins: the first in a stable order by score.
        rivals = rivals[self.scores[rivals].argsort(descending=True, stable=True)]
        place = torch.arange(len(rivals), device=rivals.device)
        first = torch.full_like(self.true_class_index, len(rivals))
        first.scatter_reduce_(0, self.target[rivals], place, "amin")
        best = rivals[first[self.target[rivals]] == place]
        is_right, class_index = self.is_right.clone(), self.class_index.clone()
        is_right[best] = True
        class_index[best] = self.true_class_index[self.target[best]]
        return _Repairs(class_index, is_right, ~self.is_ignored & (is_right | ~is_repaired), self.num_positives)

    def without(self, is_dropped: Bool[Tensor, " ground_truths"]) -> _Repairs:
        """All detections, and the ground truths that are not dropped."""
        num_dropped = self.true_class_index[is_dropped].bincount(minlength=len(self.num_positives))
        return _Repairs(self.class_index, self.is_right, ~self.is_ignored, self.num_positives - num_dropped)

    def mean_precision(self, repairs: _Repairs, rule: str) -> float:
        """Mean average precision over the classes that have ground truths before any repair."""
        has_any = self.num_positives > 0
        if not bool(has_any.any()):
            return float("nan")
        # Repairs change classes, so detections are ordered anew.
        kept = repairs.is_kept.nonzero()[:, 0]
        order, class_index = order_by_class_and_score(repairs.class_index[kept].int(), self.scores[kept])
        is_right = repairs.is_right[kept[order]]
        curves = curves_from_flags(is_right[None], class_index, repairs.num_positives)
        # A class that lost all its ground truths keeps a 0 in the mean.
        return float(average_precision(curves, AP_RULES[rule])[0, has_any].nan_to_num(nan=0.0).mean())


def _largest(
    objects: ObjectPairs, is_selected: Bool[Tensor, " pairs"]
) -> tuple[Float[Tensor, " detections"], Int[Tensor, " detections"]]:
    """The largest overlap of each detection in some pairs, 0 without any, and the last ground truth with it."""
    places = is_selected.nonzero()[:, 0]
    detection, ground_truth, iou = objects.detection[places], objects.ground_truth[places], objects.iou[places]
    largest = iou.new_zeros(len(objects.labels)).scatter_reduce_(0, detection, iou, "amax")
    # Of equal overlaps the last ground truth, as in COCO's matching.
    is_largest = iou == largest[detection]
    target = detection.new_zeros(len(objects.labels))
    return largest, target.scatter_reduce_(0, detection[is_largest], ground_truth[is_largest], "amax")
