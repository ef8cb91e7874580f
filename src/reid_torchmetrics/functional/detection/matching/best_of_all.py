"""Matching where a detection belongs to one ground truth, the one that it overlaps most, whether or not that is taken.

So it is in Pascal VOC, in ScaledYOLOv4 and by the words of the YOLOv4 literature, where COCO and Ultralytics give a
detection the next best that is left. They differ in which detection of a ground truth is the right one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import (
    BoxShapes,
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    Shapes,
    Sides,
    distinct_labels,
    order_boxes,
)

from .matches import Matches
from .pairs import DEFAULT_MAX_BYTES, Pairs, overlapping


@dataclass(frozen=True)
class Claim:
    """Which detections of a ground truth claim it, so that none with a lower score is right, and which reach it."""

    least: Callable[[Sequence[float]], float]
    """the overlap that is needed to claim it under any of the thresholds"""
    claims: Callable[[Tensor, Tensor], Tensor]
    """whether overlaps claim under each threshold, [thresholds, detections], from both"""
    reaches: Callable[[Tensor, Tensor], Tensor]
    """whether overlaps are enough to be right, from overlaps and thresholds"""


CLAIMS: dict[str, Claim] = {
    "voc": Claim(min, torch.ge, torch.ge),
    "scaled_yolov4": Claim(
        lambda thresholds: thresholds[0],
        lambda iou, thresholds: (iou > thresholds[:1]).expand(len(thresholds), -1),
        torch.gt,
    ),
    "yolov4": Claim(
        lambda _: sys.float_info.min,
        lambda iou, thresholds: (iou > 0).expand(len(thresholds), -1),
        torch.ge,
    ),
}
"""Who claims a ground truth: "voc", who reaches the threshold; "scaled_yolov4", who is above the first threshold, and
to be right one must be above, not at, a threshold; "yolov4", who overlaps it at all, even too little to be right."""


@torch.no_grad()
def match_best_of_all(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    iou_thresholds: Sequence[float],
    claim: str = "voc",
    whole_pixels: bool = False,
    is_difficult: Bool[Tensor, " ground_truths"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Matches:
    """Match each detection to the ground truth of its image and class that it overlaps most, the first of equal ones.

    Of the detections that belong to the same one and claim it, that with the highest score is a true positive if its
    overlap suffices; equal scores are ranked by image, then by row. All others are false positives. A detection whose
    ground truth is difficult is ignored, at a threshold that it reaches, and a difficult ground truth does not count.
    Crowds are left out. There is one area range, which holds everything, and no limit of detections.

    Source: `VOCevaldet` of the development kit of Pascal VOC; WongKinYiu/ScaledYOLOv4, `test.py`; Bochkovskiy et al.,
    "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020, as it is retold: right is the best overlap, unless
    a detection with a higher confidence has the same best.

    Args:
        detections: of all images.
        ground_truths: of all images.
        iou_thresholds: overlaps from which on a detection is right.
        claim: one of `CLAIMS`.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations.
        is_difficult: ground truths that need not be found; None for none.
        keep_ground_truths: note which ground truth each detection took.
        max_bytes: bound on what is held of pairs of boxes, but for those that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `claim`, no or bad thresholds, an `is_difficult` of another shape.
    """
    _checks.one_of("claim", claim, CLAIMS)
    _checks.fractions("iou_thresholds", iou_thresholds)
    if is_difficult is None:
        is_difficult = torch.zeros_like(ground_truths.labels, dtype=torch.bool)
    _checks.mask("is_difficult", is_difficult, len(ground_truths.labels), ground_truths.labels.device)
    _checks.positive_int("max_bytes", max_bytes)
    classes = distinct_labels(detections.labels, ground_truths.labels)
    rows, ground_truths = _without_crowds(ground_truths)
    found, true = order_boxes(detections, ground_truths, classes, None)
    pairs = overlapping(
        found,
        true,
        with_edges(detections.shapes, whole_pixels=whole_pixels),
        with_edges(ground_truths.shapes, whole_pixels=whole_pixels),
        at_least=CLAIMS[claim].least(iou_thresholds),
        max_bytes=max_bytes,
    )
    true = true._replace(rows=rows[true.rows])  # rows of all, crowds among them
    is_difficult = is_difficult[true.rows]
    best = _best_overlaps(pairs, found.grouped, len(is_difficult))
    thresholds = torch.tensor(iou_thresholds, dtype=torch.float64, device=classes.device)
    is_right, is_ignored = _judged(best, thresholds[:, None], CLAIMS[claim], is_difficult)
    judged = _Judged(best, is_right, is_ignored).where_matched()
    counting = true.class_index[~is_difficult].bincount(minlength=len(classes))
    return _matches(
        _Ordered(classes, detections.scores, found, true), judged, counting, keep_ground_truths=keep_ground_truths
    )


def with_edges(shapes: Shapes, *, whole_pixels: bool) -> Shapes:
    """Boxes with the edges and areas of VOC's tools; other shapes have no other areas there."""
    if not isinstance(shapes, BoxShapes):
        return shapes
    return replace(shapes, sides_of=partial(Sides.of_corners, whole_pixels=whole_pixels))


