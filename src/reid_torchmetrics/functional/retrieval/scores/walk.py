"""The walk over all scores, queries x gallery, in bounded memory.

A tile is a range of queries, a panel a range of the gallery; the scores of one tile and panel are held at a time, in a
buffer that is reserved once. Most work takes the panels of a tile one by one. Ranking would then compute every score
twice, so it takes the whole gallery at once where it can.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from math import isqrt
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers

from .products import BLOCK, LANES, shape_on
from .scores import Scores

Result = TypeVar("Result")

FEWEST_ROWS = 8
"""with fewer queries a tile, a matrix product costs more per score than computing scores twice"""
_MOST_ROWS = BLOCK  # of a tile with the whole gallery: with more, memory is only touched for the first time
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

    def __init__(self, scores: Scores, num_rows: int, width: int, *, comparable: bool = False) -> None:
        """Reserve the scores of at most `num_rows` queries and `width` gallery items."""
        self.scores = scores
        self._comparable = comparable
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
        if self._comparable:
            self.scores.to_comparable(scores, rows)
        return scores

    def view(self, rows: slice, columns: slice) -> Float[Tensor, "queries columns"]:
        """The part of the buffer where `fill` puts the scores of queries and gallery items."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        return self._buffer[: shape[0] * shape[1]].view(shape)


class SharedWalk:
    """Work on tiles in any order, a few of them at a time."""

    def __init__(
        self, scores: Scores, num_rows: int, width: int, *, comparable: bool = False, keeps_thread: bool = False
    ) -> None:
        """As for `Walk`; with `keeps_thread`, of the walk or of the scores, the calling thread does all work."""
        self._keeps_thread = keeps_thread or scores.keeps_thread
        self._new_walk = functools.partial(Walk, scores, num_rows, width, comparable=comparable)
        self._most = min(scores.num_tiles, _MOST_TILES)
        walk = self._new_walk()
        self._scores, self._rows, self._free = scores, walk.rows, deque([walk])

    def share(self, work: Callable[[Walk, slice], Result], what: str) -> Iterator[tuple[slice, Result]]:
        """The rows of each tile and the result of the work on it, in order; each piece of work has its own walk.

        `what` names the work where its progress is shown.
        """
        at_a_time = max(1, 2 * self._most)
        for first in _progress.steps(range(0, len(self._rows), at_a_time), what):
            some = self._rows[first : first + at_a_time]
            yield from zip(some, self._shared(functools.partial(self._do, work), some), strict=True)

    def _shared(self, work: Callable[[slice], Result], some: list[slice]) -> list[Result]:
        share = functools.partial(workers.share, work, some, most=1 if self._keeps_thread else self._most)
        return workers.run(share, self._scores.device, inside=self._keeps_thread)

    def _do(self, work: Callable[[Walk, slice], Result], rows: slice) -> Result:
        try:
            walk = self._free.pop()
        except IndexError:
            walk = self._new_walk()
        try:
            return work(walk, rows)
        finally:
            self._free.append(walk)


def rows_with_gallery(scores: Scores, beside: int, per_row: int = 0, *, fewest: int = FEWEST_ROWS) -> int:
    """Queries a tile that fit `scores.max_bytes` with their scores against the whole gallery.

    `beside` is the number of bytes for each score besides the score, `per_row` the number for each query. 0 if fewer
    than `fewest` fit, and not all queries do.
    """
    rows = scores.max_bytes // max(1, (scores.dtype.itemsize + beside) * scores.num_gallery + per_row)
    if rows < min(fewest, scores.num_queries):
        return 0
    return min(rows if rows >= scores.num_queries else _filling(rows), _MOST_ROWS)


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
    most_rows = max(_PANEL_ROWS, shape_on(scores.device).unit) if most_rows is None else most_rows
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
