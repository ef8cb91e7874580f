"""Walk a retrieval problem in tiles and count, for every positive, the negatives of each stratum ahead of it.

Most counts are 0 for a good model, so they are passed on sparsely. A tile of queries is scored at once; its counts are
made for some queries and positives at a time, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval import ranking
from reid_torchmetrics.functional.retrieval.ranking import GalleryPart, TiePolicy
from reid_torchmetrics.functional.retrieval.scores import FEWEST_ROWS, SharedWalk, Walk, rows_with_gallery

from .strata import Strata
from .strata_ahead import Ahead, DenseCounting, ItemsAhead, SparseCounting, StrataAhead, number_cases

_BYTES_PER_ITEM = 44  # that is ahead, or may be: masks, places, and keys
_BYTES_PER_MASK = 2  # of a tile: what is dropped, and what is near
_BYTES_PER_STRATUM = 16  # of a query
_FEW = 64  # positives up to which comparing with each is faster than a binary search
_NEAR = 1 / 8  # share of a tile up to which a search for each of some items is faster than one for all
_NEAR_ONE = 1 / 32  # share of a query's items from which on comparing all of them with each positive is faster
_SMALL = 255  # items of a stratum that a byte can count


class SortedPositives(NamedTuple):
    """The positives of a tile's queries, best first; where equal scores have an order of places, they are in it."""

    scores: Float[Tensor, "queries padded"]
    """minus infinity at padding, behind all positives"""
    columns: Int[Tensor, "queries padded"]
    """positions in the kept gallery; -1 at padding"""

    def at(self, rows: slice) -> SortedPositives:
        """The positives of some of the queries."""
        return SortedPositives(*(values[rows] for values in self))


class AheadTile:
    """The scores of a tile of queries, with everything but negatives taken out."""

    def __init__(self, walk: Walk, gallery: GalleryPart, strata: Strata, rows: slice) -> None:
        """Score the queries `rows`, into the memory of the tile before.

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
        self.positives = SortedPositives(*ranking.sort_with_places(of_listed, tile.columns, tile.positive, by_place))
        # What is no negative is minus infinity while NaN is looked for in the others, and NaN from then on.
        row, slot = tile.listed.nonzero(as_tuple=True)
        column = tile.columns[row, slot]
        self._scores[row, column] = -torch.inf
        dropped = relevance.dropped(rows, whole)
        if dropped is not None:
            self._scores.masked_fill_(dropped, -torch.inf)
        for scores in (self._scores, self.positives.scores):
            _checks.no_nan(walk.scores.argument, scores.amax(1) if scores.shape[1] else scores)  # NaN is above all
        self._scores[row, column] = torch.nan  # which is neither above nor level with anything
        if dropped is not None:
            self._scores.masked_fill_(dropped, torch.nan)
        self.cases, self._first_case = number_cases(self._available(dropped))

    def count(
        self, wanted: Int[Tensor, " queries"], chance: Float[Tensor, " cases"], *, most_ahead: float, with_cases: bool
    ) -> Iterator[Ahead]:
        """Count the negatives of each stratum ahead of the `wanted` best positives of each query.

        `chance` is the chance of each case that its stratum is ahead. A positive with more than `most_ahead` identities
        ahead on average may be left out of `Ahead.strata`.
        """
        near, width = self._near(wanted), self._scores.shape[1]
        num_items = torch.full_like(wanted, width) if near is None else ranking.count_true(near)
        # Queries with many items ahead are counted densely, where that can be done, all others sparsely.
        if near is not None and self._may_compare:
            is_wide = num_items > _NEAR_ONE * width
            for ahead in self._densely(wanted.where(is_wide, 0), chance, most_ahead):
                yield ahead if with_cases else ahead._replace(cases=[])
            near.numpy()[is_wide.numpy()] = False
            wanted, num_items = wanted.where(~is_wide, 0), num_items.where(~is_wide, 0)
        most = torch.inf if with_cases else most_ahead  # cases are made of strata
        for rows, near_some in self._parts(near, num_items):
            for strata in self._sparsely(rows, wanted[rows], near_some, most):
                yield Ahead(strata, strata.in_cases(len(chance)) if with_cases else [])

    def _parts(self, near: Tensor | None, num_items: Tensor) -> Iterator[tuple[slice, Tensor | None]]:
        """Ranges of queries that are counted at a time, with the mask of their items to look at; None for all."""
        width = self._scores.shape[1]
        is_wide = num_items > _NEAR * width
        num_bytes = num_items.where(~is_wide, width) * _BYTES_PER_ITEM + self._strata.number * _BYTES_PER_STRATUM
        for rows in segments.ranges_within(num_bytes, self._max_bytes):
            yield rows, None if near is None or bool(is_wide[rows].any()) else near[rows]

    @property
    def _may_compare(self) -> bool:
        """Whether `DenseCounting` can count: where a stratum is the same for all queries, and small."""
        is_simple = self._scores.device.type == "cpu" and len(self._first_case) == 1 and self._strata.one_per_identity
        return is_simple and 0 < int(self._strata.num_items.max()) <= _SMALL

    def _densely(self, wanted: Tensor, chance: Tensor, most_ahead: float) -> Iterator[Ahead]:
        """Count for the wanted positives by comparing all items with each."""
        query, ordinal = segments.runs(0, wanted)
        least = self.positives.scores[query, ordinal]
        counting = DenseCounting(self._strata.layers, self._first_case[0], chance, max_bytes=self._max_bytes)
        or_level = not self._ties.positives_first
        return counting.count(self._scores, query, ordinal, least, or_level=or_level, most_ahead=most_ahead)

    def _sparsely(self, rows: slice, wanted: Tensor, near: Tensor | None, most_ahead: float) -> Iterator[StrataAhead]:
        """Count for the wanted positives of some queries, from the items that are ahead of one."""
        scores, positives = self._scores[rows], self.positives.at(rows)
        if near is None:
            items = _among_all(scores, positives, wanted, self._ties)
        else:
            items = _among_near(scores, positives, wanted, near, or_level=not self._ties.positives_first)
        first_case = self._first_case if len(self._first_case) == 1 else self._first_case[rows]
        counting = SparseCounting(items, self._strata, first_case, wanted)
        for strata in counting.count(most_ahead=most_ahead, max_bytes=self._max_bytes):
            yield strata._replace(query=strata.query + rows.start)

    def _near(self, wanted: Tensor) -> Bool[Tensor, "queries gallery"] | None:
        """Mask of the items that may be ahead of a wanted positive; None if every item must be searched for."""
        scores = self.positives.scores
        if self._ties.by_place is not None or scores.shape[1] > _FEW:
            return None
        last = scores.gather(1, (wanted - 1).clamp(min=0)[:, None]).where(wanted[:, None] > 0, torch.inf)
        return ranking.are_above(self._scores, last, or_level=True)

    def _available(self, dropped: Tensor | None) -> Int[Tensor, "#queries strata"]:
        """Number of candidates of each query in each stratum; undefined for strata of the query's identity."""
        if dropped is None:
            return self._strata.num_items[None]
        row, column = dropped.nonzero(as_tuple=True)
        key = row * self._strata.number + self._strata.of_item[column]
        shape = (len(dropped), self._strata.number)
        return self._strata.num_items - torch.bincount(key, minlength=shape[0] * shape[1]).view(shape)


