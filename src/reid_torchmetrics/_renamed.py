"""Old names of arguments: they work, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def renamed(**names: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """Let a function take arguments by their old names, too: `renamed(old="new")`.

    Raises:
        TypeError: when it is called with an argument by both names.
    """

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            given: dict[str, Any] = kwargs
            for old, new in names.items():
                if old in given:
                    if new in given:
                        raise TypeError(f"`{new}` must be given once; got `{old}`, its old name, besides.")
                    warnings.warn(f"`{old}` is now called `{new}`.", FutureWarning, stacklevel=2)
                    given[new] = given.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
