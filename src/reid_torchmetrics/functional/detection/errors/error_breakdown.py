"""What each kind of error costs in average precision, by oracles that repair it.

Source: Bolya, Foley, Hays and Hoffman, "TIDE: A General Toolbox for Identifying Object Detection Errors", ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import AP_RULES, TruePositiveFlags, area_under, curves_from_flags
from reid_torchmetrics.functional.detection.inputs import order_by_class_and_score, place_of_labels

from .confusion import match_each_class
from .object_pairs import ObjectPairs

ERROR_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "classification": "it overlaps a ground truth of another class enough",
        "localization": "it overlaps a ground truth of its class, but not enough",
        "both": "it overlaps a ground truth of another class, but not enough",
        "duplicate": "it overlaps a ground truth of its class enough, which a better one took",
        "background": "it overlaps nothing",
        "miss": "a ground truth that nothing took, nor would with another class or place",
    }
)
"""kinds of errors with their meaning, which is that of a false positive but for the last"""
_NONE, _CLASSIFICATION, _LOCALIZATION, _BOTH, _DUPLICATE, _BACKGROUND = range(-1, 5)


@dataclass(frozen=True)
class ErrorBreakdown:
    """Errors of each kind, and how much higher average precision would be without them."""

    average_precision: float
    """mean over the classes that have ground truths; NaN if none has any, as all that follows"""
    gains: Mapping[str, float]
    """of each of `ERROR_KINDS`: what is added to it if these errors alone are repaired"""
    false_positive_gain: float
    """what is added if all false positives are dropped"""
    false_negative_gain: float
    """what is added if all ground truths that nothing took are dropped"""
    counts: Mapping[str, int]
    """errors of each kind; false positives of all classes, also those without ground truths"""
    kind: Int[Tensor, " detections"]
    """the kind of each detection of the `ObjectPairs`, as its place in `ERROR_KINDS`; -1 for no error"""
    is_missed: Bool[Tensor, " ground_truths"]


@torch.no_grad()
def error_breakdown(
    objects: ObjectPairs, *, iou_threshold: float = 0.5, background_threshold: float = 0.1, rule: str = "coco"
) -> ErrorBreakdown:
    """Tell false positives and misses apart by their reasons, and repair those of each kind by themselves.

    A false positive is of the first kind that holds of it, in the order of tidecv: localization (its largest overlap
    with a ground truth of its class lies between the thresholds, both inside), classification (the largest one with
    another class is at least `iou_threshold`), duplicate, background (no overlap is above `background_threshold`),
    both. Repairs are those of the paper. Errors of classification and localization make a true positive of the class of
    the ground truth that they overlap most, if it is free, and are dropped otherwise; of several that would take one
    ground truth, that with the highest score takes it and the others are dropped. Other false positives are dropped.
    Misses are ground truths that no error of classification or localization overlaps most, and are dropped.

    Matching is COCO's, so ignored detections and ground truths are no errors, and the mean is over the classes that
    have ground truths; a class that loses all of them by a repair keeps an average precision of 0. tidecv 1.0.1 takes
    the mean over classes without ground truths, too, of equal overlaps the first, and lets errors of classification
    and localization compete for a ground truth even where one kind alone is repaired.

    Args:
        objects: of all images.
        iou_threshold: the overlap from which on a detection may take a ground truth.
        background_threshold: the overlap up to which a detection lies on background.
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
    found = _Judged.of(objects, iou_threshold, background_threshold)
    base = found.mean_precision(found.repaired(frozenset()), rule)
    gains = {
        name: found.mean_precision(found.repaired(frozenset({place})), rule) - base
        for place, name in enumerate([*ERROR_KINDS][:-1])
    }
    gains["miss"] = found.mean_precision(found.without(found.is_missed), rule) - base
    listed = [int((found.kind == place).sum()) for place in range(len(ERROR_KINDS) - 1)]
    return ErrorBreakdown(
        average_precision=base,
        gains=gains,
        false_positive_gain=found.mean_precision(found.right_alone(), rule) - base,
        false_negative_gain=found.mean_precision(found.without(found.is_free), rule) - base,
        counts=dict(zip(ERROR_KINDS, [*listed, int(found.is_missed.sum())], strict=True)),
        kind=found.kind,
        is_missed=found.is_missed,
    )


class _Curve(NamedTuple):
    """What average precision is computed of."""

    class_index: Int[Tensor, " detections"]
    is_right: Bool[Tensor, " detections"]
    is_kept: Bool[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]


