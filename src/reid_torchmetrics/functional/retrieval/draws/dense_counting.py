"""Count the negatives of each stratum ahead of a positive by comparing all of them, where most strata have some ahead.

The items lie in layers: the first of every stratum, then the second of those that have one, and so on, strata by size.
So a comparison is added up layer by layer, many strata at a time. With strata a of three items, b of two and c of one:

    layers           a1 b1 c1   a2 b2   a3
    scores           .9 .6 .2   .5 .4   .1
    at or above .4    1  1  0    1  1    0
    ahead of .4      a 2 of 3, b 2 of 2, c 0 of 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import count_true

from .strata import Ahead, CaseCounts, Layers, StrataAhead, places_of_true

_PAIRS = 1 << 21  # of a positive and an item that are compared at a time: they stay in the cache
_COPIES = 2  # of a histogram: neighbors that fall into the same bin of one would wait for each other
_BYTES_PER_PAIR = 4  # of these: whether one is ahead, its share of the counts and bins, and a row of scores
_BYTES_PER_COUNT = 32  # of a positive and a stratum where entries are made: places and cases
_MOST_BINS = torch.iinfo(torch.int16).max


class Thresholds(NamedTuple):
    """Positives of some queries, which are counted at a time."""

    query: Int[Tensor, " positives"]
    """row in the tile; ascending"""
    ordinal: Int[Tensor, " positives"]
    score: Float[Tensor, " positives"]


class DenseCounting:
    """Counts for positives of queries that have the same strata."""

    def __init__(
        self, layers: Layers, first_case: Int[Tensor, " strata"], chance: Float[Tensor, " cases"], *, max_bytes: int
    ) -> None:
        """Reserve what is needed to count; what is yielded at a time takes about `max_bytes`.

        A `first_case` is that of a stratum of which nothing is ahead; `chance` is that of a stratum to be ahead.
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
        self, scores: Float[Tensor, "queries gallery"], thresholds: Thresholds, *, or_level: bool, most_ahead: float
    ) -> Iterator[Ahead]:
        """Count the items ahead of some positives, with those that are level with a positive if `or_level`.

        Strata are told of positives that have at most `most_ahead` of them ahead on average.
        """
        compare = np.greater_equal if or_level else np.greater
        held, num_bytes = _Held([], [], []), 0
        for part in segments.ranges(len(thresholds.query), len(self._is_ahead)):
            counts = self._ahead(scores, Thresholds(*(values[part] for values in thresholds)), compare)
            number = self._in_cases(counts)
            few = number.double() @ self._chance <= most_ahead
            held.number.append(number)
            held.few.append(few)
            held.counts.append(counts.index_select(0, places_of_true(few)))
            num_bytes += number.nbytes + held.counts[-1].numel() * _BYTES_PER_COUNT
            if num_bytes > self._max_bytes or part.stop == len(thresholds.query):
                yield self._joined(held, thresholds, part.stop)
                held, num_bytes = _Held([], [], []), 0

    def _ahead(self, scores: Tensor, thresholds: Thresholds, compare: np.ufunc) -> UInt8[Tensor, "positives strata"]:
        """How many items of each stratum, by size, are ahead of each positive."""
        least, is_ahead = thresholds.score.numpy()[:, None], self._is_ahead[: len(thresholds.query)]
        query, number = thresholds.query.unique_consecutive(return_counts=True)
        start = 0
        for row, stop in zip(query.tolist(), number.cumsum(0).tolist(), strict=True):
            in_layers = scores[row].index_select(0, self._layers.item).numpy()
            compare(in_layers, least[start:stop], out=is_ahead[start:stop])
            start = stop
        first, *others = self._layers.num_strata
        layers, start = is_ahead.view(np.uint8), first
        counts = layers[:, :first].copy()
        for num_strata in others:
            counts[:, :num_strata] += layers[:, start : start + num_strata]
            start += num_strata
        return torch.from_numpy(counts)

    def _in_cases(self, counts: UInt8[Tensor, "positives strata"]) -> Int[Tensor, "positives cases"]:
        """How often each case occurs, in histograms of which each has several copies."""
        shape = (len(counts), _COPIES, len(self._chance))
        bins = torch.add(self._first_bin[: len(counts)], counts).view(-1)
        return torch.bincount(bins, minlength=math.prod(shape)).view(shape).sum(1)

    def _joined(self, held: _Held, thresholds: Thresholds, stop: int) -> Ahead:
        """What is told of the positives that end at `stop`."""
        number, few, counts = map(torch.cat, held)
        query, ordinal = (values[stop - len(few) : stop] for values in thresholds[:2])
        is_any = counts.bool()
        num_strata, places = count_true(is_any), places_of_true(is_any)
        column = places.sub(segments.numbers(num_strata, len(places)), alpha=counts.shape[1])
        case = self._first_case.index_select(0, column).add_(counts.view(-1).index_select(0, places))
        stratum = self._layers.stratum.index_select(0, column)
        strata = StrataAhead(query[few], ordinal[few], num_strata, stratum, case)
        return Ahead(strata, [CaseCounts(query, ordinal, number)])


class _Held(NamedTuple):
    """Positives that were counted: in cases, whether they have few ahead, and then the counts."""

    number: list[Tensor]
    few: list[Tensor]
    counts: list[Tensor]
