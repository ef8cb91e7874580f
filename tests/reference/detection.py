"""Detection as COCO evaluates it, from its definition: one image, class, area range and threshold at a time.

Python lists, float64, no cleverness. The package is compared with this module, so nothing here may come from the
package.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]
"""x and y of a corner, width, height"""

Taken = dict[tuple[int, int, str, int], dict[int, int]]
"""by image, class, area range and place of the threshold: row of each matched detection, and of what it took"""

AREA_RANGES = {"all": (0.0, 1e10), "small": (0.0, 1024.0), "medium": (1024.0, 9216.0), "large": (9216.0, 1e10)}
IOU_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
RECALL_THRESHOLDS = tuple(np.linspace(0, 1, 101).tolist())
HIGHEST_THRESHOLD = 1 - 1e-10
"""what COCO asks of an IoU where its threshold is higher still"""


class Detection(NamedTuple):
    image: int
    label: int
    box: Box
    score: float


class GroundTruth(NamedTuple):
    image: int
    label: int
    box: Box
    is_crowd: bool
    area: float


def iou(box: Box, other: Box, *, is_crowd: bool = False) -> float:
    """Intersection over union; where `other` is a crowd, over the area of `box` alone.

    It is 0 where an edge of the box is NaN, as x + width is of -inf and inf.
    """
    if math.isnan(box[0] + box[2]) or math.isnan(box[1] + box[3]):
        return 0.0
    width = min(box[0] + box[2], other[0] + other[2]) - max(box[0], other[0])
    height = min(box[1] + box[3], other[1] + other[3]) - max(box[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    intersection = width * height
    union = box[2] * box[3] if is_crowd else box[2] * box[3] + other[2] * other[3] - intersection
    return intersection / union


def box_area(box: Box) -> float:
    return box[2] * box[3]


@dataclass(frozen=True)
class Setting:
    """What is evaluated. Area ranges are closed intervals; limits are of an image and class, ascending."""

    classes: Sequence[int]
    iou_thresholds: Sequence[float] = IOU_THRESHOLDS
    rec_thresholds: Sequence[float] = RECALL_THRESHOLDS
    max_detection_thresholds: Sequence[int] = (1, 10, 100)
    area_ranges: Mapping[str, tuple[float, float]] | None = None
    overlap: Callable[..., float] = iou
    """of a detection and a ground truth; rows may hold other shapes than boxes"""
    area_of: Callable[..., float] = box_area
    """of a detection"""

    @property
    def areas(self) -> Mapping[str, tuple[float, float]]:
        return AREA_RANGES if self.area_ranges is None else self.area_ranges


class Outcome(NamedTuple):
    """What became of a detection at one threshold, in one area range."""

    detection: int
    score: float
    ground_truth: int
    """row of the ground truth that it took, -1 for none"""
    is_ignored: bool


@dataclass(frozen=True)
class Evaluation:
    """Arrays over IoU thresholds T, recall thresholds R, classes K, area ranges A, limits M; -1 without positives."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    scores: NDArray[np.float64]
    taken: Taken
    """only where something was taken"""
    setting: Setting

    def summary(self) -> dict[str, float]:
        """Return COCO's 12 numbers: `map` with at most 100 detections where that is a limit, else as the others.

        Those are with as many detections as there may be, but for `mar_1` and so on.
        """
        limits = list(self.setting.max_detection_thresholds)
        official = limits.index(100) if 100 in limits else -1
        numbers = {
            "map": self._ap(limit=official),
            "map_50": self._ap(threshold=0.5),
            "map_75": self._ap(threshold=0.75),
        }
        numbers |= {f"map_{size}": self._ap(size) for size in SIZES}
        numbers |= {f"mar_{most}": self._ar(limit=m) for m, most in enumerate(limits)}
        return numbers | {f"mar_{size}": self._ar(size) for size in SIZES}

    def _ap(self, area: str = "all", *, threshold: float | None = None, limit: int = -1) -> float:
        thresholds = self.setting.iou_thresholds
        chosen = [t for t, value in enumerate(thresholds) if threshold is None or value == threshold]
        return _mean_of_defined(self.precision[chosen, :, :, list(self.setting.areas).index(area), limit])

    def _ar(self, area: str = "all", limit: int = -1) -> float:
        return _mean_of_defined(self.recall[:, :, list(self.setting.areas).index(area), limit])


SIZES = ("small", "medium", "large")


