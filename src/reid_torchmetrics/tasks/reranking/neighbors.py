"""The nearest items of each row, and the union of queries and gallery as one set of items without repetitions."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import Walk, cut_in_panels, stable_top_k
from reid_torchmetrics.functional.retrieval.scores import Rows, Scores
from reid_torchmetrics.tasks.walks import bytes_of_sort, share_tiles


class Neighbors(NamedTuple):
    """The best items of each row, best first; among equal scores the lower position goes first."""

    positions: Int[Tensor, "rows k"]
    scores: Float[Tensor, "rows k"]
    """infinity for the row's own item"""
    lowest: Float[Tensor, " rows"]
    """the lowest of all scores of the row"""
    with_itself: Float[Tensor, " rows"]
    """the score of the row's own item; 0 where rows are not items"""


def find_neighbors(scores: Scores, k: int, *, rows_are_items: bool = False) -> Neighbors:
    """Find the `k` best of at least one item for each row of `scores`; all items if there are fewer.

    With `rows_are_items` row i is item i. An item is its own first neighbor then, even if rounding lowers its score.
    """
    k = min(k, scores.num_gallery)
    no_scores = torch.empty(0, dtype=scores.dtype, device=scores.device)
    parts = [
        Neighbors(
            positions=no_scores.long().view(0, k),
            scores=no_scores.view(0, k),
            lowest=no_scores,
            with_itself=no_scores,
        )
    ]
    size = cut_in_panels(scores, bytes_of_sort(scores))
    find_in_tile = functools.partial(_find_in_tile, k=k, rows_are_items=rows_are_items)
    for _, part in share_tiles(scores, size, find_in_tile, "Neighbors"):
        parts.append(part)
    neighbors = Neighbors(*map(torch.cat, zip(*parts, strict=True)))
    _checks.no_nan(scores.argument, neighbors.lowest)
    return neighbors


def _find_in_tile(walk: Walk, rows: slice, *, k: int, rows_are_items: bool) -> Neighbors:
    """Find the neighbors of the rows `rows`: the best of each panel, and then the best of these."""
    panel_neighbors = []
    for panel, scores in walk.panels_of(rows):
        new_scores = scores[:, panel.num_seen :]
        first_column = panel.columns.start + panel.num_seen
        lowest = new_scores.amin(1)
        with_itself = torch.zeros_like(new_scores[:, 0])
        if rows_are_items:
            # Read the scores of rows with themselves, as far as they are in these columns, and write infinity there.
            offset = rows.start - first_column
            diagonal = new_scores.diagonal(offset)
            first_row = max(0, -offset)
            with_itself[first_row : first_row + len(diagonal)] = diagonal
            diagonal.fill_(torch.inf)
        best, columns = stable_top_k(new_scores, min(k, new_scores.shape[1]))
        panel_neighbors.append(Neighbors(columns + first_column, best, lowest, with_itself))

    # Panels are in the order of positions, so equal scores of two panels are in that order, too: [rows, panels * k].
    positions, candidates, lowest_of_panels, with_itself_in_panels = zip(*panel_neighbors, strict=True)
    best, columns = stable_top_k(torch.cat(candidates, dim=1), k)
    return Neighbors(
        positions=torch.cat(positions, dim=1).gather(1, columns),
        scores=best,
        lowest=torch.stack(lowest_of_panels).amin(0),
        with_itself=torch.stack(with_itself_in_panels).sum(0),
    )


class ItemSet(NamedTuple):
    """The queries that are not in the gallery, then the gallery, as one set of items."""

    rows: Rows
    query_items: Int[Tensor, " queries"]
    """the item of each query"""
    gallery_items: Int[Tensor, " gallery"]
    """the item of each gallery position"""

    @classmethod
    def unite(cls, query: Tensor, gallery: Tensor, self_index: Tensor | _checks.Integers | None) -> ItemSet:
        """Unite embeddings; `self_index` holds each query's own position in the gallery, or -1.

        For instance the self-indices -1, 0, -1 and a gallery of 2 give 4 items: queries 0 and 2, then the gallery. The
        items of the queries are 0, 2, 1, and of the gallery 2, 3.

        Raises:
            TypeError: `self_index` is not an integer tensor.
            ValueError: its shape or values do not fit.
        """
        if self_index is None:
            self_index = torch.full((len(query),), -1, device=query.device)
        self_index = _checks.integer_labels("self_index", self_index, len(query), query.device)
        _checks.in_range("self_index", self_index, -1, len(gallery))
        self_index = self_index.long()
        is_new = self_index < 0
        num_new = int(is_new.sum())
        query_items = torch.where(is_new, is_new.cumsum(0) - 1, self_index + num_new)
        gallery_items = torch.arange(num_new, num_new + len(gallery), device=query.device)
        new_queries = query[is_new] if num_new < len(query) else query
        return cls(Rows([new_queries, gallery]), query_items, gallery_items)
