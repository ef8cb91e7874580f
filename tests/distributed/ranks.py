"""Processes that run a function as the ranks of a gloo group; kept between tests: starting them takes seconds."""

import multiprocessing
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

COLLECTIVE_TIMEOUT = 15  # seconds; a rank that waits longer for the others raises
TIMEOUT = 90


class Ranks:
    """A pool of processes; the first few of them form a process group for as long as a function runs."""

    def __init__(self) -> None:
        self._workers: list[tuple[multiprocessing.Process, Connection]] = []

    def run(self, size: int, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What `function(rank, size, *args)` returns on each rank; raises if it raises on one, or hangs."""
        while len(self._workers) < size:
            self._workers.append(_start())
        address = f"tcp://127.0.0.1:{_free_port()}"
        for rank, (_, pipe) in enumerate(self._workers[:size]):
            pipe.send((address, rank, size, function, args))
        outcomes = [pipe.recv() if pipe.poll(TIMEOUT) else ("hangs", None) for _, pipe in self._workers[:size]]
        failed = [f"rank {rank} {what}: {text}" for rank, (what, text) in enumerate(outcomes) if what != "returns"]
        if failed:
            self.stop()
            raise AssertionError("\n".join(failed))
        return [value for _, value in outcomes]

    def stop(self) -> None:
        """End all processes."""
        for process, _ in self._workers:
            process.kill()
            process.join()
        self._workers = []


def _start() -> tuple[multiprocessing.Process, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    process.start()
    return process, ours


def _work(pipe: Connection) -> None:
    import jaxtyping  # noqa: PLC0415 - the hook must come before the package

    jaxtyping.install_import_hook("reid_torchmetrics.functional", "beartype.beartype")
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    while True:
        address, rank, size, function, args = pipe.recv()
        pipe.send(_run(address, rank, size, function, args))


def _run(address: str, rank: int, size: int, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    import torch  # noqa: PLC0415
    from torch import distributed  # noqa: PLC0415

    from reid_torchmetrics.metrics import _padding, _ranking_cache  # noqa: PLC0415

    torch.manual_seed(0)
    _ranking_cache.rankings = _ranking_cache.RankingCache()
    _padding._say_so.cache_clear()
    timeout = timedelta(seconds=COLLECTIVE_TIMEOUT)
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size, timeout=timeout)
    try:
        return "returns", function(rank, size, *args)
    except Exception:  # noqa: BLE001 - told to the test
        return "raises", traceback.format_exc()
    finally:
        distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
