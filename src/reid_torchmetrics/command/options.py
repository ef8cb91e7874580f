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
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser, Namespace

from reid_torchmetrics.functional.retrieval import Protocol

from . import COMMANDS, PROGRAM

_COLLECTIONS = (Sequence, Iterable, Collection)
_PLAIN = (str, int, float)


def new_parser(command: str) -> ArgumentParser:
    """The parser of a subcommand, with what all of them have."""
    parser = ArgumentParser(
        prog=f"{PROGRAM} {command}", description=f"Evaluate {COMMANDS[command]}.", allow_abbrev=False
    )
    parser.add_argument("--config", action="config", help="YAML file of options")
    return parser


def add_options(
    parser: ArgumentParser, function: Callable[..., Any], *, words: Sequence[Any], without: Collection[str] = ()
) -> list[str]:
    """Add an option for each parameter that can be typed, and return their names; `words` describe them."""
    texts: dict[str, str] = {}
    added = []
    for each in words:
        found = docstring_parser.parse_from_object(each)
        texts |= {name: one.description or "" for one in found.params for name in one.arg_name.split(", ")}
    hints = {} if inspect.isclass(function) else get_type_hints(function)  # those of a class are known
    for name, parameter in inspect.signature(function).parameters.items():
        form = _form(parameter.annotation if not isinstance(parameter.annotation, str) else hints[name])
        if form is not None and name not in without:
            text = " ".join(texts.get(name, "").replace("%", "%%").split())
            parser.add_argument(f"--{name.replace('_', '-')}", default=SUPPRESS, help=text, **form)
            added.append(name)
    return added


def chosen(parser: ArgumentParser, arguments: Namespace, added: Sequence[str]) -> dict[str, Any]:
    """The added options with a given value."""
    values = vars(parser.instantiate(arguments))
    return {name: values[name] for name in added if name in values}


def _form(annotation: Any) -> dict[str, Any] | None:
    """How an option is read; None where nothing of the type can be typed."""
    is_union = get_origin(annotation) in {Union, UnionType}
    every = get_args(annotation) if is_union else (annotation,)
    members = [each for each in every if each is not NoneType]
    if bool in members:
        return {"action": ActionYesNo}
    for one in members:
        if get_origin(one) in _COLLECTIONS and (inner := _form(get_args(one)[0])) is not None:
            return inner | {"nargs": "+"}
    for one in members:
        if get_origin(one) is Literal:
            return {"choices": get_args(one)}
        if one in _PLAIN:
            return {"type": Union[one, None] if NoneType in every and one is not str else one}  # noqa: UP007
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
        try:
            values[name] = kind(value)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise ValueError(f"`{option}` must be words such as NAME=VALUE; got {word!r}.")
    return values
