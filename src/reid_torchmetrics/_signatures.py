"""Signatures with the names of all keyword arguments, where a function takes them as a `TypedDict`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(
    signature: inspect.Signature, kinds: Mapping[str, Any], defaults: Mapping[str, Any]
) -> inspect.Signature:
    """The signature with options in the place of its last parameter, `**options`; a default is None unless given."""
    *own, _ = signature.parameters.values()
    shown = {each.name: each for each in own}
    for name, kind in kinds.items():
        each = Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
        shown.setdefault(name, each)
    return signature.replace(parameters=[*shown.values()])


def with_typed_options(options: type) -> Callable[[Function], Function]:
    """Show in the signature of a function the keys of the `TypedDict` of its `**options`.

    Editors, reference pages and `inspect` read it; the function itself refuses other names.
    """

    def show(function: Function) -> Function:
        vars(function)["__signature__"] = with_options(inspect.signature(function), get_type_hints(options), {})
        return function

    return show
