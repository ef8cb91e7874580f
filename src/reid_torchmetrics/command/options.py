"""Options of a subcommand, by the table in `options.json`: help, completion, and the values in a command line.

    "k": ["N?", "cutoff of average precision", "none"]         --k N    cutoff of average precision [none]

A row has the kind of value, what it is, and its default in words. Options are named like the parameters of the function
behind the subcommand, and a test compares both. The table is read without torch, so that help and errors are there at
once. Only options that were given are passed on, so that None keeps its meaning: `--k null`.
"""

from __future__ import annotations

import json
import re
from argparse import SUPPRESS, Action, ArgumentParser, BooleanOptionalAction, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from reid_torchmetrics import _hints
from reid_torchmetrics._extras import require

from .configs import read_config
from .instances import CLASS, FIELDS, Instance, read_instance
from .kinds import Kind, WrongValueError, read_kind
from .terminal import PROGRAM, UsageError

TABLE = json.loads(files(__package__).joinpath("options.json").read_text(encoding="utf-8"))
COMMANDS: dict[str, str] = {name: command["summary"] for name, command in TABLE["commands"].items()}
"""the subcommands, each with what it takes"""
OWN_GROUPS = ("files", "labels", "output")
"""groups of options of the command, and not of a function"""
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

    @property
    def is_positional(self) -> bool:
        """Whether the words stand without the name of an option."""
        return self.kind[0] == "@"

    @property
    def flag(self) -> str:
        """The option as it is written."""
        return self.name if self.is_positional else f"--{self.name.replace('_', '-')}"

    @property
    def classes(self) -> dict[str, dict[str, Kind]]:
        """The kinds of the fields of the objects that the option describes."""
        base, *names = self.kind.split()
        if base != "CLASS":
            return {}
        fields = {name: TABLE["classes"][name] for name in names}
        return {name: {field: read_kind(row[0]) for field, row in rows.items()} for name, rows in fields.items()}


def rows(command: str) -> Iterator[Option]:
    """Rows of the options of a subcommand."""
    for group, names in TABLE["commands"][command]["groups"].items():
        for name in names.split():
            kind, text, *default = TABLE["options"].get(f"{command}.{name}") or TABLE["options"][name]
            yield Option(group, name, kind, text, "".join(default))


def parse(command: str, words: Sequence[str]) -> tuple[SimpleNamespace, dict[str, Any]]:
    """Return the options of the command itself in the words of a command line, and the options for its function.

    Raises:
        UsageError: Words, or a file of options, that the command does not understand.
    """
    _check_given_once(words)
    parser = fill(_Parser(prog=f"{PROGRAM} {command}", add_help=False, allow_abbrev=False), command)
    table = list(rows(command))
    for option in table:
        if option.classes or read_kind(option.kind).is_mapping:
            _add_keys(parser, option, words)
    namespace, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_about_unknown(command, unknown))
    values = vars(namespace)
    missing = [option.name for option in table if option.kind in ("@", "@+") and option.name not in values]
    if missing and "print_config" not in values:
        raise UsageError(f"`{command}` must have {' and '.join(f'`{name}`' for name in missing)}; got none")
    arguments = _command_defaults(command)
    for name in arguments:
        if values.get(name) is not None:
            arguments[name] = values[name]
    return SimpleNamespace(**arguments), {name: values[name] for name in values if name not in arguments}


def _command_defaults(command: str) -> dict[str, Any]:
    """Return the options of a subcommand itself, not of a function, with their defaults."""
    defaults: dict[str, Any] = dict.fromkeys(_OUTPUTS)  # not all subcommands have all
    for option in rows(command):
        if option.group in OWN_GROUPS:
            defaults[option.name] = [] if read_kind(option.kind).is_list else None
    defaults.update(TABLE["commands"][command].get("command_options", {}))
    return defaults


