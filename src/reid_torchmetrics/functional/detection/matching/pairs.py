"""Pairs of a detection and a ground truth of its image and class that overlap enough, found block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import (
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    Shapes,
    distinct_labels,
    order_boxes,
    starts_of_runs,
)

DEFAULT_MAX_BYTES = 1 << 28
_BYTES_PER_PAIR = 200  # about what is held of a pair while its overlap is computed
_CACHED_PAIRS = 1 << 16  # pairs whose columns stay in the cache of a CPU


@dataclass(frozen=True)
class Pairs:
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
    for first, last in _blocks(ground_truths.sizes.index_select(0, ground_truths.groups), max_bytes):
        candidates = _candidates(ground_truths, first, last)
        rows = detections.rows.index_select(0, detections.grouped.index_select(0, candidates.places))
        iou = shapes[rows].overlaps(
            candidates.detection,
            true_shapes,
            candidates.ground_truth,
            None if is_crowd is None else is_crowd.index_select(0, candidates.ground_truth),
        )
        kept = (iou >= at_least).nonzero()[:, 0]
        detection = candidates.places.index_select(0, candidates.detection.index_select(0, kept))
        found.add(candidates.ground_truth.index_select(0, kept), detection, iou.index_select(0, kept))
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


@dataclass(frozen=True)
class _Candidates:
    """All pairs of a block of ground truths; a detection is a candidate of every ground truth of its group."""

    places: Tensor
    """places in `grouped` of the detections of the block's groups"""
    ground_truth: Tensor
    """of each pair: the ground truth"""
    detection: Tensor
    """and the detection, counted in `places`"""


def _candidates(ground_truths: OrderedGroundTruths, first: int, last: int) -> _Candidates:
    # A block may begin and end inside a group, whose detections are candidates in each of its blocks.
    groups = ground_truths.groups[first:last]
    first_group, last_group = int(groups[0]), int(groups[-1]) + 1
    sizes, starts = ground_truths.sizes[first_group:last_group], ground_truths.starts[first_group:last_group]
    group = groups - first_group
    num_pairs = sizes.index_select(0, group)
    ground_truth = torch.repeat_interleave(num_pairs).add_(first)
    return _Candidates(
        _runs(starts, sizes), ground_truth, _runs(starts_of_runs(sizes).index_select(0, group), num_pairs)
    )


def _runs(starts: Tensor, sizes: Tensor) -> Tensor:
    """`range(start, start + size)` of each run, laid end to end."""
    shift = starts - starts_of_runs(sizes)
    shifts = torch.repeat_interleave(shift, sizes)
    return torch.arange(len(shifts), device=starts.device).add_(shifts)


def _blocks(num_pairs: Tensor, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of ground truths whose pairs are held at a time; one that alone has more is a block by itself."""
    most = max(1, max_bytes // _BYTES_PER_PAIR)
    if num_pairs.device.type == "cpu":
        most = min(most, _CACHED_PAIRS)
    # Ground truths whose last pairs lie between the same multiples of `most` are a block.
    ends = num_pairs.cumsum(0)
    block = (ends - 1).clamp_(min=0) // most
    cuts = (block.diff().nonzero()[:, 0] + 1).tolist()
    if len(ends) and int(ends[-1]):
        yield from pairwise([0, *cuts, len(ends)])
