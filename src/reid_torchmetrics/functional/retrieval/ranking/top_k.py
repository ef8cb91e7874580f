"""The k highest scores of every row, equal scores in column order; `torch.topk` leaves their order open."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_STRIPE = 16  # columns with one maximum; with more, the columns that remain leave the cache
_LEAST_STRIPES = 8  # for each score that is wanted: with fewer, most of a row would remain
_SCORES_AT_A_TIME = 1 << 17  # looked through at a time to break ties: 12 bytes for each stay in the cache


def stable_top_k(
    scores: Float[Tensor, "rows columns"], k: int, candidate: Bool[Tensor, "rows columns"] | None = None
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The `k` highest scores of every row, falling, and their columns; `k` is at most the number of columns.

    Items that are no `candidate` must score minus infinity. They are listed behind all candidates, in column -1. NaN is
    higher than any number.

    In the row 3, 5, 3, 3 with k = 2 `topk` may give the columns 1 and 3. The first score left out equals the last score
    of the list, 3, so the row is searched again: 5 is above this edge, and leaves room for one score at the edge, the
    first of them, in column 0. Few rows have such a tie.
    """
    # One more than is wanted tells whether equal scores lie on both sides of the edge.
    best, columns = _highest(scores, min(k + 1, scores.shape[1]))
    tied = (best[:, k - 1] == best[:, -1]).nonzero()[:, 0] if best.shape[1] > k else columns.new_empty(0)
    edge, columns = best[:, k - 1 : k], columns[:, :k]
    for rows in tied.split(max(1, _SCORES_AT_A_TIME // max(1, scores.shape[1]))):
        columns[rows] = _columns_to_edge(scores[rows], edge[rows], k, None if candidate is None else candidate[rows])
    # In the order of columns, padding last, a stable sort of the scores is all that is left to do.
    columns, is_padding = _by_column(columns, candidate)
    best, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    columns = columns if is_padding is None else columns.masked_fill(is_padding, -1)
    return best, columns.gather(1, order)


def _highest(scores: Float[Tensor, "rows columns"], k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """`topk`, on a CPU in a quarter of its time.

    A stripe is every n-th column. The k stripes with the highest maxima hold at least k scores that are no lower than
    any other, so only they are searched, and the columns that are left over at the end.
    """
    num_stripes = scores.shape[1] // _STRIPE
    if scores.device.type != "cpu" or num_stripes < _LEAST_STRIPES * max(1, k):
        return scores.topk(k, dim=1)
    in_stripes = num_stripes * _STRIPE
    maxima = scores[:, :in_stripes].unflatten(1, (_STRIPE, num_stripes)).amax(1)
    steps = torch.arange(0, in_stripes, num_stripes, device="cpu")[:, None]
    columns = maxima.topk(k, sorted=False).indices[:, None] + steps
    left_over = torch.arange(in_stripes, scores.shape[1], device="cpu").expand(len(scores), -1)
    columns = torch.cat([columns.flatten(1), left_over], dim=1)
    best, places = scores.gather(1, columns).topk(k, dim=1)
    return best, columns.gather(1, places)


def _columns_to_edge(scores: Tensor, edge: Tensor, k: int, candidate: Tensor | None) -> Int[Tensor, "rows k"]:
    """Columns of the scores above the edge, and of the first scores at the edge, `k` in all; candidates first."""
    # All above the edge, then the first scores level with it, while there is room.
    chosen, level = (scores <= edge).logical_not_(), scores == edge
    room = k - chosen.sum(1, keepdim=True)
    if candidate is None:
        chosen |= _first(level, room)
    else:
        chosen |= _first(level & candidate, room)
        chosen |= _first(level & ~candidate, k - chosen.sum(1, keepdim=True))
    return chosen.nonzero()[:, 1].view(len(scores), k)


def _first(marked: Bool[Tensor, "rows columns"], number: Int[Tensor, "rows 1"]) -> Bool[Tensor, "rows columns"]:
    """The first `number` of the marked columns of each row."""
    return (marked.cumsum(1, dtype=torch.int32) <= number).logical_and_(marked)


def _by_column(columns: Tensor, candidate: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Sort the columns of each row, padding behind the candidates, and mark the padding."""
    if candidate is None:
        return columns.sort(dim=1).values, None
    # Columns of no candidate are moved behind all others, by the width of the row, sorted, and moved back.
    width = candidate.shape[1]
    keys = columns.add(width).where(~candidate.gather(1, columns), columns).sort(dim=1).values
    is_padding = keys >= width
    return keys.sub(width).where(is_padding, keys), is_padding
