"""Options of a subcommand, by the table in `options.json`: help, completion and what is parsed.

    "k": ["N?", "cutoff of average precision", "none"]         --k N    cutoff of average precision [none]

A row has the kind of value, what it is, and its default in words. Options are named like the parameters of the function
behind the subcommand, and a test compares both. The table is read without torch, so that help is there at once. Only
options that were given are passed on, so that None keeps its meaning: `--k null`.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentError, ArgumentParser, BooleanOptionalAction, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Union, get_args

from reid_torchmetrics import _names
from reid_torchmetrics._extras import require

from . import COMMANDS, PROGRAM, TABLE, UsageError
from .configs import ConfigValue, read_config

_OWN = ("files", "labels", "output")
"""groups of options of the command, and not of a function"""
_Label = int | str
_MAPS = {"MAP": dict[_Label, _Label], "RANGES": dict[str, tuple[float, float]]}
_MESSAGE_WIDTH, _VALUE_WIDTH = 300, 80
_TYPES: dict[str, Any] = {"N": int, "LABEL": _Label, "X": float, "NAME": str, **_MAPS}


def rows(command: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Group, name, kind, text and default of each option of a subcommand."""
    for group, names in TABLE["commands"][command]["groups"].items():
        for name in names.split():
            kind, text, *default = TABLE["options"].get(f"{command}.{name}") or TABLE["options"][name]
            yield group, name, kind, text, "".join(default)


def add_help(command: str, parser: ArgumentParser) -> None:
    """Give a parser the options of a subcommand, in groups, with words and defaults, for help and completion."""
    examples = (f"{PROGRAM} {command} {words}".rstrip() for words in TABLE["commands"][command]["examples"])
    parser.formatter_class, parser.usage = RawDescriptionHelpFormatter, _usage(command)
    parser.description = f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}."
    parser.epilog = "\n  ".join(["examples:", *examples])
    titles = dict.fromkeys(group for group, *_ in rows(command))
    groups = {group: parser.add_argument_group(group, TABLE["groups"][group]) for group in titles}
    for group, name, kind, text, default in rows(command):
        words = f"{text} [{default}]".removesuffix(" []")
        groups[group].add_argument(_flag(name, kind), help=words, **_form(kind))


def parsed(command: str, words: Sequence[str], **own: Any) -> tuple[SimpleNamespace, dict[str, Any]]:
    """Files, outputs and `own` options in the words of a command line, and the options given for a function."""
    require("The command", "jsonargparse")
    library = import_module("jsonargparse")
    options: dict[str, Any] = {"add_help": False, "allow_abbrev": False, "print_config": "--print-config"}
    options["exit_on_error"] = False  # raise
    parser = library.ArgumentParser(prog=f"{PROGRAM} {command}", usage=_usage(command), **options)
    config = _configs(command, words)
    of_command: dict[str, Any] = dict.fromkeys(("save", "report", "pictures")) | own  # not all have all
    for group, name, kind, *_ in rows(command):
        of_command |= {name: [] if kind[-1] in "+*" else None} if group in _OWN else {}
        given = {} if kind[0] == "@" or kind == "CONFIG" else {"default": SUPPRESS}
        parser.add_argument(_flag(name, kind), **given, **_typed(library, kind))
    try:
        values = vars(parser.instantiate(parser.parse_args(list(words))))
    except ArgumentError as error:
        raise UsageError(_why(command, str(error), config)) from error
    for _, name, kind, *_ in rows(command):
        if kind.startswith("MAP") and isinstance(values.get(name), dict):
            values[name] = {_as_label(camera): _as_label(other) for camera, other in values[name].items()}
    arguments = {name: values.get(name, default) for name, default in of_command.items()}
    return SimpleNamespace(**arguments), {name: values[name] for name in values if name not in arguments}


def _configs(command: str, words: Sequence[str]) -> dict[str, ConfigValue]:
    """The options in the files that the words of a command line name.

    Raises:
        UsageError: A file cannot be read, or has an option or a value that there is not.
    """
    paths = [word.partition("=")[2] for word in words if word.startswith("--config=")]
    paths += [path for word, path in pairwise(words) if word == "--config"]
    kinds = {name: (group, kind) for group, name, kind, *_ in rows(command) if kind != "CONFIG"}
    values: dict[str, ConfigValue] = {}
    try:
        for path in paths:
            values |= read_config(path, kinds)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    for key, option in values.items():
        if key in kinds:
            group, kind = kinds[key]
            rule = _broken_rule(kind, option.value, is_null_allowed=group not in _OWN)
            if rule:
                raise UsageError(f"{option.where}: `{key}` must be {rule}; got {option.value!r:.80}.")
    return values


def _broken_rule(kind: str, value: Any, *, is_null_allowed: bool) -> str:
    """Return the rule that a value in a file breaks; empty if it breaks none.

    The parser checks numbers and choices, but no flags, lists and texts.
    """
    if kind == "flag":
        return "" if isinstance(value, bool) else "true or false"
    base = kind.rstrip("+?").partition(" ")[0]
    is_list = kind[-1] == "+"
    is_checked_by_parser = kind[0] == "@" or base in (*_MAPS, "N", "LABEL", "X", "CLASS", "NUMBER")
    rule = ""
    if value is None:
        rule = "a list" if is_list and not is_null_allowed else ""
    elif is_list and kind[0] != "@" and not isinstance(value, list):
        rule = "a list"
    elif not is_checked_by_parser:
        texts = value if is_list else [value]
        if not all(isinstance(text, str) for text in texts):
            rule = "a list of strings" if is_list else "a string"
    return rule


