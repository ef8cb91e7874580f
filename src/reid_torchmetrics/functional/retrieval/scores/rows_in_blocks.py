"""Queries of several processes, too many for each: a block of them goes to all processes, is scored, and is dropped.

Six queries of two processes in blocks of four, by their places in the order of all:

    process                 0          1
    queries              0 1 4       2 3 5        each in the order of all
    first block, sent    0 1         2 3
    second block         4           5
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows

from .rows import WALK_BYTES, Rows, promoted


class RowsInBlocks:
    """Rows of all processes, one block at a time; `fetch` comes before `read`."""

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
