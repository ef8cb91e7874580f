"""List the first candidates in a gallery that may be sharded over processes, tile of queries by tile of queries.

As for ranks (`sharded_counting`), every process reads the positives of its part, all learn the best positive, and every
process counts the negatives of its part before it. In the same pass it lists the best candidates of its part, and all
processes merge the lists of all. One query on two processes, the items of its identity in brackets, lists of two:

    process                  0                  1
    scores             [.4]  .8  .3       .9  [.5]  .2
    best positive       .4                .5              of all: .5
    negatives before     1                 1              summed 2, so that the first positive is at rank 3
    lists              .8  [.4]           .9  [.5]        merged: .9 and .8
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Panel, shape_on
from reid_torchmetrics.functional.world import World, all_gather_values, all_reduce_values

from .counting import Negatives, are_above, count_true
from .tie_policies import TiePolicy
from .tiles import GalleryPart, Tiles, queries_per_tile
from .top_k import keys_of_scores, stable_top_k

Result = TypeVar("Result")

_BYTES_PER_LISTED = 128  # score, place and flags of a listed item, a few times over while lists are merged
_PLACE = (1 << 30) - 1
_SCORES_AT_A_TIME = 1 << 18  # compared with a positive: they, and what comparing needs, stay in the cache


class CandidateLists(NamedTuple):
    """Some candidates of each query, and padding."""

    scores: Float[Tensor, "queries listed"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries listed"]
    """in the whole gallery"""
    columns: Int[Tensor, "queries listed"]
    """positions in this process's kept gallery; -1 at padding and for items of other processes"""
    positive: Bool[Tensor, "queries listed"]
    listed: Bool[Tensor, "queries listed"]
    """False at padding"""

    @classmethod
    def padding(cls, num_queries: int, length: int, like: Tensor) -> CandidateLists:
        """Lists without any candidate, with the dtype and device of some scores."""
        scores = torch.full((num_queries, length), -torch.inf, dtype=like.dtype, device=like.device)
        nowhere, nothing = torch.full_like(scores, -1, dtype=torch.int64), torch.zeros_like(scores, dtype=torch.bool)
        return CandidateLists(scores, nowhere, nowhere.clone(), nothing, nothing.clone())

    def first(self, k: int, ties: TiePolicy) -> CandidateLists:
        """The first `k` in the order of a tie policy, or all if they are fewer."""
        order = self._order(ties)[:, :k]
        return CandidateLists(*(values.gather(1, order) for values in self))

    def _order(self, ties: TiePolicy) -> Int[Tensor, "queries listed"]:
        """Positions in the order of a tie policy."""
        kind = (~self.positive if ties.positives_first else self.positive).byte()  # not every device sorts bools
        kinds = () if ties.lists_by_place else (kind,)
        if self.scores.device.type == "cpu" and self.scores.dtype == torch.float32:
            # One integer holds all criteria if a place needs 30 bits: the score, then whether it is padding.
            places = self.places.masked_fill(~self.listed, 0)
            if places.numel() and int(places.min()) >= 0 and int(places.max()) <= _PLACE:
                low = places | sum((each.long() << 30 for each in kinds), (~self.listed).long() << 31)
                return torch.from_numpy((keys_of_scores(self.scores.numpy()) | low.numpy()).argsort(axis=1))
        # From the last criterion to the first: each sort keeps the order of the sorts before it.
        order = self.places.argsort(dim=1, stable=True)
        for criterion in (*kinds, -self.scores, (~self.listed).byte()):
            order = order.gather(1, criterion.gather(1, order).argsort(dim=1, stable=True))
        return order

    def beside(self, other: CandidateLists) -> CandidateLists:
        """The candidates of both."""
        return CandidateLists(*(torch.cat(parts, dim=1) for parts in zip(self, other, strict=True)))

    def of(self, queries: Int[Tensor, " chosen"]) -> CandidateLists:
        """The lists of some queries."""
        return CandidateLists(*(values[queries] for values in self))

    def widened(self, length: int) -> CandidateLists:
        """With padding up to a length."""
        num_queries, listed = self.scores.shape
        return self.beside(CandidateLists.padding(num_queries, length - listed, self.scores))

    def of_all(self, world: World, ties: TiePolicy, k: int, *, in_one_word: bool) -> CandidateLists:
        """The first `k` candidates of the lists of all processes; their lists have one length.

        A candidate is sent in 24 bytes, or in 8 where all scores have 32 bits and all places fit in 30.
        """
        if world.size == 1:
            return self
        length = self.scores.shape[1]
        local = slice(world.process * length, (world.process + 1) * length)

        def pack() -> Tensor:
            # One message: the score, as the bits that it has, the place, and 1 for a negative, 2 for a positive.
            flags = self.listed.long() + self.positive.long()
            if in_one_word:
                low = self.places.where(self.listed, 0) << 2 | flags
                return (self.scores.contiguous().view(torch.int32).long() << 32 | low)[None]
            return torch.stack([self.scores.double().contiguous().view(torch.int64), self.places, flags])

        gathered = all_gather_values(world, world.guarded(pack))

        def merge() -> CandidateLists:
            # [processes, words, queries, listed] becomes the lists of all processes side by side.
            words = gathered.to(self.places.device).permute(1, 2, 0, 3).flatten(2)
            if in_one_word:
                scores, flags = (words[0] >> 32).int().view(torch.float32), words[0] & 3
                places = (words[0] >> 2 & _PLACE).where(flags > 0, -1)
            else:
                scores, places, flags = words[0].view(torch.float64).to(self.scores.dtype), words[1], words[2]
            columns = torch.full_like(places, -1)
            columns[:, local] = self.columns
            return CandidateLists(scores, places, columns, flags > 1, flags > 0).first(k, ties)

        return world.guarded(merge)


