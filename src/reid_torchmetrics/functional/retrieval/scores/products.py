"""Matrix products in full precision; every score depends on its query and gallery item alone."""

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
"""rows and columns of a product are multiples of it, and so of the sizes of kernels: 4, 6, 8, 12, 16, 24 and 48"""
BLOCK = 21 * LANES
"""number of gallery items, and of queries, that are multiplied at a time"""
_FINE = 1 + 2**-12  # a number that float32 holds, and neither TF32 nor bfloat16
_PROBE = (  # a product large enough for reduced precision, which needs more than 16 rows and columns
    torch.full((32, 32), _FINE, dtype=torch.float32, device="cpu"),
    torch.eye(32, dtype=torch.float32, device="cpu"),
)


class BlockShape(NamedTuple):
    """Shapes of the products that make up a larger product; rows are queries, columns gallery items."""

    rows: int
    """largest number of rows"""
    unit: int
    """rows are a multiple of this number, or `few`"""
    few: int
    """number of rows to which at most as many rows are padded, instead of to `unit`"""
    columns: int
    """number of columns of a block"""
    lanes: int
    """columns of a gallery of less than a block are padded to a multiple of this number"""
    bytes_added: int
    """bytes of a row that are multiplied and added up by one product"""
    part: int
    """number of multiplications in a part of the work, which has at least one block of columns"""


# For fewer rows than 16, or 32, MKL adds up in another order, and it cuts longer sums by the size of the product. A
# part of the work takes a millisecond.
_CPU = BlockShape(
    rows=BLOCK,
    unit=LANES,
    few=16,
    columns=BLOCK,
    lanes=LANES,
    bytes_added=1536,
    part=1 << 25,
)
# Libraries for GPUs choose a kernel by the shape of a product. Here all products have one shape, so large that no sum
# needs to be cut.
_GPU = BlockShape(
    rows=BLOCK,
    unit=BLOCK,
    few=BLOCK,
    columns=8 * BLOCK,
    lanes=8 * BLOCK,
    bytes_added=1 << 60,
    part=0,
)
_SHAPES = {"cpu": _CPU}
_scratch = local()  # 4 MB for each thread: new memory for every product would leave holes in the memory


def shape_on(device: torch.device) -> BlockShape:
    """Return the shapes of products on a device."""
    return _SHAPES.get(device.type, _GPU)


Finish = Callable[[Tensor, slice, Tensor], object]
"""turns products with a range of gallery items into scores, in the tensor of the products or in another one"""


