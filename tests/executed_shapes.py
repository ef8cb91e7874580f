"""Executes the shapes in the signatures of the functional layer, with which the tests run it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping


def install() -> None:
    """Check the arguments and results of each function of a module or class; to be called before the package's import.

    Functions within functions are left alone: their checks would be compiled anew by each call of the outer one, which
    took a sixth of the whole suite.
    """
    decorator_of = jaxtyping.jaxtyped

    def outer_only(**options: Any) -> Callable[[Any], Any]:
        decorate = decorator_of(**options)
        return lambda defined: defined if "<locals>" in defined.__qualname__ else decorate(_without_options(defined))

    jaxtyping.jaxtyped = outer_only  # the name by which modules that the hook has changed call it
    jaxtyping.install_import_hook("reid_torchmetrics.functional", "beartype.beartype")


def _without_options(defined: Any) -> Any:
    """A function without the annotation of `**options`, which checkers cannot read on Python 3.10."""
    annotations = getattr(defined, "__annotations__", {})
    for name in [name for name, kind in annotations.items() if str(kind).startswith("Unpack[")]:
        del annotations[name]
    return defined


@contextmanager
def checked_for_one_in_eight(number: int) -> Iterator[None]:
    """Execute the shapes only where a number is a multiple of 8: with small problems they take most of the time."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", number % 8 != 0)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
