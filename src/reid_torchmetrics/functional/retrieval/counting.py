"""Count the negatives before each positive in one panel of scores: the kernel of the ranking, and its tie policy.

Scores of a panel are [queries, columns]. What is not a negative has been taken out: it holds minus infinity and is
known by number, so a genuine score of minus infinity still counts. Thresholds are the scores of positives.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks

TIE_POLICIES = {
    "pessimistic": "a negative with the same score goes before the positive",
    "optimistic": "the positive goes before a negative with the same score",
    "stable": "items with the same score keep the order of the gallery",
}

_SERIAL_SORT = 1 << 16  # below this many values, starting threads costs more than sorting
_ORDERED_SCORES = 1 << 20  # scores that are put in order at a time; each needs about 32 bytes


def negatives_above(
    ordered: Float[Tensor, "queries columns"],
    num_removed: Int[Tensor, " queries"],
    thresholds: Float[Tensor, "queries padded"],
    *,
    or_tied: bool,
) -> Int[Tensor, "queries padded"]:
    """Count the negatives above each threshold, or level with it too, in rows that are sorted ascending."""
    place = torch.searchsorted(ordered, thresholds, right=not or_tied)
    return ordered.shape[1] - torch.maximum(place, num_removed[:, None])


def negatives_before(
    scores: Float[Tensor, "queries columns"],
    removed: Bool[Tensor, "queries columns"],
    thresholds: Float[Tensor, "queries padded"],
    places: Int[Tensor, "queries padded"],
    *,
    argument: str,
) -> Int[Tensor, "queries padded"]:
    """Count the negatives before each threshold when equal scores keep their column order.

    `places` are the columns of the thresholds, which may lie outside the panel. Only rows in which a negative of the
    panel ties with a threshold of the panel are put in order: without ties this costs two binary searches.
    """
    ordered, num_removed, width = sort_rows(scores.clone(), argument=argument), removed.sum(1), scores.shape[1]
    above = negatives_above(ordered, num_removed, thresholds, or_tied=False)
    level = negatives_above(ordered, num_removed, thresholds, or_tied=True) - above
    before = torch.where(places < width, above, above + level)
    undecided = (level > 0) & (places >= 0) & (places < width)
    tied_rows = undecided.any(1).nonzero()[:, 0]
    for rows in tied_rows.split(max(1, _ORDERED_SCORES // width)):
        in_order = _negatives_before_in_order(scores[rows], removed[rows], thresholds[rows], places[rows])
        before[rows] = torch.where(undecided[rows], in_order, before[rows])
    return before


def _negatives_before_in_order(scores: Tensor, removed: Tensor, thresholds: Tensor, places: Tensor) -> Tensor:
    """Put the thresholds back at their places and order whole rows; right for the thresholds that lie inside."""
    width = scores.shape[1]
    padded = torch.cat([scores, scores.new_full((len(scores), 1), -torch.inf)], dim=1)
    places = torch.where((places >= 0) & (places < width), places, width)  # the rest goes to the padding column
    padded.scatter_(1, places, thresholds)
    order = padded[:, :width].argsort(dim=1, descending=True, stable=True)
    negatives_so_far = (~removed).gather(1, order).cumsum(1)
    before = torch.zeros_like(padded, dtype=torch.int64).scatter_(1, order, negatives_so_far)
    return before.gather(1, places)


def sort_rows(values: Float[Tensor, "rows columns"], *, argument: str) -> Float[Tensor, "rows columns"]:
    """Sort every row ascending; on the CPU in place.

    NumPy's sort of values is vectorised and releases the GIL; torch's always carries indices along.

    Raises:
        ValueError: a score is NaN; `argument` names where the scores come from.
    """
    if values.device.type == "cpu":
        _sort_in_threads(values.numpy())
    else:
        values = values.sort(dim=1).values
    _checks.no_nan(argument, found=bool(values[:, -1:].isnan().any()))  # NaN sorts to the end
    return values


def _sort_in_threads(array: np.ndarray) -> None:
    threads = min(torch.get_num_threads(), len(array))
    if threads < 2 or array.size < _SERIAL_SORT:
        array.sort(axis=1)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_sort_in_place, np.array_split(array, threads)))


def _sort_in_place(rows: np.ndarray) -> None:
    rows.sort(axis=1)
