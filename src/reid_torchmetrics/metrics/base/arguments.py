"""Argument names of a metric class, for "did you mean" errors and `repr`, and values of NumPy as Python's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.metric import jit_distributed_available

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

_OF_ALL_METRICS: dict[str, Any] = {
    "compute_on_cpu": False,
    "dist_sync_on_step": False,
    "process_group": None,
    "dist_sync_fn": None,
    "distributed_available_fn": jit_distributed_available,
    "sync_on_compute": True,
    "compute_with_cache": True,
}
"""keyword arguments of `torchmetrics.Metric`, and their defaults; it takes them as `**kwargs`"""


def arguments_of(kind: type, *others: str) -> list[str]:
    """The arguments that a class takes, its own first, then `others`, then the arguments of all metrics."""
    names: dict[str, None] = {}
    for one in takewhile(lambda one: one not in (Metric, MetricCollection), kind.__mro__):
        parameters = inspect.signature(vars(one)["__init__"]).parameters.values() if "__init__" in vars(one) else ()
        names |= {each.name: None for each in parameters if each.kind is not each.VAR_KEYWORD}
    return [name for name in dict.fromkeys((*names, *others, *_OF_ALL_METRICS)) if name != "self"]


def naming_arguments(
    method: Callable[Concatenate[Owner, Arguments], Returned],
) -> Callable[Concatenate[Owner, Arguments], Returned]:
    """Let a call that does not fit a method say what the method takes, all of it by name."""
    _, *names = inspect.signature(method).parameters
    takes = f"`{method.__name__}` takes by name only {', '.join(f'`{name}=`' for name in names)}"

    @functools.wraps(method)
    def named(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        try:
            return method(owner, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it comes from inside
                raise
            came = [f"{len(args)} without a name"] if args else []
            raise TypeError(f"{takes}; got {', '.join([*came, *(f'`{name}=`' for name in kwargs)])}.") from None

    return named


def show_arguments(metric: Metric, always: Mapping[str, Any], defaults: dict[str, Any]) -> str:
    """Arguments as they are written: the ones that are `always` shown, then attributes that are not their default."""
    values = {name: (getattr(metric, name), default) for name, default in (defaults | _OF_ALL_METRICS).items()}
    changed = {name: value for name, (value, default) in values.items() if value != default}
    return ", ".join(f"{name}={value!r}" for name, value in {**always, **changed}.items())


def python_bool(argument: str, value: object) -> bool:
    """The value as Python's own bool; raise unless it is True or False, NumPy's among them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected argument `{argument}` to be a boolean; got {type(value).__name__}.")  # noqa: TRY004
    return bool(value)


def python_numbers(values: Any) -> Any:
    """A list of numbers with NumPy's numbers and 0-d tensors as Python's own; anything else as it is."""
    if not isinstance(values, (tuple, list)):
        return values
    is_single = [isinstance(each, np.generic) or (isinstance(each, Tensor) and not each.ndim) for each in values]
    return [each.item() if single else each for each, single in zip(values, is_single, strict=True)]


def python_ints(values: Any) -> Any:
    """As `python_numbers`, with floats that are whole numbers as ints; any other float as it is."""
    values = python_numbers(values)
    if not isinstance(values, (tuple, list)):
        return values
    return [int(each) if isinstance(each, float) and each.is_integer() else each for each in values]
