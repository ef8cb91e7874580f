"""The items that score highest for every row, found in tiles of bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import stable_top_k
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, bytes_per_score, cut_in_panels


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
    walk = Walk(scores, *cut_in_panels(scores, bytes_per_score(scores)))
    none = torch.empty(0, dtype=scores.dtype, device=scores.device)
    parts = [Neighbours(none.long().view(0, k), none.view(0, k), none, none)]
    parts += [_nearest_of(walk, rows, k, of_items=of_items) for rows in walk.rows]
    found = Neighbours(*map(torch.cat, zip(*parts, strict=True)))
    _checks.no_nan(scores.argument, found=bool(found.lowest.isnan().any()))
    return found


def _nearest_of(walk: Walk, rows: slice, k: int, *, of_items: bool) -> Neighbours:
    """Neighbours of the rows `rows`: the best of every panel, and of these the best."""
    found = []
    for panel, scores in walk.panels_of(rows):
        first, fresh = panel.columns.start + panel.num_seen, scores[:, panel.num_seen :]
        lowest, own = fresh.amin(1), torch.zeros_like(fresh[:, 0])
        if of_items:
            _take_own(fresh, own, rows.start - first)
        best, places = stable_top_k(fresh, min(k, fresh.shape[1]))
        found.append(Neighbours(places + first, best, lowest, own))
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
