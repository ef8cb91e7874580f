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
    counts_crowds: bool = False
    """whether crowds are objects like all others"""


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
            if row.image == image and (rule.has_crowds or rule.counts_crowds or not row.is_crowd)
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
    "supervision": Rule(match_as_supervision, _above, counts_crowds=True),
}


class Breakdown(NamedTuple):
    """Average precision in all, and after the repair of each kind of error."""

    base: float
    repaired: dict[str, float]
    counts: dict[str, int]
    kinds: dict[int, str]


class Point(NamedTuple):
    """A detection as a curve has it."""

    label: int
    score: float
    row: int
    is_right: bool


def break_down(
    detections: Sequence[Detection],
    ground_truths: Sequence[GroundTruth],
    *,
    threshold: float,
    background: float,
    area_range: tuple[float, float],
    average_precision: Callable[[Sequence[bool], int], float],
    is_shared: bool = False,
) -> Breakdown:
    """Give every false positive its kind, and repair one kind after the other, as Bolya et al. say (TIDE, section 2).

    With `is_shared` an error of classification leaves its ground truth to an error of localization with a better score
    and the other way round, even where only one of both is repaired; tidecv has it so.
    """
    taken: dict[int, int] = {}
    for image, label in {row[:2] for row in detections}:
        found = {d: row for d, row in enumerate(detections) if row[:2] == (image, label)}
        truths = {g: row for g, row in enumerate(ground_truths) if row[:2] == (image, label)}
        taken |= match_as_coco(found, truths, threshold, lambda value, least: value >= least, area_range)
    counting = {g: row for g, row in enumerate(ground_truths) if not is_ignored(row, area_range)}
    free = counting.keys() - taken.values()
    right = {d for d, g in taken.items() if g in counting}
    outside = {
        d for d, row in enumerate(detections) if not area_range[0] <= box_area(row.box) <= area_range[1]
    } - taken.keys()
    ignored = {d for d, g in taken.items() if g not in counting} | outside
    kinds, targets = {}, {}
    for d, row in enumerate(detections):
        if d not in right and d not in ignored:
            kinds[d], targets[d] = kind_of(row, counting, threshold, background)
    would_take = {d: targets[d] for d, kind in kinds.items() if kind in ("classification", "localization")}
    missed = free - set(would_take.values())
    sizes = Counter(truth.label for truth in counting.values())
    plain = [Point(row.label, row.score, d, d in right) for d, row in enumerate(detections) if d in right or d in kinds]

    def mean(points: Sequence[Point], lost: set[int]) -> float:
        left = sizes - Counter(counting[g].label for g in lost)
        of_classes = []
        for label in sizes:
            order = sorted(
                (point for point in points if point.label == label),
                key=lambda point: (-point.score, detections[point.row].image, point.row),
            )
            verdicts = [point.is_right for point in order]
            of_classes.append(average_precision(verdicts, left[label]) if left[label] else 0.0)
        return sum(of_classes) / len(of_classes)

    repaired = {}
    for kind in ("classification", "localization", "both", "duplicate", "background"):
        points = []
        for point in plain:
            if kinds.get(point.row) != kind:
                points.append(point)
            elif point.row in would_take and wins(point.row, would_take, free, kinds, detections, is_shared=is_shared):
                points.append(point._replace(label=counting[targets[point.row]].label, is_right=True))
        repaired[kind] = mean(points, set())
    repaired["miss"] = mean(plain, missed)
    repaired["false positives"] = mean([point for point in plain if point.is_right], set())
    repaired["false negatives"] = mean(plain, free)
    return Breakdown(mean(plain, set()), repaired, {**Counter(kinds.values()), "miss": len(missed)}, kinds)


def kind_of(
    found: Detection, counting: dict[int, GroundTruth], threshold: float, background: float
) -> tuple[str, int | None]:
    """The kind of a false positive, and the ground truth that it may have meant."""
    own, own_target, other, other_target = 0.0, None, 0.0, None
    for g, truth in counting.items():
        if truth.image == found.image:
            common = iou(found.box, truth.box)
            if truth.label == found.label and common >= own and common > 0:
                own, own_target = common, g
            if truth.label != found.label and common >= other and common > 0:
                other, other_target = common, g
    if background <= own <= threshold:
        return "localization", own_target
    if other >= threshold:
        return "classification", other_target
    if own >= threshold:
        return "duplicate", None
    return ("background", None) if max(own, other) <= background else ("both", None)


def wins(row, would_take, free, kinds, detections, *, is_shared) -> bool:
    """Whether a repaired detection gets its ground truth: it is free, and no better one is repaired to it."""
    if would_take[row] not in free:
        return False
    rivals = [d for d, g in would_take.items() if g == would_take[row] and (is_shared or kinds[d] == kinds[row])]
    return row == min(rivals, key=lambda d: (-detections[d].score, detections[d].image, d))
