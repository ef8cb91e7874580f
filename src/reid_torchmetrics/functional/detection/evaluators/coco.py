"""COCO's grid of precision and recall, and the numbers that sum it up.

Source: `COCOeval.accumulate` and `COCOeval.summarize` of pycocotools.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.curves import (
    AP_RULES,
    Curves,
    average_precision,
    curves_from_matches,
    precision_at_recall,
    recalls_on,
)
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches

from .class_averages import ClassAverages

_CACHED_CELLS = 1 << 15  # matches of all area ranges and thresholds: up to here they fit a cache together
_FEW_CURVES = 1 << 10  # of an area range
_MANY_DETECTIONS, _AT_A_TIME = 1 << 20, 1 << 18  # so many are looked at by classes, about so many at a time


@dataclass(frozen=True)
class PrecisionGrid:
    """Precision and recall on COCO's grid, float64; -1 for a class without a ground truth that counts."""

    grid: CocoGrid
    classes: Int[Tensor, " classes"]
    precision: Float[Tensor, "thresholds recalls classes areas limits"]
    """the largest precision at or above each recall; 0 for a recall that is not reached"""
    recall: Float[Tensor, "thresholds classes areas limits"]
    """the largest recall"""
    scores: Float[Tensor, "thresholds recalls classes areas limits"]
    """the score that reaches each recall; 0 for a recall that is not reached"""


def evaluate_matches(matches: Matches, grid: CocoGrid) -> PrecisionGrid:
    """Precision, recall and scores of matches on the grid that they were made for.

    Raises:
        ValueError: a grid of other sizes than the matches.
    """
    _check_grid(matches, grid)
    of_limits: list[tuple[Tensor, ...]] = []
    for limit in reversed(range(len(grid.max_detection_thresholds))):
        fewer = matches.within(limit)
        # From the largest limit down; a limit that drops nothing has the numbers of the limit before.
        if fewer is not matches or not of_limits:
            matches, values = fewer, _on_curves(fewer, functools.partial(_on_grid, grid), (2, 2, 2))
        of_limits.insert(0, values)
    precision, scores, recall = map(torch.stack, zip(*of_limits, strict=True))
    return PrecisionGrid(
        grid,
        matches.classes,
        precision.permute(2, 4, 3, 1, 0),
        recall.permute(2, 3, 1, 0),
        scores.permute(2, 4, 3, 1, 0),
    )


def evaluate_headline(matches: Matches, grid: CocoGrid, *, iou_threshold: float | None = None) -> PrecisionGrid:
    """The part of `evaluate_matches` that `map` is read from: the first area range, with the limit of `map`.

    It takes a twelfth of the memory, and at one `iou_threshold` a hundredth: COCO's whole grid is large for many
    classes, 1.8 GB for 10,000.
    """
    _check_grid(matches, grid)
    first = 0 if iou_threshold is None else grid.threshold_index(iou_threshold)
    some = slice(first, None if iou_threshold is None else first + 1)
    limit = grid.official_limit
    part = matches.within(limit).map_columns(lambda values: values[:1, some], num_positives=matches.num_positives[:1])
    (area, ends), *_ = grid.area_ranges.items()
    few = CocoGrid(grid.iou_thresholds[some], grid.rec_thresholds, [grid.max_detection_thresholds[limit]], {area: ends})
    return evaluate_matches(replace(part, limits=torch.zeros_like(part.limits)), few)


def average_matches(matches: Matches, grid: CocoGrid, *, rule: Any = "coco", has_limits: bool = True) -> ClassAverages:
    """Average precision and recall of every class, without the whole grid.

    Args:
        matches: made with the thresholds, limits and area ranges of the grid.
        grid: where to look.
        rule: how a curve becomes an average precision, see `average_precision`; all but "coco" have their own recalls.
        has_limits: whether the numbers are named after area ranges and limits of detections.

    Raises:
        ValueError: an unknown `rule`, or a grid of other sizes than the matches.
    """
    needed = _check_grid(matches, grid)
    num_limits = len(grid.max_detection_thresholds)
    _checks.one_of("rule", rule, AP_RULES)
    recalls = recalls_on(matches.scores.device, tuple(grid.rec_thresholds)) if rule == "coco" else None

    def average(matches: Matches, curves: Curves) -> tuple[Tensor, Tensor]:
        return average_precision(curves, AP_RULES[rule], recalls), _recall_at_limits(matches, curves, num_limits)

    values, last = {}, num_limits - 1
    for limit in {last, grid.official_limit}:
        values[limit] = _on_curves(matches.within(limit) if limit < needed else matches, average, (2, 3))
    precision = {limit: of_limit[0] for limit, of_limit in values.items()}
    return ClassAverages(grid, matches.classes, precision, values[last][1], rule, has_limits)