def _as_label(value: int | str) -> int | str:
    """Return a whole number written as text as an integer, since the keys of JSON are texts; a name as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value


def _why(command: str, message: str, config: Mapping[str, ConfigValue]) -> str:
    """Return the message of the parser as one line; if the option comes from a file, with its line there."""
    message = " ".join(message.split())
    about = re.fullmatch(r'Parser key "(\S+?)"(?: element \d+)?: (.*)', message)
    if about is None:
        return shorten(message, _MESSAGE_WIDTH)
    key, problem = about.groups()
    # An option of a class may be given as `rerank: {k1: 20}` or as `rerank.k1: 20`.
    fitting = [name for name in config if name.partition(".")[0] == key.partition(".")[0]]
    option = config[fitting[0]] if fitting else None
    where = "" if option is None else f"{option.where}: "
    option_name = key.partition(".")[0]
    kind = next((kind for _, name, kind, *_ in rows(command) if name == option_name), "NAME")
    rule = _rule(kind)
    value = re.search(r"(?:Given|Got) value: (.*)$|^'(.*)' not among choices", problem)
    if option is not None:
        got = repr(option.value)
    elif value is not None:
        got = shorten(value[1] or repr(value[2]), _VALUE_WIDTH)
    else:
        return f"`{key}`: {shorten(problem, _MESSAGE_WIDTH)}"
    return f"{where}`{key}` must be {rule}; got {got:.{_VALUE_WIDTH}}."


def _rule(kind: str) -> str:
    """What the values of a kind are, in words."""
    form = _form(kind)
    if "choices" in form:
        return f"one of {', '.join(map(repr, form['choices']))}"
    base, _, more = kind.rstrip("+?").partition(" ")
    rules = {"N": "a whole number", "LABEL": "a whole number or a name", "X": "a number"}
    rule = (rules | {"MAP": "cameras by cameras, such as {3: 2}"}).get(base)
    if base == "CLASS":
        rule = f"null or {more.replace(' ', ' or ')} with its options"
    if base == "RANGES":
        rule = "two numbers for each name, such as {small: [0, 1024]}"
    rule = rule or "as the help says"
    if kind.endswith("+"):
        return f"a list, each {rule}"
    return f"{rule} or null" if kind.endswith("?") else rule


def _usage(command: str) -> str:
    forms = {"@": "{}", "@?": "[{}]", "@*": "[{} ...]", "@+": "{} ..."}
    places = (forms[kind].format(name) for _, name, kind, *_ in rows(command) if kind in forms)
    return f"{PROGRAM} {command} {' '.join(places)} [options]"


def _flag(name: str, kind: str) -> str:
    return name if kind[0] == "@" else f"--{name.replace('_', '-')}"


def _form(kind: str) -> dict[str, Any]:
    """How an option looks: the number, the choices and the name of its values."""
    if kind == "flag":
        return {"action": BooleanOptionalAction}
    if kind[0] == "@":
        return {"nargs": kind[1:]} if kind[1:] else {}
    base, _, more = kind.rstrip("+?").partition(" ")
    choices = base.split("|") if "|" in base else get_args(getattr(_names, more or base, None))
    called = {} if choices and not more else {"metavar": base}  # names of benchmarks are too many for a line
    return called | ({"nargs": "+"} if kind[-1] == "+" else {}) | ({"choices": choices} if choices else {})


def _typed(library: Any, kind: str) -> dict[str, Any]:
    """How an option is parsed."""
    form, (base, _, more) = _form(kind), kind.rstrip("+?").partition(" ")
    if kind == "flag":
        return {"action": library.ActionYesNo(yes_prefix="", no_prefix="no-")}
    if kind == "CONFIG":
        return {"action": "config"}
    if base == "CLASS":
        face = import_module("reid_torchmetrics")
        return {"type": Union[(*(getattr(face, each) for each in more.split()), None)]}
    if kind.startswith("NAME "):
        del form["choices"]  # another word is an error of the function, which says what was meant
    return form | ({"type": _TYPES[base] | None if kind[-1] == "?" else _TYPES[base]} if base in _TYPES else {})


def named_values(option: str, given: Sequence[str], kind: Callable[[str], Any] = str) -> dict[str, Any]:
    """Values by name, of words such as "map=0.85".

    Raises:
        ValueError: a word of another form, or a name twice.
    """
    values: dict[str, Any] = {}
    for word in given:
        name, sign, value = word.partition("=")
        if name in values:
            raise ValueError(f"`{option}` must give each name once; got {name!r} twice.")
        with suppress(ValueError):  # of a value of another kind
            values[name] = kind(value)
        if not (name and sign and name in values):
            raise ValueError(f"`{option}` must be words such as NAME=VALUE; got {word!r}.")
    return values
