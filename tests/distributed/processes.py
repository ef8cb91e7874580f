"""Processes that run a function as the processes of a gloo group; kept between tests: starting them takes seconds."""

import importlib
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from torch import distributed

from tests import executed_shapes, profiles

COLLECTIVE_TIMEOUT = timedelta(seconds=40)  # a process that waits longer for the others raises
TIMEOUT = 90  # seconds, for all that a test lets the processes do
THREADS_END = 0.01  # seconds, in which gloo's threads drop the tensors of the last collective
MAX_ATTEMPTS = 3
NOT_CONNECTED = "is not connected"
PRELOADED = "tests.distributed.preloaded"
HOST = "127.0.0.1"
IN_THE_STORE: dict[str, bool] = (
    {"use_libuv": False} if sys.platform == "win32" else {}
)  # PyTorch is built without there


class Processes:
    """A pool of processes; the first few of them form a process group for as long as a function runs."""

    def __init__(self) -> None:
        self._workers: list[tuple[multiprocessing.Process, Connection]] = []
        self._store = distributed.TCPStore(
            HOST, 0, is_master=True, wait_for_workers=False, **IN_THE_STORE
        )  # takes a free port
        self._num_runs = 0

    def run(self, size: int, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What `function(process, size, *args)` returns on each process; raises if it raises on one, or hangs."""
        started = [_start(self._store.port) for _ in range(size - len(self._workers))]
        for _, pipe in started:
            assert pipe.poll(TIMEOUT)
            pipe.recv()  # it is ready: others do not wait for its imports
        self._workers += started
        self._num_runs += 1
        # gloo may lose a connection while a loaded machine connects the processes: nothing has run then, so try again.
        for attempt in range(MAX_ATTEMPTS):
            for process, (_, pipe) in enumerate(self._workers[:size]):
                pipe.send((f"run {self._num_runs} attempt {attempt}", process, size, function, args))
            outcomes = [_told(pipe) for _, pipe in self._workers[:size]]
            if not any(what == NOT_CONNECTED for what, _ in outcomes):
                break
        failed = [
            f"process {process} {what}: {text}" for process, (what, text) in enumerate(outcomes) if what != "returns"
        ]
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


def _told(pipe: Connection) -> tuple[str, Any]:
    try:
        return pipe.recv() if pipe.poll(TIMEOUT) else ("hangs", None)
    except EOFError:  # the next test has other processes
        return "ends", None


def _start(port: int) -> tuple[multiprocessing.Process, Connection]:
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([PRELOADED])  # imports take seconds, for all processes once
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, port), daemon=True)
    process.start()
    return process, ours


def _work(pipe: Connection, port: int) -> None:
    import torch  # noqa: PLC0415

    importlib.import_module(PRELOADED)

    torch.set_num_threads(1)
    if sys.platform == "linux":  # elsewhere the loopback has other names, and gloo finds it by that of the host
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = distributed.TCPStore(HOST, port, is_master=False, **IN_THE_STORE)
    pipe.send("ready")
    while True:
        name, process, size, function, args = pipe.recv()
        pipe.send(_run(distributed.PrefixStore(name, store), process, size, function, args))


def _run(
    store: distributed.Store, process: int, size: int, function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[str, Any]:
    import torch  # noqa: PLC0415

    executed_shapes.execute(0 if process else profiles.calls_with_shapes("distributed"))  # one does for all
    torch.manual_seed(0)
    try:
        distributed.init_process_group("gloo", store=store, rank=process, world_size=size, timeout=COLLECTIVE_TIMEOUT)
    except Exception:  # noqa: BLE001 - told to `Processes.run`
        return NOT_CONNECTED, traceback.format_exc()
    try:
        return "returns", function(process, size, *args)
    except Exception:  # noqa: BLE001 - told to the test
        return "raises", traceback.format_exc()
    finally:
        # Below PyTorch 2.8 `destroy_process_group` waits for gloo's threads without releasing the interpreter, which
        # they need to drop a tensor: neither goes on. https://github.com/pytorch/pytorch/pull/154976
        time.sleep(THREADS_END)
        distributed.destroy_process_group()