def _check_grid(matches: Matches, grid: CocoGrid) -> int:
    """The number of the least limit that keeps all matches; raise unless the grid fits."""
    sizes = len(grid.area_ranges), len(grid.iou_thresholds), len(grid.max_detection_thresholds)
    needed = int(matches.limits.max()) if len(matches.limits) else 0
    shape = tuple(matches.matched.shape[:2])
    if shape != sizes[:2] or needed >= sizes[2]:
        raise ValueError(
            f"`grid` must be the one that `matches` were made with; got {sizes[0]} area ranges, {sizes[1]} thresholds"
            f" and {sizes[2]} limits for matches of {shape[0]}, {shape[1]} and at least {needed + 1}."
        )
    return needed


def _on_curves(
    matches: Matches, work: Callable[[Matches, Curves], tuple[Tensor, ...]], axes: Sequence[int]
) -> tuple[Tensor, ...]:
    """Work on the curves of one area range at a time on a CPU, to fit its cache, or of all if they are few.

    Many detections are worked on a few classes at a time, too. `axes` are those of the classes in each tensor that the
    work gives; that of area ranges is the second before it.
    """
    num_areas, classes = len(matches.matched), [slice(None)]
    is_small = matches.matched.numel() < _CACHED_CELLS and matches.matched.shape[1] * len(matches.classes) < _FEW_CURVES
    step = num_areas if is_small or matches.columns.device.type != "cpu" else 1
    if len(matches.scores) >= _MANY_DETECTIONS and step < num_areas:
        sizes = matches.class_index.bincount(minlength=len(matches.classes))
        classes = [*segments.ranges_within(sizes, _AT_A_TIME)]
    areas = segments.ranges(num_areas, step)

    def look(some: tuple[slice, slice]) -> tuple[Tensor, ...]:
        part = matches if len(classes) == 1 else matches.of_classes(some[1])
        return work(part, curves_from_matches(part, areas=some[0]))

    blocks = workers.run(lambda: workers.share(look, [*product(areas, classes)]), matches.columns.device)
    # Joined along the classes, then along the area ranges.
    joined = []
    for axis, parts in zip(axes, zip(*blocks, strict=True), strict=True):
        rows = [torch.cat(parts[first : first + len(classes)], axis) for first in range(0, len(parts), len(classes))]
        joined.append(torch.cat(rows, axis - 2))
    return tuple(joined)


def _on_grid(grid: CocoGrid, matches: Matches, curves: Curves) -> tuple[Tensor, Tensor, Tensor]:
    """Precision and scores [areas, thresholds, classes, recalls], and recall [areas, thresholds, classes]."""
    precision, point = precision_at_recall(curves, grid.rec_thresholds)
    scores = matches.scores.index_select(0, curves.places).double()
    scores = torch.cat([scores, scores.new_zeros(1)]).index_select(0, point.flatten()).view_as(precision)
    is_zero = torch.tensor([threshold <= 0 for threshold in grid.rec_thresholds], device=scores.device)
    # Any detection reaches a recall of 0: the first of its class has the highest score.
    sizes = matches.class_index.bincount(minlength=len(matches.classes))
    best = torch.cat([matches.scores.double(), scores.new_zeros(1)])[segments.starts(sizes)].where(sizes > 0, 0.0)
    scores = torch.where(is_zero, best[:, None], scores)
    undefined = curves.num_positives == 0
    recall = (curves.num_true_positives / curves.num_positives.double()).masked_fill(undefined, -1.0)
    return precision.masked_fill(undefined[..., None], -1.0), scores.masked_fill(undefined[..., None], -1.0), recall


def _recall_at_limits(matches: Matches, curves: Curves, num_limits: int) -> Float[Tensor, "limits *curves"]:  # noqa: UP037
    """Largest recall under each limit: matching is the same, and true positives beyond the limit do not count."""
    shape = curves.num_true_positives.shape
    key = curves.curve * num_limits + matches.limits.index_select(0, curves.places)
    num_right = key.bincount(minlength=shape.numel() * num_limits).view(*shape, num_limits).cumsum(-1)
    return num_right.movedim(-1, 0) / curves.num_positives.double()
