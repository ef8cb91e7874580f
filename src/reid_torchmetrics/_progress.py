"""Progress bars on standard error for long loops; tqdm is imported when the first bar is shown."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from time import monotonic
from typing import Any, TypeVar

from torch import distributed

from reid_torchmetrics import _checks

Step = TypeVar("Step")

DELAY = 5.0
"""seconds before a bar is shown"""
VARIABLE = "REID_TORCHMETRICS_PROGRESS"

_settings = {"is_on": True}
_one_bar = threading.Lock()
"""held while a bar is shown: loops inside of its loop, and other threads, show none"""
_running: list[_Loop] = []
"""loops that have begun and not ended, the innermost last"""


def progress(enabled: bool) -> ExitStack:
    """Switch progress bars off, or on again, in all threads; in a `with` statement, until its end.

    A loop that takes longer than five seconds shows a bar on standard error, if this is a terminal and tqdm is
    installed. Only process 0 shows bars, one at a time, and clears them at the end. The environment variable
    `REID_TORCHMETRICS_PROGRESS=0` switches all bars off.

    Args:
        enabled: True, the default, shows bars where the conditions above hold; False shows none.

    Returns:
        A context manager that restores the setting before.

    Raises:
        TypeError: `enabled` is not a bool.
    """
    _checks.boolean("enabled", enabled)
    restoring = ExitStack()
    restoring.callback(_settings.update, is_on=_settings["is_on"])
    _settings["is_on"] = enabled
    return restoring


def steps(items: Iterable[Step], what: str, *, parts: int = 1) -> Iterator[Step]:
    """Yield the items of a loop, with a bar if the loop takes long; `what` is its label, such as "Ranking".

    The bar moves within a step if the work calls `part_done`: about `parts` times in each step, from any thread.
    """
    num_steps = len(items) if isinstance(items, Sized) else None
    loop = _Loop(what, None if num_steps is None else num_steps * parts)
    _running.append(loop)
    try:
        for number, item in enumerate(items, start=1):
            loop.end_of_step = number * parts
            yield item
            loop.reach(loop.end_of_step)
    finally:
        _running.remove(loop)
        loop.close()


def part_done() -> None:
    """Move the bar of the innermost loop by a part of its step."""
    innermost = _running[-1:]  # a slice, as another thread may end the last loop at any time
    for loop in innermost:
        loop.reach(loop.num_done + 1)


class _Loop:
    """A loop that shows a bar once it has taken long."""

    def __init__(self, what: str, total: int | None) -> None:
        self.num_done = 0
        self.end_of_step = 0
        self._what = what
        self._total = total
        self._bar: Any = None
        self._next_attempt = monotonic() + DELAY
        self._lock = threading.Lock()

    def reach(self, num_done: int) -> None:
        """Note how much is done, up to the end of the step, and show it if it is time."""
        with self._lock:
            self.num_done = min(num_done, self.end_of_step)
            if self._bar is not None:
                self._bar.update(self.num_done - self._bar.n)
            elif self.num_done != self._total and monotonic() >= self._next_attempt:
                self._next_attempt += DELAY  # another loop may show its bar now, and have ended by then
                self._bar = _open_bar(desc=self._what, total=self._total, initial=self.num_done)

    def close(self) -> None:
        """Clear the bar."""
        if self._bar is not None:
            self._bar.close()
            _one_bar.release()


def _open_bar(**options: Any) -> Any:
    """Return a bar of tqdm and hold the lock; None where bars are off or no terminal shows this process."""
    is_switched_off = os.environ.get(VARIABLE, "").lower() in ("0", "false", "no", "off")
    if is_switched_off or not _settings["is_on"]:
        return None
    is_terminal = not getattr(sys.stderr, "closed", True) and sys.stderr.isatty()
    if not is_terminal or not _is_first_process():
        return None
    try:
        from tqdm import tqdm  # noqa: PLC0415 - optional, and most evaluations are shorter
    except ImportError:
        return None
    if not _one_bar.acquire(blocking=False):
        return None
    return tqdm(file=sys.stderr, leave=False, dynamic_ncols=True, **options)


def _is_first_process() -> bool:
    """Return whether this is process 0, or the only one; `RANK` is set by torchrun before there is a process group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() == 0
    return os.environ.get("RANK", "0") == "0"
