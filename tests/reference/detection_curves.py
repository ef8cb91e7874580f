"""Average precision and operating points from their definitions: every detection of a curve, one after the other.

Also the matchings of Pascal VOC and of Ultralytics. The package is compared with this module, so nothing here may come
from the package.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference.detection import Box, Detection, GroundTruth, iou, match

Array = NDArray[np.float64]
Verdict = bool | None
"""of a detection: right, wrong, or ignored"""

HUNDREDTHS = np.linspace(0, 1, 101)
ELEVENTHS = np.linspace(0, 1, 11)


def precision_and_recall(
    verdicts: Sequence[Verdict], num_positives: int, added: float = 0.0
) -> tuple[list[float], list[float]]:
    """Precision and recall after every detection that is not ignored."""
    precision, recall, num_right = [], [], 0
    for count, verdict in enumerate((verdict for verdict in verdicts if verdict is not None), start=1):
        num_right += verdict
        precision.append(num_right / (count + added))
        recall.append(num_right / num_positives)
    return precision, recall


def envelope(precision: Sequence[float]) -> list[float]:
    """The largest precision at each place or later."""
    return [max(precision[place:]) for place in range(len(precision))]


def mean_at_recalls(
    verdicts: Sequence[Verdict], num_positives: int, recalls: Sequence[float], added: float = 0.0
) -> float:
    """Mean over some recalls of the largest precision at that recall or a higher one, 0 where it is not reached."""
    points = list(zip(*precision_and_recall(verdicts, num_positives, added), strict=True))
    return math.fsum(max((p for p, r in points if r >= least), default=0.0) for least in recalls) / len(recalls)


def area_of_steps(verdicts: Sequence[Verdict], num_positives: int) -> float:
    """Sum over all steps of recall of their width times the envelope at their right end."""
    precision, recall = precision_and_recall(verdicts, num_positives)
    widths = [after - before for before, after in zip([0.0, *recall], recall, strict=False)]
    return math.fsum(width * height for width, height in zip(widths, envelope(precision), strict=True))


class Ends(NamedTuple):
    """What a YOLO evaluator puts around a curve: a precision at recall 0, and where precision is 0 at the end."""

    first_precision: float
    last_recalls: Callable[[float], list[float]]


ENDS: Mapping[str, Ends] = {
    "yolo": Ends(0.0, lambda last: [min(last + 1e-3, 1.0)]),
    "tutorial": Ends(0.0, lambda last: [min(last + 1e-5, 1.0)]),
    "yolov5": Ends(1.0, lambda _: [1.0]),
    "ultralytics": Ends(1.0, lambda last: [last, 1.0]),
}


def closed_curve(verdicts: Sequence[Verdict], num_positives: int, ends: Ends) -> tuple[Array, Array]:
    """Recall and envelope of a curve between its ends."""
    precision, recall = precision_and_recall(verdicts, num_positives)
    behind = ends.last_recalls(recall[-1])
    heights = envelope([ends.first_precision, *precision, *(0.0 for _ in behind)])
    return np.array([0.0, *recall, *behind]), np.array(heights)


def trapezoids(
    verdicts: Sequence[Verdict], num_positives: int, ends: Ends, recalls: Sequence[float] = tuple(HUNDREDTHS)
) -> float:
    """Trapezoids between some recalls under the straight lines through a closed curve; 0 without detections."""
    if all(verdict is None for verdict in verdicts):
        return 0.0
    heights = np.interp(recalls, *closed_curve(verdicts, num_positives, ends))
    return math.fsum((heights[1:] + heights[:-1]) / 2 * np.diff(recalls))


def area_of_left_steps(verdicts: Sequence[Verdict], num_positives: int, ends: Ends) -> float:
    """Sum over all steps of a closed curve of their width times the envelope at their left end.

    A tutorial has it as "continue". No evaluator that anyone reports has, so the package has not.
    """
    recall, heights = closed_curve(verdicts, num_positives, ends)
    return math.fsum(np.diff(recall) * heights[:-1])


RULES: Mapping[str, Callable[[Sequence[Verdict], int], float]] = {
    "coco": lambda verdicts, size: mean_at_recalls(verdicts, size, HUNDREDTHS, 2.0**-52),
    "voc07": lambda verdicts, size: mean_at_recalls(verdicts, size, ELEVENTHS),
    "voc": area_of_steps,
    "yolo": lambda verdicts, size: trapezoids(verdicts, size, ENDS["yolo"]),
    "yolov5": lambda verdicts, size: trapezoids(verdicts, size, ENDS["yolov5"]),
    "ultralytics": lambda verdicts, size: trapezoids(verdicts, size, ENDS["ultralytics"]),
}


def average_precision(verdicts: Sequence[Verdict], num_positives: int, rule: str) -> float:
    """AP by a rule; NaN without ground truths."""
    return RULES[rule](verdicts, num_positives) if num_positives else math.nan


def pixel_iou(box: Box, other: Box) -> float:
    """Intersection over union in pixels: the far edges are inside."""
    width = min(box[0] + box[2] + 1, other[0] + other[2] + 1) - max(box[0], other[0])
    height = min(box[1] + box[3] + 1, other[1] + other[3] + 1) - max(box[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = ((width + 1) * (height + 1) for _, _, width, height in (box, other))
    return width * height / (sum(areas) - width * height)


def ranked(detections: Sequence[Detection], label: int) -> list[int]:
    """Rows of the detections of a class by descending score, equal scores by image and row."""
    rows = [row for row, detection in enumerate(detections) if detection.label == label]
    return sorted(rows, key=lambda row: (-detections[row].score, detections[row].image, row))


def voc_verdicts(
    detections: Sequence[Detection],
    ground_truths: Sequence[GroundTruth],
    is_difficult: Sequence[bool],
    label: int,
    threshold: float,
    overlap: Callable[[Box, Box], float] = pixel_iou,
) -> list[Verdict]:
    """Judge the detections of a class, best first, as VOC does: each has one ground truth, taken or not."""
    verdicts: list[Verdict] = []
    taken = set()
    for row in ranked(detections, label):
        detection = detections[row]
        best, largest = None, 0.0
        for place, truth in enumerate(ground_truths):
            if truth.image == detection.image and truth.label == label and not truth.is_crowd:
                common = overlap(detection.box, truth.box)
                if common > largest:
                    best, largest = place, common
        if best is None or largest < threshold:
            verdicts.append(False)
        elif is_difficult[best]:
            verdicts.append(None)
        else:
            verdicts.append(best not in taken)
            taken.add(best)
    return verdicts


def greedy_rows(
    detections: Sequence[Detection], ground_truths: Sequence[GroundTruth], threshold: float
) -> Iterator[int]:
    """Rows of the detections that find, by descending score, a ground truth that is left, the best and first one."""
    taken: set[int] = set()
    for row in sorted(range(len(detections)), key=lambda row: -detections[row].score):
        detection = detections[row]
        best, largest = None, 0.0
        for place, truth in enumerate(ground_truths):
            if truth[:2] == detection[:2] and not truth.is_crowd and place not in taken:
                common = iou(detection.box, truth.box)
                if common > largest:
                    best, largest = place, common
        if best is not None and largest >= threshold:
            taken.add(best)
            yield row


def at_confidence_on_lines(scores: Sequence[float], values: Sequence[float], confidence: float) -> float:
    """Read a value at a confidence on the line between two detections; outside all scores that of the nearest."""
    points = list(zip(scores, values, strict=True))
    if confidence > scores[0] or not points:
        return points[0][1]
    place = max(place for place, score in enumerate(scores) if score >= confidence)
    if place + 1 == len(points) or scores[place] == confidence:
        return points[place][1]
    (above, high), (below, low) = points[place : place + 2]
    return high + (low - high) * (above - confidence) / (above - below)


class Scored(NamedTuple):
    score: float
    verdict: Verdict


def coco_verdicts(
    detections: Sequence[Detection],
    ground_truths: Sequence[GroundTruth],
    *,
    label: int,
    threshold: float,
    area_range: tuple[float, float],
    max_detection_thresholds: tuple[int, int],
) -> tuple[list[Scored], int]:
    """Judge the detections of a class as COCO does, in any order, and count its ground truths that matter.

    `max_detection_thresholds` are how many of an image are matched, and how many of those count.
    """
    found: list[Scored] = []
    num_positives = 0
    for image in {row.image for row in (*detections, *ground_truths)}:
        ranked_rows = [row for row in ranked(detections, label) if detections[row].image == image]
        outcomes = match(
            {row: detections[row] for row in ranked_rows[: max_detection_thresholds[0]]},
            {row: truth for row, truth in enumerate(ground_truths) if truth[:2] == (image, label)},
            threshold=threshold,
            area_range=area_range,
        )
        counting = [truth for truth in ground_truths if truth[:2] == (image, label) and not truth.is_crowd]
        num_positives += sum(area_range[0] <= truth.area <= area_range[1] for truth in counting)
        found += [
            Scored(row.score, None if row.is_ignored else row.ground_truth >= 0)
            for row in outcomes[: max_detection_thresholds[1]]
        ]
    return found, num_positives


class Counts(NamedTuple):
    num_true_positives: int
    num_detections: int


def counts_at(found: Sequence[Scored], confidence: float) -> Counts:
    """Count the detections that are not ignored and score at least a confidence."""
    verdicts = [row.verdict for row in found if row.score >= confidence and row.verdict is not None]
    return Counts(sum(verdicts), len(verdicts))


def f1(counts: Counts, num_positives: int) -> float:
    """Harmonic mean of precision and recall, as a share of counts."""
    total = counts.num_detections + num_positives
    return 2 * counts.num_true_positives / total if total else math.nan


def best_confidence(found: Sequence[Scored], num_positives: int) -> float:
    """The highest of the scores with the largest F1, infinity if that is 0."""
    best, largest = math.inf, 0.0
    for confidence in sorted({row.score for row in found}, reverse=True):
        value = f1(counts_at(found, confidence), num_positives)
        if value > largest:
            best, largest = confidence, value
    return best
