"""Options of a subcommand, from the table in `options.json`: help, completion, and the values in a command line.

    "k": ["N?", "cutoff of average precision and MRR", "none"]     --k N  cutoff of average precision and MRR [none]

A row has the kind of value, what it is, and its default in words. Options are named like the parameters of the function
behind the subcommand, and a test compares both. In what it is, "{names}" stands for the values of its type in `_names`.
The table is read without torch, so that help and errors are there at once. Only options that were given are passed on,
so that None keeps its meaning: `--k null`.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, BooleanOptionalAction, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, get_args

from reid_torchmetrics import _hints, _names
from reid_torchmetrics._extras import require

from .configs import read_config
from .terminal import PROGRAM, UsageError, one_line
from .values import TABLE, Kind, WrongValueError, read_instance, read_kind, to_plain

COMMANDS: dict[str, str] = {name: command["summary"] for name, command in TABLE["commands"].items()}
"""summaries of the subcommands, by name"""
DIAGNOSE = "diagnose"
"""the command before another one that diagnoses its numbers"""
DIAGNOSED = ("evaluate", "lists", "detect", "pairs")
COMMAND_GROUPS = ("files", "labels", "exact", "output")
"""groups of options that the command itself reads; all others are passed to a function"""
_OUTPUTS = ("save", "report", "pictures")
_ABOUT_FILES = ("CONFIG", "SWITCH")
"""kinds of options that a file of options cannot have"""


class Option(NamedTuple):
    """A row of the table."""

    group: str
    name: str
    kind: str
    text: str
    default: str
    flag: str
    """the option as users write it, such as `--max-rank`; of words without the name of an option, this name"""
    is_positional: bool
    """True if the words come without the name of an option"""
    value_kind: Kind

    def read(self, value: Any, field: str = "", earlier: Any = None) -> Any:
        """Convert words, or a value from a file; or those for a field or key, such as "k1" in `--rerank.k1`.

        Args:
            value: The words or the value.
            field: The name of the field or key; empty for the whole option.
            earlier: The value so far, to which the field is added; None if there is none.

        Raises:
            WrongValueError: The value is not of the kind of this option, which may have no fields.
        """
        kind = self.value_kind
        if field and not (kind.classes or kind.is_mapping):
            raise WrongValueError("given as a whole", field)
        if field:
            value = {field: value}
        if kind.classes:
            return read_instance(kind.classes, value, earlier)
        needs_value = self.kind == "flag" or (kind.is_list and self.group in COMMAND_GROUPS)
        if value is None and not needs_value:
            return None
        converted = kind.convert(value)
        return (earlier or {}) | converted if field else converted


@cache
def command_options(command: str) -> list[Option]:
    """Return the options of a subcommand, in the order of help."""
    options = []
    for group, names in TABLE["commands"][command]["groups"].items():
        for name in names.split():
            kind, text, *default = TABLE["options"].get(f"{command}.{name}") or TABLE["options"][name]
            is_positional = kind[0] == "@"
            flag = name if is_positional else f"--{name.replace('_', '-')}"
            options.append(Option(group, name, kind, text, "".join(default), flag, is_positional, read_kind(kind)))
    return options


def parse(command: str, words: Sequence[str]) -> tuple[SimpleNamespace, dict[str, Any]]:
    """Return the options of the command itself in the words of a command line, and the options for its function.

    Raises:
        UsageError: Words, or a file of options, that the command does not understand.
    """
    flags = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    twice = {flag for flag in flags if flags.count(flag) > 1} - {"--config"}
    if twice:  # the last one would count, and the values of the first would be dropped
        raise UsageError(f"{min(twice)} must be given once, with all its values; got it twice")
    parser = _Parser(prog=f"{PROGRAM} {command}", add_help=False, allow_abbrev=False)
    table = command_options(command)
    for option in table:
        opposite = option.flag.replace("--", "--no-", 1)
        fields = [flag for flag in flags if flag.startswith(f"{option.flag}.")]
        if option.is_positional or option.flag in flags or opposite in flags or fields:
            _add(parser, option, command)
        for flag in fields:  # such as `--rerank.k1` and `--camera-map.3`
            parser.add_argument(flag, action=_Store, option=option, field=flag.partition(".")[2])
    namespace, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_describe_unknown(command, unknown))
    values = vars(namespace)
    missing = [option.name for option in table if option.kind in ("@", "@+") and option.name not in values]
    if missing and "print_config" not in values:
        raise UsageError(f"`{command}` must have {' and '.join(f'`{name}`' for name in missing)}; got none")
    arguments = _command_defaults(command)
    options: dict[str, Any] = {}
    for name, value in values.items():
        if name not in arguments:
            options[name] = value
        elif value is not None:
            arguments[name] = value
    return SimpleNamespace(**arguments), options


def _command_defaults(command: str) -> dict[str, Any]:
    """Return the defaults of the options that a subcommand itself reads, by name."""
    defaults: dict[str, Any] = dict.fromkeys(_OUTPUTS)  # some subcommands lack some of them
    for option in command_options(command):
        if option.group in COMMAND_GROUPS:
            defaults[option.name] = [] if option.value_kind.is_list else None
    defaults.update(TABLE["commands"][command].get("command_options", {}))
    return defaults


def root_parser() -> tuple[ArgumentParser, Mapping[str, ArgumentParser]]:
    """Return a parser for help and completion of the program, one for each subcommand, and one for `diagnose`."""
    usage = f"{PROGRAM} COMMAND ..."
    root = ArgumentParser(prog=PROGRAM, usage=usage, description=TABLE["about"], epilog=TABLE["status"])
    commands = root.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for command, summary in COMMANDS.items():
        add_options(commands.add_parser(command, help=summary, allow_abbrev=False), command)
    diagnose = commands.add_parser(DIAGNOSE, help=TABLE[DIAGNOSE], usage=f"{PROGRAM} {DIAGNOSE} COMMAND ...")
    _add_expected(diagnose)
    diagnosed = diagnose.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for command in DIAGNOSED:
        add_options(diagnosed.add_parser(command, help=COMMANDS[command], allow_abbrev=False), command)
    return root, commands.choices


def _add_expected(parser: ArgumentParser) -> None:
    """Add the options of `diagnose` about a number of another evaluator."""
    for name, text in TABLE["expected"].items():
        parser.add_argument(f"--{name}", help=text, metavar=name[0].upper(), default=SUPPRESS)


def read_expected(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of `diagnose` about a number of another evaluator, and the other words.

    Raises:
        UsageError: an option without its value, or the measure without the number.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    _add_expected(parser)
    namespace, others = parser.parse_known_args(words)
    expected = vars(namespace)
    if expected and "expected" not in expected:
        raise UsageError("`--measure` must come with `--expected`; got it alone")
    return expected, others


def add_options(parser: ArgumentParser, command: str) -> None:
    """Add the options of a subcommand to a parser, in groups, with the texts of help."""
    about = TABLE["commands"][command]
    examples = [f"{PROGRAM} {command} {words}".rstrip() for words in about["examples"]]
    summary = COMMANDS[command]
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.usage = _usage(command)
    parser.description = f"{summary[0].upper()}{summary[1:]}."
    parser.epilog = "\n  ".join(["examples:", *examples])
    groups = {group: parser.add_argument_group(group, TABLE["groups"][group]) for group in about["groups"]}
    for option in command_options(command):
        group = groups[option.group]
        _add(group, option, command)
        for class_name in option.value_kind.classes:
            for field, (kind, text, default) in TABLE["classes"][class_name].items():
                flag = f"{option.flag}.{field}"
                about_field = f"{class_name}: {text} [{default}]"
                metavar = _metavar(read_kind(kind))
                group.add_argument(flag, action=_Store, option=option, field=field, metavar=metavar, help=about_field)


def as_yaml(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> str:
    """Write the options of a command line as a file of options, and return its text.

    Raises:
        ModuleNotFoundError: PyYAML is not installed.
    """
    require("A file of options", "yaml")
    yaml: Any = import_module("yaml")
    defaults = _command_defaults(command)
    values = {name: value for name, value in vars(arguments).items() if value != defaults[name]}
    values.update(options)
    plain: dict[str, Any] = {}
    for option in command_options(command):
        if option.name in values and option.kind not in _ABOUT_FILES:
            plain[option.name] = to_plain(values[option.name])
    return str(yaml.safe_dump(plain, sort_keys=False))


def in_options(command: str, message: object) -> str:
    """Return a message on one line, with the options of a command in the place of arguments of functions.

        `max_rank`                       `--max-rank`
        `missing_identities='junk'`      `--missing-identities junk`
        `leave_one_out=False`            `--no-leave-one-out`
        `names={'identities': NAME}`     `--names identities=NAME`
        `query_cameras`                  `cameras` of the query

    A message about a file, such as "labels.csv: `names` must ...", names columns, and only options that have a value.
    """
    text = one_line(message)
    options = {option.name: option for option in command_options(command)}
    label_names = (*get_args(_names.LabelField), "labels")
    words = TABLE["commands"][command].get("words", {})
    is_about_file = _begins_with_file(text)

    def translate(match: re.Match[str]) -> str:
        code, name, rest, value = match.groups()
        if not words.get(name, name).isidentifier():
            return str(words[name])
        if is_about_file and value is None:
            return str(code)
        name = words.get(name, name)
        if name in options:
            option = options[name]
            flag = option.flag.replace("--", "--no-") if value == "False" else option.flag
            return f"`{flag}{rest}{_value_in_words(option, value)}`"
        role, _, label = name.partition("_")
        is_label = role in ("query", "gallery") and label in label_names
        return f"`{label}` of the {role}" if is_label else str(code)

    return re.sub(r"(`([A-Za-z]\w*)((?:\.\w+|\[\w+\])*)(?:=([^`]*))?`)", translate, text)


def _begins_with_file(text: str) -> bool:
    """Return whether a message begins with the name of a file, in backticks or before a colon."""
    quoted = re.match(r"(?:warning: )?`([^`]+)`", text)
    if quoted is not None:
        return Path(quoted[1]).is_file()
    head, colon, _ = text.partition(": ")
    return bool(colon) and "`" not in head and any(Path(word).exists() for word in re.split(r" and |:\d+$", head))


def _value_in_words(option: Option, value: str | None) -> str:
    """Return a value in Python as words behind an option."""
    if value is None or option.kind == "flag":
        return ""
    plain = re.sub(r"[\"']", "", value)
    if option.value_kind.is_mapping:
        return f" '{plain.translate(str.maketrans('()', '[]'))}'"
    return " " + re.sub(r"[(){}\[\]]", "", plain).replace(": ", "=").replace(",", "").strip().replace("None", "null")


class _Parser(ArgumentParser):
    """A parser that raises an error in the place of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


