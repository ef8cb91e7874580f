"""Embeddings in several blocks, possibly without some rows, or of all processes; too large to be copied as a whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from math import ceil, isfinite
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows, hash_in_order

Result = TypeVar("Result")
Thing = TypeVar("Thing")

WALK_BYTES = 16 << 20  # rows are read in pieces of this size
_WALK_BYTES_ON_DEVICE = 64 << 20  # the same on other devices, where every piece costs the launches of its kernels
_NUM_COORDINATES = 4  # coordinates of a row that are read to judge whether it may be a code
_NUM_HASHED = 64  # columns in a fingerprint, which is computed in each evaluation
_PIECES_AT_A_TIME = 4  # pieces that threads work on at the same time


class NormBounds(NamedTuple):
    """Bounds on the norms of some rows, and whether some of these may be codes."""

    least: float
    """least norm; 1 without rows"""
    largest: float
    """largest norm, NaN if one is NaN; 1 without rows"""
    has_rounded_codes: float
    """1 if a row may be a code with a magnitude that is no power of two, else 0"""


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
        self.dtype = reduce(torch.promote_types, {block.dtype for block in blocks}, torch.float32)
        self._only_block = self._blocks[0] if kept is None and len(blocks) == 1 else None
        self._norms: dict[torch.dtype, Tensor] = {}
        # Of all rows that these were selected from.
        self._have_rounded_codes: dict[torch.dtype, Tensor] = {}
        self._bounds: dict[torch.dtype, NormBounds] = {}

    @property
    def local(self) -> Rows:
        """The rows of this process: all rows."""
        return self

    def need_no_copy(self, dtype: torch.dtype) -> bool:
        """Return whether all rows are one tensor of `dtype`."""
        return self._only_block is not None and self._only_block.dtype == dtype

    def select(self, kept: Int[Tensor, " kept"] | slice | None) -> Rows:
        """Select rows at positions in any order; None for all. A range is allowed if no row has been left out."""
        if kept is None:
            return self
        if isinstance(kept, slice):
            rows = Rows(self._range(kept))
        else:
            rows = Rows(self._blocks, kept if self._kept is None else self._kept[kept])
        rows._norms = {dtype: norms[kept] for dtype, norms in self._norms.items()}
        rows._have_rounded_codes.update(self._have_rounded_codes)
        rows._bounds.update(self._bounds)
        return rows

    def followed_by(self, block: Float[Tensor, "more dim"]) -> Rows:
        """Return the rows, followed by the rows of another block; nothing is copied."""
        total = self._starts[-1]
        kept = self._kept
        if kept is None:
            kept = torch.arange(total, device=self.device)
        added = torch.arange(total, total + len(block), device=self.device)
        return Rows([*self._blocks, block], torch.cat([kept, added]))

    def all(self) -> Float[Tensor, "rows dim"]:
        """Return all rows as one tensor."""
        return self.read(slice(0, self.size), self.dtype)

    def column(self, number: int) -> Float[Tensor, " rows"]:
        """Return one coordinate of all rows, in float64."""
        values = torch.cat([block[:, number].double() for block in self._blocks])
        return values if self._kept is None else values[self._kept]

    def at(self, positions: Int[Tensor, " rows"]) -> Float[Tensor, "rows dim"]:
        """Return the rows at some positions."""
        return self.select(positions).all()

    def read(self, rows: slice, dtype: torch.dtype, buffer: Tensor | None = None) -> Float[Tensor, "rows dim"]:
        """Return a range of rows; rows that must be copied are written to `buffer`.

        Without `buffer`, rows of several blocks are always copied.
        """
        if self._only_block is not None and self._only_block.dtype == dtype:
            return self._only_block[rows]
        may_share = buffer is not None
        if buffer is None:
            buffer = torch.empty((len(range(self.size)[rows]), self.dimension), dtype=dtype, device=self.device)
        if self._kept is not None:
            return self._read_at(self._kept[rows], buffer)
        parts = self._range(rows) or [buffer[:0]]
        first = parts[0]
        is_ready = may_share and len(parts) == 1 and first.dtype == dtype and first.is_contiguous()
        if is_ready:
            return first
        # One call for all parts: a device would start a kernel for each single copy.
        return torch.cat(parts, out=buffer[: sum(map(len, parts))])

    def _read_at(self, positions: Int[Tensor, " rows"], buffer: Tensor) -> Float[Tensor, "rows dim"]:
        """Write the rows at some positions among those of all blocks to `buffer`, and return them."""
        if len(self._blocks) == 1:  # positions need no check, which would wait for a device
            block = self._blocks[0]
            if block.dtype == buffer.dtype:
                return torch.index_select(block, 0, positions, out=buffer[: len(positions)])
            return _copy([block[positions]], buffer)
        if self._is_ascending:
            return _copy(self._selection(positions), buffer)
        positions, order = positions.sort()
        return _copy(self._selection(positions), buffer)[order.argsort()]

    def walk(self, dtype: torch.dtype) -> Iterator[Float[Tensor, "rows dim"]]:
        """Yield all rows in contiguous pieces of bounded size: sums of strided rows may differ in their last digit."""
        for rows in self._pieces(dtype):
            yield self.read(rows, dtype).contiguous()

    def map_pieces(self, work: Callable[[Tensor, slice], Result], dtype: torch.dtype) -> list[Result]:
        """Return the results of `work` on each piece of the rows and its range; threads share the pieces."""
        pieces = self._pieces(dtype)
        if len(pieces) == 1:  # for few rows the rest would cost more than the work
            return [work(self.read(pieces[0], dtype).contiguous(), pieces[0])]
        num_rows = pieces[0].stop if pieces else 0
        buffers = Spares(lambda: torch.empty((num_rows, self.dimension), dtype=dtype, device=self.device))

        def do(rows: slice) -> Result:
            with buffers.one() as buffer:
                return work(self.read(rows, dtype, buffer).contiguous(), rows)

        return workers.share(do, pieces, most=_PIECES_AT_A_TIME)

    def measure(
        self, work: Callable[[Tensor], Tensor], dtype: torch.dtype, *, result_dtype: torch.dtype
    ) -> Float[Tensor, " rows"]:
        """Return a number for each row, by `work` on pieces of the rows in `dtype`."""
        parts = self.map_pieces(lambda piece, _: work(piece).to(result_dtype), dtype)
        return _concatenate(parts, result_dtype, self.device)

    def fingerprint(self) -> int:
        """Return a hash of up to 64 columns of all rows in float32, in their order; it is the same on all devices."""
        step = max(1, ceil(self.dimension / _NUM_HASHED))
        parts = self.map_pieces(lambda piece, _: hash_in_order(piece.view(torch.int32)[:, ::step]), torch.float32)
        hashes = _concatenate(parts, torch.int64, self.device)
        return int(hash_in_order(hashes ^ (hashes >> 32)))

    def norms(self, dtype: torch.dtype) -> Float[Tensor, " rows"]:
        """Return |x| of every row in a dtype; it is computed once, as several steps need it."""
        if dtype not in self._norms:
            parts = self.map_pieces(_norms_and_mark, dtype)
            self._norms[dtype] = _concatenate([norms for norms, _ in parts], dtype, self.device)
            marks = [mark for _, mark in parts]
            self._have_rounded_codes[dtype] = _concatenate(marks, torch.bool, self.device).any()
        return self._norms[dtype]

    def norm_bounds(self, dtype: torch.dtype) -> NormBounds:
        """Return bounds on the norms: those of all rows that these were selected from, if they are known."""
        if dtype not in self._bounds:
            self._bounds[dtype] = NormBounds(*self._norm_numbers(dtype).tolist())
        return self._bounds[dtype]

    def _norm_numbers(self, dtype: torch.dtype) -> Float[Tensor, " numbers"]:
        """Return the numbers of `norm_bounds` as a tensor on the device."""
        if not self.size:
            return torch.tensor([1, 1, 0], dtype=dtype, device=self.device)
        least, largest = self.norms(dtype).aminmax()
        return torch.stack([least, largest, self._have_rounded_codes[dtype].to(dtype)])

    def bound_with(self, other_rows: Rows, dtype: torch.dtype) -> None:
        """Compute the `norm_bounds` of these and of other rows with a single wait for a device."""
        numbers = torch.stack([self._norm_numbers(dtype), other_rows._norm_numbers(dtype)])
        first, second = numbers.tolist()
        self._bounds[dtype] = NormBounds(*first)
        other_rows._bounds[dtype] = NormBounds(*second)

    def non_finite(self) -> Int[Tensor, " bad"]:
        """Return the positions of rows with NaN or infinity; only rows with a norm that is not finite are searched."""
        if isfinite(self.norm_bounds(self.dtype).largest):  # nearly always
            return torch.empty(0, dtype=torch.int64, device=self.device)
        suspects = (~self.norms(self.dtype).isfinite()).nonzero()[:, 0]
        num_rows = max(1, WALK_BYTES // (self.dimension * self.dtype.itemsize))
        bad = []
        for part in suspects.split(num_rows):
            is_finite = self.select(part).all().isfinite().all(1)
            bad.append(part[~is_finite])
        return torch.cat(bad)

    def _pieces(self, dtype: torch.dtype) -> list[slice]:
        num_bytes = WALK_BYTES if self.device.type == "cpu" else _WALK_BYTES_ON_DEVICE
        row_bytes = (self.dimension or 1) * dtype.itemsize
        return segments.ranges(self.size, max(1, num_bytes // row_bytes))

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


def _norms_and_mark(piece: Tensor, _: slice) -> tuple[Tensor, Tensor]:
    """Return the norms of some rows, and one mark: whether a row may be a code that is not of powers of two."""
    norms = torch.linalg.vector_norm(piece, dim=1)
    marks = may_be_codes(piece)
    if piece.is_cpu and not bool(marks.any()):  # nearly always
        return norms, marks[:1]
    mantissa = torch.frexp(piece[:, :1].flatten()).mantissa.abs()
    is_rounded = mantissa != 0.5  # noqa: PLR2004 - the mantissa of every power of two
    return norms, (marks & is_rounded).any(0, keepdim=True)


class RowsInBlocks:
    """Rows of all processes, too many for one process: blocks of them are sent to all, are scored, and are dropped.

    Call `fetch` before `read`. For example, six queries of two processes in blocks of four, by their global numbers:

        process                 0          1
        queries              0 1 4       2 3 5
        first block, sent    0 1         2 3
        second block         4           5
    """

    def __init__(
        self, world: World, local: Rows, process: Int[Tensor, " rows"], *, dtype: torch.dtype, max_bytes: int
    ) -> None:
        """Take the rows of this process, in order, and the process of each row on any process.

        Rows are sent in `dtype`, as many at a time as fit `max_bytes`; both are the same on all processes.
        """
        self.size = len(process)
        self.dimension = local.dimension
        self.device = local.device
        self.dtype = promoted([torch.float32, dtype])
        self.local = local
        self._world = world
        self._process = process.int()
        self._sent_dtype = dtype
        self._local_numbers = (process == world.process).nonzero()[:, 0]  # global numbers of the local rows
        row_bytes = self.dimension * dtype.itemsize
        self.num_fitting = max(1, max_bytes // row_bytes)
        self._rows_per_piece = max(1, WALK_BYTES // row_bytes)
        self._range = slice(0, 0)
        self._block = local

    def read(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "rows dim"]:
        """Return a range of rows from the block that was fetched."""
        first = self._range.start
        if not first <= rows.start <= rows.stop <= self._range.stop:
            raise IndexError(f"`rows` must be among those that were fetched, {self._range}; got {rows}.")
        return self._block.read(slice(rows.start - first, rows.stop - first), dtype)

    def fetch(self, rows: slice, *, ahead: bool = False) -> None:
        """Send a block with a range of rows to all processes, unless the block before has them; that one is dropped.

        All processes pass the same rows. If ranges of the same length follow, `ahead` fetches as many as fit.

        Raises:
            DistributedMetricError: an error on some process.
        """
        if self._range.start <= rows.start and rows.stop <= self._range.stop:
            return
        world = self._world
        length = rows.stop - rows.start
        num_ranges = max(1, self.num_fitting // length) if ahead else 1
        block = slice(rows.start, min(self.size, rows.start + num_ranges * length))

        def plan() -> tuple[list[int], int, Tensor]:
            # Drop the block before.
            self._range = slice(0, 0)
            self._block = self.local
            process = self._process[block]
            sizes = process.bincount(minlength=world.size).tolist()
            # Rows arrive process by process: find the place of each row of the block among them.
            place = process.argsort(stable=True).argsort()
            return sizes, int(torch.searchsorted(self._local_numbers, block.start)), place

        sizes, first, place = world.guarded(plan)
        pieces = (
            self.local.read(slice(first + piece.start, first + piece.stop), self._sent_dtype)
            for piece in segments.ranges(sizes[world.process], self._rows_per_piece)
        )
        (received,) = exchange_rows(world, sizes, SentRows(lambda: pieces, (self.dimension,), self._sent_dtype))

        def keep() -> None:
            self._range = block
            self._block = Rows([received.to(self.device)], place)

        world.guarded(keep)


class Spares(Generic[Thing]):
    """Objects, such as buffers, that threads use again and again: new buffers would leave holes in the memory."""

    def __init__(self, new: Callable[[], Thing]) -> None:
        """Take a function that makes a new object."""
        self._new = new
        self._free = deque[Thing]()

    @contextmanager
    def one(self) -> Iterator[Thing]:
        """Return an object for this thread alone; a new one if none is free."""
        try:
            thing = self._free.pop()
        except IndexError:
            thing = self._new()
        try:
            yield thing
        finally:
            self._free.append(thing)


def _concatenate(parts: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Concatenate parts of a dtype; there may be none."""
    if len(parts) == 1:  # without a copy
        return parts[0]
    return torch.cat([torch.empty(0, dtype=dtype, device=device), *parts])


