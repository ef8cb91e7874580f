"""Walk a retrieval problem in tiles of bounded memory: the scores of positives, and the negatives before them.

A tile is a range of queries, a panel a range of the gallery. The scores of one tile and panel are in memory at a time,
in a buffer that is reserved once (`Walk`). The whole gallery is one panel if enough queries fit with it. Otherwise
small products give the scores of the positives first. Scores without small products are computed twice: once to read
the positives, once to count the negatives.

For example, a query has positives in the columns 1 and 4 of the gallery, and junk in column 5:

    scores              .9   .8   .5   .7   .2   .6
    read, best first    .8   .2                           the positives, then padding
    negatives           .9  -inf  .5   .7  -inf -inf      the positives and the junk are removed
    in order           -inf -inf -inf  .5   .7   .9       1 is above .8, 3 are above .2
    ranks               1 + 1 = 2 and 3 + 2 = 5           negatives before, and the place among the positives
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _progress
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import BLOCK, LANES, Scores

from .counting import BYTES_PER_BIN, Negatives, Positives, count_true, fill_at, places_of_true, sort_falling
from .tie_policies import TiePolicy

_BYTES_PER_POSITIVE = 64  # columns, masks, scores and counts while the tile of the positive is ranked
FEWEST_ROWS = 8
"""least number of queries per tile; with fewer, a matrix product costs more per score than computing scores twice"""
_MOST_ROWS = BLOCK  # queries of a tile with the whole gallery on the CPU; more queries only use more memory
_PANEL_ROWS = 256  # queries of a tile with panels; fewer queries make fewer, wider panels


class Panel(NamedTuple):
    """A range of the gallery; all panels have the same width, so the last may overlap the one before."""

    columns: slice
    num_seen: int
    """number of first columns that the panel before has, too"""


class Walk:
    """The scores of one tile and panel at a time; `rows` are the queries of each tile."""

    def __init__(self, scores: Scores, num_rows: int, width: int) -> None:
        """Reserve the scores of at most `num_rows` queries and `width` gallery items."""
        self.scores = scores
        num_rows = max(1, min(num_rows, scores.num_queries))
        if scores.device.type == "cpu":
            # NumPy asks Linux for large pages. With pages of 4 KB, as in torch, the first writes to the 40 MB of scores
            # of 100 queries and 100,000 items take a quarter of the time in which these are ranked.
            num_bytes = max(1, num_rows * width) * scores.dtype.itemsize
            self._buffer = torch.from_numpy(np.empty(num_bytes, dtype=np.uint8)).view(scores.dtype)
        else:
            self._buffer = torch.empty(num_rows * width, dtype=scores.dtype, device=scores.device)
        self.rows = segments.ranges(scores.num_queries, num_rows)
        columns = segments.equal_ranges(slice(0, scores.num_gallery), width)
        self.panels: list[Panel] = []
        last_stop = 0
        for panel in columns:
            self.panels.append(Panel(panel, num_seen=last_stop - panel.start))
            last_stop = panel.stop

    def panels_of(self, rows: slice) -> Iterator[tuple[Panel, Float[Tensor, "queries columns"]]]:
        """Yield the scores of the queries `rows`, panel by panel; each panel overwrites the one before."""
        for panel in self.panels:
            yield panel, self.fill(rows, panel.columns)

    def fill(self, rows: slice, columns: slice) -> Float[Tensor, "queries columns"]:
        """Compute the scores of queries and gallery items; they overwrite the scores of the last call."""
        scores = self.view(rows, columns)
        self.scores.fill(scores, rows, columns)
        _progress.part_done()
        return scores

    def view(self, rows: slice, columns: slice) -> Float[Tensor, "queries columns"]:
        """Return the part of the buffer to which `fill` writes the scores of queries and gallery items."""
        num_rows = rows.stop - rows.start
        width = columns.stop - columns.start
        return self._buffer[: num_rows * width].view(num_rows, width)


def rows_with_gallery(scores: Scores, extra_bytes: int, per_row: int = 0, *, fewest: int = FEWEST_ROWS) -> int:
    """Return the number of queries per tile that fit `scores.max_bytes` with their scores against the whole gallery.

    Args:
        scores: the scores.
        extra_bytes: bytes for each score, besides the score.
        per_row: bytes for each query.
        fewest: least number of queries; 0 is returned if neither as many nor all queries fit.
    """
    row_bytes = (scores.dtype.itemsize + extra_bytes) * scores.num_gallery + per_row
    rows = scores.max_bytes // max(1, row_bytes)
    if rows < min(fewest, scores.num_queries):
        return 0
    if rows < scores.num_queries:
        rows = _filling(rows)
    # On other devices every tile costs the launches of its kernels and some waits, however few queries it has.
    return min(rows, _MOST_ROWS) if scores.device.type == "cpu" else rows


def cut_in_panels(
    scores: Scores,
    extra_bytes: int = 0,
    per_row: int = 0,
    *,
    most_rows: int | None = None,
    most_scores: int = sys.maxsize,
    num_tiles: int = 1,
) -> tuple[int, int]:
    """Return the queries per tile and gallery items per panel that fit `scores.max_bytes`.

    Half of the memory is for the bytes per row, if there are any; bytes are those of `rows_with_gallery`. If few scores
    fit, a tile is about as high as wide. Work on one tile at a time may take the memory of all `num_tiles`.
    """
    if most_rows is None:
        most_rows = max(_PANEL_ROWS, scores.product_shape.unit)
    share = num_tiles * scores.max_bytes // (2 if per_row else 1)
    num_scores = max(1, min(share // (scores.dtype.itemsize + extra_bytes), most_scores))

    # The height; a product with partly filled kernels would take as long.
    rows = max(isqrt(num_scores), num_scores // max(1, scores.num_gallery))
    rows = min(rows, share // max(1, per_row), most_rows, scores.num_queries)
    rows = _filling(max(1, rows))

    # The width, no wider than needed for this number of panels, as the last panel overlaps the one before.
    widest = num_scores // rows
    num_panels = max(1, -(-scores.num_gallery // widest))
    width = -(-scores.num_gallery // num_panels)
    return rows, min(_filling(widest, width), scores.num_gallery)


def _filling(most: int, least: int = 0) -> int:
    """Return a side of a product that fills its kernels: at most `most`, and the smallest from `least` on, if given."""
    unit = 1
    if most >= BLOCK:
        unit = BLOCK
    elif most >= LANES:
        unit = LANES
    side = least + -least % unit
    return side if 0 < side <= most else most - most % unit


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
        """Yield the negatives of the queries `rows`, panel by panel, each column once."""
        for columns, num_seen in self._walk.panels:
            # `read` may have left the scores of the only panel in the buffer; counting will change them.
            is_filled = self._filled == rows
            self._filled = None
            values = self._walk.view(rows, columns) if is_filled else self._walk.fill(rows, columns)
            find_removed = functools.partial(self._removed, rows, tile, columns, num_seen)
            if self._relevance.drops_others or num_seen:
                removed = find_removed()
                values.masked_fill_(removed, -torch.inf)
                num_removed = count_true(removed)
            else:
                # Only listed items are removed: this saves passes over all scores.
                is_inside, local = self._locate(tile, tile.listed, columns)
                fill_at(values, local, is_inside, -torch.inf)
                num_removed = count_true(is_inside)
            yield Negatives(values, num_removed, find_removed, columns.start, self._scores.argument)

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
    """Return the queries per tile and gallery columns per panel that fit `scores.max_bytes`; all columns, if possible.

    `longest_run` is the largest number of items that are listed for a query; None for that of this part.
    """
    if longest_run is None:
        longest_run = part.relevance.longest_run
    scores = part.scores
    # Besides the score: `by_place` needs a mask of the removed items; the CPU also needs a copy to sort, and other
    # devices need bins.
    by_place = part.ties.by_place is not None
    if scores.device.type == "cpu":
        bytes_per_score = scores.dtype.itemsize + 1 if by_place else 0
    else:
        bytes_per_score = BYTES_PER_BIN + by_place
    bytes_per_row = _BYTES_PER_POSITIVE * longest_run
    # With small products panels cost no second product.
    fewest = FEWEST_ROWS if scores.at is None else scores.product_shape.unit
    rows = rows_with_gallery(scores, bytes_per_score, bytes_per_row, fewest=fewest)
    if rows:
        return rows, scores.num_gallery
    return cut_in_panels(scores, bytes_per_score, bytes_per_row, num_tiles=scores.num_tiles)


def best_first(
    scores: Tensor,
    places: Tensor,
    positive: Tensor,
    *,
    ties: TiePolicy,
    grades: Tensor | None = None,
    whole_places: Tensor | None = None,
) -> Positives:
    """Sort the scores of each query's positives; all other items go behind them, as padding.

    Of equal scores the lower grade goes first, or the higher if positives go first, unless the policy is `by_place`.

    Args:
        scores: scores of the items that are listed for each query.
        places: their places in the gallery, or in a part of it.
        positive: marks of the positives.
        ties: the tie policy.
        grades: grades of the items, if samples have several labels.
        whole_places: places in the whole gallery, if `places` are in a part, where positives of other parts may share
            a place; needed with grades only.
    """
    # Below the lowest positive no negative has to be put in order.
    lowest = scores.where(positive, torch.inf).amin(1)
    if ties.by_place is not None:
        order = ties.by_place(places if whole_places is None else whole_places)
    elif grades is not None:
        order = -grades if ties.positives_first else grades
    else:
        return Positives(sort_falling(scores.where(positive, -torch.inf)), places, lowest)
    companions = [places] if grades is None else [places, grades]
    scores, *companions = sort_in_order(order, positive, scores, *companions)
    return Positives(scores, companions[0], lowest, *companions[1:])


def sort_in_order(
    order: Int[Tensor, "queries padded"], positive: Tensor, scores: Tensor, *companions: Tensor
) -> list[Tensor]:
    """Return scores of positives, best first, and companions in the same order; equal scores are sorted by `order`.

    Padding scores minus infinity and has -1 in companions.
    """
    # Padding is last even after positives that score minus infinity: the sort is stable.
    first = order.where(positive, torch.iinfo(torch.int64).max).argsort(dim=1)
    scores, by_score = scores.where(positive, -torch.inf).gather(1, first).sort(dim=1, descending=True, stable=True)
    place = first.gather(1, by_score)
    return [scores, *(values.where(positive, -1).gather(1, place) for values in companions)]
