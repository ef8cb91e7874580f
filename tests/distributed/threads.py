"""A world whose processes are threads of one process: the functional layer needs no `torch.distributed` for it.

Collectives cost microseconds here, so laws are tried on many problems; the metrics over gloo have tests of their own.
As in the world of `torch.distributed`, an error that escapes `guarded` is told by `conclude`, whose message meets the
next message of the other processes.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.world import DistributedMetricError, WarningLog, World

SECONDS = 60


class ThreadWorld(World):
    """One of the `size` processes that share `barrier` and `board`, on which each writes what it sends."""

    device = torch.device("cpu")

    def __init__(self, process: int, size: int, barrier: threading.Barrier, board: list[Any]) -> None:
        self.process, self.size, self.members = process, size, tuple(range(size))
        self._barrier, self._board, self.warning_log = barrier, board, WarningLog(set())
        self._is_over = False
        """whether an error was raised on all processes, so that `conclude` has nothing to add"""

    def _exchange(self, kind: str, value: Any, *, form: object = None, error: Exception | None = None) -> list[Any]:
        """The values of all processes; `form` is what must be alike, and `error` what this process failed with."""
        self._is_over = True  # unless the exchange returns
        self._board[self.process] = value
        self._barrier.wait(SECONDS)
        values = list(self._board)
        self._barrier.wait(SECONDS)  # nobody writes again before all have read
        self._is_over = False
        return values

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        gathered.copy_(torch.stack(self._exchange("all_gather", values.clone(), form=_form(values))))

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], None]) -> Tensor:
        error = None
        try:
            fill(buffer[1:])
        except Exception as caught:  # noqa: BLE001 - raised on all
            error = caught
        sent = _text(error), buffer[1:].clone()
        received = self._exchange("all_reduce", sent, form=_form(buffer), error=error)
        self._raise_failures(error, [text for text, _ in received])
        buffer[1:] = sum(values for _, values in received)
        return buffer[1:]

    def broadcast(self, rows: Tensor, source: int) -> None:
        assert rows.is_contiguous()
        rows.copy_(self._exchange("broadcast", rows.clone(), form=_form(rows))[source])

    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        assert rows.is_contiguous()
        assert received.is_contiguous()
        sent = self._exchange("all_to_all", rows.clone().split([*num_sent]))
        parts = [parts[self.process] for parts in sent]
        assert [len(part) for part in parts] == [*num_received]
        torch.cat(parts, out=received)

    def texts(self, text: str) -> list[str]:
        return self._exchange("texts", text)

    def conclude(self, error: Exception | None) -> None:
        if not self._is_over:
            received = self._exchange("message", (_text(error), []), error=error)
            self._raise_failures(error, [text for text, _ in received])

    def guarded_all_gather(self, work: Callable[[], tuple[Any, Sequence[int]]]) -> tuple[Any, list[list[int]]]:
        done, numbers, error = None, (), None
        try:
            done, numbers = work()
        except Exception as caught:  # noqa: BLE001 - raised on all
            error = caught
        received = self._exchange("message", (_text(error), list(numbers)), error=error)
        self._raise_failures(error, [text for text, _ in received])
        # The message of a process that concludes has zeros in the place of numbers.
        return done, [numbers_of_one or [0] * len(numbers) for _, numbers_of_one in received]

    def _raise_failures(self, error: Exception | None, texts: Sequence[str | None]) -> None:
        if not any(texts):
            return
        self._is_over = True
        if error is not None and len(set(texts)) == 1:
            raise error
        failed = [f"process {process}: {text}" for process, text in enumerate(texts) if text]
        raise DistributedMetricError("; ".join(failed)) from error


def _text(error: Exception | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"


def _form(values: Tensor) -> tuple[object, ...]:
    return values.dtype, *values.shape


def run(size: int, function: Callable[[ThreadWorld], Any]) -> list[Any]:
    """What `function` returns on each of so many processes."""
    barrier, board = threading.Barrier(size), [None] * size
    worlds = [ThreadWorld(process, size, barrier, board) for process in range(size)]
    return run_threads([lambda world=world: function(world) for world in worlds])


def run_threads(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each work returns, all at a time."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(len(works)) as pool:
            return [future.result() for future in [pool.submit(work) for work in works]]
    finally:
        torch.set_num_threads(num_threads)
