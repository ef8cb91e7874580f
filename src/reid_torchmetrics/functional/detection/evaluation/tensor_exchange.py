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


def _form(tensor: Tensor) -> list[int]:
    """Encode dtype and shape in a fixed number of ints."""
    return [DTYPES.index(tensor.dtype), *tensor.shape, *[-1] * (_MOST_AXES - tensor.ndim)]


def exchange_tensors(world: World, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors of every process; the sent ones must be contiguous."""
    forms = torch.tensor([number for tensor in tensors for number in _form(tensor)], device=world.device)
    # A process's part of the buffer: dtypes and shapes, then the tensors, each from a multiple of 8 bytes on.
    listed = [forms, *tensors]
    spans = [span(tensor.dtype, tensor.shape) for tensor in listed]
    _, table = world.guarded_all_gather(lambda: (None, [len(forms), sum(spans)]))
    sizes = [size for _, size in table]

    def pieces() -> Iterator[Tensor]:
        for tensor, size in zip(listed, spans, strict=True):
            data = _to_bits(tensor) if tensor.dtype == torch.bool else tensor.view(-1).view(torch.uint8)
            yield functional.pad(data, (0, size - len(data)))

    (buffer,) = exchange_rows(world, sizes, SentRows(pieces, dtype=torch.uint8))
    return [_tensors(part, length) for part, (length, _) in zip(buffer.split(sizes), table, strict=True)]


def _tensors(part: Tensor, num_numbers: int) -> list[Tensor]:
    """Unpack one process's tensors; the first `num_numbers` ints are their dtypes and shapes."""
    # The forms are a tensor like the others, the first of the part.
    shapes = [(torch.int64, [num_numbers]), *_shapes(_read(part, torch.int64, [num_numbers]).tolist())]
    places = part.split([span(*each) for each in shapes])
    return [_read(place, *each) for place, each in zip(places[1:], shapes[1:], strict=True)]


def _shapes(numbers: Sequence[int]) -> Iterator[tuple[torch.dtype, list[int]]]:
    """Dtypes and shapes, given the forms of tensors one after the other."""
    for first in range(0, len(numbers), 1 + _MOST_AXES):
        dtype, *shape = numbers[first : first + 1 + _MOST_AXES]
        yield DTYPES[dtype], [size for size in shape if size >= 0]


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
