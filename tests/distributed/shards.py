"""Ways to deal samples out to processes, and data sets to deal out."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DistributedSampler


def _padded(count: int, size: int, *, shuffle: bool) -> list[list[int]]:
    return [list(DistributedSampler(range(count), size, process, shuffle=shuffle)) for process in range(size)]


def _uneven(count: int, size: int) -> list[list[int]]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    stops = [count * (2**process - 1) // (2**size - 1) for process in range(size + 1)]
    return [order[stops[process] : stops[process + 1]].tolist() for process in range(size)]


def _round_robin(count: int, size: int) -> list[list[int]]:
    return [list(range(process, count, size)) for process in range(size)]


SHARDINGS = {
    "round_robin": _round_robin,
    "contiguous": lambda count, size: [part.tolist() for part in torch.arange(count).tensor_split(size)],
    "uneven": _uneven,
    "empty_first": lambda count, size: ([[]] if size > 1 else []) + _round_robin(count, max(1, size - 1)),
    "empty_last": lambda count, size: _round_robin(count, max(1, size - 1)) + ([[]] if size > 1 else []),
    "padded": lambda count, size: _padded(count, size, shuffle=False),
    "padded_shuffled": lambda count, size: _padded(count, size, shuffle=True),
}
"""from a number of samples and of processes to the positions that each process gets"""

PADDED = ("padded", "padded_shuffled")


@dataclass(frozen=True)
class Loader:
    """A data set of samples in order."""

    embeddings: Tensor
    identities: Tensor
    cameras: Tensor
    is_query: Tensor | bool | None

    def __len__(self) -> int:
        return len(self.identities)

    def batches(self, positions: list[int], size: int = 7, *, index: bool = True) -> list[dict]:
        """Arguments of `update` for the samples at some positions."""
        parts = [torch.tensor(positions[first : first + size]) for first in range(0, len(positions), size)]
        return [self._batch(part) | ({"index": part} if index else {}) for part in parts]

    def _batch(self, part: Tensor) -> dict:
        role = self.is_query[part] if isinstance(self.is_query, Tensor) else self.is_query
        labels = {"identities": self.identities[part], "cameras": self.cameras[part]}
        return labels | {"embeddings": self.embeddings[part], "is_query": role}


def loaders(roles: str, num_queries: int = 17, num_gallery: int = 50) -> list[Loader]:
    """Data sets with junk, distractors and queries that cannot be evaluated, in one of three roles."""
    generator = torch.Generator().manual_seed(5)
    total = num_queries + num_gallery
    identities = torch.randint(-1, 7, (total,), generator=generator)
    cameras = torch.randint(0, 3, (total,), generator=generator)
    identities[:2] = torch.tensor([-1, 99])  # junk, and in no gallery
    identities[[2, num_queries]], cameras[[2, num_queries]] = 50, 1  # found by its own camera only
    embeddings = torch.randn(total, 6, generator=generator) + 0.4 * identities.clamp(max=7)[:, None]
    order = torch.randperm(total, generator=generator)
    is_query = torch.arange(total) < num_queries
    if roles == "two_loaders":
        return [
            Loader(embeddings[part], identities[part], cameras[part], role)
            for role, part in ((True, is_query), (False, ~is_query))
        ]
    role = {"mixed": is_query[order], "leave_one_out": None}[roles]
    return [Loader(embeddings[order], identities[order], cameras[order], role)]
