"""k-reciprocal encoding: whom an item and its neighbors mutually count as near, as sparse rows of weights.

Source: Zhong et al., "Re-ranking Person Re-identification with k-reciprocal Encoding", CVPR 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers

_BYTES_PER_ENTRY = 64  # positions, keys, values and sums of one entry while it is worked on
_MOST_ENTRIES = 1 << 19  # with more at a time, memory is only touched for the first time

_MOST_AT_A_TIME = 4  # parts that several threads work on, which share the memory that may be taken

PairDistance = Callable[[Tensor, Tensor], Tensor]
"""Positions of some items, and of as many others, to the distances between them."""


@dataclass(frozen=True)
class SparseRows:
    """Rows that are zero almost everywhere: the entries of a row are one run, in which columns ascend."""

    length: Int[Tensor, " rows"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]

    def select(self, rows: Int[Tensor, " selected"]) -> SparseRows:
        """Some rows, in any order, also repeatedly."""
        length = self.length[rows]
        _, entries = segments.runs(segments.starts(self.length)[rows], length)
        return SparseRows(length, self.columns[entries], self.values[entries])


class ReciprocalSets:
    """The sets R*(p, k): k-reciprocal neighbors, and theirs where most of them are shared.

    N(p, k) is p itself and the `k` items nearest to it, R(p, k) = {q in N(p, k): p in N(q, k)}, and R*(p, k) is the
    union of R(p, k) with every R(q, k/2), q in R(p, k), of which more than two thirds lie in R(p, k). Half of an odd k
    is rounded to the even one of its neighbors.
    """

    def __init__(self, neighbors: Int[Tensor, "items depth"], k: int) -> None:
        """Take the nearest items of every item, itself first: at least k + 1 of them, or all items."""
        self.num_items = len(neighbors)
        self._near = neighbors[:, : k + 1]
        half = neighbors[:, : round(k / 2) + 1]
        self._half = half.where(_is_mutual(half, slice(0, len(half))), self.num_items)

    @property
    def num_considered(self) -> int:
        """How many places of lists are looked at for one set."""
        return self._near.shape[1] * (self._half.shape[1] + 1)

    def members(self, rows: slice) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
        """Sizes of the sets of the items `rows`, and their members, ascending."""
        # R(p, k) in places [rows, k + 1], and R(q, k/2) of each of its members in [rows, k + 1, k/2 + 1].
        near, none = self._near[rows], self.num_items  # `none`, which is no item, fills places without a member
        mutual = near.where(_is_mutual(self._near, rows), none)
        theirs = self._half[near].masked_fill((mutual == none)[:, :, None], none)
        # Which of theirs are in R(p, k) too, by looking each up there.
        is_theirs, ordered = theirs < none, mutual.sort(dim=1).values
        place = torch.searchsorted(ordered, theirs.flatten(1)).clamp_(max=ordered.shape[1] - 1)
        is_shared = (ordered.gather(1, place).view_as(theirs) == theirs) & is_theirs
        # More than two thirds: then the others of theirs join, once each.
        joins = 3 * is_shared.sum(2, keepdim=True) > 2 * is_theirs.sum(2, keepdim=True)
        members = torch.cat([mutual, theirs.where(joins & ~is_shared, none).flatten(1)], dim=1)
        row, column = (members < none).nonzero(as_tuple=True)
        return _split((row * none + members[row, column]).unique(), len(near), none)


def encode(sets: ReciprocalSets, distance: PairDistance, *, max_bytes: int) -> SparseRows:
    """The weights exp(-d(p, q)) of the q in R*(p, k), divided by their sum, for every item p."""
    step = max(1, _entries_within(max_bytes) // max(1, sets.num_considered))

    def encode_some(items: slice) -> SparseRows:
        length, columns = sets.members(items)
        row = segments.numbers(length)
        weights = torch.exp(-distance(row + items.start, columns))
        total = torch.zeros(len(length), dtype=torch.float64, device=weights.device)
        total.index_add_(0, row, weights.double())
        return SparseRows(length, columns, (weights / total[row]).to(weights.dtype))

    some = segments.ranges(sets.num_items, step) or [slice(0, 0)]
    return _joined(workers.share(encode_some, some, most=_MOST_AT_A_TIME))


def average_over(neighbors: Int[Tensor, "items k"], rows: SparseRows, *, max_bytes: int) -> SparseRows:
    """The mean of the rows of each item's neighbors, itself first (local query expansion)."""
    num_items, k = neighbors.shape
    if k < 2:
        return rows

    def average(items: slice) -> SparseRows:
        # The rows of all neighbors, one below the other; what an item's have in one column is added up.
        averaged = rows.select(neighbors[items].flatten())
        item = segments.numbers(averaged.length) // k
        keys, sum_of_entry = (item * num_items + averaged.columns).unique(return_inverse=True)
        total = torch.zeros(len(keys), dtype=torch.float64, device=keys.device)
        total.index_add_(0, sum_of_entry, averaged.values.double())
        length, columns = _split(keys, items.stop - items.start, num_items)
        return SparseRows(length, columns, (total / k).to(rows.values.dtype))

    some = segments.ranges_within(rows.length[neighbors].sum(1), _entries_within(max_bytes))
    return _joined(workers.share(average, [*some], most=_MOST_AT_A_TIME))


