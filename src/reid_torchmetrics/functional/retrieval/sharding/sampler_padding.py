"""Notice that a sampler has repeated samples, where no `index` tells so."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.sharding.samples import GALLERY, QUERY, Samples
from reid_torchmetrics.functional.world import World

_NUM_FEATURES = 5
_CLOSE = 1e-2  # the same picture in another batch, perhaps in half precision


def warn_if_padded(world: World, samples: Samples) -> None:
    """Say once if the processes hold equally many samples and the last of one is the first of another.

    So it is after `DistributedSampler`: where the number of samples is no multiple of the number of processes, it
    repeats the first samples of a data set at the end of the last processes.
    """

    def look() -> tuple[None, list[int]]:
        ends = torch.stack([_ends(samples, role) for role in (QUERY, GALLERY)])
        return None, ends.view(torch.int64).flatten().tolist()

    _, table = world.guarded_all_gather(look)
    ends = torch.tensor(table, device="cpu").view(torch.float64).view(world.size, 2, 2, _NUM_FEATURES)
    if _look_padded(ends) and world.process == 0:
        _say_so()  # a warning may be an error


def _ends(samples: Samples, role: int) -> Tensor:
    """Number of all samples, labels and a fingerprint of the embedding of the first and the last sample of a role."""
    positions = (samples.roles & role > 0).nonzero()[:, 0]
    ends = torch.full((2, _NUM_FEATURES), torch.nan, dtype=torch.float64, device="cpu")
    if len(positions):
        chosen = torch.stack([positions[0], positions[-1]])
        rows = samples.rows(chosen).read(slice(0, 2), torch.float64)
        ends[:, 1] = samples.identities[chosen]
        ends[:, 2] = 0 if samples.cameras is None else samples.cameras[chosen]
        ends[:, 3], ends[:, 4] = rows.norm(dim=1), rows[:, ::2].sum(1)
    ends[:, 0] = len(samples)
    return ends


def _look_padded(table: Tensor) -> bool:
    """Whether the ends [processes, roles, first and last, features] are those of repeated samples."""
    sizes = table[:, 0, 0, 0]
    if not bool((sizes == sizes[0]).all()):
        return False
    first, last = table[:, :, 0], table[:, :, 1]
    # Between the last of each process and the first of each other.
    difference = (last[:, None] - first[None, :]).abs()  # [processes, processes, roles, features]
    close = (difference[..., 1:3] == 0).all(-1) & (difference[..., 3:] <= _CLOSE * first[None, :, :, 3:4]).all(-1)
    # Padding goes to the last processes: only the end of a higher one can be the beginning of a lower one.
    above = torch.ones(len(table), len(table), dtype=torch.bool, device=table.device).tril(-1)
    return bool((close & above[..., None]).any())


@functools.cache
def _say_so() -> None:
    warnings.warn(
        "All processes hold equally many samples, and the last of one is the first of another: a distributed sampler"
        " seems to have repeated samples to make the numbers even, and they count twice. Pass `index` to `update`, or"
        " use `UnpaddedDistributedSampler`.",
        stacklevel=2,
    )
