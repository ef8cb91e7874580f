"""Messages of the command on standard error: one line per message, printed by one process."""

from __future__ import annotations

import os
import sys

PROGRAM = "reid-torchmetrics"


class UsageError(ValueError):
    """Words of a command line, or a file of options, that the command does not understand."""


def log(*lines: str) -> None:
    """Print lines on standard error, on one process."""
    if os.environ.get("RANK", "0") != "0":
        return
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201


def one_line(error: object) -> str:
    """Return the text of an error or warning on one line, with single spaces."""
    return " ".join(str(error).split())
