"""The world of `torch.distributed`: the processes of a group that share the samples of a metric.

A process must be able to report an error even when it is out of memory, and while the other processes wait for another
message. Therefore numbers, errors and texts are sent as rows of one length, whose memory is reserved when a group sends
its first message (`Messages`).

Because all messages have one shape, code before a message (`guarded`, `guarded_all_gather`, `raise_everywhere`) may
fail unguarded, in exception to the rule of `functional.world`: the error reaches `conclude`, whose message meets the
next message of the other processes. Code before `all_gather`, `broadcast` or `all_reduce_sum` may not.
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

_NUM_NUMBERS = 24
"""integers of 64 bits in a message"""
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
        if warning_log is None:
            warning_log = WarningLog(set())  # a function has a world for each call
        self.warning_log = warning_log
        self._group = distributed.group.WORLD if process_group is None else process_group
        self.size = distributed.get_world_size(self._group)
        self.process = distributed.get_rank(self._group)
        if self.process < 0:
            raise ValueError("`process_group` must contain the process that computes the metric; got one without it.")
        self.members = tuple(distributed.get_process_group_ranks(self._group))
        self._devices = devices_of(distributed.get_backend_config(self._group), samples_device)
        self._device_type = int.from_bytes(self._devices[1].type.encode()[:7], "big")  # its name as a number
        self.device = self._devices[0]
        """device of the exchanged rows; the device of the samples, once all processes have the same type of device"""
        self._is_over = False
        """whether no message may follow: a collective has failed, or an error was raised on all processes"""

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
        self._collective(distributed.all_to_all_single, received, rows, list(num_received), list(num_sent))

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], object]) -> Tensor:
        """Let `fill` write to `buffer[1:]`, and sum it over the processes; `buffer[0]` counts processes that failed.

        Raises:
            DistributedMetricError: `fill` failed on some process; see `raise_everywhere`.
        """
        # The collective takes place even if `fill` fails, because the other processes wait for it.
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
        """Do local work on every process, and exchange a few numbers, equally many from each process.

        Returns:
            The result of the work on this process, and the numbers of all processes.

        Raises:
            DistributedMetricError: the work failed on some process; see `raise_everywhere`.
        """
        # Each process sends one message: the numbers after success, or the length of the error's text after failure.
        try:
            result, numbers = work()
            message = message_of([0, self._device_type, *numbers])
        except Exception as error:
            self.raise_everywhere(error)
            raise
        table = self._send(message)
        self._raise_failures(None, table)
        device_types = {row[1] for row in table}
        cpu_or_own, samples_device = self._devices
        self.device = samples_device if len(device_types) == 1 else cpu_or_own
        return result, [row[2 : 2 + len(numbers)].tolist() for row in table]

    def raise_everywhere(self, error: Exception | None) -> None:
        """Raise an error on every process if there is one on some process.

        Raises:
            DistributedMetricError: with the numbers and messages of the processes that failed.
            Exception: the error itself, if all processes failed with the same message.
        """
        self._raise_failures(error, self._send(message_of([len(_encoded(error))])))

    def conclude(self, error: Exception | None) -> None:
        """Exchange the final error, unless an error was exchanged before or a collective has failed."""
        if not self._is_over:
            self.raise_everywhere(error)

    def texts(self, text: str) -> list[str]:
        """Return the texts of all processes."""
        data = text.encode(errors="backslashreplace")
        table = self._send(message_of([len(data)]))
        lengths = [row[0] for row in table]
        return self._exchange_texts(data, lengths)

    def _exchange_texts(self, data: bytes, lengths: Sequence[int]) -> list[str]:
        """Return the texts of all processes, which know each other's lengths and send their texts in pieces."""
        received = [b""] * self.size
        for start in range(0, max(lengths), _NUM_BYTES):
            piece = data[start : start + _NUM_BYTES].ljust(_NUM_BYTES, b"\0")
            rows = self._send(array("q", piece))
            received = [text + row.tobytes() for text, row in zip(received, rows, strict=True)]
        return [text[:length].decode() for text, length in zip(received, lengths, strict=True)]

    def _raise_failures(self, error: Exception | None, table: list[array[int]]) -> None:
        """Raise if some message begins with the length of an error's text instead of 0."""
        lengths = [row[0] for row in table]
        if not any(lengths):
            return
        # All processes know all lengths, so that all take part in the same number of messages.
        texts = self._exchange_texts(_encoded(error), lengths)
        self._is_over = True  # every process raises an error now
        if error is not None and len(set(texts)) == 1:
            raise error
        failed = [f"process {process}: {text}" for process, text in enumerate(texts) if text]
        raise DistributedMetricError("; ".join(failed)) from error

    def _send(self, message: array[int]) -> list[array[int]]:
        """Send a message to all processes, and return the messages of all."""
        self._is_over = True  # stays true if the collective raises: no process can be reached then
        table = messages_of(self._group, self._devices[0]).send(message, self._group)
        self._is_over = False
        return table

    def _collective(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self._is_over = True
        function(*args, group=self._group, **options)
        self._is_over = False


def _encoded(error: Exception | None) -> bytes:
    """Return the type and text of an error; nothing if there is none."""
    if error is None:
        return b""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the text of an error is made by the user's code
        text = type(error).__name__
    return text.encode(errors="backslashreplace")


def devices_of(config: str, samples_device: torch.device) -> tuple[torch.device, torch.device]:
    """Return the device of messages and the device of exchanged rows, by the backends of the group.

    Messages are on the CPU if the group has a backend for it, because they then need no wait for another device. Rows
    are on the device of the samples if a separate backend serves this device. A backend such as gloo, which also serves
    the CPU, would copy them there.

    Args:
        config: result of `torch.distributed.get_backend_config`, such as `"cpu:gloo,cuda:nccl"` or one backend.
        samples_device: device of the samples of this process; other processes may have another one.
    """
    backends = dict(pair.split(":") for pair in config.split(",") if ":" in pair)
    if not backends:
        device_types = distributed.Backend.backend_capability.get(config.lower(), ["cpu"])
        backends = dict.fromkeys(device_types, config)
    device_type = samples_device.type
    if "cpu" in backends:
        cpu = torch.device("cpu")
        is_served_apart = backends.get(device_type, backends["cpu"]) != backends["cpu"]
        return cpu, samples_device if is_served_apart else cpu
    if device_type not in backends:
        device_type, *_ = backends  # the first one
        samples_device = torch.device(device_type, getattr(torch, device_type).current_device())
    return samples_device, samples_device


class Messages:
    """Memory for the messages of a group: one row for each process."""

    def __init__(self, size: int, device: torch.device) -> None:
        """Reserve a row for each of `size` processes on the CPU, and on the device of the group's backend."""
        with torch.inference_mode(mode=False):  # the rows outlive an evaluation in inference mode
            self._numbers = array("q", bytes(_NUM_BYTES))
            self._sent = torch.frombuffer(self._numbers, dtype=torch.int64)  # shares the memory of `_numbers`
            self._table = torch.empty((size, _NUM_NUMBERS), dtype=torch.int64, device="cpu")
            self._received = [memoryview(row.numpy()) for row in self._table]
            self._copies = torch.empty_like(self._table)
            self._device_sent = self._sent.to(device)
            self._device_table = self._table.to(device)
            self._one_row_each = [1] * size

    def send(self, message: array[int], process_group: Any) -> list[array[int]]:
        """Send a message to all processes, and return the messages of all."""
        self._numbers[:] = message
        if self._device_table.device.type == "cpu":
            # gloo would gather in a ring, with one step for each process, in twice the CPU time.
            self._copies.copy_(self._sent)
            rows = self._one_row_each
            distributed.all_to_all_single(self._table, self._copies, rows, rows, group=process_group)
        else:
            self._device_sent.copy_(self._sent)
            gather_rows(self._device_table, self._device_sent, process_group)
            self._table.copy_(self._device_table)
        # An array takes 192 bytes, a list of ints a kilobyte; a lack of memory here could not be reported.
        return [array("q", row.tobytes()) for row in self._received]


def gather_rows(table: Tensor, row: Tensor, group: Any) -> None:
    """Fill a table, which is contiguous, with the rows of all processes; no backend needs a copy of it."""
    # `all_gather_single` is the name since PyTorch 2.13. gloo accepts either function for flat tensors.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    gather(table.view(-1), row.view(-1), group=group)


def message_of(numbers: Sequence[int]) -> array[int]:
    """Return a message with some numbers, followed by zeros."""
    num_zeros = _NUM_NUMBERS - len(numbers)
    return array("q", [*numbers, *[0] * num_zeros])


def messages_of(process_group: Any, device: torch.device) -> Messages:
    """Return the memory for the messages of a group; the first call reserves it on all processes, or on none.

    Raises:
        DistributedMetricError: some process has no memory for messages.
    """
    if process_group in _messages_of_groups:
        return _messages_of_groups[process_group]
    size = distributed.get_world_size(process_group)
    messages, error = None, None
    try:
        messages = Messages(size, device)
    except Exception as caught:  # noqa: BLE001 - raised on all processes
        error = caught
    # The only collective before there is memory for messages needs eight bytes, which every process has reserved.
    failed = _FAILED.to(device)  # a new tensor only where the group's messages are not on the CPU
    failed.fill_(0 if error is None else 1 + distributed.get_rank(process_group))
    distributed.all_reduce(failed, op=distributed.ReduceOp.MAX, group=process_group)
    process = int(failed.item()) - 1
    if messages is None or process >= 0:
        raise DistributedMetricError(f"process {process}: no memory for messages to the others") from error
    _messages_of_groups[process_group] = messages
    return messages


_messages_of_groups: WeakKeyDictionary[Any, Messages] = WeakKeyDictionary()
_FAILED = torch.zeros(1, dtype=torch.int64, device="cpu")
"""number of the last process without memory for messages, counted from one; 0 if there is none"""
