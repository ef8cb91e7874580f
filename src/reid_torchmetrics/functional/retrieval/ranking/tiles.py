"""Walk a retrieval problem in tiles of bounded memory: the scores of positives, and the negatives before them.

A tile is a range of queries with their scores against the whole gallery. Where few queries fit, the gallery is cut into
panels. Then small products give the scores of the positives first. Where only whole tiles of scores can, every score is
computed twice: once to read the positives, once to count the negatives.

One query with its items in the columns 1, 4 and 5 of the gallery, the last of them junk:

    scores              .9   .8   .5   .7   .2   .6
    read, best first    .8   .2                           the positives, then padding
    negatives           .9  -inf  .5   .7  -inf -inf      3 are taken out, also the junk
    in order           -inf -inf -inf  .5   .7   .9       1 is above .8, 3 are above .2
    ranks               1 + 1 = 2 and 3 + 2 = 5           negatives before, and the place among the positives
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, size_of_walk

from .counting import Negatives, Positives, bytes_of_counting, count_true, fill_at, places_of_true
from .tie_policies import TiePolicy

_BYTES_PER_POSITIVE = 64  # columns, masks, scores and counts of one positive while its tile is ranked


@dataclass(frozen=True)
class GalleryPart:
    """All queries against one process's part of the gallery, and their tie policy."""

    scores: Scores
    relevance: Relevance
    ties: TiePolicy
    places: Int[Tensor, " kept"] | None = None
    """places of the kept items in the whole gallery, ascending; None where they do not matter"""

    @property
    def keeps_thread(self) -> bool:
        """Whether the calling thread must do all work, because of a function of the user."""
        return self.scores.keeps_thread or self.relevance.junk_pairs is not None


class Tiles:
    """One retrieval problem, cut so that a tile and what it takes to rank it stay within `scores.max_bytes`.

    `read` gives the scores of a tile's positives, and `count` counts the negatives before positives: where the gallery
    is a part of a larger one, this part's negatives before the positives of all parts.
    """

    def __init__(self, part: GalleryPart, *, longest_run: int | None = None, num_rows: int | None = None) -> None:
        """Choose the width of the panels, and reserve the scores of one panel.

        `num_rows` is the number of queries a tile, that of `size_of_tiles` unless given, and `longest_run` the largest
        number of gallery items with a query's identity, in all parts of the gallery.
        """
        self._scores, self._relevance, self._ties = part.scores, part.relevance, part.ties
        fitting, width = size_of_tiles(part, longest_run)
        self._walk = Walk(part.scores, num_rows or fitting, width)
        self._filled: slice | None = None  # the queries with scores in the buffer, where one panel is the gallery
        self.rows = self._walk.rows
        """the queries of each tile"""

    def read(self, rows: slice, tile: TileRelevance, *, ahead: bool = False) -> Float[Tensor, "queries padded"]:
        """Scores at `tile.columns`, where they are positive; one panel is left filled for `count`, unless `ahead`."""
        if self._scores.at is not None and (ahead or len(self._walk.panels) > 1):
            scores = self._scores.at(rows, tile.columns.where(tile.listed, tile.columns[:, :1]))
        elif len(self._walk.panels) == 1:
            whole, columns = self._walk.view, self._walk.panels[0].columns
            scores = (whole(rows, columns) if self._filled == rows else self._walk.fill(rows, columns)).gather(
                1, tile.columns
            )
            self._filled = rows
        else:
            scores, self._filled = tile.columns.new_full(tile.columns.shape, -torch.inf, dtype=self._scores.dtype), None
            # Every positive lies in one panel at least; where two panels overlap, both have the same score of it.
            for panel, values in self._walk.panels_of(rows):
                inside, local = self._locate(tile, tile.positive, panel.columns)
                scores = torch.where(inside, values.gather(1, local), scores)
        _checks.no_nan(self._scores.argument, scores.where(tile.positive, 0))
        return scores

    def whole_rows(self, rows: slice) -> Float[Tensor, "queries gallery"] | None:
        """All scores of the queries `rows`, where one panel is the gallery, on the CPU; None elsewhere."""
        if len(self._walk.panels) != 1 or self._scores.device.type != "cpu":
            return None
        self._filled = rows
        return self._walk.fill(rows, self._walk.panels[0].columns)

    def count(self, rows: slice, tile: TileRelevance, positives: Positives) -> Int[Tensor, "counts queries padded"]:
        """Count the negatives before each positive; right after `read` of the same queries no score is computed again.

        Under tie policies with `groups` negatives with the positive's score go first; a second count is without them.
        """
        # Whether there is a negative at all is asked where no device is waited for.
        on_cpu = positives.scores.device.type == "cpu"
        if self._walk.panels and (not on_cpu or (tile.num_positives < tile.num_candidates).any()):
            parts = (self._ties.count(negatives, positives) for negatives in self.negatives(rows, tile))
            return functools.reduce(operator.iadd, parts)
        shape = (self._ties.num_counts, *positives.scores.shape)
        return torch.zeros(shape, dtype=torch.int64, device=positives.scores.device)

    def negatives(self, rows: slice, tile: TileRelevance) -> Iterator[Negatives]:
        """The negatives of the queries `rows`, panel by panel."""
        return (self._negatives(rows, tile, *panel) for panel in self._walk.panels)

    def _negatives(self, rows: slice, tile: TileRelevance, columns: slice, num_seen: int) -> Negatives:
        """Take all but the negatives out of a panel, and the columns that the panel before has counted."""
        by_place, argument = self._ties.by_place is not None, self._scores.argument
        # With one panel `read` has left its scores in the buffer; counting changes them.
        is_filled, self._filled = self._filled == rows, None
        values = self._walk.view(rows, columns) if is_filled else self._walk.fill(rows, columns)
        mark = functools.partial(self._removed, rows, tile, columns, num_seen)
        if not (self._relevance.drops_others or num_seen or by_place):
            is_inside, local = self._locate(tile, tile.listed, columns)
            fill_at(values, local, is_inside, -torch.inf)  # spares the passes over all scores below
            return Negatives(values, count_true(is_inside), mark, columns.start, argument)
        removed = mark()
        values.masked_fill_(removed, -torch.inf)
        return Negatives(values, count_true(removed), (lambda: removed) if by_place else mark, columns.start, argument)

    def _removed(
        self, rows: slice, tile: TileRelevance, columns: slice, num_seen: int
    ) -> Bool[Tensor, "queries columns"]:
        """Mark what is taken out of a panel: all but the negatives, and the columns of the panel before."""
        removed = self._relevance.dropped(rows, columns)
        if removed is None:
            shape = (len(tile.columns), columns.stop - columns.start)
            removed = torch.zeros(shape, dtype=torch.bool, device=tile.columns.device)
        is_inside, local = self._locate(tile, tile.listed, columns)
        fill_at(removed, local, is_inside, value=True)
        removed[:, :num_seen] = True
        return removed

    def _locate(
        self, tile: TileRelevance, chosen: Bool[Tensor, "queries padded"], columns: slice
    ) -> tuple[Bool[Tensor, "queries padded"], Int[Tensor, "queries padded"]]:
        """Mark chosen items of a tile inside a panel, and give their columns there; one outside gets any column."""
        if columns.stop - columns.start == self._scores.num_gallery:
            return chosen, tile.columns
        inside = chosen & (tile.columns >= columns.start) & (tile.columns < columns.stop)
        return inside, (tile.columns - columns.start).clamp_(0, columns.stop - columns.start - 1)


