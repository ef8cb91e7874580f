"""Samplers for evaluation on several processes."""

from __future__ import annotations

from collections.abc import Sized

from torch.utils.data import Dataset, DistributedSampler


class UnpaddedDistributedSampler(DistributedSampler[int]):
    """Deals a data set out to the processes, every sample to exactly one.

    PyTorch's `DistributedSampler` repeats samples until all processes have equally many. Here process r of W gets the
    samples r, r + W, r + 2 W, ..., so that some processes have one less than others, and processes beyond the end of
    the data set none. Lightning leaves a `DistributedSampler` of the user's in place, and so this one. It is for
    evaluation: training steps wait for each other, and must be equally many.

    Args:
        dataset: what is sampled; anything with a length.
        num_replicas: number of processes; from the process group by default.
        rank: number of this process; from the process group by default.
        shuffle: whether to deal out in a random order, another one after each `set_epoch`.
        seed: of the random order; the same on all processes.

    Raises:
        RuntimeError: neither `num_replicas` and `rank` nor a process group is there.
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
