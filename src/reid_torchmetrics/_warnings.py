"""Warn of the line of the user's code, again each time: whoever warns says how often, and Python's filters whether."""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType

_OWN = {"reid_torchmetrics", "torchmetrics", "torch", "jaxtyping", "contextlib", "functools", "threading", "concurrent"}
"""packages that no user wrote"""


class AdviceWarning(UserWarning):
    """Input is probably not what the user meant; the numbers are computed as it was given.

    `warnings.simplefilter("ignore", AdviceWarning)` silences all advice.
    """


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the innermost line outside of this package and of what calls it."""
    # `warnings.warn` shows a text once for each line under Python's default filter: a loop would hear it once.
    frame = _outside(sys._getframe(1)) or _outside(sys._current_frames()[threading.main_thread().ident or 0])  # noqa: SLF001
    place = ("reid_torchmetrics", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    module = None if frame is None else frame.f_globals.get("__name__")
    warnings.warn_explicit(text, category, *place, module=module)


def _outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of other code; None on a thread of this package."""  # the main thread waits for it
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
        frame = frame.f_back
    return frame
