"""Walks over all scores that several threads share, tile by tile; over all pairs, or those of the items in one set."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval import scores as scoring
from reid_torchmetrics.functional.retrieval import sharding
from reid_torchmetrics.functional.retrieval.evaluation import RankingOptions, Updates, share_defined
from reid_torchmetrics.functional.retrieval.ranking import Walk, count_true, cut_in_panels, places_of_true
from reid_torchmetrics.functional.retrieval.scores import Scores, Spares
from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.functional.world import ALONE, World

Result = TypeVar("Result")

_MOST_TILES = 2  # tiles at a time
_BYTES_PER_SORTED = 16  # values, indices and workspace of torch's sort
_BYTES_PER_PAIR = 33
"""bytes for the masks, the row, the column and the position of a pair"""
_MOST_PAIRS = 1 << 23
"""number of pairs in a tile; within one set larger tiles have fewer panels below the diagonal, which are skipped"""


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


class AllPairs(NamedTuple):
    """Pairs of all queries with the items in this process's part of a gallery; within one set each pair once."""

    scores: scoring.Scores
    items: Int[Tensor, " gallery"]
    """number of the item in each column, in the whole gallery"""
    own: Int[Tensor, " queries"]
    """column of each query itself, else -1; within one set, where items ascend, the last column up to the query"""
    within_one_set: bool
    query_hash: int | None
    """hash of the queries on all processes; None if no process has them all"""
    world: World = ALONE

    @torch.no_grad()
    def map_tiles(self, work: Callable[[Tensor, slice, slice], Result], label: str) -> list[Result]:
        """Apply `work` to the scores, the queries and the columns of each tile; `label` labels the progress bar.

        The scores are comparable between queries, and minus infinity where a pair does not count. They are overwritten
        by the next tile. Tiles in which no pair counts are not computed.

        Raises:
            DistributedMetricError: an error on some process.
        """
        num_rows, num_columns = cut_in_panels(
            self.scores,
            _BYTES_PER_PAIR,
            most_rows=self.scores.product_shape.rows,
            most_scores=_MOST_PAIRS,
        )
        _, table = self.world.guarded_all_gather(lambda: (None, [num_rows]))
        size = (min(table)[0], num_columns)
        map_panels = functools.partial(self._map_panels, work)
        results = []
        for _, tile_results in share_tiles(self.scores, size, map_panels, label, world=self.world):
            results += tile_results
        return results

    def _map_panels(self, work: Callable[[Tensor, slice, slice], Result], walk: Walk, rows: slice) -> list[Result]:
        """Apply `work` to some queries in each panel of columns."""
        own = self.own[rows, None]
        first_column = int(own[0]) + 1 if self.within_one_set else 0
        last_own = int(own.max())
        results = []
        for panel, num_seen in walk.panels:
            if panel.stop <= first_column:
                continue
            values = walk.fill(rows, panel)[:, num_seen:]
            columns = slice(panel.start + num_seen, panel.stop)
            self.scores.to_comparable(values, rows)
            if last_own >= columns.start:
                column = torch.arange(columns.start, columns.stop, device=own.device)
                does_not_count = column <= own if self.within_one_set else column == own
                values.masked_fill_(does_not_count, -torch.inf)
            results.append(work(values, rows, columns))
        return results


@torch.no_grad()
def pair_samples(
    samples: Samples,
    options: RankingOptions,
    world: World,
    *,
    max_bytes: int | None,
    updates: Updates | None = None,
) -> AllPairs:
    """Return all pairs of the samples of all processes; within one set if each sample is a query and an item.

    `updates` are as for `list_samples`.

    Raises:
        DistributedMetricError: as `rank_samples`.
        ValueError: embeddings that are not finite.
    """
    are_both = samples.roles == sharding.QUERY | sharding.GALLERY
    _, table = world.guarded_all_gather(lambda: (None, [int(are_both.all())]))
    is_one_set = all(is_one_set_here for (is_one_set_here,) in table)
    problem, together = share_defined(samples, options, world, max_bytes=max_bytes, updates=updates)
    scores = problem.source.scores_of(None, together)
    query_hash = problem.source.query_hash
    places = problem.places
    assert places is not None  # noqa: S101 - problems of samples in order have them
    numbers = problem.query_numbers
    if is_one_set:
        own_positions = torch.searchsorted(places, numbers, right=True) - 1
        item_positions = torch.searchsorted(numbers, places)
        return AllPairs(
            scores, item_positions, own_positions, within_one_set=True, query_hash=query_hash, world=together
        )
    own_places = problem.labels.self_index
    if own_places is None:
        own_places = torch.full_like(numbers, -1)
    return AllPairs(scores, places, own_places, within_one_set=False, query_hash=query_hash, world=together)


def cells_of_true(mask: Bool[Tensor, "rows columns"]) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells"]]:
    """Return the rows and the columns of the True values of a mask."""
    places = places_of_true(mask)
    row = segments.numbers(count_true(mask), len(places))
    return row, places.sub_(row, alpha=mask.shape[1])
