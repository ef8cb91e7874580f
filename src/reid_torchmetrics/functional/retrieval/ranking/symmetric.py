"""Count the negatives before positives in leave-one-out, where each pair of items is multiplied once.

Each item is a query, and a gallery item for all others. The product of two items is the same in both orders, so only
the blocks on the diagonal and above it are multiplied. The scores of a block are counted for the items of its rows,
and the scores of the transposed block for the items of its columns. Three blocks of items a, b and c:

    multiplied          a x a    a x b    a x c    b x b    b x c    c x c
    counted for         a        a and b  a and c  b        b and c  c

The scores of the positives come first, from small products. Then the scores of each block are counted, including those
of positives and junk. At the end the listed items (positives and junk) are subtracted. For example, the positives of a
query score .8 and .5, and a junk item scores .6:

    all scores                    .9   .8   .6   .5   .5   .1
    at or above .8, .5             2    5
    listed items among them        1    3       .8; .8, .6 and .5
    negatives before               1    2       .9; .9 and .5

The blocks have the items with the most positives first, so that all items of a block have about as many.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import BLOCK, FEWEST_DIMENSIONS, LANES, Spares, SymmetricScores

from .counting import Positives, negatives_above, sort_falling, sort_rows
from .query_blocks import Array, QueryBlock, count_rows
from .tie_policies import TiePolicy
from .tiles import GalleryPart, cells_of_positives

_MOST_ITEMS = BLOCK
"""largest number of items in a block: it fills the kernels of a product, and its short rows take little time to sort"""
_FEWEST_BLOCKS = 4
"""three blocks save only a third of the products, which may not pay"""

# Largest mean number of positives per query. With more, searches in short rows cost more than the saved products.
_MOST_POSITIVES = 200
_POSITIVES_FOR_A_DIMENSION = 0.6

_ROWS_AT_A_TIME = 504  # rows of a block; with fewer, calls of NumPy take much of the time
_PAIRS_AT_A_TIME = 16  # pairs of blocks that threads share
_QUERIES_AT_A_TIME = 144  # queries with listed items that are read by one small product

_BYTES_PER_LISTED = 64  # for a listed item while it is read: its column, its marks and its score
_BYTES_PER_POSITIVE = 24  # for a positive while blocks are counted: its score and its key
_BYTES_PER_COUNT = 28  # for a count of a positive, in a block and in the order of the queries


@final
class SymmetricTiles:
    """The counted negatives of a leave-one-out problem, with the interface of `Tiles`."""

    def __init__(self, positives: SortedThresholds, counts: Int[Tensor, "counts positives"], rows: list[slice]) -> None:
        """Take the scores of all positives, the number of negatives before each, and the query range of each tile."""
        self._positives, self._counts = positives, counts
        self.rows = rows
        """the queries of each tile"""

    def read(self, rows: slice, tile: TileRelevance) -> Float[Tensor, "queries padded"]:
        """Return the scores of the positives at `tile.columns`, in any order within a query, else minus infinity."""
        scores = torch.full(tile.columns.shape, -torch.inf, dtype=self._positives.scores.dtype, device="cpu")
        scores[tile.positive] = self._positives.scores[self._positives.inside(rows)]
        return scores

    def count(self, rows: slice, tile: TileRelevance, positives: Positives) -> Int[Tensor, "counts queries padded"]:
        """Return the number of negatives before each positive."""
        counts = torch.zeros((len(self._counts), *positives.scores.shape), dtype=torch.int64, device="cpu")
        cells = cells_of_positives(tile.num_positives, positives.scores.shape[1])
        counts.flatten(1)[:, cells] = self._counts[:, self._positives.inside(rows)]
        return counts


class SortedThresholds(NamedTuple):
    """The scores of all positives, query by query, the best first."""

    scores: Float[Tensor, " positives"]
    edges: Int[Tensor, " queries+1"]
    """the first positive of each query, and the end"""
    listed: Int[Tensor, "counts positives"]
    """number of items that are listed for the query, thus no negatives, and score at or above the positive"""

    def inside(self, rows: slice) -> slice:
        """Return the range of the positives of some queries."""
        return slice(int(self.edges[rows.start]), int(self.edges[rows.stop]))

    @property
    def num_positives(self) -> Int[Tensor, " queries"]:
        """Number of positives of each query."""
        return self.edges.diff()


def count_symmetric(part: GalleryPart) -> SymmetricTiles | None:
    """Count the negatives before all positives of a leave-one-out problem.

    None for other problems, for products that depend on the order of their items, and where both directions would take
    longer, or more memory than the bound on scores. `Tiles` gives the same ranks in these cases.
    """
    relevance = part.relevance
    scores = _symmetric_scores(part)
    if scores is None:
        return None
    assert relevance.own_column is not None  # noqa: S101 - for the type checker

    # Read the scores of all positives.
    num_rows = scores.bytes_for_blocks // 2 // (_BYTES_PER_LISTED * max(1, relevance.longest_run))
    rows = segments.ranges(relevance.num_queries, max(1, num_rows))
    or_tied = _are_tied_counted(part.ties)
    positives = _read_positives(part, scores, rows, or_tied)

    # Count the scores at or above them.
    blocks = _cut_blocks(scores, positives, relevance.own_column, len(or_tied))
    is_counted = _BlockCounting(scores, blocks, or_tied).run()
    if not is_counted:
        return None

    counts = torch.empty((len(or_tied), len(positives.scores)), dtype=torch.int64, device="cpu")
    for block in blocks:
        counts[:, block.cells] = block.counts_of_cells()
    return SymmetricTiles(positives, counts.sub_(positives.listed), rows)


def _symmetric_scores(part: GalleryPart) -> SymmetricScores | None:
    """Return scores for both directions; None unless labels treat both directions alike and sharing products pays."""
    relevance = part.relevance
    own_column = relevance.own_column
    if own_column is None or relevance.shared is not None or relevance.drops_others or part.ties.by_place is not None:
        return None
    scores = part.scores.symmetric(own_column)
    if scores is None or scores.dimension < FEWEST_DIMENSIONS:
        return None
    if scores.num_items <= (_FEWEST_BLOCKS - 1) * _MOST_ITEMS or not _are_own_queries(relevance):
        return None
    return scores if _fits(relevance, scores, part.ties.num_counts) else None


def _are_own_queries(relevance: Relevance) -> bool:
    """Return whether each query with listed items is a gallery item, and no item is two queries."""
    assert relevance.own_column is not None  # noqa: S101 - for the type checker
    is_item = relevance.own_column >= 0
    num_queries_of = relevance.own_column[is_item].bincount(minlength=1)
    return int(num_queries_of.max()) <= 1 and not bool(relevance.run_length[~is_item].any())


def _fits(relevance: Relevance, scores: SymmetricScores, num_counts: int) -> bool:
    """Return whether the positives of all queries and one block stay within the bound, and are few enough.

    A block holds a rectangle of positives, as wide as its largest number of positives.
    """
    falling = relevance.run_length.sort(descending=True).values
    num_rows = _size_of_blocks(scores.num_items)
    num_cells = int(falling[::num_rows].sum()) * num_rows
    most_positives = min(_MOST_POSITIVES, _POSITIVES_FOR_A_DIMENSION * scores.dimension)
    if num_cells > most_positives * len(falling):
        return False
    num_bytes = num_cells * (_BYTES_PER_POSITIVE + num_counts * _BYTES_PER_COUNT)
    return num_bytes + _bytes_of_block(scores) <= scores.bytes_for_blocks


def _bytes_of_block(scores: SymmetricScores) -> int:
    """Return the bytes for the products of a block, and for a few of its rows with their marks and picks."""
    num_scores = _size_of_blocks(scores.num_items) * (_MOST_ITEMS + 4 * _ROWS_AT_A_TIME)
    return num_scores * scores.dtype.itemsize


def _size_of_blocks(num_items: int) -> int:
    """Return the number of items in all blocks but the last, for as few blocks as possible."""
    num_blocks = -(-num_items // _MOST_ITEMS)
    size = -(-num_items // num_blocks)
    return size + -size % LANES


def _are_tied_counted(ties: TiePolicy) -> tuple[bool, ...]:
    """Return, for each number that a tie policy counts, whether a negative with the score of the positive counts."""
    return (True, False) if ties.groups else (not ties.positives_first,)


def _read_positives(
    part: GalleryPart, scores: SymmetricScores, rows: Sequence[slice], or_tied: Sequence[bool]
) -> SortedThresholds:
    """Read the scores of the items that are listed for each query, and count the listed items above each positive."""
    threshold_parts = []
    num_positives_parts = []
    count_parts = []
    for tile_rows in rows:
        tile = part.relevance.tile(tile_rows)
        values = _scores_of_listed(scores, part.relevance, tile_rows, tile)
        thresholds = sort_falling(values.where(tile.positive, -torch.inf))
        cells = cells_of_positives(tile.num_positives, thresholds.shape[1])
        ordered = sort_rows(values, argument=part.scores.argument)
        num_padded = (~tile.listed).sum(1)

        counts = []
        for tied in or_tied:
            num_above = negatives_above(ordered, num_padded, thresholds, or_tied=tied)
            counts.append(num_above.flatten()[cells])

        threshold_parts.append(thresholds.flatten()[cells])
        num_positives_parts.append(tile.num_positives)
        count_parts.append(torch.stack(counts))
    return SortedThresholds(
        scores=torch.cat(threshold_parts),
        edges=segments.edges(torch.cat(num_positives_parts)),
        listed=torch.cat(count_parts, dim=1),
    )


def _scores_of_listed(
    scores: SymmetricScores, relevance: Relevance, rows: slice, tile: TileRelevance
) -> Float[Tensor, "queries padded"]:
    """Return the scores of the items that are listed for each query, minus infinity at padding, by small products.

    Neighboring runs in `Relevance.order` are one range of items, or nearly one.
    """
    assert relevance.own_column is not None  # noqa: S101 - for the type checker
    out = torch.full(tile.columns.shape, -torch.inf, dtype=scores.dtype, device="cpu")
    start = relevance.run_start[rows]
    length = relevance.run_length[rows]
    own_column = relevance.own_column[rows]
    offsets = torch.arange(out.shape[1], device="cpu")

    def read(queries: Tensor) -> None:
        first = int(start[queries].min())
        stop = int((start[queries] + length[queries]).max())
        values = scores.between(own_column[queries], relevance.order[first:stop])
        place = (start[queries, None] - first + offsets).clamp_(max=stop - first - 1)
        out[queries] = values.gather(1, place).where(tile.listed[queries], -torch.inf)

    # A query without listed items has no run.
    in_order = start.argsort()
    workers.share(read, in_order[length[in_order] > 0].split(_QUERIES_AT_A_TIME))
    return out


def _cut_blocks(
    scores: SymmetricScores, positives: SortedThresholds, own_column: Tensor, num_counts: int
) -> list[QueryBlock]:
    """Cut the items into blocks."""
    # The positives of each item, from those of its query.
    num_positives = torch.zeros(scores.num_items, dtype=torch.int64, device="cpu")
    first = torch.zeros_like(num_positives)
    is_item = own_column >= 0
    num_positives[own_column[is_item]] = positives.num_positives[is_item]
    first[own_column[is_item]] = positives.edges[:-1][is_item]

    order = num_positives.argsort(descending=True, stable=True)
    blocks = []
    for items in order.split(_size_of_blocks(scores.num_items)):
        rows = items[num_positives[items] > 0]
        row_lengths = num_positives[rows]
        row_starts = first[rows]
        width = int(row_lengths.max()) if len(row_lengths) else 0
        offsets = torch.arange(width, device="cpu")
        is_threshold = offsets < row_lengths[:, None]
        thresholds = torch.full((len(rows), width), torch.inf, dtype=scores.dtype, device="cpu")
        thresholds[is_threshold] = positives.scores[(row_starts[:, None] + offsets)[is_threshold]]
        counts = torch.zeros((num_counts, *thresholds.shape), dtype=torch.int32, device="cpu")
        blocks.append(
            QueryBlock(
                items=items,
                num_positives=row_lengths,
                first=row_starts,
                thresholds=thresholds,
                counts=counts,
            )
        )
    return blocks


class _Buffers(NamedTuple):
    """Memory for one thread."""

    products: Float[Tensor, " scores"]
    some_rows: Float[Tensor, " scores"]
    marks: Array
    """bool [rows, items], with a multiple of 8 columns"""


class _BlockCounting:
    """Multiplies all pairs of blocks, and adds up the scores at or above each positive."""

    def __init__(self, scores: SymmetricScores, blocks: Sequence[QueryBlock], or_tied: Sequence[bool]) -> None:
        """Take the blocks, and whether equal scores count, for each number of a positive."""
        self._scores = scores
        self._blocks = blocks
        self._or_tied = or_tied
        self._lock = threading.Lock()
        self._buffers = Spares(self._reserve)

    def _reserve(self) -> _Buffers:
        size = len(self._blocks[0].items)
        num_rows = min(size, _ROWS_AT_A_TIME)
        return _Buffers(
            products=torch.empty(size * size, dtype=self._scores.dtype, device="cpu"),
            some_rows=torch.empty(num_rows * size, dtype=self._scores.dtype, device="cpu"),
            marks=np.zeros((num_rows, size + -size % 8), dtype=bool),
        )

    def run(self) -> bool:
        """Count all pairs of blocks; return False, with wrong counts, if a product depends on the items' order."""
        # Blocks with positives are first: items are in falling order of their number of positives.
        num_with_positives = sum(block.has_positives for block in self._blocks)
        pairs: list[tuple[int, int]] = []
        for first in range(num_with_positives):
            pairs.extend((first, second) for second in range(first, len(self._blocks)))

        def count(pair: tuple[int, int]) -> bool:
            return self._count_pair(*pair)

        most = max(1, self._scores.bytes_for_blocks // 2 // _bytes_of_block(self._scores))
        for part in _progress.steps(segments.ranges(len(pairs), _PAIRS_AT_A_TIME), "Ranking"):
            if not all(workers.share(count, pairs[part], most=most)):
                return False
        return True

    def _count_pair(self, first: int, second: int) -> bool:
        """Count the products of two blocks in both directions; return False if they depend on the items' order."""
        rows = self._blocks[first]
        columns = self._blocks[second]
        first_items = self._scores.prepare(first, rows.items)
        second_items = first_items if first == second else self._scores.prepare(second, columns.items)
        if first_items is None or second_items is None:
            return False

        num_rows, num_columns = len(rows.items), len(columns.items)
        with self._buffers.one() as buffers:
            products = buffers.products[: num_rows * num_columns].view(num_rows, num_columns)
            self._scores.multiply(first_items, second_items, products)
            # The transposed products come first, because scores overwrite the products.
            if first != second:
                self._count_transposed(columns, rows.items, products.T, buffers)
            elif not torch.equal(products, products.T):
                return False
            self._count_block(rows, columns.items, products, buffers.marks)
        return True

    def _count_transposed(self, block: QueryBlock, gallery: Tensor, products: Tensor, buffers: _Buffers) -> None:
        """Count as `_count_block` does, in copies of a few rows at a time."""
        num_items = products.shape[1]
        for rows in segments.ranges(len(block.first), len(buffers.marks)):
            num_rows = rows.stop - rows.start
            copied = buffers.some_rows[: num_rows * num_items].view(num_rows, num_items).copy_(products[rows])
            self._count_rows(block, rows, gallery, copied, buffers.marks)

    def _count_block(self, block: QueryBlock, gallery: Tensor, products: Tensor, marks: Array) -> None:
        """Count the scores of a block's items against gallery items; the products are changed in place."""
        for rows in segments.ranges(len(block.first), len(marks)):
            self._count_rows(block, rows, gallery, products[rows], marks)

    def _count_rows(self, block: QueryBlock, rows: slice, gallery: Tensor, products: Tensor, marks: Array) -> None:
        self._scores.finish(products, gallery)
        num_rows, num_items = products.shape
        marks = marks[:num_rows, : num_items + -num_items % 8]
        marks[:, num_items:] = False
        counts = count_rows(block, rows, products, marks, self._or_tied)
        with self._lock:
            block.counts[:, rows] += counts
