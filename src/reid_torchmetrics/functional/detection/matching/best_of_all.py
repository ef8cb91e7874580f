"""Matching of each detection to the ground truth that it overlaps most, whether or not that is matched already.

Pascal VOC, ScaledYOLOv4 and the YOLOv4 literature match so; in COCO and Ultralytics a detection gets the best ground
truth that is free. They differ in the detection of a ground truth that is the true positive.
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

from .matches import Matches
from .pairs import DEFAULT_MAX_BYTES, OverlappingPairs, best_pairs, overlapping_pairs, select

_ROUNDING = 1e-12  # of overlaps of polygons: half of a square is at 0.5, not above it


class Claim(NamedTuple):
    """The overlaps that claim a ground truth: all detections after the first claim are false positives."""

    least: Callable[[Tensor], Tensor]
    """the overlap under each threshold that a claim must reach or exceed, from the thresholds"""
    claims: Callable[[Tensor, Tensor], Tensor]
    """whether overlaps claim, from overlaps and `least`"""
    reaches: Callable[[Tensor, Tensor], Tensor]
    """whether overlaps suffice for a true positive, from overlaps and thresholds"""


def _exceeds(overlaps: Tensor, thresholds: Tensor) -> Tensor:
    return overlaps > thresholds + _ROUNDING


CLAIMS: dict[str, Claim] = {
    "voc": Claim(lambda thresholds: thresholds, torch.ge, torch.ge),
    "dota": Claim(lambda thresholds: thresholds, _exceeds, _exceeds),
    "scaled_yolov4": Claim(lambda thresholds: thresholds[:1].expand_as(thresholds), torch.gt, torch.gt),
    "yolov4": Claim(torch.zeros_like, torch.gt, torch.ge),
}
"""The detections that claim a ground truth. "voc": they reach the threshold. "dota": they are above it.
"scaled_yolov4": they are above the first threshold; a true positive is above, not at, its threshold. "yolov4": they
overlap it, even too little for a true positive."""


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

    Of the detections that claim the same ground truth, the one with the highest score is a true positive if its overlap
    suffices; equal scores are ranked by image, then by row. All others are false positives. A detection whose ground
    truth is difficult is ignored at a threshold that it reaches, and a difficult ground truth does not count. Crowds
    are left out. There is one area range, which holds all boxes, and no limit of detections.

    Source: `VOCevaldet` of the development kit of Pascal VOC; CAPTAIN-WHU/DOTA_devkit, `dota_evaluation_task1.py`,
    which takes overlaps above 0.5, not at it; WongKinYiu/ScaledYOLOv4, `test.py`; Bochkovskiy et al.,
    "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020, as usually retold: the best overlap is a true
    positive, unless a detection with a higher confidence has the same best.

    Args:
        detections: of all images.
        ground_truths: of all images.
        grid: the least overlaps of true positives; its limits and area ranges are not read.
        claim: one of `CLAIMS`.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations.
        is_difficult: ground truths that need not be detected; None for none.
        keep_ground_truths: give the ground truth of each matched detection, too.
        max_bytes: bound on the memory for pairs of boxes; pairs that overlap enough come in addition; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `claim`, or an `is_difficult` of another shape.
    """
    _checks.one_of("claim", claim, CLAIMS)
    if is_difficult is None:
        is_difficult = torch.zeros_like(ground_truths.labels, dtype=torch.bool)
    is_difficult = _checks.mask("is_difficult", is_difficult, len(ground_truths.labels), ground_truths.labels.device)
    _checks.cutoff("max_bytes", max_bytes)
    thresholds = torch.tensor(grid.iou_thresholds, dtype=torch.float64, device="cpu")[:, None]
    # Pairs of each image and class that overlap at all, without crowds.
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
        at_least=max(float(CLAIMS[claim].least(thresholds).min()), sys.float_info.min),
        max_bytes=max_bytes or DEFAULT_MAX_BYTES,
    )
    # Each detection belongs to its best overlap, and each ground truth to the first detection that claims it.
    rows = rows[true_ordered.rows]
    is_difficult = is_difficult[rows]
    best = best_pairs(pairs, len(ordered.rows), takes_last=False)
    best = select(best, (best.iou > 0).nonzero()[:, 0])
    best, true_positive, matched = _claim(best, thresholds.to(classes.device), CLAIMS[claim], is_difficult)
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
    """Boxes with the edges and areas of VOC's tools; other shapes have no other areas there."""
    if not isinstance(shapes, inputs.BoxShapes):
        return shapes
    return replace(shapes, sides_of=partial(inputs.Sides.of_corners, whole_pixels=whole_pixels))


def _claim(
    best: OverlappingPairs, thresholds: Float[Tensor, "thresholds 1"], claim: Claim, is_difficult: Tensor
) -> tuple[OverlappingPairs, Bool[Tensor, "thresholds matched"], Bool[Tensor, "thresholds matched"]]:
    """The pairs that are matched under some threshold, and whether each is a true positive, and whether matched."""
    # The first detection that claims a ground truth, under each threshold.
    claims, reaches = claim.claims(best.iou, claim.least(thresholds)), claim.reaches(best.iou, thresholds)
    place = torch.arange(len(best.iou), device=thresholds.device).expand_as(reaches)
    ground_truth = best.ground_truth.expand_as(reaches)
    first = place.new_full((len(thresholds), len(is_difficult)), len(best.iou))
    first = first.scatter_reduce(1, ground_truth, torch.where(claims, place, len(best.iou)), "amin")
    # It is a true positive, and any detection that reaches a difficult ground truth is ignored.
    is_ignored = reaches & is_difficult[best.ground_truth]
    true_positive = (first.gather(1, ground_truth) == place) & reaches & ~is_ignored
    matched = true_positive | is_ignored
    places = matched.any(0).nonzero()[:, 0]
    return select(best, places), true_positive[:, places], matched[:, places]
