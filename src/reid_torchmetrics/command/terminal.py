"""What the command prints about itself: one line on standard error, by one process."""

from __future__ import annotations

import os
import sys

PROGRAM = "reid-torchmetrics"


class UsageError(ValueError):
    """Words of a command line, or a file of options, that the command does not understand."""


def say(*lines: str) -> None:
    """Print lines on standard error, on one process."""
    if os.environ.get("RANK", "0") != "0":
        return
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line, as `warnings.showwarning` does it."""
    say(f"{PROGRAM}: warning: {' '.join(str(message).split())}")
