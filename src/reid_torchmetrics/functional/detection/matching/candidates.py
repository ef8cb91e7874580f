"""Pairs of a detection and a ground truth that may overlap enough, block by block.

A detection is a candidate of every ground truth of its image and class. In a crowded image most pairs are far apart:
there detections are sorted along one axis, and only those near a ground truth are its candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import OrderedDetections, OrderedGroundTruths, Shapes

_CACHED_PAIRS = 1 << 15  # pairs whose columns stay in the cache of a CPU
_FEW_PAIRS = 1 << 16  # of all groups: they are looked at as they are
_BYTES_PER_PAIR = 200  # about what is held of a pair while its overlap is computed
_BYTES_PER_SORTED = 200  # and of a detection while those near a ground truth are looked for
_LEAST_DETECTIONS, _LEAST_GROUND_TRUTHS = 32, 8  # of a group whose detections are worth sorting
_LEAST_CROWDED_PAIRS = 1 << 15  # in all such groups
_MOST_NEARBY = 0.5  # of the pairs of such groups, if it is to be worth it
_CELL_BITS = 20
_NOTHING = 2.0**-500  # less than the distance of any two positions that differ


class Candidates(NamedTuple):
    """A block of pairs."""

    places: Int[Tensor, " detections"]
    """places in `grouped` of the detections of the block"""
    shapes: Shapes
    """of these"""
    ground_truth: Int[Tensor, " pairs"]
    detection: Int[Tensor, " pairs"]
    """counted in `places`"""
    is_in_order: bool = True
    """whether the pairs of a ground truth are in the order of their detections"""


@dataclass(frozen=True)
class Search:
    """What is looked through, and for what."""

    detections: OrderedDetections
    ground_truths: OrderedGroundTruths
    shapes: Shapes
    """of detections by row"""
    true_shapes: Shapes
    """of ground truths in their order"""
    is_crowd: Bool[Tensor, " ground_truths"] | None
    """None if no one is"""
    at_least: float
    max_bytes: int

    def crowds(self, ground_truths: Int[Tensor, " some"]) -> Bool[Tensor, " some"] | None:
        """Which of some ground truths are crowds."""
        return None if self.is_crowd is None else self.is_crowd.index_select(0, ground_truths)

    def shapes_at(self, places: Int[Tensor, " some"]) -> Shapes:
        """Of detections at some places in `grouped`."""
        return self.shapes[self.detections.rows.index_select(0, self.detections.grouped.index_select(0, places))]

    def blocks(self, lengths: Int[Tensor, " _"], bytes_each: int = _BYTES_PER_PAIR) -> Iterator[slice]:
        """Ranges of segments that are looked at together."""
        return segments.ranges_within(lengths, num_at_a_time(self.max_bytes, bytes_each, lengths.device, _CACHED_PAIRS))


def find_candidates(search: Search) -> Iterator[Callable[[], Candidates]]:
    """All pairs that may overlap enough, those of crowded groups first: of each block what lists its pairs."""
    sizes = search.ground_truths.sizes
    # Sizes alone tell where it is not worth looking at the groups: a training loop evaluates a few images at a time.
    most = len(search.detections.rows) * len(search.ground_truths.rows)
    if most <= min(_FEW_PAIRS, search.max_bytes // _BYTES_PER_PAIR):
        yield partial(_all_at_once, search)
        return
    crowded = _crowded_groups(search.ground_truths)
    if len(crowded):
        sizes = sizes.clone()
        for block in search.blocks(sizes.index_select(0, crowded), _BYTES_PER_SORTED):
            nearby = _find_nearby(search, crowded[block])
            if nearby is not None:
                sizes[crowded[block]] = 0  # they are done
                yield from nearby
    yield from _all_of_groups(search, sizes)


def _all_at_once(search: Search) -> Candidates:
    """Every detection for every ground truth of its group, as one block."""
    starts, sizes = (values.index_select(0, search.ground_truths.groups) for values in search.ground_truths[-2:])
    rows = search.detections.rows.index_select(0, search.detections.grouped)
    places = torch.arange(len(rows), device=starts.device)
    return Candidates(places, search.shapes[rows], *segments.runs(starts, sizes))


def _all_of_groups(search: Search, sizes: Int[Tensor, " groups"]) -> Iterator[Callable[[], Candidates]]:
    """Every detection for every ground truth of its group; `sizes` are the numbers of detections to look at."""
    for block in search.blocks(sizes.index_select(0, search.ground_truths.groups)):
        yield partial(_all_of_block, search, sizes, block)


def _all_of_block(search: Search, sizes: Int[Tensor, " groups"], block: slice) -> Candidates:
    """Of whole ground truths; it may begin and end inside a group, whose detections are in all its blocks."""
    groups = search.ground_truths.groups[block]
    occupied = slice(int(groups[0]), int(groups[-1]) + 1)
    group = groups - occupied.start
    places = segments.runs(search.ground_truths.starts[occupied], sizes[occupied])[1]
    first = segments.starts(sizes[occupied]).index_select(0, group)
    ground_truth, detection = segments.runs(first, sizes[occupied].index_select(0, group))
    return Candidates(places, search.shapes_at(places), ground_truth.add_(block.start), detection)


def _crowded_groups(ground_truths: OrderedGroundTruths) -> Int[Tensor, " crowded"]:
    """The groups with so many pairs that looking nearby may pay; none if they have few in all."""
    sizes = ground_truths.sizes
    num_ground_truths = ground_truths.groups.bincount(minlength=len(sizes))
    is_crowded = (sizes >= _LEAST_DETECTIONS) & (num_ground_truths >= _LEAST_GROUND_TRUTHS)
    num_pairs = int((sizes * num_ground_truths * is_crowded).sum())
    return is_crowded.nonzero()[:, 0] if num_pairs >= _LEAST_CROWDED_PAIRS else sizes[:0]


def _find_nearby(search: Search, groups: Int[Tensor, " some"]) -> Iterator[Callable[[], Candidates]] | None:
    """The pairs of some groups that are near each other; None if nobody knows, or if they are most of all."""
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

    # A position is rounded down to one of a million cells, in ascending order as it is: integers are sorted faster.
    low, high = reach.position.aminmax()
    per_cell = ((1 << _CELL_BITS) - 1) / (high - low).clamp(min=_NOTHING)

    def key(group: Tensor, position: Float[Tensor, " _"]) -> Tensor:
        return (group << _CELL_BITS).add_(((position.clamp(low, high) - low) * per_cell).long())

    keys, order = key(group, reach.position).sort()
    first = torch.searchsorted(keys, key(number, reach.low))
    lengths = torch.searchsorted(keys, key(number, reach.high), right=True) - first
    num_pairs = ordered.sizes.index_select(0, groups.index_select(0, number)).sum()
    if lengths.sum() > _MOST_NEARBY * num_pairs:
        return None
    places, shapes = places.index_select(0, order), shapes[order]
    return _nearby_blocks(search, ground_truths, (places, shapes), (first, lengths))


def _nearby_blocks(
    search: Search,
    ground_truths: Int[Tensor, " ground_truths"],
    detections: tuple[Int[Tensor, " detections"], Shapes],
    runs: tuple[Int[Tensor, " ground_truths"], Int[Tensor, " ground_truths"]],
) -> Iterator[Callable[[], Candidates]]:
    """Each ground truth with a run of detections, of which the first and the number are given."""
    first, lengths = runs

    def of_block(block: slice) -> Candidates:
        ground_truth, detection = segments.runs(first[block], lengths[block])
        return Candidates(*detections, ground_truths[block].index_select(0, ground_truth), detection, is_in_order=False)

    for block in search.blocks(lengths):
        yield partial(of_block, block)


def num_at_a_time(max_bytes: int, bytes_each: int, device: torch.device, cached: int) -> int:
    """How many pairs to hold at a time within a bound; on a CPU no more than its cache holds."""
    most = max(1, max_bytes // bytes_each)
    return min(most, cached) if device.type == "cpu" else most
