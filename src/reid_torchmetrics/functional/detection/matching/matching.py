"""COCO's greedy matching of detections to ground truths: all images, classes, thresholds and area ranges at once.

By its definition the detections of an image and class go, by descending score, each to the ground truth with the
largest overlap among those that are left and that it overlaps enough; equal overlaps go to the last one, ignored
ground truths come after all that count, and a crowd takes any number of detections. All of that for each threshold and
each area range. Source: `COCOeval.evaluateImg` of pycocotools, whose results these are, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    AreaRange,
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    box_areas,
    distinct_labels,
    order_boxes,
)
from reid_torchmetrics.functional.detection.matching.deferred_acceptance import CandidatePairs, stable_matching
from reid_torchmetrics.functional.detection.matching.matches import Matches
from reid_torchmetrics.functional.detection.matching.pairs import DEFAULT_MAX_BYTES, Pairs, overlapping

_LARGEST_THRESHOLD = 1 - 1e-10  # COCO's: an overlap of 1 passes a threshold of 1 whatever the rounding
_BITS_OF_UINT8 = 8
_BYTES_PER_CONTESTED_PAIR = 800  # about what is held of a pair that competes, with the copies for four area ranges
_CACHED_CONTESTED_PAIRS = 1 << 15
_AREA_BLOCK = 1 << 16  # boxes whose areas are looked at together: they stay in the cache of a CPU


@torch.no_grad()
def match_images(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS,
    max_detections: Sequence[int] = COCO_MAX_DETECTIONS,
    area_ranges: Mapping[str, AreaRange] = COCO_AREA_RANGES,
    classes: Int[Tensor, " classes"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Matches:
    """Match the detections of all images to ground truths as COCO does.

    Args:
        detections: of all images.
        ground_truths: of all images.
        iou_thresholds: a detection and a ground truth may match from each of these overlaps on.
        max_detections: limits of the detections of an image and class that count, ascending; the largest one holds in
            matching, the others when counting.
        area_ranges: least and largest area, both inside, by name.
        classes: labels to look at, boxes with others are left out; None for all that occur.
        keep_ground_truths: note which ground truth each detection took.
        max_bytes: bound on what is held of pairs of boxes, but for those that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option without values, or with values that are not allowed.
    """
    _checks.matching_options(iou_thresholds, max_detections, area_ranges, max_bytes)
    _checks.same_device("detections", detections.boxes, "ground_truths", ground_truths.boxes)
    rows = None
    if classes is None:
        classes = distinct_labels(detections.labels, ground_truths.labels)
    else:
        _checks.integer_labels("classes", classes, device=detections.boxes.device)
        classes = classes.long().unique()
        detections, ground_truths, rows = _of_classes(detections, ground_truths, classes)
    ordered_detections, ordered_ground_truths = order_boxes(detections, ground_truths, classes, max(max_detections))
    ascending = sorted(range(len(iou_thresholds)), key=iou_thresholds.__getitem__)
    thresholds = [min(iou_thresholds[slot], _LARGEST_THRESHOLD) for slot in ascending]
    pairs = overlapping(
        ordered_detections,
        ordered_ground_truths,
        detections.boxes,
        ground_truths.boxes,
        at_least=thresholds[0],
        max_bytes=max_bytes,
    )
    ranges = torch.tensor([*area_ranges.values()], dtype=torch.float64, device=detections.boxes.device)
    areas = ordered_ground_truths.areas
    ignored = ordered_ground_truths.is_crowd | (areas < ranges[:, :1]) | (areas > ranges[:, 1:])
    taken = _take(
        pairs,
        ordered_detections,
        ordered_ground_truths,
        ignored,
        thresholds,
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes,
    )
    num_positives = torch.zeros((len(ranges), len(classes)), dtype=torch.int64, device=ranges.device)
    matches = Matches(
        classes=classes,
        num_positives=num_positives.index_add_(1, ordered_ground_truths.class_index, (~ignored).long()),
        scores=detections.scores.index_select(0, ordered_detections.rows),
        class_index=ordered_detections.class_index,
        images=ordered_detections.images,
        rows=ordered_detections.rows,
        limits=_limits(ordered_detections, max_detections),
        area_bits=_area_bits(detections.boxes, ranges).index_select(0, ordered_detections.rows),
        columns=taken.columns,
        matched=taken.matched,
        true_positive=taken.true_positive,
        ground_truths=taken.ground_truths,
    ).within(len(max_detections) - 1)
    return _named(matches, rows, np.argsort(ascending).tolist())


def _of_classes(
    detections: Detections, ground_truths: GroundTruths, classes: Tensor
) -> tuple[Detections, GroundTruths, tuple[Tensor, Tensor]]:
    """The boxes of some classes, and their rows."""
    kept = [torch.isin(boxes.labels, classes).nonzero()[:, 0] for boxes in (detections, ground_truths)]
    return detections.at(kept[0]), ground_truths.at(kept[1]), (kept[0], kept[1])


def _named(matches: Matches, rows: tuple[Tensor, Tensor] | None, slots: list[int]) -> Matches:
    """Matches with thresholds in the caller's order, and with the rows of the caller."""
    if rows is not None:
        matches = matches.with_rows(*rows)
    return matches if slots == sorted(slots) else matches.map_columns(lambda values: values[:, slots])


