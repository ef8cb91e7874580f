"""Walk a retrieval problem in tiles of bounded memory and rank the positives of each.

A tile is a range of queries with their scores against the whole gallery. Where not even a few queries fit, the gallery
is cut into panels and every score is computed twice: once to read the positives, once to count the negatives.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.counting import negatives_above, negatives_before, sort_rows
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores, equal_ranges

_BYTES_PER_POSITIVE = 64  # columns, masks, scores and counts of one positive while its tile is ranked
_BYTES_PER_SORTED = 16  # values, indices and workspace of torch's sort, which other devices than the CPU need
_FEWEST_ROWS = 8  # with fewer queries a tile, the matrix product costs more than computing every score twice
_MOST_ROWS = 256  # queries a tile where every score is computed twice


class TileRanks(NamedTuple):
    """What `PositiveRanks` holds, for the queries of one tile."""

    rank: Int[Tensor, " positives"]
    num_positives: Int[Tensor, " queries"]
    num_candidates: Int[Tensor, " queries"]


class _Positives(NamedTuple):
    """The positives of a tile's queries, best first, then padding."""

    scores: Float[Tensor, "queries padded"]
    """minus infinity at padding"""
    columns: Int[Tensor, "queries padded"]
    """in the order of the scores under "stable" only"""
    lowest: Float[Tensor, " queries"]
    """score of the last positive; infinity for a query without positives"""


