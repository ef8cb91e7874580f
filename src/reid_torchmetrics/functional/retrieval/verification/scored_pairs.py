"""All query-gallery pairs of a retrieval problem with their scores, in tiles of bounded memory.

A pair of one identity is genuine, a pair of two an impostor; junk is neither. Genuine pairs are few, so their scores
can be held; impostors are only counted. Their exact order statistics are found without holding the scores: floats in
their order are integers in order, so the score of a given rank can be searched for among integers. A pass over all
pairs counts the impostors at or above many possible scores at once and leaves one of the gaps between them.

`score_histogram` shows how the scores of genuine pairs and of impostors are distributed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.ranking import negatives_above, sort_rows
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, bytes_of_sort, cut_in_panels, share_tiles

from .symmetric_pairs import find_symmetric_pairs

Result = TypeVar("Result")
_BYTES_PER_MASK = 4  # two masks of a tile, and two more while they are made
_BYTES_PER_POSITIVE = 64  # columns and masks of one listed item while its tile is looked at
_MOST_PAIRS = 1 << 22  # with more pairs a tile, sorting leaves the cache; with fewer, looking up thresholds costs more
_GAPS = 1 << 16  # per rank and pass: two passes find a float32, four a float64
_MOST_GAPS = 1 << 20  # of all ranks: with more ranks there are fewer for each, and more passes
_FEW_LISTED = 0.05  # of the gallery, by the query with the most
_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


class ScoredPairs:
    """The pairs of one retrieval problem; tiles of scores and masks stay within `scores.max_bytes`."""

    def __init__(self, scores: Scores, relevance: Relevance) -> None:
        """Choose the size of the tiles; scores must be of the gallery items that `relevance` keeps."""
        scores.check_fit(relevance)
        self.dtype, self.device = scores.dtype, scores.device
        self._scores, self._relevance = scores, relevance
        shape = scores.product_shape
        most_pairs = max(_MOST_PAIRS, shape.rows * shape.columns)
        most_rows = max(shape.few, most_pairs // max(1, scores.num_gallery))
        bytes_of = _BYTES_PER_MASK + bytes_of_sort(scores), _BYTES_PER_POSITIVE * max(1, relevance.longest_run)
        self._size = cut_in_panels(scores, *bytes_of, most_rows=most_rows, most_scores=most_pairs)

    def num_impostors(self) -> int:
        """Number of impostor pairs; looks at no score."""
        tiles = map(self._relevance.tile, segments.ranges(self._scores.num_queries, self._size[0]))
        return sum(int(tile.num_candidates.sum()) - int(tile.positive.sum()) for tile in tiles)

    def genuine_scores(self) -> Float[Tensor, " genuine"]:
        """Scores of all genuine pairs, ascending.

        Raises:
            ValueError: one is NaN.
        """
        none = torch.empty(0, dtype=self.dtype, device=self.device)
        if self._may_look_up():
            parts = [none, *self._look_up_genuine()]
        else:
            parts = self._reduce(lambda scores, genuine, _: [scores[genuine]], operator.add, [none])
        scores = torch.cat(parts).sort().values
        _checks.no_nan(self._scores.argument, scores[-1:])  # NaN sorts to the end
        return scores

    def _may_look_up(self) -> bool:
        """Return whether genuine pairs are so few that their scores alone take less time than all scores."""
        scores, relevance = self._scores, self._relevance
        if scores.at is None or self.device.type != "cpu" or relevance.shared is not None:
            return False
        num_listed = scores.num_queries * relevance.longest_run
        return num_listed <= _FEW_LISTED * scores.num_queries * scores.num_gallery

    def _look_up_genuine(self) -> list[Float[Tensor, " genuine"]]:
        """Scores of the genuine pairs alone, in parts by their queries."""
        at = self._scores.at
        assert at is not None  # noqa: S101 - for the type checker

        def read(rows: slice) -> Float[Tensor, " genuine"]:
            tile = self._relevance.tile(rows)
            scores = at(rows, tile.columns.where(tile.listed, tile.columns[:, :1]))
            self._scores.to_comparable(scores, rows)
            return scores[tile.positive]

        most = 1 if self._relevance.junk_pairs is not None else self._scores.num_tiles
        return workers.share(read, segments.ranges(self._scores.num_queries, self._size[0]), most=most)

    def score_range(self, genuine: Float[Tensor, " genuine"]) -> tuple[float, float]:
        """The lowest and the highest score, given the `genuine_scores`; infinity and minus infinity without pairs.

        Raises:
            ValueError: the score of an impostor is NaN.
        """

        def extremes(scores: Tensor, _: Tensor, impostor: Tensor) -> Float[Tensor, " ends"]:
            """The highest score, and minus the lowest."""
            above = scores.masked_fill_(~impostor, -torch.inf).max()
            return torch.stack([above, scores.neg_().masked_fill_(~impostor, -torch.inf).max()])

        ends = torch.stack([genuine[-1], -genuine[0]]) if len(genuine) else genuine.new_full((2,), -torch.inf)
        above, below = self._reduce(extremes, torch.maximum, ends)
        _checks.no_nan(self._scores.argument, above)  # NaN is above all
        return -float(below), float(above)

    def count_impostors(self, thresholds: Float[Tensor, " thresholds"]) -> Int[Tensor, "2 thresholds"]:
        """Count the impostors that score at least, and more than, each threshold, in one pass over all pairs.

        Sorting a tile and looking the thresholds up is 15 times as fast as looking every score up among thresholds.

        Raises:
            ValueError: the score of an impostor is NaN.
        """

        def count_of(scores: Tensor, impostor: Tensor) -> Int[Tensor, "2 thresholds"]:
            num_removed = (~impostor).sum()[None]
            values = scores.masked_fill_(~impostor, -torch.inf).view(1, -1)
            ordered = sort_rows(values, argument=self._scores.argument)
            counts = [negatives_above(ordered, num_removed, thresholds[None], or_tied=tied) for tied in (True, False)]
            return torch.cat(counts)

        def count(scores: Tensor, _: Tensor, impostor: Tensor) -> Int[Tensor, "2 thresholds"]:
            return count_of(scores, impostor)

        nothing = torch.zeros((2, *thresholds.shape), dtype=torch.int64, device=self.device)
        symmetric = find_symmetric_pairs(self._scores, self._relevance)
        counts = None if symmetric is None else symmetric.reduce(count_of, torch.add, nothing)
        return self._reduce(count, torch.add, nothing) if counts is None else counts

    def _reduce(
        self, look: Callable[[Tensor, Tensor, Tensor], Result], add: Callable[[Result, Result], Result], nothing: Result
    ) -> Result:
        """Add up what comes of looking at each tile; several threads do so."""

        def work(walk: Walk, rows: slice) -> Result:
            """Look at comparable scores and bool masks of genuine pairs and of impostors; each pair is seen once."""
            listed, result = self._relevance.tile(rows), nothing
            for panel, scores in walk.panels_of(rows):
                self._scores.to_comparable(scores, rows)
                genuine, impostor = self._relevance.pairs(rows, panel.columns, listed)
                genuine[:, : panel.num_seen] = False
                impostor[:, : panel.num_seen] = False
                result = add(result, look(scores, genuine, impostor))
            return result

        keeps_thread = self._relevance.junk_pairs is not None
        shared = share_tiles(self._scores, self._size, work, "Pairs", keeps_thread=keeps_thread)
        return reduce(add, (result for _, result in shared), nothing)


def impostor_scores_at(pairs: ScoredPairs, ranks: Sequence[int]) -> Float[Tensor, " ranks"]:
    """The scores of the impostors at 1-based `ranks` from the highest score down; every rank exists."""
    wanted, of_rank = torch.tensor(ranks, dtype=torch.int64, device=pairs.device).unique(return_inverse=True)
    num_ranks, wanted = len(wanted), wanted[:, None]
    # Floats in their order are integers in order: their bits, turned over for negative numbers. From infinity's down to
    # minus infinity's: at or above `low` there are at least as many impostors as the rank says; above `high` are fewer.
    infinity = torch.full((num_ranks, 1), torch.inf, dtype=pairs.dtype, device=pairs.device)
    high = infinity.view(_INTEGERS[pairs.dtype]).long()
    low = -1 - high
    half = max(1, min(_GAPS, _MOST_GAPS // max(1, num_ranks)) // 2)
    steps, gaps = torch.arange(1 - half, half + 1, device=low.device), 2 * half
    while bool((low < high).any()):  # every pass leaves one gap between two edges
        # Codes in (low, high], [ranks, gaps], equally far apart, the last of them `high`; repeated where there are few.
        # high - low would overflow, and so would all steps in one go.
        step = high // gaps - low // gaps + (high % gaps > low % gaps)
        edges = torch.minimum(low + step * half + step * steps, high)
        distinct, of_edge = edges.unique(return_inverse=True)
        num_at = pairs.count_impostors(_floats(distinct, pairs.dtype))[0][of_edge]
        num_reached = (num_at >= wanted).sum(1, keepdim=True)  # they come first, for counts fall as edges rise
        low = torch.cat([low, edges], 1).gather(1, num_reached)
        high = torch.cat([edges - 1, high], 1).gather(1, num_reached)
    return _floats(low[of_rank, 0], pairs.dtype)


def impostor_quantiles(pairs: ScoredPairs, shares: Sequence[float]) -> Float[Tensor, " shares"]:
    """The scores that about these shares of the impostors exceed, interpolated linearly, float64; NaN without any.

    With the scores s_1 >= ... >= s_n and h = 1 + share (n - 1), that is s_h, or between neighbors
    s_floor(h) + (h - floor(h)) (s_floor(h)+1 - s_floor(h)): `torch.quantile` of minus the scores. NaN, too, between
    infinity and minus infinity.
    """
    num_impostors = pairs.num_impostors()
    if not num_impostors:
        return torch.full((len(shares),), torch.nan, dtype=torch.float64, device=pairs.device)
    positions = [share * (num_impostors - 1) for share in shares]
    first = [int(position) for position in positions]
    second = [min(position + 1, num_impostors - 1) for position in first]
    scores = impostor_scores_at(pairs, [position + 1 for position in first + second]).double()
    upper, lower = scores[: len(shares)], scores[len(shares) :]
    weight = torch.tensor(positions, dtype=torch.float64, device=pairs.device).frac()
    # Infinities have no difference; between infinity and minus infinity there is nothing to interpolate.
    are_finite = upper.isfinite() & lower.isfinite()
    between = torch.where(are_finite, upper + weight * (lower - upper), (1 - weight) * upper + weight * lower)
    return torch.where((weight == 0) | (lower == upper), upper, between)


def _floats(codes: Int[Tensor, " values"], dtype: torch.dtype) -> Float[Tensor, " values"]:
    """The floats that have these codes."""
    bits = codes.to(_INTEGERS[dtype])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits).view(dtype)


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Numbers of pairs by their score; a bin has its lower edge and not its upper one, but for the last, with both."""

    edges: Float[Tensor, " edges"]
    """float64, ascending; one more than bins"""
    num_genuine: Int[Tensor, " bins"]
    num_impostors: Int[Tensor, " bins"]


