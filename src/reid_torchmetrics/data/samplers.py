"""Samplers for evaluation on several processes."""

from __future__ import annotations

from collections.abc import Sized

from torch.utils.data import Dataset, DistributedSampler


class UnpaddedDistributedSampler(DistributedSampler[int]):
    """A sampler that distributes a data set over the processes without repeating samples.

    PyTorch's `DistributedSampler` repeats samples until all processes have equally many. Here process r of W gets the
    samples r, r + W, r + 2 W, ..., so that some processes have one sample less, and processes beyond the end of the
    data set have none. Lightning keeps a `DistributedSampler` of the user, and so this one. It is for evaluation only:
    training steps wait for each other, so that all processes must have equally many.

    Args:
        dataset: the data set, or anything with a length.
        num_replicas: number of processes; from the process group by default.
        rank: number of this process; from the process group by default.
        shuffle: whether samples are in a random order, a new one after each `set_epoch`.
        seed: seed of the random order; the same on all processes.

    Raises:
        RuntimeError: There is no process group, and `num_replicas` or `rank` is missing.
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
