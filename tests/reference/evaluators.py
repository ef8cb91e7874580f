"""Whole evaluations by the name of an evaluator: a mean over classes of average precision, from loops of this folder.

The package is compared with this module, so nothing here may come from the package. Images are annotated in full, and
have neither crowds nor difficult objects.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tests.reference import best_of_all, detection_curves
from tests.reference.detection import IOU_THRESHOLDS, Detection, GroundTruth, Setting, evaluate

Verdict = detection_curves.Verdict
Judge = Callable[[Sequence[Detection], Sequence[GroundTruth], int, float], list[Verdict]]
"""the verdicts of the detections of a class, best first, at a threshold"""


def coco(detections: Sequence[Detection], truths: Sequence[GroundTruth], limits: Sequence[int]) -> float:
    """The mean average precision of COCO, with limits of detections."""
    classes = sorted({row.label for row in (*detections, *truths)})
    return evaluate(detections, truths, Setting(classes, max_detection_thresholds=limits)).summary()["map"]


def mean_over_classes(
    detections: Sequence[Detection],
    truths: Sequence[GroundTruth],
    *,
    judge: Judge,
    rule: str,
    thresholds: Sequence[float] = IOU_THRESHOLDS,
) -> float:
    """The mean over thresholds and classes with ground truths of average precision by a rule."""
    values = []
    for label in sorted({truth.label for truth in truths}):
        num_positives = sum(truth.label == label for truth in truths)
        for threshold in thresholds:
            verdicts = judge(detections, truths, label, threshold)
            values.append(detection_curves.average_precision(verdicts, num_positives, rule) if verdicts else 0.0)
    return math.fsum(values) / len(values)


def by_voc(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], label: int, threshold: float
) -> list[Verdict]:
    """Pascal VOC, whose boxes are whole pixels."""
    return detection_curves.voc_verdicts(detections, truths, [False] * len(truths), label, threshold)


def by_rows_taken(
    detections: Sequence[Detection],
    truths: Sequence[GroundTruth],
    label: int,
    threshold: float,
    *,
    matching: best_of_all.Matching,
) -> list[Verdict]:
    """A matching that looks at all thresholds at once."""
    taken = matching(detections, truths, IOU_THRESHOLDS)
    place = list(IOU_THRESHOLDS).index(threshold)
    return [taken[row][place] is not None for row in detection_curves.ranked(detections, label)]


def greedily(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], label: int, threshold: float
) -> list[Verdict]:
    """A detection takes the best ground truth that is left."""
    found = set(detection_curves.greedy_rows(detections, truths, threshold))
    return [row in found for row in detection_curves.ranked(detections, label)]


_yolov4 = partial(by_rows_taken, matching=best_of_all.yolov4)
_scaled_yolov4 = partial(by_rows_taken, matching=best_of_all.scaled_yolov4)
EVALUATORS: Mapping[str, Callable[[Sequence[Detection], Sequence[GroundTruth]], Any]] = {
    "coco": partial(coco, limits=(1, 10, 100)),
    "lvis": partial(coco, limits=(300,)),
    "lvis_fixed": partial(coco, limits=(10_000,)),
    "voc": partial(mean_over_classes, judge=by_voc, rule="voc", thresholds=(0.5,)),
    "ultralytics": partial(mean_over_classes, judge=greedily, rule="ultralytics"),
    "scaled_yolov4": partial(mean_over_classes, judge=_scaled_yolov4, rule="yolo"),
    "yolov4": partial(mean_over_classes, judge=_yolov4, rule="yolo"),
}
"""the mean average precision with the default options, by the name of an evaluator"""