def root_parser() -> tuple[ArgumentParser, Mapping[str, ArgumentParser]]:
    """Return a parser that shows help and completes words: of the program, and of each subcommand."""
    usage = f"{PROGRAM} COMMAND ..."
    root = ArgumentParser(prog=PROGRAM, usage=usage, description=TABLE["about"], epilog=TABLE["status"])
    commands = root.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for command, summary in COMMANDS.items():
        fill(commands.add_parser(command, help=summary, allow_abbrev=False), command)
    return root, commands.choices


def fill(parser: ArgumentParser, command: str) -> ArgumentParser:
    """Give a parser the options of a subcommand, in groups, with words and defaults."""
    about = TABLE["commands"][command]
    examples = [f"{PROGRAM} {command} {words}".rstrip() for words in about["examples"]]
    summary = COMMANDS[command]
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.usage = _usage(command)
    parser.description = f"{summary[0].upper()}{summary[1:]}."
    parser.epilog = "\n  ".join(["examples:", *examples])
    groups = {group: parser.add_argument_group(group, TABLE["groups"][group]) for group in about["groups"]}
    for option in rows(command):
        _add(groups[option.group], option, command)
        if option.classes:
            _add_fields(groups[option.group], option)
    return parser


def as_yaml(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> str:
    """Return the options of a command line as a file of options.

    Raises:
        ModuleNotFoundError: PyYAML is not installed.
    """
    require("A file of options", "yaml")
    yaml: Any = import_module("yaml")
    defaults = _command_defaults(command)
    values = {name: value for name, value in vars(arguments).items() if value != defaults[name]} | dict(options)
    plain: dict[str, Any] = {}
    for option in rows(command):
        if option.name in values and option.kind not in _ABOUT_FILES:
            plain[option.name] = _plain(values[option.name])
    return str(yaml.safe_dump(plain, sort_keys=False))


def _plain(value: Any) -> Any:
    """Return a value of an option as YAML has it."""
    if isinstance(value, Instance):
        return {CLASS: value.class_name, FIELDS: value.fields}
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return list(value) if isinstance(value, tuple) else value


class _Parser(ArgumentParser):
    """A parser that raises errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Store(Action):
    """Converts words by the kind of an option; one of a `field` becomes a part of the option's value."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, *, option: Option, field: str = "", **form: Any
    ) -> None:
        super().__init__(option_strings, dest, default=SUPPRESS, **form)
        self._option = option
        self._field = field
        suggestions = _suggestions(option, field)
        if suggestions:  # without, argcomplete completes names of files
            self.completer = lambda **_: suggestions

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        if values in (None, [], SUPPRESS):  # a file may be left out
            return
        try:
            _set_value(namespace, self._option, self._field, values)
        except WrongValueError as error:
            raise UsageError(error.message(self._option.name)) from error