def _without_crowds(ground_truths: GroundTruths) -> tuple[Tensor, GroundTruths]:
    """The rows that are no crowds, and the ground truths there."""
    rows = torch.arange(len(ground_truths.labels), device=ground_truths.labels.device)
    if ground_truths.is_crowd is not None and bool(ground_truths.is_crowd.any()):
        rows = (~ground_truths.is_crowd).nonzero()[:, 0]
        ground_truths = ground_truths.at(rows)
    return rows, replace(ground_truths, is_crowd=None)


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


def _judged(
    best: _BestOverlaps, thresholds: Float[Tensor, "thresholds 1"], claim: Claim, is_difficult: Tensor
) -> tuple[Tensor, Tensor]:
    """Which detections are right, the first that claims its ground truth, and which are ignored."""
    reaches = claim.reaches(best.iou, thresholds)
    claims = claim.claims(best.iou, thresholds)
    ordinal = torch.arange(len(best.places), device=thresholds.device).expand_as(reaches)
    ground_truth = best.ground_truth.expand_as(reaches)
    winners = ordinal.new_full((len(thresholds), len(is_difficult)), len(best.places))
    winners = winners.scatter_reduce(1, ground_truth, torch.where(claims, ordinal, len(best.places)), "amin")
    is_ignored = reaches & is_difficult[best.ground_truth]
    return (winners.gather(1, ground_truth) == ordinal) & reaches & ~is_ignored, is_ignored


class _Judged(NamedTuple):
    best: _BestOverlaps
    is_right: Bool[Tensor, "thresholds overlapping"]
    is_ignored: Bool[Tensor, "thresholds overlapping"]

    def where_matched(self) -> _Judged:
        """Only the detections that are right or ignored under some threshold."""
        kept = (self.is_right | self.is_ignored).any(0).nonzero()[:, 0]
        best = _BestOverlaps(*(column[kept] for column in self.best))
        return _Judged(best, self.is_right[:, kept], self.is_ignored[:, kept])


class _Ordered(NamedTuple):
    classes: Int[Tensor, " classes"]
    scores: Tensor
    """by row"""
    detections: OrderedDetections
    ground_truths: OrderedGroundTruths


def _matches(ordered: _Ordered, judged: _Judged, num_positives: Tensor, *, keep_ground_truths: bool) -> Matches:
    found, matched = ordered.detections, judged.is_right | judged.is_ignored
    taken = None
    if keep_ground_truths:
        rows = ordered.ground_truths.rows[judged.best.ground_truth]
        taken = torch.where(matched, rows, -1)[None]
    return Matches(
        classes=ordered.classes,
        num_positives=num_positives[None],
        scores=ordered.scores.index_select(0, found.rows),
        class_index=found.class_index,
        images=found.images,
        rows=found.rows,
        limits=torch.zeros_like(found.rows, dtype=torch.int8),
        area_bits=torch.ones_like(found.rows, dtype=torch.uint8),
        columns=judged.best.places,
        matched=matched[None],
        true_positive=judged.is_right[None],
        ground_truths=taken,
    )