_WORD = read_kind("NAME")


class _Store(Action):
    """Convert words by the kind of an option, and store the value, or the part of it that a `field` names."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, *, option: Option, field: str = "", **kwargs: Any
    ) -> None:
        super().__init__(option_strings, dest, default=SUPPRESS, **kwargs)
        self._option = option
        self._field = field
        kind = option.value_kind
        if field:
            fields = {name: kind for kinds in kind.classes.values() for name, kind in kinds.items()}
            kind = fields.get(field, _WORD)
        suggestions = kind.suggestions
        if suggestions:  # without suggestions, argcomplete completes names of files
            self.completer = lambda **_: suggestions

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        if values in (None, [], SUPPRESS):  # a file may be left out
            return
        try:
            _set_value(namespace, self._option, self._field, values)
        except WrongValueError as error:
            raise UsageError(error.message(self._option.name)) from error


class _ReadConfig(Action):
    """Read the options in a file; later words replace them, and they replace the values of earlier words."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, command: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, default=SUPPRESS, **kwargs)
        self._options = {option.name: option for option in command_options(command) if option.kind not in _ABOUT_FILES}

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        try:
            config = read_config(values, self._options)
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from error
        for key, (value, where) in config.items():
            name, _, field = key.partition(".")
            try:
                _set_value(namespace, self._options[name], field, value)
            except WrongValueError as error:
                raise UsageError(f"{where}: {error.message(name)}") from error
        vars(namespace).setdefault(self.dest, []).append(values)


