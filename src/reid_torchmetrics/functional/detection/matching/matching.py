"""COCO's greedy matching of detections to ground truths: all images, classes, thresholds and area ranges at once.

By its definition the detections of an image and class go, by descending score, each to the ground truth with the
largest overlap among those that are left and that it overlaps enough; equal overlaps go to the last one, ignored
ground truths come after all that count, and a crowd takes any number of detections. All of that for each threshold and
each area range. Source: `COCOeval.evaluateImg` of pycocotools, whose results these are, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.inputs import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    AreaRange,
    CocoGrid,
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    distinct_labels,
    order_boxes,
)

from .assignment import assign
from .few_pairs import are_few, assign_few
from .kinds import find_kinds
from .matches import Matches
from .pairs import DEFAULT_MAX_BYTES, overlapping

_LARGEST_THRESHOLD = 1 - 1e-10  # COCO's: an overlap of 1 passes a threshold of 1 whatever the rounding
_BITS_OF_UINT8 = 8
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
    grid = CocoGrid(iou_thresholds, (0.0,), max_detections, area_ranges)  # checks them
    return match_on_grid(
        detections,
        ground_truths,
        grid,
        classes=classes,
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes,
    )


@torch.no_grad()
def match_on_grid(
    detections: Detections,
    ground_truths: GroundTruths,
    grid: CocoGrid,
    *,
    classes: Int[Tensor, " classes"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Matches:
    """Match as `match_images` does, under the thresholds, limits and area ranges of a grid, which has checked them."""
    _checks.positive_int("max_bytes", max_bytes)
    _checks.same_device("detections", detections.labels, "ground_truths", ground_truths.labels)
    if classes is not None:
        _checks.integer_labels("classes", classes, device=detections.labels.device)
    return workers.run(
        lambda: _match(
            detections, ground_truths, grid, classes, keep_ground_truths=keep_ground_truths, max_bytes=max_bytes
        ),
        detections.labels.device,
    )


def _match(
    detections: Detections,
    ground_truths: GroundTruths,
    grid: CocoGrid,
    classes: Int[Tensor, " classes"] | None,
    *,
    keep_ground_truths: bool,
    max_bytes: int,
) -> Matches:
    iou_thresholds, area_ranges, rows = grid.iou_thresholds, grid.area_ranges, None
    if classes is None:
        classes = distinct_labels(detections.labels, ground_truths.labels)
    else:
        classes = classes.long().unique()
        detections, ground_truths, rows = _of_classes(detections, ground_truths, classes)
    most = max(grid.max_detections)
    ordered_detections, ordered_ground_truths = order_boxes(detections, ground_truths, classes, most)

    # Thresholds ascend from here on, so that a pair passes the first ones: a number says which.
    ascending = sorted(range(len(iou_thresholds)), key=iou_thresholds.__getitem__)
    thresholds = [min(iou_thresholds[slot], _LARGEST_THRESHOLD) for slot in ascending]
    shapes = detections.shapes, ground_truths.shapes
    # What a range ignores may be matched, after all that counts: it makes the detection ignored, too.
    ranges = _AreaRanges.of(tuple(map(tuple, area_ranges.values())), detections.labels.device)
    areas = shapes[1].areas() if ground_truths.areas is None else ground_truths.areas.double()
    ignored = _ignored(ordered_ground_truths, areas, ranges)
    kinds = find_kinds(ordered_ground_truths, shapes[1], ignored)
    pairs = overlapping(ordered_detections, kinds.ground_truths, *shapes, at_least=thresholds[0], max_bytes=max_bytes)
    way = assign_few if are_few(pairs, kinds, thresholds) else partial(assign, max_bytes=max_bytes)
    taken = way(pairs, ordered_detections, kinds, thresholds, keep_ground_truths=keep_ground_truths)

    # Of detections by class and score, [detections] each; `within` drops those that were no candidates.
    num_positives = classes.new_zeros((len(area_ranges), len(classes)))
    num_positives.index_add_(1, ordered_ground_truths.class_index, (~ignored).long())
    rows_in_order = ordered_detections.rows
    matches = Matches(
        classes=classes,
        num_positives=num_positives,
        scores=detections.scores.index_select(0, rows_in_order),
        class_index=ordered_detections.class_index,
        images=ordered_detections.images,
        rows=rows_in_order,
        limits=_limits(ordered_detections, grid.max_detections),
        area_bits=ranges.bits(shapes[0].areas()).index_select(0, rows_in_order),
        **vars(taken),
    )
    if most < len(rows_in_order):
        matches = matches.within(len(grid.max_detections) - 1)
    return _named(matches, rows, np.argsort(ascending).tolist())


def _of_classes(
    detections: Detections, ground_truths: GroundTruths, classes: Int[Tensor, " classes"]
) -> tuple[Detections, GroundTruths, tuple[Tensor, Tensor]]:
    """The boxes of some classes, and their rows."""
    kept = [torch.isin(boxes.labels, classes).nonzero()[:, 0] for boxes in (detections, ground_truths)]
    return detections.at(kept[0]), ground_truths.at(kept[1]), (kept[0], kept[1])


def _named(matches: Matches, rows: tuple[Tensor, Tensor] | None, slots: list[int]) -> Matches:
    """Matches with thresholds in the caller's order, and with the rows of the caller."""
    if rows is not None:
        matches = matches.with_rows(*rows)
    return matches if slots == sorted(slots) else matches.map_columns(lambda values: values[:, slots])


