"""Count negatives without sorting them, for devices on which sorting costs more than the scores.

The thresholds of a query are few, so every score is looked up among them and not they among the scores. One query with
the thresholds .8 and .5:

    scores                       .9   .8   .6   .1   .5
    thresholds at or below        2    2    1    0    1      if negatives level with a threshold count, else 2 1 1 0 0
    how many have 0, 1, 2         1    2    2
    at or above .5, .8                 4    2                summed from the end
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

_FEW = 6  # thresholds up to which a pass over the scores for each costs less than looking the scores up
_SCORES = 1 << 22  # that are looked up at a time: their bins, of 4 bytes each, stay in the cache of a large GPU
_MOST_BINS = torch.iinfo(torch.int32).max


def count_by_lookup(
    scores: Float[Tensor, "queries columns"],
    num_removed: Int[Tensor, " queries"],
    thresholds: Float[Tensor, "queries padded"],
    *,
    or_tied: Sequence[bool],
) -> Int[Tensor, "counts queries padded"]:
    """Count the negatives above each threshold, or level with it too, once for each of `or_tied`.

    Thresholds fall within a row. What was taken out scores minus infinity.
    """
    counts = torch.empty((len(or_tied), *thresholds.shape), dtype=torch.int64, device=scores.device)
    count = _count_by_comparison if thresholds.shape[1] <= _FEW else _count_in_bins
    for number, tied in enumerate(or_tied):
        count(scores, thresholds, counts[number], or_tied=tied)
    # A threshold of minus infinity is level with what was taken out.
    return torch.minimum(counts, (scores.shape[1] - num_removed)[:, None])


def _count_by_comparison(scores: Tensor, thresholds: Tensor, out: Tensor, *, or_tied: bool) -> None:
    compare = torch.ge if or_tied else torch.gt
    for column, threshold in enumerate(thresholds.unbind(1)):
        torch.sum(compare(scores, threshold[:, None]), dim=1, out=out[:, column])


def _count_in_bins(scores: Tensor, thresholds: Tensor, out: Tensor, *, or_tied: bool) -> None:
    num_bins = thresholds.shape[1] + 1
    rising = thresholds.flip(1)
    step = max(1, min(_SCORES // scores.shape[1], _MOST_BINS // num_bins))
    first_bin = torch.arange(0, min(step, len(scores)) * num_bins, num_bins, dtype=torch.int32, device=scores.device)
    parts = zip(scores.split(step), rising.split(step), out.split(step), strict=True)
    for part, edges, found in parts:
        # The bin of a score, [queries, columns], is the number of thresholds below it; each query has bins of its own.
        bins = torch.searchsorted(edges, part, right=or_tied, out_int32=True).add_(first_bin[: len(part), None])
        sizes = torch.bincount(bins.view(-1), minlength=len(part) * num_bins).view(len(part), num_bins)
        # Of the best threshold only the last bin is above, and so on.
        torch.cumsum(sizes[:, 1:].flip(1), dim=1, out=found)
