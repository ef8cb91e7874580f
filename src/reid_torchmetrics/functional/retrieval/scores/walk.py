"""The walk over all scores, queries x gallery, in bounded memory.

A tile is a range of queries, a panel a range of the gallery; the scores of one tile and panel are held at a time, in a
buffer that is reserved once. Most work takes the panels of a tile one by one. Ranking would then compute every score
twice, so it takes the whole gallery at once where it can.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from math import isqrt
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.world import ALONE, World

from .products import BLOCK, LANES
from .rows import Spares
from .scores import Scores

Result = TypeVar("Result")

FEWEST_ROWS = 8
"""with fewer queries a tile, a matrix product costs more per score than computing scores twice"""
_MOST_ROWS = BLOCK  # on the CPU, of a tile with the whole gallery: with more, memory is only touched for the first time
_PANEL_ROWS = 256  # of a tile with a panel: fewer queries make fewer, wider panels
_MOST_TILES = 2  # at a time
_BYTES_PER_SORTED = 16  # values, indices and workspace of torch's sort


class Panel(NamedTuple):
    """A range of the gallery; all panels are equally wide, so the last may begin inside the one before."""

    columns: slice
    num_seen: int
    """number of first columns that the panel before has, too"""


class Walk:
    """Scores of one tile and panel at a time; `rows` are the queries of each tile."""

    def __init__(self, scores: Scores, num_rows: int, width: int) -> None:
        """Reserve the scores of at most `num_rows` queries and `width` gallery items."""
        self.scores = scores
        num_rows = max(1, min(num_rows, scores.num_queries))
        self._buffer = torch.empty(num_rows * width, dtype=scores.dtype, device=scores.device)
        self.rows = segments.ranges(scores.num_queries, num_rows)
        columns = segments.equal_ranges(slice(0, scores.num_gallery), width)
        ends = [0, *(panel.stop for panel in columns)]
        self.panels = [Panel(panel, end - panel.start) for panel, end in zip(columns, ends, strict=False)]

    def panels_of(self, rows: slice) -> Iterator[tuple[Panel, Float[Tensor, "queries columns"]]]:
        """The scores of the queries `rows`, panel by panel; each is overwritten by the next."""
        for panel in self.panels:
            yield panel, self.fill(rows, panel.columns)

    def fill(self, rows: slice, columns: slice) -> Float[Tensor, "queries columns"]:
        """The scores of queries and gallery items; they overwrite the scores of the last call."""
        scores = self.view(rows, columns)
        self.scores.fill(scores, rows, columns)
        return scores

    def view(self, rows: slice, columns: slice) -> Float[Tensor, "queries columns"]:
        """The part of the buffer where `fill` puts the scores of queries and gallery items."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        return self._buffer[: shape[0] * shape[1]].view(shape)


def share_tiles(
    scores: Scores,
    size: tuple[int, int],
    work: Callable[[Walk, slice], Result],
    what: str,
    *,
    keeps_thread: bool = False,
    world: World = ALONE,
) -> Iterator[tuple[slice, Result]]:
    """Work on tiles in any order, a few of them at a time: the rows of each tile and the result, in order.

    A walk has the `size` of its tiles and panels, and does one piece of work at a time. With `keeps_thread`, of the
    work or of the scores, the calling thread does all. `what` names the work where its progress is shown. All processes
    of a `world` take tiles of the same rows.
    """
    keeps_thread, most = keeps_thread or scores.keeps_thread, min(scores.num_tiles, _MOST_TILES)
    walks = Spares(lambda: Walk(scores, *size))
    rows = segments.ranges(scores.num_queries, max(1, min(size[0], scores.num_queries)))

    def do(tile: slice) -> Result:
        with walks.one() as walk:
            return work(walk, tile)

    for part in _progress.steps(segments.ranges(len(rows), 2 * _MOST_TILES), what):
        if scores.sent is not None:
            scores.sent.fetch(slice(rows[part][0].start, rows[part][-1].stop), ahead=True)
        share = functools.partial(workers.share, do, rows[part], most=1 if keeps_thread else most)
        results = world.guarded(functools.partial(workers.run, share, scores.device, inside=keeps_thread))
        yield from zip(rows[part], results, strict=True)


def rows_with_gallery(scores: Scores, beside: int, per_row: int = 0, *, fewest: int = FEWEST_ROWS) -> int:
    """Queries a tile that fit `scores.max_bytes` with their scores against the whole gallery.

    `beside` is the number of bytes for each score besides the score, `per_row` the number for each query. 0 if fewer
    than `fewest` fit, and not all queries do.
    """
    rows = scores.max_bytes // max(1, (scores.dtype.itemsize + beside) * scores.num_gallery + per_row)
    if rows < min(fewest, scores.num_queries):
        return 0
    rows = rows if rows >= scores.num_queries else _filling(rows)
    # On other devices every tile costs the launches of its kernels and some waits, however few queries it has.
    return min(rows, _MOST_ROWS) if scores.device.type == "cpu" else rows


def size_of_walk(scores: Scores, beside: int, per_row: int) -> tuple[int, int]:
    """Queries a tile and gallery items a panel for work on one tile at a time: all items, if enough queries fit.

    Bytes as for `rows_with_gallery`.
    """
    fewest = FEWEST_ROWS if scores.at is None else scores.product_shape.unit  # panels cost no second product
    rows = rows_with_gallery(scores, beside, per_row, fewest=fewest)
    return (rows, scores.num_gallery) if rows else cut_in_panels(scores, beside, per_row, num_tiles=scores.num_tiles)


def cut_in_panels(
    scores: Scores,
    beside: int = 0,
    per_row: int = 0,
    *,
    most_rows: int | None = None,
    most_scores: int = sys.maxsize,
    num_tiles: int = 1,
) -> tuple[int, int]:
    """Queries a tile and gallery items a panel that fit `scores.max_bytes`, half of it for the bytes per row, if any.

    Bytes as for `rows_with_gallery`. Where little fits, a tile is about as high as wide. Work on one tile at a time may
    take the memory of all `num_tiles`.
    """
    most_rows = max(_PANEL_ROWS, scores.product_shape.unit) if most_rows is None else most_rows
    share = num_tiles * scores.max_bytes // (2 if per_row else 1)
    num_scores = max(1, min(share // (scores.dtype.itemsize + beside), most_scores))
    rows = min(max(isqrt(num_scores), num_scores // max(1, scores.num_gallery)), share // max(1, per_row))
    # Sides that a product needs not fill up: it would take as long.
    rows = _filling(max(1, min(rows, most_rows, scores.num_queries)))
    widest = num_scores // rows
    num_panels = max(1, -(-scores.num_gallery // widest))
    width = -(-scores.num_gallery // num_panels)  # no wider than needed: the last overlaps the one before
    return rows, min(_filling(widest, width), scores.num_gallery)


def _filling(most: int, least: int = 0) -> int:
    """A side of a product that fills its kernels, up to `most` and, if there is one, from `least` on."""
    unit = next((unit for unit in (BLOCK, LANES) if most >= unit), 1)
    side = least + -least % unit
    return side if 0 < side <= most else most - most % unit


def bytes_of_sort(scores: Scores) -> int:
    """Bytes that sorting takes for each score, besides the score; NumPy sorts in place, on the CPU."""
    return 0 if scores.device.type == "cpu" else _BYTES_PER_SORTED
