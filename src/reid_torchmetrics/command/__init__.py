"""The command: from files to numbers, a results file, a report and pictures, or to a diagnosis of the numbers.

A subcommand is a module with `run(arguments, options)` and a row of `options.json`. Options and files are checked
before it is imported. Nothing here imports torch, so that help and such errors are there at once.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from typing import Any

from reid_torchmetrics import _hints
from reid_torchmetrics._collector import collector_paused
from reid_torchmetrics._version import __version__

from .configs import read_protocol
from .inputs import check_inputs
from .options import (
    COMMANDS,
    DIAGNOSE,
    DIAGNOSED,
    as_yaml,
    command_options,
    in_options,
    parse,
    read_expected,
    root_parser,
)
from .terminal import PROGRAM, UsageError, log, show
from .values import Instance


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status: 1 for an error in the input, 2 for wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks how the words go on
        import_module("argcomplete").autocomplete(root_parser()[0])
    is_debugged = "--debug" in words
    words = [word for word in words if word != "--debug"]
    is_diagnosed = words[:1] == [DIAGNOSE]
    words = words[is_diagnosed:]
    expected: dict[str, str] = {}
    if is_diagnosed:
        try:
            expected, words = read_expected(words)
        except UsageError as error:
            log(f"{PROGRAM}: {error}")
            return 2
    name = words[0] if words else "--help"
    if name == "--version":
        print(__version__)  # noqa: T201
        return 0
    if name == "--help" or "-h" in words or "--help" in words:
        root, commands = root_parser()
        commands.get(name, commands[DIAGNOSE] if is_diagnosed else root).print_help()
        return 0
    known = DIAGNOSED if is_diagnosed else [*COMMANDS, DIAGNOSE]
    if name not in known:
        hint = _hints.value_meant(name, known)
        log(f"{PROGRAM}: there is no command {name!r}{hint}; there are {', '.join(known)}")
        return 2
    warnings.showwarning = partial(_show_warning, name)
    return _run(name, words[1:], is_debugged=is_debugged, is_diagnosed=is_diagnosed, expected=expected)


def _run(name: str, words: Sequence[str], *, is_debugged: bool, is_diagnosed: bool, expected: Mapping[str, str]) -> int:
    """Run a subcommand; print any error as a line, without a traceback."""
    try:
        return _run_checked(name, words, is_diagnosed=is_diagnosed, expected=expected)
    except UsageError as error:
        log(f"{PROGRAM}: {in_options(name, error)}")
        return 2
    except Exception as error:
        if is_debugged:
            raise
        is_about_input = isinstance(error, (OSError, ValueError, ModuleNotFoundError))
        kind = "" if is_about_input else f"{type(error).__name__}: "
        log(f"{PROGRAM}: {kind}{in_options(name, error)}")
    except KeyboardInterrupt:
        log(f"{PROGRAM}: interrupted; nothing was written")
    return 1


def _show_warning(name: str, message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning on one line, in the place of `warnings.showwarning`."""
    log(f"{PROGRAM}: warning: {in_options(name, message)}")


def _run_checked(name: str, words: Sequence[str], *, is_diagnosed: bool, expected: Mapping[str, str]) -> int:
    """Check the words and the files that they name, and run the subcommand, or print a diagnosis of its numbers.

    `expected` has the number that another evaluator gave, and its measure, as far as they are in the command line.
    """
    arguments, options = parse(name, words)
    if getattr(arguments, "print_config", None):
        print(as_yaml(name, arguments, options), end="")  # noqa: T201
        return 0
    arguments.inputs = check_inputs(name, arguments, options)
    subcommand = _import(name)
    values: dict[str, Any] = {}
    for option, value in options.items():
        if isinstance(value, Instance):
            values[option] = value.make()
        elif option == "protocol" and str(value).endswith((".yaml", ".yml")):
            values[option] = read_protocol(value)
        else:
            values[option] = value
    if not is_diagnosed:
        return int(subcommand.run(arguments, values))
    diagnosis: Any = import_module("reid_torchmetrics.diagnosis")
    asked = diagnosis.Evaluations() if "expected" in expected else diagnosis.Diagnosis()
    with redirect_stdout(sys.stderr), diagnosis.collecting(asked) as answers:
        subcommand.run(arguments, values)
    if expected:
        search = diagnosis.search_of(answers, expected.get("measure"))
        search.in_words = partial(_call_in_words, name)
        answers = search.explain(expected["expected"])
    else:
        for place, answer in enumerate(answers):
            if answer.text is not None:
                answers[place] = answer._replace(text=in_options(name, answer.text))
    if os.environ.get("RANK", "0") == "0":
        show(str(answers))
    return 0


def _import(name: str) -> Any:
    """Import a subcommand; in a new process the garbage collector never looks at its modules, nor at those of torch."""
    module = f"{__name__}.{name}"
    if "torch" in sys.modules or not gc.isenabled():
        return import_module(module)
    with collector_paused():
        subcommand = import_module(module)
        gc.freeze()
    return subcommand


def _call_in_words(name: str, convention: Any) -> str:
    """Return the words of a subcommand that compute a number under a convention."""
    options = dict(convention.options)
    if name == "detect":  # which prints all numbers of these evaluators
        is_printed = isinstance(convention.report, str) and options.get("evaluator", "coco") in {"coco", "voc"}
        is_printed = is_printed and convention.call.endswith(f"[{convention.report!r}]")
        is_printed = is_printed and "iou_thresholds=" not in convention.call
    else:
        options["reports"] = convention.report
        is_printed = name != "pairs"
    is_option = options.keys() <= {option.name for option in command_options(name)}
    if not is_printed or not is_option or convention.call.startswith("no option"):
        return str(convention.call)
    words = [in_options(name, f"`{option}={value!r}`").strip("`") for option, value in options.items()]
    return f"{PROGRAM} {name} ... {' '.join(words)}"
