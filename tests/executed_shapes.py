"""Executes the shapes in the signatures of the functional layer, with which the tests run it."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import cache, update_wrapper, wraps
from importlib import import_module
from threading import current_thread, main_thread
from types import FunctionType
from typing import Any

import beartype  # noqa: F401 - here, not when a check is compiled, which may be within a callback of a weak reference
import jaxtyping

from tests.profiles import PROFILE

_counts: list[list[int]] = []
"""the number of checked calls of each function, as its only item: the quickest to read, and most calls do no more"""
_most = [0]
"""the number of calls of each function that are checked, as the only item"""


def execute(num_calls: int) -> int:
    """Check the first calls of each function from now on, up to a number; gives the number before.

    All calls would take a third of the time of the tests of `functional`.
    """
    before = _most[0]
    _most[0] = num_calls
    return before


def forget_calls() -> None:
    """Let calls be the first again."""
    for count in _counts:
        count[0] = 0


def install() -> None:
    """Check the arguments and results of each function of a module or class; to be called before the package's import.

    Functions within functions are left alone: their checks would be compiled anew by each call of the outer one, which
    took a sixth of the whole suite. Those without arrays are checked in a nightly run only: four of five calls are
    theirs, and mypy knows their types.
    """
    decorator_of = jaxtyping.jaxtyped

    def outer_only(**options: Any) -> Callable[[Any], Any]:
        decorate = decorator_of(**options)
        return lambda defined: defined if "<locals>" in defined.__qualname__ else _first_calls(defined, decorate)

    jaxtyping.jaxtyped = outer_only  # the name by which modules that the hook has changed call it
    jaxtyping.install_import_hook("reid_torchmetrics.functional", "beartype.beartype")


def _first_calls(defined: Any, decorate: Callable[[Any], Any]) -> Any:
    """A function, or a class of data with its `__init__`, whose first calls are checked."""
    if inspect.isclass(defined):
        if dataclasses.is_dataclass(defined) and inspect.isfunction(vars(defined).get("__init__")):
            defined.__init__ = _first_calls(defined.__init__, decorate)
        return defined
    if PROFILE != "nightly" and not re.search("Tensor|[Aa]rray", str(defined.__annotations__)):
        return defined
    checked = cache(lambda: decorate(_without_options(defined)))  # to compile the checks takes half of the import
    count = [0]
    _counts.append(count)
    most = _most

    def either(*args: Any, **kwargs: Any) -> Any:
        # What compiles the checks catches warnings, those of other threads, too.
        if count[0] >= most[0] or current_thread() is not main_thread():
            return defined(*args, **kwargs)
        count[0] += 1
        return checked()(*args, **kwargs)

    # Warnings are of the user's line: the package takes what jaxtyping puts between for no user.
    named = globals() | {"__name__": "jaxtyping"}
    return wraps(defined)(FunctionType(either.__code__, named, closure=either.__closure__))


def _without_options(defined: Any) -> Any:
    """A function without annotations of names, which it refuses itself, and of `**options`, which 3.10 cannot read."""
    own = defined.__code__, defined.__globals__, defined.__name__, defined.__defaults__, defined.__closure__
    copied = update_wrapper(FunctionType(*own), defined)
    del copied.__wrapped__
    copied.__kwdefaults__ = defined.__kwdefaults__
    kinds = defined.__annotations__.items()
    copied.__annotations__ = {name: kind for name, kind in kinds if not re.search(_options(), str(kind))}
    return copied


@cache
def _options() -> str:
    names = import_module("reid_torchmetrics._names")  # not before the hook
    return rf"\b({'|'.join(name for name in vars(names) if name[0].isupper())}|Unpack)\b"
