"""A world whose processes are threads of one process: the functional layer needs no `torch.distributed` for it.

Collectives cost microseconds here, so laws are tried on many problems; the metrics over gloo have tests of their own.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.world import DistributedMetricError, Said, World

SECONDS = 60


class ThreadWorld(World):
    """One of the `size` processes that share `barrier` and `board`, on which each writes what it sends."""

    device = torch.device("cpu")

    def __init__(self, process: int, size: int, barrier: threading.Barrier, board: list[Any]) -> None:
        self.process, self.size, self.members = process, size, tuple(range(size))
        self._barrier, self._board, self.said = barrier, board, Said(set())

    def _all_gather(self, value: Any) -> list[Any]:
        self._board[self.process] = value
        self._barrier.wait(SECONDS)
        values = list(self._board)
        self._barrier.wait(SECONDS)  # nobody writes again before all have read
        return values

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        gathered.copy_(torch.stack(self._all_gather(values.clone())))

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], None]) -> Tensor:
        self.guarded(lambda: fill(buffer[1:]))
        buffer[1:] = sum(self._all_gather(buffer[1:].clone()))
        return buffer[1:]

    def broadcast(self, rows: Tensor, source: int) -> None:
        assert rows.is_contiguous()
        rows.copy_(self._all_gather(rows.clone())[source])

    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        assert rows.is_contiguous()
        assert received.is_contiguous()
        parts = [each[self.process] for each in self._all_gather(rows.clone().split([*num_sent]))]
        assert [len(part) for part in parts] == [*num_received]
        torch.cat(parts, out=received)

    def texts(self, text: str) -> list[str]:
        return self._all_gather(text)

    def conclude(self, error: Exception | None) -> None:
        def work() -> None:
            if error is not None:
                raise error

        if not isinstance(error, DistributedMetricError):  # which all know of
            self.guarded(work)

    def guarded_all_gather(self, work: Callable[[], tuple[Any, Sequence[int]]]) -> tuple[Any, list[list[int]]]:
        done, numbers, failure = None, (), None
        try:
            done, numbers = work()
        except Exception as error:  # noqa: BLE001 - raised on all
            failure = f"{type(error).__name__}: {error}"
        said = self._all_gather((failure, list(numbers)))
        failed = [f"process {process}: {text}" for process, (text, _) in enumerate(said) if text]
        if failed:
            raise DistributedMetricError("; ".join(failed))
        return done, [numbers for _, numbers in said]


def run(size: int, function: Callable[[ThreadWorld], Any]) -> list[Any]:
    """What `function` returns on each of so many processes."""
    barrier, board = threading.Barrier(size), [None] * size
    worlds = [ThreadWorld(process, size, barrier, board) for process in range(size)]
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(function, worlds))
    finally:
        torch.set_num_threads(num_threads)
