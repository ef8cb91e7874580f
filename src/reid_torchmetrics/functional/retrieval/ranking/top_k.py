"""The k highest scores of every row, equal scores in column order; `torch.topk` leaves their order open."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

_SCORES_AT_A_TIME = 1 << 19  # looked through at a time: they, and what looking needs, stay in the cache
_MOST_LAYERS = 16  # that a row is folded into
_SORTED_WIDTH = 2048  # columns; rows up to here are sorted as a whole on devices: that needs no wait
_LOW = (1 << 32) - 1
_IS_PADDING = 1 << 31


def stable_top_k(
    scores: Float[Tensor, "rows columns"], k: int, candidate: Bool[Tensor, "rows columns"] | None = None
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The `k` highest scores of every row, falling, and their columns; `k` is at most the number of columns.

    Items that are no `candidate` must score minus infinity. They are listed behind all candidates, in column -1. NaN is
    higher than any number.
    """
    num_rows, width = scores.shape
    if scores.device.type != "cpu" and width <= _SORTED_WIDTH:
        every_column = torch.arange(width, device=scores.device).expand(num_rows, -1)
        best, columns = _in_order(scores, every_column, candidate)
        return best[:, :k], columns[:, :k]
    if scores.device.type != "cpu" or not k:
        return _in_order(scores, _columns_on_any_device(scores, k, candidate), candidate)
    best, columns = scores.new_empty((num_rows, k)), torch.empty((num_rows, k), dtype=torch.int64, device="cpu")

    def fill(rows: slice) -> None:
        values, marked = scores[rows].detach(), None if candidate is None else candidate[rows]
        if scores.dtype == torch.float32 and width < _IS_PADDING:
            best[rows], columns[rows] = _top_by_keys(values, k, marked)
        else:
            best[rows], columns[rows] = _in_order(values, _columns_on_cpu(values, k, marked), marked)

    workers.share(fill, segments.ranges(num_rows, max(1, _SCORES_AT_A_TIME // width)))
    return best, columns


def likely_top_k(
    scores: Float[Tensor, "rows columns"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"], Bool[Tensor, " rows"]]:
    """Return the result of `stable_top_k`, found by `topk`, and marks of the rows in doubt.

    A row is in doubt if it holds NaN, if its list holds minus infinity, or if the first score left out equals the last
    score of the list. A device is not waited for.
    """
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    is_open = best[:, 0].isnan() | best[:, k - 1].isneginf()
    if best.shape[1] > k:
        is_open |= best[:, k - 1] == best[:, k]
    return *_in_order(scores, columns[:, :k], None), is_open


def _columns_on_cpu(scores: Tensor, k: int, candidate: Tensor | None) -> Int[Tensor, "rows k"]:
    """The columns of the `k` highest scores of each row, rising; NumPy finds the k-th in a tenth of the time of `topk`.

    In the row 3, 5, 3, 3 with k = 2 the edge is 3, and 4 scores are not below it: 5, and for one place left three equal
    scores. Few rows have such a tie.
    """
    values, (num_rows, width) = scores.numpy(), scores.shape
    edge = np.partition(values, width - k, axis=1)[:, width - k, None]
    chosen = ~(values < edge)  # NaN is not below
    if np.count_nonzero(chosen) > num_rows * k:
        tied = np.flatnonzero(chosen.sum(1) > k)
        marked = None if candidate is None else candidate[tied]
        chosen[tied] = _up_to_edge(scores[tied], torch.from_numpy(edge[tied]), k, marked).numpy()
    columns = np.flatnonzero(chosen).reshape(num_rows, k)
    return torch.from_numpy(columns - width * np.arange(num_rows)[:, None])


def _top_by_keys(scores: Tensor, k: int, candidate: Tensor | None) -> tuple[Tensor, Tensor]:
    """The `k` highest scores and their columns by keys: the score, whether it is padding, and the column.

    Only scores from a floor on are put in order. Two layers of the row 3, 1, 7, 5, 4, 2 have at each place the highest
    score 5, 4, 7. Of these the second highest, 5, is the floor of lists of two: as many scores at least reach it.
    """
    values, (num_rows, width) = scores.numpy(), scores.shape
    num_layers = min(_MOST_LAYERS, max(1, width // (4 * k)))
    highest = values[:, : width - width % num_layers].reshape(num_rows, num_layers, -1).max(axis=1)
    highest.partition(-k, axis=1)
    cells = np.flatnonzero(~(values < highest[:, -k, None]))  # NaN is not below
    number = np.diff(np.searchsorted(cells, np.arange(0, values.size + 1, width)))
    listed = keys_of_scores(values.ravel()[cells]) | cells - np.repeat(np.arange(0, values.size, width), number)
    if candidate is not None:
        listed |= np.where(candidate.numpy().ravel()[cells], 0, _IS_PADDING)
    keys = np.full((num_rows, number.max()), np.iinfo(np.int64).max)
    keys[np.arange(keys.shape[1]) < number[:, None]] = listed
    keys.sort(axis=1)
    keys = keys[:, :k]
    best, columns = torch.from_numpy(scores_of_keys(keys)), torch.from_numpy(keys & _LOW)
    return best, columns if candidate is None else columns.masked_fill_(columns >= _IS_PADDING, -1)


def keys_of_scores(scores: np.ndarray) -> np.ndarray:
    """Integers of 64 bits that rise where scores of float32 fall, NaN first; the lower 32 bits are free.

    The bits of a float rise with its size: -1 is 0xbf800000, 0 is 0, and 2 is 0x40000000 after 1, 0x3f800000.
    """
    scores = scores + np.float32(0)  # -0.0 becomes 0.0, as they are equal
    scores[np.isnan(scores)] = np.nan  # without a sign
    bits = scores.view(np.int32)
    return (~(bits ^ (bits >> 31 & 0x7FFFFFFF))).astype(np.int64) << 32


def rising_keys(scores: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Integers from 0 to 2^32 - 1 that rise as scores of float32 do, on any device; none of the scores is NaN."""
    bits = (scores + 0).view(torch.int32)  # -0.0 becomes 0.0, as they are equal
    rising = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return rising.long().add_(1 << 31)


def scores_of_keys(keys: np.ndarray) -> np.ndarray:
    """The scores that keys were made of."""
    bits = ~(keys >> 32).astype(np.int32)
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)).view(np.float32)


def _columns_on_any_device(scores: Tensor, k: int, candidate: Tensor | None) -> Int[Tensor, "rows k"]:
    """By `topk`, with rows searched again where the first score left out equals the last score of the list."""
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    tied = (best[:, k - 1] == best[:, -1]).nonzero()[:, 0] if best.shape[1] > k else columns.new_empty(0)
    edge, columns = best[:, k - 1 : k], columns[:, :k]
    for rows in tied.split(max(1, _SCORES_AT_A_TIME // max(1, scores.shape[1]))):
        chosen = _up_to_edge(scores[rows], edge[rows], k, None if candidate is None else candidate[rows])
        columns[rows] = chosen.nonzero()[:, 1].view(len(rows), k)
    return columns


def _in_order(scores: Tensor, columns: Tensor, candidate: Tensor | None) -> tuple[Tensor, Tensor]:
    """The scores in these columns, falling, and the columns; in their order, padding last, a stable sort is enough."""
    # Columns of no candidate are moved behind all others, by the width of the row, sorted, and moved back.
    width = scores.shape[1]
    if candidate is not None:
        columns = columns.add(width).where(~candidate.gather(1, columns), columns)
    columns = columns.sort(dim=1).values
    best, order = scores.gather(1, columns.remainder(width)).sort(dim=1, descending=True, stable=True)
    return best, columns.masked_fill(columns >= width, -1).gather(1, order)


def _up_to_edge(scores: Tensor, edge: Tensor, k: int, candidate: Tensor | None) -> Bool[Tensor, "rows columns"]:
    """Mark the scores above the edge, and the first scores at the edge, `k` in all; candidates first."""
    # All above the edge, then the first scores level with it, while there is room.
    scores, edge = (values.nan_to_num(torch.inf, torch.inf, -torch.inf) for values in (scores, edge))
    chosen, level = scores > edge, scores == edge
    room = k - chosen.sum(1, keepdim=True)
    if candidate is None:
        return chosen | _first(level, room)
    chosen |= _first(level & candidate, room)
    return chosen | _first(level & ~candidate, k - chosen.sum(1, keepdim=True))


def _first(marked: Bool[Tensor, "rows columns"], number: Int[Tensor, "rows 1"]) -> Bool[Tensor, "rows columns"]:
    """The first `number` of the marked columns of each row."""
    return (marked.cumsum(1, dtype=torch.int32) <= number).logical_and_(marked)
