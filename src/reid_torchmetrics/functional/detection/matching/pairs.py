"""Pairs of a detection and a ground truth of its image and class that overlap enough, found block by block.

Every detection of an image and class is a candidate for each ground truth there. In a crowded image most of these pairs
are far apart: there the detections are sorted along one axis, and only those near a ground truth are its candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection import inputs

Table = TypeVar("Table", bound=tuple[Any, ...])

DEFAULT_MAX_BYTES = 1 << 28
_FIRST_GROWN = 1 << 16  # pairs
_BLOCKS_AT_A_TIME = 8  # blocks of candidates that several threads of a CPU share
_CACHED_PAIRS = 1 << 15  # pairs whose columns stay in the cache of a CPU
_FEW_PAIRS = 1 << 16  # candidates of all groups that make one block
_BYTES_PER_PAIR = 200  # about what a pair needs while its overlap is computed
_BYTES_PER_SORTED = 200  # and a detection while those near a ground truth are searched for
_LEAST_DETECTIONS, _LEAST_GROUND_TRUTHS = 32, 8  # of a crowded group
_LEAST_CROWDED_PAIRS = 1 << 15  # in all crowded groups, for a search to pay
_MOST_NEARBY = 0.5  # share of the pairs of crowded groups from which on it does not
_CELL_BITS = 20
_NOTHING = 2.0**-500  # less than the distance of any two different positions


Block: TypeAlias = "Callable[[], OverlappingPairs]"
"""gives the pairs of a block of candidates that overlap enough"""


class OverlappingPairs(NamedTuple):
    """Pairs by ground truth, and for each ground truth by descending score of the detection."""

    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    iou: Float[Tensor, " pairs"]


def select(table: Table, rows: Int[Tensor, " some"] | slice) -> Table:
    """Some rows of a named tuple of columns, without a copy if they are a slice; a column may be None."""
    make: Callable[..., Table] = type(table)
    if isinstance(rows, slice):
        return make(*(None if column is None else column[rows] for column in table))
    return make(*(None if column is None else column.index_select(0, rows) for column in table))


def best_pairs(pairs: OverlappingPairs, num_detections: int, *, takes_last: bool) -> OverlappingPairs:
    """The pair of each detection with the largest overlap, of equal ones the last or first; overlap -1 without any."""
    iou = pairs.iou.new_full((num_detections,), -1).scatter_reduce_(0, pairs.detection, pairs.iou, "amax")
    largest = select(pairs, (pairs.iou == iou.index_select(0, pairs.detection)).nonzero()[:, 0])
    ground_truth, how = largest.ground_truth.new_zeros(num_detections), "amax" if takes_last else "amin"
    ground_truth.scatter_reduce_(0, largest.detection, largest.ground_truth, how, include_self=False)
    return OverlappingPairs(ground_truth, torch.arange(num_detections, device=iou.device), iou)


@torch.no_grad()
def find_pairs(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    *,
    at_least: float,
    most: int | None = None,
    max_bytes: int | None = None,
) -> OverlappingPairs:
    """All pairs of one image and class with an intersection over union of at least a threshold, by rows.

    Args:
        detections: boxes with scores.
        ground_truths: boxes; the intersection with a crowd is divided by the area of the detection.
        at_least: the threshold.
        most: only this number of detections of one image and class, those with the highest scores, are candidates.
        max_bytes: bound on the memory for candidates; the pairs that are returned come in addition; None for 256 MiB.

    Returns:
        Rows of ground truths and detections, ground truths by image, label and row.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a bound that is not positive.
    """
    _checks.number("at_least", at_least)
    _checks.cutoff("max_bytes", max_bytes)
    if most is not None:
        _checks.positive_int("most", most, fits_int64=False)
    classes = inputs.distinct_labels(detections.labels, ground_truths.labels)
    ordered, true_ordered = inputs.order_boxes(detections, ground_truths, classes, most)
    true_shapes = ground_truths.shapes[true_ordered.rows]
    memory = max_bytes or DEFAULT_MAX_BYTES
    pairs = overlapping_pairs(
        ordered, true_ordered, detections.shapes, true_shapes, at_least=at_least, max_bytes=memory
    )
    return OverlappingPairs(
        true_ordered.rows.index_select(0, pairs.ground_truth), ordered.rows.index_select(0, pairs.detection), pairs.iou
    )


def overlapping_pairs(
    detections: inputs.OrderedDetections,
    ground_truths: inputs.OrderedGroundTruths,
    shapes: inputs.Shapes,
    true_shapes: inputs.Shapes,
    *,
    at_least: float,
    max_bytes: int,
) -> OverlappingPairs:
    """The pairs as places in the orders of detections and ground truths.

    `shapes` of detections are given by row, those of ground truths in their order.
    """
    at_a_time = _BLOCKS_AT_A_TIME if shapes.device.type == "cpu" else 1
    is_crowd = ground_truths.is_crowd if bool(ground_truths.is_crowd.any()) else None
    max_bytes = max(1, max_bytes // at_a_time)
    search = _CandidateSearch(detections, ground_truths, shapes, true_shapes, is_crowd, at_least, max_bytes)

    # Blocks are overlapped in parallel, a few at a time, so that memory is bounded.
    left = ground_truths.sizes.clone()
    blocks, grown = _candidate_blocks(search, left), list[OverlappingPairs]()
    num_pairs = 0
    portions = iter(lambda: [*islice(blocks, at_a_time)], [])  # until none is left
    for some in _progress.steps(portions, "Overlaps"):
        for pairs in workers.share(lambda block: block(), some):
            grown = grown or [pairs]  # a single block is not copied
            num_pairs = _append(grown[0], num_pairs, pairs)
    pairs = grown[0] if len(grown[0].iou) == num_pairs else select(grown[0], slice(num_pairs))
    if not torch.equal(left, ground_truths.sizes):  # crowded groups came first, and their detections by position
        key = (pairs.ground_truth * len(detections.rows)).add_(pairs.detection)
        pairs = select(pairs, key.sort().indices)
    # From places by group to places by class and score.
    return pairs._replace(detection=detections.grouped.index_select(0, pairs.detection))


def _append(grown: OverlappingPairs, num_pairs: int, more: OverlappingPairs) -> int:
    """Write pairs behind the first ones of columns that grow by doubling; the number of all.

    Of small tensors kept from every block, each would pin what was freed around it.
    """
    end = num_pairs + len(more.iou)
    for column, values in zip(grown, more, strict=True):
        if end > len(column):
            column.resize_(max(end, _FIRST_GROWN, 2 * len(column)))
        if values is not column:
            column[num_pairs:end] = values
    return end


class _CandidateSearch(NamedTuple):
    """The boxes of all images, and how much a pair must overlap."""

    detections: inputs.OrderedDetections
    ground_truths: inputs.OrderedGroundTruths
    shapes: inputs.Shapes
    """of detections by row"""
    true_shapes: inputs.Shapes
    """of ground truths in their order"""
    is_crowd: Bool[Tensor, " ground_truths"] | None
    """None without crowds"""
    at_least: float
    max_bytes: int

    def crowds(self, ground_truths: Int[Tensor, " some"]) -> Bool[Tensor, " some"] | None:
        """Whether some ground truths are crowds."""
        return None if self.is_crowd is None else self.is_crowd.index_select(0, ground_truths)

    def shapes_at(self, places: Int[Tensor, " some"] | None = None) -> inputs.Shapes:
        """The shapes of detections at some places in `grouped`; None for all."""
        grouped = self.detections.grouped
        grouped = grouped if places is None else grouped.index_select(0, places)
        return self.shapes[self.detections.rows.index_select(0, grouped)]

    def overlap(
        self, places: Int[Tensor, " detections"] | None, shapes: inputs.Shapes, ground_truth: Tensor, detection: Tensor
    ) -> OverlappingPairs:
        """The pairs that overlap enough, of detections with some shapes, at places in `grouped`; None for all."""
        iou = shapes.overlaps(detection, self.true_shapes, ground_truth, self.crowds(ground_truth))
        enough = (iou >= self.at_least).nonzero()[:, 0]
        pairs = select(OverlappingPairs(ground_truth, detection, iou), enough)
        return pairs if places is None else pairs._replace(detection=places.index_select(0, pairs.detection))

    def blocks(self, lengths: Int[Tensor, " _"], bytes_each: int = _BYTES_PER_PAIR) -> Iterator[slice]:
        """Ranges of segments that fit into the memory together."""
        return segments.ranges_within(lengths, num_at_a_time(self.max_bytes, bytes_each, lengths.device, _CACHED_PAIRS))


def _candidate_blocks(search: _CandidateSearch, left: Int[Tensor, " groups"]) -> Iterator[Block]:
    """All pairs that may overlap enough, crowded groups first, where detections near a ground truth are searched for.

    `left` are the numbers of detections by group, and become 0 where the detections were searched.
    """
    # The numbers of boxes alone show that a search cannot pay: a training loop evaluates a few images at a time.
    most = len(search.detections.rows) * len(search.ground_truths.rows)
    if most <= min(_FEW_PAIRS, search.max_bytes // _BYTES_PER_PAIR):
        yield partial(_all_at_once, search)
        return
    crowded = _crowded_groups(search.ground_truths)
    for block in search.blocks(left.index_select(0, crowded), _BYTES_PER_SORTED):
        if (nearby := _find_nearby(search, crowded[block])) is not None:
            left[crowded[block]] = 0
            yield from nearby
    for block in search.blocks(left.index_select(0, search.ground_truths.groups)):
        yield partial(_all_of_block, search, left, block)


def _all_at_once(search: _CandidateSearch) -> OverlappingPairs:
    """Every detection for every ground truth of its group, as one block."""
    starts, sizes = (values.index_select(0, search.ground_truths.groups) for values in search.ground_truths[-2:])
    return search.overlap(None, search.shapes_at(), *segments.runs(starts, sizes))


def _all_of_block(search: _CandidateSearch, sizes: Int[Tensor, " groups"], block: slice) -> OverlappingPairs:
    """Every detection for every ground truth of a block; `sizes` are the numbers of detections by group.

    A block may begin and end inside a group; the detections of that group are in all its blocks.
    """
    groups = search.ground_truths.groups[block]
    occupied = slice(int(groups[0]), int(groups[-1]) + 1)
    group = groups - occupied.start
    places = segments.runs(search.ground_truths.starts[occupied], sizes[occupied])[1]
    first = segments.starts(sizes[occupied]).index_select(0, group)
    ground_truth, detection = segments.runs(first, sizes[occupied].index_select(0, group))
    return search.overlap(places, search.shapes_at(places), ground_truth.add_(block.start), detection)


def _crowded_groups(ground_truths: inputs.OrderedGroundTruths) -> Int[Tensor, " crowded"]:
    """The groups with enough pairs for a search along an axis; none if their sum is small."""
    sizes = ground_truths.sizes
    num_ground_truths = ground_truths.groups.bincount(minlength=len(sizes))
    is_crowded = (sizes >= _LEAST_DETECTIONS) & (num_ground_truths >= _LEAST_GROUND_TRUTHS)
    num_pairs = int((sizes * num_ground_truths * is_crowded).sum())
    return is_crowded.nonzero()[:, 0] if num_pairs >= _LEAST_CROWDED_PAIRS else sizes[:0]


def _find_nearby(search: _CandidateSearch, groups: Int[Tensor, " some"]) -> Iterator[Block] | None:
    """Candidate pairs of nearby boxes; None if the shape has no `reach` or the search would not pay."""
    # The ground truths and detections of these groups, with the number of their group among them.
    ordered = search.ground_truths
    number = groups.new_full((len(ordered.sizes),), -1)
    number[groups] = torch.arange(len(groups), device=groups.device)
    number = number.index_select(0, ordered.groups)
    ground_truths = (number >= 0).nonzero()[:, 0]
    number = number.index_select(0, ground_truths)
    group, places = segments.runs(ordered.starts.index_select(0, groups), ordered.sizes.index_select(0, groups))
    shapes = search.shapes_at(places)
    reach = search.true_shapes[ground_truths].reach(
        shapes, at_least=search.at_least, is_crowd=search.crowds(ground_truths)
    )
    if reach is None:
        return None

    # Positions are rounded down to a million cells, which keeps their order: integers are sorted faster.
    low, high = reach.position.aminmax()
    per_cell = ((1 << _CELL_BITS) - 1) / (high - low).clamp(min=_NOTHING)

    def key(group: Tensor, position: Float[Tensor, " _"]) -> Tensor:
        return (group << _CELL_BITS).add_(((position.clamp(low, high) - low) * per_cell).long())

    # The candidates of a ground truth are a run of the sorted detections.
    keys, order = key(group, reach.position).sort()
    first = torch.searchsorted(keys, key(number, reach.low))
    lengths = torch.searchsorted(keys, key(number, reach.high), right=True) - first
    num_pairs = ordered.sizes.index_select(0, groups.index_select(0, number)).sum()
    if lengths.sum() > _MOST_NEARBY * num_pairs:
        return None
    detections = places.index_select(0, order), shapes[order]

    def overlap(block: slice) -> OverlappingPairs:
        ground_truth, detection = segments.runs(first[block], lengths[block])
        ground_truth = ground_truths[block].index_select(0, ground_truth)
        return search.overlap(*detections, ground_truth, detection)

    return (partial(overlap, block) for block in search.blocks(lengths))


def num_at_a_time(max_bytes: int, bytes_each: int, device: torch.device, cached: int) -> int:
    """How many pairs fit into the memory at a time; on a CPU no more than its cache holds."""
    most = max(1, max_bytes // bytes_each)
    return min(most, cached) if device.type == "cpu" else most
