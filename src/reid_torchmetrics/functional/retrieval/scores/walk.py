"""The walk over all scores, queries x gallery, in bounded memory.

A tile is a range of queries, a panel a range of the gallery. The scores of one tile and panel are in memory at a time,
in a buffer that is reserved once. Most work takes the panels of a tile one by one. Ranking would then compute every
score twice, so it takes the whole gallery at once if that fits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import isqrt
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments

from .products import BLOCK, LANES
from .scores import Scores

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


def size_of_walk(scores: Scores, extra_bytes: int, per_row: int) -> tuple[int, int]:
    """Return the queries per tile and gallery items per panel for one tile at a time: all items, if enough queries fit.

    The bytes are those of `rows_with_gallery`.
    """
    # With small products panels cost no second product.
    fewest = FEWEST_ROWS if scores.at is None else scores.product_shape.unit
    rows = rows_with_gallery(scores, extra_bytes, per_row, fewest=fewest)
    if rows:
        return rows, scores.num_gallery
    return cut_in_panels(scores, extra_bytes, per_row, num_tiles=scores.num_tiles)


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
