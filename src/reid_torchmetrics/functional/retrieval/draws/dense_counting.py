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
from reid_torchmetrics.functional.retrieval.draws.strata_ahead import Ahead, CaseCounts, StrataAhead, places_of_true
from reid_torchmetrics.functional.retrieval.ranking import count_true

_PAIRS = 1 << 20  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_MOST_BINS = torch.iinfo(torch.int16).max


class Thresholds(NamedTuple):
    """Positives of some queries."""

    query: Int[Tensor, " positives"]
    """row in the tile; ascending"""
    ordinal: Int[Tensor, " positives"]
    score: Float[Tensor, " positives"]

    def at(self, part: slice) -> Thresholds:
        """Some of them."""
        return Thresholds(*(values[part] for values in self))


class DenseCounting:
    """Counts for positives of queries that have the same strata."""

    def __init__(
        self, layers: Layers, first_case: Int[Tensor, " strata"], chance: Float[Tensor, " cases"], *, or_level: bool
    ) -> None:
        """Prepare to count the items ahead, with those that are level with a positive if `or_level`.

        A `first_case` is that of a stratum of which nothing is ahead; `chance` is that of a stratum to be ahead.
        """
        self._layers, self._chance = layers, chance
        self._compare = np.greater_equal if or_level else np.greater
        self._first_case = first_case[layers.stratum]
        self._num_cases = len(chance)
        # The bins of all positives of a part, and of all copies of a histogram, are consecutive.
        size = _COPIES * self._num_cases
        self._step = max(1, min(_PAIRS // max(1, len(layers.item)), _MOST_BINS // size))
        first_bin = self._first_case + torch.arange(len(first_case)) % _COPIES * self._num_cases
        first_bin = first_bin + torch.arange(0, self._step * size, size)[:, None]
        self._first_bin = first_bin.to(torch.int16 if self._step * size <= _MOST_BINS else torch.int64)

    def count(
        self, scores: Float[Tensor, "queries gallery"], thresholds: Thresholds, *, most_ahead: float, max_bytes: int
    ) -> Iterator[Ahead]:
        """Count the items ahead of some positives; strata are told of those with at most `most_ahead` on average.

        What is yielded at a time takes about `max_bytes`.
        """
        held, num_bytes = [], 0
        for part in segments.ranges(len(thresholds.query), self._step):
            held.append(self._count(scores, thresholds.at(part), most_ahead))
            num_bytes += sum(values.nbytes for counted in held[-1] for values in counted)
            if num_bytes > max_bytes:
                yield _joined(held)
                held, num_bytes = [], 0
        if held:
            yield _joined(held)

    def _count(self, scores: Tensor, thresholds: Thresholds, most_ahead: float) -> tuple[StrataAhead, CaseCounts]:
        counts = self._ahead(scores, thresholds)
        cases = CaseCounts(thresholds.query, thresholds.ordinal, self._in_cases(counts))
        few = places_of_true(cases.number.double() @ self._chance <= most_ahead)
        counts = counts.index_select(0, few)
        num_strata = count_true(counts.bool())
        places = places_of_true(counts.bool())
        column = places.sub(segments.numbers(num_strata, len(places)), alpha=counts.shape[1])
        case = self._first_case.index_select(0, column).add_(counts.view(-1).index_select(0, places))
        stratum = self._layers.stratum.index_select(0, column)
        return StrataAhead(thresholds.query[few], thresholds.ordinal[few], num_strata, stratum, case), cases

    def _ahead(self, scores: Tensor, thresholds: Thresholds) -> UInt8[Tensor, "positives strata"]:
        """How many items of each stratum, by size, are ahead of each positive."""
        item, least = self._layers.item, thresholds.score.numpy()[:, None]
        is_ahead = np.empty((len(least), len(item)), dtype=np.bool_)
        query, number = thresholds.query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(query.tolist(), number.cumsum(0).tolist(), strict=True):
            in_layers = scores[row].index_select(0, item).numpy()
            self._compare(in_layers, least[start:stop], out=is_ahead[start:stop])
            start = stop
        first, *others = np.split(is_ahead.view(np.uint8), np.cumsum(self._layers.num_strata)[:-1], axis=1)
        counts = first.copy()
        for layer in others:
            counts[:, : layer.shape[1]] += layer
        return torch.from_numpy(counts)

    def _in_cases(self, counts: UInt8[Tensor, "positives strata"]) -> Int[Tensor, "positives cases"]:
        """How often each case occurs, in histograms of which each has several copies."""
        bins = torch.add(self._first_bin[: len(counts)], counts).view(-1)
        number = torch.bincount(bins, minlength=len(counts) * _COPIES * self._num_cases)
        return number.view(len(counts), _COPIES, self._num_cases).sum(1)


def _joined(held: list[tuple[StrataAhead, CaseCounts]]) -> Ahead:
    strata, cases = zip(*held, strict=True)
    return Ahead(
        StrataAhead(*map(torch.cat, zip(*strata, strict=True))), [CaseCounts(*map(torch.cat, zip(*cases, strict=True)))]
    )
