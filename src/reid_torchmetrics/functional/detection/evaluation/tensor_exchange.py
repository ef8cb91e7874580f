"""Exchange of tensors of any shape and dtype between all processes, in one broadcast per process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional.world import DTYPES, SentRows, World, exchange_rows

_MAX_AXES = 3
_ALIGNMENT = 8  # bytes: a part of a buffer is read as any dtype
_BITS = 8  # flags per byte


def exchange_tensors(world: World, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return the tensors of every process; those of this process must be contiguous."""
    # The header has a row for each tensor: its dtype and shape, filled up with -1.
    rows = []
    for tensor in tensors:
        padding = [-1] * (_MAX_AXES - tensor.ndim)
        rows.append([DTYPES.index(tensor.dtype), *tensor.shape, *padding])
    header = torch.tensor(rows, device=world.device)

    # The part of a process in the buffer: the header, then the tensors, each at a multiple of 8 bytes.
    sent = [header, *tensors]
    spans = [span(tensor.dtype, tensor.shape) for tensor in sent]
    _, table = world.guarded_all_gather(lambda: (None, [len(tensors), sum(spans)]))
    sizes = [size for _, size in table]

    def pieces() -> Iterator[Tensor]:
        for tensor, size in zip(sent, spans, strict=True):
            data = _to_bits(tensor) if tensor.dtype == torch.bool else tensor.view(-1).view(torch.uint8)
            yield functional.pad(data, (0, size - len(data)))

    (buffer,) = exchange_rows(world, sizes, SentRows(pieces, dtype=torch.uint8))
    parts = buffer.split(sizes)
    return [_unpack(part, num_tensors) for part, (num_tensors, _) in zip(parts, table, strict=True)]


def _unpack(part: Tensor, num_tensors: int) -> list[Tensor]:
    """Return the tensors in the part of one process."""
    header_shape = [num_tensors, 1 + _MAX_AXES]
    header = _read(part, torch.int64, header_shape).tolist()
    tensors = []
    start = span(torch.int64, header_shape)
    for dtype_index, *sizes in header:
        dtype = DTYPES[dtype_index]
        shape = [size for size in sizes if size >= 0]
        stop = start + span(dtype, shape)
        tensors.append(_read(part[start:stop], dtype, shape))
        start = stop
    return tensors


def span(dtype: torch.dtype, shape: Sequence[int]) -> int:
    """Return the number of bytes from the start of a tensor to the next place where another may start."""
    num_values = torch.Size(shape).numel()
    num_bytes = -(-num_values // _BITS) if dtype == torch.bool else num_values * dtype.itemsize
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def _read(data: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """Return the tensor at the beginning of some bytes."""
    values = _from_bits(data) if dtype == torch.bool else data.view(dtype)
    return values[: torch.Size(shape).numel()].view(*shape)


def _to_bits(flags: Tensor) -> Tensor:
    """Pack eight flags into each byte, uint8."""
    padded = functional.pad(flags.reshape(-1), (0, -flags.numel() % _BITS)).view(-1, _BITS)
    return (padded.to(torch.uint8) << _bit_positions(flags.device)).sum(1, dtype=torch.uint8)


def _from_bits(data: Tensor) -> Tensor:
    """Return the flags in bytes of `_to_bits`."""
    return ((data[:, None] >> _bit_positions(data.device)) & 1).view(-1).bool()


def _bit_positions(device: torch.device) -> Tensor:
    return torch.arange(_BITS, dtype=torch.uint8, device=device)