class _ReadConfig(Action):
    """Takes the options of a file; words behind it count more, words before it less."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, command: str, **form: Any) -> None:
        super().__init__(option_strings, dest, default=SUPPRESS, **form)
        self._options = {option.name: option for option in rows(command) if option.kind not in _ABOUT_FILES}

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


def _suggestions(option: Option, field: str) -> tuple[str, ...]:
    """Return the words that a shell suggests."""
    if not option.classes:
        return read_kind(option.kind).suggestions
    if not field:
        return tuple(option.classes)
    kinds = [fields[field] for fields in option.classes.values() if field in fields]
    return kinds[0].suggestions if kinds else ()


def _set_value(namespace: Namespace, option: Option, field: str, value: Any) -> None:
    """Set the value of an option, or of a field or a key of it, such as "k1" of `--rerank.k1`."""
    kind = read_kind(option.kind)
    earlier = getattr(namespace, option.name, None) if field else None
    if field and not (option.classes or kind.is_mapping):
        raise WrongValueError("given as a whole", field)
    if field:
        value = {field: value}
    if option.classes:
        converted: Any = read_instance(option.classes, value, earlier)
    else:
        is_null_allowed = option.kind != "flag" and not (kind.is_list and option.group in OWN_GROUPS)
        converted = kind.convert(value, is_null_allowed=is_null_allowed)
    if field and kind.is_mapping:
        converted = (earlier or {}) | converted
    setattr(namespace, option.name, converted)


def _add(group: Any, option: Option, command: str) -> None:
    """Add an option to a group of a parser."""
    help_text = f"{option.text} [{option.default}]" if option.default else option.text
    kind = read_kind(option.kind)
    if option.kind == "SWITCH":
        group.add_argument(option.flag, action="store_true", default=SUPPRESS, help=help_text)
    elif option.kind == "flag":
        group.add_argument(option.flag, action=BooleanOptionalAction, default=SUPPRESS, help=help_text)
    elif option.kind == "CONFIG":
        group.add_argument(option.flag, action=_ReadConfig, command=command, metavar="CONFIG", help=help_text)
    elif option.is_positional:
        nargs = option.kind[1:] or None
        added = group.add_argument(option.name, action=_Store, option=option, nargs=nargs, help=help_text)
        added.required = False  # a file of options may have it
    else:
        nargs = "+" if kind.is_list else None
        metavar = _metavar(kind)
        group.add_argument(option.flag, action=_Store, option=option, nargs=nargs, metavar=metavar, help=help_text)


def _add_fields(group: Any, option: Option) -> None:
    """Add an option for each field of the objects that an option describes, such as `--rerank.k1`."""
    for class_name in option.classes:
        for field, (kind, text, default) in TABLE["classes"][class_name].items():
            group.add_argument(
                f"{option.flag}.{field}",
                action=_Store,
                option=option,
                field=field,
                metavar=_metavar(read_kind(kind)),
                help=f"{class_name}: {text} [{default}]",
            )


def _add_keys(parser: ArgumentParser, option: Option, words: Sequence[str]) -> None:
    """Add an option for each other field or key in the words of a command line, such as `--camera-map.3`."""
    prefix = f"{option.flag}."
    known = {field for fields in option.classes.values() for field in fields}
    fields = {word.removeprefix(prefix).partition("=")[0] for word in words if word.startswith(prefix)}
    for field in sorted(fields - known - {""}):
        parser.add_argument(f"{prefix}{field}", action=_Store, option=option, field=field)


def _metavar(kind: Kind) -> str:
    """Return what stands for the value of an option in help."""
    return f"{{{','.join(kind.choices)}}}" if kind.choices else kind.base


def _usage(command: str) -> str:
    forms = {"@": "{}", "@?": "[{}]", "@*": "[{} ...]", "@+": "{} ..."}
    places = [forms[option.kind].format(option.name) for option in rows(command) if option.is_positional]
    return f"{PROGRAM} {command} {' '.join(places)} [options]"


def _check_given_once(words: Sequence[str]) -> None:
    """Raise if an option is given twice: the last one would count, and the values of the first be dropped."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    twice = {flag for flag in flags if flags.count(flag) > 1} - {"--config"}
    if twice:
        raise UsageError(f"{min(twice)} must be given once, with all its values; got it twice")


def _about_unknown(command: str, words: Sequence[str]) -> str:
    """Return a message about words that are no option, with the one that was meant if it is known."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    if not flags:
        return f"unrecognized arguments: {' '.join(words)}; the form is `{_usage(command)}`"
    table = list(rows(command))
    name = flags[0].removeprefix("--")
    if "_" in name and any(option.flag == f"--{name.replace('_', '-')}" for option in table):
        hint = f", which may be `--{name.replace('_', '-')}`"
    else:
        hint = _hints.argument_meant(name, [option.name for option in table if not option.is_positional])
        hint = re.sub(r"`(\w+)`", lambda found: f"`--{found[1].replace('_', '-')}`", hint)
    return f"unrecognized arguments: {flags[0]}{hint}"
