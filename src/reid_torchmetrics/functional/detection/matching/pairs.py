"""Pairs of a detection and a ground truth of its image and class that overlap enough, found block by block."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.inputs import (
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    Shapes,
    distinct_labels,
    order_boxes,
)

DEFAULT_MAX_BYTES = 1 << 28
_BYTES_PER_PAIR = 200  # about what is held of a pair while its overlap is computed
_CACHED_PAIRS = 1 << 16  # pairs whose columns stay in the cache of a CPU
_BLOCKS_AT_A_TIME = 8  # blocks of pairs that are looked at together, by several threads


class Pairs(NamedTuple):
    """Pairs by ground truth, and for each ground truth by descending score of the detection."""

    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    iou: Float[Tensor, " pairs"]


@torch.no_grad()
def find_pairs(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    at_least: float,
    most: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Pairs:
    """All pairs of one image and class with an intersection over union of at least a threshold, by rows.

    Args:
        detections: boxes with scores.
        ground_truths: boxes; the intersection with a crowd is divided by the area of the detection.
        at_least: the threshold.
        most: only so many detections of one image and class, those with the highest scores, are looked at.
        max_bytes: bound on what is held of the pairs that are looked at; those that are found come in addition.

    Returns:
        Rows of ground truths and detections, ground truths by image, label and row.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a bound that is not positive.
    """
    _checks.number("at_least", at_least)
    _checks.positive_int("max_bytes", max_bytes)
    if most is not None:
        _checks.positive_int("most", most, fits_int64=False)
    # In the orders of matching a group, an image and class, is a run, and its pairs are all of two runs.
    classes = distinct_labels(detections.labels, ground_truths.labels)
    ordered_detections, ordered_ground_truths = order_boxes(detections, ground_truths, classes, most)
    pairs = overlapping(
        ordered_detections,
        ordered_ground_truths,
        detections.shapes,
        ground_truths.shapes,
        at_least=at_least,
        max_bytes=max_bytes,
    )
    # From places in these orders back to rows.
    grouped = ordered_detections.grouped.index_select(0, pairs.detection)
    return Pairs(
        ordered_ground_truths.rows.index_select(0, pairs.ground_truth),
        ordered_detections.rows.index_select(0, grouped),
        pairs.iou,
    )


def overlapping(
    detections: OrderedDetections,
    ground_truths: OrderedGroundTruths,
    shapes: Shapes,
    true_shapes: Shapes,
    *,
    at_least: float,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Pairs:
    """The pairs as places, of ground truths in their order, of detections in `grouped`; shapes are given by row."""
    # A block holds whole ground truths with all detections of their groups: [pairs] each, of which few are kept.
    found = _Found(detections.rows.device)
    is_crowd = ground_truths.is_crowd if bool(ground_truths.is_crowd.any()) else None
    true_shapes = true_shapes[ground_truths.rows]
    num_pairs = ground_truths.sizes.index_select(0, ground_truths.groups)
    most = num_at_a_time(max_bytes // _BLOCKS_AT_A_TIME, _BYTES_PER_PAIR, num_pairs.device, _CACHED_PAIRS)

    def look(block: slice) -> tuple[Tensor, Tensor, Tensor]:
        candidates = _candidates(ground_truths, block)
        rows = detections.rows.index_select(0, detections.grouped.index_select(0, candidates.places))
        iou = shapes[rows].overlaps(
            candidates.detection,
            true_shapes,
            candidates.ground_truth,
            None if is_crowd is None else is_crowd.index_select(0, candidates.ground_truth),
        )
        kept = (iou >= at_least).nonzero()[:, 0]
        detection = candidates.places.index_select(0, candidates.detection.index_select(0, kept))
        return candidates.ground_truth.index_select(0, kept), detection, iou.index_select(0, kept)

    blocks = [*segments.ranges_within(num_pairs, most)]
    for first in range(0, len(blocks), _BLOCKS_AT_A_TIME):
        for columns in workers.share(look, blocks[first : first + _BLOCKS_AT_A_TIME], most=_BLOCKS_AT_A_TIME):
            found.add(*columns)
    return found.pairs()


class _Found:
    """Columns that grow by doubling: of small tensors kept from every block, each pins what was freed around it."""

    def __init__(self, device: torch.device) -> None:
        dtypes = (torch.int64, torch.int64, torch.float64)
        self.size = 0
        self.columns = [torch.empty(_CACHED_PAIRS, dtype=dtype, device=device) for dtype in dtypes]

    def add(self, *columns: Tensor) -> None:
        """Put pairs behind those that are there."""
        end = self.size + len(columns[0])
        for place, column in enumerate(columns):
            if end > len(self.columns[place]):
                grown = column.new_empty(max(end, 2 * len(self.columns[place])))
                grown[: self.size] = self.columns[place][: self.size]
                self.columns[place] = grown
            self.columns[place][self.size : end] = column
        self.size = end

    def pairs(self) -> Pairs:
        """All that were added."""
        return Pairs(*(column[: self.size] for column in self.columns))


class _Candidates(NamedTuple):
    """All pairs of a block of ground truths; a detection is a candidate of every ground truth of its group."""

    places: Tensor
    """places in `grouped` of the detections of the block's groups"""
    ground_truth: Tensor
    """of each pair: the ground truth"""
    detection: Tensor
    """and the detection, counted in `places`"""


def _candidates(ground_truths: OrderedGroundTruths, block: slice) -> _Candidates:
    # A block may begin and end inside a group, whose detections are candidates in each of its blocks.
    groups = ground_truths.groups[block]
    occupied = slice(int(groups[0]), int(groups[-1]) + 1)
    sizes, group = ground_truths.sizes[occupied], groups - occupied.start
    places = segments.runs(ground_truths.starts[occupied], sizes)[1]
    first = segments.starts(sizes).index_select(0, group)
    ground_truth, detection = segments.runs(first, sizes.index_select(0, group))
    return _Candidates(places, ground_truth.add_(block.start), detection)


def num_at_a_time(max_bytes: int, bytes_each: int, device: torch.device, cached: int) -> int:
    """How many pairs to hold at a time within a bound; on a CPU no more than its cache holds."""
    most = max(1, max_bytes // bytes_each)
    return min(most, cached) if device.type == "cpu" else most