class _Taken(NamedTuple):
    columns: Int[Tensor, " matched"]
    matched: Bool[Tensor, "areas thresholds matched"]
    true_positive: Bool[Tensor, "areas thresholds matched"]
    ground_truths: Int[Tensor, "areas thresholds matched"] | None


def _take(
    pairs: Pairs,
    detections: OrderedDetections,
    ground_truths: OrderedGroundTruths,
    ignored: Tensor,
    thresholds: list[float],
    *,
    keep_ground_truths: bool,
    max_bytes: int,
) -> _Taken:
    """Match what overlaps: at once where detections have no choice, by deferred acceptance where they have."""
    limits = torch.tensor(thresholds, dtype=torch.float64, device=pairs.iou.device)
    passed = torch.bucketize(pairs.iou, limits, right=True)
    place = detections.grouped.index_select(0, pairs.detection)
    is_contested = _are_contested(pairs.ground_truth, place, len(detections.rows), len(ground_truths.rows))
    better = _passed_by_better(pairs.ground_truth, passed, len(thresholds))
    better = better.masked_fill_(ground_truths.is_crowd.index_select(0, pairs.ground_truth), 0)
    alone = (~is_contested & (better < passed)).nonzero()[:, 0]
    contested_pairs = is_contested.nonzero()[:, 0]

    is_column = torch.zeros_like(detections.rows, dtype=torch.bool)
    is_column[place.index_select(0, alone)] = True
    is_column[place.index_select(0, contested_pairs)] = True
    columns = is_column.nonzero()[:, 0]
    column_of = torch.empty_like(detections.rows)
    column_of[columns] = torch.arange(len(columns), device=columns.device)
    column = column_of.index_select(0, place)

    taken = _without_choice(
        *(values.index_select(0, alone) for values in (pairs.ground_truth, column, better, passed)),
        columns=columns,
        ignored=ignored,
        num_thresholds=len(thresholds),
        rows=ground_truths.rows if keep_ground_truths else None,
    )
    candidates = CandidatePairs(pairs.ground_truth, column, passed, pairs.iou)
    for first, last in _blocks_of_groups(
        ground_truths.groups.index_select(0, pairs.ground_truth.index_select(0, contested_pairs)), max_bytes
    ):
        matched = stable_matching(
            candidates.at(contested_pairs[first:last]),
            ground_truths.is_crowd,
            ignored,
            ground_truths.groups,
            len(columns),
            num_thresholds=len(thresholds),
        )
        cells = (matched.area, matched.threshold, matched.column)
        taken.matched[cells] = True
        taken.true_positive[cells] = ~ignored[matched.area, matched.ground_truth]
        if taken.ground_truths is not None:
            taken.ground_truths[cells] = ground_truths.rows.index_select(0, matched.ground_truth)
    return taken


