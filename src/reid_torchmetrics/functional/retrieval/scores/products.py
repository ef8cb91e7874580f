"""Matrix products in full precision; every score depends on its query and item alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Lock, local
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments, workers

LANES = 48
"""rows and columns of a product are a multiple of it, and so of every kernel: 4, 6, 8, 12, 16, 24 and 48"""
BLOCK = 21 * LANES
"""gallery items, and queries, multiplied at a time"""
_FINE = 1 + 2**-12  # a number that float32 holds, and neither TF32 nor bfloat16
_PROBE = (  # a product large enough for reduced precision, which needs more than 16 rows and columns
    torch.full((32, 32), _FINE, dtype=torch.float32, device="cpu"),
    torch.eye(32, dtype=torch.float32, device="cpu"),
)


class BlockShape(NamedTuple):
    """Shapes of the products that a larger product is made of; rows are queries, columns gallery items."""

    rows: int
    """the most"""
    unit: int
    """rows are a multiple of it"""
    few: int
    """rows, if there are no more, and not a multiple of the unit"""
    columns: int
    """of a block"""
    lanes: int
    """columns of a gallery of less than a block are a multiple of it"""
    bytes_added: int
    """bytes of a row, added up in one product"""
    part: int
    """products of two numbers in a part of the work, with one block of columns at least"""


# With fewer rows than 16, or 32, MKL adds up in another order; longer sums it cuts by the size of the product. A part
# takes a millisecond.
_CPU = BlockShape(BLOCK, LANES, few=16, columns=BLOCK, lanes=LANES, bytes_added=1536, part=1 << 25)
# Libraries of GPUs choose a kernel by the shape of a product: here it is one, large enough that no sum need be cut.
_GPU = BlockShape(BLOCK, BLOCK, few=BLOCK, columns=8 * BLOCK, lanes=8 * BLOCK, bytes_added=1 << 60, part=0)
_SHAPES = {"cpu": _CPU}
_scratch = local()  # 4 MB of a thread: memory that comes and goes would leave holes between what is kept


def shape_on(device: torch.device) -> BlockShape:
    """The shapes of products on a device."""
    return _SHAPES.get(device.type, _GPU)


Finish = Callable[[Tensor, slice, Tensor], object]
"""turns products with a range of gallery items into scores, in the tensor of the products or in another one"""


def product(query: Tensor, gallery: Tensor, out: Tensor, finish: Finish | None = None) -> None:
    """Write q . g into `out` [queries, items]; equal items have equal scores.

    On the CPU a score depends on the query and the item alone: not on their places, on the number of others, or on the
    number of threads. On other devices, where all products have one shape, this has not been measured.

    A library for matrix products chooses its kernels, and the places where it cuts a sum, by the shape of the product
    and the number of threads. So the columns of every product fill all kernels: blocks of one width, the last
    overlapping the one before; a short gallery is padded. So do its rows, or they are the fewest allowed. It has no
    more summands than any kernel adds up in one go; longer sums are added up here, piece by piece. On the CPU each
    product is of one thread: blocks that stay in the cache are faster than one product; small ones are taken
    several at once.
    """
    shape = shape_on(out.device)
    on_cpu = out.device.type == "cpu"
    blocks = _Blocks(query, gallery, out, shape, None if on_cpu else finish)
    num_blocks = min(shape.part // (max(1, query.numel()) * shape.columns), shape.rows // max(shape.few, len(query)))
    at_a_time = shape.columns * max(1, num_blocks)

    def fill(items: slice) -> None:
        blocks.fill(items)
        if finish is not None and on_cpu:  # as long as they are in the cache
            finish(out[:, items], items, out[:, items])

    workers.share(fill, segments.ranges(len(gallery), at_a_time))


class _Blocks:
    """One product of queries and gallery items, filled by ranges of blocks."""

    def __init__(
        self, query: Tensor, gallery: Tensor, out: Tensor, shape: BlockShape, finish: Finish | None = None
    ) -> None:
        self._out, self._shape, self._finish = out, shape, finish
        is_reduced = out.dtype == torch.float32 and out.device.type == "cpu" and is_float32_reduced()
        self._dtype = torch.float64 if is_reduced else out.dtype
        # Pad a short side, so that kernels are filled: at least `width` items.
        num_items = len(gallery)
        self._width = min(shape.columns, num_items + -num_items % shape.lanes)
        if num_items < self._width:
            gallery = functional.pad(gallery, (0, 0, 0, self._width - num_items))
        self._gallery = gallery
        # Queries [rows, depth] by blocks of rows, each in pieces of the depth; all blocks but the last need no filling.
        self._depth = shape.bytes_added // self._dtype.itemsize
        num_whole = len(query) - len(query) % shape.unit
        rest = [slice(num_whole, len(query))] if len(query) > num_whole else []
        self._rows = [*segments.ranges(num_whole, shape.rows), *rest]
        self._queries = [self._cut(_filled_up(query[rows].to(self._dtype), shape)) for rows in self._rows]

    def fill(self, columns: slice) -> None:
        """Write the scores of a range of gallery items; the range begins where a block does."""
        # Whole blocks are one product, and a rest of a block, at the end of the gallery, is the end of another block.
        rest = columns.stop - (columns.stop - columns.start) % self._shape.columns
        if rest > columns.start:
            self._fill(slice(columns.start, rest), columns.start)
        if rest < columns.stop:
            self._fill(slice(rest, columns.stop), max(0, columns.stop - self._width))

    def _fill(self, columns: slice, start: int) -> None:
        """Write the scores of gallery items by a product with items from `start` on: a block before may have the first.

        Sums over pieces of the depth are always in the same order.
        """
        stop = max(columns.stop, start + self._width)
        first_items, *other_items = self._cut(self._gallery[start:stop].to(self._dtype))
        for (first, *others), rows in zip(self._queries, self._rows, strict=True):
            out, shape = self._out[rows, columns], (first.shape[0], first_items.shape[0])
            # On other devices the place of the scores in memory, too, may decide on the kernel.
            is_ready = out.shape == shape and out.dtype == self._dtype and out.stride(1) == 1
            block = out if is_ready and out.device.type == "cpu" else self._block(shape)
            torch.mm(first, first_items.T, out=block)
            for queries, items in zip(others, other_items, strict=True):
                block.addmm_(queries, items.T)
            if block is out:
                continue
            products = block[: out.shape[0], columns.start - start :][:, : out.shape[1]]
            if self._finish is None:
                out.copy_(products)
            else:
                self._finish(products, columns, out)

    def _cut(self, vectors: Tensor) -> Sequence[Tensor]:
        """Pieces of the depth."""
        return vectors.split(self._depth, dim=1) if vectors.shape[1] > self._depth else [vectors]

    def _block(self, shape: tuple[int, int]) -> Tensor:
        """Memory of this thread for a product that is not a part of `out`, used again and again."""
        size = shape[0] * shape[1]
        if self._out.device.type != "cpu" or self._dtype != torch.float32:
            return torch.empty(shape, dtype=self._dtype, device=self._out.device)
        if not hasattr(_scratch, "scores") or len(_scratch.scores) < size:
            with torch.inference_mode(mode=False):  # or it could not be written to in other modes
                _scratch.scores = torch.empty(size, dtype=torch.float32, device="cpu")
        scores: Tensor = _scratch.scores
        return scores[:size].view(shape)


def _filled_up(rows: Tensor, shape: BlockShape) -> Tensor:
    """Rows, and rows of zeros to fill all kernels."""
    missing = shape.few - len(rows) if len(rows) <= shape.few else -len(rows) % shape.unit
    return functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def is_float32_reduced() -> bool:
    """Whether products of float32 on the CPU are computed in bfloat16 or TF32 at the moment.

    Seen by computing one: settings have several names, their defaults depend on each other, and not every CPU follows.
    """
    return float(torch.mm(*_PROBE)[0, 0]) != _FINE


@contextmanager
def full_precision(device: torch.device, *, foreign: bool) -> Iterator[None]:
    """Keep autocast, and the reduced precision that training asks for, away from scores.

    Autocast is a setting of the thread. The precision of products is one of the process: products of this module do not
    depend on it on the CPU, so there it is set for `foreign` products only, of a user's function; elsewhere for all.
    """
    full = nullcontext() if device.type == "cpu" and not foreign else _precision
    with torch.autocast(device.type, enabled=False), full:
        yield


class _SharedPrecision:
    """Full precision of products, a setting of the whole process, while at least one thread wants it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._setting = ExitStack()

    def __enter__(self) -> None:
        """Set full precision, unless another thread has."""
        with self._lock:
            if not self._users:
                self._setting.enter_context(_set_full_precision())
            self._users += 1

    def __exit__(self, *_: object) -> None:
        """Restore the user's precision, unless another thread still wants it full."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._setting.close()


_precision = _SharedPrecision()


@contextmanager
def _set_full_precision() -> Iterator[None]:
    """Set full precision through the interface of PyTorch that the user chose: a function may ask for it."""
    # The second interface, for each backend, came with PyTorch 2.9.
    backends: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    of_backends = [(each, each.fp32_precision) for each in backends if hasattr(each, "fp32_precision")]
    try:
        common = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # of all backends
    except RuntimeError:  # PyTorch does not tell, because the second interface says something else
        common = None
        for backend, _ in of_backends:
            backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        if common is not None:
            torch.set_float32_matmul_precision(common)
        for backend, value in of_backends:
            backend.fp32_precision = value
