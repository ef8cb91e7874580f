"""COCO's grid of precision and recall, and the averages over it.

Source: `COCOeval.accumulate` and `COCOeval.summarize` of pycocotools.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

_CACHED_CELLS = 1 << 15  # below this number the matches of all area ranges and thresholds fit a cache together
_FEW_CURVES = 1 << 10  # in an area range
_MANY_DETECTIONS = 1 << 20  # from this number on they are evaluated a few classes at a time
_DETECTIONS_AT_A_TIME = 1 << 18


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
    """Compute precision, recall and scores on the grid of the matches.

    Raises:
        ValueError: a grid of other sizes than the matches.
    """
    _check_grid(matches, grid)
    # From the largest limit down, because a limit that drops nothing has the same values as the next larger one.
    values_of_limits: list[tuple[Tensor, ...]] = []
    for limit in reversed(range(len(grid.max_detection_thresholds))):
        matches_within = matches.within(limit)
        if matches_within is not matches or not values_of_limits:
            matches = matches_within
            values = _on_curves(matches, functools.partial(_on_grid, grid), class_axes=(2, 2, 2))
        values_of_limits.append(values)
    values_of_limits.reverse()
    precision, scores, recall = map(torch.stack, zip(*values_of_limits, strict=True))
    return PrecisionGrid(
        grid=grid,
        classes=matches.classes,
        precision=precision.permute(2, 4, 3, 1, 0),
        recall=recall.permute(2, 3, 1, 0),
        scores=scores.permute(2, 4, 3, 1, 0),
    )


def average_matches(
    matches: Matches,
    grid: CocoGrid,
    *,
    rule: Any = "coco",
    confidence: float | None = None,  # noqa: ARG001 - the averages of other evaluators depend on it
    has_limits: bool = True,
) -> ClassAverages:
    """Compute average precision and recall of every class, without the whole grid.

    Args:
        matches: matches with the thresholds, limits and area ranges of the grid.
        grid: the grid of the matches.
        rule: the rule of average precision, see `average_precision`; all but "coco" have their own recalls.
        confidence: not read, because none of the numbers depends on a confidence.
        has_limits: whether the numbers are named after area ranges and limits of detections.

    Raises:
        ValueError: an unknown `rule`, or a grid of other sizes than the matches.
    """
    needed_limit = _check_grid(matches, grid)
    num_limits = len(grid.max_detection_thresholds)
    _checks.one_of("rule", rule, AP_RULES)
    recalls = recalls_on(matches.scores.device, tuple(grid.rec_thresholds)) if rule == "coco" else None

    def average(matches: Matches, curves: Curves) -> tuple[Tensor, Tensor]:
        # Recall under each limit counts the same matches, without true positives beyond the limit.
        shape = curves.num_true_positives.shape
        key = curves.curve * num_limits + matches.limits.index_select(0, curves.places)
        num_right = key.bincount(minlength=shape.numel() * num_limits).view(*shape, num_limits).cumsum(-1)
        recall_at_limits = num_right.movedim(-1, 0) / curves.num_positives.double()
        return average_precision(curves, AP_RULES[rule], recalls), recall_at_limits

    precision = {}
    recall = {}
    for limit in {num_limits - 1, grid.official_limit}:
        matches_within = matches.within(limit) if limit < needed_limit else matches
        precision[limit], recall[limit] = _on_curves(matches_within, average, class_axes=(2, 3))
    return ClassAverages(
        grid=grid,
        classes=matches.classes,
        average_precision=precision,
        recall=recall[num_limits - 1],
        rule=rule,
        has_limits=has_limits,
    )


def _check_grid(matches: Matches, grid: CocoGrid) -> int:
    """Return the index of the least limit that keeps all matches; raise unless the grid fits."""
    num_areas = len(grid.area_ranges)
    num_thresholds = len(grid.iou_thresholds)
    num_limits = len(grid.max_detection_thresholds)
    needed_limit = int(matches.limits.max()) if len(matches.limits) else 0
    shape = tuple(matches.matched.shape[:2])
    if shape != (num_areas, num_thresholds) or needed_limit >= num_limits:
        raise ValueError(
            f"`grid` must be the one that `matches` were made with; got {num_areas} area ranges, {num_thresholds}"
            f" thresholds and {num_limits} limits for matches of {shape[0]}, {shape[1]} and at least"
            f" {needed_limit + 1}."
        )
    return needed_limit


def _on_curves(
    matches: Matches, work: Callable[[Matches, Curves], tuple[Tensor, ...]], class_axes: Sequence[int]
) -> tuple[Tensor, ...]:
    """Run `work` on blocks of curves, and concatenate its results.

    On a CPU a block has one area range, to fit a cache, or all if they are few; with many detections also only a few
    classes. `class_axes` are the axes of the classes in each result; two axes before is that of the area ranges.
    """
    num_areas, num_thresholds, _ = matches.matched.shape
    is_small = matches.matched.numel() < _CACHED_CELLS and num_thresholds * len(matches.classes) < _FEW_CURVES
    areas_at_a_time = num_areas if is_small or matches.columns.device.type != "cpu" else 1
    class_ranges = [slice(None)]
    if len(matches.scores) >= _MANY_DETECTIONS and areas_at_a_time < num_areas:
        num_by_class = matches.class_index.bincount(minlength=len(matches.classes))
        class_ranges = list(segments.ranges_within(num_by_class, _DETECTIONS_AT_A_TIME))
    blocks = list(product(segments.ranges(num_areas, areas_at_a_time), class_ranges))

    def work_on_block(block: tuple[slice, slice]) -> tuple[Tensor, ...]:
        areas, classes = block
        part = matches if len(class_ranges) == 1 else matches.of_classes(classes)
        return work(part, curves_from_matches(part, areas=areas))

    results = workers.run(lambda: workers.share(work_on_block, blocks), matches.columns.device)
    # Each area range has consecutive parts, one for each range of classes.
    joined = []
    for class_axis, parts in zip(class_axes, zip(*results, strict=True), strict=True):
        ranges = segments.ranges(len(parts), len(class_ranges))
        areas = [torch.cat(parts[one_area], class_axis) for one_area in ranges]
        joined.append(torch.cat(areas, class_axis - 2))
    return tuple(joined)


def _on_grid(grid: CocoGrid, matches: Matches, curves: Curves) -> tuple[Tensor, Tensor, Tensor]:
    """Return precision and scores [areas, thresholds, classes, recalls], and recall [areas, thresholds, classes]."""
    precision, point = precision_at_recall(curves, grid.rec_thresholds)
    scores = matches.scores.index_select(0, curves.places).double()
    scores = torch.cat([scores, scores.new_zeros(1)]).index_select(0, point.flatten()).view_as(precision)
    # Any detection reaches a recall of 0, and the first of its class has the highest score.
    is_zero = torch.tensor([threshold <= 0 for threshold in grid.rec_thresholds], device=scores.device)
    sizes = matches.class_index.bincount(minlength=len(matches.classes))
    best = torch.cat([matches.scores.double(), scores.new_zeros(1)])[segments.starts(sizes)].where(sizes > 0, 0.0)
    scores = torch.where(is_zero, best[:, None], scores)
    undefined = curves.num_positives == 0
    recall = (curves.num_true_positives / curves.num_positives.double()).masked_fill(undefined, -1.0)
    return precision.masked_fill(undefined[..., None], -1.0), scores.masked_fill(undefined[..., None], -1.0), recall
