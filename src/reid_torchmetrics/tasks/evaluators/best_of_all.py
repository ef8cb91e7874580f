"""Matching of each detection to the ground truth that it overlaps most, whether or not that is matched already.

Pascal VOC, ScaledYOLOv4 and the YOLOv4 literature match in this way. In COCO and Ultralytics a detection gets the best
ground truth that is free. For instance, with the threshold 0.5 and detections 0, 1 and 2 by descending score:

    0 overlaps A by 0.4 and B by 0.2     its best is A
    1 overlaps A by 0.8 and B by 0.7     its best is A
    2 overlaps A by 0.6                  its best is A
    "voc":       1 is the first that reaches the threshold with A: a true positive; 0 and 2 are false positives
    "yolov4":    0 is the first that overlaps A, but too little: 0, 1 and 2 are false positives
    B is the best of no detection: a false negative, although 1 reaches the threshold with it
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.matching import (
    DEFAULT_MAX_BYTES,
    Matches,
    OverlappingPairs,
    best_pairs,
    overlapping_pairs,
    select,
)

_ROUNDING = 1e-12  # of overlaps of polygons: half a square has an overlap of 0.5, not more


class Claim(NamedTuple):
    """A rule for the overlaps that claim a ground truth: all detections after the first claim are false positives."""

    least: Callable[[Tensor], Tensor]
    """computes the least overlap of a claim under each threshold, from the thresholds"""
    claims: Callable[[Tensor, Tensor], Tensor]
    """compares overlaps with `least`: whether they claim"""
    reaches: Callable[[Tensor, Tensor], Tensor]
    """compares overlaps with the thresholds: whether they suffice for a true positive"""


def _exceeds(overlaps: Tensor, thresholds: Tensor) -> Tensor:
    return overlaps > thresholds + _ROUNDING


CLAIMS: dict[str, Claim] = {
    "voc": Claim(least=lambda thresholds: thresholds, claims=torch.ge, reaches=torch.ge),
    "dota": Claim(least=lambda thresholds: thresholds, claims=_exceeds, reaches=_exceeds),
    "scaled_yolov4": Claim(lambda thresholds: thresholds[:1].expand_as(thresholds), claims=torch.gt, reaches=torch.gt),
    "yolov4": Claim(least=torch.zeros_like, claims=torch.gt, reaches=torch.ge),
}
"""The overlaps that claim a ground truth. "voc": at or above the threshold. "dota": above the threshold.
"scaled_yolov4": above the first threshold; a true positive is above its threshold, not at it. "yolov4": any overlap,
also one that is too small for a true positive."""


@torch.no_grad()
def match_best_of_all(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    grid: inputs.CocoGrid,
    *,
    claim: _names.ClaimRule = "voc",
    whole_pixels: bool = False,
    is_difficult: Bool[Tensor, " ground_truths"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int | None = None,
) -> Matches:
    """Match each detection to the ground truth of its image and class that it overlaps most, the first of equal ones.

    Among the detections that claim the same ground truth, the one with the highest score is a true positive if its
    overlap suffices; equal scores are ranked by image, then by row. All others are false positives. A detection of a
    difficult ground truth is ignored at the thresholds that it reaches, and a difficult ground truth does not count.
    Crowds are left out. There is one area range for all boxes, and no limit of detections.

    Source: `VOCevaldet` of the development kit of Pascal VOC; CAPTAIN-WHU/DOTA_devkit, `dota_evaluation_task1.py`,
    which needs overlaps above 0.5, not at it; WongKinYiu/ScaledYOLOv4, `test.py`; Bochkovskiy et al.,
    "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020, as it is usually described: the best overlap is a
    true positive, unless a detection with a higher confidence has the same best ground truth.

    Args:
        detections: detections in all images.
        ground_truths: ground truths in all images.
        grid: the least overlaps of true positives; its limits and area ranges are not read.
        claim: one of `CLAIMS`.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inclusive, as in VOC's annotations.
        is_difficult: ground truths that need not be detected; None for none.
        keep_ground_truths: also return the ground truth of each matched detection.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `claim`, or an `is_difficult` of another shape.
    """
    _checks.one_of("claim", claim, CLAIMS)
    if is_difficult is None:
        is_difficult = torch.zeros_like(ground_truths.labels, dtype=torch.bool)
    is_difficult = _checks.mask("is_difficult", is_difficult, len(ground_truths.labels), ground_truths.labels.device)
    _checks.cutoff("max_bytes", max_bytes)
    rule = CLAIMS[claim]
    thresholds = torch.tensor(grid.iou_thresholds, dtype=torch.float64, device="cpu")[:, None]

    # Pairs in each image and class that may claim, without crowds.
    classes = inputs.distinct_labels(detections.labels, ground_truths.labels)
    rows = torch.arange(len(ground_truths.labels), device=classes.device)
    if ground_truths.is_crowd is not None:
        rows = rows[~ground_truths.is_crowd]
        ground_truths = ground_truths.at(rows).with_columns(is_crowd=None)
    ordered, true_ordered = inputs.order_boxes(detections, ground_truths, classes, None)
    pairs = overlapping_pairs(
        ordered,
        true_ordered,
        with_edges(detections.shapes, whole_pixels=whole_pixels),
        with_edges(ground_truths.shapes, whole_pixels=whole_pixels)[true_ordered.rows],
        at_least=max(float(rule.least(thresholds).min()), sys.float_info.min),
        max_bytes=max_bytes or DEFAULT_MAX_BYTES,
    )

    # Each detection belongs to the ground truth that it overlaps most, each ground truth to the first claim.
    rows = rows[true_ordered.rows]
    is_difficult = is_difficult[rows]
    best = best_pairs(pairs, len(ordered.rows), takes_last=False)
    best = select(best, (best.iou > 0).nonzero()[:, 0])
    best, true_positive, matched = _resolve_claims(best, thresholds.to(classes.device), rule, is_difficult)
    return Matches(
        classes=classes,
        num_positives=true_ordered.class_index[~is_difficult].bincount(minlength=len(classes))[None],
        scores=detections.scores.index_select(0, ordered.rows),
        class_index=ordered.class_index,
        images=ordered.images,
        rows=ordered.rows,
        limits=torch.zeros_like(ordered.rows, dtype=torch.int8),
        area_bits=torch.ones_like(ordered.rows, dtype=torch.uint8),
        columns=best.detection,
        matched=matched[None],
        true_positive=true_positive[None],
        ground_truths=torch.where(matched, rows[best.ground_truth], -1)[None] if keep_ground_truths else None,
    )


def with_edges(shapes: inputs.Shapes, *, whole_pixels: bool) -> inputs.Shapes:
    """Return boxes with the edges and areas of VOC's tools; other shapes are returned unchanged."""
    if not isinstance(shapes, inputs.BoxShapes):
        return shapes
    return replace(shapes, sides_of=partial(inputs.Sides.of_corners, whole_pixels=whole_pixels))


