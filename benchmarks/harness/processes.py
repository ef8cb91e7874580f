"""Run a function in processes of a gloo group on this machine, count what they send, and measure what they need."""

from __future__ import annotations

import ctypes
import functools
import gc
import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from torch import Tensor, distributed

from harness.memory import reset_peak, resident

from .load import set_threads

TIMEOUT = timedelta(seconds=300)
"""of a collective"""

MIB = 1 << 20

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """What a piece of work cost one process."""

    cpu: float
    """seconds, of all threads"""
    wall: float
    """seconds"""
    received: float
    """MB, by `Traffic`"""
    peak: float
    """MB of resident memory at most, over what was there before"""


class Traffic:
    """Counts the bytes that this process receives by collectives from now on.

    `all_gather` brings what the others have, `broadcast` all of it but for the sender, `all_reduce` what a ring brings,
    `all_to_all_single` what is not a process's own, a barrier nothing. Collectives of objects consist of these.
    """

    def __init__(self) -> None:
        """Replace the collectives, in the module that users see and where objects are sent from."""
        self.received = 0.0
        counters: dict[str, Callable[..., float]] = {
            "all_gather": self._all_gather,
            "all_gather_into_tensor": self._all_gather_single,
            "all_gather_single": self._all_gather_single,  # the name since PyTorch 2.13
            "all_to_all_single": self._all_to_all,
            "all_reduce": self._all_reduce,
            "broadcast": self._broadcast,
        }
        for name, counter in counters.items():
            if not hasattr(distributed, name):
                continue
            counted = self._counted(getattr(distributed, name), counter)
            for module in (distributed, distributed.distributed_c10d):
                setattr(module, name, counted)

    def _counted(self, collective: Callable[..., Any], counter: Callable[..., float]) -> Callable[..., Any]:
        @functools.wraps(collective)
        def count(*args: Any, **kwargs: Any) -> Any:
            self.received += counter(*args, **kwargs)
            return collective(*args, **kwargs)

        return count

    @staticmethod
    def _all_gather(tensor_list: list[Tensor], tensor: Tensor, *_: Any, **__: Any) -> float:
        return (len(tensor_list) - 1) * tensor.nbytes

    @staticmethod
    def _all_gather_single(output: Tensor, sent: Tensor, *_: Any, **__: Any) -> float:
        return output.nbytes - sent.nbytes

    @staticmethod
    def _all_to_all(output: Tensor, _: Tensor, num_received: list[int], *__: Any, **___: Any) -> float:
        own = num_received[distributed.get_rank()] / max(1, sum(num_received))
        return (1 - own) * output.nbytes

    @staticmethod
    def _all_reduce(tensor: Tensor, *_: Any, **__: Any) -> float:
        size = distributed.get_world_size()
        return 2 * (size - 1) / size * tensor.nbytes

    @staticmethod
    def _broadcast(tensor: Tensor, src: int, *_: Any, **__: Any) -> float:
        return 0 if src == distributed.get_rank() else tensor.nbytes


def measured(work: Callable[[], Result], *, trim: bool = False) -> tuple[Result, Cost]:
    """Do work that all processes do, from when all are ready, and say what it cost this one.

    What the allocator has kept hides a part of the peak; `trim` gives it back, which costs seconds later.
    """
    gc.collect()
    if trim:
        ctypes.CDLL(None).malloc_trim(0)
    if distributed.is_initialized():
        distributed.barrier()
    traffic, before = Traffic(), reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return result, Cost(cpu, wall, traffic.received / MIB, resident("VmHWM") - before)


def run(size: int, function: Callable[..., Result], *args: Any) -> list[Result]:
    """What `function(rank, size, *args)` returns in each of `size` new processes, of one thread each.

    One process alone has no process group, as in a script that was started without a launcher.

    Raises:
        RuntimeError: a process failed.
    """
    context, address = multiprocessing.get_context("spawn"), f"tcp://127.0.0.1:{_free_port()}"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    pipes, processes = [], []
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, address, rank, size, function, args), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    outcomes = [_received(pipe) for pipe in pipes]
    for process in processes:
        process.join()
    failed = [f"rank {rank}: {error}" for rank, (_, error) in enumerate(outcomes) if error]
    if failed:
        raise RuntimeError("\n".join(failed))
    return [result for result, _ in outcomes]


def _received(pipe: Connection) -> tuple[Any, str]:
    try:
        return pipe.recv()
    except EOFError:
        return None, "ended without a result"


def _work(
    pipe: Connection, address: str, rank: int, size: int, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    set_threads(1)
    try:
        if size > 1:
            distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size, timeout=TIMEOUT)
        pipe.send((function(rank, size, *args), ""))
        if size > 1:
            distributed.destroy_process_group()
    except Exception:  # noqa: BLE001 - told to the parent
        pipe.send((None, traceback.format_exc()))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
