"""The first candidates of every query, and its first positive: ranked lists, cut after k.

The gallery may be sharded over processes. As for ranks (`ranks`), the processes work on one tile of queries at a time.
Every process reads the positives of its part of the gallery, all processes agree on the best positive, and every
process counts the negatives of its part before it. In the same pass it lists the best candidates of its part. Then each
process merges the lists for its share of the queries, and sends the merged lists to all processes. So a process
receives two lists per query for any number of processes. For example, a query on two processes, with its positives in
brackets, and lists of two:

    process                  0                  1
    scores             [.4]  .8  .3       .9  [.5]  .2
    best positive       .4                .5              of all: .5
    negatives before     1                 1              summed 2, so that the first positive is at rank 3
    lists              .8  [.4]           .9  [.5]        merged: .9 and .8
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
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
from .top_k import likely_top_k, rising_keys, stable_top_k

Result = TypeVar("Result")

_LARGEST_STEP = 8  # from one selected query to the next: queries between cost less than another pass over the gallery
_BYTES_PER_LISTED = 128  # score, place and flags of a listed item, a few times over while lists are merged
_PLACE = (1 << 30) - 1  # largest place that fits in a word with the score and two flags
_SCORES_IN_DOUBT = 1 << 24  # scores that are listed again at a time, on devices other than the CPU
_SCORES_AT_A_TIME = 1 << 18  # scores that are compared with positives at a time, so that they stay in the CPU's cache


@dataclass(frozen=True, eq=False)
class Nearest:
    """The first k candidates of every query, best first, and its first positive; the same on all processes.

    A list has the length k, or the number of gallery items without junk identities on all processes if that is less,
    but at least 1. A query with fewer candidates is padded at the end.
    """

    positions: Int[Tensor, "queries k"]
    """int64; positions in the gallery, counting all its items; -1 at padding, and for items of other processes"""
    places: Int[Tensor, "queries k"]
    """int64; places of the candidates in the whole gallery if `places` were passed, else `positions`"""
    scores: Float[Tensor, "queries k"]
    """higher is closer, comparable between queries; NaN at padding"""
    positive: Bool[Tensor, "queries k"]
    """True for a positive, False for a negative and at padding"""
    first_rank: Int[Tensor, " queries"]
    """int64; rank of the first positive among all candidates; 0 without a positive"""
    first_position: Int[Tensor, " queries"]
    """int64; position of the first positive, as in `positions`; -1 without a positive"""
    first_place: Int[Tensor, " queries"]
    """int64; place of the first positive, as in `places`; -1 without a positive"""
    first_score: Float[Tensor, " queries"]
    """score of the first positive; NaN without a positive"""


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
    """List the k candidates of each query with the highest scores, and find its first positive; junk is never listed.

    This is the ranking under a tie policy, cut after k; it does not depend on `scores.max_bytes`. Among positives with
    equal scores the lower grade goes first, or the higher under "optimistic", and positives with equal grades are in
    gallery order, as negatives are. Under "grouped" negatives go before the positives with their score, as under
    "pessimistic". "expected" has no order of its own: items are in gallery order, as under "stable".

    Args:
        scores: from `score_embeddings` or `scores_from_matrix`.
        relevance: the one that `scores` was made with.
        k: number of candidates to list; a larger number than that of the gallery lists all of them.
        queries: positions of the queries to list, in any order; None for all.
        ties: the order of equal scores, a key of `TIE_POLICIES`.
        world: the processes that share the gallery; each has all queries, and must pass the same `queries`.
        places: places of this process's kept items in the order of the whole gallery, ascending, each once; needed if
            other processes have parts of the gallery.

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
        selected: Sequence[int] = range(scores.num_queries)
    else:
        queries = _checks.integer_labels("queries", queries, device=scores.device)
        _checks.in_range("queries", queries, 0, scores.num_queries)
        ascending, row_of_query = queries.long().unique(return_inverse=True)
        selected = ascending.tolist()

    part = GalleryPart(scores, relevance, TIE_POLICIES[ties], places)
    listing = _Listing(world, part, k, len(ascending))
    if queries is None:
        ranges = segments.ranges(scores.num_queries, listing.num_rows)
    else:
        ranges = _ranges(selected, listing.num_rows)
    num_listed = 0
    for rows in _progress.steps(ranges, "Rank lists", parts=listing.num_fills):
        # A range may hold a few queries that are not selected: scoring them costs less than cutting the tile.
        out = slice(num_listed, bisect_left(selected, rows.stop))
        are_all_selected = out.stop - out.start == rows.stop - rows.start
        inside = slice(None) if are_all_selected else ascending[out] - rows.start
        listing.list(rows, inside, out)
        num_listed = out.stop
    return listing.results(row_of_query)


