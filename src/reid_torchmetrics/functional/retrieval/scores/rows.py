"""Embeddings in batches, perhaps with rows left out, or of all processes; too large to be copied as a whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from math import isfinite
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows

Result = TypeVar("Result")
Thing = TypeVar("Thing")

WALK_BYTES = 16 << 20  # rows are read in pieces of this size
_WALK_BYTES_ON_DEVICE = 64 << 20  # the same on other devices, where every piece costs the launches of its kernels
_LOOKED_AT = 4  # coordinates of a row that tell whether it may be a code
_PIECES_AT_A_TIME = 4  # by several threads


class NormSummary(NamedTuple):
    """Numbers about the rows of one side."""

    least: float
    """of the norms; 1 where there is no row"""
    largest: float
    """of the norms, NaN if one is NaN; 1 where there is no row"""
    has_rounded_codes: bool
    """whether `Rows.are_rounded_codes` marks a row"""


class Rows:
    """Rows of embeddings in one or more blocks; read in ranges, never concatenated as a whole."""

    def __init__(self, blocks: Sequence[Float[Tensor, "_ dim"]], kept: Int[Tensor, " kept"] | None = None) -> None:
        """Take the rows `kept` (positions in any order, None for all) of the concatenation of at least one block."""
        self._blocks = [block.detach() for block in blocks]
        self._kept = kept
        self._starts = [0, *accumulate(map(len, blocks))]
        self.size = self._starts[-1] if kept is None else len(kept)
        self.dimension = blocks[0].shape[1]
        self.device = blocks[0].device
        self.dtype = promoted([torch.float32, *(block.dtype for block in blocks)])
        self._norms: dict[torch.dtype, Tensor] = {}
        self._are_rounded_codes: dict[torch.dtype, Tensor] = {}
        self._summaries: dict[torch.dtype, NormSummary] = {}
        self._summaries_of_more: dict[torch.dtype, NormSummary] = {}  # of the rows that these were selected from

    @property
    def local(self) -> Rows:
        """The rows of this process: all of them."""
        return self

    def whole(self, dtype: torch.dtype) -> Tensor | None:
        """All rows as one tensor of `dtype` if that needs no copy, else None."""
        untouched = self._kept is None and len(self._blocks) == 1 and self._blocks[0].dtype == dtype
        return self._blocks[0] if untouched else None

    def select(self, kept: Int[Tensor, " kept"] | slice | None) -> Rows:
        """Some of the rows, at positions in any order; a range, if no row is left out yet; None for all."""
        if kept is None:
            return self
        if isinstance(kept, slice):
            rows = Rows(self._range(kept))
        else:
            rows = Rows(self._blocks, kept if self._kept is None else self._kept[kept])
        rows._norms = {dtype: norms[kept] for dtype, norms in self._norms.items()}
        rows._are_rounded_codes = {dtype: marks[kept] for dtype, marks in self._are_rounded_codes.items()}
        rows._summaries_of_more = self._summaries_of_more | self._summaries
        return rows

    def are_rows_of(self, rows: Rows, places: Int[Tensor, " rows"]) -> bool:
        """Return whether each row is the row at its place among others, in the same memory; a place may be -1 for none.

        Looks at positions alone, not at embeddings.
        """
        if len(self._blocks) != len(rows._blocks):
            return False
        if not all(map(_share_memory, self._blocks, rows._blocks)):
            return False
        here = (places >= 0).nonzero()[:, 0]
        there = places[here]
        positions_here = here if self._kept is None else self._kept[here]
        positions_there = there if rows._kept is None else rows._kept[there]
        return torch.equal(positions_here, positions_there)

    def beside(self, others: Float[Tensor, "others dim"]) -> Rows:
        """The rows, and others behind them; nothing is copied."""
        total, kept = self._starts[-1], self._kept
        kept = torch.arange(total, device=self.device) if kept is None else kept
        last = torch.arange(total, total + len(others), device=self.device)
        return Rows([*self._blocks, others], torch.cat([kept, last]))

    def all(self) -> Float[Tensor, "rows dim"]:
        """All rows as one tensor."""
        return self.read(slice(0, self.size), self.dtype)

    def read(self, rows: slice, dtype: torch.dtype, room: Tensor | None = None) -> Float[Tensor, "rows dim"]:
        """A range of rows; if they must be copied, in the memory of `room`.

        Without `room`, rows of more blocks than one are always copied.
        """
        whole = self.whole(dtype)
        if whole is not None:
            return whole[rows]
        may_share = room is not None
        if room is None:
            room = torch.empty((len(range(self.size)[rows]), self.dimension), dtype=dtype, device=self.device)
        if self._kept is None:
            parts = self._range(rows) or [room[:0]]
            first = parts[0]
            is_ready = may_share and len(parts) == 1 and first.dtype == dtype and first.is_contiguous()
            if is_ready:
                return first
            # One call for all parts: a device would start a kernel for each copy of its own.
            return torch.cat(parts, out=room[: sum(map(len, parts))])
        if len(self._blocks) == 1:  # without looking at positions: that would wait for a device
            return _copied([self._blocks[0][self._kept[rows]]], room)
        if self._is_ascending:
            return _copied(self._selection(self._kept[rows]), room)
        positions, order = self._kept[rows].sort()
        return _copied(self._selection(positions), room)[order.argsort()]

    def walk(self, dtype: torch.dtype) -> Iterator[Float[Tensor, "rows dim"]]:
        """All rows, in contiguous pieces of bounded size: sums of strided rows may differ in their last digit."""
        for rows in self._pieces(dtype):
            yield self.read(rows, dtype).contiguous()

    def each(self, work: Callable[[Tensor, slice], Result], dtype: torch.dtype) -> list[Result]:
        """The results of some work on each of these pieces and its place, a few at a time."""
        pieces = self._pieces(dtype)
        if len(pieces) == 1:  # of few rows the rest would cost more than the work
            return [work(self.read(pieces[0], dtype).contiguous(), pieces[0])]
        shape = pieces[0].stop if pieces else 0, self.dimension
        rooms = Spares(lambda: torch.empty(shape, dtype=dtype, device=self.device))

        def do(rows: slice) -> Result:
            with rooms.one() as room:
                return work(self.read(rows, dtype, room).contiguous(), rows)

        return workers.share(do, pieces, most=_PIECES_AT_A_TIME)

    def measure(
        self, work: Callable[[Tensor], Tensor], dtype: torch.dtype, *, of: torch.dtype
    ) -> Float[Tensor, " rows"]:
        """A number `of` some dtype for each row, by some work on each of these pieces."""
        return _end_to_end(self.each(lambda piece, _: work(piece).to(of), dtype), of, self.device)

    def norms(self, dtype: torch.dtype) -> Float[Tensor, " rows"]:
        """|x| of every row in a dtype, computed once: three steps ask for it."""
        if dtype not in self._norms:
            self._measure_norms(dtype)
        return self._norms[dtype]

    def are_rounded_codes(self, dtype: torch.dtype) -> Bool[Tensor, " rows"]:
        """Whether a row may be a code, with a magnitude that is no power of two; looked at with the norms."""
        if dtype not in self._are_rounded_codes:
            self._measure_norms(dtype)
        return self._are_rounded_codes[dtype]

    def _measure_norms(self, dtype: torch.dtype) -> None:
        def look(piece: Tensor, _: slice) -> tuple[Tensor, Tensor]:
            norms, marks = torch.linalg.vector_norm(piece, dim=1), may_be_codes(piece)
            if piece.device.type == "cpu" and not bool(marks.any()):  # nearly always
                return norms, marks
            mantissa = torch.frexp(piece[:, :1].flatten()).mantissa.abs()
            is_other_number = mantissa != 0.5  # noqa: PLR2004 - the mantissa of every power of two
            return norms, marks & is_other_number

        parts = self.each(look, dtype)
        norms = [norms for norms, _ in parts]
        marks = [marks for _, marks in parts]
        self._norms[dtype] = _end_to_end(norms, dtype, self.device)
        self._are_rounded_codes[dtype] = _end_to_end(marks, torch.bool, self.device)

    def norm_summary(self, dtype: torch.dtype) -> NormSummary:
        """The range of the norms, and whether a row may be a code."""
        if dtype not in self._summaries:
            self._summaries[dtype] = _summary(self._norm_numbers(dtype).tolist())
        return self._summaries[dtype]

    def _norm_numbers(self, dtype: torch.dtype) -> Float[Tensor, " numbers"]:
        """The numbers of `norm_summary`, on the device."""
        if not self.size:
            return torch.tensor([1, 1, 0], dtype=dtype, device=self.device)
        has_rounded_codes = self.are_rounded_codes(dtype).any()
        return torch.stack([*self.norms(dtype).aminmax(), has_rounded_codes.to(dtype)])

    def summarize_with(self, other: Rows, dtype: torch.dtype) -> None:
        """Measure the `norm_summary` of these rows and of others; a device is waited for once."""
        both = torch.stack([self._norm_numbers(dtype), other._norm_numbers(dtype)])
        own_numbers, other_numbers = both.tolist()
        self._summaries[dtype] = _summary(own_numbers)
        other._summaries[dtype] = _summary(other_numbers)

    def norm_bounds(self, dtype: torch.dtype) -> NormSummary:
        """As `norm_summary`, perhaps for more rows than these, where that is known without a wait for a device."""
        if dtype not in self._summaries and dtype in self._summaries_of_more:
            return self._summaries_of_more[dtype]
        return self.norm_summary(dtype)

    def non_finite(self) -> Int[Tensor, " bad"]:
        """Positions of the rows with NaN or infinity; only rows with a norm that is not finite are searched."""
        if isfinite(self.norm_bounds(self.dtype).largest):  # nearly always
            return torch.empty(0, dtype=torch.int64, device=self.device)
        suspects = (~self.norms(self.dtype).isfinite()).nonzero()[:, 0]
        parts = suspects.split(max(1, WALK_BYTES // (self.dimension * self.dtype.itemsize)))
        return torch.cat([part[~self.select(part).all().isfinite().all(1)] for part in parts])

    def _pieces(self, dtype: torch.dtype) -> list[slice]:
        num_bytes = WALK_BYTES if self.device.type == "cpu" else _WALK_BYTES_ON_DEVICE
        return segments.ranges(self.size, max(1, num_bytes // ((self.dimension or 1) * dtype.itemsize)))

    @cached_property
    def _is_ascending(self) -> bool:
        return self._kept is None or bool((self._kept[1:] > self._kept[:-1]).all())

    def _range(self, rows: slice) -> list[Tensor]:
        first = bisect_right(self._starts, rows.start) - 1
        last = bisect_left(self._starts, rows.stop)
        pieces = zip(self._blocks[first:last], self._starts[first:last], strict=True)
        return [block[max(0, rows.start - start) : rows.stop - start] for block, start in pieces]

    def _selection(self, positions: Tensor) -> Iterator[Tensor]:
        edges = torch.searchsorted(positions, torch.tensor(self._starts, device=positions.device)).tolist()
        for block, start, (low, high) in zip(self._blocks, self._starts, pairwise(edges), strict=False):
            if low < high:
                yield block[positions[low:high] - start]


def _summary(numbers: Sequence[float]) -> NormSummary:
    least, largest, has_rounded_codes = numbers
    return NormSummary(least, largest, bool(has_rounded_codes))


class RowsInBlocks:
    """Rows of all processes, too many for each: a block of them goes to all processes, is scored, and is dropped.

    `fetch` comes before `read`. Six queries of two processes in blocks of four, by their places in the order of all:

        process                 0          1
        queries              0 1 4       2 3 5        each in the order of all
        first block, sent    0 1         2 3
        second block         4           5
    """

    def __init__(
        self, world: World, local: Rows, process: Int[Tensor, " rows"], *, dtype: torch.dtype, max_bytes: int
    ) -> None:
        """Take the rows of this process, in order, and the process of each row of all.

        Rows are sent in `dtype`, as many at a time as fit `max_bytes`; both are the same on all processes.
        """
        self.size, self.dimension, self.device = len(process), local.dimension, local.device
        self.dtype = promoted([torch.float32, dtype])
        self.local = local
        self._world, self._process, self._sent_dtype = world, process.int(), dtype
        self._places = (process == world.process).nonzero()[:, 0]
        """of the local rows among all"""
        row_bytes = self.dimension * dtype.itemsize
        self.num_fitting = max(1, max_bytes // row_bytes)
        self._piece = max(1, WALK_BYTES // row_bytes)
        self._range, self._block = slice(0, 0), local

    def read(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "rows dim"]:
        """A range of rows of the block that was fetched."""
        first = self._range.start
        if not first <= rows.start <= rows.stop <= self._range.stop:
            raise IndexError(f"`rows` must be among those that were fetched, {self._range}; got {rows}.")
        return self._block.read(slice(rows.start - first, rows.stop - first), dtype)

    def fetch(self, rows: slice, *, ahead: bool = False) -> None:
        """Send a range of rows to all processes, in the place of the block before; nothing if the block has them.

        All processes ask for the same rows. If ranges of the same length follow, `ahead` fetches as many as fit.

        Raises:
            DistributedMetricError: an error on some process.
        """
        if self._range.start <= rows.start and rows.stop <= self._range.stop:
            return
        world, length = self._world, rows.stop - rows.start
        num_ranges = max(1, self.num_fitting // length) if ahead else 1
        block = slice(rows.start, min(self.size, rows.start + num_ranges * length))

        def look() -> tuple[list[int], int, Tensor]:
            self._range, self._block = slice(0, 0), self.local  # the block before is dropped
            process = self._process[block]
            sizes = process.bincount(minlength=world.size).tolist()
            # Rows come process by process: where each row of the block is among them.
            place = process.argsort(stable=True).argsort()
            return sizes, int(torch.searchsorted(self._places, block.start)), place

        sizes, first, place = world.guarded(look)
        own = segments.ranges(sizes[world.process], self._piece)
        pieces = (self.local.read(slice(first + part.start, first + part.stop), self._sent_dtype) for part in own)
        (received,) = exchange_rows(world, sizes, SentRows(lambda: pieces, (self.dimension,), self._sent_dtype))

        def keep() -> None:
            self._range, self._block = block, Rows([received.to(self.device)], place)

        world.guarded(keep)


class Spares(Generic[Thing]):
    """Things, such as memory, that threads use again and again: new ones would leave holes between what is kept."""

    def __init__(self, new: Callable[[], Thing]) -> None:
        """Take what makes a new one."""
        self._new, self._free = new, deque[Thing]()

    @contextmanager
    def one(self) -> Iterator[Thing]:
        """One for this thread alone; a new one if none is free."""
        try:
            thing = self._free.pop()
        except IndexError:
            thing = self._new()
        try:
            yield thing
        finally:
            self._free.append(thing)


def _share_memory(block: Tensor, other: Tensor) -> bool:
    """Return whether two blocks are one and the same part of the memory."""
    is_same_place = block.data_ptr() == other.data_ptr() and block.device == other.device
    return is_same_place and (block.dtype, block.shape, block.stride()) == (other.dtype, other.shape, other.stride())


def _end_to_end(parts: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Parts of a dtype, one behind the other; there may be none."""
    if len(parts) == 1:  # without a copy
        return parts[0]
    return torch.cat([torch.empty(0, dtype=dtype, device=device), *parts])


