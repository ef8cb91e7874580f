"""Count the negatives of each stratum ahead of a positive by comparing all of them, where most strata have some ahead.

The items lie in layers: the first of every stratum, then the second of those that have one, and so on, strata by size.
So a comparison is added up layer by layer, many strata at a time. With strata a of three items, b of two and c of one:

    layers           a1 b1 c1   a2 b2   a3
    scores           .9 .6 .2   .5 .4   .1
    at or above .4    1  1  0    1  1    0
    ahead of .4      a 2 of 3, b 2 of 2, c 0 of 1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.draws.strata import Layers
from reid_torchmetrics.functional.retrieval.draws.strata_ahead import Ahead, CaseCounts, StrataAhead

_PAIRS = 1 << 20  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_MOST_BINS = torch.iinfo(torch.int16).max


class Thresholds(NamedTuple):
    """Positives of some queries."""

    query: Int[Tensor, " positives"]
    """row in the tile; ascending"""
    ordinal: Int[Tensor, " positives"]
    cost: Float[Tensor, " positives"]

    def at(self, part: slice) -> Thresholds:
        """Some of them."""
        return Thresholds(*(values[part] for values in self))


class DenseCounting(NamedTuple):
    """How the items ahead are counted."""

    layers: Layers
    first_case: Int[Tensor, " strata"]
    """the case of every stratum of which nothing is ahead"""
    chance: Float[Tensor, " cases"]
    """that a stratum has an item ahead that is drawn"""
    or_level: bool
    """whether items level with a positive are ahead of it"""

    def count(
        self, costs: Float[Tensor, "queries gallery"], thresholds: Thresholds, *, most_ahead: float, max_bytes: int
    ) -> Iterator[Ahead]:
        """Count the items ahead of some positives; strata are told of those with at most `most_ahead` on average.

        What is yielded at a time takes about `max_bytes`.
        """
        num_cases, bytes_held, held = len(self.chance), 0, []
        most = max(1, min(_PAIRS // max(1, costs.shape[1]), _MOST_BINS // (_COPIES * num_cases)))
        for part in segments.ranges(len(thresholds.query), most):
            some = thresholds.at(part)
            held.append(self._count(costs, some, most_ahead))
            bytes_held += sum(values.nbytes for values in (held[-1][0].case, held[-1][1].number)) * 2
            if bytes_held > max_bytes:
                yield _joined(held)
                bytes_held, held = 0, []
        if held:
            yield _joined(held)

    def _count(self, costs: Tensor, thresholds: Thresholds, most_ahead: float) -> tuple[StrataAhead, CaseCounts]:
        counts = self._ahead(costs, thresholds)
        number = self._in_cases(counts)
        few = number.double() @ self.chance <= most_ahead
        counts = counts[few]
        places = torch.from_numpy(np.flatnonzero(counts.numpy()))
        num_strata = torch.from_numpy(np.count_nonzero(counts.numpy(), axis=1))
        column = places.sub(segments.numbers(num_strata, len(places)), alpha=counts.shape[1])
        case = self.first_case[self.layers.stratum][column].add_(counts.view(-1)[places])
        stratum = self.layers.stratum[column]
        strata = StrataAhead(thresholds.query[few], thresholds.ordinal[few], num_strata, stratum, case)
        return strata, CaseCounts(thresholds.query, thresholds.ordinal, number)

    def _ahead(self, costs: Tensor, thresholds: Thresholds) -> UInt8[Tensor, "positives strata"]:
        """How many items of each stratum, by size, are ahead of each positive."""
        compare = np.less_equal if self.or_level else np.less
        item, cost = self.layers.item.numpy(), thresholds.cost.numpy()[:, None]
        is_ahead = np.empty((len(cost), len(item)), dtype=np.bool_)
        query, number = thresholds.query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(query.tolist(), number.cumsum(0).tolist(), strict=True):
            in_layers = costs[row].numpy().take(item)
            compare(in_layers, cost[start:stop], out=is_ahead[start:stop])
            start = stop
        first, *others = np.split(is_ahead.view(np.uint8), np.cumsum(self.layers.num_strata)[:-1], axis=1)
        counts = first.copy()
        for layer in others:
            counts[:, : layer.shape[1]] += layer
        return torch.from_numpy(counts)

    def _in_cases(self, counts: UInt8[Tensor, "positives strata"]) -> Int[Tensor, "positives cases"]:
        num_cases = len(self.chance)
        size = _COPIES * num_cases
        dtype = torch.int16 if len(counts) * size <= _MOST_BINS else torch.int64
        column = torch.arange(counts.shape[1])
        first_bin = self.first_case[self.layers.stratum] + column % _COPIES * num_cases
        key = torch.arange(0, len(counts) * size, size)[:, None].to(dtype) + first_bin.to(dtype)
        bins = torch.bincount(key.add_(counts).view(-1), minlength=len(counts) * size)
        return bins.view(len(counts), _COPIES, num_cases).sum(1)


def _joined(held: list[tuple[StrataAhead, CaseCounts]]) -> Ahead:
    strata, cases = zip(*held, strict=True)
    return Ahead(
        StrataAhead(*map(torch.cat, zip(*strata, strict=True))), [CaseCounts(*map(torch.cat, zip(*cases, strict=True)))]
    )
