"""Pairs of a detection and a ground truth in the same image and class that overlap enough, found block by block.

Every detection in an image and class is a candidate for each ground truth there. In a crowded image most of these pairs
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
_FEW_PAIRS = 1 << 16  # up to this number the candidates of all groups are one block
_BYTES_PER_PAIR = 200  # approximate memory of a pair while its overlap is computed
_BYTES_PER_SORTED = 200  # approximate memory of a detection while those near a ground truth are searched for
_LEAST_DETECTIONS = 32  # in a crowded group
_LEAST_GROUND_TRUTHS = 8  # in a crowded group
_LEAST_CROWDED_PAIRS = 1 << 15  # in all crowded groups, for a search to pay
_MOST_NEARBY = 0.5  # largest share of nearby pairs among all pairs of crowded groups, for a search to pay
_CELL_BITS = 20
_NOTHING = 2.0**-500  # less than the distance of any two different positions


Block: TypeAlias = "Callable[[], OverlappingPairs]"
"""a function that returns the pairs in a block of candidates that overlap enough"""


class OverlappingPairs(NamedTuple):
    """Pairs by ground truth, and for each ground truth by descending score of the detection."""

    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    iou: Float[Tensor, " pairs"]


def select(table: Table, rows: Int[Tensor, " some"] | slice) -> Table:
    """Return some rows of a named tuple of columns, without a copy if they are a slice; a column may be None."""
    columns: list[Tensor | None] = []
    for column in table:
        if column is None:
            columns.append(None)
        elif isinstance(rows, slice):
            columns.append(column[rows])
        else:
            columns.append(column.index_select(0, rows))
    make: Callable[..., Table] = type(table)
    return make(*columns)


def best_pairs(pairs: OverlappingPairs, num_detections: int, *, takes_last: bool) -> OverlappingPairs:
    """Return the pair with the largest overlap for each detection; a detection without pairs has the overlap -1.

    Among equal overlaps it is the last or the first ground truth.
    """
    iou = pairs.iou.new_full((num_detections,), -1).scatter_reduce_(0, pairs.detection, pairs.iou, "amax")
    largest = select(pairs, (pairs.iou == iou.index_select(0, pairs.detection)).nonzero()[:, 0])
    ground_truth = largest.ground_truth.new_zeros(num_detections).scatter_reduce_(
        0,
        largest.detection,
        largest.ground_truth,
        "amax" if takes_last else "amin",
        include_self=False,
    )
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
    """Find all pairs in the same image and class with an intersection over union of at least a threshold.

    Args:
        detections: boxes with scores.
        ground_truths: boxes; the intersection with a crowd is divided by the area of the detection.
        at_least: the threshold.
        most: the number of candidates per image and class: the detections with the highest scores; None for all.
        max_bytes: bound on the memory for candidates, except for the pairs that are returned; None for 256 MiB.

    Returns:
        Rows of ground truths and detections, ordered by image, label and row of the ground truth.

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
    pairs = overlapping_pairs(
        ordered,
        true_ordered,
        detections.shapes,
        ground_truths.shapes[true_ordered.rows],
        at_least=at_least,
        max_bytes=max_bytes or DEFAULT_MAX_BYTES,
    )
    return OverlappingPairs(
        ground_truth=true_ordered.rows.index_select(0, pairs.ground_truth),
        detection=ordered.rows.index_select(0, pairs.detection),
        iou=pairs.iou,
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
    """Find the pairs of `find_pairs` as places in the orders of detections and ground truths.

    `shapes` of detections are by row, `true_shapes` of ground truths in their order.
    """
    at_a_time = _BLOCKS_AT_A_TIME if shapes.device.type == "cpu" else 1
    search = _CandidateSearch(
        detections=detections,
        ground_truths=ground_truths,
        shapes=shapes,
        true_shapes=true_shapes,
        is_crowd=ground_truths.is_crowd if bool(ground_truths.is_crowd.any()) else None,
        at_least=at_least,
        max_bytes=max(1, max_bytes // at_a_time),
    )

    # The overlaps of a few blocks are computed in parallel, and memory is bounded by their number.
    num_left = ground_truths.sizes.clone()
    blocks = _candidate_blocks(search, num_left)
    grown: OverlappingPairs | None = None
    num_pairs = 0
    portions = iter(lambda: list(islice(blocks, at_a_time)), [])
    for portion in _progress.steps(portions, "Overlaps"):
        for pairs in workers.share(lambda block: block(), portion):
            if grown is None:  # the first block is not copied
                grown = pairs
            num_pairs = _append(grown, num_pairs, pairs)
    assert grown is not None  # noqa: S101 - there is at least one block
    pairs = grown if len(grown.iou) == num_pairs else select(grown, slice(num_pairs))

    # Crowded groups came first, with their detections by position.
    if not torch.equal(num_left, ground_truths.sizes):
        key = (pairs.ground_truth * len(detections.rows)).add_(pairs.detection)
        pairs = select(pairs, key.sort().indices)
    # From places by group to places by class and score.
    return pairs._replace(detection=detections.grouped.index_select(0, pairs.detection))


def _append(grown: OverlappingPairs, num_pairs: int, more: OverlappingPairs) -> int:
    """Write `more` after the first `num_pairs` pairs of `grown`, and return the number of all pairs.

    The columns of `grown` double when they are full. A list of small tensors, one per block, would fragment the memory.
    """
    end = num_pairs + len(more.iou)
    for column, values in zip(grown, more, strict=True):
        if end > len(column):
            column.resize_(max(end, _FIRST_GROWN, 2 * len(column)))
        if values is not column:
            column[num_pairs:end] = values
    return end


class _CandidateSearch(NamedTuple):
    """The boxes in all images, and the least overlap of a pair."""

    detections: inputs.OrderedDetections
    ground_truths: inputs.OrderedGroundTruths
    shapes: inputs.Shapes
    """shapes of detections by row"""
    true_shapes: inputs.Shapes
    """shapes of ground truths in their order"""
    is_crowd: Bool[Tensor, " ground_truths"] | None
    """None without crowds"""
    at_least: float
    max_bytes: int

    def crowds(self, ground_truths: Int[Tensor, " some"]) -> Bool[Tensor, " some"] | None:
        """Return whether some ground truths are crowds; None without crowds."""
        return None if self.is_crowd is None else self.is_crowd.index_select(0, ground_truths)

    def shapes_at(self, places: Int[Tensor, " some"] | None = None) -> inputs.Shapes:
        """Return the shapes of the detections at some places in `grouped`; None for all."""
        grouped = self.detections.grouped
        if places is not None:
            grouped = grouped.index_select(0, places)
        return self.shapes[self.detections.rows.index_select(0, grouped)]

    def overlap(
        self, places: Int[Tensor, " detections"] | None, shapes: inputs.Shapes, ground_truth: Tensor, detection: Tensor
    ) -> OverlappingPairs:
        """Return the candidate pairs that overlap enough.

        `detection` is an index into `shapes`, the shapes of detections at `places` in `grouped`; None for all.
        """
        iou = shapes.overlaps(detection, self.true_shapes, ground_truth, self.crowds(ground_truth))
        overlapping = (iou >= self.at_least).nonzero()[:, 0]
        pairs = select(OverlappingPairs(ground_truth, detection, iou), overlapping)
        return pairs if places is None else pairs._replace(detection=places.index_select(0, pairs.detection))

    def blocks(self, lengths: Int[Tensor, " _"], bytes_each: int = _BYTES_PER_PAIR) -> Iterator[slice]:
        """Return ranges of segments that fit into the memory together."""
        return segments.ranges_within(lengths, num_at_a_time(self.max_bytes, bytes_each, lengths.device, _CACHED_PAIRS))


def _candidate_blocks(search: _CandidateSearch, num_left: Int[Tensor, " groups"]) -> Iterator[Block]:
    """Yield blocks of all pairs that may overlap enough; crowded groups come first, with nearby detections only.

    `num_left`, the number of detections by group, becomes 0 for these crowded groups.
    """
    # With few boxes a search cannot pay: a training loop evaluates a few images at a time.
    most_pairs = len(search.detections.rows) * len(search.ground_truths.rows)
    if most_pairs <= min(_FEW_PAIRS, search.max_bytes // _BYTES_PER_PAIR):
        yield partial(_overlap_all, search)
        return
    crowded = _crowded_groups(search.ground_truths)
    for block in search.blocks(num_left.index_select(0, crowded), _BYTES_PER_SORTED):
        nearby = _find_nearby(search, crowded[block])
        if nearby is not None:
            num_left[crowded[block]] = 0
            yield from nearby
    for block in search.blocks(num_left.index_select(0, search.ground_truths.groups)):
        yield partial(_overlap_block, search, num_left, block)


def _overlap_all(search: _CandidateSearch) -> OverlappingPairs:
    """Overlap every ground truth with all detections in its group, as one block."""
    ordered = search.ground_truths
    starts = ordered.starts.index_select(0, ordered.groups)
    sizes = ordered.sizes.index_select(0, ordered.groups)
    ground_truth, detection = segments.runs(starts, sizes)
    return search.overlap(None, search.shapes_at(), ground_truth, detection)


def _overlap_block(search: _CandidateSearch, sizes: Int[Tensor, " groups"], block: slice) -> OverlappingPairs:
    """Overlap every ground truth in a block with all detections in its group; `sizes` are the numbers of detections.

    A block may begin and end inside a group; all blocks of a group have all its detections.
    """
    groups = search.ground_truths.groups[block]
    groups_of_block = slice(int(groups[0]), int(groups[-1]) + 1)
    group = groups - groups_of_block.start
    sizes = sizes[groups_of_block]
    places = segments.runs(search.ground_truths.starts[groups_of_block], sizes)[1]
    first = segments.starts(sizes).index_select(0, group)
    ground_truth, detection = segments.runs(first, sizes.index_select(0, group))
    return search.overlap(places, search.shapes_at(places), ground_truth.add_(block.start), detection)


def _crowded_groups(ground_truths: inputs.OrderedGroundTruths) -> Int[Tensor, " crowded"]:
    """Return the groups with enough pairs for a search along an axis; none if they have few pairs in all."""
    sizes = ground_truths.sizes
    num_ground_truths = ground_truths.groups.bincount(minlength=len(sizes))
    is_crowded = (sizes >= _LEAST_DETECTIONS) & (num_ground_truths >= _LEAST_GROUND_TRUTHS)
    num_pairs = int((sizes * num_ground_truths * is_crowded).sum())
    return is_crowded.nonzero()[:, 0] if num_pairs >= _LEAST_CROWDED_PAIRS else sizes[:0]


def _find_nearby(search: _CandidateSearch, groups: Int[Tensor, " some"]) -> Iterator[Block] | None:
    """Return blocks of nearby pairs in some groups; None if the shape has no `reach` or the search would not pay.

    For example with ground truths A and B and four detections, sorted by position along one axis:

        positions of the detections     2    9   21   30
        reach of A                      from 0 to 10: detections 0 and 1
        reach of B                      from 20 to 25: detection 2
        pairs                           3 instead of 8
    """
    # The ground truths and detections in these groups, with the index of their group in `groups`.
    ordered = search.ground_truths
    index = groups.new_full((len(ordered.sizes),), -1)
    index[groups] = torch.arange(len(groups), device=groups.device)
    true_group = index.index_select(0, ordered.groups)
    ground_truths = (true_group >= 0).nonzero()[:, 0]
    true_group = true_group.index_select(0, ground_truths)
    group, places = segments.runs(ordered.starts.index_select(0, groups), ordered.sizes.index_select(0, groups))
    shapes = search.shapes_at(places)
    reach = search.true_shapes[ground_truths].reach(
        shapes, at_least=search.at_least, is_crowd=search.crowds(ground_truths)
    )
    if reach is None:
        return None

    # Positions are rounded down to a million cells, which keeps their order: integers are sorted faster.
    low, high = reach.position.aminmax()
    cells_per_unit = ((1 << _CELL_BITS) - 1) / (high - low).clamp(min=_NOTHING)

    def sort_key(group: Tensor, position: Float[Tensor, " _"]) -> Tensor:
        return (group << _CELL_BITS).add_(((position.clamp(low, high) - low) * cells_per_unit).long())

    # The candidates of a ground truth are a run of the sorted detections.
    keys, order = sort_key(group, reach.position).sort()
    first = torch.searchsorted(keys, sort_key(true_group, reach.low))
    lengths = torch.searchsorted(keys, sort_key(true_group, reach.high), right=True) - first
    num_pairs = ordered.sizes.index_select(0, groups.index_select(0, true_group)).sum()
    if lengths.sum() > _MOST_NEARBY * num_pairs:
        return None
    places = places.index_select(0, order)
    shapes = shapes[order]

    def overlap(block: slice) -> OverlappingPairs:
        true_index, detection = segments.runs(first[block], lengths[block])
        ground_truth = ground_truths[block].index_select(0, true_index)
        return search.overlap(places, shapes, ground_truth, detection)

    return (partial(overlap, block) for block in search.blocks(lengths))


def num_at_a_time(max_bytes: int, bytes_each: int, device: torch.device, cached: int) -> int:
    """Return the number of pairs that fit into the memory at a time; on a CPU no more than its cache holds."""
    most = max(1, max_bytes // bytes_each)
    return min(most, cached) if device.type == "cpu" else most
