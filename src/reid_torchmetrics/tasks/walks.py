"""Walks over all scores that several threads share, tile by tile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.ranking import Walk
from reid_torchmetrics.functional.retrieval.scores import Scores, Spares
from reid_torchmetrics.functional.world import ALONE, World

Result = TypeVar("Result")

_MOST_TILES = 2  # tiles at a time
_BYTES_PER_SORTED = 16  # values, indices and workspace of torch's sort


def share_tiles(
    scores: Scores,
    size: tuple[int, int],
    work: Callable[[Walk, slice], Result],
    what: str,
    *,
    keeps_thread: bool = False,
    world: World = ALONE,
) -> Iterator[tuple[slice, Result]]:
    """Work on a few tiles at a time, in any order; yield the rows and the result of each tile, in order.

    Args:
        scores: the scores.
        size: number of queries per tile and of gallery items per panel.
        work: a function of a walk, which does one piece of work at a time, and of the rows of a tile.
        what: name of the work in the progress bar.
        keeps_thread: whether the calling thread must do all work; also if the scores require it.
        world: processes that take tiles of the same rows.
    """
    keeps_thread = keeps_thread or scores.keeps_thread
    most = 1 if keeps_thread else min(scores.num_tiles, _MOST_TILES)
    walks = Spares(lambda: Walk(scores, *size))
    rows = segments.ranges(scores.num_queries, max(1, min(size[0], scores.num_queries)))

    def do(tile: slice) -> Result:
        with walks.one() as walk:
            return work(walk, tile)

    num_at_once = min(len(rows), 2 * _MOST_TILES)
    num_panels = len(segments.equal_ranges(slice(0, scores.num_gallery), size[1]))
    steps = _progress.steps(segments.ranges(len(rows), 2 * _MOST_TILES), what, parts=max(1, num_at_once * num_panels))
    for part in steps:
        tiles = rows[part]
        if scores.sent is not None:
            scores.sent.fetch(slice(tiles[0].start, tiles[-1].stop), ahead=True)
        share = functools.partial(workers.share, do, tiles, most=most)
        results = world.guarded(functools.partial(workers.run, share, scores.device, inside=keeps_thread))
        yield from zip(tiles, results, strict=True)


def bytes_of_sort(scores: Scores) -> int:
    """Return the bytes that sorting takes for each score: none on the CPU, where NumPy sorts in place."""
    return 0 if scores.device.type == "cpu" else _BYTES_PER_SORTED
