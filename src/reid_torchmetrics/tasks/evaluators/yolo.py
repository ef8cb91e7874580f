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
from torch.nn import functional

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection import curves, inputs
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, ClassAverages, Evaluator, average_matches
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid
from reid_torchmetrics.tasks.operating_points import curves_from_flags

from .best_of_all import match_best_of_all

_NUM_CONFIDENCES = 1000
_WINDOW = 101  # confidences in the moving average of F1: a tenth of all, made odd
_EPSILON = 1e-16  # in the denominator of F1
_MAX_VALUES = 1 << 17  # number of places of envelopes that are read at a time, to fit a cache
_CLASSES = 256  # evaluated at all confidences at a time: a bound on memory
YOLO_RULES = ("yolo", "yolov5", "ultralytics", "voc")
"""rules of `average_precision` in the YOLO family; it calls "voc" continuous"""


def trapezoids(
    points: curves.Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"], *, tail: float
) -> Float[Tensor, " curves"]:
    """Return the area of trapezoids under the envelope at some recalls, with a slope after the last recall R.

    Lines between the points of the envelope are the staircase itself: at the recall of a true positive they drop to the
    next step. Only the last line slopes, from the precision of all detections at R to 0 at min(R + `tail`, 1).
    """
    padded = functional.pad(envelope, (0, 1))
    all_starts = points.starts.reshape(-1, 1)
    all_true_positives = points.num_true_positives.reshape(-1, 1)
    all_positives = points.num_positives.reshape(-1, 1)
    all_detections = points.num_detections.reshape(-1, 1)

    def area(some: slice) -> Tensor:
        num_true_positives = all_true_positives[some]
        num_positives = all_positives[some].double()
        # The largest m with a recall m / n, in float64, that is at most each recall.
        order = (recalls * num_positives).floor()
        order = torch.where((order + 1) / num_positives <= recalls, order + 1, order)
        order = torch.where(order / num_positives > recalls, order - 1, order)
        # The staircase: the envelope at the first true positive beyond each recall.
        num_passed = order.long().minimum(num_true_positives)
        is_step = num_passed < num_true_positives
        steps = padded[torch.where(is_step, all_starts[some] + num_passed, len(envelope))]
        # The slope after the last true positive.
        last = num_true_positives / num_positives
        foot = (last + tail).clamp(max=1)
        precision = num_true_positives.double() / all_detections[some].clamp(min=1)
        slope = precision * (foot - recalls) / (foot - last)
        heights = torch.where(is_step, steps, torch.where(recalls < foot, slope, 0.0))
        return torch.trapezoid(heights, recalls)

    # In blocks, so that many curves at many recalls need little memory.
    blocks = segments.ranges(len(all_starts), max(1, _MAX_VALUES // max(len(recalls), 1)))
    return torch.cat([envelope[:0], *map(area, blocks)])


class JudgedDetections(NamedTuple):
    """Detections by class and descending score, each right or wrong at one threshold."""

    is_right: Bool[Tensor, " detections"]
    scores: Float[Tensor, " detections"]
    class_index: Int[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]

    def blocks(self) -> Iterator[JudgedDetections]:
        """Split the classes into blocks."""
        sizes = self.class_index.bincount(minlength=len(self.num_positives)).split(_CLASSES)
        lengths = torch.stack([size.sum() for size in sizes]).tolist()
        blocks = zip(
            self.is_right.split(lengths),
            self.scores.split(lengths),
            self.class_index.split(lengths),
            self.num_positives.split(_CLASSES),
            strict=True,
        )
        for number, (is_right, scores, class_index, num_positives) in enumerate(blocks):
            yield JudgedDetections(is_right, scores, class_index - number * _CLASSES, num_positives)


def read_at(
    detections: JudgedDetections, confidence: float | None, epsilon: float
) -> tuple[float, dict[str, Float[Tensor, " classes"]]]:
    """Return a confidence, and precision, recall and F1 of all classes there; None stands for the best confidence.

    At a fixed confidence above the best score of a class the values are those of its best detection. The best
    confidence among 1,000 has the highest mean of F1 over the classes, smoothed by a moving average; there precision is
    1 and recall 0 above the best score of a class. Source: Ultralytics 8.4.190, `ap_per_class`.
    """
    is_best = confidence is None
    if confidence is None:
        confidence = _best_confidence(detections, epsilon)
    confidences = detections.scores.new_tensor([confidence], dtype=torch.float64)
    precisions, recalls = _on_lines(detections, confidences, ends_at_best=is_best)
    precision = precisions[:, 0]
    recall = recalls[:, 0]
    return confidence, {"precision": precision, "recall": recall, "f1": _f1(precision, recall, epsilon)}


def _best_confidence(detections: JudgedDetections, epsilon: float) -> float:
    """Return the confidence with the highest smoothed mean of F1 over the classes."""
    confidences = torch.from_numpy(np.linspace(0, 1, _NUM_CONFIDENCES)).to(detections.scores.device)
    total_f1 = torch.zeros_like(confidences)
    for block in detections.blocks():
        precision, recall = _on_lines(block, confidences, ends_at_best=True)
        total_f1 += _f1(precision, recall, epsilon).sum(0)
    padding = _WINDOW // 2
    padded = torch.cat([total_f1[:1].expand(padding), total_f1, total_f1[-1:].expand(padding)])
    smoothed = padded.unfold(0, _WINDOW, 1).mean(1)
    return float(confidences[smoothed.argmax()])


def _f1(precision: Tensor, recall: Tensor, epsilon: float) -> Tensor:
    return 2 * precision * recall / (precision + recall + epsilon)


def _on_lines(
    detections: JudgedDetections, confidences: Tensor, *, ends_at_best: bool
) -> tuple[Float[Tensor, "classes confidences"], Float[Tensor, "classes confidences"]]:
    """Return precision and recall at ascending confidences, on the lines between detections.

    With `ends_at_best` precision is 1 and recall 0 above the best score of a class.
    """
    is_right, scores, class_index, num_positives = detections
    scores = scores.double()
    num_classes = len(num_positives)
    # Count detections by class and the number of confidences that they reach; then sum up: the number at or above each.
    num_reached = torch.searchsorted(confidences, scores, right=True)
    table = num_positives.new_zeros((num_classes, len(confidences) + 1))
    table.view(-1).index_add_(0, class_index * table.shape[1] + num_reached, torch.ones_like(num_reached))
    num_above = table.flip(1).cumsum(1).flip(1)[:, 1:]

    # In each class the line goes from the last detection with at least the confidence to the next detection.
    size = class_index.bincount(minlength=num_classes)
    starts = segments.starts(size)[:, None]
    size = size[:, None]
    place = torch.stack([num_above, num_above + 1]).clamp(min=1).minimum(size)  # of both ends, counted from 1
    num_right = torch.cat([is_right.new_zeros(1, dtype=torch.int64), is_right.cumsum(0)])
    num_true_positives = (num_right[starts + place] - num_right[starts]).double()

    # The share of the line before the confidence is 0 where both ends are one detection, or have the same score.
    upper, lower = torch.cat([scores, scores.new_zeros(1)])[(starts + place - 1).clamp(min=0)]
    share = torch.where(upper > lower, (upper - confidences) / (upper - lower), 0.0).clamp(0, 1)

    def interpolate(ends: Tensor) -> Tensor:
        first, second = ends
        return torch.where(size > 0, first + (second - first) * share, 0.0)

    precision = interpolate(num_true_positives / place.clamp(min=1))
    recall = interpolate(num_true_positives / num_positives[:, None])
    is_above = (num_above == 0) & (size > 0)
    if ends_at_best:
        return precision.masked_fill(is_above, 1.0), recall.masked_fill(is_above, 0.0)
    return precision, recall


class YoloAverages(NamedTuple):
    """The numbers of `ap_per_class` in the YOLO family, for every class that has ground truths."""

    average_precision: Float[Tensor, "thresholds classes"]
    precision: Float[Tensor, " classes"]
    """at the confidence, under the first threshold"""
    recall: Float[Tensor, " classes"]
    f1: Float[Tensor, " classes"]
    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    confidence: float
    """the confidence for precision, recall and F1"""


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
    """Compute AP, precision, recall and F1 of each class from matched detections, as in ScaledYOLOv4.

    Precision and recall are read at the confidence on straight lines between the neighboring detections, so they need
    not be a ratio of counts; above the best score they are the values of the best detection, below the worst score
    those of all detections. `at_confidence` counts instead. F1 is 2pr / (p + r + `epsilon`). All numbers are 0 without
    detections.

    Without a `confidence` they are the P and R that Ultralytics prints: at the first of 1,000 confidences from 0 to 1
    where the mean of F1 over the classes, smoothed by a moving average of 101, is highest. There precision is 1 and
    recall 0 above the best score of a class.

    Equal scores are ranked in the order of input; the sort of ScaledYOLOv4 may rank them in any order. ScaledYOLOv4
    repeats precision, recall and F1 of the first threshold for every threshold.

    Source: WongKinYiu/ScaledYOLOv4, `utils/general.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        is_true_positive: whether each detection is right at each threshold.
        scores: scores of the detections.
        labels: labels of the detections; classes without ground truths are left out.
        target_labels: labels of all ground truths.
        rule: "yolo", "yolov5", "ultralytics" or "voc", see `compute_ap`.
        confidence: the confidence for precision, recall and F1; None for the best, see above.
        end: by rule "yolo", the distance from the last recall to the recall with precision 0; 1e-5 in some copies.
        epsilon: the number in the denominator of F1.

    Raises:
        TypeError: a tensor of the wrong dtype, or an option of the wrong type.
        ValueError: shapes or devices that do not fit, a score that is not finite, an unknown `rule`, an `end` outside
            [0, 1].
    """
    is_true_positive, scores, labels, target_labels = _arrays.as_tensors(
        is_true_positive, scores, labels, target_labels
    )
    _checks.boolean_tensor("is_true_positive", is_true_positive)
    if is_true_positive.ndim != 2 or not is_true_positive.shape[1]:
        raise ValueError(f"`is_true_positive` must have shape [N, T] with T >= 1; got {list(is_true_positive.shape)}.")
    num_detections = len(is_true_positive)
    device = is_true_positive.device
    inputs.check_scores("scores", scores, num_detections, device)
    _checks.integer_labels("labels", labels, num_detections, device)
    _checks.integer_labels("target_labels", target_labels, device=device)
    _checks.one_of("rule", rule, YOLO_RULES)
    if confidence is not None:
        _checks.number("confidence", confidence)
    _checks.fraction("end", end)
    _checks.nonnegative("epsilon", epsilon)

    # By class and descending score, without detections of classes that have no ground truths and so no curve.
    classes, num_positives = target_labels.long().unique(return_counts=True)
    rows = torch.isin(labels.long(), classes).nonzero()[:, 0]
    order, class_index = inputs.order_by_class_and_score(inputs.place_of_labels(labels[rows], classes), scores[rows])
    rows = rows[order]
    is_right = is_true_positive[rows].T

    detections = JudgedDetections(is_right[0], scores[rows], class_index.long(), num_positives)
    confidence, values = read_at(detections, confidence, epsilon)
    area_rule = curves.AP_RULES[rule]
    if rule == "yolo":
        area_rule = curves.Rule(partial(trapezoids, tail=end), 101)
    precision = curves.average_precision(curves_from_flags(is_right, class_index, num_positives), area_rule)
    return YoloAverages(precision, **values, classes=classes, confidence=confidence)


def average_yolo(matches: Matches, grid: inputs.CocoGrid, *, rule: Any, confidence: float | None) -> ClassAverages:
    """Compute average precision, and precision, recall and F1 at a confidence under the first threshold, per class.

    `match_greedily` and `match_best_of_all` match as the code bases do; equal scores are ranked by image, then by row.
    The other arguments and errors are those of `yolo_average_precision`.
    """
    averages = average_matches(matches, grid, rule=rule, has_limits=False)
    # Detections of the classes with ground truths, and the place of each class among them.
    has_positives = matches.num_positives[0] > 0
    is_right, _ = matches.outcomes(0)
    class_index = matches.class_index.long()
    is_included = has_positives[class_index]
    place = (has_positives.cumsum(0) - 1)[class_index[is_included]]
    detections = JudgedDetections(
        is_right=is_right[is_included],
        scores=matches.scores[is_included],
        class_index=place,
        num_positives=matches.num_positives[0, has_positives],
    )
    confidence, values = read_at(detections, confidence, _EPSILON)
    undefined = torch.full_like(averages.recall[0, 0, 0], torch.nan)
    all_values = {name: undefined.masked_scatter(has_positives, some) for name, some in values.items()}
    return replace(averages, at_confidence=all_values, confidence=confidence)


def match_greedily(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    grid: inputs.CocoGrid,
    *,
    keep_ground_truths: bool = False,
    max_bytes: int | None = None,
) -> Matches:
    """Match each detection, by descending score, to the unmatched ground truth that it overlaps most and enough.

    Among equal overlaps the first ground truth wins. This is the matching of Ultralytics 8.4: COCO's except for equal
    overlaps, and without crowds, area ranges and limits of detections. Crowds are left out here. Ultralytics computes
    overlaps and thresholds in float32 and adds 1e-7 to the union; here both are float64 and exact, so an overlap that
    equals a threshold counts.

    Source: Ultralytics 8.4.190, `BaseValidator.match_predictions`.

    Args:
        detections: boxes with scores.
        ground_truths: boxes.
        grid: the least overlaps of a match; its limits and area ranges are not read.
        keep_ground_truths: also return the ground truth of each matched detection.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `max_bytes` below 1.
    """
    order = torch.arange(len(ground_truths.labels) - 1, -1, -1, device=ground_truths.labels.device)
    if ground_truths.is_crowd is not None:
        order = order[~ground_truths.is_crowd[order]]
    # Among equal overlaps COCO takes the last ground truth: in reversed order that is the first.
    grid = replace(
        grid,
        max_detection_thresholds=(max(1, len(detections.labels)),),
        area_ranges={"all": (-torch.inf, torch.inf)},  # inverted boxes have negative areas, and are wrong
    )
    matches = match_on_grid(
        detections,
        ground_truths.at(order),
        grid,
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes,
    )
    return matches.with_rows(torch.arange(len(detections.labels), device=order.device), order)


curves.AP_RULES["yolo"] = curves.Rule(partial(trapezoids, tail=1e-3), num_recalls=101, title="YOLO")
curves.AP_RULES["yolov5"] = curves.Rule(partial(trapezoids, tail=1.0), num_recalls=101, title="YOLOv5")
curves.AP_RULES["ultralytics"] = curves.Rule(partial(trapezoids, tail=0.0), num_recalls=101, title="Ultralytics")
# Rows are compared as parts of cache keys, and partials only equal themselves, so each is made once.
_yolo = partial(
    Evaluator,
    average=average_yolo,
    rules=YOLO_RULES,
    iou_types=("bbox",),
    reports_confidence=True,
    lists_all_classes=False,
)
_yolov4 = partial(_yolo, rule="yolo", confidence=0.1, has_breakdown=False)
EVALUATORS["ultralytics"] = _yolo("Ultralytics", match_greedily, rule="ultralytics")
EVALUATORS["scaled_yolov4"] = _yolov4("ScaledYOLOv4", partial(match_best_of_all, claim="scaled_yolov4"))
EVALUATORS["yolov4"] = _yolov4("YOLOv4", partial(match_best_of_all, claim="yolov4"))