@dataclass(frozen=True)
class _Judged:
    """Detections with their kinds of errors, and what they would take."""

    scores: Tensor
    class_index: Int[Tensor, " detections"]
    true_class_index: Int[Tensor, " ground_truths"]
    is_right: Bool[Tensor, " detections"]
    is_ignored: Bool[Tensor, " detections"]
    kind: Int[Tensor, " detections"]
    target: Int[Tensor, " detections"]
    """the ground truth that an error of classification or localization would take; any number for others"""
    is_free: Bool[Tensor, " ground_truths"]
    """counts, and nothing took it"""
    is_missed: Bool[Tensor, " ground_truths"]
    num_positives: Int[Tensor, " classes"]

    @classmethod
    def of(cls, objects: ObjectPairs, iou_threshold: float, background_threshold: float) -> _Judged:
        taken = match_each_class(objects, iou_threshold)
        is_matched = taken >= 0
        counts = ~objects.is_ignored
        is_right = torch.cat([counts, counts.new_zeros(1)])[taken]
        is_ignored = torch.where(is_matched, ~is_right, objects.is_outside)
        is_free = counts.clone()
        is_free[taken[is_matched]] = False
        # The largest overlaps of each detection with ground truths that count, of its class and of others.
        is_same = objects.labels[objects.detection] == objects.true_labels[objects.ground_truth]
        counted = counts[objects.ground_truth]
        own, own_target = _largest(objects, is_same & counted)
        other, other_target = _largest(objects, ~is_same & counted)
        kind = torch.full_like(taken, _BOTH)
        kind[torch.maximum(own, other) <= background_threshold] = _BACKGROUND
        kind[own >= iou_threshold] = _DUPLICATE
        kind[other >= iou_threshold] = _CLASSIFICATION
        kind[(own >= background_threshold) & (own <= iou_threshold)] = _LOCALIZATION
        kind[is_right | is_ignored] = _NONE
        target = torch.where(kind == _LOCALIZATION, own_target, other_target)
        is_missed = is_free.clone()
        is_missed[target[(kind == _LOCALIZATION) | (kind == _CLASSIFICATION)]] = False
        classes = objects.classes
        index, true_index = (place_of_labels(each, classes).long() for each in (objects.labels, objects.true_labels))
        num_positives = true_index[counts].bincount(minlength=len(classes))
        return cls(
            *(objects.scores, index, true_index, is_right, is_ignored, kind, target, is_free, is_missed),
            num_positives,
        )

    def repaired(self, kinds: frozenset[int]) -> _Curve:
        """After errors of some kinds became right, or were dropped where they cannot."""
        is_repaired = torch.isin(self.kind, torch.tensor([*kinds], dtype=torch.int64, device=self.kind.device))
        can = is_repaired & ((self.kind == _CLASSIFICATION) | (self.kind == _LOCALIZATION))
        rivals = can.nonzero()[:, 0]
        rivals = rivals[self.is_free[self.target[rivals]]]
        # The best of those with one target: of a stable order by score the first.
        rivals = rivals[self.scores[rivals].argsort(descending=True, stable=True)]
        place = torch.arange(len(rivals), device=rivals.device)
        first = torch.full_like(self.true_class_index, len(rivals))
        first.scatter_reduce_(0, self.target[rivals], place, "amin")
        best = rivals[first[self.target[rivals]] == place]
        is_right, class_index = self.is_right.clone(), self.class_index.clone()
        is_right[best] = True
        class_index[best] = self.true_class_index[self.target[best]]
        return _Curve(class_index, is_right, ~self.is_ignored & (is_right | ~is_repaired), self.num_positives)

    def right_alone(self) -> _Curve:
        """Without false positives."""
        return _Curve(self.class_index, self.is_right, self.is_right, self.num_positives)

    def without(self, dropped: Bool[Tensor, " ground_truths"]) -> _Curve:
        """Without some ground truths."""
        num_dropped = self.true_class_index[dropped].bincount(minlength=len(self.num_positives))
        return _Curve(self.class_index, self.is_right, ~self.is_ignored, self.num_positives - num_dropped)

    def mean_precision(self, curve: _Curve, rule: str) -> float:
        """Mean over the classes that have ground truths."""
        has_any = self.num_positives > 0
        if not bool(has_any.any()):
            return float("nan")
        kept = curve.is_kept.nonzero()[:, 0]
        order, class_index = order_by_class_and_score(curve.class_index[kept].int(), self.scores[kept])
        is_right = curve.is_right[kept[order]]
        flags = TruePositiveFlags(torch.arange(len(order), device=order.device), is_right[None])
        curves = curves_from_flags(flags, class_index, curve.num_positives)
        return float(area_under(curves, AP_RULES[rule])[0, has_any].nan_to_num(nan=0.0).mean())


def _largest(
    objects: ObjectPairs, chosen: Bool[Tensor, " pairs"]
) -> tuple[Float[Tensor, " detections"], Int[Tensor, " detections"]]:
    """The largest overlap of each detection in some pairs, 0 without any, and the last ground truth that has it."""
    places = chosen.nonzero()[:, 0]
    detection, ground_truth, iou = objects.detection[places], objects.ground_truth[places], objects.iou[places]
    largest = iou.new_zeros(len(objects.labels)).scatter_reduce_(0, detection, iou, "amax")
    is_largest = iou == largest[detection]
    target = detection.new_zeros(len(objects.labels))
    return largest, target.scatter_reduce_(0, detection[is_largest], ground_truth[is_largest], "amax")