def product(query: Tensor, gallery: Tensor, out: Tensor, finish: Finish | None = None) -> None:
    """Write q . g into `out` [queries, items]; equal items have equal scores.

    On the CPU a score depends on the query and the item alone: not on their places, on the number of other items, or on
    the number of threads. On other devices, where all products have one shape, this has not been measured.

    A library for matrix products chooses its kernels, and the places where it cuts a sum, by the shape of the product
    and the number of threads. Therefore the columns of every product fill all kernels: blocks have one width, the last
    one overlaps the one before, and a short gallery is padded. Rows fill all kernels, too, or their number is `few`. A
    product has no more summands than any kernel adds up at once; longer sums are added up here, piece by piece. On the
    CPU each product uses one thread, because blocks that stay in the cache are faster than one product. Small blocks
    are multiplied several at once.
    """
    shape = shape_on(out.device)
    on_cpu = out.device.type == "cpu"
    blocks = _Blocks(query, gallery, out, shape, None if on_cpu else finish)
    num_blocks = min(shape.part // (max(1, query.numel()) * shape.columns), shape.rows // max(shape.few, len(query)))

    def fill(items: slice) -> None:
        blocks.fill(items)
        if finish is not None and on_cpu:  # while the products are in the cache
            finish(out[:, items], items, out[:, items])

    workers.share(fill, segments.ranges(len(gallery), shape.columns * max(1, num_blocks)))


class _Blocks:
    """A product of queries and gallery items, filled by ranges of blocks."""

    def __init__(
        self, query: Tensor, gallery: Tensor, out: Tensor, shape: BlockShape, finish: Finish | None = None
    ) -> None:
        self._out = out
        self._shape = shape
        self._finish = finish
        is_reduced = out.dtype == torch.float32 and out.device.type == "cpu" and is_float32_reduced()
        self._dtype = torch.float64 if is_reduced else out.dtype

        # Pad a short gallery to `width` items, so that kernels are filled.
        num_items = len(gallery)
        self._width = min(shape.columns, num_items + -num_items % shape.lanes)
        if num_items < self._width:
            gallery = functional.pad(gallery, (0, 0, 0, self._width - num_items))
        self._gallery = gallery

        # Cut the queries into blocks of rows, and each block into pieces of the depth. Only the last block is padded.
        self._depth = shape.bytes_added // self._dtype.itemsize
        num_whole = len(query) - len(query) % shape.unit
        self._rows = segments.ranges(num_whole, shape.rows)
        if len(query) > num_whole:
            self._rows.append(slice(num_whole, len(query)))
        self._queries = [self._cut(_padded_rows(query[rows].to(self._dtype), shape)) for rows in self._rows]

    def fill(self, columns: slice) -> None:
        """Write the scores of a range of gallery items; the range begins at the first item of a block."""
        # Whole blocks are one product. The rest at the end of the gallery is the end of a block that overlaps them.
        rest = columns.stop - (columns.stop - columns.start) % self._shape.columns
        if rest > columns.start:
            self._fill(slice(columns.start, rest), columns.start)
        if rest < columns.stop:
            self._fill(slice(rest, columns.stop), max(0, columns.stop - self._width))

    def _fill(self, columns: slice, start: int) -> None:
        """Write the scores of gallery items by a product with all items from `start` on.

        Sums over pieces of the depth are always in the same order.
        """
        stop = max(columns.stop, start + self._width)
        first_items, *other_items = self._cut(self._gallery[start:stop].to(self._dtype))
        for query_pieces, rows in zip(self._queries, self._rows, strict=True):
            first_queries, *other_queries = query_pieces
            out = self._out[rows, columns]
            shape = (first_queries.shape[0], first_items.shape[0])
            # On other devices the place of the scores in memory may affect the choice of the kernel, too.
            is_ready = out.shape == shape and out.dtype == self._dtype and out.stride(1) == 1
            block = out if is_ready and out.device.type == "cpu" else self._block(shape)
            torch.mm(first_queries, first_items.T, out=block)
            for queries, items in zip(other_queries, other_items, strict=True):
                block.addmm_(queries, items.T)
            if block is out:
                continue
            products = block[: out.shape[0], columns.start - start :][:, : out.shape[1]]
            if self._finish is None:
                out.copy_(products)
            else:
                self._finish(products, columns, out)

    def _cut(self, vectors: Tensor) -> Sequence[Tensor]:
        """Cut vectors into pieces of the depth."""
        return vectors.split(self._depth, dim=1) if vectors.shape[1] > self._depth else [vectors]

    def _block(self, shape: tuple[int, int]) -> Tensor:
        """Return memory for a product that is not written to `out` directly; on the CPU each thread reuses it."""
        size = shape[0] * shape[1]
        if self._out.device.type != "cpu" or self._dtype != torch.float32:
            return torch.empty(shape, dtype=self._dtype, device=self._out.device)
        if not hasattr(_scratch, "scores") or len(_scratch.scores) < size:
            with torch.inference_mode(mode=False):  # or it could not be written to in other modes
                _scratch.scores = torch.empty(size, dtype=torch.float32, device="cpu")
        scores: Tensor = _scratch.scores
        return scores[:size].view(shape)


def _padded_rows(rows: Tensor, shape: BlockShape) -> Tensor:
    """Return rows, followed by rows of zeros that fill all kernels."""
    num_missing = -len(rows) % shape.unit
    if len(rows) <= shape.few:
        num_missing = shape.few - len(rows)
    return functional.pad(rows, (0, 0, 0, num_missing)) if num_missing else rows


def is_float32_reduced() -> bool:
    """Return whether products of float32 on the CPU are currently computed in bfloat16 or TF32.

    This is tested by computing one: settings have several names, their defaults depend on each other, and not every CPU
    supports them.
    """
    return float(torch.mm(*_PROBE)[0, 0]) != _FINE


@contextmanager
def full_precision(device: torch.device, *, foreign: bool) -> Iterator[None]:
    """Disable autocast and reduced precision, which training may have enabled, while scores are computed.

    Autocast is a setting of the thread. The precision of products is a setting of the process. On the CPU the products
    of this module do not depend on it, so there it is set for `foreign` products only, those of a user's function. On
    other devices it is set for all products.
    """
    is_independent = device.type == "cpu" and not foreign
    with torch.autocast(device.type, enabled=False), nullcontext() if is_independent else _precision:
        yield


class _SharedPrecision:
    """Full precision of products, a setting of the whole process, while at least one thread needs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._setting = ExitStack()

    def __enter__(self) -> None:
        """Set full precision, unless another thread has set it."""
        with self._lock:
            if not self._users:
                self._setting.enter_context(_set_full_precision())
            self._users += 1

    def __exit__(self, *_: object) -> None:
        """Restore the user's precision, unless another thread still needs full precision."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._setting.close()


_precision = _SharedPrecision()


@contextmanager
def _set_full_precision() -> Iterator[None]:
    """Set full precision through that interface of PyTorch that the user chose, and restore the user's precision."""
    # The second interface, with a setting for each backend, came with PyTorch 2.9.
    candidates: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    backends = [backend for backend in candidates if hasattr(backend, "fp32_precision")]
    backend_precisions = [backend.fp32_precision for backend in backends]
    try:
        common = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # for all backends
    except RuntimeError:  # PyTorch raises it if the two interfaces disagree
        common = None
        for backend in backends:
            backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        if common is not None:
            torch.set_float32_matmul_precision(common)
        for backend, precision in zip(backends, backend_precisions, strict=True):
            backend.fp32_precision = precision
