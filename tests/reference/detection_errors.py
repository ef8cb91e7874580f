"""Errors of detections across classes, from their definitions: one image after another, in loops.

The package is compared with this module, so nothing here may come from the package.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.reference.detection import HIGHEST_THRESHOLD, Detection, GroundTruth, box_area, iou

BACKGROUND = "background"
Cells = Counter[tuple[int | str, int | str]]
"""how often a ground truth of the first class was detected as the second"""


class Rule(NamedTuple):
    """Who takes whom; see the rules below."""

    match: Callable[..., dict[int, int]]
    is_above: Callable[[float, float], bool] = lambda value, least: value >= least
    scores_enough: Callable[[float, float], bool] = lambda value, least: value >= least
    has_crowds: bool = False


def confusion(
    detections: Sequence[Detection],
    ground_truths: Sequence[GroundTruth],
    rule: Rule,
    *,
    threshold: float,
    confidence: float,
    area_range: tuple[float, float] = (0.0, float("inf")),
) -> Cells:
    """Count the classes of all pairs, and what is left over on both sides."""
    cells: Cells = Counter()
    for image in {row.image for row in (*detections, *ground_truths)}:
        found = {
            d: row
            for d, row in enumerate(detections)
            if row.image == image and rule.scores_enough(row.score, confidence)
        }
        truths = {
            g: row
            for g, row in enumerate(ground_truths)
            if row.image == image and (rule.has_crowds or not row.is_crowd)
        }
        taken = rule.match(found, truths, threshold, rule.is_above, area_range)
        for d, row in found.items():
            if d not in taken:
                if not rule.has_crowds or area_range[0] <= box_area(row.box) <= area_range[1]:
                    cells[BACKGROUND, row.label] += 1
            elif not (rule.has_crowds and is_ignored(truths[taken[d]], area_range)):
                cells[truths[taken[d]].label, row.label] += 1
        for g, truth in truths.items():
            if g not in taken.values() and not (rule.has_crowds and is_ignored(truth, area_range)):
                cells[truth.label, BACKGROUND] += 1
    return cells


def is_ignored(truth: GroundTruth, area_range: tuple[float, float]) -> bool:
    return truth.is_crowd or not area_range[0] <= truth.area <= area_range[1]


def match_as_coco(found, truths, threshold, is_above, area_range) -> dict[int, int]:
    """Best score first, each takes what counts before what is ignored, then the largest overlap, then the last."""
    taken: dict[int, int] = {}
    for d in sorted(found, key=lambda d: -found[d].score):
        best, best_rank = None, (False, -1.0)
        for g, truth in truths.items():
            common = iou(found[d].box, truth.box, is_crowd=truth.is_crowd)
            rank = (not is_ignored(truth, area_range), common)
            is_free = truth.is_crowd or g not in taken.values()
            if is_free and is_above(common, min(threshold, HIGHEST_THRESHOLD)) and rank >= best_rank:
                best, best_rank = g, rank
        if best is not None:
            taken[d] = best
    return taken


def match_as_hotcoco(found, truths, threshold, is_above, _) -> dict[int, int]:
    """Best score first, of equal ones the smallest label; each takes the largest overlap, then the last by label."""
    taken: dict[int, int] = {}
    for d in sorted(found, key=lambda d: (-found[d].score, found[d].label)):
        best, best_rank = None, (-1.0, -1)
        for g in sorted(truths, key=lambda g: truths[g].label):
            common = iou(found[d].box, truths[g].box)
            if g not in taken.values() and is_above(common, threshold) and (common, truths[g].label) >= best_rank:
                best, best_rank = g, (common, truths[g].label)
        if best is not None:
            taken[d] = best
    return taken


def match_as_ultralytics(found, truths, threshold, is_above, _) -> dict[int, int]:
    """Best score first, each takes the largest overlap that is left, the first of equal ones."""
    taken: dict[int, int] = {}
    for d in sorted(found, key=lambda d: -found[d].score):
        best, largest = None, 0.0
        for g, truth in truths.items():
            common = iou(found[d].box, truth.box)
            if g not in taken.values() and is_above(common, threshold) and common > largest:
                best, largest = g, common
        if best is not None:
            taken[d] = best
    return taken


def match_as_supervision(found, truths, threshold, is_above, _) -> dict[int, int]:
    """Pairs of one class first, then by overlap, whatever the scores; a pair is taken where both are left."""
    pairs = [(g, d, iou(found[d].box, truth.box)) for g, truth in truths.items() for d in found]
    pairs = [pair for pair in pairs if is_above(pair[2], threshold)]
    taken: dict[int, int] = {}
    for g, d, _ in sorted(pairs, key=lambda pair: (truths[pair[0]].label != found[pair[1]].label, -pair[2])):
        if d not in taken and g not in taken.values():
            taken[d] = g
    return taken


def _above(value: float, least: float) -> bool:
    return value > least


RULES = {
    "coco": Rule(match_as_coco, has_crowds=True),
    "hotcoco": Rule(match_as_hotcoco),
    "ultralytics": Rule(match_as_ultralytics, _above, _above),
    "supervision": Rule(match_as_supervision, _above),
}
