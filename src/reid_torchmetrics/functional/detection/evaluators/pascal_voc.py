"""Pascal VOC's evaluation of detections, which differs from COCO's in matching as well as in average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import (
    RankedDetections,
    average_precision,
    curves_from_matches,
    ranked_detections,
)
from reid_torchmetrics.functional.detection.inputs import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, Matches, match_best_of_all

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
    ranked: RankedDetections
    """every detection with what it was found to be, and the curve of each class: `ranked.of_class(label)`"""

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
    matches = match_best_of_all(
        detections,
        ground_truths,
        iou_thresholds=iou_thresholds,
        whole_pixels=whole_pixels,
        is_difficult=is_difficult,
        max_bytes=max_bytes,
    )
    return voc_results(matches, rule=rule)


def voc_results(matches: Matches, *, rule: str = "voc") -> VocResults:
    """What Pascal VOC reports of matches, which `match_best_of_all` makes in its way.

    Raises:
        ValueError: an unknown `rule`.
    """
    _checks.one_of("rule", rule, VOC_RULES)
    curves = curves_from_matches(matches)
    return VocResults(
        average_precision=average_precision(curves, rule=rule)[0],
        num_true_positives=curves.num_true_positives[0],
        num_false_positives=(curves.num_detections - curves.num_true_positives)[0],
        num_positives=matches.num_positives[0],
        classes=matches.classes,
        ranked=ranked_detections(matches),
    )
