"""Count, tile by tile, the negatives of each stratum that are ahead of each positive.

A tile of queries is scored at once. Its counts are made for some queries and positives at a time, so that memory stays
bounded. There are two ways to count.

Sparse: with a good model most strata have no item ahead, and only the items that are ahead are counted. One query with
positives that score .8 and .3; the strata are the identities a, b and c:

    negatives              a .9   a .5   b .6   b .4   b .1   c .2
    first positive behind   0      1      1      1      2      2       2 stands for none
    counts per positive     .8: a 1;  .3: a 1, b 2
    cumulative sums         .8: a 1;  .3: a 2, b 2                     the negatives ahead of each positive
    entries                 .8: (a, 1 of 2);  .3: (a, 2 of 2), (b, 2 of 3)

If one item of each identity is drawn, a is ahead of .8 with the chance 1/2, and b ahead of .3 with the chance 2/3.

Dense: where most strata have an item ahead, each positive is compared with all items. They are arranged in layers: the
first item of every stratum, then the second of every stratum that has one, and so on, strata by size. So the results of
a comparison are added up layer by layer, many strata at a time. With strata a of three items, b of two and c of one:

    layers           a1 b1 c1   a2 b2   a3
    scores           .9 .6 .2   .5 .4   .1
    at or above .4    1  1  0    1  1    0
    ahead of .4      a 2 of 3, b 2 of 2, c 0 of 1

A case is the state of a stratum seen from a positive: its number of candidates, and how many of them are ahead, such as
"2 of 3". All probabilities depend on the case alone, so they are computed once for each case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval import ranking
from reid_torchmetrics.functional.retrieval.ranking import (
    FEWEST_ROWS,
    GalleryPart,
    TiePolicy,
    Walk,
    places_of_true,
    rows_with_gallery,
)
from reid_torchmetrics.functional.retrieval.relevance import TileRelevance
from reid_torchmetrics.tasks.walks import cells_of_true

from .strata import Strata

_BYTES_PER_ITEM = 44  # of an item that is ahead, or may be: masks, positions, and keys
_BYTES_PER_MASK = 2  # of a score: whether its item is dropped, and whether it is near
_BYTES_PER_STRATUM = 16  # of a query
_FEW = 64  # positives up to which comparing with each is faster than a binary search
_NEAR = 1 / 8  # share of a tile up to which a search for each of some items is faster than one for all
_NEAR_ONE = 1 / 32  # share of a query's items from which on comparing all of them with each positive is faster
_SMALL = 255  # items of a stratum that a byte can count
_CELLS = 1 << 20  # positives times cases that are counted at a time
_PAIRS = 1 << 21  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_BYTES_PER_PAIR = 4  # whether one is ahead, its share of the counts and bins, and a row of scores
_BYTES_PER_DENSE_COUNT = 32  # of a positive and a stratum where entries are made: positions and cases
_BYTES_PER_SPARSE_COUNT = 48  # of a positive and a stratum: the count, and its entry where it is not 0
_MOST_BINS = torch.iinfo(torch.int16).max
_ROUNDING = 0.999  # float32 is good enough for a bound that gives way a little


class CaseCounts(NamedTuple):
    """For some positives of a tile, how many strata are in each case; undefined for cases with no item ahead."""

    query: Int[Tensor, " positives"]
    ordinal: Int[Tensor, " positives"]
    num_strata: Int[Tensor, "positives cases"]


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive."""

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """index among the sorted positives of the query"""
    num_strata: Int[Tensor, " positives"]
    """number of entries of each positive"""
    stratum: Int[Tensor, " entries"]
    """the strata of one identity are consecutive within a positive"""
    case: Int[Tensor, " entries"]

    def count_cases(self, num_cases: int) -> Iterator[CaseCounts]:
        """Count the entries in each case, for some positives at a time."""
        edges = segments.edges(self.num_strata)
        for part in segments.ranges(len(self.query), max(1, _CELLS // num_cases)):
            num_positives = part.stop - part.start
            first, stop = edges[[part.start, part.stop]].tolist()
            row = segments.numbers(self.num_strata[part], stop - first)
            key = row.mul_(num_cases).add_(self.case[first:stop])
            counts = torch.bincount(key, minlength=num_positives * num_cases).view(num_positives, num_cases)
            yield CaseCounts(self.query[part], self.ordinal[part], counts)


class _Pairs(NamedTuple):
    """The pairs of a query and a stratum that may have an item ahead, by query and then by stratum."""

    row: Int[Tensor, " pairs"]
    stratum: Int[Tensor, " pairs"]


class StratumCountTile:
    """The scores of a tile of queries against the kept gallery, where all but negatives are NaN.

    NaN is neither above nor equal to any score, so only negatives are counted.
    """

    def __init__(self, walk: Walk, gallery: GalleryPart, strata: Strata, rows: slice) -> None:
        """Score the queries `rows`, into the memory of the tile before.

        `positives` are their positions in the kept gallery, the best first, then -1. Where a tie policy orders equal
        scores by position, they are in that order. `cases` are the numbers of candidates and of items ahead per case.

        Raises:
            ValueError: a score is NaN.
        """
        relevance = gallery.relevance
        whole_gallery = slice(0, relevance.num_kept)
        self.rows = rows
        self._strata = strata
        self._ties = gallery.ties
        self._max_bytes = max(1, walk.scores.max_bytes // 2)
        self._scores = walk.fill(rows, whole_gallery)

        # Read the scores of the positives before they are masked.
        tile = relevance.tile(rows)
        listed_scores = self._scores.gather(1, tile.columns)
        by_place = self._ties.by_place or ranking.in_order
        self._thresholds, self.positives = ranking.sort_in_order(
            by_place(tile.columns), tile.positive, listed_scores, tile.columns
        )

        dropped = relevance.dropped(rows, whole_gallery)
        self._keep_negatives(tile, dropped, argument=walk.scores.argument)

        # The candidates of each query in each stratum; in strata of the query's identity the number does not matter.
        available = strata.num_items[None]  # one row serves all queries where nothing is dropped
        if dropped is not None:
            row, column = dropped.nonzero(as_tuple=True)
            shape = (len(dropped), len(strata))
            key = row * len(strata) + strata.item_stratum[column]
            num_dropped = torch.bincount(key, minlength=math.prod(shape)).view(shape)
            available = available - num_dropped
        # The first case of a stratum has 0 items ahead, and the next ones have 1, 2, ... items ahead. Strata with as
        # many candidates share their cases: for strata of 1, 2 and 2 items these are 0 and 1 of 1, and 0, 1 and 2 of 2.
        sizes, size_index = available.unique(return_inverse=True)
        case_size, ahead = segments.runs(0, sizes + 1)
        self.cases = (sizes[case_size], ahead)
        self._first_case = segments.starts(sizes + 1)[size_index]

    def _keep_negatives(self, tile: TileRelevance, dropped: Tensor | None, *, argument: str) -> None:
        """Replace all scores but those of negatives by NaN; raise if a score of a candidate is NaN already."""
        row, slot = tile.listed.nonzero(as_tuple=True)
        column = tile.columns[row, slot]
        # First minus infinity, which hides no NaN of a negative from the check.
        self._scores[row, column] = -torch.inf
        if dropped is not None:
            self._scores.masked_fill_(dropped, -torch.inf)
        for scores in (self._scores, self._thresholds):
            largest = scores.amax(1) if scores.shape[1] else scores  # NaN is above all
            _checks.no_nan(argument, largest)
        self._scores[row, column] = torch.nan
        if dropped is not None:
            self._scores.masked_fill_(dropped, torch.nan)

    def count(
        self,
        num_positives: Int[Tensor, " queries"],
        chance: Float[Tensor, " cases"],
        *,
        most_ahead: float,
        with_cases: bool,
    ) -> Iterator[tuple[StrataAhead, Iterable[CaseCounts]]]:
        """Count the negatives of each stratum ahead of the `num_positives` best positives of each query.

        `chance` is the chance of each case that its stratum is ahead. A positive with more than `most_ahead` identities
        ahead on average may be left out of the strata, but not of the counts `with_cases`.
        """
        width = self._scores.shape[1]
        near = None  # all items must be searched
        num_items = torch.full_like(num_positives, width)
        if self._ties.by_place is None and self._thresholds.shape[1] <= _FEW:
            # Mark the items that may be ahead of a positive that counts.
            last_index = (num_positives - 1).clamp(min=0)[:, None]
            last_score = self._thresholds.gather(1, last_index).where(num_positives[:, None] > 0, torch.inf)
            near = ranking.are_above(self._scores, last_score, or_level=True)
            num_items = ranking.count_true(near)

        # Queries with many items ahead are counted densely where that is possible.
        if near is not None and self._can_count_dense():
            is_dense = num_items > _NEAR_ONE * width
            query, ordinal = segments.runs(0, num_positives.where(is_dense, 0))
            for strata, cases in self._count_dense(query, ordinal, chance, most_ahead):
                yield strata, [cases] if with_cases else []
            near.numpy()[is_dense.numpy()] = False
            num_positives = num_positives.where(~is_dense, 0)
            num_items = num_items.where(~is_dense, 0)

        # All others are counted sparsely, from their near items, or from all items where many are near.
        if with_cases:
            most_ahead = torch.inf  # cases are counted from the strata, so all strata are needed
        is_wide = num_items > _NEAR * width
        num_searched = num_items.where(~is_wide, width)
        num_bytes = num_searched * _BYTES_PER_ITEM + len(self._strata) * _BYTES_PER_STRATUM
        for rows in segments.ranges_within(num_bytes, self._max_bytes):
            near_rows = None if near is None or bool(is_wide[rows].any()) else near[rows]
            for strata in self._count_sparse(rows, num_positives[rows], near_rows, most_ahead):
                yield strata, strata.count_cases(len(chance)) if with_cases else []

    def _can_count_dense(self) -> bool:
        """Return whether all queries have the same cases, and strata with few enough items for bytes."""
        has_same_cases = self._scores.device.type == "cpu" and len(self._first_case) == 1
        if not has_same_cases or not self._strata.one_per_identity:
            return False
        return 0 < int(self._strata.num_items.max()) <= _SMALL

    def _count_dense(
        self, query: Tensor, ordinal: Tensor, chance: Tensor, most_ahead: float
    ) -> Iterator[tuple[StrataAhead, CaseCounts]]:
        """Count for positives of queries with the same strata, by comparing each with all items; `query` ascends.

        The strata are those of positives with at most `most_ahead` strata ahead on average; the cases are of all.
        """
        layers = self._strata.layers
        num_items = len(layers.item)
        first_case = self._first_case[0, layers.stratum]
        # The bins of a positive are consecutive: all cases for each copy of its histogram.
        num_bins = _COPIES * len(chance)
        num_pairs = min(_PAIRS, self._max_bytes // _BYTES_PER_PAIR)
        step = max(1, min(num_pairs // num_items, _MOST_BINS // num_bins))
        copy = torch.arange(len(first_case), device="cpu") % _COPIES
        first_bin = first_case + copy * len(chance)
        first_bin = first_bin + torch.arange(0, step * num_bins, num_bins, device="cpu")[:, None]
        first_bin = first_bin.to(torch.int16 if step * num_bins <= _MOST_BINS else torch.int64)

        is_ahead = np.empty((step, num_items), dtype=np.bool_)
        waiting: list[tuple[Tensor, ...]] = []
        num_bytes = 0
        for part in segments.ranges(len(query), step):
            num_ahead = self._count_in_layers(query[part], ordinal[part], is_ahead)
            bins = torch.add(first_bin[: len(num_ahead)], num_ahead).view(-1)
            shape = (len(num_ahead), _COPIES, len(chance))
            case_counts = torch.bincount(bins, minlength=math.prod(shape)).view(shape).sum(1)
            is_listed = case_counts.double() @ chance <= most_ahead
            num_ahead = num_ahead.index_select(0, places_of_true(is_listed))
            # Small blocks wait, and are listed together.
            waiting.append((case_counts, is_listed, num_ahead))
            num_bytes += case_counts.nbytes + num_ahead.numel() * _BYTES_PER_DENSE_COUNT
            if num_bytes > self._max_bytes or part.stop == len(query):
                case_counts, is_listed, num_ahead = map(torch.cat, zip(*waiting, strict=True))
                block = slice(part.stop - len(is_listed), part.stop)
                cases = CaseCounts(query[block], ordinal[block], case_counts)
                yield self._list_strata(query[block][is_listed], ordinal[block][is_listed], num_ahead), cases
                waiting = []
                num_bytes = 0

    def _list_strata(self, query: Tensor, ordinal: Tensor, num_ahead: Tensor) -> StrataAhead:
        """List the strata with an item ahead, from the counts uint8 [positives, strata by size]."""
        is_any = num_ahead.bool()
        num_strata = ranking.count_true(is_any)
        cells = places_of_true(is_any)
        positive = segments.numbers(num_strata, len(cells))
        column = cells.sub(positive, alpha=num_ahead.shape[1])
        stratum = self._strata.layers.stratum.index_select(0, column)
        first_case = self._first_case[0].index_select(0, stratum)
        case = first_case.add_(num_ahead.view(-1).index_select(0, cells))
        return StrataAhead(query, ordinal, num_strata, stratum, case)

    def _count_in_layers(self, query: Tensor, ordinal: Tensor, is_ahead: np.ndarray) -> Tensor:
        """Count the items of each stratum, by size, ahead of each positive: uint8 [positives, strata].

        `is_ahead` is memory for at least as many positives, and all items.
        """
        layers = self._strata.layers
        compare = np.greater if self._ties.positives_first else np.greater_equal
        thresholds = self._thresholds[query, ordinal].numpy()[:, None]
        is_ahead = is_ahead[: len(query)]
        # The positives of one query are compared with its scores in one call.
        rows, num_positives = query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(rows.tolist(), num_positives.cumsum(0).tolist(), strict=True):
            scores = self._scores[row].index_select(0, layers.item).numpy()
            compare(scores, thresholds[start:stop], out=is_ahead[start:stop])
            start = stop
        # Layers are added up; the strata of a layer are the first ones of the layer before.
        ones = is_ahead.view(np.uint8)
        start = layers.num_strata[0]
        counts = ones[:, :start].copy()
        for num_strata in layers.num_strata[1:]:
            counts[:, :num_strata] += ones[:, start : start + num_strata]
            start += num_strata
        return torch.from_numpy(counts)

    def _count_sparse(
        self, rows: slice, num_positives: Tensor, near: Tensor | None, most_ahead: float
    ) -> Iterator[StrataAhead]:
        """Count for the best positives of the queries `rows`, by their `near` items that are ahead, or by all items."""
        scores = self._scores[rows]
        thresholds = self._thresholds[rows]
        if near is None:
            first = _first_behind(scores, thresholds, self.positives[rows], self._ties)
            ahead = first < num_positives.to(first.dtype)[:, None]
            row, column = cells_of_true(ahead)
            return self._count_items(rows, num_positives, row, column, first[ahead], most_ahead=most_ahead)
        row, column = cells_of_true(near)
        values = scores[row, column]
        first = torch.full_like(row, thresholds.shape[1], dtype=torch.uint8)
        for threshold in thresholds.T.contiguous():
            row_threshold = threshold.index_select(0, row)
            is_ahead = values > row_threshold if self._ties.positives_first else values >= row_threshold
            first -= is_ahead.view(torch.uint8)
        ahead = places_of_true(first < num_positives[row])
        return self._count_items(rows, num_positives, row[ahead], column[ahead], first[ahead], most_ahead=most_ahead)

    def _count_items(
        self, rows: slice, num_positives: Tensor, row: Tensor, column: Tensor, first: Tensor, *, most_ahead: float
    ) -> Iterator[StrataAhead]:
        """List the strata with an item ahead, for a range of positives at a time that takes about `max_bytes`.

        The items are of the queries `rows`: the row there, the position in the kept gallery, and the first positive
        behind each. Positives that have more than `most_ahead` identities ahead on average are left out.
        """
        num_queries, num_strata = len(num_positives), len(self._strata)
        keys = row * num_strata + self._strata.item_stratum.index_select(0, column)
        item_pair, pair_keys = _number_keys(keys, num_queries * num_strata)
        pair_row = pair_keys.div(max(1, num_strata), rounding_mode="floor")
        pairs = _Pairs(pair_row, stratum=pair_keys.sub(pair_row, alpha=num_strata))
        longest = int(num_positives.max())
        step = max(1, self._max_bytes // (_BYTES_PER_SPARSE_COUNT * max(1, len(pairs.row))))
        for part in segments.ranges(longest, step):
            items = slice(None) if part.stop == longest else places_of_true(first < part.stop)
            # What is ahead of a positive is ahead of all that follow. So items of earlier ranges count at the start,
            # and the cumulative sum over the ordinals carries them on: [ordinals, pairs].
            ordinals = torch.arange(part.start, part.stop, device=first.device)
            cell_row = first[items].long().sub_(part.start).clamp_(min=0)
            cell = cell_row.mul_(len(pairs.row)).add_(item_pair[items])
            num_ahead = torch.bincount(cell, minlength=len(ordinals) * len(pairs.row))
            num_ahead = num_ahead.view(len(ordinals), -1).cumsum_(0)
            is_useful = ordinals[:, None] < num_positives
            if most_ahead < torch.inf:
                # An identity with c of n items ahead is ahead with a chance of at least c/n, however its items are
                # drawn. So the shares c/n of all pairs add up to a lower bound for the mean number of identities.
                strata = self._strata
                num_items = strata.identity[strata.item_stratum].bincount()[strata.identity]
                share_of_item = (_ROUNDING / num_items.double()).float()
                share = num_ahead * share_of_item[pairs.stratum]
                least_mean = share.new_zeros(len(num_ahead), num_queries).index_add_(1, pairs.row, share)
                is_useful &= least_mean <= most_ahead
            yield self._list_pairs(rows, ordinals, pairs, num_ahead, is_useful)

    def _list_pairs(
        self, rows: slice, ordinals: Tensor, pairs: _Pairs, num_ahead: Tensor, is_useful: Tensor
    ) -> StrataAhead:
        """List the pairs with an item ahead of a useful positive, from the counts [ordinals, pairs]."""
        ordinal_index, query = is_useful.nonzero(as_tuple=True)
        positive_number = (is_useful.view(-1).cumsum(0) - 1).view(is_useful.shape)
        is_ahead = num_ahead > 0
        if not bool(is_useful.all()):
            is_ahead &= is_useful.index_select(1, pairs.row)
        cell_ordinal, pair = cells_of_true(is_ahead)
        count = num_ahead[cell_ordinal, pair]
        row = pairs.row.index_select(0, pair)
        stratum = pairs.stratum.index_select(0, pair)
        positive_cell = cell_ordinal.mul_(is_useful.shape[1]).add_(row)
        positive = positive_number.view(-1).index_select(0, positive_cell)
        num_strata = torch.bincount(positive, minlength=len(query))
        # One row of cases serves all queries where nothing is dropped.
        if len(self._first_case) == 1:
            first_case = self._first_case[0, stratum]
        else:
            first_case = self._first_case[rows][row, stratum]
        return StrataAhead(query + rows.start, ordinals[ordinal_index], num_strata, stratum, first_case.add_(count))


def size_of_tiles(gallery: GalleryPart, strata: Strata) -> tuple[int, int]:
    """Return the queries of a tile against the whole gallery that take about `scores.max_bytes`, and gallery items."""
    scores = gallery.scores
    if gallery.relevance.drops_others:
        bytes_per_item = _BYTES_PER_ITEM
        bytes_per_row = 2 * _BYTES_PER_STRATUM * len(strata)
    else:
        bytes_per_item = scores.dtype.itemsize + 2 * _BYTES_PER_MASK  # as much again is left to count with
        bytes_per_row = 0
    num_rows = rows_with_gallery(scores, bytes_per_item, bytes_per_row)
    # Where few fit, positives are taken in smaller ranges instead, as long as the scores fit.
    fewest = min(FEWEST_ROWS, rows_with_gallery(scores, bytes_per_item, fewest=1))
    return num_rows or fewest, scores.num_gallery


def _first_behind(
    scores: Tensor, thresholds: Tensor, positives: Tensor, ties: TiePolicy
) -> Integer[Tensor, "queries gallery"]:
    """Return the ordinal of the best positive behind each negative, or a number beyond all positives."""
    first = _search(thresholds, scores, or_level=ties.positives_first)
    if ties.by_place is None:
        return first
    # Where positions decide, a binary search among the tied positives [`first`, `stop`), only for items with some.
    stop = _search(thresholds, scores, or_level=True)
    num_positives = (positives >= 0).sum(1, keepdim=True).to(stop.dtype)
    stop = torch.minimum(stop, num_positives)
    row, column = (first < stop).nonzero(as_tuple=True)
    low = first[row, column].long()
    high = stop[row, column]
    item_order = ties.by_place(column)
    while bool((low < high).any()):  # the tied positives are in the order of their positions
        middle = torch.div(low + high, 2, rounding_mode="floor").clamp_(max=positives.shape[1] - 1)
        is_before = (ties.by_place(positives[row, middle]) < item_order) & (low < high)
        low = low.where(~is_before, middle + 1)
        high = high.where(is_before, torch.minimum(high, middle))
    first[row, column] = low.to(first.dtype)
    return first


def _search(falling: Tensor, values: Tensor, *, or_level: bool) -> Integer[Tensor, "queries gallery"]:
    """Count the row's `falling` numbers above each value, or level with it too; all of them for NaN."""
    if falling.shape[1] > _FEW:
        return torch.searchsorted(-falling, -values, right=or_level, out_int32=True)
    num_above = torch.full(values.shape, falling.shape[1], dtype=torch.uint8, device=values.device)
    for number in falling.split(1, dim=1):
        is_behind = values > number if or_level else values >= number
        num_above -= is_behind.view(torch.uint8)
    return num_above


def _number_keys(keys: Int[Tensor, " items"], total: int) -> tuple[Int[Tensor, " items"], Int[Tensor, " numbered"]]:
    """Number some keys below `total`: return the number of each key, and the numbered keys, ascending.

    If there are many keys, all numbers below `total` are numbered, whether they occur or not.
    """
    all_keys = torch.arange(total, device=keys.device)
    if len(keys) >= total:
        return keys, all_keys
    occurs = torch.zeros_like(all_keys, dtype=torch.bool)
    occurs[keys] = True
    occurring = places_of_true(occurs)
    number = all_keys  # its memory is used again; other keys are never read
    number[occurring] = torch.arange(len(occurring), device=keys.device)
    return number.index_select(0, keys), occurring