def cells_of_positives(
    num_positives: Int[Tensor, " queries"], width: int, total: int | None = None
) -> Int[Tensor, " positives"]:
    """Cells of the positives in flat rows of a width, where the positives of a row come first.

    Where `total`, the number of all positives, is known, a device is not waited for.
    """
    if num_positives.device.type != "cpu":
        row_start = torch.arange(len(num_positives), device=num_positives.device) * width
        return segments.runs(row_start, num_positives, total)[1]
    is_positive = torch.arange(width, device=num_positives.device) < num_positives[:, None]
    return places_of_true(is_positive)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The scores of all positives, query by query, the best first."""

    scores: Float[Tensor, " positives"]
    num_positives: Int[Tensor, " queries"]

    @cached_property
    def edges(self) -> list[int]:
        """Where the positives of each query begin, and the end."""
        return segments.edges(self.num_positives).tolist()

    def of(self, rows: slice) -> tuple[Positives, Int[Tensor, " positives"], slice]:
        """The positives of some queries in padded rows, their cells, and their range among all."""
        number, inside = self.num_positives[rows, None], slice(self.edges[rows.start], self.edges[rows.stop])
        width = max(1, int(number.max()))
        cells = cells_of_positives(number[:, 0], width)
        padded = self.scores.new_full((len(number), width), -torch.inf)
        padded.view(-1)[cells] = self.scores[inside]
        lowest = padded.gather(1, (number - 1).clamp(min=0)).where(number > 0, torch.inf)[:, 0]
        return Positives(padded, torch.zeros_like(padded, dtype=torch.int64), lowest), cells, inside


def size_of_tiles(part: GalleryPart, longest_run: int | None = None) -> tuple[int, int]:
    """Queries per tile and gallery columns per panel that fit `scores.max_bytes`.

    `longest_run`, the most positives of a query, is the part's own unless given.
    """
    scores, beside = part.scores, bytes_of_counting(part.scores, by_place=part.ties.by_place is not None)
    per_row = _BYTES_PER_POSITIVE * (part.relevance.longest_run if longest_run is None else longest_run)
    return size_of_walk(scores, beside, per_row)
