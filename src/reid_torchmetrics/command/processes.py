"""The processes that torchrun starts: each takes its share of the rows, and all make one result."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import distributed

from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.metrics.base import DistributedWorld


class Share(NamedTuple):
    """The place of a process among all."""

    process: int
    size: int

    def of(self, total: int) -> slice:
        """This process's part of some rows, one after the other."""
        return slice(total * self.process // self.size, total * (self.process + 1) // self.size)


@contextmanager
def joined() -> Iterator[Share]:
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
def telling_errors(share: Share) -> Iterator[None]:
    """Raise an error of one process on all, also an error outside of the metrics, such as a file that cannot be read.

    Raises:
        DistributedMetricError: an error on some process.
    """
    if share.size == 1:
        yield
        return
    world = DistributedWorld(None, torch.device("cpu"))
    try:
        yield
    except DistributedMetricError:  # all processes have it
        raise
    except Exception as error:
        world.conclude(error)
        raise
    world.conclude(None)
