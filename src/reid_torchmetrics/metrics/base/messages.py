"""Small messages of one shape between the processes of a group, through memory that is there already.

A process must be able to report an error even when it is out of memory, and while others wait for something else. So
numbers, errors and texts are rows of the same length, reserved when a group first talks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, distributed

from reid_torchmetrics.functional.world import DistributedMetricError

NUM_NUMBERS = 24  # of a message; 192 bytes a process
NUM_BYTES = NUM_NUMBERS * 8


class Messages:
    """The rows that a group's processes send each other."""

    def __init__(self, size: int, device: torch.device) -> None:
        """Reserve a row for each of `size` processes on `device`, where the group's backend wants tensors."""
        with torch.inference_mode(mode=False):  # they outlive an evaluation in inference mode
            self._numbers = array("q", bytes(NUM_BYTES))
            sent = torch.frombuffer(self._numbers, dtype=torch.int64)
            table = torch.empty((size, NUM_NUMBERS), dtype=torch.int64, device="cpu")
            self._received = [memoryview(row.numpy()) for row in table]
            self._sent, self._table = (sent, sent), (table, table)
            if device.type != "cpu":
                self._sent = sent, torch.empty_like(sent, device=device)
                self._table = table, torch.empty_like(table, device=device)

    def send(self, message: array[int], process_group: Any) -> list[array[int]]:
        """The messages of all processes, given this one's."""
        self._numbers[:] = message
        self._sent[1].copy_(self._sent[0])
        gather_rows(self._table[1], self._sent[1], process_group)
        self._table[0].copy_(self._table[1])
        # 192 bytes a process, where a list of ints takes a kilobyte: a lack of memory here could not be reported.
        return [array("q", row.tobytes()) for row in self._received]


def gather_rows(table: Tensor, row: Tensor, group: Any) -> None:
    """Fill a table, contiguous memory, with the rows of all processes: no backend needs a copy of it."""
    # The first is the name since PyTorch 2.13; gloo takes either for flat tensors.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    gather(table.view(-1), row.view(-1), group=group)


def message_of(numbers: Sequence[int]) -> array[int]:
    """A message of some numbers, followed by zeros."""
    return array("q", [*numbers, *[0] * (NUM_NUMBERS - len(numbers))])


def messages_of(process_group: Any, device: torch.device) -> Messages:
    """The rows of a group, reserved the first time, on all of its processes or on none.

    Raises:
        DistributedMetricError: some process has no memory for them.
    """
    known = _of_groups.get(process_group)
    if known is not None:
        return known
    # The only collective before there is memory for messages: eight bytes that every process has.
    size, error, messages = distributed.get_world_size(process_group), None, None
    try:
        messages = Messages(size, device)
    except Exception as caught:  # noqa: BLE001 - raised on all processes
        error = caught
    failed = _FAILED if device.type == "cpu" else torch.zeros_like(_FAILED, device=device)
    failed.fill_(0 if error is None else 1 + distributed.get_rank(process_group))
    distributed.all_reduce(failed, op=distributed.ReduceOp.MAX, group=process_group)
    process = int(failed.item()) - 1
    if messages is None or process >= 0:
        raise DistributedMetricError(f"process {process}: no memory for messages to the others") from error
    _of_groups[process_group] = messages
    return messages


_of_groups: WeakKeyDictionary[Any, Messages] = WeakKeyDictionary()
_FAILED = torch.zeros(1, dtype=torch.int64, device="cpu")
"""the highest process that failed, from one, before there is memory for messages"""
