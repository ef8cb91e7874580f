"""A sampler for evaluation on several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.data import Dataset, DistributedSampler

if TYPE_CHECKING:
    from collections.abc import Sized


class UnpaddedDistributedSampler(DistributedSampler[int]):
    """Deals a data set out to the processes, every sample to exactly one.

    PyTorch's `DistributedSampler` repeats samples until all processes have equally many. Here process r of W gets the
    samples r, r + W, r + 2 W, ...: some processes have one sample less than others, or none. Lightning keeps any
    `DistributedSampler` of the user, this one included. Use it for evaluation only: training steps of the processes
    wait for each other, and must be equally many.

    Args:
        dataset: anything with a length.
        num_replicas: number of processes; by default from the process group.
        rank: number of this process; by default from the process group.
        shuffle: whether to deal out in random order, a new one after each `set_epoch`.
        seed: of the random order; the same on all processes.

    Raises:
        RuntimeError: no process group, and no `num_replicas` and `rank`.
        ValueError: `rank` is not below `num_replicas`.

    Example:
        >>> from reid_torchmetrics import UnpaddedDistributedSampler
        >>> [list(UnpaddedDistributedSampler(range(5), num_replicas=2, rank=rank)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3]]
    """

    def __init__(
        self,
        dataset: Dataset[object] | Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=shuffle, seed=seed)  # type: ignore[arg-type]
        self.total_size = len(dataset)  # type: ignore[arg-type]
        self.num_samples = len(range(self.rank, self.total_size, self.num_replicas))
