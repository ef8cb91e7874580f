"""Count the negatives before positives in leave-one-out, where each pair of items is multiplied once.

Each item is a query, and a gallery item for all others. The product of two items is the same in both orders, so only
the blocks on the diagonal and above it are multiplied. The scores of a block are counted for the items of its rows,
and the scores of the transposed block for the items of its columns. Three blocks of items a, b and c:

    multiplied          a x a    a x b    a x c    b x b    b x c    c x c
    counted for         a        a and b  a and c  b        b and c  c

The scores of the positives come first, from small products. Blocks are counted with all their scores, also those of
positives and junk. At the end the items that are no negatives are subtracted. One query with the scores .8 and .5 of
its positives, and .6 of junk:

    all scores                    .9   .8   .6   .5   .5   .1
    at or above .8, .5             2    5
    of these listed                1    3       .8; .8, .6 and .5
    negatives before               1    2       .9; .9 and .5

The blocks have the items with the most positives first, so that all items of a block have about as many.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Spares, SymmetricScores

from .counting import Positives, negatives_above, sort_falling, sort_rows
from .tie_policies import TiePolicy
from .tiles import GalleryPart, cells_of_positives
from .top_k import keys_of_scores

Array: TypeAlias = NDArray[Any]

_MOST_ITEMS = 1008  # in a block: whole kernels of a product, and short rows, which take little time to sort
_UNIT = 48  # items; a block has a multiple of it
_FEWEST_BLOCKS = 4  # with three blocks a third of the products is spared, which may not pay
_FEWEST_DIMENSIONS = 96  # with shorter embeddings a product takes less time than to transpose it
# Positives of a query, on average; with more, searches in short rows cost more than is spared.
_MOST_POSITIVES, _POSITIVES_FOR_A_DIMENSION = 200, 0.6
_ROWS_AT_A_TIME = 504  # with fewer, calls of NumPy take much of the time
_PAIRS_AT_A_TIME = 16  # of blocks; they are shared among threads
_QUERIES_AT_A_TIME = 144  # whose listed items are read by one small product
_BYTES_PER_LISTED = 64  # of a listed item while it is read: its column, its marks and its score
_BYTES_PER_POSITIVE = 24  # its score and its key, while blocks are counted
_BYTES_PER_COUNT = 28  # of a positive, in a block and in the order of the queries
# What a score costs, in nanoseconds, by the ways of counting; and what a search costs.
_COST_OF_A_COMPARISON, _COST_OF_SORTING = 0.22, 5.5
_COST_OF_A_PICK, _COST_OF_A_SEARCH = 60.0, 30.0


@final
class SymmetricTiles:
    """Counted negatives of a leave-one-out problem, in the form of `Tiles`."""

    def __init__(self, positives: SortedThresholds, counts: Int[Tensor, "counts positives"], rows: list[slice]) -> None:
        """Take the scores of all positives, the negatives before each, and tiles of queries."""
        self._positives, self._counts = positives, counts
        self.rows = rows
        """the queries of each tile"""

    def read(self, rows: slice, tile: TileRelevance) -> Float[Tensor, "queries padded"]:
        """Scores at `tile.columns`, where they are positive, in any order within a query."""
        scores = torch.full(tile.columns.shape, -torch.inf, dtype=self._positives.scores.dtype, device="cpu")
        scores[tile.positive] = self._positives.scores[self._positives.inside(rows)]
        return scores

    def count(self, rows: slice, tile: TileRelevance, positives: Positives) -> Int[Tensor, "counts queries padded"]:
        """Return the negatives before each positive."""
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
    """items that are listed for the query, and at or above the positive: no negatives"""

    def inside(self, rows: slice) -> slice:
        """Return the range of the positives of some queries."""
        return slice(int(self.edges[rows.start]), int(self.edges[rows.stop]))

    @property
    def num_positives(self) -> Int[Tensor, " queries"]:
        """Number of positives of each query."""
        return self.edges.diff()


def count_symmetric(part: GalleryPart) -> SymmetricTiles | None:
    """Count the negatives before all positives of a leave-one-out problem.

    None for other problems, where products depend on the order of their items, and where both directions would take
    longer, or more memory than the bound on scores. `Tiles` gives the same ranks then.
    """
    relevance = part.relevance
    scores = _symmetric_scores(part)
    if scores is None:
        return None
    assert relevance.own_column is not None  # noqa: S101 - for the type checker
    num_rows = scores.max_bytes // 4 // (_BYTES_PER_LISTED * max(1, relevance.longest_run))
    rows = segments.ranges(relevance.num_queries, max(1, num_rows))
    or_tied = _are_tied_counted(part.ties)
    positives = _read_positives(part, scores, rows, or_tied)
    blocks = _cut_blocks(scores, positives, relevance.own_column, len(or_tied))
    if not _BlockCounting(scores, blocks, or_tied).run():
        return None
    counts = torch.empty((len(or_tied), len(positives.scores)), dtype=torch.int64, device="cpu")
    for block in blocks:
        counts[:, block.cells] = block.counts_of_cells()
    return SymmetricTiles(positives, counts.sub_(positives.listed), rows)


def _symmetric_scores(part: GalleryPart) -> SymmetricScores | None:
    """Scores of both directions, if the labels treat both alike and the work pays."""
    relevance, own_column = part.relevance, part.relevance.own_column
    if own_column is None or relevance.shared is not None or relevance.drops_others or part.ties.by_place is not None:
        return None
    scores = part.scores.symmetric(own_column)
    if scores is None or scores.dimension < _FEWEST_DIMENSIONS:
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

    A block holds a rectangle of them, as wide as its largest number.
    """
    falling = relevance.run_length.sort(descending=True).values
    num_rows = _size_of_blocks(scores.num_items)
    num_cells = int(falling[::num_rows].sum()) * num_rows
    most_positives = min(_MOST_POSITIVES, _POSITIVES_FOR_A_DIMENSION * scores.dimension)
    if num_cells > most_positives * len(falling):
        return False
    num_bytes = num_cells * (_BYTES_PER_POSITIVE + num_counts * _BYTES_PER_COUNT)
    return num_bytes + _bytes_of_block(scores) <= scores.max_bytes // 2


