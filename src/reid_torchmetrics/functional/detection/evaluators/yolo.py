"""The evaluation of the YOLO family: greedy matching, average precision, and precision, recall and F1 at a confidence.

Values at a confidence are read on straight lines between detections. With scores 0.9 and 0.5 and precisions 1 and 0.5
after them, the precision at a confidence of 0.7 is 0.75.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection import curves, inputs
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

from .class_averages import ClassAverages
from .coco import average_matches

_NUM_CONFIDENCES = 1000
_WINDOW = 101  # confidences whose F1 is averaged: a tenth of all, made odd
_EPSILON = 1e-16  # in the denominator of F1
_CLASSES = 256  # at all confidences at a time: a bound on memory
YOLO_RULES = ("yolo", "yolov5", "ultralytics", "voc")
"""rules of `average_precision` that the family has; it calls "voc" continuous"""


class JudgedDetections(NamedTuple):
    """Detections by class and descending score, judged at one threshold."""

    is_right: Bool[Tensor, " detections"]
    scores: Float[Tensor, " detections"]
    class_index: Int[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]

    def blocks(self) -> Iterator[JudgedDetections]:
        """Split the classes into blocks."""
        sizes = self.class_index.bincount(minlength=len(self.num_positives)).split(_CLASSES)
        lengths = torch.stack([size.sum() for size in sizes]).tolist()
        columns = (values.split(lengths) for values in (self.is_right, self.scores, self.class_index))
        blocks = zip(*columns, self.num_positives.split(_CLASSES), strict=True)
        for number, (is_right, scores, class_index, num_positives) in enumerate(blocks):
            yield JudgedDetections(is_right, scores, class_index - number * _CLASSES, num_positives)


def read_at(
    detections: JudgedDetections, confidence: float | None, epsilon: float
) -> tuple[float, dict[str, Float[Tensor, " classes"]]]:
    """A confidence, the best one if it is None, and precision, recall and F1 of all classes there.

    At a given confidence above the best score of a class the values are those of its best detection. The best
    confidence of 1,000 has the highest mean of F1 over the classes, smoothed by a moving average; precision is 1 and
    recall 0 there above the best score of a class. Source: Ultralytics 8.4.190, `ap_per_class`.
    """
    is_best = confidence is None
    if confidence is None:
        confidences = torch.from_numpy(np.linspace(0, 1, _NUM_CONFIDENCES)).to(detections.scores.device)
        total = torch.zeros_like(confidences)
        for block in detections.blocks():
            total += _f1(*_on_lines(block, confidences, ends_at_best=True), epsilon).sum(0)
        padding = _WINDOW // 2
        padded = torch.cat([total[:1].expand(padding), total, total[-1:].expand(padding)])
        confidence = float(confidences[padded.unfold(0, _WINDOW, 1).mean(1).argmax()])
    confidences = detections.scores.new_tensor([confidence], dtype=torch.float64)
    precision, recall = (values[:, 0] for values in _on_lines(detections, confidences, ends_at_best=is_best))
    return confidence, {"precision": precision, "recall": recall, "f1": _f1(precision, recall, epsilon)}


def _f1(precision: Tensor, recall: Tensor, epsilon: float) -> Tensor:
    return 2 * precision * recall / (precision + recall + epsilon)


def _on_lines(
    detections: JudgedDetections, confidences: Tensor, *, ends_at_best: bool
) -> tuple[Float[Tensor, "classes confidences"], Float[Tensor, "classes confidences"]]:
    """Precision and recall at ascending confidences, on the lines between detections.

    With `ends_at_best` precision is 1 and recall 0 above the best score of a class.
    """
    is_right, scores, class_index, num_positives = detections
    scores, num_classes = scores.double(), len(num_positives)
    # Count the confidences that each detection reaches; one that reaches more than k counts at place k.
    reached = torch.searchsorted(confidences, scores, right=True)
    table = num_positives.new_zeros((num_classes, len(confidences) + 1))
    table.view(-1).index_add_(0, class_index * table.shape[1] + reached, torch.ones_like(reached))
    num_above = table.flip(1).cumsum(1).flip(1)[:, 1:]
    # The line goes from the last detection that scores at least the confidence to the next one, of each class.
    size = class_index.bincount(minlength=num_classes)
    starts, size = segments.starts(size)[:, None], size[:, None]
    place = torch.stack([num_above, num_above + 1]).clamp(min=1).minimum(size)  # of the two, from 1
    num_right = torch.cat([is_right.new_zeros(1, dtype=torch.int64), is_right.cumsum(0)])
    hits = (num_right[starts + place] - num_right[starts]).double()
    # The share of the line before the confidence; 0 where both ends are one detection, or score the same.
    upper, lower = torch.cat([scores, scores.new_zeros(1)])[(starts + place - 1).clamp(min=0)]
    share = torch.where(upper > lower, (upper - confidences) / (upper - lower), 0.0).clamp(0, 1)
    precision, recall = (
        torch.where(size > 0, first + (second - first) * share, 0.0)
        for first, second in (hits / place.clamp(min=1), hits / num_positives[:, None])
    )
    is_above = (num_above == 0) & (size > 0)
    if ends_at_best:
        return precision.masked_fill(is_above, 1.0), recall.masked_fill(is_above, 0.0)
    return precision, recall


class YoloAverages(NamedTuple):
    """The numbers of `ap_per_class` in the YOLO family, of every class that has ground truths."""

    average_precision: Float[Tensor, "thresholds classes"]
    precision: Float[Tensor, " classes"]
    """at the confidence, under the first threshold"""
    recall: Float[Tensor, " classes"]
    f1: Float[Tensor, " classes"]
    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    confidence: float
    """of precision, recall and F1"""


@torch.no_grad()
def yolo_average_precision(
    is_true_positive: Bool[Tensor, "detections thresholds"] | _checks.Array,
    scores: Float[Tensor, " detections"] | _checks.Numbers,
    labels: Int[Tensor, " detections"] | _checks.Integers,
    target_labels: Int[Tensor, " ground_truths"] | _checks.Integers,
    *,
    rule: _names.YoloRule = "yolo",
    confidence: float | None = 0.1,
    end: float = 1e-3,
    epsilon: float = _EPSILON,
) -> YoloAverages:
    """AP, precision, recall and F1 of each class from detections that are already judged, as ScaledYOLOv4 has them.

    Precision and recall are read at the confidence on straight lines between the detections around it, so they need
    not be a share of anything; above the best score they are the values of the best detection, below the worst of all
    detections. `at_confidence` counts instead. F1 is 2pr / (p + r + `epsilon`). All is 0 without detections.

    Without a `confidence` they are the P and R that Ultralytics prints: at the first of 1,000 confidences from 0 to 1
    where the mean of F1 over the classes, smoothed by a moving average of 101, is highest. Precision is 1 and recall 0
    there above the best score of a class.

    Equal scores are ranked as they come; the sort of ScaledYOLOv4 may rank them in any order. It repeats precision,
    recall and F1 of the first threshold for every threshold.

    Source: WongKinYiu/ScaledYOLOv4, `utils/general.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        is_true_positive: whether each detection is right at each threshold.
        scores: of the detections.
        labels: of the detections; classes without ground truths are left out.
        target_labels: of all ground truths.
        rule: "yolo", "yolov5", "ultralytics" or "voc", see `compute_ap`.
        confidence: where precision, recall and F1 are taken; None for the best, see above.
        end: by rule "yolo", how far behind the last recall the curve comes down to 0; 1e-5 in some copies.
        epsilon: of F1.

    Raises:
        TypeError: a tensor of the wrong dtype, or an option of the wrong type.
        ValueError: shapes or devices that do not fit, a score that is not finite, an unknown `rule`, an `end` outside
            [0, 1].
    """
    given = is_true_positive, scores, labels, target_labels
    is_true_positive, scores, labels, target_labels = _arrays.as_tensors(*given)
    _checks.boolean_tensor("is_true_positive", is_true_positive)
    if is_true_positive.ndim != 2 or not is_true_positive.shape[1]:
        raise ValueError(f"`is_true_positive` must have shape [N, T] with T >= 1; got {list(is_true_positive.shape)}.")
    length, device = len(is_true_positive), is_true_positive.device
    inputs.check_scores("scores", scores, length, device)
    _checks.integer_labels("labels", labels, length, device)
    _checks.integer_labels("target_labels", target_labels, device=device)
    _checks.one_of("rule", rule, YOLO_RULES)
    if confidence is not None:
        _checks.number("confidence", confidence)
    _checks.fraction("end", end)
    _checks.nonnegative("epsilon", epsilon)
    classes, num_positives = target_labels.long().unique(return_counts=True)
    # By class and descending score; detections of classes without ground truths would be on no curve.
    kept = torch.isin(labels.long(), classes).nonzero()[:, 0]
    order, class_index = inputs.order_by_class_and_score(inputs.place_of_labels(labels[kept], classes), scores[kept])
    rows = kept[order]
    is_right = is_true_positive[rows].T
    chosen = curves.Rule(partial(curves.trapezoids, tail=end), 101) if rule == "yolo" else curves.AP_RULES[rule]
    judged = JudgedDetections(is_right[0], scores[rows], class_index.long(), num_positives)
    confidence, values = read_at(judged, confidence, epsilon)
    precision = curves.average_precision(curves.curves_from_flags(is_right, class_index, num_positives), chosen)
    return YoloAverages(precision, **values, classes=classes, confidence=confidence)


def average_yolo(matches: Matches, grid: inputs.CocoGrid, *, rule: Any, confidence: float | None) -> ClassAverages:
    """Average precision of every class, and precision, recall and F1 under the first threshold at a confidence.

    `match_greedily` and `match_best_of_all` match as the code bases do; equal scores are ranked by image, then by row.
    The other arguments and errors are those of `yolo_average_precision`.
    """
    averages = average_matches(matches, grid, rule=rule, has_limits=False)
    has_positives = matches.num_positives[0] > 0
    is_right, _ = matches.outcomes(0)
    class_index = matches.class_index.long()
    kept = has_positives[class_index]
    place = (has_positives.cumsum(0) - 1)[class_index[kept]]
    judged = JudgedDetections(is_right[kept], matches.scores[kept], place, matches.num_positives[0, has_positives])
    confidence, values = read_at(judged, confidence, _EPSILON)
    undefined = torch.full_like(averages.recall[0, 0, 0], torch.nan)
    values = {name: undefined.masked_scatter(has_positives, of_classes) for name, of_classes in values.items()}
    return replace(averages, at_confidence=values, confidence=confidence)


def match_greedily(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    grid: inputs.CocoGrid,
    *,
    keep_ground_truths: bool = False,
    max_bytes: int | None = None,
) -> Matches:
    """Match each detection, by descending score, to the unmatched ground truth that it overlaps most and enough.

    Of equal overlaps it takes the first. This is the matching of Ultralytics 8.4: COCO's except for equal overlaps, and
    without crowds, area ranges and limits of the number of detections. Crowds are left out here. Ultralytics computes
    overlaps and thresholds in float32 and adds 1e-7 to the union; here both are float64 and exact, so an overlap that
    equals a threshold counts.

    Source: Ultralytics 8.4.190, `BaseValidator.match_predictions`.

    Args:
        detections: boxes with scores.
        ground_truths: boxes.
        grid: the least overlaps of a match; its limits and area ranges are not read.
        keep_ground_truths: note the ground truth of each detection.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `max_bytes` below 1.
    """
    order = torch.arange(len(ground_truths.labels) - 1, -1, -1, device=ground_truths.labels.device)
    if ground_truths.is_crowd is not None:
        order = order[~ground_truths.is_crowd[order]]
    # Of equal overlaps COCO takes the last, so the first of them is its choice from the reversed list.
    ranges = {"all": (-torch.inf, torch.inf)}  # inverted boxes have negative areas, and are wrong
    grid = replace(grid, max_detection_thresholds=(max(1, len(detections.labels)),), area_ranges=ranges)
    options: dict[str, Any] = {"keep_ground_truths": keep_ground_truths, "max_bytes": max_bytes}
    matches = match_on_grid(detections, ground_truths.at(order), grid, **options)
    return matches.with_rows(torch.arange(len(detections.labels), device=order.device), order)
