"""Progress bars of loops that take long, on standard error; tqdm is imported when the first bar is shown."""

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


def progress(shown: bool) -> ExitStack:
    """Switch progress bars off, or on again, in all threads; in a `with` statement, until its end.

    What takes longer than five seconds shows a bar on standard error if that is a terminal and tqdm is installed, on
    process 0, one bar at a time. It is cleared at the end. The environment variable `REID_TORCHMETRICS_PROGRESS=0`
    switches all bars off.

    Args:
        shown: True, the default, shows bars where the conditions above hold; False shows none.

    Returns:
        A context manager that restores the setting before.

    Raises:
        TypeError: `shown` is not a bool.
    """
    _checks.boolean("shown", shown)
    restoring = ExitStack()
    restoring.callback(_settings.update, is_on=_settings["is_on"])
    _settings["is_on"] = shown
    return restoring


def steps(items: Iterable[Step], what: str) -> Iterator[Step]:
    """The items of a loop; `what` is a word or two beside the bar, such as "Ranking"."""
    total = len(items) if isinstance(items, Sized) else None
    bar, left, next_look = None, iter(items), monotonic() + DELAY
    for num_done, item in enumerate(left):
        if monotonic() >= next_look:
            next_look += DELAY  # another loop may have the bar now, and not then
            bar = _open_bar(iterable=chain([item], left), desc=what, total=total, initial=num_done)
        if bar is not None:
            break
        yield item
    else:
        return
    try:
        yield from bar
    finally:
        bar.close()
        _one_bar.release()


def _open_bar(**options: Any) -> Any:
    """A bar of tqdm, with the lock; None where bars are off, or no terminal shows this process."""
    is_on = _settings["is_on"] and os.environ.get(VARIABLE, "").lower() not in ("0", "false", "no", "off")
    is_seen = not getattr(sys.stderr, "closed", True) and sys.stderr.isatty()
    rank = os.environ.get("RANK", "0")  # of torchrun, before there is a process group
    if distributed.is_available() and distributed.is_initialized():
        rank = str(distributed.get_rank())
    if not (is_on and is_seen and rank == "0"):
        return None
    try:
        from tqdm import tqdm  # noqa: PLC0415 - optional, and most evaluations are shorter
    except ImportError:
        return None
    if not _one_bar.acquire(blocking=False):
        return None
    return tqdm(file=sys.stderr, leave=False, dynamic_ncols=True, **options)
