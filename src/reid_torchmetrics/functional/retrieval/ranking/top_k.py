"""The k highest scores of every row, equal scores in column order; `torch.topk` leaves their order open."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

_SCORES_AT_A_TIME = 1 << 19  # scores that are searched at a time, so that they stay in the cache
_MOST_LAYERS = 16  # layers that a row is folded into
_SORTED_WIDTH = 2048  # columns; shorter rows are sorted as a whole on devices, because that needs no wait
_LOW = (1 << 32) - 1  # the bits of a key below its score
_IS_PADDING = 1 << 31  # the bit of a key that marks padding


def stable_top_k(
    scores: Float[Tensor, "rows columns"], k: int, candidate: Bool[Tensor, "rows columns"] | None = None
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Return the `k` highest scores of every row, falling, and their columns; `k` is at most the number of columns.

    Items that are no `candidate` must score minus infinity. They are listed behind all candidates, in column -1. NaN is
    higher than any number.
    """
    num_rows, width = scores.shape
    if scores.device.type != "cpu" and width <= _SORTED_WIDTH:
        every_column = torch.arange(width, device=scores.device).expand(num_rows, -1)
        best, columns = _in_order(scores, every_column, candidate)
        return best[:, :k], columns[:, :k]
    has_keys = scores.device.type == "cpu" and scores.dtype == torch.float32 and width < _IS_PADDING
    if not has_keys or not k:
        return _in_order(scores, _unordered_columns(scores, k, candidate), candidate)
    best = scores.new_empty((num_rows, k))
    columns = torch.empty((num_rows, k), dtype=torch.int64, device="cpu")

    def fill(rows: slice) -> None:
        is_candidate = None if candidate is None else candidate[rows]
        best[rows], columns[rows] = _top_by_keys(scores[rows].detach(), k, is_candidate)

    workers.share(fill, segments.ranges(num_rows, max(1, _SCORES_AT_A_TIME // width)))
    return best, columns


def likely_top_k(
    scores: Float[Tensor, "rows columns"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"], Bool[Tensor, " rows"]]:
    """Return the result of `stable_top_k` by a faster method, and marks of the rows in doubt.

    A row is in doubt if it holds NaN, if its list holds minus infinity, or if the first score left out equals the last
    score of the list. A device is not waited for.
    """
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    in_doubt = best[:, 0].isnan() | best[:, k - 1].isneginf()
    if best.shape[1] > k:
        in_doubt |= best[:, k - 1] == best[:, k]
    best, columns = _in_order(scores, columns[:, :k], None)
    return best, columns, in_doubt


def _top_by_keys(scores: Tensor, k: int, candidate: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the `k` highest scores and their columns, by keys of the score, whether it is padding, and the column.

    Only scores at or above a floor are put in order. For example, two layers of the row 3, 1, 7, 5, 4, 2 have the
    highest scores 5, 4, 7 at their three places. The second highest of these, 5, is the floor for lists of two: at
    least two scores reach it.
    """
    values = scores.numpy()
    num_rows, width = values.shape

    # Find the floor of each row.
    num_layers = min(_MOST_LAYERS, max(1, width // (4 * k)))
    highest = values[:, : width - width % num_layers].reshape(num_rows, num_layers, -1).max(axis=1)
    highest.partition(-k, axis=1)
    floor = highest[:, -k, None]

    # Make a key for each score that reaches it.
    cells = np.flatnonzero(~(values < floor))  # NaN is not below
    row_start = np.arange(0, values.size + 1, width)
    num_listed = np.diff(np.searchsorted(cells, row_start))
    column = cells - np.repeat(row_start[:-1], num_listed)
    cell_keys = keys_of_scores(values.ravel()[cells]) | column
    if candidate is not None:
        cell_keys |= np.where(candidate.numpy().ravel()[cells], 0, _IS_PADDING)

    # Sort the keys in padded rows.
    keys = np.full((num_rows, num_listed.max()), np.iinfo(np.int64).max)
    keys[np.arange(keys.shape[1]) < num_listed[:, None]] = cell_keys
    keys.sort(axis=1)
    keys = keys[:, :k]
    best = torch.from_numpy(scores_of_keys(keys))
    columns = torch.from_numpy(keys & _LOW)
    if candidate is not None:
        columns.masked_fill_(columns >= _IS_PADDING, -1)
    return best, columns


def keys_of_scores(scores: np.ndarray) -> np.ndarray:
    """Return int64 keys that rise as scores of float32 fall, NaN first; the lower 32 bits are free.

    The bits of a float rise with its size: -1 is 0xbf800000, 0 is 0, and 2 is 0x40000000 after 1, 0x3f800000.
    """
    scores = scores + np.float32(0)  # -0.0 becomes 0.0, as they are equal
    scores[np.isnan(scores)] = np.nan  # without a sign
    bits = scores.view(np.int32)
    return (~(bits ^ (bits >> 31 & 0x7FFFFFFF))).astype(np.int64) << 32


def rising_keys(scores: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Return integers from 0 to 2^32 - 1 that rise as scores of float32 do, on any device; no score may be NaN."""
    bits = (scores + 0).view(torch.int32)  # -0.0 becomes 0.0, as they are equal
    rising = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return rising.long().add_(1 << 31)


def scores_of_keys(keys: np.ndarray) -> np.ndarray:
    """Return the scores of the keys by `keys_of_scores`."""
    bits = ~(keys >> 32).astype(np.int32)
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)).view(np.float32)


def _unordered_columns(scores: Tensor, k: int, candidate: Tensor | None) -> Int[Tensor, "rows k"]:
    """Return the columns by `topk`; search rows again if the first score left out equals the last one of the list."""
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if best.shape[1] <= k:
        return columns
    edge = best[:, k - 1 : k]
    tied = (best[:, k - 1] == best[:, k]).nonzero()[:, 0]
    columns = columns[:, :k]
    for rows in tied.split(max(1, _SCORES_AT_A_TIME // scores.shape[1])):
        is_candidate = None if candidate is None else candidate[rows]
        is_selected = _up_to_edge(scores[rows], edge[rows], k, is_candidate)
        columns[rows] = is_selected.nonzero()[:, 1].view(len(rows), k)
    return columns


def _in_order(scores: Tensor, columns: Tensor, candidate: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the scores in these columns, falling, and the columns: equal scores in their order, padding last."""
    # Columns of no candidate are moved behind all others, by the width of the row, sorted, and moved back.
    width = scores.shape[1]
    if candidate is not None:
        columns = columns.add(width).where(~candidate.gather(1, columns), columns)
    columns = columns.sort(dim=1).values
    best, order = scores.gather(1, columns.remainder(width)).sort(dim=1, descending=True, stable=True)
    return best, columns.masked_fill(columns >= width, -1).gather(1, order)


def _up_to_edge(scores: Tensor, edge: Tensor, k: int, candidate: Tensor | None) -> Bool[Tensor, "rows columns"]:
    """Mark the scores above the edge, and the first scores at the edge, `k` in all; candidates first."""
    scores = scores.nan_to_num(torch.inf, torch.inf, -torch.inf)
    edge = edge.nan_to_num(torch.inf, torch.inf, -torch.inf)
    is_selected = scores > edge
    is_level = scores == edge
    num_left = k - is_selected.sum(1, keepdim=True)
    if candidate is None:
        return is_selected | _first(is_level, num_left)
    is_selected |= _first(is_level & candidate, num_left)
    num_left = k - is_selected.sum(1, keepdim=True)
    return is_selected | _first(is_level & ~candidate, num_left)


def _first(marked: Bool[Tensor, "rows columns"], number: Int[Tensor, "rows 1"]) -> Bool[Tensor, "rows columns"]:
    """Mark the first `number` of the marked columns of each row."""
    return (marked.cumsum(1, dtype=torch.int32) <= number).logical_and_(marked)
