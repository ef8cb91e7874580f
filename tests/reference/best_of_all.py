"""The matchings in which a detection belongs to the ground truth that it overlaps most: loops over detections.

The package is compared with this module, so nothing here may come from the package.
"""

from collections.abc import Callable, Mapping, Sequence

from tests.reference.detection import Detection, GroundTruth, iou
from tests.reference.detection_curves import ranked


def best_of(detection: Detection, truths: Sequence[GroundTruth]) -> tuple[int | None, float]:
    """Row of the ground truth with the largest overlap, the first of equal ones, and that overlap."""
    best, largest = None, 0.0
    for row, truth in enumerate(truths):
        if truth[:2] == detection[:2] and not truth.is_crowd:
            common = iou(detection.box, truth.box)
            if common > largest:
                best, largest = row, common
    return best, largest


def scaled_yolov4(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], thresholds: Sequence[float]
) -> list[list[int | None]]:
    """The row of the ground truth that each detection takes, for each threshold."""
    taken: list[list[int | None]] = [[None] * len(thresholds) for _ in detections]
    detected: set[int] = set()
    for label in {detection.label for detection in detections}:
        for row in ranked(detections, label):
            best, largest = best_of(detections[row], truths)
            if best is not None and largest > thresholds[0] and best not in detected:
                detected.add(best)
                taken[row] = [best if largest > threshold else None for threshold in thresholds]
    return taken


def yolov4(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], thresholds: Sequence[float]
) -> list[list[int | None]]:
    """As above: right is the best overlap, unless a detection with a higher confidence has the same best."""
    taken: list[list[int | None]] = [[None] * len(thresholds) for _ in detections]
    seen: set[int] = set()
    for label in {detection.label for detection in detections}:
        for row in ranked(detections, label):
            best, largest = best_of(detections[row], truths)
            if best is not None and best not in seen:
                seen.add(best)
                taken[row] = [best if largest >= threshold else None for threshold in thresholds]
    return taken


def voc(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], thresholds: Sequence[float]
) -> list[list[int | None]]:
    """As above: right is the first that reaches the threshold."""
    taken: list[list[int | None]] = [[None] * len(thresholds) for _ in detections]
    for place, threshold in enumerate(thresholds):
        seen: set[int] = set()
        for label in {detection.label for detection in detections}:
            for row in ranked(detections, label):
                best, largest = best_of(detections[row], truths)
                if best is not None and largest >= threshold and best not in seen:
                    seen.add(best)
                    taken[row][place] = best
    return taken


def dota(
    detections: Sequence[Detection], truths: Sequence[GroundTruth], thresholds: Sequence[float]
) -> list[list[int | None]]:
    """As above: right is the first that is above the threshold; an overlap at it may be rounded up."""
    return voc(detections, truths, [threshold + 2e-12 for threshold in thresholds])


Matching = Callable[[Sequence[Detection], Sequence[GroundTruth], Sequence[float]], list[list[int | None]]]
MATCHINGS: Mapping[str, Matching] = {"voc": voc, "dota": dota, "scaled_yolov4": scaled_yolov4, "yolov4": yolov4}