def _bytes_of_block(scores: SymmetricScores) -> int:
    """Bytes of the products of a block, and of a few rows of it with their marks and picks."""
    num_scores = _size_of_blocks(scores.num_items) * (_MOST_ITEMS + 4 * _ROWS_AT_A_TIME)
    return num_scores * scores.dtype.itemsize


def _size_of_blocks(num_items: int) -> int:
    """Number of items in all blocks but the last, in as few blocks as possible."""
    num_blocks = -(-num_items // _MOST_ITEMS)
    least = -(-num_items // num_blocks)
    return least + -least % _UNIT


def _are_tied_counted(ties: TiePolicy) -> tuple[bool, ...]:
    """Whether a negative that is level with a positive counts, for each number that a tie policy counts."""
    return (True, False) if ties.groups else (not ties.positives_first,)


def _read_positives(
    part: GalleryPart, scores: SymmetricScores, rows: Sequence[slice], or_tied: Sequence[bool]
) -> SortedThresholds:
    """Read the scores of the items that are listed for each query, and count these among themselves."""
    all_scores, all_numbers, all_counts = [], [], []
    for some in rows:
        tile = part.relevance.tile(some)
        values = _scores_of_listed(scores, part.relevance, some, tile)
        thresholds = sort_falling(values.where(tile.positive, -torch.inf))
        cells = cells_of_positives(tile.num_positives, thresholds.shape[1])
        ordered = sort_rows(values, argument=part.scores.argument)
        num_padded = (~tile.listed).sum(1)
        counts = [negatives_above(ordered, num_padded, thresholds, or_tied=tied).flatten()[cells] for tied in or_tied]
        all_scores.append(thresholds.flatten()[cells])
        all_numbers.append(tile.num_positives)
        all_counts.append(torch.stack(counts))
    return SortedThresholds(torch.cat(all_scores), segments.edges(torch.cat(all_numbers)), torch.cat(all_counts, dim=1))


def _scores_of_listed(
    scores: SymmetricScores, relevance: Relevance, rows: slice, tile: TileRelevance
) -> Float[Tensor, "queries padded"]:
    """Scores of the items that are listed for each query, minus infinity at padding, by small products.

    The runs of queries that are beside each other in `Relevance.order` are one range of items, or nearly.
    """
    assert relevance.own_column is not None  # noqa: S101 - for the type checker
    out = torch.full(tile.columns.shape, -torch.inf, dtype=scores.dtype, device="cpu")
    start, length, own = relevance.run_start[rows], relevance.run_length[rows], relevance.own_column[rows]
    places = torch.arange(out.shape[1], device="cpu")

    def read(queries: Tensor) -> None:
        first = int(start[queries].min())
        stop = int((start[queries] + length[queries]).max())
        values = scores.between(own[queries], relevance.order[first:stop])
        place = (start[queries, None] - first + places).clamp_(max=stop - first - 1)
        out[queries] = values.gather(1, place).where(tile.listed[queries], -torch.inf)

    # A query without listed items has no run.
    in_order = start.argsort()
    workers.share(read, in_order[length[in_order] > 0].split(_QUERIES_AT_A_TIME))
    return out


@dataclass
class _QueryBlock:
    """A block of items as queries, by falling number of positives; rows without positives are left out."""

    items: Int[Tensor, " items"]
    """columns of the items in the gallery"""
    num_positives: Int[Tensor, " rows"]
    """of the first items, falling; none is 0"""
    first: Int[Tensor, " rows"]
    """the first positive of each row among all positives"""
    thresholds: Float[Tensor, "rows padded"]
    """scores of the positives, the best first, then infinity"""
    counts: Int[Tensor, "counts rows padded"]
    """int32; items at or above each positive, so far"""

    @cached_property
    def num_rows(self) -> list[int]:
        """Number of rows with more than 0, 1, ... positives."""
        places = torch.arange(self.thresholds.shape[1], device="cpu")
        return torch.searchsorted(-self.num_positives, -places).tolist()

    @cached_property
    def lowest(self) -> Float[Tensor, "rows 1"]:
        """Score of the last positive of each row."""
        return self.thresholds.gather(1, self.num_positives[:, None] - 1)

    @cached_property
    def is_threshold(self) -> Tensor:
        """Marks what is no padding."""
        return torch.arange(self.thresholds.shape[1], device="cpu") < self.num_positives[:, None]

    @cached_property
    def keys(self) -> Array:
        """Numbers of all positives that rise by the row and then as scores fall."""
        row = segments.numbers(self.num_positives).numpy()
        keys: Array = _keys_of(row, self.thresholds[self.is_threshold].numpy())
        return keys

    @cached_property
    def starts(self) -> Array:
        """The first key of each row."""
        starts: Array = segments.starts(self.num_positives).numpy()
        return starts

    @property
    def cells(self) -> Int[Tensor, " positives"]:
        """Places of the positives among all positives, row by row."""
        return segments.runs(self.first, self.num_positives)[1]

    def counts_of_cells(self) -> Int[Tensor, "counts positives"]:
        """Counts in the order of `cells`."""
        return self.counts[:, self.is_threshold].long()


def _cut_blocks(
    scores: SymmetricScores, positives: SortedThresholds, own: Tensor, num_counts: int
) -> list[_QueryBlock]:
    """Cut the items into blocks."""
    num_positives = torch.zeros(scores.num_items, dtype=torch.int64, device="cpu")
    first = torch.zeros_like(num_positives)
    is_item = own >= 0
    num_positives[own[is_item]] = positives.num_positives[is_item]
    first[own[is_item]] = positives.edges[:-1][is_item]
    order = num_positives.argsort(descending=True, stable=True)
    blocks = []
    for items in order.split(_size_of_blocks(scores.num_items)):
        rows = items[num_positives[items] > 0]
        number, start = num_positives[rows], first[rows]
        width = int(number.max()) if len(number) else 0
        places = torch.arange(width, device="cpu")
        thresholds = torch.full((len(rows), width), torch.inf, dtype=scores.dtype, device="cpu")
        is_threshold = places < number[:, None]
        thresholds[is_threshold] = positives.scores[(start[:, None] + places)[is_threshold]]
        counts = torch.zeros((num_counts, *thresholds.shape), dtype=torch.int32, device="cpu")
        blocks.append(_QueryBlock(items, number, start, thresholds, counts))
    return blocks


class _Buffers(NamedTuple):
    """Memory of a thread."""

    products: Float[Tensor, " scores"]
    some_rows: Float[Tensor, " scores"]
    marks: Array
    """bool [rows, items], with a multiple of 8 columns"""


class _BlockCounting:
    """Multiply all pairs of blocks, and add up what is at or above each positive."""

    def __init__(self, scores: SymmetricScores, blocks: Sequence[_QueryBlock], or_tied: Sequence[bool]) -> None:
        """Take the blocks, and whether equal scores count for each number of a positive."""
        self._scores, self._blocks, self._or_tied = scores, blocks, or_tied
        self._adding = threading.Lock()
        size = len(blocks[0].items)
        num_rows = min(size, _ROWS_AT_A_TIME)

        def reserve() -> _Buffers:
            products = torch.empty(size * size, dtype=scores.dtype, device="cpu")
            some_rows = torch.empty(num_rows * size, dtype=scores.dtype, device="cpu")
            return _Buffers(products, some_rows, np.zeros((num_rows, size + -size % 8), dtype=bool))

        self._buffers = Spares(reserve)

    def run(self) -> bool:
        """Count all; False if a product is not the same in both orders, so that the counts are of no use."""
        numbers = range(len(self._blocks))
        pairs = [pair for pair in itertools.combinations_with_replacement(numbers, 2) if self._has_positives(*pair)]
        most = max(1, self._scores.max_bytes // 4 // _bytes_of_block(self._scores))
        for some in _progress.steps(segments.ranges(len(pairs), _PAIRS_AT_A_TIME), "Ranking"):
            if not all(workers.share(lambda pair: self._count_pair(*pair), pairs[some], most=most)):
                return False
        return True

    def _has_positives(self, first: int, second: int) -> bool:
        return len(self._blocks[first].first) > 0 or len(self._blocks[second].first) > 0

    def _count_pair(self, first: int, second: int) -> bool:
        rows, columns = self._blocks[first], self._blocks[second]
        first_items = self._scores.prepare(first, rows.items)
        second_items = first_items if first == second else self._scores.prepare(second, columns.items)
        if first_items is None or second_items is None:
            return False
        with self._buffers.one() as buffers:
            shape = len(rows.items), len(columns.items)
            products = buffers.products[: shape[0] * shape[1]].view(shape)
            self._scores.multiply(first_items, second_items, products)
            if first != second:
                self._count_transposed(columns, rows.items, products.T, buffers)
            elif not torch.equal(products, products.T):
                return False
            self._count_block(rows, columns.items, products, buffers.marks)
        return True

    def _count_transposed(self, block: _QueryBlock, gallery: Tensor, products: Tensor, buffers: _Buffers) -> None:
        """Count as `_count_block` does, by copies of a few rows."""
        num_items = products.shape[1]
        for rows in segments.ranges(len(block.first), len(buffers.marks)):
            num_rows = rows.stop - rows.start
            copied = buffers.some_rows[: num_rows * num_items].view(num_rows, num_items).copy_(products[rows])
            self._count_rows(block, rows, gallery, copied, buffers.marks)

    def _count_block(self, block: _QueryBlock, gallery: Tensor, products: Tensor, marks: Array) -> None:
        """Count the scores of the items of a block against gallery items; the products are changed in place."""
        for rows in segments.ranges(len(block.first), len(marks)):
            self._count_rows(block, rows, gallery, products[rows], marks)

    def _count_rows(self, block: _QueryBlock, rows: slice, gallery: Tensor, products: Tensor, marks: Array) -> None:
        self._scores.finish(products, gallery)
        num_rows, num_items = products.shape
        marks = marks[:num_rows, : num_items + -num_items % 8]
        marks[:, num_items:] = False
        counts = _count_rows(block, rows, products, marks, self._or_tied)
        with self._adding:
            block.counts[:, rows] += counts


def _count_rows(
    block: _QueryBlock, rows: slice, scores: Float[Tensor, "rows items"], marks: Array, or_tied: Sequence[bool]
) -> Int[Tensor, "counts rows padded"]:
    """Count the scores at or above each positive of some rows, by the way that takes the least time.

    The scores may be sorted in place.
    """
    values, num_items = scores.numpy(), scores.shape[1]
    are_above = marks[:, :num_items]
    np.greater_equal(values, block.lowest[rows].numpy(), out=are_above)
    share_above = np.count_nonzero(are_above) / are_above.size
    num_thresholds = len(or_tied) * float(block.num_positives[rows].double().mean())
    cost_of_comparing = num_thresholds * _COST_OF_A_COMPARISON
    cost_of_sorting = _COST_OF_SORTING + num_thresholds * _COST_OF_A_SEARCH / num_items
    cost_of_picking = len(or_tied) * share_above * _COST_OF_A_PICK
    if scores.dtype == torch.float32 and cost_of_picking < min(cost_of_comparing, cost_of_sorting):
        return torch.from_numpy(_count_picks(block, rows, values, are_above, or_tied))
    if cost_of_comparing < cost_of_sorting:
        return torch.from_numpy(_count_by_comparisons(block, rows, values, marks, or_tied))
    values.sort(axis=1)
    none = torch.zeros(len(scores), dtype=torch.int64, device="cpu")
    thresholds = block.thresholds[rows]
    counts = [negatives_above(scores, none, thresholds, or_tied=tied) for tied in or_tied]
    return torch.stack(counts)


def _count_by_comparisons(
    block: _QueryBlock, rows: slice, values: Array, marks: Array, or_tied: Sequence[bool]
) -> Array:
    """Compare all scores of a row with each positive of the row, of all rows at once.

    The marks have the scores at or above the last positive of each row.
    """
    thresholds = block.thresholds[rows].numpy()
    counts = np.zeros((len(or_tied), *thresholds.shape), dtype=np.int32)
    num_items = values.shape[1]
    for numbers, tied in zip(counts, or_tied, strict=True):
        compare = np.greater_equal if tied else np.greater
        if tied:
            last = block.num_positives[rows].numpy() - 1
            numbers[np.arange(len(last)), last] = _num_marks(marks)
        for place, num_rows in enumerate(block.num_rows[1:] if tied else block.num_rows):
            # Rows with fewer positives are the last.
            stop = min(num_rows - rows.start, len(values))
            if stop <= 0:
                break
            compare(values[:stop], thresholds[:stop, place, None], out=marks[:stop, :num_items])
            numbers[:stop, place] = _num_marks(marks[:stop])
    return counts


def _num_marks(marks: Array) -> Array:
    """Number of marks in each row of less than 2,040 columns.

    Eight marks are a number of 64 bits, and at most 255 of these are added up, so no byte overflows.
    """
    sums = np.add.reduce(marks.view(np.uint64), axis=1)
    num_marks: Array = sums.view(np.uint8).reshape(-1, 8).sum(axis=1)
    return num_marks


def _count_picks(block: _QueryBlock, rows: slice, values: Array, are_above: Array, or_tied: Sequence[bool]) -> Array:
    """Look up the scores that are at or above the lowest positive of their row among the positives."""
    width, num_items = block.thresholds.shape[1], values.shape[1]
    # One number for the row and the column is found in a fraction of the time of both.
    picks = np.flatnonzero(are_above)
    row = picks // num_items
    wanted = _keys_of(row + rows.start, values.reshape(-1)[picks])
    # A pick lies between two positives of its row, in one bin more than there are positives.
    first_bin = row * (width + 1) - block.starts[row + rows.start]
    num_bins = len(values) * (width + 1)
    counts = np.empty((len(or_tied), len(values), width), dtype=np.int32)
    for numbers, tied in zip(counts, or_tied, strict=True):
        place = block.keys.searchsorted(wanted, "left" if tied else "right")
        sizes = np.bincount(first_bin + place, minlength=num_bins).reshape(len(values), width + 1)
        np.cumsum(sizes[:, :width], axis=1, out=numbers)
    return counts


def _keys_of(row: Array, scores: Array) -> Array:
    """Numbers that rise by the row and then as scores of float32 fall."""
    keys: Array = (row << 32) + (keys_of_scores(scores) >> 32)
    return keys