class Tiles:
    """One retrieval problem, cut so that a tile and what it takes to rank it stay within `scores.max_bytes`."""

    def __init__(self, scores: Scores, relevance: Relevance, *, ties: str) -> None:
        """Choose the number of queries and the width of the panels, and reserve the scores of one panel."""
        self._scores = scores
        self._relevance = relevance
        self._ties = ties
        self._num_rows, width = self._cut(scores.max_bytes)
        self._panels = equal_ranges(slice(0, scores.num_gallery), width)
        self._buffer = torch.empty(self._num_rows * width, dtype=scores.dtype, device=scores.device)

    def rows(self) -> list[slice]:
        """The queries of each tile."""
        total = self._scores.num_queries
        return [slice(first, min(first + self._num_rows, total)) for first in range(0, total, self._num_rows)]

    def rank(self, rows: slice) -> TileRanks:
        """Rank the positives of the queries `rows`."""
        tile = self._relevance.tile(rows)
        num_positives = tile.positive.sum(1)
        before = torch.zeros_like(tile.columns)
        if bool(num_positives.any()):
            positives = self._positives(rows, tile)
            counted = 0
            for panel in self._panels:
                values, removed = self._negatives(rows, tile, panel, counted)
                before += self._count(values, removed, positives, panel)
                counted = panel.stop
        ordinal = torch.arange(1, before.shape[1] + 1, device=before.device)
        return TileRanks((before + ordinal)[ordinal <= num_positives[:, None]], num_positives, tile.num_candidates)

    def _positives(self, rows: slice, tile: TileRelevance) -> _Positives:
        """Read the scores of the positives; one panel is left filled for `_negatives`."""
        scores = torch.full(tile.columns.shape, -torch.inf, dtype=self._scores.dtype, device=self._scores.device)
        for panel in self._panels:
            values = self._fill(rows, panel)
            inside, local = _locate(tile.columns, panel)
            scores = torch.where(inside & tile.positive, values.gather(1, local), scores)
        _checks.no_nan(self._scores.argument, found=bool(scores.isnan().any()))
        lowest = scores.where(tile.positive, torch.inf).amin(1)
        if self._ties == "stable":
            return _Positives(*_best_first(scores, tile), lowest)
        return _Positives(sort_rows(scores, argument=self._scores.argument).flip(1), tile.columns, lowest)

    def _negatives(
        self, rows: slice, tile: TileRelevance, panel: slice, counted: int
    ) -> tuple[Float[Tensor, "queries columns"], Tensor]:
        """A panel's scores with all but the negatives taken out, and what was taken out.

        That is the number per query, or under "stable" the mask. Columns below `counted` belong to the panel before.
        """
        values = self._view(rows, panel) if len(self._panels) == 1 else self._fill(rows, panel)
        inside, local = _locate(tile.columns, panel)
        inside &= tile.same_identity
        row_start = torch.arange(len(values), device=values.device)[:, None] * values.shape[1]
        own_run = (row_start + local)[inside]
        removed = self._relevance.dropped(rows, panel)
        if removed is None and counted <= panel.start and self._ties != "stable":
            values.view(-1).index_fill_(0, own_run, -torch.inf)  # spares the passes over all scores below
            return values, inside.sum(1)
        removed = torch.zeros_like(values, dtype=torch.bool) if removed is None else removed
        removed.view(-1).index_fill_(0, own_run, True)  # noqa: FBT003 - the fill value
        removed[:, : max(0, counted - panel.start)] = True
        values.masked_fill_(removed, -torch.inf)
        return values, removed if self._ties == "stable" else removed.sum(1)

    def _count(
        self,
        values: Float[Tensor, "queries columns"],
        removed: Tensor,
        positives: _Positives,
        panel: slice,
    ) -> Int[Tensor, "queries padded"]:
        """Count a panel's negatives before each positive."""
        argument = self._scores.argument
        if self._ties == "stable":
            places = positives.columns - panel.start
            return negatives_before(values, removed, positives.scores, places, argument=argument)
        ordered = sort_rows(values, argument=argument, floor=positives.lowest)
        return negatives_above(ordered, removed, positives.scores, or_tied=self._ties == "pessimistic")

    def _fill(self, rows: slice, panel: slice) -> Float[Tensor, "queries columns"]:
        values = self._view(rows, panel)
        self._scores.fill(values, rows, panel)
        return values

    def _view(self, rows: slice, panel: slice) -> Float[Tensor, "queries columns"]:
        shape = (rows.stop - rows.start, panel.stop - panel.start)
        return self._buffer[: shape[0] * shape[1]].view(shape)

    def _cut(self, max_bytes: int) -> tuple[int, int]:
        """Queries per tile and gallery columns per panel."""
        num_queries, num_gallery = self._scores.num_queries, self._scores.num_gallery
        per_score = self._bytes_per_score()
        per_positives = _BYTES_PER_POSITIVE * self._relevance.longest_run
        rows = max_bytes // max(1, per_score * num_gallery + per_positives)
        if rows >= min(_FEWEST_ROWS, num_queries):
            return max(1, min(rows, num_queries)), num_gallery
        half = max_bytes // 2  # for the scores of a panel; the other half is for the positives
        rows = max(1, min(_MOST_ROWS, num_queries, half // max(per_score, per_positives)))
        return rows, max(1, min(num_gallery, half // (rows * per_score)))

    def _bytes_per_score(self) -> int:
        size = self._scores.dtype.itemsize
        if self._scores.device.type != "cpu":
            size += _BYTES_PER_SORTED
        if self._ties == "stable":
            size += self._scores.dtype.itemsize + 1
        return size


def _locate(columns: Tensor, panel: slice) -> tuple[Bool[Tensor, "queries padded"], Int[Tensor, "queries padded"]]:
    """Which gallery columns lie in a panel, and where; what lies outside gets some place inside."""
    inside = (columns >= panel.start) & (columns < panel.stop)
    return inside, (columns - panel.start).clamp_(0, panel.stop - panel.start - 1)


def _best_first(scores: Tensor, tile: TileRelevance) -> tuple[Tensor, Tensor]:
    """Scores and columns of the positives in the order of the scores, equal ones in that of the gallery.

    Padding follows, even after positives that score minus infinity; its column is -1, which is no place.
    """
    real_first = (~tile.positive).long().argsort(dim=1, stable=True)
    scores, order = scores.gather(1, real_first).sort(dim=1, descending=True, stable=True)
    columns = tile.columns.where(tile.positive, -1)
    return scores, columns.gather(1, real_first).gather(1, order)
