"""The first candidates of every query, and its first positive: ranked lists, cut after k.

The gallery may be sharded over processes. As for ranks (`ranks`), tile of queries by tile of queries, every
process reads the positives of its part, all learn the best positive, and every process counts the negatives of its part
before it. In the same pass it lists the best candidates of its part. Each process merges the lists of its share of the
queries, and sends what is left to all: of a query it receives two lists for any number of processes. One query on two
processes, the items of its identity in brackets, lists of two:

    process                  0                  1
    scores             [.4]  .8  .3       .9  [.5]  .2
    best positive       .4                .5              of all: .5
    negatives before     1                 1              summed 2, so that the first positive is at rank 3
    lists              .8  [.4]           .9  [.5]        merged: .9 and .8
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.functional.world import ALONE, World, all_gather_values, all_reduce_values, all_to_all_values

from .counting import Negatives, are_above, count_true
from .tie_policies import TIE_POLICIES, TiePolicy
from .tiles import GalleryPart, Tiles, size_of_tiles
from .top_k import keys_of_scores, likely_top_k, rising_keys, stable_top_k

Result = TypeVar("Result")

_LARGEST_STEP = 8  # from one wanted query to the next: queries between cost less than another pass over the gallery
_BYTES_PER_LISTED = 128  # score, place and flags of a listed item, a few times over while lists are merged
_PLACE = (1 << 30) - 1
_SCORES_IN_DOUBT = 1 << 24  # listed again at a time, on devices
_SCORES_AT_A_TIME = 1 << 18  # compared with a positive: they, and what comparing needs, stay in the CPU's cache


@dataclass(frozen=True, eq=False)
class Nearest:
    """The first k candidates of every query, best first, and its first positive; the same on all processes.

    No list is longer than the gallery without junk identities, `kept` of all processes, for any k; one place is
    always there. A query with fewer candidates is padded at the end.
    """

    positions: Int[Tensor, "queries k"]
    """int64; positions in the gallery, counting all its items; -1 at padding, and for items of other processes"""
    places: Int[Tensor, "queries k"]
    """int64; places of the candidates in the whole gallery, if they were given, else `positions`"""
    scores: Float[Tensor, "queries k"]
    """higher is closer, comparable between queries; NaN at padding"""
    positive: Bool[Tensor, "queries k"]
    """whether the candidate is a positive, else it is a negative; False at padding"""
    first_rank: Int[Tensor, " queries"]
    """int64; rank of the first positive among all candidates, 0 where there is none"""
    first_position: Int[Tensor, " queries"]
    """int64; as `positions`, of the first positive; -1 also where there is none"""
    first_place: Int[Tensor, " queries"]
    first_score: Float[Tensor, " queries"]
    """NaN where there is no positive"""


@torch.no_grad()
def nearest(
    scores: Scores,
    relevance: Relevance,
    k: int,
    queries: Integer[Tensor, " queries"] | None = None,
    *,
    ties: _names.TieName = "stable",
    world: World = ALONE,
    places: Int[Tensor, " kept"] | None = None,
) -> Nearest:
    """The k candidates of each query with the highest scores, and where its first positive is; junk is never listed.

    This is the ranking under a tie policy, cut after k; it does not depend on `scores.max_bytes`. Candidates of one
    kind with equal scores are in gallery order. Under "grouped" negatives go before the positives with their score, as
    under "pessimistic"; under "expected", without an order of its own, items are in gallery order, as under "stable".

    Args:
        scores: from `score_embeddings` or `given_scores`.
        relevance: the one that `scores` was made with.
        k: number of candidates to list; beyond the gallery it stands for all of them.
        queries: positions of the queries wanted, in any order; None for all.
        ties: the order of equal scores, a key of `TIE_POLICIES`.
        world: the processes that share the gallery; each has all queries, and must want the same queries.
        places: of the kept items of this process's part in the order of the whole gallery, ascending, each once; needed
            where other processes have parts.

    Raises:
        DistributedMetricError: an error on some process.
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, an unknown tie policy, or the score of
            a candidate is NaN.
    """
    _checks.positive_int("k", k)
    _checks.one_of("ties", ties, TIE_POLICIES)
    scores.check_fit(relevance)
    # Queries are listed in ascending order, each once.
    if queries is None:
        ascending = row_of_query = torch.arange(scores.num_queries, device=scores.device)
        wanted: Sequence[int] = range(scores.num_queries)
    else:
        queries = _checks.integer_labels("queries", queries, device=scores.device)
        _checks.in_range("queries", queries, 0, scores.num_queries)
        ascending, row_of_query = queries.long().unique(return_inverse=True)
        wanted = ascending.tolist()
    part = GalleryPart(scores, relevance, TIE_POLICIES[ties], places)
    listing = _Listing(world, part, k, len(ascending))
    done = 0
    if queries is None:
        ranges = segments.ranges(scores.num_queries, listing.num_rows)
    else:
        ranges = list(_ranges(wanted, listing.num_rows))
    for rows in _progress.steps(ranges, "Rank lists"):
        # A range may hold a few queries that are not wanted: scoring them costs less than cutting the tile.
        out = slice(done, bisect_left(wanted, rows.stop))
        are_all_wanted = out.stop - out.start == rows.stop - rows.start
        listing.list(rows, slice(None) if are_all_wanted else ascending[out] - rows.start, out)
        done = out.stop
    return listing.results(row_of_query)


def _ranges(wanted: Sequence[int], length: int) -> Iterator[slice]:
    """Cover ascending positions by ranges of at most `length`, with few other positions between them."""
    first = 0
    for number, (position, following) in enumerate(pairwise([*wanted, math.inf]), start=1):
        if following - position > _LARGEST_STEP or following - wanted[first] >= length:
            yield slice(wanted[first], position + 1)
            first = number


class _Lists(NamedTuple):
    """Some candidates of each query, and padding."""

    scores: Float[Tensor, "queries listed"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries listed"]
    """in the whole gallery, or in its only part; -1 at padding"""
    positive: Bool[Tensor, "queries listed"]
    listed: Bool[Tensor, "queries listed"]
    """False at padding"""

    @classmethod
    def padding(cls, num_queries: int, length: int, like: Tensor) -> _Lists:
        """Lists without any candidate, with the dtype and device of some scores."""
        scores = torch.full((num_queries, length), -torch.inf, dtype=like.dtype, device=like.device)
        nowhere, nothing = torch.full_like(scores, -1, dtype=torch.int64), torch.zeros_like(scores, dtype=torch.bool)
        return cls(scores, nowhere, nothing, nothing.clone())

    def first(self, k: int, ties: TiePolicy, *, in_one_word: bool) -> _Lists:
        """The first `k` in the order of a tie policy, or all if they are fewer.

        `in_one_word` says that scores are of float32, and that places have 30 bits.
        """
        order = (self._order_of_words(ties) if in_one_word else self._order(ties))[:, :k]
        return _Lists(*(values.gather(1, order) for values in self))

    def _order_of_words(self, ties: TiePolicy) -> Int[Tensor, "queries listed"]:
        """Positions in the order of a tie policy, by an integer that holds all criteria."""
        # From the upper bits to the lower ones: the score, whether it is padding, positive or negative, the place.
        low = self.places.masked_fill(~self.listed, 0) | (~self.listed).long() << 31
        if not ties.lists_by_place:
            low |= (self.positive != ties.positives_first).long() << 30
        if self.scores.device.type == "cpu":
            return torch.from_numpy((keys_of_scores(self.scores.numpy()) | low.numpy()).argsort(axis=1))
        falling_keys = (1 << 31) - 1 - rising_keys(self.scores)
        return (falling_keys << 32 | low).argsort(dim=1)

    def _order(self, ties: TiePolicy) -> Int[Tensor, "queries listed"]:
        """Positions in the order of a tie policy."""
        # Not every device sorts bools.
        kinds = [] if ties.lists_by_place else [(self.positive != ties.positives_first).byte()]
        # From the last criterion to the first: each sort keeps the order of the sorts before it.
        order = self.places.argsort(dim=1, stable=True)
        for criterion in (*kinds, -self.scores, (~self.listed).byte()):
            order = order.gather(1, criterion.gather(1, order).argsort(dim=1, stable=True))
        return order

    def beside(self, other: _Lists) -> _Lists:
        """The candidates of both."""
        return _Lists(*(torch.cat(parts, dim=1) for parts in zip(self, other, strict=True)))

    def of(self, *places: Any) -> _Lists:
        """The lists of some queries, or a part of the lists."""
        return _Lists(*(values[places] for values in self))

    def widened(self, length: int) -> _Lists:
        """With padding up to a length."""
        num_queries, listed = self.scores.shape
        if listed == length:
            return self
        return self.beside(_Lists.padding(num_queries, length - listed, self.scores))


class _Listing:
    """The lists of all queries, filled tile by tile."""

    _tile: TileRelevance

    def __init__(self, world: World, part: GalleryPart, k: int, num_wanted: int) -> None:
        """Agree on tiles of the same queries on all processes, and reserve all lists: memory runs out here if it does.

        A tile has as many queries as fit on the process with the least memory.
        """
        self._world, self._part = world, part
        ends = part.places[[0, -1]].tolist() if part.places is not None and len(part.places) else [0, 0]
        limits = size_of_tiles(part)[0], part.relevance.num_kept, part.scores.max_bytes, *ends
        _, table = world.guarded_all_gather(lambda: (None, limits))
        num_fitting, num_kept, max_bytes, first, last = zip(*table, strict=True)
        is_short = 0 <= min(first) <= max(last) <= _PLACE and max(num_kept) <= _PLACE
        self._in_one_word = part.scores.dtype == torch.float32 and is_short
        # No part has a longer list to give than its gallery.
        self._length, self._length_of_all = min(k, max(num_kept)), min(k, sum(num_kept))
        row_bytes = _BYTES_PER_LISTED * max(1, self._length_of_all)
        num_rows, unit = max(1, min(*num_fitting, min(max_bytes) // row_bytes)), part.scores.product_shape.unit
        self.num_rows = num_rows - (num_rows % unit if num_rows > unit else 0)  # rows of a product

        def reserve() -> tuple[Tiles, _Lists, Tensor]:
            like = torch.empty(0, dtype=part.scores.dtype, device=part.scores.device)
            lists = _Lists.padding(num_wanted, max(1, self._length_of_all) + 1, like)
            return Tiles(part, num_rows=self.num_rows), lists, torch.zeros_like(lists.places[:, 0])

        self._tiles, self._lists, self._num_before = world.guarded(reserve)

    def list(self, rows: slice, inside: Int[Tensor, " inside"] | slice, out: slice) -> None:
        """List the candidates of the queries `inside` of a tile."""
        world, scores = self._world, self._part.scores
        if scores.sent is not None:
            scores.sent.fetch(rows, ahead=len(self._num_before) == scores.num_queries)
        positives, local_best = self._guarded(lambda: self._read(rows))
        best = self._of_all(local_best, 1)
        # The rest of one pass over the scores: the best negatives, and how many come before the best positive of all.
        local_lists, local_before = self._guarded(lambda: self._add_negatives(rows, inside, positives, best))
        lists = self._of_all(local_lists, self._length_of_all)
        num_before = all_reduce_values(world, lambda: local_before)

        def store() -> None:
            """Keep the results, with scores that can be compared between queries."""
            self._num_before[out] = num_before[inside]
            listed = lists.widened(max(1, self._length_of_all)).beside(best.of(inside))
            # In the rows of the tile, as the similarity knows them.
            comparable = listed.scores.new_zeros((rows.stop - rows.start, listed.scores.shape[1]))
            comparable[inside] = listed.scores
            scores.to_comparable(comparable, rows)
            for whole, part in zip(self._lists, listed._replace(scores=comparable[inside]), strict=True):
                whole[out] = part

        self._guarded(store)

    def results(self, order: Int[Tensor, " queries"]) -> Nearest:
        """The lists in the order of the queries that are wanted, with repetitions."""
        # The best positive is behind each list.
        lists, best = self._lists.of(order, slice(-1)), self._lists.of(order, -1)
        listed, first = self._positions(lists), self._positions(best)
        return Nearest(
            listed,
            listed if self._part.places is None else lists.places,
            lists.scores.masked_fill(~lists.listed, torch.nan),
            lists.positive,
            (1 + self._num_before[order]).where(best.listed, 0),
            first,
            first if self._part.places is None else best.places,
            best.scores.masked_fill(~best.listed, torch.nan),
        )

    def _positions(self, lists: _Lists) -> Tensor:
        """Positions in this process's whole part; -1 at padding and for items of other processes."""
        column, places, kept = lists.places, self._part.places, self._part.relevance.kept
        if not self._part.relevance.num_kept:
            return torch.full_like(column, -1)
        if places is not None:
            column = torch.searchsorted(places, lists.places).clamp_(max=len(places) - 1)
            column.masked_fill_((places[column] != lists.places) | ~lists.listed, -1)
        return column if kept is None else kept[column.clamp(min=0)].masked_fill(column < 0, -1)

    def _guarded(self, work: Callable[[], Result]) -> Result:
        """Do this process's share of the work, on the thread pool."""
        device, inside = self._part.scores.device, self._part.keeps_thread
        return self._world.guarded(lambda: workers.run(work, device, inside=inside))

    def _of_all(self, lists: _Lists, k: int) -> _Lists:
        """The first `k` candidates of the lists of all processes; their lists have one length.

        Each process is sent an equal share of the queries, merges the lists of these, and sends the merged ones to all.
        """
        world, num_queries = self._world, len(lists.places)
        if world.size == 1:
            return lists

        def deal() -> Tensor:
            words = functional.pad(self._packed(lists), (0, 0, 0, 0, 0, -num_queries % world.size))
            return torch.stack(words.tensor_split(world.size))

        dealt = all_to_all_values(world, deal)

        def merge() -> Tensor:
            # [processes, queries, words, listed] becomes the lists of all processes side by side.
            side_by_side = self._unpacked(dealt.permute(1, 2, 0, 3).flatten(2))
            return self._packed(side_by_side.first(k, self._part.ties, in_one_word=self._in_one_word))

        merged = all_gather_values(world, merge)
        return world.guarded(lambda: self._unpacked(merged.flatten(0, 1)[:num_queries]))

    def _packed(self, lists: _Lists) -> Int[Tensor, "queries words listed"]:
        """Candidates as they are sent: in 24 bytes, or in 8 where all scores have 32 bits and all places fit in 30."""
        # The score, as the bits that it has, the place, and 1 for a negative, 2 for a positive.
        flags = lists.listed.long() + lists.positive.long()
        if self._in_one_word:
            low = lists.places.where(lists.listed, 0) << 2 | flags
            return (lists.scores.contiguous().view(torch.int32).long() << 32 | low)[:, None]
        return torch.stack([lists.scores.double().contiguous().view(torch.int64), lists.places, flags], dim=1)

    def _unpacked(self, words: Int[Tensor, "queries words listed"]) -> _Lists:
        """The lists that were sent."""
        words = words.to(self._part.scores.device)
        if self._in_one_word:
            scores, flags = (words[:, 0] >> 32).int().view(torch.float32), words[:, 0] & 3
            places = (words[:, 0] >> 2 & _PLACE).where(flags > 0, -1)
        else:
            scores, places, flags = words.unbind(1)
            scores = scores.contiguous().view(torch.float64).to(self._part.scores.dtype)
        return _Lists(scores, places, flags > 1, flags > 0)

    def _read(self, rows: slice) -> tuple[_Lists, _Lists]:
        """The positives of this part, the best first, and lists of the best one; the scores are left in the buffer."""
        self._tile = tile = self._part.relevance.tile(rows)
        scores = self._tiles.read(rows, tile).masked_fill_(~tile.positive, -torch.inf)
        # In a run columns ascend, so that equal scores keep the order of the gallery.
        best, items = stable_top_k(scores, min(self._length, scores.shape[1]), tile.positive)
        columns = tile.columns.gather(1, items.clamp(min=0)).masked_fill(items < 0, -1)
        positives = self._named(best, columns, positive=True)
        return positives, positives.widened(1 + positives.scores.shape[1]).of(slice(None), slice(1))

    def _add_negatives(
        self, rows: slice, inside: Int[Tensor, " inside"] | slice, positives: _Lists, best: _Lists
    ) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """The lists of the queries `inside` in this part, and each query's negatives before its best positive."""
        lists, num_before = positives, best.places.new_zeros(len(best.places))
        on_cpu = self._part.scores.device.type == "cpu"
        for negatives in self._tiles.negatives(rows, self._tile):
            list_panel = self._list_panel if on_cpu else self._list_panel_on_device
            panel_lists, num_before_in_panel = list_panel(negatives, best)
            num_before += num_before_in_panel
            lists = lists.beside(panel_lists).first(self._length, self._part.ties, in_one_word=self._in_one_word)
        return lists.of(inside).widened(self._length), num_before

    def _list_panel(self, negatives: Negatives, best: _Lists) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """The lists of a panel's negatives, and how many of them come before the best positive of each query."""
        k = min(self._length, negatives.scores.shape[1])
        top, columns = stable_top_k(negatives.scores, k)
        if bool(top.isneginf().any()):  # a score like another one, or no negative
            top, columns = stable_top_k(negatives.scores, k, ~negatives.removed())
        _checks.no_nan(negatives.argument, top[:, :1])  # NaN is the highest
        columns = columns.where(columns < 0, columns + negatives.first_place)
        lists = self._named(top, columns, positive=False)
        return lists, self._count_before(negatives, lists, best)

    def _list_panel_on_device(self, negatives: Negatives, best: _Lists) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """As `_list_panel`, with one wait for the device: a few rows in doubt are listed again, by that method."""
        scores, first, width = negatives.scores, negatives.first_place, negatives.scores.shape[1]
        top, columns, in_doubt = likely_top_k(scores, min(self._length, width))
        lists = self._named(top, columns + first, positive=False)
        before = self._is_before(scores, self._places_of_panel(first, width), best.scores, best.places)
        num_before = count_true(before).where(best.listed[:, 0], 0)
        # What was taken out of the panel scores minus infinity, as such a positive does.
        in_doubt |= best.scores[:, 0].isneginf() & best.listed[:, 0]
        for some in in_doubt.nonzero()[:, 0].split(max(1, _SCORES_IN_DOUBT // width)):
            exact_lists, num_before[some] = self._list_panel(negatives.of(some), best.of(some))
            for values, exact_values in zip(lists, exact_lists, strict=True):
                values[some] = exact_values
        return lists, num_before

    def _named(self, scores: Tensor, columns: Tensor, *, positive: bool) -> _Lists:
        """Lists of positives or of negatives; padding is in column -1."""
        listed, places = columns >= 0, columns
        if self._part.places is not None and len(self._part.places):
            places = self._part.places[columns.clamp(min=0)].masked_fill(~listed, -1)
        return _Lists(scores, places, listed if positive else torch.zeros_like(listed), listed)

    def _count_before(self, negatives: Negatives, listed: _Lists, best: _Lists) -> Int[Tensor, " queries"]:
        """How many negatives of a panel come before the best positive of each query."""
        score, place, exists = best.scores, best.places, best.listed
        num_before = (self._is_before(listed.scores, listed.places, score, place) & listed.listed & exists).sum(1)
        # Where the whole list comes before the positive, more of the panel may do so.
        k, width = listed.scores.shape[1], negatives.scores.shape[1]
        open_rows = (num_before == k).nonzero()[:, 0] if k < width else num_before[:0]
        places = self._places_of_panel(negatives.first_place, width)
        step = max(1, _SCORES_AT_A_TIME // width if place.device.type == "cpu" else len(num_before))
        # All rows, as slices without a copy, if they are less than twice as many.
        are_most = 2 * len(open_rows) > len(num_before)
        for some in segments.ranges(len(num_before), step) if are_most else open_rows.split(step):
            before = self._is_before(negatives.scores[some], places, score[some], place[some])
            if bool((score[some].isneginf() & exists[some]).any()):  # what was taken out has this score, too
                before &= ~negatives.removed()[some]
            num_before[some] = count_true(before).where(exists[some, 0], 0)
        return num_before

    def _places_of_panel(self, first: int, width: int) -> Int[Tensor, " columns"]:
        """Places in the whole gallery of the items of a panel."""
        places = self._part.places
        if places is None:
            return torch.arange(first, first + width, device=self._part.scores.device)
        return places[first : first + width]

    def _is_before(self, scores: Tensor, places: Tensor, score: Tensor, place: Tensor) -> Bool[Tensor, "queries items"]:
        """Whether negatives come before a positive with the given score and place."""
        ties = self._part.ties
        if ties.lists_by_place:
            return are_above(scores, score, or_level=False) | ((scores == score) & (places < place))
        return are_above(scores, score, or_level=not ties.positives_first)
