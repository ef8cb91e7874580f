"""Exchange of tensors of any shape and dtype between all processes, in one broadcast per process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics.functional.world import SentRows, World, exchange_rows


def exchange_tensors(world: World, tensors: Callable[[], Sequence[Tensor]]) -> list[list[Tensor]]:
    """Return the tensors of every process, on the CPU; `tensors` returns those of this process."""

    def work() -> tuple[Tensor, list[int]]:
        data = packed(tensors())
        return data, [len(data)]

    data, table = world.guarded_all_gather(work)
    sizes = [size for (size,) in table]
    (buffer,) = exchange_rows(world, sizes, SentRows(lambda: [data], dtype=torch.uint8))
    return [_unpacked(part) for part in buffer.cpu().split(sizes)]


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors as bytes, uint8; flags take a bit each."""
    parts: list[tuple[Tensor, list[int] | None]] = []
    for tensor in tensors:
        if tensor.dtype == torch.bool:
            bits = np.packbits(tensor.cpu().numpy())
            parts.append((torch.from_numpy(bits), list(tensor.shape)))
        else:
            parts.append((tensor.cpu().clone(), None))  # of a view all of its memory would be saved
    file = BytesIO()
    torch.save(parts, file)
    return torch.from_numpy(np.frombuffer(file.getvalue(), dtype=np.uint8).copy())


def _unpacked(data: Tensor) -> list[Tensor]:
    """Return the tensors in bytes of `packed`."""
    tensors = []
    for values, shape in torch.load(BytesIO(data.numpy().tobytes()), weights_only=True):
        if shape is None:
            tensors.append(values)
        else:
            flags = np.unpackbits(values.numpy(), count=torch.Size(shape).numel())
            tensors.append(torch.from_numpy(flags).bool().view(shape))
    return tensors