class SharedWeights:
    """Sums over columns of the lesser of two weights, taken only where two rows meet in a column."""

    def __init__(self, rows: SparseRows) -> None:
        """List for every column the rows that are not zero there."""
        self._num_rows = len(rows.length)
        keys = rows.columns * self._num_rows + segments.numbers(rows.length)
        self._keys, order = keys.sort()
        self._values = rows.values[order]

    def with_each(
        self, others: SparseRows, rows: slice, use: Callable[[slice, Tensor], None], *, max_bytes: int
    ) -> None:
        """Pass on what `others` share with the rows `rows`, [others, rows] float64, for ranges of `others`."""
        # For each entry of the others, the run of keys that share its column and belong to `rows`.
        width, column_key = rows.stop - rows.start, others.columns * self._num_rows
        start = torch.searchsorted(self._keys, column_key + rows.start)
        num_met = torch.searchsorted(self._keys, column_key + rows.stop) - start
        # The key of a run and this are a position in the dense [others, rows] that is returned.
        shift = segments.numbers(others.length) * width - column_key - rows.start
        edges = segments.edges(others.length)
        sizes = segments.edges(num_met)[edges].diff() + width

        def share_with(part: slice) -> None:
            entries = slice(int(edges[part.start]), int(edges[part.stop]))
            entry, met = segments.runs(start[entries], num_met[entries])
            position = self._keys[met] + (shift[entries] - part.start * width)[entry]
            lesser = torch.minimum(self._values[met], others.values[entries][entry])
            shared = torch.zeros((part.stop - part.start, width), dtype=torch.float64, device=position.device)
            shared.view(-1).index_add_(0, position, lesser.double())
            use(part, shared)

        parts = segments.ranges_within(sizes, _entries_within(max_bytes))
        workers.share(share_with, [*parts], most=_MOST_AT_A_TIME)


def _is_mutual(near: Int[Tensor, "items k"], rows: slice) -> Bool[Tensor, "rows k"]:
    """Whether the neighbors of the items `rows` have them among theirs, too."""
    items = torch.arange(rows.start, rows.stop, device=near.device)[:, None, None]
    some = items.split(max(1, _MOST_ENTRIES // max(1, near.shape[1] ** 2)))
    return torch.cat([(near[near[item[:, 0, 0]]] == item).any(2) for item in some])


def _split(keys: Tensor, num_rows: int, num_columns: int) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
    """Lengths of the rows, and columns, of ascending keys row * num_columns + column."""
    return (keys // num_columns).bincount(minlength=num_rows), keys % num_columns


def _joined(parts: Sequence[SparseRows]) -> SparseRows:
    lengths, columns, values = zip(*((part.length, part.columns, part.values) for part in parts), strict=True)
    return SparseRows(torch.cat(lengths), torch.cat(columns), torch.cat(values))


def _entries_within(max_bytes: int) -> int:
    return max(1, min(_MOST_ENTRIES, max_bytes // _MOST_AT_A_TIME // _BYTES_PER_ENTRY))