def evaluate(detections: Sequence[Detection], ground_truths: Sequence[GroundTruth], setting: Setting) -> Evaluation:
    """Match, and accumulate over the images; labels that are not among the classes do not take part."""
    sizes = [len(setting.iou_thresholds), len(setting.rec_thresholds), len(setting.classes)]
    shape = (*sizes, len(setting.areas), len(setting.max_detection_thresholds))
    precision, scores = np.full(shape, -1.0), np.full(shape, -1.0)
    recall = np.full((shape[0], *shape[2:]), -1.0)
    taken: Taken = {}
    found_in, truths_in = _rows_by_group(detections), _rows_by_group(ground_truths)
    images = sorted({row.image for row in (*detections, *ground_truths)})
    for (k, label), (a, (area, area_range)), (t, threshold) in product(
        enumerate(setting.classes), enumerate(setting.areas.items()), enumerate(setting.iou_thresholds)
    ):
        outcomes, num_positives = [], 0
        for image in images:
            truths = {g: ground_truths[g] for g in truths_in[image, label]}
            ranked = sorted(found_in[image, label], key=lambda d: -detections[d].score)
            found = {d: detections[d] for d in ranked[: setting.max_detection_thresholds[-1]]}
            shapes = {"overlap": setting.overlap, "area_of": setting.area_of}
            outcomes.append(match(found, truths, threshold=threshold, area_range=area_range, **shapes))
            num_positives += sum(not _is_ignored(truth, area_range) for truth in truths.values())
            pairs = {row.detection: row.ground_truth for row in outcomes[-1] if row.ground_truth >= 0}
            taken |= {(image, label, area, t): pairs} if pairs else {}
        for m, most in enumerate(setting.max_detection_thresholds):
            kept = [row for of_image in outcomes for row in of_image[:most]]
            if num_positives:
                of_curve = accumulate(kept, num_positives, setting.rec_thresholds)
                recall[t, k, a, m], precision[t, :, k, a, m], scores[t, :, k, a, m] = of_curve
    return Evaluation(precision, recall, scores, taken, setting)


def _rows_by_group(rows: Sequence[Detection] | Sequence[GroundTruth]) -> dict[tuple[int, int], list[int]]:
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row.image, row.label].append(place)
    return groups


def match(
    detections: Mapping[int, Detection],
    ground_truths: Mapping[int, GroundTruth],
    *,
    threshold: float,
    area_range: tuple[float, float],
    overlap: Callable[..., float] = iou,
    area_of: Callable[..., float] = box_area,
) -> list[Outcome]:
    """Let the detections of one image and class, best first, each take one of its ground truths.

    A detection may take what overlaps it by the threshold or more and is free; a crowd is always free. It takes one
    that counts before one that is ignored (a crowd, or outside the area range), then the one of the highest IoU,
    then the last. It is ignored with what it takes, and on its own account where it takes nothing and its area is
    outside the range.
    """
    outcomes: list[Outcome] = []
    for d, detection in detections.items():
        gone = {row.ground_truth for row in outcomes}
        best, best_rank = -1, (False, -1.0)
        for g, truth in ground_truths.items():
            overlapped = overlap(detection.box, truth.box, is_crowd=truth.is_crowd)
            rank = (not _is_ignored(truth, area_range), overlapped)
            is_free = truth.is_crowd or g not in gone
            if is_free and overlapped >= min(threshold, HIGHEST_THRESHOLD) and rank >= best_rank:
                best, best_rank = g, rank
        if best >= 0:
            is_ignored = _is_ignored(ground_truths[best], area_range)
        else:
            is_ignored = _is_outside(area_of(detection.box), area_range)
        outcomes.append(Outcome(d, detection.score, best, is_ignored))
    return outcomes


def accumulate(
    outcomes: Sequence[Outcome], num_positives: int, rec_thresholds: Sequence[float]
) -> tuple[float, list[float], list[float]]:
    """Return the recall of all detections, and the precision and the score at each recall threshold.

    The precision at a recall is the highest at that recall or a higher one, the score that of the first detection to
    reach it, ignored ones included; both are 0 where no detection does. COCO divides by the number of detections
    plus the distance from 1 to the next number, so a first true positive has precision 0.9999999999999998.
    """
    ranked = sorted(outcomes, key=lambda row: -row.score)
    num_true, num_false = 0, 0
    recalls, precisions = [], []
    for row in ranked:
        num_true += row.ground_truth >= 0 and not row.is_ignored
        num_false += row.ground_truth < 0 and not row.is_ignored
        recalls.append(num_true / num_positives)
        precisions.append(num_true / (num_true + num_false + math.ulp(1.0)))
    precision_at, score_at = [], []
    for threshold in rec_thresholds:
        reached = [n for n, recall in enumerate(recalls) if recall >= threshold]
        precision_at.append(max(precisions[reached[0] :]) if reached else 0.0)
        score_at.append(ranked[reached[0]].score if reached else 0.0)
    return recalls[-1] if ranked else 0.0, precision_at, score_at


def _is_ignored(truth: GroundTruth, area_range: tuple[float, float]) -> bool:
    return truth.is_crowd or _is_outside(truth.area, area_range)


def _is_outside(area: float, area_range: tuple[float, float]) -> bool:
    """As pycocotools asks it, so that NaN is outside of nothing."""
    return area < area_range[0] or area > area_range[1]


def _mean_of_defined(values: NDArray[np.float64]) -> float:
    defined = values[values > -1].tolist()
    return math.fsum(defined) / len(defined) if defined else -1.0


def keep_boxes(
    corners: NDArray[np.floating], scores: Sequence[float], groups: Sequence[int], above: float
) -> list[int]:
    """Non-maximum suppression: rows from the highest score down, but for those that a kept box of the group overlaps.

    Corners [N, 4] are computed with in their own dtype.
    """
    kept: list[int] = []
    for row in sorted(range(len(scores)), key=lambda row: -scores[row]):
        rivals = [other for other in kept if groups[other] == groups[row]]
        if not any(float(_corner_iou(corners[row], corners[other])) > above for other in rivals):
            kept.append(row)
    return kept


def _corner_iou(box: NDArray[np.floating], other: NDArray[np.floating]) -> np.floating:
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    common = np.prod(np.maximum(sides, sides.dtype.type(0)))
    union = np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - common
    return common / union if union else union
