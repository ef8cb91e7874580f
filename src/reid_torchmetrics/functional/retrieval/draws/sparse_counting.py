"""Count the negatives of each stratum ahead of a positive where few strata have any: only what occurs is counted.

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

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics.functional import segments

from .strata import Strata, StrataAhead, cells_of_true, places_of_true

_BYTES_PER_COUNT = 48  # of one positive and one stratum: the count, and its entry where it is not 0
_ROUNDING = 0.999  # float32 is good enough for a bound that gives way a little


class ItemsAhead(NamedTuple):
    """Negatives that are ahead of a wanted positive."""

    query: Int[Tensor, " items"]
    stratum: Int[Tensor, " items"]
    first: Integer[Tensor, " items"]
    """the best positive behind each"""


class SparseCounting:
    """Counts for the `wanted` best positives of each query."""

    def __init__(
        self,
        items: ItemsAhead,
        strata: Strata,
        first_case: Int[Tensor, "#queries strata"],
        wanted: Int[Tensor, " queries"],
    ) -> None:
        """Take the items of all queries; a `first_case` is that of a stratum of which nothing is ahead."""
        self._strata, self._first_case, self._wanted = strata, first_case, wanted
        self._first = items.first
        self._cells = _Cells.of(items.query * strata.number + items.stratum, len(wanted), strata.number)

    def count(self, *, most_ahead: float, max_bytes: int) -> Iterator[StrataAhead]:
        """The strata ahead, for a range of positives at a time that takes about `max_bytes`.

        Positives that have more than `most_ahead` identities ahead on average are left out: an identity with c of n
        items ahead is ahead itself with a chance of at least c/n, however its items are drawn.
        """
        longest = int(self._wanted.max()) if len(self._wanted) else 0
        step = max(1, max_bytes // (_BYTES_PER_COUNT * max(1, len(self._cells.stratum))))
        for part in segments.ranges(longest, step):
            ordinals = torch.arange(part.start, part.stop, device=self._first.device)
            counts = self._counts(part, is_last=part.stop == longest)
            useful = ordinals[:, None] < self._wanted
            if most_ahead < torch.inf:
                useful &= self._fewest_ahead(counts) <= most_ahead
            yield self._entries(counts, useful, ordinals)

    def _counts(self, ordinals: slice, *, is_last: bool) -> Int[Tensor, "ordinals cells"]:
        """How many items of each query and stratum are ahead of its positives `ordinals`."""
        shape = (ordinals.stop - ordinals.start, len(self._cells.stratum))
        of_item, first = self._cells.of_item, self._first
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
        share = counts * of_item[self._cells.stratum]
        return share.new_zeros(len(counts), len(self._wanted)).index_add_(1, self._cells.query, share)

    def _entries(self, counts: Tensor, useful: Bool[Tensor, "ordinals queries"], ordinals: Tensor) -> StrataAhead:
        """Pick the counts of useful positives that are not 0."""
        ordinal, query = useful.nonzero(as_tuple=True)
        number = (useful.view(-1).cumsum(0) - 1).view(useful.shape)  # of each positive, among the useful ones
        ahead = counts > 0
        if not bool(useful.all()):
            ahead &= useful.index_select(1, self._cells.query)
        slot, cell = cells_of_true(ahead)
        count = counts[slot, cell]
        row, stratum = self._cells.query.index_select(0, cell), self._cells.stratum.index_select(0, cell)
        positive = number.view(-1).index_select(0, slot.mul_(useful.shape[1]).add_(row))
        # One row of cases serves all queries where nothing is dropped.
        first_case = self._first_case[row if len(self._first_case) > 1 else 0, stratum]
        case = first_case.add_(count)
        return StrataAhead(query, ordinals[ordinal], torch.bincount(positive, minlength=len(query)), stratum, case)


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
        cells = places_of_true(occurs)
        number = torch.empty(len(occurs), dtype=torch.int64, device=keys.device)
        number[cells] = torch.arange(len(cells), device=keys.device)
        query = cells.div(max(1, num_strata), rounding_mode="floor")
        return cls(query, cells.sub(query, alpha=num_strata), number.index_select(0, keys))