class _AreaRanges(NamedTuple):
    """Area ranges, [areas, 1] each."""

    least: Float[Tensor, "areas 1"]
    most: Float[Tensor, "areas 1"]
    weights: Integer[Tensor, "areas 1"]
    """1, 2, 4, ..., in the dtype that has a bit for each"""

    @staticmethod
    @lru_cache(maxsize=8)
    def of(ranges: tuple[AreaRange, ...], device: torch.device) -> _AreaRanges:
        """Of their ends; to be read only, for they are the same tensors for the same ranges."""
        ends = torch.tensor(ranges, dtype=torch.float64, device=device)
        dtype = torch.uint8 if len(ranges) <= _BITS_OF_UINT8 else torch.int64
        weights = (1 << torch.arange(len(ranges), device=device)).to(dtype)
        return _AreaRanges(ends[:, :1], ends[:, 1:], weights[:, None])

    def exclude(self, areas: Float[Tensor, " boxes"]) -> Bool[Tensor, "areas boxes"]:
        """Which boxes are outside of each range; an area that is NaN is outside of none, as in pycocotools."""
        return (areas < self.least) | (areas > self.most)

    def bits(self, areas: Float[Tensor, " boxes"]) -> Integer[Tensor, " boxes"]:
        """In which of the ranges each box lies, one bit each."""
        if areas.device.type != "cpu" or len(areas) <= _AREA_BLOCK:
            return self._bits(areas)
        return torch.cat(workers.share(self._bits, areas.split(_AREA_BLOCK)))

    def _bits(self, areas: Tensor) -> Tensor:
        outside = torch.sum(self.exclude(areas) * self.weights, 0, dtype=self.weights.dtype)
        return outside.bitwise_xor_((1 << len(self.weights)) - 1)


def _ignored(
    ground_truths: OrderedGroundTruths, areas: Float[Tensor, " ground_truths"], ranges: _AreaRanges
) -> Bool[Tensor, "areas ground_truths"]:
    """Which ground truths do not count: crowds, and those outside the range; areas are given by row."""
    return ground_truths.is_crowd | ranges.exclude(areas.index_select(0, ground_truths.rows))


def _limits(detections: OrderedDetections, max_detections: Sequence[int]) -> Int[Tensor, " detections"]:
    """How many of the limits leave the detection out: its rank in its group is at or beyond them.

    The rank is at least r if the detection r places before is of the same group.
    """
    dtype = torch.int8 if len(max_detections) <= torch.iinfo(torch.int8).max else torch.int64
    exceeded = torch.zeros_like(detections.groups, dtype=dtype)
    for limit in (most for most in max_detections if most < len(exceeded)):
        exceeded[limit:] += (detections.groups[limit:] == detections.groups[:-limit]).view(torch.int8)
    return torch.empty_like(exceeded).scatter_(0, detections.grouped, exceeded)
