"""Pairs of a detection and a ground truth of its image and class that overlap enough, found block by block."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.inputs import (
    Detections,
    GroundTruths,
    OrderedDetections,
    OrderedGroundTruths,
    Shapes,
    distinct_labels,
    order_boxes,
)

from .candidates import Candidates, Search, find_candidates

DEFAULT_MAX_BYTES = 1 << 28
_FIRST_GROWN = 1 << 16  # pairs
_BLOCKS_AT_A_TIME = 8  # blocks of pairs that are looked at together, by several threads of a CPU


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
    at_a_time = _BLOCKS_AT_A_TIME if shapes.device.type == "cpu" else 1
    search = Search(
        detections,
        ground_truths,
        shapes,
        true_shapes[ground_truths.rows],
        ground_truths.is_crowd if bool(ground_truths.is_crowd.any()) else None,
        at_least,
        max(1, max_bytes // at_a_time),
    )

    def look(find: Callable[[], Candidates]) -> tuple[Pairs, bool]:
        block = find()
        crowds = search.crowds(block.ground_truth)
        iou = block.shapes.overlaps(block.detection, search.true_shapes, block.ground_truth, crowds)
        kept = (iou >= at_least).nonzero()[:, 0]
        detection = block.places.index_select(0, block.detection.index_select(0, kept))
        return Pairs(block.ground_truth.index_select(0, kept), detection, iou.index_select(0, kept)), block.is_in_order

    found, is_in_order, blocks = _Found(), True, find_candidates(search)
    while some := [*islice(blocks, at_a_time)]:
        for pairs, are_in_order in workers.share(look, some):
            found.add(*pairs)
            is_in_order &= are_in_order
    return found.pairs() if is_in_order else _in_order(found.pairs(), len(detections.rows))


def _in_order(pairs: Pairs, num_detections: int) -> Pairs:
    """By ground truth and detection."""
    order = (pairs.ground_truth * num_detections).add_(pairs.detection).sort().indices
    return Pairs(*(column.index_select(0, order) for column in pairs))


class _Found:
    """Columns that grow by doubling: of small tensors kept from every block, each pins what was freed around it."""

    def __init__(self) -> None:
        self.size = 0
        self.columns: list[Tensor] = []

    def add(self, *columns: Tensor) -> None:
        """Put pairs behind those that are there."""
        end = self.size + len(columns[0])
        if not self.size:  # there may be one block only
            self.columns, self.size = [*columns], end
            return
        for place, column in enumerate(columns):
            if end > len(self.columns[place]):
                grown = column.new_empty(max(end, _FIRST_GROWN, 2 * len(self.columns[place])))
                grown[: self.size] = self.columns[place][: self.size]
                self.columns[place] = grown
            self.columns[place][self.size : end] = column
        self.size = end

    def pairs(self) -> Pairs:
        """All that were added."""
        return Pairs(*(column[: self.size] for column in self.columns))
