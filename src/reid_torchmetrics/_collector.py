"""Python's garbage collector, which looks at all objects again and again while many are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while many objects are made that all remain, such as rows of a file."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


@contextmanager
def importing_torch() -> Iterator[None]:
    """Pause the garbage collector during imports, after which all objects are old ones to it.

    As new ones, the objects of torch would be looked at twice by the next collections, in a sixth of the time of its
    import.
    """
    with collector_paused():
        yield
        if not gc.get_freeze_count():  # objects that the user has frozen remain so
            gc.freeze()
            gc.unfreeze()
