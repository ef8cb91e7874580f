"""Progress bars on standard error for long loops; tqdm is imported when the first bar is shown."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from itertools import chain
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


def steps(items: Iterable[Step], what: str) -> Iterator[Step]:
    """Yield the items of a loop, with a bar if the loop takes long; `what` is its label, such as "Ranking"."""
    total = len(items) if isinstance(items, Sized) else None
    remaining = iter(items)
    next_attempt = monotonic() + DELAY
    for num_done, item in enumerate(remaining):
        if monotonic() >= next_attempt:
            next_attempt += DELAY  # another loop may show its bar now, and have ended by then
            bar = _open_bar(iterable=chain([item], remaining), desc=what, total=total, initial=num_done)
            if bar is not None:
                yield from _with_bar(bar)
                return
        yield item


def _with_bar(bar: Any) -> Iterator[Any]:
    """Yield the items of an open bar, then close it."""
    try:
        yield from bar
    finally:
        bar.close()
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
