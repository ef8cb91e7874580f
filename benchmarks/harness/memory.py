"""Resident memory of this process, on Linux."""

from __future__ import annotations

import threading
from pathlib import Path

from typing_extensions import Self

SECONDS = 0.005
"""between two looks of `PeakOfAnonymous`"""


def reset_peak() -> float:
    """Set VmHWM back to VmRSS, and return it."""
    with Path("/proc/self/clear_refs").open("w", encoding="utf-8") as reset:
        reset.write("5")
    return resident("VmRSS")


def resident(kind: str) -> float:
    """Resident memory of this process in MB, now (VmRSS, or without files RssAnon) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


class PeakOfAnonymous:
    """The most memory in MB that is not a file's while a context is open: the kernel notes no peak of it."""

    def __enter__(self) -> Self:
        """Begin to look, on a thread of its own."""
        self.most = resident("RssAnon")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End to look."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(SECONDS):
            self.most = max(self.most, resident("RssAnon"))