@torch.no_grad()
def score_histogram(
    scores: Scores, relevance: Relevance, *, bins: int = 100, limits: Sequence[float] | None = None
) -> ScoreHistogram:
    """Count genuine and impostor pairs in equally wide bins of their score, tile by tile; junk is neither.

    The counts are exact. Every score is computed twice, once with `limits`, and once more where genuine pairs are many,
    or by one's own similarity. The scores of the genuine pairs are held at once, of the others at most
    `scores.max_bytes`.

    The bins go from the lowest score to the highest; where all are equal to s, from s - max(1, |s|) / 2 to
    s + max(1, |s|) / 2; without pairs from 0 to 1. With `limits` the bins of several evaluations are the same. Scores
    beyond them, infinite ones too, are then counted in the outermost bins, so no pair is lost.

    Args:
        scores: as for `verify`.
        relevance: who is positive, negative or junk.
        bins: their number.
        limits: the first and the last edge, (-1, 1) for a cosine say; None for the range of the scores.

    Raises:
        TypeError: `bins` is not an int, or `limits` are not numbers.
        ValueError: `bins` is below 1, `limits` are not two finite numbers that ascend, a score of a pair that is not
            junk is NaN, or one is infinite and there are no `limits`.
    """
    _checks.positive_int("bins", bins)
    if limits is not None:
        if not isinstance(limits, (tuple, list)):
            raise TypeError(f"`limits` must be a tuple or list of two numbers, or None; got {type(limits).__name__}.")
        for limit in limits:
            _checks.number("limits", limit)
        if len(limits) != 2 or not 0 < limits[1] - limits[0] < math.inf:
            raise ValueError(f"`limits` must be two finite numbers, the lower one first; got {limits!r}.")
    # The edges, from the range of the scores unless it is given.
    pairs = ScoredPairs(scores, relevance)
    genuine = pairs.genuine_scores()
    low, high = _edges(*pairs.score_range(genuine), scores.argument) if limits is None else map(float, limits)
    # Equidistant; both ends are hit exactly.
    share = torch.arange(bins + 1, dtype=torch.float64, device=pairs.device) / bins
    edges = (low + (high - low) * share).clamp(max=high)
    edges[-1] = high
    # What scores at least an inner edge: the lowest values of the scores' dtype that are not below.
    least = edges[1:-1].to(pairs.dtype)
    least = torch.where(least.double() < edges[1:-1], least.nextafter(torch.full_like(least, torch.inf)), least)
    num_genuine_at = len(genuine) - torch.searchsorted(genuine, least)
    num_impostors_at, _ = pairs.count_impostors(least)
    num_impostors = _between(num_impostors_at, pairs.num_impostors())
    return ScoreHistogram(edges, _between(num_genuine_at, len(genuine)), num_impostors)


def _edges(lowest: float, highest: float, argument: str) -> tuple[float, float]:
    """Where the bins begin and end."""
    if lowest > highest:
        return 0.0, 1.0
    if not math.isfinite(highest - lowest):
        came = f"scores from {lowest} to {highest}"
        raise ValueError(f"`{argument}` must give finite scores unless there are `limits`; got {came}.")
    half = max(1.0, abs(lowest)) / 2 if lowest == highest else 0.0
    return lowest - half, highest + half


def _between(num_at: Int[Tensor, " inner"], total: int) -> Int[Tensor, " bins"]:
    """Numbers in the bins, from the numbers at or above the edges between them."""
    return -num_at.diff(prepend=num_at.new_tensor([total]), append=num_at.new_tensor([0]))