class Listing:
    """The lists of all queries, filled tile by tile."""

    _tile: TileRelevance

    @classmethod
    def agree(cls, world: World, part: GalleryPart, k: int, num_wanted: int) -> Listing:
        """Choose tiles of the same queries on all processes: as many as fit on the one with the least memory."""
        ends = part.places[[0, -1]].tolist() if part.places is not None and len(part.places) else [0, 0]
        limits = queries_per_tile(part), part.relevance.num_kept, part.scores.max_bytes, *ends
        _, table = world.guarded_all_gather(lambda: (None, limits))
        num_fitting, num_kept, max_bytes, first, last = zip(*table, strict=True)
        in_one_word = part.scores.dtype == torch.float32 and 0 <= min(first) <= max(last) <= _PLACE
        lengths = min(k, max(num_kept)), min(k, sum(num_kept))  # no part has a longer list to give
        row_bytes = _BYTES_PER_LISTED * max(1, world.size * lengths[0])
        num_rows = max(1, min(*num_fitting, min(max_bytes) // row_bytes))
        unit = shape_on(part.scores.device).unit  # of the rows of a product
        num_rows -= num_rows % unit if num_rows > unit else 0
        return world.guarded(lambda: cls(world, part, num_wanted, lengths, num_rows, in_one_word))

    def __init__(
        self,
        world: World,
        part: GalleryPart,
        num_wanted: int,
        lengths: tuple[int, int],
        num_rows: int,
        in_one_word: bool,
    ) -> None:
        """Reserve all lists, so that memory runs out here if it does; `lengths` are of one part and of all parts."""
        self._length, self._length_of_all = lengths
        self._world, self._part, self.num_rows = world, part, num_rows
        self._of_all = functools.partial(CandidateLists.of_all, world=world, ties=part.ties, in_one_word=in_one_word)
        self._tiles = Tiles(part, num_rows=num_rows)
        like = torch.empty(0, dtype=part.scores.dtype, device=part.scores.device)
        self._lists = CandidateLists.padding(num_wanted, max(1, self._length_of_all) + 1, like)
        self._num_before = torch.zeros(num_wanted, dtype=torch.int64, device=like.device)

    def list(self, rows: slice, inside: Int[Tensor, " inside"], out: slice) -> None:
        """List the candidates of the queries `inside` of a tile."""
        world, scores = self._world, self._part.scores
        if scores.sent is not None:
            scores.sent.fetch(rows, ahead=len(self._num_before) == scores.num_queries)
        positives, local_best = self._guarded(lambda: self._read(rows))
        best = self._of_all(local_best, k=1)
        # The rest of one pass over the scores: the best negatives, and how many come before the best positive of all.
        local_lists, local_before = self._guarded(lambda: self._add_negatives(rows, inside, positives, best))
        lists = self._of_all(local_lists, k=self._length_of_all)
        num_before = all_reduce_values(world, lambda: local_before)
        self._guarded(lambda: self._store(rows, inside, out, (lists, best.of(inside), num_before[inside])))

    def _guarded(self, work: Callable[[], Result]) -> Result:
        """Do this process's share of the work, on the thread pool."""
        device, inside = self._part.scores.device, self._part.keeps_thread
        return self._world.guarded(lambda: workers.run(work, device, inside=inside))

    def _read(self, rows: slice) -> tuple[CandidateLists, CandidateLists]:
        """The positives of this part, the best first, and lists of the best one; the scores are left in the buffer."""
        self._tile = tile = self._part.relevance.tile(rows)
        scores = self._tiles.read(rows, tile).masked_fill_(~tile.positive, -torch.inf)
        # In a run columns ascend, so that equal scores keep the order of the gallery.
        best, items = stable_top_k(scores, min(self._length, scores.shape[1]), tile.positive)
        columns = tile.columns.gather(1, items.clamp(min=0)).masked_fill(items < 0, -1)
        positives = self._named(best, columns, positive=True)
        padded = positives.widened(1 + positives.scores.shape[1])
        return positives, CandidateLists(*(values[:, :1] for values in padded))

    def _add_negatives(
        self, rows: slice, inside: Int[Tensor, " inside"], positives: CandidateLists, best: CandidateLists
    ) -> tuple[CandidateLists, Int[Tensor, " queries"]]:
        """The lists of the queries `inside` in this part, and each query's negatives before its best positive."""
        lists, num_before = positives, best.places.new_zeros(len(best.places))
        for panel, negatives in self._tiles.negatives(rows, self._tile):
            removed = functools.partial(self._removed, rows, panel, negatives)
            of_panel = self._list_panel(negatives, removed)
            num_before += self._count_before(negatives, of_panel, best, removed)
            lists = lists.beside(of_panel).first(self._length, self._part.ties)
        return lists.of(inside).widened(self._length), num_before

    def _removed(self, rows: slice, panel: Panel, negatives: Negatives) -> Bool[Tensor, "queries columns"]:
        """Mark all but the negatives; found again where the tie policy did not need it."""
        return self._tiles.removed(rows, self._tile, panel) if negatives.removed is None else negatives.removed

    def _list_panel(self, negatives: Negatives, removed: Callable[[], Tensor]) -> CandidateLists:
        """The best negatives of a panel."""
        k = min(self._length, negatives.scores.shape[1])
        best, columns = stable_top_k(negatives.scores, k)
        if bool(best.isneginf().any()):  # a score like another one, or no negative
            best, columns = stable_top_k(negatives.scores, k, ~removed())
        _checks.no_nan(negatives.argument, best[:, :1])  # NaN is the highest
        return self._named(best, torch.where(columns < 0, columns, columns + negatives.first_place), positive=False)

    def _named(self, scores: Tensor, columns: Tensor, *, positive: bool) -> CandidateLists:
        """Lists of positives or of negatives; padding is in column -1."""
        listed, places = columns >= 0, columns
        if self._part.places is not None and len(self._part.places):
            places = self._part.places[columns.clamp(min=0)].masked_fill(~listed, -1)
        return CandidateLists(scores, places, columns, listed if positive else torch.zeros_like(listed), listed)

    def _count_before(
        self, negatives: Negatives, listed: CandidateLists, best: CandidateLists, removed: Callable[[], Tensor]
    ) -> Int[Tensor, " queries"]:
        """How many negatives of a panel come before the best positive of each query."""
        score, place, exists = best.scores, best.places, best.listed
        num_before = (self._is_before(listed.scores, listed.places, score, place) & listed.listed & exists).sum(1)
        # Where the whole list comes before the positive, more of the panel may do so.
        k, width = listed.scores.shape[1], negatives.scores.shape[1]
        open_rows = (num_before == k).nonzero()[:, 0] if k < width else num_before[:0]
        places, first = self._part.places, negatives.first_place
        places = torch.arange(first, first + width, device=place.device) if places is None else places[first:][:width]
        for some in _rows_at_a_time(open_rows, len(num_before), max(1, _SCORES_AT_A_TIME // width)):
            before = self._is_before(negatives.scores[some], places, score[some], place[some])
            if bool((score[some].isneginf() & exists[some]).any()):  # what was taken out has this score, too
                before &= ~removed()[some]
            num_before[some] = count_true(before).where(exists[some, 0], 0)
        return num_before

    def _is_before(self, scores: Tensor, places: Tensor, score: Tensor, place: Tensor) -> Bool[Tensor, "queries items"]:
        """Whether negatives come before a positive with the given score and place."""
        ties = self._part.ties
        if ties.lists_by_place:
            return are_above(scores, score, or_level=False) | ((scores == score) & (places < place))
        return are_above(scores, score, or_level=not ties.positives_first)

    def _store(
        self, rows: slice, inside: Tensor, out: slice, results: tuple[CandidateLists, CandidateLists, Tensor]
    ) -> None:
        """Keep the results of the queries `inside`, with scores that can be compared between queries."""
        lists, best, self._num_before[out] = results
        lists = lists.widened(max(1, self._length_of_all)).beside(best)
        # In the rows of the tile, as the similarity knows them.
        scores = lists.scores.new_zeros((rows.stop - rows.start, lists.scores.shape[1]))
        scores[inside] = lists.scores
        self._part.scores.to_comparable(scores, rows)
        for whole, part in zip(self._lists, lists._replace(scores=scores[inside]), strict=True):
            whole[out] = part

    def results(self, order: Int[Tensor, " queries"]) -> tuple[CandidateLists, Int[Tensor, " queries"]]:
        """In an order of the queries, the lists with the best positive behind each, and the negatives before it."""
        return self._lists.of(order), self._num_before[order]


def _rows_at_a_time(rows: Int[Tensor, " rows"], num_all: int, step: int) -> Sequence[slice | Tensor]:
    """Some rows, a few at a time; all rows, as slices without a copy, if they are less than twice as many."""
    return segments.ranges(num_all, step) if 2 * len(rows) > num_all else rows.split(step)
