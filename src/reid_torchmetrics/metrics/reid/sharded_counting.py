"""Count the ranks of positives against a gallery of which each rank has a part, tile of queries by tile of queries.

For a tile, every rank reads the scores of its own positives, all get those of all (by a sum into a buffer in which
every rank has places of its own), every rank counts its own negatives before each, and the counts are summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import (
    PositiveRanks,
    Positives,
    TiePolicy,
    Tiles,
    best_first,
    is_positive,
    positive_entries,
    queries_per_tile,
    ranks_of_entries,
)
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.metrics.base import Group

_GATHERED = 1 << 22  # run lengths that are gathered at a time


@dataclass(frozen=True)
class Shard:
    """All queries against one rank's part of the gallery."""

    scores: Scores
    relevance: Relevance
    places: Tensor | None
    """of the kept items in the order of the whole gallery, ascending; under tie policies `by_place` only"""
    ties: TiePolicy


@dataclass(frozen=True)
class _Slots:
    """Where each rank puts the scores of gallery items with a query's identity, among those of all ranks.

    A query has one slot for each such item, whether junk or positive; they follow each other in the order of the ranks.
    """

    before: Tensor
    """slots of lower ranks, int64 [queries]"""
    total: Tensor
    """slots of all ranks, int64 [queries]"""

    @classmethod
    def agree(cls, group: Group, own: Tensor) -> _Slots:
        """Exchange how many items each rank has for each query."""
        before, total = torch.zeros_like(own), torch.zeros_like(own)
        step = max(1, _GATHERED // group.size)
        for first in range(0, len(own), step):
            part = slice(first, first + step)
            lengths = _gathered(group, own[part]).to(own.device)
            before[part] = lengths[: group.rank].sum(0)
            total[part] = lengths.sum(0)
        return cls(before, total)

    @property
    def longest(self) -> int:
        """The most slots of one query."""
        return int(self.total.max()) if len(self.total) else 0


def _gathered(group: Group, lengths: Tensor) -> Tensor:
    """The lengths of all ranks, int32 [ranks, queries]."""

    def prepare() -> tuple[Tensor, Tensor]:
        own = lengths.to(group.device, torch.int32)
        return own, own.new_empty((group.size, len(own)))

    own, gathered = group.together(prepare)
    group.all_gather(own, gathered)
    return gathered


def count_ranks_together(group: Group, shard: Shard) -> tuple[PositiveRanks, QueryCounts]:
    """Rank the positives of all queries among the parts of all ranks; every rank gets all of it."""
    slots = _Slots.agree(group, shard.relevance.run_length)
    fitting = queries_per_tile(shard.scores, slots.longest, ties=shard.ties)
    _, table = group.exchange(lambda: (None, [fitting, shard.relevance.num_kept]), 2)
    num_rows, num_gallery = min(rows for rows, _ in table), sum(num_kept for _, num_kept in table)
    counting = group.together(lambda: _Counting(group, shard, slots, num_rows, num_gallery))
    for rows in counting.tiles.rows():
        counting.rank(rows)
    return counting.results()


class _Counting:
    """The state of counting: buffers for a tile, and what is known of all queries."""

    _tile: TileRelevance

    def __init__(self, group: Group, shard: Shard, slots: _Slots, num_rows: int, num_gallery: int) -> None:
        """Reserve what is needed, so that memory runs out here if it does."""
        self._group, self._shard, self._slots = group, shard, slots
        self._device = shard.scores.device
        self.tiles = Tiles(shard.scores, shard.relevance, ties=shard.ties, longest_run=slots.longest, num_rows=num_rows)
        self._num_slots = {rows.start: int(slots.total[rows].sum()) for rows in self.tiles.rows()}
        most = 1 + max(self._num_slots.values(), default=0)
        self._scores = torch.empty(most, dtype=shard.scores.dtype, device=group.device)
        self._places = torch.empty(most if shard.ties.by_place else 1, dtype=torch.int64, device=group.device)
        count_dtype = torch.int32 if num_gallery < torch.iinfo(torch.int32).max else torch.int64
        self._counts = torch.empty(1 + shard.ties.num_counts * (most - 1), dtype=count_dtype, device=group.device)
        shape = (shard.ties.num_entries, sum(self._num_slots.values()))
        self._entries = torch.empty(shape, dtype=torch.int64, device=self._device)
        self._filled = 0
        self._num_positives = torch.zeros_like(slots.total)
        self._num_candidates = torch.zeros_like(slots.total)
        self._totals = torch.empty(1 + 2 * len(slots.total), dtype=torch.int64, device=group.device)

    def rank(self, rows: slice) -> None:
        """Rank the positives of the queries `rows`."""
        group = self._group
        num_slots = self._num_slots[rows.start]
        scores = group.sum(self._scores[: num_slots + 1], lambda out: self._read(rows, out))
        places = self._places[:0]
        if self._shard.ties.by_place:
            places = group.sum(self._places[: num_slots + 1], lambda out: self._read_places(rows, out))
        merged = group.together(lambda: self._merge(rows, scores, places))
        if merged is not None:  # on all ranks or on none: they merged the same scores
            positives, num_positives = merged
            size = self._shard.ties.num_counts * num_positives
            counts = group.sum(self._counts[: size + 1], lambda out: self._count(rows, positives, out))
            group.together(lambda: self._store(rows, positives, counts))

    def results(self) -> tuple[PositiveRanks, QueryCounts]:
        """The ranks, once all tiles are done."""
        num_queries, relevance = len(self._num_positives), self._shard.relevance

        def fill(out: Tensor) -> None:
            out[:num_queries] = self._num_candidates
            out[num_queries:] = relevance.num_others

        totals = self._group.sum(self._totals, fill).to(self._device)
        num_candidates, num_others = totals[:num_queries].clone(), totals[num_queries:]
        entries = self._entries[:, : self._filled]
        ranks = ranks_of_entries(entries, self._num_positives, num_candidates, ties=self._shard.ties)
        return ranks, relevance.counts(self._num_positives, num_others)

    def _read(self, rows: slice, out: Tensor) -> None:
        """Put the scores of own positives into own slots, and NaN for own junk; nothing into the others' slots."""
        self._tile = tile = self._shard.relevance.tile(rows)
        self._num_candidates[rows] = tile.num_candidates
        own = self.tiles.read(rows, tile).masked_fill(~tile.positive, torch.nan)
        self._put(rows, own, out)

    def _read_places(self, rows: slice, out: Tensor) -> None:
        assert self._shard.places is not None  # noqa: S101 - for the type checker
        self._put(rows, self._shard.places[self._tile.columns], out)

    def _put(self, rows: slice, own: Tensor, out: Tensor) -> None:
        total = self._slots.total[rows]
        first = total.cumsum(0) - total + self._slots.before[rows]
        slots = first[:, None] + torch.arange(own.shape[1], device=own.device)
        out.zero_()
        out[slots[self._tile.listed].to(out.device)] = own[self._tile.listed].to(out.device)

    def _merge(self, rows: slice, scores: Tensor, places: Tensor) -> tuple[Positives, int] | None:
        """The positives of all ranks, best first, and how many they are; None if there are none."""
        total = self._slots.total[rows]
        is_slot = torch.arange(int(total.max()), device=self._device) < total[:, None]
        padded = torch.full(is_slot.shape, torch.nan, dtype=scores.dtype, device=self._device)
        padded[is_slot] = scores.to(self._device)
        positive = ~padded.isnan()
        self._num_positives[rows] = positive.sum(1)
        num_positives = int(positive.sum())
        if not num_positives:
            return None
        columns = torch.zeros_like(padded, dtype=torch.int64)
        if self._shard.places is not None:
            columns[is_slot] = torch.searchsorted(self._shard.places, places.to(self._device))
        return best_first(padded, columns, positive, ties=self._shard.ties), num_positives

    def _count(self, rows: slice, positives: Positives, out: Tensor) -> None:
        counts = self.tiles.count(rows, self._tile, positives)
        out.copy_(counts[:, is_positive(self._num_positives[rows], counts.shape[2])].flatten())

    def _store(self, rows: slice, positives: Positives, counts: Tensor) -> None:
        counts = counts.to(self._device, torch.int64).view(self._shard.ties.num_counts, -1)
        entries = positive_entries(positives, counts, self._num_positives[rows])
        self._entries[:, self._filled : self._filled + entries.shape[1]] = entries
        self._filled += entries.shape[1]
