"""Processes that keep all cores busy, as the workers of a data loader do: they always end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator

LONGEST = 180.0
"""seconds after which a competitor ends by itself"""


@contextlib.contextmanager
def competing(number: int) -> Iterator[None]:
    """Have so many processes compute, of one thread each, until the block is left."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_compute, args=(os.getpid(),), daemon=True) for _ in range(number)]
    try:
        for process in processes:
            process.start()
        time.sleep(1)  # until all of them compute
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _compute(parent: int) -> None:
    """Count until it is time to end, or until nobody is left to end this."""
    end, total = time.monotonic() + LONGEST, 0
    while time.monotonic() < end and os.getppid() == parent:
        total += sum(range(100_000))
