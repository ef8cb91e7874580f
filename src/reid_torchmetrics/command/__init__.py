"""The command: from files to numbers, a results file, a report and pictures.

A subcommand is a module with `run(arguments)` and a row of `COMMANDS`. Nothing here imports torch, so that help is
there at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from reid_torchmetrics._extras import require
from reid_torchmetrics._version import __version__

PROGRAM = "reid-torchmetrics"
COMMANDS = {
    "evaluate": "embeddings of queries and of a gallery, in files of any size",
    "lists": "ranked lists: of a vector index, a TREC run, names in text files",
    "detect": "detections in COCO's files: boxes, masks, keypoints",
    "compare": "two or more results files, with intervals and p-values",
    "protocols": "the protocols of benchmarks by name, in words",
}
"""the subcommands, each with what it takes"""


def usage() -> str:
    """What `--help` says."""
    rows = "\n".join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items())
    return (
        f"usage: {PROGRAM} COMMAND ...\n\nEvaluate re-identification, image retrieval and object detection from files."
        f"\n\ncommands:\n{rows}\n\n`{PROGRAM} COMMAND --help` lists the options of a command."
        " `--debug` shows where an error comes from, `--version` the version."
        "\nExit status: 0; 1 for an error in the input, or a number below `--fail-under`; 2 for wrong usage."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    name, *words = [each for each in given if each != "--debug"] or ["--help"]
    if name in {"-h", "--help", "--version"}:
        print(__version__ if name == "--version" else usage())  # noqa: T201
        return 0
    if why := _why_wrong(name, words):
        say(f"{PROGRAM}: {why}")
        return 2
    warnings.showwarning = _show_warning
    try:
        require("The command", "jsonargparse", "docstring_parser")
        return int(import_module(f"{__name__}.{name}").run(words))
    except Exception as error:  # a line in the place of a traceback, for whatever a file may lead to
        if "--debug" in given:
            raise
        kind = "" if isinstance(error, (OSError, ValueError, ModuleNotFoundError)) else f"{type(error).__name__}: "
        say(f"{PROGRAM}: {kind}{' '.join(str(error).split())}")
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; nothing was written")
    return 1


def _why_wrong(name: str, words: Sequence[str]) -> str:
    """Why the usage is wrong; empty where it is right."""
    if name not in COMMANDS:
        return f"there is no command {name!r}; there are {', '.join(COMMANDS)}"
    # The parser would take the last of two, and drop the values of the first.
    options = [each.partition("=")[0] for each in words if each.startswith("--")]
    twice = {each for each in options if options.count(each) > 1} - {"--config"}
    return f"{min(twice)} must be given once, with all its values; got it twice" if twice else ""


def say(*lines: str) -> None:
    """Print lines on standard error, on one process."""
    for line in lines if os.environ.get("RANK", "0") == "0" else ():
        print(line, file=sys.stderr)  # noqa: T201


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"{PROGRAM}: warning: {' '.join(str(message).split())}")
