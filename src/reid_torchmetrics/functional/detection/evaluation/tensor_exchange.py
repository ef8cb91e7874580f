"""Tensors of any shape and dtype, sent from every process to every process in one broadcast each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional.world import DTYPES, SentRows, World, exchange_rows

_MOST_AXES = 3
_ALIGNMENT = 8  # bytes: a part of a buffer is read as any dtype
_BITS = 8  # flags in a byte


def exchange_tensors(world: World, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors of every process; the sent ones must be contiguous."""
    # Dtype and shape of each tensor, in a fixed number of ints.
    forms = [[DTYPES.index(each.dtype), *each.shape, *[-1] * (_MOST_AXES - each.ndim)] for each in tensors]
    # A process's part of the buffer: dtypes and shapes, then the tensors, each from a multiple of 8 bytes on.
    listed = [torch.tensor(forms, device=world.device), *tensors]
    spans = [span(tensor.dtype, tensor.shape) for tensor in listed]
    _, table = world.guarded_all_gather(lambda: (None, [len(forms), sum(spans)]))
    sizes = [size for _, size in table]

    def pieces() -> Iterator[Tensor]:
        for tensor, size in zip(listed, spans, strict=True):
            data = _to_bits(tensor) if tensor.dtype == torch.bool else tensor.view(-1).view(torch.uint8)
            yield functional.pad(data, (0, size - len(data)))

    (buffer,) = exchange_rows(world, sizes, SentRows(pieces, dtype=torch.uint8))
    return [_tensors(part, length) for part, (length, _) in zip(buffer.split(sizes), table, strict=True)]


def _tensors(part: Tensor, num_tensors: int) -> list[Tensor]:
    """Unpack one process's tensors."""
    # Their dtypes and shapes are a tensor like the others, the first of the part.
    first = torch.int64, [num_tensors, 1 + _MOST_AXES]
    forms = [(DTYPES[dtype], [size for size in shape if size >= 0]) for dtype, *shape in _read(part, *first).tolist()]
    places = part.split([span(*each) for each in (first, *forms)])
    return [_read(place, *each) for place, each in zip(places[1:], forms, strict=True)]


def span(dtype: torch.dtype, shape: Sequence[int]) -> int:
    """Bytes that a tensor takes, up to the next place where another may begin."""
    size = torch.Size(shape).numel()
    num_bytes = -(-size // _BITS) if dtype == torch.bool else size * dtype.itemsize
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def _read(place: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor at the beginning of a place."""
    values = _from_bits(place) if dtype == torch.bool else place.view(dtype)
    return values[: torch.Size(shape).numel()].view(*shape)


def _to_bits(flags: Tensor) -> Tensor:
    """Eight flags in a byte, uint8."""
    padded = functional.pad(flags.reshape(-1), (0, -flags.numel() % _BITS)).view(-1, _BITS)
    return (padded.to(torch.uint8) << _places(flags.device)).sum(1, dtype=torch.uint8)


def _from_bits(data: Tensor) -> Tensor:
    return ((data[:, None] >> _places(data.device)) & 1).view(-1).bool()


def _places(device: torch.device) -> Tensor:
    return torch.arange(_BITS, dtype=torch.uint8, device=device)
