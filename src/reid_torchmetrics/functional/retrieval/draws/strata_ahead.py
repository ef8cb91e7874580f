"""Walk a retrieval problem in tiles, and count the negatives of each stratum ahead of every positive.

A tile of queries is scored at once; its counts are made for some queries and positives at a time, so that memory stays
bounded. Most strata have none ahead for a good model: then only the items that are ahead are counted. One query with
positives that score .8 and .3; the strata are the identities a, b and c:

    negatives              a .9   a .5   b .6   b .4   b .1   c .2
    first positive behind   0      1      1      1      2      2       2 is none
    counted at each         of a 1 at 0 and 1 at 1, of b 2 at 1
    summed up               ahead of .8: a 1; ahead of .3: a 2, b 2    a cumulative sum over the positives
    entries                 .8: (a, 1 of 2); .3: (a, 2 of 2), (b, 2 of 3)

If one item of each identity is drawn, a is ahead of .8 with the chance 1/2, and b ahead of .3 with the chance 2/3.

Where most strata have some ahead, each positive is compared with all items. They lie in layers: the first of every
stratum, then the second of every stratum that has one, and so on, strata by size. So a comparison is added up layer by
layer, many strata at a time. With strata a of three items, b of two and c of one:

    layers           a1 b1 c1   a2 b2   a3
    scores           .9 .6 .2   .5 .4   .1
    at or above .4    1  1  0    1  1    0
    ahead of .4      a 2 of 3, b 2 of 2, c 0 of 1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval import ranking
from reid_torchmetrics.functional.retrieval.ranking import GalleryPart, TiePolicy, cells_of_true, places_of_true
from reid_torchmetrics.functional.retrieval.scores import FEWEST_ROWS, Walk, rows_with_gallery

from .strata import Layers, Strata

_BYTES_PER_ITEM = 44  # that is ahead, or may be: masks, places, and keys
_BYTES_PER_MASK = 2  # of a tile: what is dropped, and what is near
_BYTES_PER_STRATUM = 16  # of a query
_FEW = 64  # positives up to which comparing with each is faster than a binary search
_NEAR = 1 / 8  # share of a tile up to which a search for each of some items is faster than one for all
_NEAR_ONE = 1 / 32  # share of a query's items from which on comparing all of them with each positive is faster
_SMALL = 255  # items of a stratum that a byte can count
_CELLS = 1 << 20  # positives times cases that are counted at a time
_PAIRS = 1 << 21  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_BYTES_PER_PAIR = 4  # whether one is ahead, its share of the counts and bins, and a row of scores
_BYTES_PER_DENSE_COUNT = 32  # of a positive and a stratum where entries are made: places and cases
_BYTES_PER_SPARSE_COUNT = 48  # of a positive and a stratum: the count, and its entry where it is not 0
_MOST_BINS = torch.iinfo(torch.int16).max
_ROUNDING = 0.999  # float32 is good enough for a bound that gives way a little

CaseCounts = tuple[Tensor, Tensor, Tensor]
"""queries and ordinals of positives, and how often each case occurs, [positives, cases]; undefined for none ahead"""


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive.

    A case is a state of a stratum seen from a positive: its candidates, and how many of them are ahead.
    """

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """place among the sorted positives of the query"""
    num_strata: Int[Tensor, " positives"]
    """how many entries each positive has"""
    stratum: Int[Tensor, " entries"]
    """the strata of one identity are consecutive within a positive"""
    case: Int[Tensor, " entries"]

    def in_cases(self, num_cases: int) -> Iterator[CaseCounts]:
        """How often each case occurs, for some positives at a time."""
        edges = segments.edges(self.num_strata)
        for part in segments.ranges(len(self.query), max(1, _CELLS // num_cases)):
            first, stop = edges[[part.start, part.stop]].tolist()
            row = segments.numbers(self.num_strata[part], stop - first)
            shape = (part.stop - part.start, num_cases)
            number = torch.bincount(row.mul_(num_cases).add_(self.case[first:stop]), minlength=math.prod(shape))
            yield self.query[part], self.ordinal[part], number.view(shape)


def number_cases(available: Int[Tensor, "rows strata"]) -> tuple[Tensor, Tensor, Int[Tensor, "rows strata"]]:
    """Number the cases of strata with these candidates: for each size one for 0, 1, ... all of them ahead.

    Returns the candidates of each case, how many of them are ahead, and the first case of each stratum.
    """
    sizes, size = available.unique(return_inverse=True)
    of_case, ahead = segments.runs(0, sizes + 1)
    return sizes[of_case], ahead, segments.starts(sizes + 1)[size]


class SparseCounting:
    """Counts for the `wanted` best positives of each query, of nothing but items that are ahead of one.

    What is counted are pairs of a query and a stratum that may have an item ahead, by query and then by stratum.
    """

    def __init__(
        self, items: tuple[Tensor, ...], strata: Strata, first_case: Int[Tensor, "#queries strata"], wanted: Tensor
    ) -> None:
        """Take the items of all queries: the query, the kept position and the best positive behind each.

        `first_case[q, s]` is the case of stratum s with no item ahead.
        """
        self._strata, self._first_case, self._wanted = strata, first_case, wanted
        query, column, self._first = items
        keys = query * strata.number + strata.of_item.index_select(0, column)
        pairs = torch.arange(len(wanted) * strata.number, device=keys.device)
        self._pair_of_item = keys
        if len(keys) < len(pairs):  # not all pairs can occur
            occurs = torch.zeros_like(pairs, dtype=torch.bool)
            occurs[keys] = True
            number, pairs = pairs, places_of_true(occurs)
            number[pairs] = torch.arange(len(pairs), device=keys.device)
            self._pair_of_item = number.index_select(0, keys)
        self._query = pairs.div(max(1, strata.number), rounding_mode="floor")
        self._stratum = pairs.sub(self._query, alpha=strata.number)

    def count(self, *, most_ahead: float, max_bytes: int) -> Iterator[StrataAhead]:
        """The strata ahead, for a range of positives at a time that takes about `max_bytes`.

        Positives that have more than `most_ahead` identities ahead on average are left out: an identity with c of n
        items ahead is ahead itself with a chance of at least c/n, however its items are drawn.
        """
        longest, num_pairs = int(self._wanted.max()) if len(self._wanted) else 0, len(self._query)
        for part in segments.ranges(longest, max(1, max_bytes // (_BYTES_PER_SPARSE_COUNT * max(1, num_pairs)))):
            first, pair = self._first, self._pair_of_item
            if part.stop < longest:
                places = places_of_true(first < part.stop)
                first, pair = first[places], pair[places]
            # What is ahead of a positive is ahead of all that follow. So earlier items count at the start, and the
            # cumulative sum over the ordinals carries them on: [ordinals, pairs].
            ordinals = torch.arange(part.start, part.stop, device=first.device)
            key = first.long().sub_(part.start).clamp_(min=0).mul_(num_pairs).add_(pair)
            counts = torch.bincount(key, minlength=len(ordinals) * num_pairs).view(len(ordinals), num_pairs).cumsum_(0)
            useful = ordinals[:, None] < self._wanted
            if most_ahead < torch.inf:
                num_items = self._strata.identity[self._strata.of_item].bincount()[self._strata.identity]
                share = counts * (_ROUNDING / num_items.double()).float()[self._stratum]
                useful &= share.new_zeros(useful.shape).index_add_(1, self._query, share) <= most_ahead
            # The counts of useful positives that are not 0, and the number of each positive among the useful ones.
            ordinal, query = useful.nonzero(as_tuple=True)
            number = (useful.view(-1).cumsum(0) - 1).view(useful.shape)
            ahead = counts > 0
            if not bool(useful.all()):
                ahead &= useful.index_select(1, self._query)
            slot, pair = cells_of_true(ahead)
            count = counts[slot, pair]
            row, stratum = self._query.index_select(0, pair), self._stratum.index_select(0, pair)
            positive = number.view(-1).index_select(0, slot.mul_(useful.shape[1]).add_(row))
            num_strata = torch.bincount(positive, minlength=len(query))
            # One row of cases serves all queries where nothing is dropped.
            case = self._first_case[row if len(self._first_case) > 1 else 0, stratum].add_(count)
            yield StrataAhead(query, ordinals[ordinal], num_strata, stratum, case)


class DenseCounting:
    """Counts for positives of queries that have the same strata, by comparing each positive with all items."""

    def __init__(
        self, layers: Layers, first_case: Int[Tensor, " strata"], chance: Float[Tensor, " cases"], *, max_bytes: int
    ) -> None:
        """Reserve what is needed to count; what is yielded at a time takes about `max_bytes`.

        `first_case[s]` is the case of stratum s with no item ahead; `chance` is the chance of each case that its
        stratum is ahead.
        """
        self._layers, self._chance, self._max_bytes = layers, chance, max_bytes
        self._first_case = first_case[layers.stratum]
        size = _COPIES * len(chance)
        step = max(1, min(min(_PAIRS, max_bytes // _BYTES_PER_PAIR) // len(layers.item), _MOST_BINS // size))
        self._is_ahead = np.empty((step, len(layers.item)), dtype=np.bool_)
        # The bins of a positive, and of all copies of its histogram, are consecutive.
        first_bin = self._first_case + torch.arange(len(first_case), device="cpu") % _COPIES * len(chance)
        first_bin = first_bin + torch.arange(0, step * size, size, device="cpu")[:, None]
        self._first_bin = first_bin.to(torch.int16 if step * size <= _MOST_BINS else torch.int64)

    def count(
        self, scores: Tensor, query: Tensor, ordinal: Tensor, least: Tensor, *, or_level: bool, most_ahead: float
    ) -> Iterator[tuple[StrataAhead, list[CaseCounts]]]:
        """Count the items ahead of positives that score `least`, also level ones if `or_level`; `query` ascends.

        Strata are listed for positives that have at most `most_ahead` of them ahead on average, cases for all.
        """
        compare = np.greater_equal if or_level else np.greater
        counted: list[tuple[Tensor, ...]] = []
        num_bytes = 0
        for part in segments.ranges(len(query), len(self._is_ahead)):
            counts = self._ahead(scores, query[part], least[part], compare)
            # How often each case occurs, by several copies of a histogram.
            shape = (len(counts), _COPIES, len(self._chance))
            bins = torch.add(self._first_bin[: len(counts)], counts).view(-1)
            number = torch.bincount(bins, minlength=math.prod(shape)).view(shape).sum(1)
            few = number.double() @ self._chance <= most_ahead
            counts = counts.index_select(0, places_of_true(few))
            counted.append((number, few, counts))
            num_bytes += number.nbytes + counts.numel() * _BYTES_PER_DENSE_COUNT
            if num_bytes > self._max_bytes or part.stop == len(query):
                number, few, counts = map(torch.cat, zip(*counted, strict=True))
                block = slice(part.stop - len(few), part.stop)
                # The strata with a count are listed.
                is_any = counts.bool()
                num_strata, places = ranking.count_true(is_any), places_of_true(is_any)
                column = places.sub(segments.numbers(num_strata, len(places)), alpha=counts.shape[1])
                stratum = self._layers.stratum.index_select(0, column)
                case = self._first_case.index_select(0, column).add_(counts.view(-1).index_select(0, places))
                strata = StrataAhead(query[block][few], ordinal[block][few], num_strata, stratum, case)
                yield strata, [(query[block], ordinal[block], number)]
                counted, num_bytes = [], 0

    def _ahead(self, scores: Tensor, query: Tensor, least: Tensor, by: np.ufunc) -> Tensor:
        """How many items of each stratum, by size, are ahead of each positive: uint8 [positives, strata]."""
        thresholds, is_ahead = least.numpy()[:, None], self._is_ahead[: len(query)]
        # The positives of one query are compared with its scores in one call.
        rows, number = query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(rows.tolist(), number.cumsum(0).tolist(), strict=True):
            in_layers = scores[row].index_select(0, self._layers.item).numpy()
            by(in_layers, thresholds[start:stop], out=is_ahead[start:stop])
            start = stop
        # Layers are added up; a layer has the first, largest strata of the layer before.
        first, *others = self._layers.num_strata
        layers, start = is_ahead.view(np.uint8), first
        counts = layers[:, :first].copy()
        for num_strata in others:
            counts[:, :num_strata] += layers[:, start : start + num_strata]
            start += num_strata
        return torch.from_numpy(counts)


class AheadTile:
    """The scores of a tile of queries, with everything but negatives taken out."""

    def __init__(self, walk: Walk, gallery: GalleryPart, strata: Strata, rows: slice) -> None:
        """Score the queries `rows`, into the memory of the tile before.

        `positives` are their positions in the kept gallery, the best first, then -1; where equal scores have an order
        of places, they are in it. `cases` are the candidates of each case, and how many of them are ahead.

        Raises:
            ValueError: a score is NaN.
        """
        relevance, ties = gallery.relevance, gallery.ties
        self.rows = rows
        self._strata, self._ties, self._max_bytes = strata, ties, max(1, walk.scores.max_bytes // 2)
        whole = slice(0, relevance.num_kept)
        self._scores = walk.fill(rows, whole)
        # The positives are read before they are taken out.
        tile = relevance.tile(rows)
        of_listed, by_place = self._scores.gather(1, tile.columns), ties.by_place or ranking.in_order
        in_turn = ranking.sort_with_places(of_listed, tile.columns, tile.positive, by_place)
        self._thresholds, self.positives = in_turn
        # What is no negative is minus infinity while NaN is looked for in the others, and NaN from then on.
        row, slot = tile.listed.nonzero(as_tuple=True)
        column, dropped = tile.columns[row, slot], relevance.dropped(rows, whole)
        self._scores[row, column] = -torch.inf
        if dropped is not None:
            self._scores.masked_fill_(dropped, -torch.inf)
        for scores in (self._scores, self._thresholds):
            _checks.no_nan(walk.scores.argument, scores.amax(1) if scores.shape[1] else scores)  # NaN is above all
        self._scores[row, column] = torch.nan  # which is neither above nor level with anything
        if dropped is not None:
            self._scores.masked_fill_(dropped, torch.nan)
        # The candidates of each query in each stratum; of the query's identity they do not matter.
        available = strata.num_items[None]
        if dropped is not None:
            row, column = dropped.nonzero(as_tuple=True)
            key, size = row * strata.number + strata.of_item[column], len(dropped) * strata.number
            available = available - torch.bincount(key, minlength=size).view(len(dropped), strata.number)
        *self.cases, self._first_case = number_cases(available)

    def count(
        self, wanted: Int[Tensor, " queries"], chance: Float[Tensor, " cases"], *, most_ahead: float, with_cases: bool
    ) -> Iterator[tuple[StrataAhead, Iterable[CaseCounts]]]:
        """Count the negatives of each stratum ahead of the `wanted` best positives of each query.

        `chance` is the chance of each case that its stratum is ahead. A positive with more than `most_ahead` identities
        ahead on average may be left out of the strata, but not of the counts `with_cases`.
        """
        near, width = self._near(wanted), self._scores.shape[1]
        num_items = torch.full_like(wanted, width) if near is None else ranking.count_true(near)
        # Queries with many items ahead are counted densely where a stratum is the same for all, and small.
        is_same = self._scores.device.type == "cpu" and len(self._first_case) == 1 and self._strata.one_per_identity
        if near is not None and is_same and 0 < int(self._strata.num_items.max()) <= _SMALL:
            is_wide = num_items > _NEAR_ONE * width
            query, ordinal = segments.runs(0, wanted.where(is_wide, 0))
            counting = DenseCounting(self._strata.layers, self._first_case[0], chance, max_bytes=self._max_bytes)
            positives = query, ordinal, self._thresholds[query, ordinal]
            or_level = not self._ties.positives_first
            for strata, cases in counting.count(self._scores, *positives, or_level=or_level, most_ahead=most_ahead):
                yield strata, cases if with_cases else []
            near.numpy()[is_wide.numpy()] = False
            wanted, num_items = wanted.where(~is_wide, 0), num_items.where(~is_wide, 0)
        most = torch.inf if with_cases else most_ahead  # cases are made of strata
        is_wide = num_items > _NEAR * width
        num_bytes = num_items.where(~is_wide, width) * _BYTES_PER_ITEM + self._strata.number * _BYTES_PER_STRATUM
        for rows in segments.ranges_within(num_bytes, self._max_bytes):
            near_some = None if near is None or bool(is_wide[rows].any()) else near[rows]
            for strata in self._sparsely(rows, wanted[rows], near_some, most):
                yield strata, strata.in_cases(len(chance)) if with_cases else []

    def _near(self, wanted: Tensor) -> Bool[Tensor, "queries gallery"] | None:
        """Mask of the items that may be ahead of a wanted positive; None if every item must be searched for."""
        scores = self._thresholds
        if self._ties.by_place is not None or scores.shape[1] > _FEW:
            return None
        last = scores.gather(1, (wanted - 1).clamp(min=0)[:, None]).where(wanted[:, None] > 0, torch.inf)
        return ranking.are_above(self._scores, last, or_level=True)

    def _sparsely(self, rows: slice, wanted: Tensor, near: Tensor | None, most_ahead: float) -> Iterator[StrataAhead]:
        """Count for the wanted positives of some queries, by the items ahead of one, of the `near` ones or of all."""
        scores, thresholds, or_level = self._scores[rows], self._thresholds[rows], not self._ties.positives_first
        if near is None:
            first = _first_behind(scores, thresholds, self.positives[rows], self._ties)
            ahead = first < wanted.to(first.dtype)[:, None]
            items = *cells_of_true(ahead), first[ahead]
        else:
            row, column = cells_of_true(near)
            values, first = scores[row, column], torch.full_like(row, thresholds.shape[1], dtype=torch.uint8)
            for score in thresholds.T.contiguous():
                behind = score.index_select(0, row)
                first -= (values >= behind if or_level else values > behind).view(torch.uint8)
            ahead = places_of_true(first < wanted[row])
            items = row[ahead], column[ahead], first[ahead]
        first_case = self._first_case if len(self._first_case) == 1 else self._first_case[rows]
        counting = SparseCounting(items, self._strata, first_case, wanted)
        for strata in counting.count(most_ahead=most_ahead, max_bytes=self._max_bytes):
            yield strata._replace(query=strata.query + rows.start)


def size_of_tiles(gallery: GalleryPart, strata: Strata) -> tuple[int, int]:
    """Queries of a tile against the whole gallery that take about `scores.max_bytes`, and gallery items."""
    scores = gallery.scores
    beside, per_row = scores.dtype.itemsize + 2 * _BYTES_PER_MASK, 0  # as much again is left to count with
    if gallery.relevance.drops_others:
        beside, per_row = _BYTES_PER_ITEM, 2 * _BYTES_PER_STRATUM * strata.number
    rows = rows_with_gallery(scores, beside, per_row)
    # Where few fit, positives are taken in smaller ranges instead, as long as the scores fit.
    fewest = min(FEWEST_ROWS, rows_with_gallery(scores, beside, fewest=1))
    return rows or fewest, scores.num_gallery


def _first_behind(
    scores: Tensor, thresholds: Tensor, positives: Tensor, ties: TiePolicy
) -> Integer[Tensor, "queries gallery"]:
    """The best positive that each negative is ahead of, or any number beyond them."""
    first = _search(thresholds, scores, or_level=ties.positives_first)
    if ties.by_place is None:
        return first
    # Where places decide, a binary search among the tied positives [`first`, `stop`), only for items that have some.
    stop = _search(thresholds, scores, or_level=True)
    stop = torch.minimum(stop, (positives >= 0).sum(1, keepdim=True).to(stop.dtype))
    row, column = (first < stop).nonzero(as_tuple=True)
    low, high = first[row, column].long(), stop[row, column]
    here = ties.by_place(column)
    while bool((low < high).any()):  # the tied positives are in the order of their places
        middle = torch.div(low + high, 2, rounding_mode="floor").clamp_(max=positives.shape[1] - 1)
        before = (ties.by_place(positives[row, middle]) < here) & (low < high)
        low, high = low.where(~before, middle + 1), high.where(before, torch.minimum(high, middle))
    first[row, column] = low.to(first.dtype)
    return first


def _search(falling: Tensor, values: Tensor, *, or_level: bool) -> Integer[Tensor, "queries gallery"]:
    """How many of a row's `falling` numbers are above each value, or level with it too; all of them for NaN."""
    if falling.shape[1] > _FEW:
        return torch.searchsorted(-falling, -values, right=or_level, out_int32=True)
    num_above = torch.full(values.shape, falling.shape[1], dtype=torch.uint8, device=values.device)
    for number in falling.split(1, dim=1):
        num_above -= (values > number if or_level else values >= number).view(torch.uint8)
    return num_above