def _blocks_of_groups(groups: Tensor, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole groups of pairs that compete, which are matched together."""
    last = (groups.diff().nonzero()[:, 0] + 1) if len(groups) else groups
    ends = torch.cat([last, last.new_full((1,), len(groups))])
    most = max(1, max_bytes // _BYTES_PER_CONTESTED_PAIR)
    if groups.device.type == "cpu":
        most = min(most, _CACHED_CONTESTED_PAIRS)
    block = (ends - 1) // most
    cuts = ends[:-1][block.diff() > 0].tolist()
    yield from pairwise([0, *cuts, len(groups)] if len(groups) else [])


def _are_contested(ground_truth: Tensor, place: Tensor, num_detections: int, num_ground_truths: int) -> Tensor:
    """Whether the pair's ground truth is wanted by some detection that has another one, too."""
    num_choices = place.bincount(minlength=num_detections)
    chosen = (num_choices.index_select(0, place) > 1).nonzero()[:, 0]
    is_contested = torch.zeros(num_ground_truths, dtype=torch.bool, device=place.device)
    is_contested[ground_truth.index_select(0, chosen)] = True
    return is_contested.index_select(0, ground_truth)


def _passed_by_better(ground_truth: Tensor, passed: Tensor, num_thresholds: int) -> Tensor:
    """The most thresholds that a detection with a better score passes with the same ground truth.

    Where no detection has a choice, a ground truth is taken under a threshold by the first that passes it: a detection
    takes it under those that it passes and none before it did.
    """
    floor = ground_truth * (num_thresholds + 1)  # so that the maximum over all before is that over the same one's
    better = torch.zeros_like(passed)
    if len(passed) > 1:
        better[1:] = ((floor + passed)[:-1].cummax(0).values - floor[1:]).clamp_(min=0)
    return better


def _without_choice(
    ground_truth: Tensor,
    column: Tensor,
    better: Tensor,
    passed: Tensor,
    *,
    columns: Tensor,
    ignored: Tensor,
    num_thresholds: int,
    rows: Tensor | None,
) -> _Taken:
    """Matches of detections with one ground truth to take: one range of thresholds, the same in every area range."""
    num_areas, device = len(ignored), columns.device
    low, high, taken_by_column = (columns.new_zeros(len(columns)) for _ in range(3))
    low[column], high[column], taken_by_column[column] = better, passed, ground_truth
    threshold = torch.arange(num_thresholds, device=device)[:, None]
    matched = (threshold >= low) & (threshold < high)
    counts = (
        ~ignored.index_select(1, taken_by_column) if ignored.shape[1] else matched.new_zeros((num_areas, len(columns)))
    )
    true_positive = matched & counts[:, None]
    taken = None
    if rows is not None:
        true_rows = rows.index_select(0, taken_by_column) if len(rows) else taken_by_column
        taken = torch.where(matched, true_rows, -1).expand(num_areas, -1, -1).contiguous()
    return _Taken(columns, matched.expand(num_areas, -1, -1).contiguous(), true_positive, taken)


def _limits(detections: OrderedDetections, max_detections: Sequence[int]) -> Int[Tensor, " detections"]:
    """How many of the limits leave the detection out: its rank in its group is at or beyond them.

    The rank is at least r if the detection r places before is of the same group.
    """
    dtype = torch.int8 if len(max_detections) <= torch.iinfo(torch.int8).max else torch.int64
    exceeded = torch.zeros_like(detections.groups, dtype=dtype)
    for limit in (most for most in max_detections if most < len(exceeded)):
        exceeded[limit:] += (detections.groups[limit:] == detections.groups[:-limit]).view(torch.int8)
    return torch.empty_like(exceeded).scatter_(0, detections.grouped, exceeded)


def _area_bits(
    boxes: Float[Tensor, "detections 4"], ranges: Float[Tensor, "areas 2"]
) -> Integer[Tensor, " detections"]:
    """In which area ranges each box lies, one bit each."""
    dtype = torch.uint8 if len(ranges) <= _BITS_OF_UINT8 else torch.int64
    weights = (1 << torch.arange(len(ranges), device=boxes.device)).to(dtype)[:, None]
    bits = torch.empty(len(boxes), dtype=dtype, device=boxes.device)
    block = _AREA_BLOCK if boxes.device.type == "cpu" else max(len(boxes), 1)
    for part, out in zip(boxes.split(block), bits.split(block), strict=True):
        areas = box_areas(part)
        inside = (areas >= ranges[:, :1]) & (areas <= ranges[:, 1:])
        torch.sum(inside * weights, 0, dtype=dtype, out=out)
    return bits
