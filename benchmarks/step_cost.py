"""Claims: a step of validation costs microseconds, at the end of an epoch as at its start, and a progress bar nothing.

    python benchmarks/step_cost.py [PART ...]     # of update, forward, progress_bar

`update` goes beside appending the tensors to lists. The progress bar is shown from the first step on, where it is
otherwise shown after five seconds; the ways take turns.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import statistics
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TextIO

import torch

from harness.claims import claim, compare, interleaved, main
from harness.load import set_threads
from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, _progress, progress
from reid_torchmetrics.functional.retrieval import rank_positives

ROUNDS = 7
STEPS = 1_000_000


def batches(number: int) -> list[dict[str, torch.Tensor]]:
    """Batches of 64 samples of dimension 512."""
    return [
        {
            "embeddings": torch.randn(64, 512),
            "identities": torch.randint(0, 9, (64,)),
            "cameras": torch.randint(0, 4, (64,)),
        }
        for _ in range(number)
    ]


def microseconds_per_step(function, given: list[dict[str, torch.Tensor]]) -> float:
    """Mean over the batches."""
    start = time.perf_counter()
    for batch in given:
        function(**batch)
    return (time.perf_counter() - start) / len(given) * 1e6


def storing() -> float:
    """Append to three lists."""
    lists: dict[str, list[torch.Tensor]] = {"embeddings": [], "identities": [], "cameras": []}

    def append(**batch: torch.Tensor) -> None:
        for name, values in batch.items():
            lists[name].append(values)

    return microseconds_per_step(append, batches(500))


def update() -> None:
    """Of an epoch of 500 steps, over storing."""
    set_threads(1)  # steps are small: threads would only add noise
    for metric, limit in ((ReIDMeanAP, 50), (ReIDMetrics, 60)):
        over = [microseconds_per_step(metric().update, batches(500)) - storing() for _ in range(ROUNDS)]
        text = f"`update` of `{metric.__name__}` with 64 x 512 takes microseconds over storing three tensors."
        claim(text, statistics.median(over), limit, "us")


def forward() -> None:
    """Of short epochs and of long ones."""
    set_threads(1)
    few = [microseconds_per_step(ReIDMeanAP(), batches(10)) for _ in range(5 * ROUNDS)]
    many = [microseconds_per_step(ReIDMeanAP(), batches(1000)) for _ in range(ROUNDS)]
    text = "A step of `forward` with 64 x 512 costs as much in an epoch of 1,000 steps as in one of 10."
    compare(text, many, few, 1.5, unit="us")


def loop(items: Callable[[], Iterable[int]]) -> None:
    """Do nothing, many times."""
    for _ in items():
        pass


def rank(given: tuple[torch.Tensor, ...], stream: TextIO, *, shown: bool) -> None:
    """Rank 2,000 queries among 8,000 gallery items, in a few dozen steps."""
    before, sys.stderr = sys.stderr, stream
    try:
        with progress(shown):
            rank_positives(*given, max_bytes=2_000_000)
    finally:
        sys.stderr = before


def terminal() -> tuple[TextIO, list[int]]:
    """A terminal, and the numbers of bytes that it was given."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))  # a bar fits the width
    seen: list[int] = []

    def read() -> None:
        while True:
            seen.append(len(os.read(ours, 4096)))

    threading.Thread(target=read, daemon=True).start()
    return os.fdopen(theirs, "w"), seen


def progress_bar() -> None:
    """What it costs that there could be a bar, and that there is one."""
    loops = {"plain": lambda: range(STEPS), "counted": lambda: _progress.steps(range(STEPS), "Steps")}
    seconds = interleaved({name: partial(loop, items) for name, items in loops.items()}, ROUNDS)
    over = statistics.median(seconds["counted"]) - statistics.median(seconds["plain"])
    claim("A step of a loop takes no microsecond longer where no progress bar is shown.", over / STEPS * 1e6, 1, "us")
    _progress.DELAY = 0.0  # the most that a bar can cost
    identities = [torch.randint(0, 750, (size,)) for size in (2_000, 8_000)]
    given = (*(torch.randn(len(each), 512) for each in identities), *identities)
    stream, seen = terminal()
    ways = {
        "off": partial(rank, given, stream, shown=False),
        "on a terminal": partial(rank, given, stream, shown=True),
        "in a log file": partial(rank, given, log := io.StringIO(), shown=True),
    }
    took = interleaved(ways, 3 * ROUNDS)
    time.sleep(0.1)  # until the terminal has read all
    assert sum(seen)  # noqa: S101 - there was a bar
    for way in [*ways][1:]:
        text = f"A progress bar {way} does not slow a ranking of 2,000 x 8,000 x 512 down."
        compare(text, took[way], took["off"], 1.05)
    claim("A progress bar writes nothing to a log file.", len(log.getvalue()), 0, "characters")


if __name__ == "__main__":
    main(update, forward, progress_bar)
