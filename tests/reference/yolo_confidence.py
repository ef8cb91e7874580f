"""Where Ultralytics takes precision and recall, by loops over confidences."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.detection_curves import at_confidence_on_lines, precision_and_recall


class JudgedClass(NamedTuple):
    scores: Sequence[float]
    """descending"""
    verdicts: Sequence[bool]
    num_positives: int


def precision_and_recall_at(judged: JudgedClass, confidence: float) -> tuple[float, float]:
    """On lines between detections; 1 and 0 above the best score, 0 of a class without detections."""
    if not judged.scores:
        return 0.0, 0.0
    if confidence > judged.scores[0]:
        return 1.0, 0.0
    points = precision_and_recall(judged.verdicts, judged.num_positives)
    precision, recall = (at_confidence_on_lines(judged.scores, values, confidence) for values in points)
    return precision, recall


def smoothed_f1(classes: Sequence[JudgedClass]) -> list[float]:
    """The mean of F1 over the classes at k / 999, averaged with those at up to 50 places before and behind.

    Before the first and behind the last there are as many as they are.
    """
    means = []
    for k in range(1000):
        read = [precision_and_recall_at(judged, k / 999) for judged in classes]
        f1 = [2 * precision * recall / (precision + recall + 1e-16) for precision, recall in read]
        means.append(math.fsum(f1) / len(f1))
    return [math.fsum(means[min(max(k + step, 0), 999)] for step in range(-50, 51)) / 101 for k in range(1000)]
