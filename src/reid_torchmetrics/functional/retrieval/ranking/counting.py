"""Count the negatives before each positive in one panel of scores: the kernels of the ranking.

Scores of a panel are [queries, columns]. Positives and junk have been removed: they score minus infinity, and their
number is known, so that a negative that scores minus infinity still counts. Thresholds are the scores of positives.

On the CPU all scores of a row are compared with each threshold if a row has few thresholds. Otherwise the rows are
sorted, and thresholds are looked up among the scores.

On other devices, the scores that reach the lowest threshold of their query are sorted, for all queries at once, if they
are few. Otherwise sorting would cost more than the scores, and every score is looked up among the few thresholds of its
query. For example, a query with the thresholds .8 and .5:

    scores                       .9   .8   .6   .1   .5
    thresholds at or below        2    2    1    0    1      if a negative with the score of a threshold counts;
                                                             otherwise 2 1 1 0 0
    scores with 0, 1, 2           1    2    2
    at or above .5, .8                 4    2                summed from the end
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import workers

from .top_k import keys_of_scores, rising_keys

_SERIAL_SORT = 1 << 18  # values; with fewer, handing out parts costs more than sorting
_ORDERED_SCORES = 1 << 20  # scores that are put in order at a time; each needs about 64 bytes

# Picking the values above a floor before sorting.
_FEW_VALUES = 0.04  # largest share of values above the floor for which it pays on the CPU
_FEW_ON_DEVICE = 0.1  # the same on other devices, by keys
_SAMPLE_STEP = 61  # distance between the columns of the sample that estimates the share

# Nanoseconds per score on the CPU for each way of counting, and nanoseconds for calls of NumPy.
_COST_OF_A_COMPARISON = 0.09
_COST_OF_PICKING = 1.0
_COST_OF_SORTING = 5.0
_CALLS_OF_A_ROW = 3000
_CALLS_OF_A_THRESHOLD = 1600

# Looking up scores in bins on other devices.
_SCORES = 1 << 24  # scores at a time: every time costs the launches of ten kernels
_BINS = 4096  # most bins of a query, which has at most a fourth as many bins as scores
BYTES_PER_BIN = 4
_MOST_BINS = torch.iinfo(torch.int32).max
_MOST_INT16 = torch.iinfo(torch.int16).max


class Positives(NamedTuple):
    """The positives of a tile's queries, best first, then padding."""

    scores: Float[Tensor, "queries padded"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries padded"]
    """number of kept gallery items before the positive; in the order of the scores only if ties are broken by place"""
    lowest: Float[Tensor, " queries"]
    """score of the last positive; infinity for a query without positives"""
    grades: Int[Tensor, "queries padded"] | None = None
    """number of labels shared with the query, in the order of the scores; None unless samples have several labels"""

    def select(self, rows: Int[Tensor, " rows"]) -> Positives:
        """Return the positives of some queries of the tile, without grades, which counting does not need."""
        return Positives(self.scores[rows], self.places[rows], self.lowest[rows])


class Negatives(NamedTuple):
    """The scores of a tile's queries against a panel of the gallery, with everything but the negatives removed."""

    scores: Float[Tensor, "queries columns"]
    """minus infinity where an item was removed; counting may change the order"""
    num_removed: Int[Tensor, " queries"]
    removed: Callable[[], Bool[Tensor, "queries columns"]]
    """returns marks of the removed items; computed on demand, as most tie policies do not need them"""
    first_place: int
    """number of kept gallery items before the first column"""
    argument: str
    """name of the argument with the scores, for the error about NaN"""

    def select(self, rows: Int[Tensor, " rows"]) -> Negatives:
        """Copy the scores of some queries of the tile."""
        return self._replace(
            scores=self.scores[rows],
            num_removed=self.num_removed[rows],
            removed=lambda: self.removed()[rows],
        )


def count_negatives(
    negatives: Negatives, positives: Positives, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count the negatives above each positive, once for each of `or_tied`: if True, also negatives with its score.

    On the CPU the scores of the negatives may be sorted in place.

    Raises:
        ValueError: a score is NaN.
    """
    scores = negatives.scores
    thresholds = positives.scores
    if not scores.is_cpu:
        return _count_on_device(negatives, positives, or_tied=or_tied)
    # Nanoseconds per score that it takes to compare all scores of a row with all thresholds of the row.
    num_thresholds = np.count_nonzero(thresholds.numpy() > -np.inf) / max(1, len(thresholds))
    num_comparisons = len(or_tied) * num_thresholds
    cost_of_calls = (_CALLS_OF_A_ROW + num_comparisons * _CALLS_OF_A_THRESHOLD) / max(1, scores.shape[1])
    cost_of_comparing = cost_of_calls + num_comparisons * _COST_OF_A_COMPARISON
    # Few scores above the lowest positive matter only if comparing costs more than picking.
    are_few = cost_of_comparing >= _COST_OF_PICKING and _are_few_above(scores.numpy(), positives.lowest.numpy())
    if not are_few and cost_of_comparing < _COST_OF_SORTING:
        return _count_by_comparing(negatives, thresholds, or_tied=or_tied)
    ordered = sort_rows(scores, argument=negatives.argument, floor=positives.lowest if are_few else None)
    counts = [negatives_above(ordered, negatives.num_removed, thresholds, or_tied=tied) for tied in or_tied]
    return counts[0][None] if len(counts) == 1 else torch.stack(counts)


def _count_by_comparing(
    negatives: Negatives, thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Compare all scores of a row with each threshold of the row; the scores do not change."""
    scores = negatives.scores
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device="cpu")
    highest = scores.new_empty(len(scores))
    compare = functools.partial(_compare_rows, or_tied=or_tied)
    _in_threads(compare, scores, thresholds, counts.transpose(0, 1), highest)
    _checks.no_nan(negatives.argument, highest)  # NaN is the maximum of its row
    # A threshold of minus infinity equals the scores of removed items.
    num_negatives = scores.shape[1] - negatives.num_removed
    return torch.minimum(counts, num_negatives[:, None])


def _compare_rows(
    rows: np.ndarray, thresholds: np.ndarray, out: np.ndarray, highest: np.ndarray, *, or_tied: Sequence[bool]
) -> None:
    width = rows.shape[1]
    is_above = np.empty(width, dtype=bool)
    rows.max(axis=1, initial=-np.inf, out=highest)
    # Thresholds fall within a row, so those of minus infinity, most of them padding, are the last.
    num_finite = np.count_nonzero(thresholds > -np.inf, axis=1)
    for row, row_thresholds, counts, stop in zip(rows, thresholds, out, num_finite, strict=True):
        for row_counts, tied in zip(counts, or_tied, strict=True):
            compare = np.greater_equal if tied else np.greater
            for place in range(stop):
                row_counts[place] = np.count_nonzero(compare(row, row_thresholds[place], out=is_above))
            if stop < len(row_thresholds):
                row_counts[stop:] = width if tied else np.count_nonzero(row > -np.inf)


def negatives_above(
    ordered: Float[Tensor, "queries columns"], num_removed: Tensor, thresholds: Tensor, *, or_tied: bool
) -> Int[Tensor, "queries padded"]:
    """Count the negatives above each threshold, with `or_tied` also at the threshold, in rows sorted ascending."""
    place = torch.searchsorted(ordered, thresholds, right=not or_tied)
    return ordered.shape[1] - torch.maximum(place, num_removed[:, None])


def negatives_before(negatives: Negatives, positives: Positives) -> Int[Tensor, "1 queries padded"]:
    """Count the negatives before each positive when equal scores keep their column order.

    Only rows in which a negative of the panel ties with a positive of the panel are put in order: without ties this
    costs two counts.
    """
    scores = negatives.scores
    removed = negatives.removed()
    width = scores.shape[1]
    copied = negatives._replace(scores=scores.clone()) if scores.is_cpu else negatives
    above, above_or_tied = count_negatives(copied, positives, or_tied=(False, True))

    # Number of columns before each positive; the positive may lie outside the panel or between its columns.
    places = positives.places - negatives.first_place
    before = torch.where(places < width, above, above_or_tied)
    undecided = (above_or_tied > above) & (places >= 0) & (places < width)
    tied_rows = undecided.any(1).nonzero()[:, 0]
    num_rows = max(1, _ORDERED_SCORES // width)

    if scores.is_cpu and len(tied_rows):
        # A row with a single tied score, such as for constant embeddings, needs no order.
        highest = positives.scores.where(undecided, -torch.inf).amax(1)
        lowest = positives.scores.where(undecided, torch.inf).amin(1)
        has_one_score = (highest == lowest)[tied_rows]
        for rows in tied_rows[has_one_score].split(num_rows):
            is_tied = (scores[rows] == highest[rows, None]).logical_and_(~removed[rows])
            num_tied_before = functional.pad(is_tied.cumsum(1, dtype=torch.int32), (1, 0))
            counts = above[rows] + num_tied_before.gather(1, places[rows].clamp(0, width))
            before[rows] = torch.where(undecided[rows], counts, before[rows])
        tied_rows = tied_rows[~has_one_score]

    for rows in tied_rows.split(num_rows):
        counts = _before_in_order(scores[rows], removed[rows], positives.scores[rows], places[rows])
        # These counts are right only where a score ties.
        before[rows] = torch.where(undecided[rows], counts, before[rows])
    return before[None]


def _before_in_order(scores: Tensor, removed: Tensor, thresholds: Tensor, places: Tensor) -> Int[Tensor, "rows padded"]:
    """Count the negatives before each positive of the panel, ordered by the score and then by the column."""
    width = scores.shape[1]
    if scores.is_cpu and scores.dtype == torch.float32:
        keys = keys_of_scores(scores.numpy()) | np.arange(width)
        keys[removed.numpy()] = np.iinfo(np.int64).max
        keys.sort(axis=1)
        positive_keys = torch.from_numpy(keys_of_scores(thresholds.numpy())) | places
        return torch.searchsorted(torch.from_numpy(keys), positive_keys)
    falling, columns = scores.sort(dim=1, descending=True, stable=True)
    rising = falling.neg_()
    # Keys: first the place of the first equal score, then the column.
    keys_in_order = torch.searchsorted(rising, rising) * (width + 1) + columns
    positive_keys = torch.searchsorted(rising, -thresholds) * (width + 1) + places
    num_negatives_before = functional.pad((~removed).gather(1, columns).cumsum(1), (1, 0))
    return num_negatives_before.gather(1, torch.searchsorted(keys_in_order, positive_keys))


def _count_on_device(
    negatives: Negatives, positives: Positives, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Sort the scores that reach the lowest positive of their query, or look up all scores if these are many."""
    scores = negatives.scores
    is_reached = scores >= positives.lowest[:, None]
    highest = scores.amax(1)  # NaN is the maximum of its row
    # One wait for the device reads both numbers.
    has_nan, num_reached = torch.stack([highest.isnan().any(), count_true(is_reached).sum()]).tolist()
    if has_nan:
        _checks.no_nan(negatives.argument, highest)
    if scores.dtype == torch.float32 and num_reached <= _FEW_ON_DEVICE * scores.numel():
        counts = _count_by_keys(scores, is_reached, positives.scores, or_tied=or_tied)
    else:
        counts = count_by_lookup(scores, positives.scores, or_tied=or_tied)
    # A threshold of minus infinity equals the scores of removed items.
    num_negatives = scores.shape[1] - negatives.num_removed
    return torch.minimum(counts, num_negatives[:, None])


def _count_by_keys(
    scores: Float[Tensor, "queries columns"], is_counted: Tensor, thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Sort few scores of all queries at once, as integers with the query in the upper bits, and look thresholds up."""
    num_queries, width = scores.shape
    cells = places_of_true(is_counted)
    query = cells.div(width, rounding_mode="floor")
    keys = (query << 32).add_(rising_keys(scores.view(-1)[cells]))
    in_order = keys.sort().values
    first_key = torch.arange(num_queries, device=scores.device).bitwise_left_shift_(32)[:, None]
    stop = torch.searchsorted(in_order, first_key + (1 << 32))
    threshold_keys = rising_keys(thresholds).add_(first_key)
    counts = [stop - torch.searchsorted(in_order, threshold_keys, right=not tied) for tied in or_tied]
    return torch.stack(counts)


def count_by_lookup(
    scores: Float[Tensor, "queries columns"], thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count the scores above each threshold, once for each of `or_tied`: if True, also the scores at the threshold.

    Thresholds fall within a row.
    """
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device=scores.device)
    for number, tied in enumerate(or_tied):
        _count_in_bins(scores, thresholds, counts[number], or_tied=tied)
    return counts


def _count_in_bins(scores: Tensor, thresholds: Tensor, out: Tensor, *, or_tied: bool) -> None:
    """Write the number of scores above each threshold to `out`, by a histogram of each row: see above."""
    device = scores.device
    width = scores.shape[1]
    num_bins = thresholds.shape[1] + 1
    rising = thresholds.flip(1)

    # Threads that add to the same bin wait for each other, so neighboring columns have copies of the bins.
    num_copies = max(1, min(_BINS, width // 4) // num_bins)
    bins_per_row = num_copies * num_bins
    num_rows = max(1, min(_SCORES // width, _MOST_BINS // bins_per_row))
    column_offset = torch.arange(width, dtype=torch.int32, device=device).remainder_(num_copies).mul_(num_bins)
    row_offset = torch.arange(min(num_rows, len(scores)), dtype=torch.int32, device=device)[:, None] * bins_per_row
    one = torch.ones(1, dtype=torch.int32, device=device)

    parts = zip(scores.split(num_rows), rising.split(num_rows), out.split(num_rows), strict=True)
    for part, edges, counts in parts:
        # The bin of a score, [queries, columns], is the number of thresholds below it, in the bins of its query.
        bins = torch.searchsorted(edges, part, right=or_tied, out_int32=True)
        bins.add_(column_offset).add_(row_offset[: len(part)])
        # `bincount` would wait for the least and the largest bin.
        sizes = torch.zeros(len(part) * bins_per_row, dtype=torch.int32, device=device)
        sizes.index_add_(0, bins.view(-1), one.expand(bins.numel()))
        sizes = sizes.view(len(part), num_copies, num_bins).sum(1)
        # Only the last bin is above the best threshold, the last two are above the second one, and so on.
        torch.cumsum(sizes[:, 1:].flip(1), dim=1, out=counts)


def sort_rows(
    values: Float[Tensor, "rows columns"], *, argument: str, floor: Float[Tensor, " rows"] | None = None
) -> Float[Tensor, "rows columns"]:
    """Sort every row ascending; on the CPU in place.

    Values below a row's `floor` become minus infinity. That saves most of the sorting if few values are above it.
    NumPy's sort of values is vectorized and releases the GIL; torch's sort always computes indices, too.

    Raises:
        ValueError: a score is NaN; `argument` is the argument with the scores.
    """
    if not values.is_cpu:
        values = values.sort(dim=1).values
    elif floor is None:
        _in_threads(np.ndarray.sort, values)
    else:
        _in_threads(_sort_above, values, floor)
    _checks.no_nan(argument, values[:, -1:])  # NaN sorts to the end
    return values


def sort_falling(values: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Sort every row descending; on the CPU in place."""
    if not values.is_cpu:
        return values.sort(dim=1, descending=True).values
    _in_threads(np.ndarray.sort, values.neg_())
    return values.neg_()


def _are_few_above(values: np.ndarray, floor: np.ndarray) -> bool:
    """Return whether it pays to pick the values above the floor first, judged by a sample of the columns."""
    is_above = values[:, ::_SAMPLE_STEP] >= floor[:, None]
    return bool(is_above.mean() < _FEW_VALUES)


def _in_threads(function: Callable[..., None], *values: Tensor) -> None:
    """Apply `function` to NumPy arrays of ranges of the rows of all tensors."""
    arrays = [tensor.numpy() for tensor in values]
    num_parts = min(arrays[0].size // _SERIAL_SORT, len(arrays[0]))
    if num_parts < 2:  # to split arrays takes longer than to sort a few scores
        function(*arrays)
        return
    splits = [np.array_split(array, num_parts) for array in arrays]
    parts = list(zip(*splits, strict=True))
    workers.share(lambda part: function(*part), parts)


def _sort_above(rows: np.ndarray, floor: np.ndarray) -> None:
    for row, lowest in zip(rows, floor, strict=True):
        above = row[~(row < lowest)]  # NaN is included, so that it is reported
        above.sort()
        row.fill(-np.inf)
        row[len(row) - len(above) :] = above


def are_above(
    scores: Float[Tensor, "queries columns"], thresholds: Float[Tensor, "queries 1"], *, or_level: bool
) -> Bool[Tensor, "queries columns"]:
    """Mark the scores above the threshold of their row; NumPy compares three times as fast as torch."""
    if not scores.is_cpu:
        return scores >= thresholds if or_level else scores > thresholds
    compare = np.greater_equal if or_level else np.greater
    return torch.from_numpy(compare(scores.numpy(), thresholds.numpy()))


def count_true(mask: Bool[Tensor, "queries columns"]) -> Int[Tensor, " queries"]:
    """Count the True values of each row; NumPy counts a row of bytes ten times as fast as torch sums it."""
    if not mask.is_cpu:
        # A GPU copies bools to the dtype of their sum before it adds them up: int16 keeps the copy small.
        first, *rest = mask.split(_MOST_INT16, dim=1)
        counts: Tensor = first.sum(1, dtype=torch.int16).long()
        for part in rest:
            counts += part.sum(1, dtype=torch.int16)
        return counts
    return torch.from_numpy(np.count_nonzero(mask.numpy(), axis=1))


def places_of_true(mask: Bool[Tensor, "*shape"]) -> Int[Tensor, " places"]:
    """Return the places of the True values in the flattened mask; NumPy finds them several times as fast as torch."""
    if not mask.is_cpu:
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def fill_at(
    values: Shaped[Tensor, "rows columns"],
    columns: Int[Tensor, "rows listed"],
    is_filled: Bool[Tensor, "rows listed"],
    value: float | bool,
) -> None:
    """Write `value` to those `columns` of every row that `is_filled` marks; `values` must be contiguous."""
    if not columns.shape[1]:
        return
    # Selecting the marked columns would wait for a device. Instead every entry writes to its row: an entry without a
    # mark repeats the write of a marked entry, and in a row without marks it writes the value that is already there.
    first_marked = is_filled.byte().argmax(1, keepdim=True)
    cells = columns.where(is_filled, columns.gather(1, first_marked))
    written = values.gather(1, cells).masked_fill_(is_filled.any(1, keepdim=True), value)
    values.scatter_(1, cells, written)
