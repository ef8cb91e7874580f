"""Walk a retrieval problem in tiles and count, for every positive, the negatives of each stratum ahead of it.

Most counts are 0 for a good model, so they are passed on sparsely. A tile of queries is scored once; its counts are
made for a range of positives at a time, so that memory stays bounded.

One query with positives that score .8 and .3; the strata are the identities a, b and c:

    negatives              a .9   a .5   b .6   b .4   b .1   c .2
    first positive behind   0      1      1      1      2      2       2 is none
    counted at each         of a 1 at 0 and 1 at 1, of b 2 at 1
    summed up               ahead of .8: a 1; ahead of .3: a 2, b 2    a cumulative sum over the positives
    entries                 .8: (a, 1 of 2); .3: (a, 2 of 2), (b, 2 of 3)

If one item of each identity is drawn, a is ahead of .8 with the chance 1/2, and b ahead of .3 with the chance 2/3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.draws.strata import Strata
from reid_torchmetrics.functional.retrieval.ranking import TiePolicy, count_true
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import FEWEST_ROWS, Scores, SharedWalk, Walk, rows_with_gallery

_BYTES_BESIDE_SCORE = 44  # masks, places, and the keys of the items ahead, where all are
_BYTES_PER_COUNT = 48  # of one positive and one stratum: the count, and its entry where it is not 0
_FEW = 64  # positives up to which comparing with each is faster than a binary search
_NEAR = 1 / 8  # share of a tile up to which a search for each of some items is faster than one for all
_ROUNDING = 0.999  # float32 is good enough for a bound that gives way a little


class SortedPositives(NamedTuple):
    """The positives of a tile's queries, best first; where equal scores have an order of places, they are in it."""

    columns: Int[Tensor, "queries padded"]
    """positions in the kept gallery"""
    costs: Float[Tensor, "queries padded"]
    """minus the scores; infinity at padding"""
    valid: Bool[Tensor, "queries padded"]
    """False at padding, which comes last"""


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive."""

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """place in `SortedPositives`"""
    num_strata: Int[Tensor, " positives"]
    """how many entries each positive has"""
    stratum: Int[Tensor, " entries"]
    """ascending within a positive"""
    case: Int[Tensor, " entries"]
    """place in `Cases`"""


class Cases(NamedTuple):
    """All that can be said of a stratum and a positive: of so many candidates, so many are ahead."""

    available: Int[Tensor, " cases"]
    ahead: Int[Tensor, " cases"]
    """0 up to all that are available"""


class _Cells(NamedTuple):
    """The pairs of a query and a stratum that may have an item ahead, by query and then by stratum."""

    query: Int[Tensor, " cells"]
    stratum: Int[Tensor, " cells"]
    of_item: Int[Tensor, " items"]
    """the cell of every item"""

    @classmethod
    def of(cls, keys: Int[Tensor, " items"], num_queries: int, num_strata: int) -> _Cells:
        """Number what occurs among the keys query * num_strata + stratum; where most may, all that are possible."""
        if len(keys) >= num_queries * num_strata:
            stratum = torch.arange(num_strata, device=keys.device)
            query = torch.arange(num_queries, device=keys.device).repeat_interleave(num_strata)
            return cls(query, stratum.repeat(num_queries), keys)
        occurs = torch.zeros(num_queries * num_strata, dtype=torch.bool, device=keys.device)
        occurs[keys] = True
        cells = _true(occurs)
        number = torch.empty(len(occurs), dtype=torch.int64, device=keys.device)
        number[cells] = torch.arange(len(cells), device=keys.device)
        query = cells.div(max(1, num_strata), rounding_mode="floor")
        return cls(query, cells.sub(query, alpha=num_strata), number.index_select(0, keys))


class AheadTile:
    """The scores of a tile of queries, with everything but negatives taken out."""

    def __init__(self, walk: Walk, relevance: Relevance, strata: Strata, rows: slice, ties: TiePolicy) -> None:
        """Score the queries `rows`, in place of those of the tile before.

        Raises:
            ValueError: a score is NaN.
        """
        self.rows = rows
        self._strata, self._ties, self._max_bytes = strata, ties, walk.scores.max_bytes
        self._costs = walk.whole(rows).neg_()
        # The positives are read before they are taken out.
        tile = relevance.tile(rows)
        self.positives = _sorted_positives(self._costs, tile.columns, tile.positive, ties)
        # What is no negative is infinite while NaN is looked for in the others, and NaN from then on.
        row, slot = tile.listed.nonzero(as_tuple=True)
        column = tile.columns[row, slot]
        self._costs[row, column] = torch.inf
        dropped = relevance.dropped(rows, slice(0, relevance.num_kept))
        if dropped is not None:
            self._costs.masked_fill_(dropped, torch.inf)
        for costs in (self._costs, self.positives.costs):
            _checks.no_nan(walk.scores.argument, costs)
        self._costs[row, column] = torch.nan  # which is searched for behind all positives
        if dropped is not None:
            self._costs.masked_fill_(dropped, torch.nan)
        self.cases, self._first_case = _cases(self._available(dropped))

    def count(self, wanted: Int[Tensor, " queries"], *, most_ahead: float = torch.inf) -> Iterator[StrataAhead]:
        """Count the negatives of each stratum ahead of the `wanted` best positives of each query.

        Positives that have more than `most_ahead` identities ahead on average are left out: an identity with c of n
        items ahead is ahead itself with a chance of at least c/n, however its items are drawn.
        """
        longest = int(wanted.max()) if len(wanted) else 0
        keys, first = self._items(wanted)
        cells = _Cells.of(keys, len(wanted), self._strata.number)
        step = max(1, self._max_bytes // (_BYTES_PER_COUNT * max(1, len(cells.stratum))))
        for part in segments.ranges(longest, step):
            ordinals = torch.arange(part.start, part.stop, device=keys.device)
            counts = self._counts(cells, first, ordinals)
            useful = ordinals[:, None] < wanted
            if most_ahead < torch.inf:
                useful &= self._fewest_ahead(cells, counts) <= most_ahead
            yield self._entries(cells, counts, useful, ordinals)

    def _items(self, wanted: Tensor) -> tuple[Int[Tensor, " items"], Integer[Tensor, " items"]]:
        """The negatives ahead of a wanted positive: their query and stratum, and the best positive behind them."""
        row, column, first = self._near(wanted) or self._among_all(wanted)
        return row.mul_(self._strata.number).add_(self._strata.of_item.index_select(0, column)), first

    def _near(self, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Rows and columns of these items, and what is behind each, if they are few; a search for each then."""
        costs = self.positives.costs
        if self._ties.by_place is not None or costs.shape[1] > _FEW:
            return None
        last = costs.gather(1, (wanted - 1).clamp(min=0)[:, None]).where(wanted[:, None] > 0, -torch.inf)
        is_near = self._costs <= last
        if int(count_true(is_near).sum()) > _NEAR * self._costs.numel():
            return None
        row, column = _true_cells(is_near)
        values, first = self._costs[row, column], torch.full_like(row, costs.shape[1], dtype=torch.uint8)
        for number in costs.T.contiguous():
            behind = number.index_select(0, row)
            first -= (values < behind if self._ties.positives_first else values <= behind).view(torch.uint8)
        ahead = _true(first < wanted[row])
        return row[ahead], column[ahead], first[ahead]

    def _among_all(self, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same, by a search for every item of the tile."""
        first = _first_behind(self._costs, self.positives, self._ties)
        ahead = first < wanted.to(first.dtype)[:, None]
        return *_true_cells(ahead), first[ahead]

    def _counts(self, cells: _Cells, first: Tensor, ordinals: Tensor) -> Int[Tensor, "ordinals cells"]:
        """How many items of each query and stratum are ahead of its positives `ordinals`."""
        shape = (len(ordinals), len(cells.stratum))
        start, stop, of_item = int(ordinals[0]), int(ordinals[-1]), cells.of_item
        if stop + 1 < self.positives.costs.shape[1]:
            places = _true(first <= stop)
            of_item, first = of_item[places], first[places]
        # What is ahead of a positive is ahead of all that follow. So earlier items count at `start`, and the cumulative
        # sum over the ordinals carries them on.
        key = first.long().sub_(start).clamp_(min=0).mul_(shape[1]).add_(of_item)
        return torch.bincount(key, minlength=shape[0] * shape[1]).view(shape).cumsum_(0)

    def _fewest_ahead(self, cells: _Cells, counts: Tensor) -> Float[Tensor, "ordinals queries"]:
        """A lower bound of the identities ahead on average."""
        num_items = self._strata.identity[self._strata.of_item].bincount()
        share = counts * (_ROUNDING / num_items[self._strata.identity].double()).float()[cells.stratum]
        return share.new_zeros(len(counts), len(self._costs)).index_add_(1, cells.query, share)

    def _entries(self, cells: _Cells, counts: Tensor, useful: Tensor, ordinals: Tensor) -> StrataAhead:
        """Pick the counts of useful positives [ordinals, queries] that are not 0."""
        ordinal, query = useful.nonzero(as_tuple=True)
        number = (useful.view(-1).cumsum(0) - 1).view(useful.shape)  # of each positive, among the useful ones
        ahead = counts > 0
        if not bool(useful.all()):
            ahead &= useful.index_select(1, cells.query)
        slot, cell = _true_cells(ahead)
        count = counts[slot, cell]
        row, stratum = cells.query.index_select(0, cell), cells.stratum.index_select(0, cell)
        positive = number.view(-1).index_select(0, slot.mul_(useful.shape[1]).add_(row))
        # One row of cases serves all queries where nothing is dropped.
        first_case = self._first_case[row if len(self._first_case) > 1 else 0, stratum]
        case = first_case.add_(count)
        return StrataAhead(query, ordinals[ordinal], torch.bincount(positive, minlength=len(query)), stratum, case)

    def _available(self, dropped: Tensor | None) -> Int[Tensor, "#queries strata"]:
        """Candidates of each query in each stratum, but for the strata of its own identity."""
        if dropped is None:
            return self._strata.num_items[None]
        row, column = dropped.nonzero(as_tuple=True)
        key = row * self._strata.number + self._strata.of_item[column]
        shape = (len(dropped), self._strata.number)
        return self._strata.num_items - torch.bincount(key, minlength=shape[0] * shape[1]).view(shape)


def _true_cells(mask: Bool[Tensor, "rows columns"]) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells"]]:
    """Rows and columns where a mask is true."""
    places = _true(mask)
    row = segments.numbers(count_true(mask), len(places))
    return row, places.sub_(row, alpha=mask.shape[1])


def _true(mask: Bool[Tensor, "*shape"]) -> Int[Tensor, " places"]:
    """Where a mask is true, as places in the flat mask; NumPy finds them several times as fast."""
    if mask.device.type != "cpu":
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def cut_in_tiles(scores: Scores, relevance: Relevance, strata: Strata) -> SharedWalk:
    """Tiles of queries against the whole gallery that take about `scores.max_bytes`."""
    per_row = _BYTES_PER_COUNT * strata.number * relevance.longest_run
    rows = rows_with_gallery(scores, _BYTES_BESIDE_SCORE, per_row)
    # Where few fit, positives are taken in smaller ranges instead, as long as the scores fit.
    fewest = min(FEWEST_ROWS, rows_with_gallery(scores, _BYTES_BESIDE_SCORE, fewest=1))
    keeps_thread = relevance.junk_pairs is not None
    return SharedWalk(scores, rows or fewest, scores.num_gallery, keeps_thread=keeps_thread)


def _sorted_positives(
    costs: Float[Tensor, "queries gallery"], columns: Int[Tensor, "queries padded"], positive: Tensor, ties: TiePolicy
) -> SortedPositives:
    places = columns if ties.by_place is None else ties.by_place(columns)
    order = places.where(positive, torch.iinfo(torch.int64).max).argsort(dim=1)
    columns, valid = columns.gather(1, order), positive.gather(1, order)
    # Padding is last even after positives that score minus infinity: the sort is stable.
    ordered, order = costs.gather(1, columns).where(valid, torch.inf).sort(dim=1, stable=True)
    return SortedPositives(columns.gather(1, order), ordered, valid.gather(1, order))


def _first_behind(
    costs: Float[Tensor, "queries gallery"], positives: SortedPositives, ties: TiePolicy
) -> Integer[Tensor, "queries gallery"]:
    """The best positive that each negative is ahead of, or any number beyond them."""
    first = _search(positives.costs, costs, or_level=ties.positives_first)
    if ties.by_place is None:
        return first
    # Where places decide, a binary search among the tied positives [`first`, `stop`), only for items that have some.
    stop = _search(positives.costs, costs, or_level=True)
    stop = torch.minimum(stop, positives.valid.sum(1, keepdim=True).to(stop.dtype))
    row, column = (first < stop).nonzero(as_tuple=True)
    low, high = first[row, column].long(), stop[row, column]
    here = ties.by_place(column)
    while bool((low < high).any()):  # the tied positives are in the order of their places
        middle = torch.div(low + high, 2, rounding_mode="floor").clamp_(max=positives.costs.shape[1] - 1)
        before = (ties.by_place(positives.columns[row, middle]) < here) & (low < high)
        low, high = low.where(~before, middle + 1), high.where(before, torch.minimum(high, middle))
    first[row, column] = low.to(first.dtype)
    return first


def _search(
    rising: Float[Tensor, "queries padded"], values: Float[Tensor, "queries gallery"], *, or_level: bool
) -> Integer[Tensor, "queries gallery"]:
    """How many of a row's `rising` numbers are below each value, or level with it too; all of them for NaN."""
    if rising.shape[1] > _FEW:
        return torch.searchsorted(rising, values, right=or_level, out_int32=True)
    num_below = torch.full(values.shape, rising.shape[1], dtype=torch.uint8, device=values.device)
    for number in rising.split(1, dim=1):
        num_below -= (values < number if or_level else values <= number).view(torch.uint8)
    return num_below


def _cases(available: Int[Tensor, "rows strata"]) -> tuple[Cases, Int[Tensor, "rows strata"]]:
    """Number the cases: for each size of a stratum one for 0, 1, ... all items ahead."""
    sizes, size = available.unique(return_inverse=True)
    of_case, ahead = segments.runs(0, sizes + 1)
    return Cases(sizes[of_case], ahead), segments.starts(sizes + 1)[size]
