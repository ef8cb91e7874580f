"""Count negatives in rows of scores that are whole numbers, such as products of codes.

Whole numbers below 2^15 become integers of 16 bits. NumPy sorts these by their digits, five times as fast as floats,
and stably. For few distinct values a histogram takes even less time. For example, a row with the thresholds 2 and 0:

    scores                     2    1    0    2   -inf (removed)   -2
    at or above 2, 1, 0        2    3    4
    at or above 2, 0           2    4
    above 2, 0                 0    3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_SMALLEST = -32767
"""the key of removed items; the key of a score is larger"""
_LARGEST = 32766
_SAMPLE_SIZE = 64  # scores of the first row; unless these are whole, no other score is read
_MIN_COLUMNS = 2048  # with fewer, the calls for a row take longer than sorting its scores
_MAX_BINS = 1 << 12  # bins in the histogram of a row


def may_be_whole(scores: Tensor) -> bool:
    """Return whether the scores of a panel on the CPU may be whole numbers, judged by a few of them."""
    if scores.shape[1] < _MIN_COLUMNS or not len(scores):
        return False
    sample = scores[0, :_SAMPLE_SIZE].numpy()
    finite = sample[np.isfinite(sample)]
    return bool(np.array_equal(finite, np.rint(finite)))


def count_above(
    rows: NDArray[np.floating],
    num_removed: NDArray[np.int64],
    thresholds: NDArray[np.floating],
    out: NDArray[np.int64],
    is_counted: NDArray[np.bool_],
    *,
    or_tied: Sequence[bool],
) -> None:
    """Count the scores above each threshold, in the rows of whole numbers.

    Args:
        rows: scores [queries, columns]; minus infinity for removed items.
        num_removed: number of removed items in each row.
        thresholds: scores of positives [queries, padded], falling within a row.
        out: counts [queries, counts, padded], one for each of `or_tied`.
        is_counted: set to True for a row that has been counted, and to False for one with other scores.
        or_tied: whether a score that equals a threshold counts.
    """
    for row, (scores, removed) in enumerate(zip(rows, num_removed, strict=True)):
        keys = _keys_of(scores, int(removed))
        is_counted[row] = keys is not None
        if keys is None:
            continue
        num_negatives = len(keys) - int(removed)
        # A score counts if it is at least the first key of the threshold.
        falling = np.clip(thresholds[row], _SMALLEST, _LARGEST)
        for number, tied in enumerate(or_tied):
            first_key = np.ceil(falling) if tied else np.floor(falling) + 1
            out[row, number] = _num_at_least(keys, first_key.astype(np.int64), num_negatives)


def count_before(
    rows: NDArray[np.floating],
    num_removed: NDArray[np.int64],
    thresholds: NDArray[np.floating],
    places: NDArray[np.int64],
    out: NDArray[np.int64],
    is_counted: NDArray[np.bool_],
) -> None:
    """Count the scores before each positive in the rows of whole numbers, where equal scores keep their column order.

    The arguments are those of `count_above`. A positive stands before the column `places` of its row.
    """
    width = rows.shape[1]
    for row, (scores, removed) in enumerate(zip(rows, num_removed, strict=True)):
        keys = _keys_of(scores, int(removed))
        is_counted[row] = keys is not None
        if keys is None:
            continue
        # The negatives, best first and then by the column; removed items are behind them.
        np.negative(keys, out=keys)
        columns = keys.argsort(kind="stable")[: width - int(removed)]
        in_order = keys[columns] * np.int64(width) + columns
        falling = np.clip(thresholds[row], _SMALLEST, _LARGEST)
        whole = np.floor(falling)
        # A threshold between two whole numbers equals no score of a negative, so that its column does not matter.
        column = np.where(whole == falling, places[row].clip(0, width), 0)
        positive_keys = -whole.astype(np.int64) * width + column
        out[row] = in_order.searchsorted(positive_keys)


def _keys_of(scores: NDArray[np.floating], num_removed: int) -> NDArray[np.int16] | None:
    """Return the scores of a row as integers; None if one is not whole, too large, infinite or NaN."""
    bounded = np.maximum(scores, scores.dtype.type(_SMALLEST))
    if not bounded.max() <= _LARGEST:  # also for NaN
        return None
    keys = bounded.astype(np.int16)
    if not np.array_equal(keys, bounded):
        return None
    # A negative that scores minus infinity cannot be told from a removed item.
    return keys if np.count_nonzero(keys == _SMALLEST) == num_removed else None


def _num_at_least(keys: NDArray[np.int16], first_key: NDArray[np.int64], num_negatives: int) -> NDArray[np.int64]:
    """Count the keys at or above each `first_key`, which fall; the keys of all negatives are above the smallest key."""
    above_smallest = first_key[first_key > _SMALLEST]
    if not len(above_smallest):
        return np.full(first_key.shape, num_negatives, dtype=np.int64)
    lowest = int(above_smallest[-1])
    num_bins = int(keys.max()) - lowest + 2
    if num_bins <= 1:
        return np.where(first_key > _SMALLEST, 0, num_negatives)
    if num_bins > _MAX_BINS:
        rising = np.sort(keys, kind="stable")
        num_at_least = len(keys) - rising.searchsorted(first_key.clip(max=_LARGEST + 1))
        return np.minimum(num_at_least, num_negatives)
    # The first bin holds all keys below the lowest `first_key`.
    bins = np.maximum(keys, lowest - 1) - np.int16(lowest - 1)
    sizes = np.bincount(bins, minlength=num_bins)
    at_least = np.zeros(num_bins + 1, dtype=np.int64)
    np.cumsum(sizes[::-1], out=at_least[num_bins - 1 :: -1])
    places = (first_key - (lowest - 1)).clip(0, num_bins)
    return np.where(first_key > _SMALLEST, at_least[places], num_negatives)
