"""What the pages of the reference document, read from their directives."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from reid_torchmetrics.functional.detection import evaluation as detection
from reid_torchmetrics.functional.retrieval import evaluation as retrieval

PAGES = Path(__file__).parents[1] / "reference"
_OTHER_HALF = {"detection": "retrieval", "retrieval": "detection"}
_DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data|exception):: (\S+)$", re.MULTILINE)


@cache
def documented_names() -> tuple[str, ...]:
    """The dotted names that the pages document, in their order."""
    return tuple(name for names in names_by_page().values() for name in names)


@cache
def names_by_page() -> dict[Path, list[str]]:
    """The dotted names that each page documents, in the order of the contents, of pages that document any."""
    found = {page: _DIRECTIVE.findall(page.read_text(encoding="utf-8")) for page in _in_order(PAGES / "index.md")}
    return {page: names for page, names in found.items() if names}


def _in_order(page: Path) -> Iterator[Path]:
    """A page, and those that it lists."""
    yield page
    (listed,) = re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL) or [""]
    for name in re.findall(r"^[\w/]+$", listed, re.MULTILINE):
        yield from _in_order(page.parent / f"{name}.md")


def find_object(name: str) -> Any:
    """The object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@cache
def names_of_definitions() -> dict[tuple[str, str], str]:
    """The documented name of classes and functions by the module and the name of their definition."""
    things = {name: find_object(name) for name in documented_names()}
    return {
        (thing.__module__, thing.__qualname__): name
        for name, thing in things.items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }


def find_meant(text: str, *, seen_from: str) -> str | None:
    """The documented name that a docstring or page means by a part of it: one of its own half, or of neither."""
    other = next((other for half, other in _OTHER_HALF.items() if f".{half}." in seen_from), None)
    found = [name for name in documented_names() if f".{name}".endswith(f".{text}")]
    if len(found) == 1 and ("." in text or f".{other}." not in found[0]):
        return found[0]
    return _member_meant(*text.rpartition("."))


def _member_meant(owner: str, dot: str, member: str) -> str | None:
    """The name of a method or field that is written with its class."""
    found = [name for name in documented_names() if f".{name}".endswith(f".{owner}")] if dot else []
    return f"{found[0]}.{member}" if len(found) == 1 and hasattr(find_object(found[0]), member) else None


@cache
def only_returned() -> frozenset[str]:
    """Names of classes that users are given and do not make: what functions and methods of others return."""
    things = [find_object(name) for name in documented_names()]
    # Methods of results that tasks add are annotated there.
    things += [*detection.RESULT_METHODS.values(), *retrieval.RETRIEVAL_METHODS.values()]
    returned = {word for thing in things for word in _returned_words(thing)}
    return frozenset(
        name
        for name in documented_names()
        if name.count(".") > 1 and name.rpartition(".")[2] in returned and is_record(find_object(name))
    )


def _returned_words(thing: Any) -> Iterator[str]:
    functions = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
    for function in filter(inspect.isfunction, functions):
        words = re.findall(r"\w+", str(function.__annotations__.get("return", "")))
        yield from (word for word in words if word != getattr(thing, "__name__", "") or inspect.isfunction(thing))


def is_record(thing: Any) -> bool:
    """Whether it is a dataclass or a NamedTuple."""
    return inspect.isclass(thing) and (hasattr(thing, "__dataclass_fields__") or hasattr(thing, "_fields"))
