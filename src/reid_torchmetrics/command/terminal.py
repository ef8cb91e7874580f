"""Results of the command on standard output, and messages on standard error: one line each, by one process."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

PROGRAM = "reid-torchmetrics"


class UsageError(ValueError):
    """Words of a command line, or a file of options, that the command does not understand."""


def log(*lines: str) -> None:
    """Print lines on standard error, on one process."""
    if os.environ.get("RANK", "0") != "0":
        return
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201


def show(text: str) -> None:
    """Print results on standard output, in lines that fit where it is a terminal."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(fitting(line, width) for line in text.splitlines())
    print(text)  # noqa: T201


def fitting(line: str, width: int) -> str:
    """Return a line in several if it is longer than `width`; a column of a table is continued below itself."""
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip())
    gaps = [gap.end() for gap in re.finditer(r"\S {2,}(?=\S)", line) if gap.end() <= width // 2]
    below = " " * max([indent + 2, *gaps])
    whole = line.replace(" = ", " =\N{NO-BREAK SPACE}")  # a number stays with its sign
    lines = textwrap.wrap(whole, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def one_line(error: object) -> str:
    """Return the text of an error or warning on one line, with single spaces."""
    return " ".join(str(error).split())
