"""Signatures of public functions: hints at the argument that was meant, and the keys of a `TypedDict` as arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import FunctionType
from typing import Any, TypeVar, cast, get_type_hints

from . import _extras, _hints

Function = TypeVar("Function", bound=Callable[..., Any])


def tell_hints(module: dict[str, Any]) -> None:
    """Make errors name what was probably meant: an argument of a public function or class, or a name of the module.

    A public module calls this function at its end, with its `globals()`. Calls within the package bypass the hints.
    """
    module["__getattr__"] = _extras.names_elsewhere(module["__name__"])
    for name in module.get("__all__", ()):
        _tell_hints_of(module, name)


def import_when_used(module: dict[str, Any], names_by_module: Mapping[str, str]) -> None:
    """Make a package import its modules when their names are used, and tell hints as `tell_hints` does.

    Args:
        module: the `globals()` of the package.
        names_by_module: the names that the package has from a module or package within it, separated by spaces.
    """
    package = module["__name__"]
    public_names = module.get("__all__", [])
    module_of_name: dict[str, str] = {}
    for module_name, names in names_by_module.items():
        module_of_name.update(dict.fromkeys(names.split(), f"{package}.{module_name}"))
    find_elsewhere = _extras.names_elsewhere(package)

    def find(name: str) -> Any:
        if name not in module_of_name:
            return find_elsewhere(name)
        module[name] = _extras.name_in(module_of_name[name], name)
        if name in public_names:
            _tell_hints_of(module, name)
        return module[name]

    module["__getattr__"] = find
    module["__dir__"] = lambda: public_names
    for name in module.keys() & set(public_names):
        _tell_hints_of(module, name)


def _tell_hints_of(module: dict[str, Any], name: str) -> None:
    """Make the errors of a public function or class name the argument that was probably meant."""
    value = module[name]
    function = vars(value).get("__init__") if isinstance(value, type) else value
    if not isinstance(function, FunctionType) or hasattr(function, "__signature__"):  # it refuses arguments itself
        return
    if isinstance(value, type):
        value.__init__ = with_hints(function)  # type: ignore[misc]
    else:
        module[name] = with_hints(function)
        module[name].__module__ = module["__name__"]  # where `pickle` finds it


def with_hints(function: Function) -> Function:
    """Make the error of an unknown keyword argument say which one may be meant."""
    name = function.__qualname__.removesuffix(".__init__")
    accepted = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for argument in kwargs:
            if argument not in accepted:
                free = [parameter for parameter in list(accepted)[len(args) :] if parameter not in kwargs]
                hint = _hints.argument_meant(argument, free)
                raise TypeError(f"{name}() got an unexpected keyword argument {argument!r}{hint}")
        return function(*args, **kwargs)

    return cast("Function", call)


def with_options(
    signature: inspect.Signature, kinds: Mapping[str, Any], defaults: Mapping[str, Any]
) -> inspect.Signature:
    """Return a signature in which its last parameter, `**options`, is replaced by keyword arguments.

    Args:
        signature: of a function with `**options`.
        kinds: the type of each keyword argument by name.
        defaults: defaults by name; None where a name is missing.
    """
    parameters = dict(signature.parameters)
    parameters.popitem()  # `**options`
    for name, kind in kinds.items():
        if name not in parameters:
            default = defaults.get(name)
            parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    return signature.replace(parameters=list(parameters.values()))


def with_typed_options(options: type, *, refuses_others: bool = True) -> Callable[[Function], Function]:
    """Add the keys of a `TypedDict` to the signature of a function that takes them as `**options`.

    Editors, the reference pages and `inspect` read this signature. Other names are refused before anything else, unless
    the function itself refuses them, because its errors must reach other processes.
    """

    def add_keys(function: Function) -> Function:
        signature = with_options(inspect.signature(function), get_type_hints(options), {})
        vars(function)["__signature__"] = signature
        if not refuses_others:
            return function
        name = function.__qualname__.removesuffix(".__init__")
        accepted = [parameter for parameter in signature.parameters if parameter != "self"]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            from . import _checks  # noqa: PLC0415 - imports torch, without which the command prints its help

            _checks.known_arguments(name, kwargs, accepted)
            return function(*args, **kwargs)

        return cast("Function", call)

    return add_keys
