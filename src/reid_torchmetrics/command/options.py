"""Options of a subcommand from the signature of the function behind it, with the words of its docstrings.

    evaluate(..., *, rule: Literal["rectangle", ...] | None, k: int | None, draw: GalleryDraw | None)
    --rule {rectangle,...}, --k K, --draw.shots N

A parameter that takes nothing that can be typed, such as a tensor or a function, has no option. Only options that
were given are passed on, so that None keeps its meaning: `--k null`.
"""

from __future__ import annotations

import inspect
from argparse import SUPPRESS
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt

from reid_torchmetrics.functional.model_tables import ModelTable
from reid_torchmetrics.functional.retrieval import Protocol

from . import COMMANDS, PROGRAM

_OUTPUTS = {
    "json": ("FILE", "write the numbers as JSON; - prints them in place of the text"),
    "save": ("FILE", "write a results file (.npz), for `compare`"),
    "report": ("FILE", "write a page of HTML"),
    "pictures": ("FOLDER", "write the figures as PNG files"),
}
TABLES = {"markdown": ModelTable.markdown, "latex": ModelTable.latex, "csv": ModelTable.csv}
_LEAST = "exit with 1 if a number is below a value, such as map=0.85"


def new_parser(command: str) -> ArgumentParser:
    """The parser of a subcommand, with what all of them have."""
    text = f"Evaluate {COMMANDS[command]}."
    parser = ArgumentParser(prog=f"{PROGRAM} {command}", description=text, allow_abbrev=False)
    parser.add_argument("--config", action="config", help="YAML file of options")
    return parser


def parsed(
    parser: ArgumentParser, words: Sequence[str], *functions: Any, without: Collection[str], others: Sequence[Any] = ()
) -> tuple[Namespace, dict[str, Any]]:
    """All arguments in the words of the command line, and the given options of functions.

    The parser gets these options, with the texts of the functions and of others, and the options of outputs.
    """
    # Of several texts and of several types of one name the first counts.
    texts: dict[str, str] = {}
    for one in (one for each in (*functions, *others) for one in docstring_parser.parse_from_object(each).params):
        texts = dict.fromkeys(one.arg_name.split(", "), one.description or "") | texts
    types: dict[str, Any] = {}
    for each in functions:
        hints = {} if inspect.isclass(each) else get_type_hints(each)  # those of a class are known
        signature = inspect.signature(each).parameters
        types |= {name: hints.get(name, signature[name].annotation) for name in signature if name not in types}
    forms = {name: _form(annotation) for name, annotation in types.items() if name not in without}
    options = {name: form for name, form in forms.items() if form is not None}
    for name, form in options.items():
        text = " ".join(texts.get(name, "").replace("%", "%%").split())
        parser.add_argument(f"--{name.replace('_', '-')}", default=SUPPRESS, help=text, **form)
    for name, (metavar, text) in _OUTPUTS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("--format", choices=["text", *TABLES], help="of what is printed; tables have models as rows")
    parser.add_argument("--decimals", type=NonNegativeInt, help="digits behind the point; 2 in text, 1 in tables")
    parser.add_argument("--fail-under", nargs="+", default=[], metavar="NAME=VALUE", help=_LEAST)
    arguments = parser.parse_args(words)
    values = vars(parser.instantiate(arguments))
    return arguments, {name: values[name] for name in options if name in values}


def _form(annotation: Any) -> dict[str, Any] | None:
    """How an option is read; None where nothing of the type can be typed."""
    members = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    if bool in members:
        return {"action": ActionYesNo}
    for one in members:
        if get_origin(one) in (Sequence, Iterable, Collection) and (inner := _form(get_args(one)[0])) is not None:
            return inner | {"nargs": "+"}
    # `null` is None, but not where it may be a word.
    for one in members:
        if get_origin(one) is Literal:
            return {"choices": get_args(one)}
        if one in (str, int, float):
            return {"type": Union[one, None] if NoneType in members and one is not str else one}  # noqa: UP007
        if get_origin(one) is Mapping:
            return {"type": dict[get_args(one)]}  # type: ignore[misc]
    classes = tuple(one for one in members if is_dataclass(one) and one is not Protocol)
    return {"type": Union[(*classes, None)]} if classes else None


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