def _copied(parts: Iterable[Tensor], room: Tensor) -> Tensor:
    """Copy parts one behind the other into the memory of `room`; only one of them is held at a time."""
    filled = 0
    for part in parts:
        room[filled : filled + len(part)] = part
        filled += len(part)
    return room[:filled]


def promoted(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """The smallest dtype that holds all dtypes, float16 at least."""
    return reduce(torch.promote_types, dtypes, torch.float16)


def may_be_codes(block: Float[Tensor, "rows dim"]) -> Bool[Tensor, " rows"]:
    """Whether the first coordinates of a row have one magnitude that is not 0, as all coordinates of a code have."""
    if block.device.type != "cpu" or block.shape[1] < _LOOKED_AT:
        return _have_one_magnitude(block[:, :_LOOKED_AT])
    # Two coordinates rule out nearly all rows: on the CPU the others are looked at alone.
    first_two = block[:, :2].abs()
    marks = first_two[:, 0] == first_two[:, 1]
    marked = marks.nonzero()[:, 0]
    if len(marked):
        marks[marked] = _have_one_magnitude(block[marked, :_LOOKED_AT])
    return marks


def _have_one_magnitude(coordinates: Float[Tensor, "rows few"]) -> Bool[Tensor, " rows"]:
    magnitudes = coordinates.abs()
    return (magnitudes == magnitudes[:, :1]).all(1) & (magnitudes[:, 0] > 0)


def check_pair(query: object, gallery: object) -> tuple[Tensor, Tensor]:
    """Raise unless queries and gallery are finite embeddings that can be compared."""
    query, gallery = _checks.embeddings("query", query), _checks.embeddings("gallery", gallery)
    checked_rows(query, gallery)
    return query, gallery


def checked_rows(query: Tensor, gallery: Tensor) -> tuple[Rows, Rows]:
    """Raise unless queries and gallery are finite, and can be compared."""
    _checks.same_device("query", query, "gallery", gallery)
    _checks.same_dimension("query", query.shape[1], "gallery", gallery.shape[1])
    sides = Rows([query]), Rows([gallery])
    if sides[0].dtype == sides[1].dtype:
        sides[0].summarize_with(sides[1], sides[0].dtype)
    for name, rows in zip(("query", "gallery"), sides, strict=True):
        _checks.finite(name, rows.non_finite())
    return sides
