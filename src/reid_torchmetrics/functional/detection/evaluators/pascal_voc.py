"""Pascal VOC's evaluation of detections, which differs from COCO's in matching as well as in average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import TruePositiveFlags, average_precision, curves_from_flags
from reid_torchmetrics.functional.detection.inputs import (
    BoxOverlap,
    Detections,
    GroundTruths,
    Sides,
    distinct_labels,
    order_boxes,
)
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, Pairs, overlapping

VOC_RULES = ("voc", "voc07")
"""the rules of `average_precision` that Pascal VOC had: all points since 2010, eleven points before"""


@dataclass(frozen=True)
class VocResults:
    """What Pascal VOC reports of every class, and what that comes from; classes that occur in any box."""

    average_precision: Float[Tensor, "thresholds classes"]
    """NaN for a class without ground truths"""
    num_true_positives: Int[Tensor, "thresholds classes"]
    num_false_positives: Int[Tensor, "thresholds classes"]
    num_positives: Int[Tensor, " classes"]
    """ground truths that are not difficult"""
    classes: Int[Tensor, " classes"]
    """labels, ascending"""

    @property
    def mean(self) -> Float[Tensor, " thresholds"]:
        """mAP at each threshold, over the classes with ground truths; NaN if there is none."""
        return self.average_precision.nanmean(1)


@torch.no_grad()
def voc_evaluate(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    iou_thresholds: Sequence[float] = (0.5,),
    rule: str = "voc",
    whole_pixels: bool = True,
    is_difficult: Bool[Tensor, " ground_truths"] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> VocResults:
    """Average precision of each class as Pascal VOC has it.

    A detection belongs to the ground truth of its image and class that it overlaps most, the first of equal ones. It
    is a true positive if the overlap reaches the threshold and no detection with a better score that does so belongs
    to the same one, else a false positive: where COCO would give it the next best that is left, VOC does not. Equal
    scores are ranked by image, then by row, so the order in which images come changes nothing.

    A detection whose ground truth is difficult is neither, at a threshold that its overlap reaches, and a difficult
    ground truth need not be found. Crowds are not known to VOC: they are left out, whatever lies in them is wrong.

    Rafael Padilla's tools and the development kit of VOC agree but for a class without ground truths: the tools say 0
    by eleven points, NaN otherwise; here it is NaN.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010, and `VOCevaldet` of its
    development kit; rafaelpadilla/review_object_detection_metrics, `pascal_voc_evaluator.py`.

    Args:
        detections: boxes with scores.
        ground_truths: boxes.
        iou_thresholds: overlaps from which on a detection is right.
        rule: "voc" or "voc07", see `average_precision`.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations; False
            for boxes that end between pixels.
        is_difficult: ground truths that need not be found; None for none.
        max_bytes: bound on what is held of pairs of boxes, but for those that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `rule`, no or bad thresholds, an `is_difficult` of another shape.
    """
    _checks.one_of("rule", rule, VOC_RULES)
    _checks.fractions("iou_thresholds", iou_thresholds)
    if is_difficult is None:
        is_difficult = torch.zeros_like(ground_truths.labels, dtype=torch.bool)
    _checks.mask("is_difficult", is_difficult, len(ground_truths.labels), ground_truths.labels.device)
    _checks.positive_int("max_bytes", max_bytes)
    classes = distinct_labels(detections.labels, ground_truths.labels)
    ground_truths, is_difficult = _without_crowds(ground_truths, is_difficult)
    ordered_detections, ordered_ground_truths = order_boxes(detections, ground_truths, classes, None)
    thresholds = torch.tensor(iou_thresholds, dtype=torch.float64, device=classes.device)
    pairs = overlapping(
        ordered_detections,
        ordered_ground_truths,
        BoxOverlap(detections.boxes, ground_truths.boxes, partial(Sides.of_corners, whole_pixels=whole_pixels)),
        at_least=min(iou_thresholds),
        max_bytes=max_bytes,
    )
    # A detection belongs to one ground truth; which of those that belong to the same is right depends on the threshold.
    is_difficult = is_difficult[ordered_ground_truths.rows]
    best_overlaps = _best_overlaps(pairs, ordered_detections.grouped, len(is_difficult))
    flags = _flags(best_overlaps, thresholds, is_difficult)
    counting = ordered_ground_truths.class_index[~is_difficult]
    curves = curves_from_flags(flags, ordered_detections.class_index, counting.bincount(minlength=len(classes)))
    return VocResults(
        average_precision=average_precision(curves, rule=rule),
        num_true_positives=curves.num_true_positives,
        num_false_positives=curves.num_detections - curves.num_true_positives,
        num_positives=curves.num_positives[0],
        classes=classes,
    )


def _without_crowds(ground_truths: GroundTruths, is_difficult: Tensor) -> tuple[GroundTruths, Tensor]:
    if ground_truths.is_crowd is None or not bool(ground_truths.is_crowd.any()):
        return replace(ground_truths, is_crowd=None), is_difficult
    kept = ~ground_truths.is_crowd
    rest = GroundTruths(ground_truths.boxes[kept], ground_truths.labels[kept], ground_truths.images[kept])
    return rest, is_difficult[kept]


class _BestOverlaps(NamedTuple):
    """Detections that overlap something, by their places in the order of accumulation, and what they overlap most.

    Ground truths are those of the ordered ones, whose order in an image and class is that of the rows.
    """

    places: Int[Tensor, " overlapping"]
    ground_truth: Int[Tensor, " overlapping"]
    iou: Float[Tensor, " overlapping"]


def _best_overlaps(pairs: Pairs, grouped: Tensor, num_ground_truths: int) -> _BestOverlaps:
    place = grouped[pairs.detection]
    iou = pairs.iou.new_full((len(grouped),), -1).scatter_reduce(0, place, pairs.iou, "amax")
    is_most = pairs.iou == iou[place]
    first = place.new_full((len(grouped),), num_ground_truths)
    first = first.scatter_reduce(0, place[is_most], pairs.ground_truth[is_most], "amin")
    places = (iou > 0).nonzero()[:, 0]  # with a threshold of 0 boxes apart are pairs, too
    return _BestOverlaps(places, first[places], iou[places])


def _flags(best_overlaps: _BestOverlaps, thresholds: Tensor, is_difficult: Tensor) -> TruePositiveFlags:
    """Right is the first of a ground truth that reaches the threshold; all that do are ignored if that is difficult."""
    reaches = best_overlaps.iou >= thresholds[:, None]
    ordinal = torch.arange(len(best_overlaps.places), device=thresholds.device).expand_as(reaches)
    ground_truth = best_overlaps.ground_truth.expand_as(reaches)
    winners = ordinal.new_full((len(thresholds), len(is_difficult)), len(best_overlaps.places))
    winners = winners.scatter_reduce(1, ground_truth, torch.where(reaches, ordinal, len(best_overlaps.places)), "amin")
    is_ignored = reaches & is_difficult[best_overlaps.ground_truth]
    return TruePositiveFlags(
        best_overlaps.places, (winners.gather(1, ground_truth) == ordinal) & ~is_ignored, is_ignored
    )
