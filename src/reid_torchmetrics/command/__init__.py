"""The command: from files to numbers, a results file, a report and pictures.

A subcommand is a module with `run(words)` and a row of `options.json`. Nothing here imports torch, so that help is
there at once.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files

from reid_torchmetrics import _hints
from reid_torchmetrics._version import __version__

PROGRAM = "reid-torchmetrics"
TABLE = json.loads(files(__name__).joinpath("options.json").read_text(encoding="utf-8"))
COMMANDS: dict[str, str] = {name: each["summary"] for name, each in TABLE["commands"].items()}
"""the subcommands, each with what it takes"""


def _parsers() -> tuple[ArgumentParser, dict[str, ArgumentParser]]:
    """What shows help and completes words: of the program, and of each subcommand."""
    root = ArgumentParser(
        prog=PROGRAM, usage=f"{PROGRAM} COMMAND ...", description=TABLE["about"], epilog=TABLE["status"]
    )
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        import_module(f"{__name__}.options").add_help(name, commands.add_parser(name, help=summary))
    return root, commands.choices


class UsageError(ValueError):
    """Words of a command line, or a file of options, that the command does not understand."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status: 1 for an error in the input, 2 for wrong usage."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if "_ARGCOMPLETE" in os.environ:  # a shell asks how the words go on
        import_module("argcomplete").autocomplete(_parsers()[0])
    name, *words = [each for each in given if each != "--debug"] or ["--help"]
    if name == "--version":
        print(__version__)  # noqa: T201
        return 0
    if {"-h", "--help"} & {name, *words}:
        root, commands = _parsers()
        commands.get(name, root).print_help()
        return 0
    if why := _why_wrong(name, words):
        say(f"{PROGRAM}: {why}")
        return 2
    warnings.showwarning = _show_warning
    return _run(name, words, is_debugged="--debug" in given)


def _run(name: str, words: Sequence[str], *, is_debugged: bool) -> int:
    """Run a subcommand; print any error as a line, without a traceback."""
    status = 1
    try:
        status = int(import_module(f"{__name__}.{name}").run(words))
    except UsageError as error:
        say(f"{PROGRAM}: {' '.join(str(error).split())}")
        status = 2
    except SystemExit as end:  # the parser has printed what it was asked for
        status = end.code if isinstance(end.code, int) else 0
    except Exception as error:
        if is_debugged:
            raise
        kind = "" if isinstance(error, (OSError, ValueError, ModuleNotFoundError)) else f"{type(error).__name__}: "
        say(f"{PROGRAM}: {kind}{' '.join(str(error).split())}")
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; nothing was written")
    return status


def _why_wrong(name: str, words: Sequence[str]) -> str:
    """Why the usage is wrong; empty where it is right."""
    if name not in COMMANDS:
        likely = _hints.value_meant(name, COMMANDS)
        return f"there is no command {name!r}{likely}; there are {', '.join(COMMANDS)}"
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
