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

from .strata import Strata

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
            key, size = row * len(strata) + strata.of_item[column], len(dropped) * len(strata)
            available = available - torch.bincount(key, minlength=size).view(len(dropped), len(strata))
        # Cases by the size of the stratum: for each size one for 0, 1, ... all of its items ahead.
        sizes, size = available.unique(return_inverse=True)
        of_case, ahead = segments.runs(0, sizes + 1)
        self.cases, self._first_case = (sizes[of_case], ahead), segments.starts(sizes + 1)[size]

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
            positives = segments.runs(0, wanted.where(is_wide, 0))
            for strata, cases in self._densely(*positives, chance, most_ahead):
                yield strata, cases if with_cases else []
            near.numpy()[is_wide.numpy()] = False
            wanted, num_items = wanted.where(~is_wide, 0), num_items.where(~is_wide, 0)
        most = torch.inf if with_cases else most_ahead  # cases are made of strata
        is_wide = num_items > _NEAR * width
        num_bytes = num_items.where(~is_wide, width) * _BYTES_PER_ITEM + len(self._strata) * _BYTES_PER_STRATUM
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

    def _densely(
        self, query: Tensor, ordinal: Tensor, chance: Tensor, most_ahead: float
    ) -> Iterator[tuple[StrataAhead, list[CaseCounts]]]:
        """Count for positives of queries that have the same strata, by comparing each with all items; `query` ascends.

        Strata are listed for positives that have at most `most_ahead` of them ahead on average, cases for all.
        """
        layers, size = self._strata.layers, _COPIES * len(chance)
        first_case = self._first_case[0, layers.stratum]
        step = max(1, min(min(_PAIRS, self._max_bytes // _BYTES_PER_PAIR) // len(layers.item), _MOST_BINS // size))
        is_ahead = np.empty((step, len(layers.item)), dtype=np.bool_)
        # The bins of a positive, and of all copies of its histogram, are consecutive.
        first_bin = first_case + torch.arange(len(first_case), device="cpu") % _COPIES * len(chance)
        first_bin = first_bin + torch.arange(0, step * size, size, device="cpu")[:, None]
        first_bin = first_bin.to(torch.int16 if step * size <= _MOST_BINS else torch.int64)
        counted: list[tuple[Tensor, ...]] = []
        num_bytes = 0
        for part in segments.ranges(len(query), step):
            counts = self._ahead(query[part], ordinal[part], is_ahead)
            # How often each case occurs, by several copies of a histogram.
            shape = (len(counts), _COPIES, len(chance))
            bins = torch.add(first_bin[: len(counts)], counts).view(-1)
            number = torch.bincount(bins, minlength=math.prod(shape)).view(shape).sum(1)
            few = number.double() @ chance <= most_ahead
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
                stratum = layers.stratum.index_select(0, column)
                case = first_case.index_select(0, column).add_(counts.view(-1).index_select(0, places))
                strata = StrataAhead(query[block][few], ordinal[block][few], num_strata, stratum, case)
                yield strata, [(query[block], ordinal[block], number)]
                counted, num_bytes = [], 0

    def _ahead(self, query: Tensor, ordinal: Tensor, is_ahead: np.ndarray) -> Tensor:
        """How many items of each stratum, by size, are ahead of each positive: uint8 [positives, strata].

        `is_ahead` is memory for as many positives, or more, and all items.
        """
        layers, by = self._strata.layers, np.greater if self._ties.positives_first else np.greater_equal
        thresholds, is_ahead = self._thresholds[query, ordinal].numpy()[:, None], is_ahead[: len(query)]
        # The positives of one query are compared with its scores in one call.
        rows, number = query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(rows.tolist(), number.cumsum(0).tolist(), strict=True):
            in_layers = self._scores[row].index_select(0, layers.item).numpy()
            by(in_layers, thresholds[start:stop], out=is_ahead[start:stop])
            start = stop
        # Layers are added up; a layer has the first, largest strata of the layer before.
        first, *others = layers.num_strata
        in_bytes, start = is_ahead.view(np.uint8), first
        counts = in_bytes[:, :first].copy()
        for num_strata in others:
            counts[:, :num_strata] += in_bytes[:, start : start + num_strata]
            start += num_strata
        return torch.from_numpy(counts)

    def _sparsely(self, rows: slice, wanted: Tensor, near: Tensor | None, most_ahead: float) -> Iterator[StrataAhead]:
        """Count for the wanted positives of some queries, by the items ahead of one, of the `near` ones or of all."""
        scores, thresholds, or_level = self._scores[rows], self._thresholds[rows], not self._ties.positives_first
        if near is None:
            first = _first_behind(scores, thresholds, self.positives[rows], self._ties)
            ahead = first < wanted.to(first.dtype)[:, None]
            return self._count_items(rows, wanted, *cells_of_true(ahead), first[ahead], most_ahead=most_ahead)
        row, column = cells_of_true(near)
        values, first = scores[row, column], torch.full_like(row, thresholds.shape[1], dtype=torch.uint8)
        for score in thresholds.T.contiguous():
            behind = score.index_select(0, row)
            first -= (values >= behind if or_level else values > behind).view(torch.uint8)
        places = places_of_true(first < wanted[row])
        items = row[places], column[places], first[places]
        return self._count_items(rows, wanted, *items, most_ahead=most_ahead)

    def _count_items(
        self, rows: slice, wanted: Tensor, row: Tensor, column: Tensor, first: Tensor, *, most_ahead: float
    ) -> Iterator[StrataAhead]:
        """The strata with some items ahead, for a range of positives at a time that takes about `max_bytes`.

        The items are of the queries `rows`: the row there, the kept position, and the best positive behind each.
        Positives that have more than `most_ahead` identities ahead on average are left out: an identity with c of n
        items ahead is ahead itself with a chance of at least c/n, however its items are drawn.
        """
        # Counted are pairs of a query and a stratum that may have an item ahead, by query and then by stratum.
        strata, longest = self._strata, int(wanted.max())
        keys = row * len(strata) + strata.of_item.index_select(0, column)
        pair_of_item, pairs = _numbered(keys, len(wanted) * len(strata))
        row_of_pair = pairs.div(max(1, len(strata)), rounding_mode="floor")
        stratum_of_pair = pairs.sub(row_of_pair, alpha=len(strata))
        first_case = self._first_case if len(self._first_case) == 1 else self._first_case[rows]
        step = max(1, self._max_bytes // (_BYTES_PER_SPARSE_COUNT * max(1, len(pairs))))
        for part in segments.ranges(longest, step):
            some = slice(None) if part.stop == longest else places_of_true(first < part.stop)
            # What is ahead of a positive is ahead of all that follow. So earlier items count at the start, and the
            # cumulative sum over the ordinals carries them on: [ordinals, pairs].
            ordinals = torch.arange(part.start, part.stop, device=first.device)
            key = first[some].long().sub_(part.start).clamp_(min=0).mul_(len(pairs)).add_(pair_of_item[some])
            counts = torch.bincount(key, minlength=len(ordinals) * len(pairs)).view(len(ordinals), -1).cumsum_(0)
            useful = ordinals[:, None] < wanted
            if most_ahead < torch.inf:
                num_items = strata.identity[strata.of_item].bincount()[strata.identity]
                share = counts * (_ROUNDING / num_items.double()).float()[stratum_of_pair]
                useful &= share.new_zeros(useful.shape).index_add_(1, row_of_pair, share) <= most_ahead
            # The counts of useful positives that are not 0, and the number of each positive among the useful ones.
            ordinal, query = useful.nonzero(as_tuple=True)
            number = (useful.view(-1).cumsum(0) - 1).view(useful.shape)
            ahead = counts > 0
            if not bool(useful.all()):
                ahead &= useful.index_select(1, row_of_pair)
            slot, pair = cells_of_true(ahead)
            count = counts[slot, pair]
            query_row, stratum = row_of_pair.index_select(0, pair), stratum_of_pair.index_select(0, pair)
            positive = number.view(-1).index_select(0, slot.mul_(useful.shape[1]).add_(query_row))
            num_strata = torch.bincount(positive, minlength=len(query))
            # One row of cases serves all queries where nothing is dropped.
            case = first_case[query_row if len(first_case) > 1 else 0, stratum].add_(count)
            yield StrataAhead(query + rows.start, ordinals[ordinal], num_strata, stratum, case)


def size_of_tiles(gallery: GalleryPart, strata: Strata) -> tuple[int, int]:
    """Queries of a tile against the whole gallery that take about `scores.max_bytes`, and gallery items."""
    scores = gallery.scores
    beside, per_row = scores.dtype.itemsize + 2 * _BYTES_PER_MASK, 0  # as much again is left to count with
    if gallery.relevance.drops_others:
        beside, per_row = _BYTES_PER_ITEM, 2 * _BYTES_PER_STRATUM * len(strata)
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


def _numbered(keys: Int[Tensor, " items"], total: int) -> tuple[Int[Tensor, " items"], Int[Tensor, " numbered"]]:
    """The number of each of some keys below `total` among the keys that may occur, and these, ascending."""
    may_occur = torch.arange(total, device=keys.device)
    if len(keys) >= total:
        return keys, may_occur
    occurs = torch.zeros_like(may_occur, dtype=torch.bool)
    occurs[keys] = True
    number, occurring = may_occur, places_of_true(occurs)
    number[occurring] = torch.arange(len(occurring), device=keys.device)
    return number.index_select(0, keys), occurring
