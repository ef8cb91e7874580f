"""Rank positives in a gallery that is sharded over processes, tile of queries by tile of queries.

For a tile, every process reads the scores of the positives in its own part of the gallery. All get the scores of all
positives, by a sum into a buffer with slots for each process. Every process counts the negatives of its part before
each positive, and the counts are summed. One query on two processes, the scores of its own identity in brackets:

    process                 0                  1
    scores            [.9]  .8  .3       .85  [.5]  .6
    buffer             .9   0             0    .5        each fills its own slots
    summed             .9   .5            .9   .5        the positives of all, best first
    negatives before    0    1             0    2        each in its own part: .8; .85 and .6
    summed              0    3             0    3
    ranks               1    5             1    5        negatives before, and the place among the positives
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.functional.world import World, all_gather_values

from .counting import Positives
from .positive_ranks import PositiveRanks
from .ranks import RankTable, count_ranks
from .tie_policies import TIE_POLICIES, best_first
from .tiles import GalleryPart, Tiles, cells_of_positives, positive_entries, queries_per_tile

_GATHERED = 1 << 22  # run lengths that are gathered at a time


def count_sharded_ranks(
    world: World, scores: Scores, relevance: Relevance, *, ties: str, places: Int[Tensor, " kept"] | None = None
) -> tuple[PositiveRanks, QueryCounts]:
    """Rank the positives of all queries among the parts of all processes; every process gets all ranks.

    Args:
        world: the processes; each has all queries and a part of the gallery.
        scores: of all queries against this process's part.
        relevance: of this part.
        ties: the order of equal scores; see `rank_positives`.
        places: of the kept items of this part in the order of the whole gallery, ascending; used by tie policies
            `by_place` alone.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: scores that are NaN.
    """
    if world.size == 1:
        ranks = count_ranks(scores, relevance, ties=ties)
        return ranks, relevance.counts(ranks.num_positives)
    policy = TIE_POLICIES[ties]
    part = GalleryPart(scores, relevance, policy, places if policy.by_place else None)
    slots = _Slots.agree(world, relevance.run_length)
    # A tile has the same queries on all processes: as many as fit on the one with the least memory to spend.
    fitting = queries_per_tile(part, slots.longest)
    _, table = world.guarded_all_gather(lambda: (None, [fitting, relevance.num_kept]))
    num_rows, num_gallery = min(rows for rows, _ in table), sum(kept for _, kept in table)
    counting = world.guarded(lambda: _Counting(world, part, slots, num_rows, num_gallery))
    for rows in _progress.steps(counting.tiles.rows, "Ranking"):
        counting.rank(rows)
    return counting.results()


@dataclass(frozen=True)
class _Slots:
    """Slots for the scores of the gallery items with a query's identity, on all processes.

    A query has one slot for each such item, junk or positive, in the order of the processes.
    """

    before: Int[Tensor, " queries"]
    """slots of lower processes"""
    total: Int[Tensor, " queries"]
    """slots of all processes"""

    @classmethod
    def agree(cls, world: World, run_length: Int[Tensor, " queries"]) -> _Slots:
        """Exchange the number of items of each process for each query."""
        before, total = torch.zeros_like(run_length), torch.zeros_like(run_length)
        for part in segments.ranges(len(run_length), max(1, _GATHERED // world.size)):
            lengths = all_gather_values(world, run_length[part], torch.int32).to(run_length.device)
            before[part] = lengths[: world.process].sum(0)
            total[part] = lengths.sum(0)
        return cls(before, total)

    @property
    def longest(self) -> int:
        """The most slots of one query."""
        return int(self.total.max()) if len(self.total) else 0


class _Merged(NamedTuple):
    """The positives of all processes for the queries of a tile."""

    positives: Positives
    cells: Int[Tensor, " positives"]
    """`cells_of_positives`"""


class _Counting:
    """The state of counting: buffers for a tile, and the ranks so far."""

    _tile: TileRelevance

    def __init__(self, world: World, part: GalleryPart, slots: _Slots, num_rows: int, num_gallery: int) -> None:
        """Reserve all buffers, so that memory runs out here if it does."""
        self._world, self._part, self._slots = world, part, slots
        self._device = part.scores.device
        self.tiles = Tiles(part, longest_run=slots.longest, num_rows=num_rows)
        self._num_slots = {rows.start: int(slots.total[rows].sum()) for rows in self.tiles.rows}
        # Buffers that are summed over the processes, for the largest tile; their first entry says whether one failed.
        most = 1 + max(self._num_slots.values(), default=0)
        self._scores = torch.empty(most, dtype=part.scores.dtype, device=world.device)
        self._places = torch.empty(most if part.ties.by_place else 1, dtype=torch.int64, device=world.device)
        count_dtype = torch.int32 if num_gallery < torch.iinfo(torch.int32).max else torch.int64
        self._counts = torch.empty(1 + part.ties.num_counts * (most - 1), dtype=count_dtype, device=world.device)
        self._table = RankTable(part.ties, slots.total)
        self._totals = torch.empty(1 + 2 * len(slots.total), dtype=torch.int64, device=world.device)

    def rank(self, rows: slice) -> None:
        """Rank the positives of the queries `rows`."""
        world = self._world
        num_slots = self._num_slots[rows.start]
        # The scores of all positives: every process fills its own slots, the others add zeros.
        scores = world.all_reduce_sum(self._scores[: num_slots + 1], lambda out: self._read(rows, out))
        places = self._places[:0]
        if self._part.ties.by_place:
            places = world.all_reduce_sum(self._places[: num_slots + 1], lambda out: self._read_places(rows, out))
        merged = world.guarded(lambda: self._merge(rows, scores, places))
        if merged is not None:  # on all processes or on none: they merged the same scores
            # The negatives before them: every process counts the negatives of its part.
            size = self._part.ties.num_counts * len(merged.cells)
            counts = world.all_reduce_sum(self._counts[: size + 1], lambda out: self._count(rows, merged, out))
            world.guarded(lambda: self._store(rows, merged, counts))

    def results(self) -> tuple[PositiveRanks, QueryCounts]:
        """The ranks, once all tiles are done."""
        num_queries, relevance, table = len(self._slots.total), self._part.relevance, self._table

        def fill(out: Tensor) -> None:
            out[:num_queries] = table.num_candidates
            out[num_queries:] = relevance.num_others

        totals = self._world.all_reduce_sum(self._totals, fill).to(self._device)
        table.num_candidates = totals[:num_queries].clone()
        return table.ranks(), relevance.counts(table.num_positives, totals[num_queries:])

    def _read(self, rows: slice, out: Tensor) -> None:
        """Put the scores of local positives, and NaN for local junk, into the slots of this process."""
        self._tile = tile = self._part.relevance.tile(rows)
        self._table.num_candidates[rows] = tile.num_candidates
        self._put(rows, self.tiles.read(rows, tile).masked_fill(~tile.positive, torch.nan), out)

    def _read_places(self, rows: slice, out: Tensor) -> None:
        assert self._part.places is not None  # noqa: S101 - for the type checker
        self._put(rows, self._part.places[self._tile.columns], out)

    def _put(self, rows: slice, values: Tensor, out: Tensor) -> None:
        total = self._slots.total[rows]
        first = segments.starts(total) + self._slots.before[rows]
        slots = first[:, None] + torch.arange(values.shape[1], device=values.device)
        out.zero_()
        out[slots[self._tile.listed].to(out.device)] = values[self._tile.listed].to(out.device)

    def _merge(self, rows: slice, scores: Tensor, places: Tensor) -> _Merged | None:
        """The positives of all processes, best first; None if there are none."""
        total = self._slots.total[rows]
        # Slots laid end to end become rows [queries, padded]; junk and padding are NaN.
        is_slot = torch.arange(int(total.max()), device=self._device) < total[:, None]
        padded = torch.full(is_slot.shape, torch.nan, dtype=scores.dtype, device=self._device)
        padded[is_slot] = scores.to(self._device)
        positive = ~padded.isnan()
        self._table.num_positives[rows] = num_positives = positive.sum(1)
        cells = cells_of_positives(num_positives, padded.shape[1])
        if not len(cells):
            return None
        # In a part of the gallery a positive of another part stands between two columns, or at an end.
        columns = torch.zeros_like(padded, dtype=torch.int64)
        if self._part.places is not None:
            columns[is_slot] = torch.searchsorted(self._part.places, places.to(self._device))
        return _Merged(best_first(padded, columns, positive, ties=self._part.ties), cells)

    def _count(self, rows: slice, merged: _Merged, out: Tensor) -> None:
        counts = self.tiles.count(rows, self._tile, merged.positives)
        out.copy_(counts.flatten(1)[:, merged.cells].flatten())

    def _store(self, rows: slice, merged: _Merged, counts: Tensor) -> None:
        counts = counts.to(self._device, torch.int64).view(self._part.ties.num_counts, -1)
        self._table.add(positive_entries(merged.positives, counts, self._table.num_positives[rows], merged.cells))
