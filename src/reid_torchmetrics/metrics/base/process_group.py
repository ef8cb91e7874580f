"""The world of `torch.distributed`: the processes of a group share a metric's samples.

What precedes a message (`guarded`, `guarded_all_gather`, `raise_everywhere`) may fail outside of it as well, against
the rule of `functional.world`: the error escapes to `conclude`, and its message meets the next message of the others,
because all messages have one shape. What precedes `all_gather`, `broadcast` or `all_reduce_sum` may not.

A process must be able to report an error even when it is out of memory, and while others wait for something else. So
numbers, errors and texts are rows of the same length, reserved when a group first talks (`Messages`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, distributed

from reid_torchmetrics.functional.world import DistributedMetricError, WarningLog, World

Result = TypeVar("Result")

_NUM_NUMBERS = 24  # of a message; 192 bytes a process
_NUM_BYTES = _NUM_NUMBERS * 8


class DistributedWorld(World):
    """The processes of a group that share the samples of a metric."""

    def __init__(self, process_group: Any, samples_device: torch.device, warning_log: WarningLog | None = None) -> None:
        """Take a process group, or all processes if it is None.

        Raises:
            RuntimeError: `torch.distributed` is not initialized.
            ValueError: this process is not in the group.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            raise RuntimeError("A metric is combined over processes only after `torch.distributed.init_process_group`.")
        self.warning_log = (
            WarningLog(set()) if warning_log is None else warning_log
        )  # a function has a world for each call
        self._group = distributed.group.WORLD if process_group is None else process_group
        self.size = distributed.get_world_size(self._group)
        self.process = distributed.get_rank(self._group)
        if self.process < 0:
            raise ValueError("`process_group` must contain the process that computes the metric; got one without it.")
        self.members = tuple(distributed.get_process_group_ranks(self._group))
        self._devices = devices_of(distributed.get_backend_config(self._group), samples_device)
        self._kind = int.from_bytes(self._devices[1].type.encode()[:7], "big")  # the name, for the others
        self.device = self._devices[0]
        """of payload; where the samples are, once all processes have said that theirs are on such a device"""
        self._is_over = False
        """whether nothing is left to say: a collective itself has failed, or an error was raised on all processes"""

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Fill `gathered`, [size, *shape], with the values of every process, all of one shape and dtype."""
        if values.numel():
            self._collective(gather_rows, gathered, values)

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Fill `rows`, contiguous memory, with the rows of the process `source`."""
        if rows.numel():
            as_bytes = rows.view(-1).view(torch.uint8)  # every backend moves bytes, not every one bfloat16
            self._collective(distributed.broadcast, as_bytes, src=self.members[source])

    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        """Send the first `num_sent[0]` rows to process 0, the next to process 1, ..., and fill `received` likewise."""
        # gloo has no `all_to_all`, but this form of it, in all versions of PyTorch that are supported.
        self._collective(distributed.all_to_all_single, received, rows, [*num_received], [*num_sent])

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], object]) -> Tensor:
        """Let `fill` write to `buffer[1:]` and add that up over the processes; the first entry says whether it failed.

        Raises:
            DistributedMetricError: `fill` failed on some process; see `raise_everywhere`.
        """
        # The collective takes place even if `fill` fails, or the others would wait for it.
        error = None
        try:
            fill(buffer[1:])
        except Exception as caught:  # noqa: BLE001 - raised on all processes
            error = caught
        buffer[:1].fill_(error is not None)
        self._collective(distributed.all_reduce, buffer)
        if buffer[0].item() > 0:
            self.raise_everywhere(error)
        return buffer[1:]

    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do local work on every process, and learn the few numbers that come of it on all, equally many on each.

        Raises:
            DistributedMetricError: the work failed on some process; see `raise_everywhere`.
        """
        # A process says either that its work is done, with the numbers, or that it failed: one message each way.
        try:
            done, numbers = work()
            message = message_of([0, self._kind, *numbers])
        except Exception as error:
            self.raise_everywhere(error)
            raise
        table = self._send(message)
        self._raise_failures(None, table)
        self.device = self._devices[len({row[1] for row in table}) == 1]
        return done, [row[2 : 2 + len(numbers)].tolist() for row in table]

    def raise_everywhere(self, error: Exception | None) -> None:
        """Raise on every process if there is an error on one.

        Raises:
            DistributedMetricError: numbers and messages of the processes that failed.
            Exception: the error itself, where all processes failed in the same way.
        """
        self._raise_failures(error, self._send(message_of([len(_encoded(error))])))

    def conclude(self, error: Exception | None) -> None:
        """Agree on what came of everything, unless the processes did so already, or cannot talk any more."""
        if not self._is_over:
            self.raise_everywhere(error)

    def texts(self, text: str) -> list[str]:
        """A text of every process."""
        data = text.encode(errors="backslashreplace")
        return self._texts(data, [length for length, *_ in self._send(message_of([len(data)]))])

    def _texts(self, data: bytes, lengths: Sequence[int]) -> list[str]:
        """The texts of all processes, piece by piece, given their lengths and this one's."""
        received = [b""] * self.size
        for first in range(0, max(lengths), _NUM_BYTES):
            rows = self._send(array("q", data[first : first + _NUM_BYTES].ljust(_NUM_BYTES, b"\0")))
            received = [text + row.tobytes() for text, row in zip(received, rows, strict=True)]
        return [text[:length].decode() for text, length in zip(received, lengths, strict=True)]

    def _raise_failures(self, error: Exception | None, table: list[array[int]]) -> None:
        """Raise if some message begins with the length of an error's text, and not with 0."""
        lengths = [length for length, *_ in table]
        if not any(lengths):
            return
        # All know all lengths, so all take part in as many rounds, also processes that did not fail.
        texts = self._texts(_encoded(error), lengths)
        self._is_over = True  # every process raises now: `conclude` has nothing to add
        if error is not None and len(set(texts)) == 1:
            raise error
        failed = [f"process {process}: {text}" for process, text in enumerate(texts) if text]
        raise DistributedMetricError("; ".join(failed)) from error

    def _send(self, message: array[int]) -> list[array[int]]:
        self._is_over = True  # unless the collective returns: if it raises, no process can be told
        table = messages_of(self._group, self._devices[0]).send(message, self._group)
        self._is_over = False
        return table

    def _collective(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self._is_over = True
        function(*args, group=self._group, **options)
        self._is_over = False


def _encoded(error: Exception | None) -> bytes:
    """Type and text of an error; nothing if there is none."""
    if error is None:
        return b""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its text is the user's code
        text = type(error).__name__
    return text.encode(errors="backslashreplace")


def devices_of(config: str, samples_device: torch.device) -> tuple[torch.device, torch.device]:
    """The devices of messages and of payload, by the backends of the group.

    Messages are on the CPU where they can be, as they cost no wait for a device then; where the samples are matters for
    messages only if the group has no backend for the CPU. Payload is where the samples are, if a backend of its own
    serves that device: one that serves the CPU as well, such as gloo, would copy it there.

    Args:
        config: as `torch.distributed.get_backend_config` gives it, such as `"cpu:gloo,cuda:nccl"`, or one backend.
        samples_device: of this process; others may have theirs elsewhere.
    """
    backends = dict(pair.split(":") for pair in config.split(",") if ":" in pair)
    backends = backends or dict.fromkeys(distributed.Backend.backend_capability.get(config.lower(), ["cpu"]), config)
    kind, of_cpu = samples_device.type, backends.get("cpu")
    if of_cpu is not None:
        cpu = torch.device("cpu")
        return cpu, cpu if backends.get(kind, of_cpu) == of_cpu else samples_device
    if kind not in backends:
        kind, *_ = backends
        samples_device = torch.device(kind, getattr(torch, kind).current_device())
    return samples_device, samples_device


class Messages:
    """The rows that a group's processes send each other."""

    def __init__(self, size: int, device: torch.device) -> None:
        """Reserve a row for each of `size` processes on `device`, where the group's backend wants tensors."""
        with torch.inference_mode(mode=False):  # they outlive an evaluation in inference mode
            self._numbers = array("q", bytes(_NUM_BYTES))
            sent = torch.frombuffer(self._numbers, dtype=torch.int64)
            table = torch.empty((size, _NUM_NUMBERS), dtype=torch.int64, device="cpu")
            self._received = [memoryview(row.numpy()) for row in table]
            self._sent, self._table = (sent, sent.to(device)), (table, table.to(device))
            self._copies, self._each = torch.empty_like(table), [1] * size

    def send(self, message: array[int], process_group: Any) -> list[array[int]]:
        """The messages of all processes, given this one's."""
        self._numbers[:] = message
        if self._table[1].device.type == "cpu":
            # To all at once: gloo gathers in a ring, by as many steps as there are processes, for twice the CPU time.
            self._copies.copy_(self._sent[0])
            distributed.all_to_all_single(self._table[0], self._copies, self._each, self._each, group=process_group)
        else:
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
    return array("q", [*numbers, *[0] * (_NUM_NUMBERS - len(numbers))])


def messages_of(process_group: Any, device: torch.device) -> Messages:
    """The rows of a group, reserved the first time, on all of its processes or on none.

    Raises:
        DistributedMetricError: some process has no memory for them.
    """
    if process_group in _of_groups:
        return _of_groups[process_group]
    # The only collective before there is memory for messages: eight bytes that every process has.
    size, error, messages = distributed.get_world_size(process_group), None, None
    try:
        messages = Messages(size, device)
    except Exception as caught:  # noqa: BLE001 - raised on all processes
        error = caught
    failed = _FAILED.to(device)  # a new tensor only where the group's messages are not on the CPU
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
