"""Walk a retrieval problem in tiles of bounded memory: the scores of positives, and the negatives before them.

A tile is a range of queries with their scores against the whole gallery. If few queries fit, the gallery is cut into
panels. Then small products give the scores of the positives first. Scores without small products are computed twice:
once to read the positives, once to count the negatives.

For example, a query has positives in the columns 1 and 4 of the gallery, and junk in column 5:

    scores              .9   .8   .5   .7   .2   .6
    read, best first    .8   .2                           the positives, then padding
    negatives           .9  -inf  .5   .7  -inf -inf      the positives and the junk are removed
    in order           -inf -inf -inf  .5   .7   .9       1 is above .8, 3 are above .2
    ranks               1 + 1 = 2 and 3 + 2 = 5           negatives before, and the place among the positives
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, size_of_walk

from .counting import Negatives, Positives, bytes_of_counting, count_true, fill_at, places_of_true
from .tie_policies import TiePolicy

_BYTES_PER_POSITIVE = 64  # columns, masks, scores and counts while the tile of the positive is ranked


@dataclass(frozen=True)
class GalleryPart:
    """All queries, the gallery items of one process, and the tie policy."""

    scores: Scores
    relevance: Relevance
    ties: TiePolicy
    places: Int[Tensor, " kept"] | None = None
    """places of the kept items in the whole gallery, ascending; None if they do not matter"""

    @property
    def keeps_thread(self) -> bool:
        """True if the calling thread must do all work, because it calls a function of the user."""
        return self.scores.keeps_thread or self.relevance.junk_pairs is not None


class Tiles:
    """A retrieval problem, cut so that a tile and the memory to rank it stay within `scores.max_bytes`.

    `read` returns the scores of a tile's positives, and `count` counts the negatives before them. If the gallery is a
    part of a larger one, `count` counts the negatives of this part before the positives of all parts.
    """

    def __init__(self, part: GalleryPart, *, longest_run: int | None = None, num_rows: int | None = None) -> None:
        """Choose the width of the panels, and reserve memory for the scores of one panel.

        Args:
            part: the queries, the gallery and the tie policy.
            longest_run: the largest number of items that are listed for a query, in all parts of the gallery; None for
                the number in this part.
            num_rows: number of queries per tile; None for the number by `size_of_tiles`.
        """
        self._scores = part.scores
        self._relevance = part.relevance
        self._ties = part.ties
        num_fitting, width = size_of_tiles(part, longest_run)
        self._walk = Walk(part.scores, num_rows or num_fitting, width)
        self._filled: slice | None = None  # the queries with scores in the buffer, if one panel is the whole gallery
        self.rows = self._walk.rows
        """the queries of each tile"""
        num_panels = len(self._walk.panels)
        is_scored_twice = num_panels > 1 and part.scores.at is None
        self.num_fills = 2 * num_panels if is_scored_twice else num_panels
        """number of times that `read` and `count` fill the buffer for a tile"""

    def read(self, rows: slice, tile: TileRelevance, *, ahead: bool = False) -> Float[Tensor, "queries padded"]:
        """Return the scores at `tile.columns`, valid for positives.

        If one panel is the whole gallery, its scores stay in memory for `count`, unless `ahead`.
        """
        has_one_panel = len(self._walk.panels) == 1
        if self._scores.at is not None and (ahead or not has_one_panel):
            scores = self._scores.at(rows, tile.columns.where(tile.listed, tile.columns[:, :1]))
        elif has_one_panel:
            columns = self._walk.panels[0].columns
            is_filled = self._filled == rows
            values = self._walk.view(rows, columns) if is_filled else self._walk.fill(rows, columns)
            scores = values.gather(1, tile.columns)
            self._filled = rows
        else:
            scores = tile.columns.new_full(tile.columns.shape, -torch.inf, dtype=self._scores.dtype)
            self._filled = None
            # Every positive lies in at least one panel. Panels that overlap have the same score of a positive.
            for panel, values in self._walk.panels_of(rows):
                inside, local = self._locate(tile, tile.positive, panel.columns)
                scores = torch.where(inside, values.gather(1, local), scores)
        _checks.no_nan(self._scores.argument, scores.where(tile.positive, 0))
        return scores

    def whole_rows(self, rows: slice) -> Float[Tensor, "queries gallery"] | None:
        """Return all scores of the queries `rows`; None for several panels, and on devices other than the CPU."""
        if len(self._walk.panels) != 1 or self._scores.device.type != "cpu":
            return None
        self._filled = rows
        return self._walk.fill(rows, self._walk.panels[0].columns)

    def count(self, rows: slice, tile: TileRelevance, positives: Positives) -> Int[Tensor, "counts queries padded"]:
        """Count the negatives before each positive; after `read` for the same queries no score is computed again.

        Under tie policies with `groups` negatives with the score of the positive count; a second count is without them.
        """
        # Elsewhere than on the CPU, looking for a negative would wait for the device.
        on_cpu = positives.scores.device.type == "cpu"
        counts = None
        if not on_cpu or (tile.num_positives < tile.num_candidates).any():
            for negatives in self.negatives(rows, tile):
                panel_counts = self._ties.count(negatives, positives)
                counts = panel_counts if counts is None else counts.add_(panel_counts)
        if counts is not None:
            return counts
        shape = (self._ties.num_counts, *positives.scores.shape)
        return torch.zeros(shape, dtype=torch.int64, device=positives.scores.device)

    def negatives(self, rows: slice, tile: TileRelevance) -> Iterator[Negatives]:
        """Yield the negatives of the queries `rows`, panel by panel."""
        for panel in self._walk.panels:
            yield self._negatives(rows, tile, panel.columns, panel.num_seen)

    def _negatives(self, rows: slice, tile: TileRelevance, columns: slice, num_seen: int) -> Negatives:
        """Return the negatives in a panel, without the columns that the panel before has counted."""
        by_place = self._ties.by_place is not None
        # `read` may have left the scores of the only panel in the buffer; counting will change them.
        is_filled = self._filled == rows
        self._filled = None
        values = self._walk.view(rows, columns) if is_filled else self._walk.fill(rows, columns)
        find_removed = functools.partial(self._removed, rows, tile, columns, num_seen)

        if self._relevance.drops_others or num_seen or by_place:
            removed = find_removed()
            values.masked_fill_(removed, -torch.inf)
            num_removed = count_true(removed)
            if by_place:
                return Negatives(values, num_removed, lambda: removed, columns.start, self._scores.argument)
        else:
            # Only listed items are removed: this saves passes over all scores.
            is_inside, local = self._locate(tile, tile.listed, columns)
            fill_at(values, local, is_inside, -torch.inf)
            num_removed = count_true(is_inside)
        return Negatives(values, num_removed, find_removed, columns.start, self._scores.argument)

    def _removed(
        self, rows: slice, tile: TileRelevance, columns: slice, num_seen: int
    ) -> Bool[Tensor, "queries columns"]:
        """Mark the removed items of a panel: all but the negatives, and the columns of the panel before."""
        removed = self._relevance.dropped(rows, columns)
        if removed is None:
            shape = (len(tile.columns), columns.stop - columns.start)
            removed = torch.zeros(shape, dtype=torch.bool, device=tile.columns.device)
        is_inside, local = self._locate(tile, tile.listed, columns)
        fill_at(removed, local, is_inside, value=True)
        removed[:, :num_seen] = True
        return removed

    def _locate(
        self, tile: TileRelevance, marks: Bool[Tensor, "queries padded"], columns: slice
    ) -> tuple[Bool[Tensor, "queries padded"], Int[Tensor, "queries padded"]]:
        """Mark the marked items of a tile that are inside a panel, and return their columns there.

        Items outside the panel get any valid column.
        """
        width = columns.stop - columns.start
        if width == self._scores.num_gallery:
            return marks, tile.columns
        inside = marks & (tile.columns >= columns.start) & (tile.columns < columns.stop)
        return inside, (tile.columns - columns.start).clamp_(0, width - 1)


def cells_of_positives(
    num_positives: Int[Tensor, " queries"], width: int, total: int | None = None
) -> Int[Tensor, " positives"]:
    """Return the cells of the positives in the flattened rows of a given width; the positives of a row come first.

    If `total`, the number of all positives, is given, a device is not waited for.
    """
    if num_positives.device.type != "cpu":
        row_start = torch.arange(len(num_positives), device=num_positives.device) * width
        return segments.runs(row_start, num_positives, total)[1]
    is_positive = torch.arange(width, device=num_positives.device) < num_positives[:, None]
    return places_of_true(is_positive)


def size_of_tiles(part: GalleryPart, longest_run: int | None = None) -> tuple[int, int]:
    """Return the queries per tile and the gallery columns per panel that fit `scores.max_bytes`.

    `longest_run` is the largest number of items that are listed for a query; None for that of this part.
    """
    if longest_run is None:
        longest_run = part.relevance.longest_run
    bytes_per_score = bytes_of_counting(part.scores, by_place=part.ties.by_place is not None)
    return size_of_walk(part.scores, bytes_per_score, per_row=_BYTES_PER_POSITIVE * longest_run)