def _resolve_claims(
    best: OverlappingPairs, thresholds: Float[Tensor, "thresholds 1"], rule: Claim, is_difficult: Tensor
) -> tuple[OverlappingPairs, Bool[Tensor, "thresholds matched"], Bool[Tensor, "thresholds matched"]]:
    """Return the pairs that match under some threshold, whether they are true positives, and whether they match.

    `best` has the best pair of each detection by descending score.
    """
    # The first detection that claims each ground truth, under each threshold.
    claims = rule.claims(best.iou, rule.least(thresholds))
    reaches = rule.reaches(best.iou, thresholds)
    num_pairs = len(best.iou)
    place = torch.arange(num_pairs, device=thresholds.device).expand_as(reaches)
    ground_truth = best.ground_truth.expand_as(reaches)
    first = place.new_full((len(thresholds), len(is_difficult)), num_pairs)
    first = first.scatter_reduce(1, ground_truth, torch.where(claims, place, num_pairs), "amin")

    # The first claim is a true positive if it reaches the threshold; detections of difficult objects are ignored.
    is_ignored = reaches & is_difficult[best.ground_truth]
    true_positive = (first.gather(1, ground_truth) == place) & reaches & ~is_ignored
    matched = true_positive | is_ignored
    places = matched.any(0).nonzero()[:, 0]
    return select(best, places), true_positive[:, places], matched[:, places]