def _ranges(selected: Sequence[int], length: int) -> list[slice]:
    """Cover ascending positions by ranges of at most `length`, with few other positions between them."""
    ranges = []
    first = 0
    for number, (position, following) in enumerate(pairwise([*selected, math.inf]), start=1):
        if following - position > _LARGEST_STEP or following - selected[first] >= length:
            ranges.append(slice(selected[first], position + 1))
            first = number
    return ranges


class _Lists(NamedTuple):
    """Some candidates of each query, and padding."""

    scores: Float[Tensor, "queries listed"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries listed"]
    """places in the whole gallery, or in its only part; -1 at padding"""
    grade: Int[Tensor, "queries listed"]
    """1 for a positive, or its grade where the order depends on it; 0 for a negative and at padding"""
    listed: Bool[Tensor, "queries listed"]
    """False at padding"""

    @classmethod
    def padding(cls, num_queries: int, length: int, like: Tensor) -> _Lists:
        """Return lists without any candidate, with the dtype and device of some scores."""
        scores = torch.full((num_queries, length), -torch.inf, dtype=like.dtype, device=like.device)
        places = torch.full_like(scores, -1, dtype=torch.int64)
        grade = torch.zeros_like(places)
        return cls(scores, places, grade, listed=grade.bool())

    def first(self, k: int, ties: TiePolicy, *, in_one_word: bool) -> _Lists:
        """Return the first `k` candidates in the order of a tie policy, or all if they are fewer.

        `in_one_word` promises scores of float32, places of 30 bits and no grade above 1.
        """
        order = self._order_of_words(ties) if in_one_word else self._order(ties)
        order = order[:, :k]
        return _Lists(*(values.gather(1, order) for values in self))

    def _order_of_words(self, ties: TiePolicy) -> Int[Tensor, "queries listed"]:
        """Return the positions in the order of a tie policy, by one integer that holds all criteria."""
        # From the upper to the lower bits: the score, 1 for padding, 1 for the kind that goes last, the place.
        low = self.places.masked_fill(~self.listed, 0) | (~self.listed).long() << 31
        if not ties.lists_by_place:
            low |= (self.grade ^ int(ties.positives_first)) << 30
        falling_keys = (1 << 31) - 1 - rising_keys(self.scores)
        return (falling_keys << 32 | low).argsort(dim=1)

    def _order(self, ties: TiePolicy) -> Int[Tensor, "queries listed"]:
        """Return the positions in the order of a tie policy."""
        grades = [] if ties.lists_by_place else [-self.grade if ties.positives_first else self.grade]
        # From the last criterion to the first: each sort keeps the order of the sorts before it. Not every device sorts
        # bools.
        order = self.places.argsort(dim=1, stable=True)
        for criterion in (*grades, -self.scores, (~self.listed).byte()):
            order = order.gather(1, criterion.gather(1, order).argsort(dim=1, stable=True))
        return order

    def joined_with(self, other: _Lists) -> _Lists:
        """Return the candidates of both, query by query."""
        return _Lists(*(torch.cat(parts, dim=1) for parts in zip(self, other, strict=True)))

    def select(self, *places: Any) -> _Lists:
        """Return the lists of some queries, or a part of the lists."""
        return _Lists(*(values[places] for values in self))

    def padded_to(self, length: int) -> _Lists:
        """Return the lists with padding up to a length."""
        num_queries, num_listed = self.scores.shape
        if num_listed == length:
            return self
        return self.joined_with(_Lists.padding(num_queries, length - num_listed, self.scores))


class _Listing:
    """The lists of all queries, filled tile by tile."""

    _tile: TileRelevance

    def __init__(self, world: World, part: GalleryPart, k: int, num_queries: int) -> None:
        """Agree with all processes on the tiles, and reserve memory for all lists, so that a lack of memory shows here.

        A tile has as many queries as fit on the process with the least memory.
        """
        self._world = world
        self._part = part
        scores = part.scores

        # Exchange the limits of all processes.
        ends = [0, 0]
        if part.places is not None and len(part.places):
            ends = part.places[[0, -1]].tolist()
        has_grades = part.relevance.shared is not None  # not on a process without items
        limits = size_of_tiles(part)[0], part.relevance.num_kept, scores.max_bytes, *ends, int(has_grades)
        _, table = world.guarded_all_gather(lambda: (None, limits))
        num_fitting, num_kept, max_bytes, first, last, has_grades_by_process = zip(*table, strict=True)

        is_short = 0 <= min(first) <= max(last) <= _PLACE and max(num_kept) <= _PLACE
        self._orders_grades = any(has_grades_by_process) and not part.ties.lists_by_place
        self._in_one_word = scores.dtype == torch.float32 and is_short and not self._orders_grades
        # The list of a part is not longer than its gallery.
        self._length = min(k, max(num_kept))
        self._length_of_all = min(k, sum(num_kept))

        row_bytes = _BYTES_PER_LISTED * max(1, self._length_of_all)
        num_rows = max(1, min(*num_fitting, min(max_bytes) // row_bytes))
        unit = scores.product_shape.unit
        if num_rows > unit:
            num_rows -= num_rows % unit
        self.num_rows = num_rows

        def reserve() -> tuple[Tiles, _Lists, Tensor]:
            like = torch.empty(0, dtype=scores.dtype, device=scores.device)
            lists = _Lists.padding(num_queries, max(1, self._length_of_all) + 1, like)
            return Tiles(part, num_rows=num_rows), lists, torch.zeros_like(lists.places[:, 0])

        self._tiles, self._lists, self._num_before = world.guarded(reserve)
        self.num_fills = self._tiles.num_fills

    def list(self, rows: slice, inside: Int[Tensor, " inside"] | slice, out: slice) -> None:
        """List the candidates of the queries `inside` of a tile, and store them at `out`."""
        world = self._world
        scores = self._part.scores
        if scores.sent is not None:
            scores.sent.fetch(rows, ahead=len(self._num_before) == scores.num_queries)
        positives, local_best = self._guarded(lambda: self._read(rows))
        best = self._merge_all(local_best, 1)
        # In one pass over the scores: the best negatives, and the number of negatives before the best positive of all.
        local_lists, local_before = self._guarded(lambda: self._add_negatives(rows, inside, positives, best))
        lists = self._merge_all(local_lists, self._length_of_all)
        num_before = all_reduce_values(world, lambda: local_before)

        def store() -> None:
            """Keep the results, with scores that can be compared between queries."""
            self._num_before[out] = num_before[inside]
            listed = lists.padded_to(max(1, self._length_of_all)).joined_with(best.select(inside))
            # The similarity converts scores in the rows of the tile.
            comparable = listed.scores.new_zeros((rows.stop - rows.start, listed.scores.shape[1]))
            comparable[inside] = listed.scores
            scores.to_comparable(comparable, rows)
            for whole, part in zip(self._lists, listed._replace(scores=comparable[inside]), strict=True):
                whole[out] = part

        self._guarded(store)

    def results(self, order: Int[Tensor, " queries"]) -> Nearest:
        """Return the lists in the order of the selected queries, with repetitions."""
        # The best positive is behind each list.
        lists = self._lists.select(order, slice(-1))
        best = self._lists.select(order, -1)
        positions = self._positions(lists)
        first_position = self._positions(best)
        has_places = self._part.places is not None
        return Nearest(
            positions=positions,
            places=lists.places if has_places else positions,
            scores=lists.scores.masked_fill(~lists.listed, torch.nan),
            positive=lists.grade > 0,
            first_rank=(1 + self._num_before[order]).where(best.listed, 0),
            first_position=first_position,
            first_place=best.places if has_places else first_position,
            first_score=best.scores.masked_fill(~best.listed, torch.nan),
        )

    def _positions(self, lists: _Lists) -> Tensor:
        """Return positions in this process's whole part; -1 at padding and for items of other processes."""
        column = lists.places
        places = self._part.places
        kept = self._part.relevance.kept
        if not self._part.relevance.num_kept:
            return torch.full_like(column, -1)
        if places is not None:
            column = torch.searchsorted(places, lists.places).clamp_(max=len(places) - 1)
            column.masked_fill_((places[column] != lists.places) | ~lists.listed, -1)
        if kept is None:
            return column
        return kept[column.clamp(min=0)].masked_fill(column < 0, -1)

    def _guarded(self, work: Callable[[], Result]) -> Result:
        """Do this process's share of the work, on the thread pool; an error is raised on all processes."""
        device = self._part.scores.device
        inside = self._part.keeps_thread
        return self._world.guarded(lambda: workers.run(work, device, inside=inside))

    def _merge_all(self, lists: _Lists, k: int) -> _Lists:
        """Return the first `k` candidates in the lists of all processes; these lists have one length.

        Each process receives the lists of an equal share of the queries, merges them, and sends the result to all.
        """
        world = self._world
        num_queries = len(lists.places)
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
        """Return candidates as they are sent: in 24 bytes, or in 8 if all scores have 32 bits and all places 30."""
        # The bits of the score, the place, and 1 for a negative, 1 more than the grade for a positive.
        flags = lists.listed.long() + lists.grade
        if self._in_one_word:
            low = lists.places.where(lists.listed, 0) << 2 | flags
            return (lists.scores.contiguous().view(torch.int32).long() << 32 | low)[:, None]
        return torch.stack([lists.scores.double().contiguous().view(torch.int64), lists.places, flags], dim=1)

    def _unpacked(self, words: Int[Tensor, "queries words listed"]) -> _Lists:
        """Return the lists that were packed."""
        words = words.to(self._part.scores.device)
        if self._in_one_word:
            scores = (words[:, 0] >> 32).int().view(torch.float32)
            flags = words[:, 0] & 3
            places = (words[:, 0] >> 2 & _PLACE).where(flags > 0, -1)
        else:
            scores, places, flags = words.unbind(1)
            scores = scores.contiguous().view(torch.float64).to(self._part.scores.dtype)
        return _Lists(scores, places, grade=(flags - 1).clamp(min=0), listed=flags > 0)

    def _read(self, rows: slice) -> tuple[_Lists, _Lists]:
        """Return the positives of this part, best first, and the best one alone; the scores stay in the buffer."""
        tile = self._part.relevance.tile(rows)
        self._tile = tile
        scores = self._tiles.read(rows, tile).masked_fill_(~tile.positive, -torch.inf)
        if self._orders_grades and tile.grades is not None:
            columns = tile.columns.masked_fill(~tile.positive, -1)
            grades = tile.grades.long().where(tile.positive, 0)
            graded = self._lists_at(scores + 0.0, columns, grades)  # -0.0 is listed as 0.0, as without grades
            positives = graded.first(self._length, self._part.ties, in_one_word=False)
        else:
            # Columns ascend in a run, so that equal scores keep the order of the gallery.
            best, items = stable_top_k(scores, min(self._length, scores.shape[1]), tile.positive)
            columns = tile.columns.gather(1, items.clamp(min=0)).masked_fill(items < 0, -1)
            positives = self._lists_at(best, columns, (columns >= 0).long())
        return positives, positives.padded_to(1 + positives.scores.shape[1]).select(slice(None), slice(1))

    def _add_negatives(
        self, rows: slice, inside: Int[Tensor, " inside"] | slice, positives: _Lists, best: _Lists
    ) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """Return this part's lists of the queries `inside`, and each query's negatives before its best positive."""
        on_cpu = self._part.scores.device.type == "cpu"
        list_panel = self._list_panel if on_cpu else self._list_panel_on_device
        lists = positives
        num_before = best.places.new_zeros(len(best.places))
        for negatives in self._tiles.negatives(rows, self._tile):
            panel_lists, num_before_in_panel = list_panel(negatives, best)
            num_before += num_before_in_panel
            lists = lists.joined_with(panel_lists).first(self._length, self._part.ties, in_one_word=self._in_one_word)
        return lists.select(inside).padded_to(self._length), num_before

    def _list_panel(self, negatives: Negatives, best: _Lists) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """Return the lists of a panel's negatives, and how many of them are before the best positive of each query."""
        k = min(self._length, negatives.scores.shape[1])
        top, columns = stable_top_k(negatives.scores, k)
        if bool(top.isneginf().any()):  # either negatives that score minus infinity, or removed items
            top, columns = stable_top_k(negatives.scores, k, ~negatives.removed())
        _checks.no_nan(negatives.argument, top[:, :1])  # NaN is the highest
        columns = columns.where(columns < 0, columns + negatives.first_place)
        lists = self._lists_at(top, columns, torch.zeros_like(columns))
        return lists, self._count_before(negatives, best)

    def _list_panel_on_device(self, negatives: Negatives, best: _Lists) -> tuple[_Lists, Int[Tensor, " queries"]]:
        """Do the work of `_list_panel` with one wait for the device; a few rows in doubt are listed by that method."""
        scores = negatives.scores
        width = scores.shape[1]
        top, columns, in_doubt = likely_top_k(scores, min(self._length, width))
        lists = self._lists_at(top, columns + negatives.first_place, torch.zeros_like(columns))
        panel_places = self._places_of_panel(negatives.first_place, width)
        before = self._is_before(scores, panel_places, best.scores, best.places)
        num_before = count_true(before).where(best.listed[:, 0], 0)
        # Removed items score minus infinity, as the best positive may do.
        in_doubt |= best.scores[:, 0].isneginf() & best.listed[:, 0]
        for rows in in_doubt.nonzero()[:, 0].split(max(1, _SCORES_IN_DOUBT // width)):
            exact_lists, num_before[rows] = self._list_panel(negatives.select(rows), best.select(rows))
            for values, exact_values in zip(lists, exact_lists, strict=True):
                values[rows] = exact_values
        return lists, num_before

    def _lists_at(self, scores: Tensor, columns: Tensor, grade: Tensor) -> _Lists:
        """Return lists of items at these columns, with their grades; padding is in column -1."""
        listed = columns >= 0
        places = columns
        if self._part.places is not None and len(self._part.places):
            places = self._part.places[columns.clamp(min=0)].masked_fill(~listed, -1)
        return _Lists(scores, places, grade, listed)

    def _count_before(self, negatives: Negatives, best: _Lists) -> Int[Tensor, " queries"]:
        """Count the negatives of a panel before the best positive of each query."""
        num_queries, width = negatives.scores.shape
        num_before = torch.empty_like(best.places[:, 0])
        panel_places = self._places_of_panel(negatives.first_place, width)
        on_cpu = num_before.device.type == "cpu"
        for rows in segments.ranges(num_queries, max(1, _SCORES_AT_A_TIME // width if on_cpu else num_queries)):
            score = best.scores[rows]
            exists = best.listed[rows]
            before = self._is_before(negatives.scores[rows], panel_places, score, best.places[rows])
            if bool((score.isneginf() & exists).any()):  # removed items have this score, too
                before &= ~negatives.removed()[rows]
            num_before[rows] = count_true(before).where(exists[:, 0], 0)
        return num_before

    def _places_of_panel(self, first: int, width: int) -> Int[Tensor, " columns"]:
        """Return the places of a panel's items in the whole gallery."""
        places = self._part.places
        if places is None:
            return torch.arange(first, first + width, device=self._part.scores.device)
        return places[first : first + width]

    def _is_before(self, scores: Tensor, places: Tensor, score: Tensor, place: Tensor) -> Bool[Tensor, "queries items"]:
        """Mark the negatives before a positive with the given score and place."""
        ties = self._part.ties
        if ties.lists_by_place:
            return are_above(scores, score, or_level=False) | ((scores == score) & (places < place))
        return are_above(scores, score, or_level=not ties.positives_first)
