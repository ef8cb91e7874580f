"""The items that score highest for every row, found in tiles of bounded memory."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import stable_top_k
from reid_torchmetrics.functional.retrieval.scores import Scores, equal_ranges

_BYTES_PER_SORTED = 16  # values, indices and workspace of torch's topk, on other devices than the CPU
_MOST_ROWS = 256  # with more rows a tile, memory is only touched for the first time


class Neighbours(NamedTuple):
    """The best items of every row, best first; among equal scores the lower position goes first."""

    positions: Int[Tensor, "rows k"]
    scores: Float[Tensor, "rows k"]
    """infinity for the row's own item"""
    lowest: Float[Tensor, " rows"]
    """the lowest of all scores of the row"""
    own: Float[Tensor, " rows"]
    """the score of the row's own item; 0 where it has none"""


def find_neighbours(scores: Scores, k: int, *, of_items: bool = False) -> Neighbours:
    """Find the `k` best of at least one item for every row of `scores`; all items if there are fewer.

    `of_items` says that row i is item i. An item is its own first neighbour, whatever rounding does to its score.
    """
    k = min(k, scores.num_gallery)
    num_rows, width = _cut(scores)
    panels = equal_ranges(slice(0, scores.num_gallery), width)
    buffer = torch.empty(num_rows * width, dtype=scores.dtype, device=scores.device)
    none = buffer.new_empty(0)
    parts = [Neighbours(none.long().view(0, k), none.view(0, k), none, none)]
    for first in range(0, scores.num_queries, num_rows):
        rows = slice(first, min(first + num_rows, scores.num_queries))
        tile = buffer[: (rows.stop - first) * width].view(-1, width)
        parts.append(_nearest_of(scores, rows, panels, tile, k=k, of_items=of_items))
    found = Neighbours(*map(torch.cat, zip(*parts, strict=True)))
    _checks.no_nan(scores.argument, found.lowest)
    return found


def _nearest_of(
    scores: Scores, rows: slice, panels: list[slice], values: Tensor, *, k: int, of_items: bool
) -> Neighbours:
    """Neighbours of the rows `rows`: the best of every panel, and of these the best."""
    counted, found = 0, []
    for panel in panels:
        scores.fill(values, rows, panel)
        fresh = values[:, counted - panel.start :]  # the last panel overlaps the one before
        lowest, own = fresh.amin(1), torch.zeros_like(fresh[:, 0])
        if of_items:
            _take_own(fresh, own, rows.start - counted)
        best, columns = stable_top_k(fresh, min(k, fresh.shape[1]))
        found.append(Neighbours(columns + counted, best, lowest, own))
        counted = panel.stop
    if len(found) == 1:
        return found[0]
    positions, candidates, lows, owns = zip(*found, strict=True)
    best, columns = stable_top_k(torch.cat(candidates, dim=1), k)
    nearest_positions = torch.cat(positions, dim=1).gather(1, columns)
    return Neighbours(nearest_positions, best, torch.stack(lows).amin(0), torch.stack(owns).sum(0))


def _take_own(values: Tensor, own: Tensor, offset: int) -> None:
    """Read the scores of the rows' own items, those that are among these columns, and put infinity in their place."""
    diagonal = values.diagonal(offset)
    start = max(0, -offset)
    own[start : start + len(diagonal)] = diagonal
    diagonal.fill_(torch.inf)


def _cut(scores: Scores) -> tuple[int, int]:
    """Rows per tile and columns per panel."""
    per_score = scores.dtype.itemsize + (0 if scores.device.type == "cpu" else _BYTES_PER_SORTED)
    num_scores = max(1, scores.max_bytes // per_score)
    num_rows = max(1, min(_MOST_ROWS, scores.num_queries, isqrt(num_scores)))
    return num_rows, min(scores.num_gallery, num_scores // num_rows)
