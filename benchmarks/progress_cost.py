"""Claims: a progress bar costs nothing that can be measured, with a terminal and without.

    python benchmarks/progress_cost.py

A step of a loop takes at most a microsecond longer where no bar is shown. A ranking with a bar on a terminal from its
first steps on takes at most 1.05 times as long as with bars switched off, and so does one without a terminal.
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

from harness.claims import claim, interleaved, median_ratio
from reid_torchmetrics import _progress, progress
from reid_torchmetrics.functional.retrieval import rank_positives

STEPS = 1_000_000
ROUNDS = 21


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


def main() -> None:
    """Measure the claims; exit with 1 if one fails."""
    torch.manual_seed(0)
    loops = {"plain": lambda: range(STEPS), "counted": lambda: _progress.steps(range(STEPS), "Steps")}
    seconds = interleaved({name: partial(loop, items) for name, items in loops.items()}, ROUNDS)
    per_step = (statistics.median(seconds["counted"]) - statistics.median(seconds["plain"])) / STEPS * 1e6

    _progress.DELAY = 0.0  # the most that a bar can cost
    identities = [torch.randint(0, 750, (size,)) for size in (2_000, 8_000)]
    given = (*(torch.randn(len(each), 512) for each in identities), *identities)
    stream, seen = terminal()
    ways = {
        "off": partial(rank, given, stream, shown=False),
        "terminal": partial(rank, given, stream, shown=True),
        "log file": partial(rank, given, log := io.StringIO(), shown=True),
    }
    took = interleaved(ways, ROUNDS)
    time.sleep(0.1)  # until the terminal has read all
    print(f"{sum(seen)} bytes on the terminal, {len(log.getvalue())} in the log file")
    holds = [
        claim("us of a step where no bar is shown", per_step, 1),
        *(claim(f"times a ranking without, {way}", median_ratio(took[way], took["off"]), 1.05) for way in [*ways][1:]),
        claim("bytes in the log file", len(log.getvalue()), 0),
        claim("1 unless the terminal showed a bar", not seen, 0),
    ]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