def cut_in_tiles(gallery: GalleryPart, strata: Strata) -> SharedWalk:
    """Tiles of queries against the whole gallery that take about `scores.max_bytes`."""
    scores = gallery.scores
    beside, per_row = scores.dtype.itemsize + 2 * _BYTES_PER_MASK, 0  # as much again is left to count with
    if gallery.relevance.drops_others:
        beside, per_row = _BYTES_PER_ITEM, 2 * _BYTES_PER_STRATUM * strata.number
    rows = rows_with_gallery(scores, beside, per_row)
    # Where few fit, positives are taken in smaller ranges instead, as long as the scores fit.
    fewest = min(FEWEST_ROWS, rows_with_gallery(scores, beside, fewest=1))
    return SharedWalk(scores, rows or fewest, scores.num_gallery, keeps_thread=gallery.keeps_thread)


def _among_near(
    scores: Tensor, positives: SortedPositives, wanted: Tensor, near: Tensor, *, or_level: bool
) -> ItemsAhead:
    """The items ahead of a wanted positive, searched for among the `near` ones one by one."""
    row, column = ranking.cells_of_true(near)
    values, first = scores[row, column], torch.full_like(row, positives.scores.shape[1], dtype=torch.uint8)
    for score in positives.scores.T.contiguous():
        behind = score.index_select(0, row)
        first -= (values >= behind if or_level else values > behind).view(torch.uint8)
    ahead = ranking.places_of_true(first < wanted[row])
    return ItemsAhead(row[ahead], column[ahead], first[ahead])


def _among_all(scores: Tensor, positives: SortedPositives, wanted: Tensor, ties: TiePolicy) -> ItemsAhead:
    """The items ahead of a wanted positive, by a search for every item."""
    first = _first_behind(scores, positives, ties)
    ahead = first < wanted.to(first.dtype)[:, None]
    return ItemsAhead(*ranking.cells_of_true(ahead), first[ahead])


def _first_behind(scores: Tensor, positives: SortedPositives, ties: TiePolicy) -> Integer[Tensor, "queries gallery"]:
    """The best positive that each negative is ahead of, or any number beyond them."""
    first = _search(positives.scores, scores, or_level=ties.positives_first)
    if ties.by_place is None:
        return first
    # Where places decide, a binary search among the tied positives [`first`, `stop`), only for items that have some.
    stop = _search(positives.scores, scores, or_level=True)
    stop = torch.minimum(stop, (positives.columns >= 0).sum(1, keepdim=True).to(stop.dtype))
    row, column = (first < stop).nonzero(as_tuple=True)
    low, high = first[row, column].long(), stop[row, column]
    here = ties.by_place(column)
    while bool((low < high).any()):  # the tied positives are in the order of their places
        middle = torch.div(low + high, 2, rounding_mode="floor").clamp_(max=positives.scores.shape[1] - 1)
        before = (ties.by_place(positives.columns[row, middle]) < here) & (low < high)
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
