"""Count the negatives of each stratum ahead of a positive, in one of two ways.

Most strata have none ahead for a good model: then only the items that are ahead are counted. One query with positives
that score .8 and .3; the strata are the identities a, b and c:

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
from jaxtyping import Bool, Float, Int, Integer, UInt8
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import cells_of_true, count_true, places_of_true

from .strata import Layers, Strata

_CELLS = 1 << 20  # positives times cases that are counted at a time
_PAIRS = 1 << 21  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_BYTES_PER_PAIR = 4  # whether one is ahead, its share of the counts and bins, and a row of scores
_BYTES_PER_DENSE_COUNT = 32  # of a positive and a stratum where entries are made: places and cases
_BYTES_PER_SPARSE_COUNT = 48  # of a positive and a stratum: the count, and its entry where it is not 0
_MOST_BINS = torch.iinfo(torch.int16).max
_ROUNDING = 0.999  # float32 is good enough for a bound that gives way a little


class Cases(NamedTuple):
    """The states of a stratum seen from a positive: its candidates, and how many of them are ahead."""

    available: Int[Tensor, " cases"]
    ahead: Int[Tensor, " cases"]
    """0 up to all that are available"""


def number_cases(available: Int[Tensor, "rows strata"]) -> tuple[Cases, Int[Tensor, "rows strata"]]:
    """Number the cases: for each size of a stratum one for 0, 1, ... all items ahead; and the first of each stratum."""
    sizes, size = available.unique(return_inverse=True)
    of_case, ahead = segments.runs(0, sizes + 1)
    return Cases(sizes[of_case], ahead), segments.starts(sizes + 1)[size]


class CaseCounts(NamedTuple):
    """How often each case occurs among the strata ahead of some positives."""

    query: Int[Tensor, " positives"]
    ordinal: Int[Tensor, " positives"]
    number: Int[Tensor, "positives cases"]
    """undefined for a case with nothing ahead"""


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive."""

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """place in `SortedPositives`"""
    num_strata: Int[Tensor, " positives"]
    """how many entries each positive has"""
    stratum: Int[Tensor, " entries"]
    """the strata of one identity are consecutive within a positive"""
    case: Int[Tensor, " entries"]
    """place in `Cases`"""

    def in_cases(self, num_cases: int) -> Iterator[CaseCounts]:
        """How often each case occurs, for some positives at a time."""
        stop = self.num_strata.cumsum(0)
        for part in segments.ranges(len(stop), max(1, _CELLS // num_cases)):
            entries = slice(int(stop[part.start - 1]) if part.start else 0, int(stop[part.stop - 1]))
            lengths = self.num_strata[part]
            row = segments.numbers(lengths, entries.stop - entries.start)
            key = row.mul_(num_cases).add_(self.case[entries])
            number = torch.bincount(key, minlength=len(lengths) * num_cases).view(len(lengths), num_cases)
            yield CaseCounts(self.query[part], self.ordinal[part], number)


class Ahead(NamedTuple):
    """What is ahead of some positives."""

    strata: StrataAhead
    """of the positives that may matter to a CMC"""
    cases: Iterable[CaseCounts]
    """of all of them, part by part"""


class ItemsAhead(NamedTuple):
    """Negatives that are ahead of a wanted positive."""

    query: Int[Tensor, " items"]
    column: Int[Tensor, " items"]
    """position in the kept gallery"""
    first: Integer[Tensor, " items"]
    """the best positive behind each"""


class SparseCounting:
    """Counts for the `wanted` best positives of each query, of nothing but items that are ahead of one."""

    def __init__(
        self, items: ItemsAhead, strata: Strata, first_case: Int[Tensor, "#queries strata"], wanted: Tensor
    ) -> None:
        """Take the items of all queries; `first_case[q, s]` is the case of stratum s with no item ahead."""
        self._strata, self._first_case, self._wanted = strata, first_case, wanted
        self._first = items.first
        stratum = strata.of_item.index_select(0, items.column)
        self._pairs = _QueryStrata.of(items.query * strata.number + stratum, len(wanted), strata.number)

    def count(self, *, most_ahead: float, max_bytes: int) -> Iterator[StrataAhead]:
        """The strata ahead, for a range of positives at a time that takes about `max_bytes`.

        Positives that have more than `most_ahead` identities ahead on average are left out: an identity with c of n
        items ahead is ahead itself with a chance of at least c/n, however its items are drawn.
        """
        longest = int(self._wanted.max()) if len(self._wanted) else 0
        step = max(1, max_bytes // (_BYTES_PER_SPARSE_COUNT * max(1, len(self._pairs.stratum))))
        for part in segments.ranges(longest, step):
            ordinals = torch.arange(part.start, part.stop, device=self._first.device)
            counts = self._counts(part, is_last=part.stop == longest)
            useful = ordinals[:, None] < self._wanted
            if most_ahead < torch.inf:
                useful &= self._fewest_ahead(counts) <= most_ahead
            yield self._entries(counts, useful, ordinals)

    def _counts(self, ordinals: slice, *, is_last: bool) -> Int[Tensor, "ordinals pairs"]:
        """How many items of each query and stratum are ahead of its positives `ordinals`."""
        shape = (ordinals.stop - ordinals.start, len(self._pairs.stratum))
        of_item, first = self._pairs.of_item, self._first
        if not is_last:
            places = places_of_true(first < ordinals.stop)
            of_item, first = of_item[places], first[places]
        # What is ahead of a positive is ahead of all that follow. So earlier items count at the start, and the
        # cumulative sum over the ordinals carries them on.
        key = first.long().sub_(ordinals.start).clamp_(min=0).mul_(shape[1]).add_(of_item)
        return torch.bincount(key, minlength=shape[0] * shape[1]).view(shape).cumsum_(0)

    def _fewest_ahead(self, counts: Tensor) -> Float[Tensor, "ordinals queries"]:
        """A lower bound of the identities ahead on average."""
        num_items = self._strata.identity[self._strata.of_item].bincount()
        of_item = (_ROUNDING / num_items[self._strata.identity].double()).float()
        share = counts * of_item[self._pairs.stratum]
        return share.new_zeros(len(counts), len(self._wanted)).index_add_(1, self._pairs.query, share)

    def _entries(self, counts: Tensor, useful: Bool[Tensor, "ordinals queries"], ordinals: Tensor) -> StrataAhead:
        """Pick the counts of useful positives that are not 0."""
        ordinal, query = useful.nonzero(as_tuple=True)
        number = (useful.view(-1).cumsum(0) - 1).view(useful.shape)  # of each positive, among the useful ones
        ahead = counts > 0
        if not bool(useful.all()):
            ahead &= useful.index_select(1, self._pairs.query)
        slot, pair = cells_of_true(ahead)
        count = counts[slot, pair]
        row, stratum = self._pairs.query.index_select(0, pair), self._pairs.stratum.index_select(0, pair)
        positive = number.view(-1).index_select(0, slot.mul_(useful.shape[1]).add_(row))
        # One row of cases serves all queries where nothing is dropped.
        first_case = self._first_case[row if len(self._first_case) > 1 else 0, stratum]
        case = first_case.add_(count)
        return StrataAhead(query, ordinals[ordinal], torch.bincount(positive, minlength=len(query)), stratum, case)


class _QueryStrata(NamedTuple):
    """The pairs of a query and a stratum that may have an item ahead, by query and then by stratum."""

    query: Int[Tensor, " pairs"]
    stratum: Int[Tensor, " pairs"]
    of_item: Int[Tensor, " items"]
    """the pair of every item"""

    @classmethod
    def of(cls, keys: Int[Tensor, " items"], num_queries: int, num_strata: int) -> _QueryStrata:
        """Number what occurs among the keys query * num_strata + stratum; where most may, all that are possible."""
        if len(keys) >= num_queries * num_strata:
            stratum = torch.arange(num_strata, device=keys.device)
            query = torch.arange(num_queries, device=keys.device).repeat_interleave(num_strata)
            return cls(query, stratum.repeat(num_queries), keys)
        occurs = torch.zeros(num_queries * num_strata, dtype=torch.bool, device=keys.device)
        occurs[keys] = True
        pairs = places_of_true(occurs)
        number = torch.empty(len(occurs), dtype=torch.int64, device=keys.device)
        number[pairs] = torch.arange(len(pairs), device=keys.device)
        query = pairs.div(max(1, num_strata), rounding_mode="floor")
        return cls(query, pairs.sub(query, alpha=num_strata), number.index_select(0, keys))


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
        self,
        scores: Float[Tensor, "queries gallery"],
        query: Int[Tensor, " positives"],
        ordinal: Int[Tensor, " positives"],
        least: Float[Tensor, " positives"],
        *,
        or_level: bool,
        most_ahead: float,
    ) -> Iterator[Ahead]:
        """Count the items ahead of positives that score `least`, also level ones if `or_level`; `query` ascends.

        Strata are listed for positives that have at most `most_ahead` of them ahead on average.
        """
        compare = np.greater_equal if or_level else np.greater
        counted: list[tuple[Tensor, ...]] = []
        num_bytes = 0
        for part in segments.ranges(len(query), len(self._is_ahead)):
            counts = self._ahead(scores, query[part], least[part], compare)
            number = self._in_cases(counts)
            few = number.double() @ self._chance <= most_ahead
            counts = counts.index_select(0, places_of_true(few))
            counted.append((number, few, counts))
            num_bytes += number.nbytes + counts.numel() * _BYTES_PER_DENSE_COUNT
            if num_bytes > self._max_bytes or part.stop == len(query):
                number, few, counts = map(torch.cat, zip(*counted, strict=True))
                block = slice(part.stop - len(few), part.stop)
                strata = self._strata(query[block][few], ordinal[block][few], counts)
                yield Ahead(strata, [CaseCounts(query[block], ordinal[block], number)])
                counted, num_bytes = [], 0

    def _ahead(self, scores: Tensor, query: Tensor, least: Tensor, by: np.ufunc) -> UInt8[Tensor, "positives strata"]:
        """How many items of each stratum, by size, are ahead of each positive."""
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

    def _in_cases(self, counts: UInt8[Tensor, "positives strata"]) -> Int[Tensor, "positives cases"]:
        """How often each case occurs, by several copies of a histogram."""
        shape = (len(counts), _COPIES, len(self._chance))
        bins = torch.add(self._first_bin[: len(counts)], counts).view(-1)
        return torch.bincount(bins, minlength=math.prod(shape)).view(shape).sum(1)

    def _strata(self, query: Tensor, ordinal: Tensor, counts: Tensor) -> StrataAhead:
        """List the strata with a count."""
        is_any = counts.bool()
        num_strata, places = count_true(is_any), places_of_true(is_any)
        column = places.sub(segments.numbers(num_strata, len(places)), alpha=counts.shape[1])
        case = self._first_case.index_select(0, column).add_(counts.view(-1).index_select(0, places))
        stratum = self._layers.stratum.index_select(0, column)
        return StrataAhead(query, ordinal, num_strata, stratum, case)
