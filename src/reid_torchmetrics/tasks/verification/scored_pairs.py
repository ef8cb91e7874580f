"""All query-gallery pairs of a retrieval problem with their scores, in tiles of bounded memory.

A pair with one identity is genuine, a pair with two identities is an impostor; junk is neither. Genuine pairs are few,
so their scores are held. Impostors are only counted.

Order statistics of the impostors are exact although their scores are not held. The bits of ordered floats are ordered
integers, so the score of a given rank is searched for among integers. One pass over all pairs counts the impostors at
or above many possible scores, and leaves one of the gaps between these scores.

`score_histogram` counts the scores of genuine pairs and of impostors in bins.
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
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed
from reid_torchmetrics.functional.retrieval.ranking import Walk, cut_in_panels, negatives_above, sort_rows
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.tasks.walks import bytes_of_sort, share_tiles

Result = TypeVar("Result")
_BYTES_PER_PAIR = 4
"""bytes for two masks of a pair, and two more while the masks are made"""
_BYTES_PER_POSITIVE = 64
"""bytes for the columns and masks of one listed item"""
_MOST_PAIRS = 1 << 22
"""number of pairs in a tile; sorting more pairs leaves the cache, and with fewer pairs the thresholds cost more"""
_GAPS = 1 << 16
"""number of gaps for a rank and pass; two passes find a float32, four a float64"""
_MOST_GAPS = 1 << 20
"""number of gaps for all ranks in a pass; with many ranks there are fewer gaps for each, and more passes"""
_FEW_LISTED = 0.05
"""share of the gallery in the longest list of a query; with shorter lists genuine scores are looked up"""
_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


class ScoredPairs:
    """The pairs of one retrieval problem; tiles of scores and masks stay within `scores.max_bytes`."""

    def __init__(self, scores: Scores, relevance: Relevance) -> None:
        """Choose the size of the tiles; the scores must be scores of the gallery items that `relevance` keeps."""
        scores.check_fit(relevance)
        self.dtype = scores.dtype
        self.device = scores.device
        self._scores = scores
        self._relevance = relevance
        self._calls_user_function = relevance.junk_pairs is not None  # on the calling thread alone
        shape = scores.product_shape
        most_pairs = max(_MOST_PAIRS, shape.rows * shape.columns)
        self._size = cut_in_panels(
            scores,
            _BYTES_PER_PAIR + bytes_of_sort(scores),
            _BYTES_PER_POSITIVE * max(1, relevance.longest_run),
            most_rows=max(shape.few, most_pairs // max(1, scores.num_gallery)),
            most_scores=most_pairs,
        )

    def num_impostors(self) -> int:
        """Count the impostor pairs; no score is needed."""
        num_impostors = 0
        for rows in self._row_ranges():
            tile = self._relevance.tile(rows)
            num_impostors += int(tile.num_candidates.sum()) - int(tile.positive.sum())
        return num_impostors

    def _row_ranges(self) -> list[slice]:
        """Return the queries of the tiles."""
        num_rows, _ = self._size
        return segments.ranges(self._scores.num_queries, num_rows)

    def genuine_scores(self) -> Float[Tensor, " genuine"]:
        """Return the scores of all genuine pairs, ascending.

        Raises:
            ValueError: a score is NaN.
        """
        scores, relevance = self._scores, self._relevance
        at = scores.at
        no_scores = torch.empty(0, dtype=self.dtype, device=self.device)
        num_listed = scores.num_queries * relevance.longest_run
        are_few = num_listed <= _FEW_LISTED * scores.num_queries * scores.num_gallery
        if are_few and at is not None and self.device.type == "cpu" and relevance.shared is None:
            # Looking up the scores of the genuine pairs alone takes less time than all scores.
            def look_up(rows: slice) -> Float[Tensor, " genuine"]:
                tile = relevance.tile(rows)
                columns = tile.columns.where(tile.listed, tile.columns[:, :1])
                listed_scores = at(rows, columns)
                scores.to_comparable(listed_scores, rows)
                return listed_scores[tile.positive]

            most = 1 if self._calls_user_function else scores.num_tiles
            parts = [no_scores, *workers.share(look_up, self._row_ranges(), most=most)]
        else:
            parts = self._reduce(lambda values, genuine, _: [values[genuine]], operator.add, [no_scores])
        ordered = torch.cat(parts).sort().values
        _checks.no_nan(scores.argument, ordered[-1:])  # NaN sorts to the end
        return ordered

    def score_range(self, genuine: Float[Tensor, " genuine"]) -> tuple[float, float]:
        """Return the lowest and the highest score, given the `genuine_scores`; infinity and -infinity without pairs.

        Raises:
            ValueError: the score of an impostor is NaN.
        """

        def extremes(scores: Tensor, _: Tensor, impostor: Tensor) -> Float[Tensor, " ends"]:
            """Return the highest score of an impostor, and minus the lowest."""
            highest = scores.masked_fill_(~impostor, -torch.inf).max()
            minus_lowest = scores.neg_().masked_fill_(~impostor, -torch.inf).max()
            return torch.stack([highest, minus_lowest])

        if len(genuine):
            ends = torch.stack([genuine[-1], -genuine[0]])
        else:
            ends = genuine.new_full((2,), -torch.inf)
        highest, minus_lowest = self._reduce(extremes, torch.maximum, ends)
        _checks.no_nan(self._scores.argument, highest)  # NaN is the maximum if there is one
        return -float(minus_lowest), float(highest)

    def count_impostors(self, thresholds: Float[Tensor, " thresholds"]) -> Int[Tensor, "2 thresholds"]:
        """Count the impostors that score at least, and more than, each threshold, in one pass over all pairs.

        Sorting a tile and looking up the thresholds is 15 times as fast as looking up every score among the thresholds.

        Raises:
            ValueError: the score of an impostor is NaN.
        """

        def count_in_block(scores: Tensor, _: Tensor, impostor: Tensor) -> Int[Tensor, "2 thresholds"]:
            num_removed = (~impostor).sum()[None]
            values = scores.masked_fill_(~impostor, -torch.inf).view(1, -1)
            ordered = sort_rows(values, argument=self._scores.argument)
            num_at = negatives_above(ordered, num_removed, thresholds[None], or_tied=True)
            num_above = negatives_above(ordered, num_removed, thresholds[None], or_tied=False)
            return torch.cat([num_at, num_above])

        no_counts = torch.zeros((2, *thresholds.shape), dtype=torch.int64, device=self.device)
        return self._reduce(count_in_block, torch.add, no_counts)

    def _reduce(
        self, work: Callable[[Tensor, Tensor, Tensor], Result], add: Callable[[Result, Result], Result], initial: Result
    ) -> Result:
        """Apply `work` to each tile on several threads, and add the results to `initial`.

        `work` receives comparable scores, and bool masks of the genuine pairs and of the impostors. Each pair is in one
        of the masks only once.
        """

        def reduce_rows(walk: Walk, rows: slice) -> Result:
            tile = self._relevance.tile(rows)
            result = initial
            for panel, scores in walk.panels_of(rows):
                self._scores.to_comparable(scores, rows)
                genuine, impostor = self._relevance.pairs(rows, panel.columns, tile)
                genuine[:, : panel.num_seen] = False
                impostor[:, : panel.num_seen] = False
                result = add(result, work(scores, genuine, impostor))
            return result

        keeps_thread = self._calls_user_function
        shared = share_tiles(self._scores, self._size, reduce_rows, "Pairs", keeps_thread=keeps_thread)
        return reduce(add, (result for _, result in shared), initial)


def impostor_scores_at(pairs: ScoredPairs, ranks: Sequence[int]) -> Float[Tensor, " ranks"]:
    """Return the scores of the impostors at 1-based `ranks` from the highest score down; every rank must exist.

    The code of a float is its bits as an integer, reversed for negative floats, so that codes ascend with the floats.
    For each rank the search keeps codes `low` and `high`: at least `rank` impostors score at or above `low`, and fewer
    than `rank` score above `high`. With codes from 0 to 8, four gaps, and the score of rank 3 at code 5:

        low  high    edges in (low, high]    impostors at or above them    next low and high
        0    8       2  4  6  8              9  5  1  0                    4 and 5
        4    5       5                       3                             5 and 5
    """
    distinct_ranks, place_of_rank = torch.tensor(ranks, dtype=torch.int64, device=pairs.device).unique(
        return_inverse=True
    )
    num_ranks = len(distinct_ranks)
    infinity = torch.full((num_ranks, 1), torch.inf, dtype=pairs.dtype, device=pairs.device)
    high = infinity.view(_INTEGERS[pairs.dtype]).long()
    low = -1 - high  # the code of minus infinity
    half = max(1, min(_GAPS, _MOST_GAPS // max(1, num_ranks)) // 2)
    num_gaps = 2 * half
    steps = torch.arange(1 - half, half + 1, device=low.device)
    while bool((low < high).any()):
        # Edges in (low, high], [ranks, gaps], at equal distances; the last is `high`. They repeat where codes are few.
        # `high - low` would overflow, and so would all steps at once.
        step = high // num_gaps - low // num_gaps + (high % num_gaps > low % num_gaps)
        edges = torch.minimum(low + step * half + step * steps, high)
        distinct_edges, place_of_edge = edges.unique(return_inverse=True)
        num_at_distinct, _ = pairs.count_impostors(_floats(distinct_edges, pairs.dtype))
        num_at = num_at_distinct[place_of_edge]
        # Counts fall as edges rise, so the edges that enough impostors reach are the first ones.
        num_reached = (num_at >= distinct_ranks[:, None]).sum(1, keepdim=True)
        low = torch.cat([low, edges], 1).gather(1, num_reached)
        high = torch.cat([edges - 1, high], 1).gather(1, num_reached)
    return _floats(low[place_of_rank, 0], pairs.dtype)


def impostor_quantiles(pairs: ScoredPairs, shares: Sequence[float]) -> Float[Tensor, " shares"]:
    """Return the scores that these shares of the impostors exceed, interpolated linearly, in float64.

    With the scores s_1 >= ... >= s_n and h = 1 + share (n - 1), this is s_h, or between two ranks
    s_floor(h) + (h - floor(h)) (s_floor(h)+1 - s_floor(h)), as in `torch.quantile` of minus the scores. It is NaN
    without impostors, and between infinity and minus infinity.
    """
    num_impostors = pairs.num_impostors()
    if num_impostors == 0:
        return torch.full((len(shares),), torch.nan, dtype=torch.float64, device=pairs.device)
    positions = [share * (num_impostors - 1) for share in shares]
    upper_ranks = [int(position) + 1 for position in positions]
    lower_ranks = [min(rank + 1, num_impostors) for rank in upper_ranks]
    scores = impostor_scores_at(pairs, upper_ranks + lower_ranks).double()
    upper = scores[: len(shares)]
    lower = scores[len(shares) :]
    weight = torch.tensor(positions, dtype=torch.float64, device=pairs.device).frac()
    # An infinite score has no difference to another score. Between both infinities nothing can be interpolated.
    are_finite = upper.isfinite() & lower.isfinite()
    interpolated = torch.where(are_finite, upper + weight * (lower - upper), (1 - weight) * upper + weight * lower)
    return torch.where((weight == 0) | (lower == upper), upper, interpolated)


def _floats(codes: Int[Tensor, " values"], dtype: torch.dtype) -> Float[Tensor, " values"]:
    """Return the floats with these codes; see `impostor_scores_at`."""
    bits = codes.to(_INTEGERS[dtype])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits).view(dtype)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram(Displayed):
    """Numbers of pairs in bins of their score; a bin contains its lower edge, and the last bin both edges."""

    edges: Float[Tensor, " edges"]
    """float64, ascending; one more edge than bins"""
    num_genuine: Int[Tensor, " bins"]
    num_impostors: Int[Tensor, " bins"]

    def _display(self) -> Display:
        # Neighboring bins are joined, so that there are at most `NUM_ROWS` rows.
        num_bins = len(self.num_genuine)
        width = math.ceil(num_bins / NUM_ROWS)
        edges = self.edges.tolist()
        rows = []
        for start in range(0, num_bins, width):
            stop = min(start + width, num_bins)
            num_genuine = int(self.num_genuine[start:stop].sum())
            num_impostors = int(self.num_impostors[start:stop].sum())
            rows.append((f"{edges[start]:.4g} to {edges[stop]:.4g}", f"{num_genuine:,}", f"{num_impostors:,}"))
        title = f"ScoreHistogram: {num_bins:,} bins from {edges[0]:.4g} to {edges[-1]:.4g}"
        return Display(title, ("score", "genuine pairs", "impostors"), rows)


@torch.no_grad()
def score_histogram(
    scores: Scores, relevance: Relevance, *, bins: int = 100, limits: Sequence[float] | None = None
) -> ScoreHistogram:
    """Count genuine and impostor pairs in equally wide bins of their score; junk is neither.

    The counts are exact. Every score is computed twice, or once with `limits`; there is one more pass if genuine pairs
    are many, or for a user's similarity. The scores of all genuine pairs are held at once, and the scores of the others
    within `scores.max_bytes`.

    The bins extend from the lowest score to the highest. If all scores are equal to s, they extend from
    s - max(1, |s|) / 2 to s + max(1, |s|) / 2, and without pairs from 0 to 1. With `limits` the bins of several
    evaluations are the same; scores beyond the limits, and infinite scores, are counted in the outermost bins.

    Args:
        scores: as for `verify`.
        relevance: positives, negatives and junk.
        bins: number of bins.
        limits: the first and the last edge, such as (-1, 1) for a cosine; None for the range of the scores.

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
    pairs = ScoredPairs(scores, relevance)
    genuine = pairs.genuine_scores()
    if limits is None:
        lowest, highest = pairs.score_range(genuine)
        low, high = _outer_edges(lowest, highest, scores.argument)
    else:
        low, high = map(float, limits)
    # Edges at equal distances; the outer edges are exact.
    share = torch.arange(bins + 1, dtype=torch.float64, device=pairs.device) / bins
    edges = (low + (high - low) * share).clamp(max=high)
    edges[-1] = high
    # For each inner edge, the lowest value in the dtype of the scores that is not below it.
    inner_edges = edges[1:-1]
    thresholds = inner_edges.to(pairs.dtype)
    next_value = thresholds.nextafter(torch.full_like(thresholds, torch.inf))
    thresholds = torch.where(thresholds.double() < inner_edges, next_value, thresholds)
    num_genuine_at = len(genuine) - torch.searchsorted(genuine, thresholds)
    num_impostors_at, _ = pairs.count_impostors(thresholds)
    return ScoreHistogram(
        edges=edges,
        num_genuine=_numbers_in_bins(num_genuine_at, len(genuine)),
        num_impostors=_numbers_in_bins(num_impostors_at, pairs.num_impostors()),
    )


def _outer_edges(lowest: float, highest: float, argument: str) -> tuple[float, float]:
    """Return the first and the last edge for scores in a range."""
    if lowest > highest:  # no pairs
        return 0.0, 1.0
    if not math.isfinite(highest - lowest):
        rule = "must give finite scores unless there are `limits`"
        raise ValueError(f"`{argument}` {rule}; got scores from {lowest} to {highest}.")
    if lowest < highest:
        return lowest, highest + 0.0  # -0.0 becomes 0.0
    half = max(1.0, abs(lowest)) / 2
    return lowest - half, highest + half


def _numbers_in_bins(num_at: Int[Tensor, " inner"], total: int) -> Int[Tensor, " bins"]:
    """Return the numbers in the bins from the numbers at or above the inner edges."""
    return -num_at.diff(prepend=num_at.new_tensor([total]), append=num_at.new_tensor([0]))
