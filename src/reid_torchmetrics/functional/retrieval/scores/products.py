"""Matrix products whose every entry depends on the query and the item alone, in full precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments, workers

_LANES = 48  # rows and columns of a product are multiples of those of all kernels: 4, 6, 8, 12, 16, 24 and 48
BLOCK = 21 * _LANES
"""gallery items, and queries, that are multiplied at a time"""
_FEW_ROWS = 16  # rows of a product, if not a multiple of `_LANES`: with fewer, or 32, MKL adds up in another order
_PART = 1 << 25  # products of two numbers in a part of the work: a millisecond
_BYTES_ADDED = 1536  # bytes of a row that are added up in one product: MKL cuts longer sums by the size of the product
_FINE = 1 + 2**-12  # a factor that float32 holds, and neither TF32 nor bfloat16
_PROBE = (  # a product that is large enough for reduced precision, which wants more than 16 rows and columns
    torch.full((32, 32), _FINE, dtype=torch.float32, device="cpu"),
    torch.eye(32, dtype=torch.float32, device="cpu"),
)


Finish = Callable[[Tensor, slice], object]
"""what is done to the scores of some gallery items, in place, as soon as they are there; the second says which items"""


def product(query: Tensor, gallery: Tensor, out: Tensor, finish: Finish | None = None) -> None:
    """Write q . g into `out` [queries, items]; equal items have equal scores.

    On the CPU a score depends on the query and the item alone: not on their places, on how many others there are, or
    on the number of threads. What other devices give has not been measured; there, one query is multiplied as two,
    because a product of a vector and a matrix is another kernel.
    """
    if out.device.type == "cpu":
        _product_in_blocks(query, gallery, out, finish)
        return
    if len(query) == 1:
        out.copy_(torch.mm(query.repeat(2, 1), gallery.T)[:1])
    else:
        torch.mm(query, gallery.T, out=out)
    if finish is not None:
        finish(out, slice(0, len(gallery)))


def _product_in_blocks(query: Tensor, gallery: Tensor, out: Tensor, finish: Finish | None) -> None:
    """Write q . g into `out` by products of one width and bounded depth, each of one thread.

    A library for matrix products chooses its kernels, and where it cuts a sum in two, by the shape of the product and
    the number of threads. So every product has columns that fill all kernels (blocks of `BLOCK`, the last of which
    overlaps the one before; a short gallery is padded to a multiple of `_LANES`), rows that do so, too, or the fewest
    that are allowed, and no more summands than any kernel adds up in one go; longer sums are added up here, piece by
    piece. Blocks that stay in the cache are about as fast as one product; where they are small, some are taken at once.
    """
    blocks = _Blocks(query, gallery, out)
    at_a_time = BLOCK * max(1, _PART // (max(1, query.numel()) * BLOCK))

    def fill(items: slice) -> None:
        blocks.fill(items)
        if finish is not None:
            finish(out[:, items], items)

    workers.share(fill, segments.ranges(len(gallery), at_a_time))


class _Blocks:
    """One product of queries and gallery items, as many blocks of it at a time as are asked for."""

    def __init__(self, query: Tensor, gallery: Tensor, out: Tensor) -> None:
        self._out = out
        self._dtype = torch.float64 if out.dtype == torch.float32 and is_float32_reduced() else out.dtype
        # Pad a short side, so that kernels are filled: at least `width` items.
        num_items = len(gallery)
        self._width = min(BLOCK, num_items + -num_items % _LANES)
        if num_items < self._width:
            gallery = functional.pad(gallery, (0, 0, 0, self._width - num_items))
        self._gallery = gallery
        # Queries [rows, depth] by blocks of rows, each in pieces of the depth.
        self._depth = _BYTES_ADDED // self._dtype.itemsize
        self._queries = [_filled_up(rows.to(self._dtype)).split(self._depth, dim=1) for rows in _cut_in_rows(query)]

    def fill(self, columns: slice) -> None:
        """Write the scores of a range of gallery items, which begins where a block does."""
        # Whole blocks are one product, and a rest of a block, at the end of the gallery, is the end of another block.
        rest = columns.stop - (columns.stop - columns.start) % BLOCK
        if rest > columns.start:
            self._fill(slice(columns.start, rest), columns.start)
        if rest < columns.stop:
            self._fill(slice(rest, columns.stop), max(0, columns.stop - self._width))

    def _fill(self, columns: slice, start: int) -> None:
        """Write the scores of gallery items by a product with items from `start` on."""
        stop = max(columns.stop, start + self._width)
        pieces = self._gallery[start:stop].to(self._dtype).split(self._depth, dim=1)
        for queries, rows in zip(self._queries, _cut_in_rows(self._out[:, columns]), strict=True):
            self._multiply(queries, pieces, rows, columns.start - start)

    def _multiply(self, query: Sequence[Tensor], items: Sequence[Tensor], out: Tensor, num_seen: int) -> None:
        """Write scores, but for those of the first items, which the block before has."""
        shape = (len(query[0]), len(items[0]))
        is_whole = out.shape == shape and out.dtype == self._dtype
        block = out if is_whole else torch.empty(shape, dtype=self._dtype, device=out.device)
        # A sum over pieces of the depth, always in the same order.
        torch.mm(query[0], items[0].T, out=block)
        for queries_piece, items_piece in zip(query[1:], items[1:], strict=True):
            block.addmm_(queries_piece, items_piece.T)
        if not is_whole:
            out.copy_(block[: len(out), num_seen : num_seen + out.shape[1]])


def _cut_in_rows(rows: Tensor) -> list[Tensor]:
    """Blocks of at most `BLOCK` rows; all but the last have a multiple of `_LANES`, and need not be filled up."""
    num_whole = len(rows) - len(rows) % _LANES
    return [block for part in (rows[:num_whole], rows[num_whole:]) for block in part.split(BLOCK) if len(block)]


def _filled_up(rows: Tensor) -> Tensor:
    """Rows and zeros, as many as fill all kernels."""
    missing = _FEW_ROWS - len(rows) if len(rows) <= _FEW_ROWS else -len(rows) % _LANES
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def is_float32_reduced() -> bool:
    """Whether products of float32 on the CPU are taken in bfloat16 or TF32 just now.

    Seen by taking one: settings have several names, their defaults depend on each other, and not every CPU follows.
    """
    return float(torch.mm(*_PROBE)[0, 0]) != _FINE


class _Precision:
    """Full precision of products, a setting of the whole process, for as long as any thread wants it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._chosen = _Chosen(None, [])

    def ask(self) -> None:
        """Set it, and remember what was set, unless another thread has."""
        with self._lock:
            if not self._users:
                self._chosen = _Chosen.now()
                self._chosen.replace_by_full()
            self._users += 1

    def release(self) -> None:
        """Set what was set before, when the last thread is done."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._chosen.restore()


class _Chosen(NamedTuple):
    """The precision of products as the user chose it, through either interface of PyTorch, or through both."""

    common: str | None
    """of the first interface; None where PyTorch refuses to tell, because the second says something else"""
    of_backends: list[str]
    """of the second, which came with PyTorch 2.9"""

    @classmethod
    def now(cls) -> _Chosen:
        """What is set now."""
        of_backends = [backend.fp32_precision for backend in _backends()]
        try:
            return cls(torch.get_float32_matmul_precision(), of_backends)
        except RuntimeError:
            return cls(None, of_backends)

    def replace_by_full(self) -> None:
        """Ask for full precision through the interface that the user chose: a function may ask what is set."""
        if self.common is not None:
            torch.set_float32_matmul_precision("highest")  # of all backends
            return
        for backend in _backends():
            backend.fp32_precision = "ieee"

    def restore(self) -> None:
        """Set it as it was."""
        if self.common is not None:
            torch.set_float32_matmul_precision(self.common)
        for backend, value in zip(_backends(), self.of_backends, strict=True):
            backend.fp32_precision = value


def _backends() -> list[Any]:
    """The backends whose precision can be set one by one."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        return []
    return [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]  # type: ignore[attr-defined]


_precision = _Precision()


@contextmanager
def full_precision(device: torch.device, *, foreign: bool) -> Iterator[None]:
    """Keep autocast and the reduced precision that training asks for away from scores.

    Autocast is a matter of the thread. The precision of products is one of the process: on the CPU our own products do
    not depend on it, so it is set for `foreign` ones only, those of a user's function; elsewhere it is set for all.
    """
    with torch.autocast(device.type, enabled=False):
        if device.type == "cpu" and not foreign:
            yield
            return
        _precision.ask()
        try:
            yield
        finally:
            _precision.release()
