"""The items that score highest for every row, and queries and gallery as one set of items without repetitions."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import stable_top_k
from reid_torchmetrics.functional.retrieval.scores import Rows, Scores, Walk, bytes_of_sort, cut_in_panels, share_tiles


class Neighbors(NamedTuple):
    """The best items of every row, best first; among equal scores the lower position goes first."""

    positions: Int[Tensor, "rows k"]
    scores: Float[Tensor, "rows k"]
    """infinity for the row's own item"""
    lowest: Float[Tensor, " rows"]
    """the lowest of all scores of the row"""
    with_itself: Float[Tensor, " rows"]
    """the score of the row's own item; 0 where it has none"""


def find_neighbors(scores: Scores, k: int, *, of_items: bool = False) -> Neighbors:
    """Find the `k` best of at least one item for every row of `scores`; all items if there are fewer.

    `of_items` says that row i is item i. An item is its own first neighbor, however its score is rounded.
    """
    k = min(k, scores.num_gallery)
    none = torch.empty(0, dtype=scores.dtype, device=scores.device)
    parts = [Neighbors(none.long().view(0, k), none.view(0, k), none, none)]
    size, find = cut_in_panels(scores, bytes_of_sort(scores)), functools.partial(_nearest_of, k=k, of_items=of_items)
    parts += [part for _, part in share_tiles(scores, size, find, "Neighbors")]
    neighbors = Neighbors(*map(torch.cat, zip(*parts, strict=True)))
    _checks.no_nan(scores.argument, neighbors.lowest)
    return neighbors


def _nearest_of(walk: Walk, rows: slice, *, k: int, of_items: bool) -> Neighbors:
    """Neighbors of the rows `rows`: the best of every panel, and of these the best."""
    of_panels = []
    for panel, scores in walk.panels_of(rows):
        first, fresh = panel.columns.start + panel.num_seen, scores[:, panel.num_seen :]
        lowest, with_itself = fresh.amin(1), torch.zeros_like(fresh[:, 0])
        if of_items:
            # The scores of rows with themselves, where these columns have them: infinity goes in their place.
            offset = rows.start - first
            diagonal, start = fresh.diagonal(offset), max(0, -offset)
            with_itself[start : start + len(diagonal)] = diagonal
            diagonal.fill_(torch.inf)
        best, columns = stable_top_k(fresh, min(k, fresh.shape[1]))
        of_panels.append(Neighbors(columns + first, best, lowest, with_itself))
    # Panels are in the order of positions, so that equal scores of two panels are, too: [rows, panels * k].
    positions, candidates, lowest_of, with_itself_in = zip(*of_panels, strict=True)
    best, columns = stable_top_k(torch.cat(candidates, dim=1), k)
    nearest = torch.cat(positions, dim=1).gather(1, columns)
    return Neighbors(nearest, best, torch.stack(lowest_of).amin(0), torch.stack(with_itself_in).sum(0))


class ItemSet(NamedTuple):
    """The queries that are not in the gallery, then the gallery."""

    rows: Rows
    of_query: Int[Tensor, " queries"]
    """the item of every query"""
    of_gallery: Int[Tensor, " gallery"]
    """the item of everything in the gallery"""

    @classmethod
    def of(cls, query: Tensor, gallery: Tensor, self_index: Tensor | _checks.Integers | None) -> ItemSet:
        """Unite embeddings; `self_index` holds every query's own position in the gallery, or -1.

        Raises:
            TypeError: `self_index` is not an integer tensor.
            ValueError: its shape or values do not fit.
        """
        self_index = torch.full((len(query),), -1, device=query.device) if self_index is None else self_index
        self_index = _checks.integer_labels("self_index", self_index, len(query), query.device)
        _checks.in_range("self_index", self_index, -1, len(gallery))
        self_index, is_new = self_index.long(), self_index < 0
        num_new = int(is_new.sum())
        of_query = torch.where(is_new, is_new.cumsum(0) - 1, self_index + num_new)
        of_gallery = torch.arange(num_new, num_new + len(gallery), device=query.device)
        return cls(Rows([query[is_new] if num_new < len(query) else query, gallery]), of_query, of_gallery)
