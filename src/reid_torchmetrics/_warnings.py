"""Warnings that point at the line of the user's code, and are issued each time that the line runs."""

from __future__ import annotations

import sys
import threading
import warnings
from contextvars import ContextVar
from types import FrameType
from typing import Any

_LIBRARIES = {
    "reid_torchmetrics",
    "torchmetrics",
    "torch",
    "jaxtyping",
    "contextlib",
    "functools",
    "threading",
    "concurrent",
}
"""packages between the user's line and a warning"""


class AdviceWarning(UserWarning):
    """Input is probably not what the user meant; the numbers are computed as it was given.

    `warnings.simplefilter("ignore", AdviceWarning)` silences all advice.
    """


asking: ContextVar[Any] = ContextVar("asking", default=None)
"""the answers that `diagnose` collects from an evaluation, which then warns of nothing; None otherwise"""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line of the user's code.

    `warnings.warn` would show a text only once per line under Python's default filter, so that a loop of evaluations
    would warn in its first turn only.
    """
    frame = _find_user_frame(sys._getframe(1))  # noqa: SLF001
    if frame is None:  # a thread of this package, for which the main thread waits
        main_thread = threading.main_thread().ident or 0
        frame = _find_user_frame(sys._current_frames()[main_thread])  # noqa: SLF001
    if frame is None:
        warnings.warn_explicit(text, category, filename="reid_torchmetrics", lineno=1)
        return
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(text, category, filename=frame.f_code.co_filename, lineno=frame.f_lineno, module=module)


def _find_user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside of the libraries, from `frame` outwards; None if there is none."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _LIBRARIES:
            return frame
        frame = frame.f_back
    return None