def _set_value(namespace: Namespace, option: Option, field: str, value: Any) -> None:
    """Set the value of an option, or of a field or key in it."""
    earlier = getattr(namespace, option.name, None) if field else None
    setattr(namespace, option.name, option.read(value, field, earlier))


def _add(group: Any, option: Option, command: str) -> None:
    """Add an option to a group of a parser."""
    kind = option.value_kind
    settings: dict[str, Any] = {"action": _Store, "option": option, "nargs": "+" if kind.is_list else None}
    if option.is_positional:
        settings["nargs"] = option.kind[1:] or None
    elif option.kind == "SWITCH":
        settings = {"action": "store_true", "default": SUPPRESS}
    elif option.kind == "flag":
        settings = {"action": BooleanOptionalAction, "default": SUPPRESS}
    elif option.kind == "CONFIG":
        settings = {"action": _ReadConfig, "command": command}
    else:
        settings["metavar"] = _metavar(kind)
    help_text = option.text.replace("{names}", ", ".join(kind.suggestions))
    if option.default:
        help_text += f" [{option.default}]"
    added = group.add_argument(option.flag, help=help_text, **settings)
    added.required = False  # a file of options may have it


def _metavar(kind: Kind) -> str:
    """Return the placeholder in help for the value of an option."""
    return f"{{{','.join(kind.choices)}}}" if kind.choices else kind.base


def _usage(command: str) -> str:
    """Return the form of a command line, such as "reid-torchmetrics pairs pairs [scores] [options]"."""
    forms = {"@": "{}", "@?": "[{}]", "@*": "[{} ...]", "@+": "{} ..."}
    positionals = [
        forms[option.kind].format(option.name) for option in command_options(command) if option.is_positional
    ]
    return f"{PROGRAM} {command} {' '.join(positionals)} [options]"


def _describe_unknown(command: str, words: Sequence[str]) -> str:
    """Return a message about words that are no option, with the option that is probably meant."""
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    if not flags:
        return f"unrecognized arguments: {' '.join(words)}; the form is `{_usage(command)}`"
    table = command_options(command)
    name = flags[0].lstrip("-")
    positionals = [option.name for option in table if option.is_positional]
    if name in positionals or _hints.counterpart(name, positionals):
        return f"unrecognized arguments: {flags[0]}; files have no flag: `{_usage(command)}`"
    hint = f", which may be `{name}`"
    if "_" not in name or name not in [option.name for option in table]:
        hint = _hints.argument_meant(name, [option.name for option in table if not option.is_positional])
        hint = hint or f"; the form is `{_usage(command)}`"
    return f"unrecognized arguments: {flags[0]}{hint}"
