"""What is known of the strata ahead of positives, sparsely: most have none ahead for a good model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import count_true

_CELLS = 1 << 20  # positives times cases, of which the counts are made at a time


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive."""

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """place in `SortedPositives`"""
    num_strata: Int[Tensor, " positives"]
    """how many entries each positive has"""
    stratum: Int[Tensor, " entries"]
    """those of one identity are consecutive within a positive"""
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


class CaseCounts(NamedTuple):
    """How often each case occurs among the strata ahead of some positives."""

    query: Int[Tensor, " positives"]
    ordinal: Int[Tensor, " positives"]
    number: Int[Tensor, "positives cases"]
    """any number for a case of which nothing is ahead"""


class Ahead(NamedTuple):
    """What is ahead of some positives."""

    strata: StrataAhead
    """of those that may matter to a CMC"""
    cases: Iterable[CaseCounts]
    """of all of them, part by part"""


class Cases(NamedTuple):
    """All that can be said of a stratum and a positive: of so many candidates, so many are ahead."""

    available: Int[Tensor, " cases"]
    ahead: Int[Tensor, " cases"]
    """0 up to all that are available"""


def number_cases(available: Int[Tensor, "rows strata"]) -> tuple[Cases, Int[Tensor, "rows strata"]]:
    """Number the cases: for each size of a stratum one for 0, 1, ... all items ahead; and the first of each stratum."""
    sizes, size = available.unique(return_inverse=True)
    of_case, ahead = segments.runs(0, sizes + 1)
    return Cases(sizes[of_case], ahead), segments.starts(sizes + 1)[size]


def cells_of_true(mask: Bool[Tensor, "rows columns"]) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells"]]:
    """Rows and columns where a mask is true."""
    places = places_of_true(mask)
    row = segments.numbers(count_true(mask), len(places))
    return row, places.sub_(row, alpha=mask.shape[1])


def places_of_true(mask: Bool[Tensor, "*shape"]) -> Int[Tensor, " places"]:
    """Where a mask is true, as places in the flat mask; NumPy finds them several times as fast."""
    if mask.device.type != "cpu":
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))