def _copy(parts: Iterable[Tensor], buffer: Tensor) -> Tensor:
    """Copy parts one after the other to a buffer; only one of them is in memory at a time."""
    num_filled = 0
    for part in parts:
        buffer[num_filled : num_filled + len(part)] = part
        num_filled += len(part)
    return buffer[:num_filled]


def promoted(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """Return the smallest dtype that holds all dtypes, at least float16."""
    return reduce(torch.promote_types, dtypes, torch.float16)


def may_be_codes(block: Float[Tensor, "rows dim"]) -> Bool[Tensor, " rows"]:
    """Mark rows with equal magnitudes, not 0, in their first coordinates; codes have them in all coordinates."""
    magnitudes = block[:, :_NUM_COORDINATES].abs()
    return (magnitudes == magnitudes[:, :1]).all(1) & (magnitudes[:, 0] > 0)


def check_pair(query: object, gallery: object) -> tuple[Tensor, Tensor]:
    """Raise unless queries and gallery are finite embeddings that can be compared."""
    query_embeddings = _checks.embeddings("query", query)
    gallery_embeddings = _checks.embeddings("gallery", gallery)
    checked_rows(Rows([query_embeddings]), Rows([gallery_embeddings]))
    return query_embeddings, gallery_embeddings


def checked_rows(query: Rows, gallery: Rows) -> tuple[Rows, Rows]:
    """Return queries and gallery; raise unless they are finite, and can be compared."""
    _checks.same_device("query", query, "gallery", gallery)
    _checks.same_dimension("query", query.dimension, "gallery", gallery.dimension)
    if query.dtype == gallery.dtype:
        query.bound_with(gallery, query.dtype)
    _checks.finite("query", query.non_finite())
    _checks.finite("gallery", gallery.non_finite())
    return query, gallery
