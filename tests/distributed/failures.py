"""Failures of one process, and what the processes say of them."""

import time
from unittest import mock

import torch
from torch import distributed

from reid_torchmetrics import DistributedMetricError

SECONDS = 5


def message_of(compute) -> str:
    """The message that `compute` raises here, in time, after which all processes can still talk to each other."""
    started = time.monotonic()
    try:
        value = compute()
    except DistributedMetricError as error:
        message = str(error)
    else:
        message = f"no error but {value}"
    assert time.monotonic() - started < SECONDS
    together = torch.ones(1)
    distributed.all_reduce(together)
    assert together == distributed.get_world_size()
    return message


def out_of_memory(*places) -> mock._patch:
    """Let a function of the package run out of memory."""
    return mock.patch.object(*places, side_effect=torch.cuda.OutOfMemoryError("simulated"))
