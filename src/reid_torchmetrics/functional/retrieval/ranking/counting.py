"""Count the negatives before each positive in one panel of scores: the kernels of the ranking.

Scores of a panel are [queries, columns]. Everything but the negatives has been taken out: it holds minus infinity, and
its number is known, so a genuine score of minus infinity still counts. Thresholds are the scores of positives.

On the CPU all scores of a row are compared with each threshold where there are few of them; else the rows are sorted,
and thresholds are looked up among them; scores that are whole numbers have ways of their own (`whole_scores`).

On other devices the scores that reach the lowest threshold of their query are sorted, of all queries at once, if they
are few. Else sorting would cost more than the scores, and every score is looked up among the few thresholds of its
query. One query with the thresholds .8 and .5:

    scores                       .9   .8   .6   .1   .5
    thresholds at or below        2    2    1    0    1      if negatives level with a threshold count, else 2 1 1 0 0
    how many have 0, 1, 2         1    2    2
    at or above .5, .8                 4    2                summed from the end
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.scores import Scores

from .top_k import keys_of_scores, rising_keys
from .whole_scores import count_above, count_before, look_whole

_SERIAL_SORT = 1 << 18  # below this many values, handing out parts costs more than sorting
_LONG_ROW = 1024  # columns; from here on counting row by row takes less time than counting all rows at once
_WIDE = 2048  # columns; from here on it may pay to pick the values above a floor before sorting
_FEW_VALUES = 0.04  # share of values above the floor; up to here it pays
_FEW_ON_DEVICE = 0.1  # the same where scores are sorted by keys
_SAMPLE_STEP = 61  # from one column to the next of the sample that estimates the share
_BYTES_PER_BIN = 4
_ORDERED_SCORES = 1 << 20  # scores that are put in order at a time; each needs about 64 bytes
# What a score costs on the CPU, in nanoseconds, by the ways of counting; and what calls of NumPy cost.
_COST_OF_PICKING, _COST_OF_WHOLE, _COST_OF_SORTING = 1.0, 3.0, 5.0
_COST_OF_A_COMPARISON = 0.09
_CALLS_OF_A_ROW, _CALLS_OF_A_THRESHOLD = 3000, 1600
_MANY_THRESHOLDS = 64  # from here on NumPy looks up the thresholds of a query in less time than torch
_SCORES = 1 << 24  # looked up at a time: every time costs the launches of ten kernels
_BINS = 4096  # of a query, and no more than a fourth of its scores
_MOST_BINS = torch.iinfo(torch.int32).max
_MOST_INT16 = torch.iinfo(torch.int16).max


class Positives(NamedTuple):
    """The positives of a tile's queries, best first, then padding."""

    scores: Float[Tensor, "queries padded"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries padded"]
    """number of kept gallery items before the positive in the gallery; in step with the scores only `by_place`"""
    lowest: Float[Tensor, " queries"]
    """score of the last positive; infinity for a query without positives"""
    grades: Int[Tensor, "queries padded"] | None = None
    """in step with the scores, where samples have several labels: how many they share with the query"""

    def of(self, rows: Int[Tensor, " rows"]) -> Positives:
        """The positives of some queries of the tile, as counting needs them: without grades."""
        return Positives(self.scores[rows], self.places[rows], self.lowest[rows])


class Negatives(NamedTuple):
    """The scores of a tile's queries against a panel of the gallery, with all but the negatives taken out."""

    scores: Float[Tensor, "queries columns"]
    """minus infinity where something was taken out; counting may put them in another order"""
    num_removed: Int[Tensor, " queries"]
    removed: Callable[[], Bool[Tensor, "queries columns"]]
    """marks what was taken out; found again where the tie policy does not need it"""
    first_place: int
    """number of kept gallery items before the first column"""
    argument: str
    """where the scores come from, for the error about NaN"""

    def of(self, rows: Int[Tensor, " rows"]) -> Negatives:
        """Copy the scores of some queries of the tile."""
        return self._replace(
            scores=self.scores[rows], num_removed=self.num_removed[rows], removed=lambda: self.removed()[rows]
        )


def bytes_of_counting(scores: Scores, *, by_place: bool) -> int:
    """Bytes that counting takes for each score, besides the score."""
    # Where places decide, a mask says what was taken out; on the CPU a copy is sorted then, elsewhere bins are found.
    if scores.device.type == "cpu":
        return scores.dtype.itemsize + 1 if by_place else 0
    return _BYTES_PER_BIN + by_place


def count_negatives(
    negatives: Negatives, positives: Positives, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count the negatives above each positive, or level with it too, once for each of `or_tied`.

    On the CPU the scores of the negatives may be sorted in place.

    Raises:
        ValueError: a score is NaN.
    """
    scores, num_removed, thresholds = negatives.scores, negatives.num_removed, positives.scores
    if not _is_numpy(scores):
        return _count_on_device(negatives, positives, or_tied=or_tied)
    cost = _cost_of_comparing(scores, thresholds, len(or_tied))
    if not look_whole(scores) or cost < _COST_OF_WHOLE:
        return _count_by_comparing_or_sorting(negatives, positives, cost, or_tied=or_tied)
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device="cpu")
    is_counted = torch.empty(len(scores), dtype=torch.bool, device="cpu")
    count = functools.partial(count_above, or_tied=or_tied)
    by_query = counts.transpose(0, 1)
    _in_threads(count, *(each.numpy() for each in (scores, num_removed, thresholds, by_query, is_counted)))
    if not is_counted.all():
        rest = (~is_counted).nonzero()[:, 0]
        parts = negatives.of(rest), positives.of(rest)
        counts[:, rest] = _count_by_comparing_or_sorting(*parts, cost, or_tied=or_tied)
    return counts


def _cost_of_comparing(scores: Tensor, thresholds: Tensor, num_counts: int) -> float:
    """Nanoseconds for each score that it takes to compare the scores of a row with all thresholds of the row."""
    num_thresholds = np.count_nonzero(thresholds.numpy() > -np.inf) / max(1, len(thresholds))
    width = max(1, scores.shape[1])
    return (_CALLS_OF_A_ROW + num_counts * num_thresholds * _CALLS_OF_A_THRESHOLD) / width + (
        num_counts * num_thresholds * _COST_OF_A_COMPARISON
    )


def _count_by_comparing_or_sorting(
    negatives: Negatives, positives: Positives, cost_of_comparing: float, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count by the way that takes the least time: see `count_negatives`."""
    scores, num_removed, thresholds = negatives.scores, negatives.num_removed, positives.scores
    # Whether few scores are above the lowest positive is looked up only where the answer decides.
    are_few = cost_of_comparing >= _COST_OF_PICKING and _are_few_above(scores.numpy(), positives.lowest.numpy())
    if not are_few and cost_of_comparing < _COST_OF_SORTING:
        return _count_by_comparing(negatives, thresholds, or_tied=or_tied)
    ordered = sort_rows(scores, argument=negatives.argument, floor=positives.lowest if are_few else None)
    counts = [negatives_above(ordered, num_removed, thresholds, or_tied=tied) for tied in or_tied]
    return counts[0][None] if len(counts) == 1 else torch.stack(counts)


def _count_by_comparing(
    negatives: Negatives, thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Compare all scores of a row with each of its thresholds; the scores stay as they are."""
    scores = negatives.scores
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device="cpu")
    highest = scores.new_empty(len(scores))
    compare = functools.partial(_compare_rows, or_tied=or_tied)
    by_query = counts.transpose(0, 1)
    _in_threads(compare, *(each.numpy() for each in (scores, thresholds, by_query, highest)))
    _checks.no_nan(negatives.argument, highest)  # NaN is above all
    # A threshold of minus infinity is level with the items that were taken out.
    num_negatives = scores.shape[1] - negatives.num_removed
    return torch.minimum(counts, num_negatives[:, None])


def _compare_rows(
    rows: np.ndarray, thresholds: np.ndarray, out: np.ndarray, highest: np.ndarray, *, or_tied: Sequence[bool]
) -> None:
    width = rows.shape[1]
    is_above = np.empty(width, dtype=bool)
    rows.max(axis=1, initial=-np.inf, out=highest)
    # Thresholds fall: those of minus infinity, most of them padding, are the last.
    num_finite = np.count_nonzero(thresholds > -np.inf, axis=1)
    for row, edges, counts, stop in zip(rows, thresholds, out, num_finite, strict=True):
        for numbers, tied in zip(counts, or_tied, strict=True):
            compare = np.greater_equal if tied else np.greater
            for place in range(stop):
                numbers[place] = np.count_nonzero(compare(row, edges[place], out=is_above))
            if stop < len(edges):
                numbers[stop:] = width if tied else np.count_nonzero(row > -np.inf)


def negatives_above(
    ordered: Float[Tensor, "queries columns"], num_removed: Tensor, thresholds: Tensor, *, or_tied: bool
) -> Int[Tensor, "queries padded"]:
    """Count the negatives above each threshold, or level with it too, in rows that are sorted ascending."""
    if _is_numpy(ordered) and thresholds.shape[1] >= _MANY_THRESHOLDS:
        counts = torch.empty_like(thresholds, dtype=torch.int64)
        arrays = (each.numpy() for each in (ordered, num_removed, thresholds, counts))
        _in_threads(functools.partial(_count_by_row, side="left" if or_tied else "right"), *arrays)
        return counts
    place = torch.searchsorted(ordered, thresholds, right=not or_tied)
    return ordered.shape[1] - torch.maximum(place, num_removed[:, None])


def _count_by_row(*arrays: np.ndarray, side: Literal["left", "right"]) -> None:
    # What was taken out is first in a row: the more positives there are, the fewer negatives are searched.
    for row, num_removed, thresholds, counts in zip(*arrays, strict=True):
        counts[:] = len(row) - num_removed - row[num_removed:].searchsorted(thresholds, side)


def negatives_before(negatives: Negatives, positives: Positives) -> Int[Tensor, "1 queries padded"]:
    """Count the negatives before each positive when equal scores keep their column order.

    Only rows in which a negative of the panel ties with a positive of the panel are put in order: without ties this
    costs two counts.
    """
    if not _is_numpy(negatives.scores) or not look_whole(negatives.scores):
        return _before_among_floats(negatives, positives)[None]
    before = torch.empty_like(positives.places)
    is_counted = torch.empty(len(before), dtype=torch.bool, device="cpu")
    places = positives.places - negatives.first_place
    values = negatives.scores, negatives.num_removed, positives.scores, places, before, is_counted
    _in_threads(count_before, *(each.numpy() for each in values))
    if not is_counted.all():
        rest = (~is_counted).nonzero()[:, 0]
        before[rest] = _before_among_floats(negatives.of(rest), positives.of(rest))
    return before[None]


def _before_among_floats(negatives: Negatives, positives: Positives) -> Int[Tensor, "queries padded"]:
    scores, removed = negatives.scores, negatives.removed()
    copied = negatives._replace(scores=scores.clone()) if _is_numpy(scores) else negatives
    above, above_or_level = count_negatives(copied, positives, or_tied=(False, True))
    # Columns before each positive; it may lie outside the panel or between its columns.
    places, width = positives.places - negatives.first_place, scores.shape[1]
    before = torch.where(places < width, above, above_or_level)
    undecided = (above_or_level > above) & (places >= 0) & (places < width)
    tied_rows = undecided.any(1).nonzero()[:, 0]
    if _is_numpy(scores) and len(tied_rows):
        highest = positives.scores.where(undecided, -torch.inf).amax(1)
        lowest = positives.scores.where(undecided, torch.inf).amin(1)
        # A row with one tied score, as constant embeddings have, needs no order.
        is_one = (highest == lowest)[tied_rows]
        for rows in tied_rows[is_one].split(max(1, _ORDERED_SCORES // width)):
            level = (scores[rows] == highest[rows, None]).logical_and_(~removed[rows])
            so_far = functional.pad(level.cumsum(1, dtype=torch.int32), (1, 0)).gather(1, places[rows].clamp(0, width))
            before[rows] = torch.where(undecided[rows], above[rows] + so_far, before[rows])
        tied_rows = tied_rows[~is_one]
    for rows in tied_rows.split(max(1, _ORDERED_SCORES // width)):
        in_order = _before_in_order(scores[rows], removed[rows], positives.scores[rows], places[rows])
        before[rows] = torch.where(undecided[rows], in_order, before[rows])  # right where a score ties
    return before


def _before_in_order(scores: Tensor, removed: Tensor, thresholds: Tensor, places: Tensor) -> Int[Tensor, "rows padded"]:
    """Count the negatives before each positive that stands between them, by the score and then by the column."""
    width = scores.shape[1]
    if _is_numpy(scores) and scores.dtype == torch.float32:
        keys = keys_of_scores(scores.numpy()) | np.arange(width)
        keys[removed.numpy()] = np.iinfo(np.int64).max
        keys.sort(axis=1)
        wanted = torch.from_numpy(keys_of_scores(thresholds.numpy())) | places
        return torch.searchsorted(torch.from_numpy(keys), wanted)
    falling, columns = scores.sort(dim=1, descending=True, stable=True)
    rising = falling.neg_()
    # Strictly ordered by the score, as the place of the first score like it, and then by the column.
    order = torch.searchsorted(rising, rising) * (width + 1) + columns
    wanted = torch.searchsorted(rising, -thresholds) * (width + 1) + places
    negatives_so_far = functional.pad((~removed).gather(1, columns).cumsum(1), (1, 0))
    return negatives_so_far.gather(1, torch.searchsorted(order, wanted))


def _count_on_device(
    negatives: Negatives, positives: Positives, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count by sorting the scores that reach the lowest positive of their query, or by lookup where they are many."""
    scores = negatives.scores
    is_reached = scores >= positives.lowest[:, None]
    highest = scores.amax(1)  # NaN is above all
    # One wait for the device tells both.
    has_nan, num_reached = torch.stack([highest.isnan().any(), count_true(is_reached).sum()]).tolist()
    if has_nan:
        _checks.no_nan(negatives.argument, highest)
    if scores.dtype == torch.float32 and num_reached <= _FEW_ON_DEVICE * scores.numel():
        counts = _count_by_keys(scores, is_reached, positives.scores, or_tied=or_tied)
    else:
        counts = count_by_lookup(scores, positives.scores, or_tied=or_tied)
    # A threshold of minus infinity is level with the items that were taken out.
    num_negatives = scores.shape[1] - negatives.num_removed
    return torch.minimum(counts, num_negatives[:, None])


def _count_by_keys(
    scores: Float[Tensor, "queries columns"], is_counted: Tensor, thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Sort few scores of all queries at once, by integers with the query in the upper bits, and look thresholds up."""
    num_queries, width = scores.shape
    cells = places_of_true(is_counted)
    query = cells.div(width, rounding_mode="floor")
    keys = (query << 32).add_(rising_keys(scores.view(-1)[cells]))
    in_order = keys.sort().values
    first_key = torch.arange(num_queries, device=scores.device).bitwise_left_shift_(32)[:, None]
    stop = torch.searchsorted(in_order, first_key + (1 << 32))
    wanted = rising_keys(thresholds).add_(first_key)
    counts = [stop - torch.searchsorted(in_order, wanted, right=not tied) for tied in or_tied]
    return torch.stack(counts)


def count_by_lookup(
    scores: Float[Tensor, "queries columns"], thresholds: Tensor, *, or_tied: Sequence[bool]
) -> Int[Tensor, "counts queries padded"]:
    """Count the scores above each threshold, or level with it too, once for each of `or_tied`.

    Thresholds fall within a row.
    """
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device=scores.device)
    for number, tied in enumerate(or_tied):
        _count_in_bins(scores, thresholds, counts[number], or_tied=tied)
    return counts


def _count_in_bins(scores: Tensor, thresholds: Tensor, out: Tensor, *, or_tied: bool) -> None:
    width, num_bins, rising = scores.shape[1], thresholds.shape[1] + 1, thresholds.flip(1)
    # Threads that add to one bin wait for each other, so columns that are beside each other have bins of their own.
    num_copies = max(1, min(_BINS, width // 4) // num_bins)
    bins_of_row = num_copies * num_bins
    step = max(1, min(_SCORES // width, _MOST_BINS // bins_of_row))
    of_column = torch.arange(width, dtype=torch.int32, device=scores.device).remainder_(num_copies).mul_(num_bins)
    of_row = torch.arange(min(step, len(scores)), dtype=torch.int32, device=scores.device)[:, None] * bins_of_row
    one = torch.ones(1, dtype=torch.int32, device=scores.device)
    parts = zip(scores.split(step), rising.split(step), out.split(step), strict=True)
    for part, edges, counts in parts:
        # The bin of a score, [queries, columns], is the number of thresholds below it; each query has bins of its own.
        bins = torch.searchsorted(edges, part, right=or_tied, out_int32=True)
        bins.add_(of_column).add_(of_row[: len(part)])
        # `bincount` would wait for the least and the largest bin.
        sizes = torch.zeros(len(part) * bins_of_row, dtype=torch.int32, device=scores.device)
        sizes.index_add_(0, bins.view(-1), one.expand(bins.numel()))
        sizes = sizes.view(len(part), num_copies, num_bins).sum(1)
        # Of the best threshold only the last bin is above, and so on.
        torch.cumsum(sizes[:, 1:].flip(1), dim=1, out=counts)


def sort_rows(
    values: Float[Tensor, "rows columns"], *, argument: str, floor: Float[Tensor, " rows"] | None = None
) -> Float[Tensor, "rows columns"]:
    """Sort every row ascending; on the CPU in place.

    Values below a row's `floor` need no place: they come out as minus infinity. That spares most of the sorting where
    few values are above it. NumPy's sort of values is vectorized and releases the GIL; torch's always carries
    indices along.

    Raises:
        ValueError: a score is NaN; `argument` names where the scores come from.
    """
    if not _is_numpy(values):
        values = values.sort(dim=1).values
    elif floor is None:
        _in_threads(lambda rows: rows.sort(axis=1), values.numpy())
    else:
        _in_threads(_sort_above, values.numpy(), floor.numpy())
    _checks.no_nan(argument, values[:, -1:])  # NaN sorts to the end
    return values


def sort_falling(values: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Sort every row descending; on the CPU in place."""
    if not _is_numpy(values):
        return values.sort(dim=1, descending=True).values
    _in_threads(lambda rows: rows.sort(axis=1), values.neg_().numpy())
    return values.neg_()


def _are_few_above(values: np.ndarray, floor: np.ndarray) -> bool:
    """Whether it pays to pick the values above the floor first, judged by a sample of the columns."""
    return values.shape[1] >= _WIDE and bool((values[:, ::_SAMPLE_STEP] >= floor[:, None]).mean() < _FEW_VALUES)


def _in_threads(function: Callable[..., None], *arrays: np.ndarray) -> None:
    """Apply `function` to ranges of the rows of all arrays."""
    num_parts = min(arrays[0].size // _SERIAL_SORT, len(arrays[0]))
    if num_parts < 2:  # to split arrays takes longer than to sort a few scores
        function(*arrays)
        return
    parts = zip(*(np.array_split(array, num_parts) for array in arrays), strict=True)
    workers.share(lambda part: function(*part), list(parts))


def _sort_above(rows: np.ndarray, floor: np.ndarray) -> None:
    for row, lowest in zip(rows, floor, strict=True):
        above = row[~(row < lowest)]  # NaN stays, to be found
        above.sort()
        row.fill(-np.inf)
        row[len(row) - len(above) :] = above


def are_above(
    scores: Float[Tensor, "queries columns"], thresholds: Float[Tensor, "queries 1"], *, or_level: bool
) -> Bool[Tensor, "queries columns"]:
    """Mark the scores above the threshold of their row; NumPy compares three times as fast as torch."""
    if not _is_numpy(scores):
        return scores >= thresholds if or_level else scores > thresholds
    compare = np.greater_equal if or_level else np.greater
    return torch.from_numpy(compare(scores.numpy(), thresholds.numpy()))


def count_true(mask: Bool[Tensor, "queries columns"]) -> Int[Tensor, " queries"]:
    """Number of True values of each row; NumPy counts a row of bytes ten times as fast as torch sums it."""
    if not _is_numpy(mask):
        # A GPU first copies bools to the dtype of their sum: to few bytes here.
        first, *others = mask.split(_MOST_INT16, dim=1)
        counts: Tensor = first.sum(1, dtype=torch.int16).long()
        for part in others:
            counts += part.sum(1, dtype=torch.int16)
        return counts
    if mask.shape[1] < _LONG_ROW:
        return torch.from_numpy(np.count_nonzero(mask.numpy(), axis=1))
    return torch.tensor([np.count_nonzero(row) for row in mask.numpy()], dtype=torch.int64, device="cpu")


def cells_of_true(mask: Bool[Tensor, "rows columns"]) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells"]]:
    """Rows and columns where a mask is true."""
    places = places_of_true(mask)
    row = segments.numbers(count_true(mask), len(places))
    return row, places.sub_(row, alpha=mask.shape[1])


def places_of_true(mask: Bool[Tensor, "*shape"]) -> Int[Tensor, " places"]:
    """Where a mask is true, as places in the flat mask; NumPy finds them several times as fast."""
    if not _is_numpy(mask):
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def fill_at(
    values: Shaped[Tensor, "rows columns"],
    columns: Int[Tensor, "rows listed"],
    is_filled: Bool[Tensor, "rows listed"],
    value: float | bool,
) -> None:
    """Write `value` to the marked ones of the listed `columns` of every row; `values` are contiguous."""
    if _is_numpy(values):
        # NumPy takes the runs of marked cells in half the time of torch.
        row_start = torch.arange(0, values.numel(), values.shape[1], device=values.device)[:, None]
        cells = torch.from_numpy((row_start + columns).numpy()[is_filled.numpy()])
        values.view(-1).index_fill_(0, cells, value)
        return
    if not columns.shape[1]:
        return
    # To select the marked columns would wait for the device. Instead every listed entry writes to its row: an entry
    # without a mark repeats what a marked one writes, and in a row without a mark a cell keeps its value.
    first_marked = is_filled.byte().argmax(1, keepdim=True)
    cells = columns.where(is_filled, columns.gather(1, first_marked))
    written = values.gather(1, cells).masked_fill_(is_filled.any(1, keepdim=True), value)
    values.scatter_(1, cells, written)


def _is_numpy(values: Tensor) -> bool:
    return values.device.type == "cpu"
