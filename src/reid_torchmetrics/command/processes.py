"""The processes that torchrun starts: each evaluates its share of the rows, and all return one result."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import distributed

from reid_torchmetrics.functional.world import ALONE, DistributedMetricError, World


class Share(NamedTuple):
    """The number of a process among all, and the number of processes."""

    process: int
    size: int

    def part_of(self, num_rows: int) -> slice:
        """Return the consecutive rows that this process evaluates."""
        start = num_rows * self.process // self.size
        stop = num_rows * (self.process + 1) // self.size
        return slice(start, stop)

    def world(self) -> World:
        """Return the processes that share the problem; several need TorchMetrics, which takes a second to import."""
        if self.size == 1:
            return ALONE
        from reid_torchmetrics.metrics.base import DistributedWorld  # noqa: PLC0415

        return DistributedWorld(None, torch.device("cpu"))


@contextmanager
def join_processes() -> Iterator[Share]:
    """Join the processes of torchrun, if there are several."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield Share(0, 1)
        return
    distributed.init_process_group("gloo")
    try:
        yield Share(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


@contextmanager
def share_errors(share: Share) -> Iterator[None]:
    """Raise an error of one process on all of them, also an error outside of the metrics, such as an unreadable file.

    Raises:
        DistributedMetricError: an error on some process.
    """
    if share.size == 1:
        yield
        return
    world = share.world()
    try:
        yield
    except DistributedMetricError:  # all processes have it
        raise
    except Exception as error:
        world.conclude(error)
        raise
    world.conclude(None)
