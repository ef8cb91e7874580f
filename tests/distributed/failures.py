"""Failures of one process, and what the processes say of them."""

from unittest import mock

import torch
from torch import distributed

from reid_torchmetrics import DistributedMetricError


def message_of(compute) -> str:
    """The message that `compute` raises here, after which all processes can still talk to each other.

    A process that waits for another one ends with an error of the collective, by its timeout, and so does its test.
    """
    try:
        value = compute()
    except DistributedMetricError as error:
        message = str(error)
    else:
        message = f"no error but {value}"
    together = torch.ones(1)
    distributed.all_reduce(together)
    assert together == distributed.get_world_size()
    return message


def out_of_memory(*places) -> mock._patch:
    """Let a function of the package run out of memory."""
    return mock.patch.object(*places, side_effect=torch.cuda.OutOfMemoryError("simulated"))
