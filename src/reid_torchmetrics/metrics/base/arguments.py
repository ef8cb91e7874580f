"""Arguments of metrics: complete signatures, errors of calls that do not fit, `repr`, and plain Python values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, cast, get_type_hints

import numpy as np
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.metric import jit_distributed_available

from reid_torchmetrics import _checks, _hints
from reid_torchmetrics._signatures import with_options

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
Constructor = TypeVar("Constructor", bound=Callable[..., None])


class MetricOptions(TypedDict, total=False):
    """The keyword arguments of `torchmetrics.Metric`."""

    compute_on_cpu: bool
    dist_sync_on_step: bool
    process_group: Any
    dist_sync_fn: Callable[..., Any] | None
    distributed_available_fn: Callable[..., Any] | None
    sync_on_compute: bool
    compute_with_cache: bool


_METRIC_DEFAULTS: dict[str, Any] = {
    "compute_on_cpu": False,
    "dist_sync_on_step": False,
    "process_group": None,
    "dist_sync_fn": None,
    "distributed_available_fn": jit_distributed_available,
    "sync_on_compute": True,
    "compute_with_cache": True,
}
"""defaults of `MetricOptions`"""


def arguments_of(metric_class: type) -> dict[str, inspect.Parameter]:
    """Return the arguments of a metric class by name, without the options of all metrics.

    For a user's subclass they are the arguments of its base class, because its own need not be attributes.
    """
    package = __name__.partition(".")[0]
    for base in metric_class.__mro__:
        if "__init__" in vars(base) and base.__module__.startswith(f"{package}."):
            break
    arguments = _without_var_keyword(inspect.signature(base).parameters)
    return {name: parameter for name, parameter in arguments.items() if name not in _METRIC_DEFAULTS}


def _without_var_keyword(parameters: Mapping[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """Return parameters without `**kwargs`."""
    return {
        name: parameter for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def explicit_signature(
    options: type | Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, elsewhere: Collection[str] = ()
) -> Callable[[Constructor], Constructor]:
    """Give a metric's constructor a signature with all of its options, in which None stands for every default.

    Editors, reference pages and tools that make objects from configurations read the signature. NumPy's, torch's and
    OmegaConf's numbers and lists are passed to the constructor as Python's.

    Args:
        options: the `TypedDict` of the constructor's `**options` and of the options of all metrics; or the types of
            these options by name, as a collection takes them from the signature of its members.
        defaults: defaults of these options by name; None where a name is missing.
        elsewhere: names that an error calls fields of `Protocol`.
    """
    kinds, option_defaults = _options_in_order(options, defaults or {})

    def decorate(init: Constructor) -> Constructor:
        parameters = dict(with_options(inspect.signature(init, eval_str=True), kinds, option_defaults).parameters)
        for name, parameter in parameters.items():
            if parameter.default is not parameter.empty:
                parameters[name] = parameter.replace(annotation=parameter.annotation | None)

        @functools.wraps(init)
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            if not kwargs.keys() <= parameters.keys():
                # A user's class takes more than its base class.
                accepted = _without_var_keyword(inspect.signature(type(self)).parameters | parameters)
                names = [name for name in accepted if name != "self"]
                _checks.known_arguments(type(self).__name__, kwargs, names, elsewhere)
            plain_kwargs = {name: _plain(value) for name, value in kwargs.items() if value is not None}
            init(self, *map(_plain, args), **plain_kwargs)

        vars(initialize)["__signature__"] = inspect.Signature(list(parameters.values()))
        del vars(initialize)["__wrapped__"]  # Sphinx would look for these defaults in its source
        return cast("Constructor", initialize)

    return decorate


def _options_in_order(
    options: type | Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the types and the defaults of options by name, with the options of all metrics as the last ones."""
    metric_options = get_type_hints(MetricOptions)
    all_kinds = get_type_hints(options) if isinstance(options, type) else options
    kinds = {name: kind for name, kind in all_kinds.items() if name not in metric_options}
    kinds.update(metric_options)
    option_defaults = {**defaults, **_METRIC_DEFAULTS}
    option_defaults["distributed_available_fn"] = None  # pages and configurations cannot show a function
    return kinds, option_defaults


def explain_bad_call(
    method: Callable[Concatenate[Owner, Arguments], Returned],
) -> Callable[Concatenate[Owner, Arguments], Returned]:
    """Make the error of a call that does not fit a method list its keyword arguments, and name the user's class."""

    @functools.wraps(method)
    def call(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        try:
            return method(owner, *args, **kwargs)
        except TypeError:
            _check_call(owner, method.__name__, inspect.signature(method), args, kwargs)
            raise  # the call fits, so the error comes from within the method

    return call


def signature_of(
    method: Callable[Concatenate[Any, Arguments], None],
) -> Callable[[Callable[..., Returned]], Callable[Concatenate[Any, Arguments], Returned]]:
    """Give a collection's method the signature of its members' method, and name the collection in errors."""
    signature = inspect.signature(method)

    def decorate(collection_method: Callable[..., Returned]) -> Callable[Concatenate[Any, Arguments], Returned]:
        name = collection_method.__name__

        @functools.wraps(collection_method)
        def call(collection: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            known = {}
            for argument, value in kwargs.items():
                if argument in signature.parameters:
                    known[argument] = value
                elif not _any_member_takes(collection, argument):
                    hint = _hints.argument_meant(argument, signature.parameters)
                    call_name = f"{type(collection).__name__}.{name}()"
                    raise TypeError(f"{call_name} got an unexpected argument {argument!r}{hint}.")
            try:
                return collection_method(collection, *args, **kwargs)
            except TypeError:
                _check_call(collection, name, signature, args, known)
                raise  # the call fits, so the error comes from within a member

        returned = inspect.signature(collection_method).return_annotation
        vars(call)["__signature__"] = signature.replace(return_annotation=returned)
        return call

    return decorate


def _any_member_takes(collection: Any, argument: str) -> bool:
    """Return whether the `update` of a metric in a collection takes an argument; users may add metrics of their own."""
    metrics = collection.values(copy_state=False)
    return any(metric._filter_kwargs(**{argument: None}) for metric in metrics)  # noqa: SLF001


def _check_call(owner: object, method: str, signature: inspect.Signature, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise unless arguments fit the signature of a method."""
    try:
        signature.bind(owner, *args, **kwargs)
    except TypeError as error:
        keyword_only = [
            f"`{name}=`"
            for name, parameter in signature.parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        hint = f"; {', '.join(keyword_only)} go by name" if keyword_only else ""
        raise TypeError(f"{type(owner).__name__}.{method}(): {error}{hint}.") from None


def show_arguments(
    metric: Metric,
    always: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    *,
    hidden: Collection[str] = (),
) -> str:
    """Return the arguments of a metric as code: some always, the others where they differ from their defaults.

    Args:
        metric: the metric, with its arguments as attributes.
        always: arguments that are always shown, with their values.
        defaults: defaults of attributes by name, where these differ from the signature.
        hidden: arguments that are not shown.
    """
    all_defaults = {}
    for name, parameter in arguments_of(type(metric)).items():
        if name not in always and name not in hidden:
            all_defaults[name] = parameter.default
    all_defaults.update(defaults or {})
    all_defaults.update(_METRIC_DEFAULTS)
    arguments = dict(always)
    for name, default in all_defaults.items():
        value = getattr(metric, name)
        if value != default:
            arguments[name] = value
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def python_bool(argument: str, value: object) -> bool:
    """Return a bool of Python or NumPy as a bool of Python; raise for other values."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected argument `{argument}` to be a boolean; got {type(value).__name__}.")  # noqa: TRY004
    return bool(value)


def _plain(value: Any) -> Any:
    """Convert arrays, sequences, mappings and NumPy's numbers to plain Python; return other values unchanged."""
    if isinstance(value, (np.ndarray, np.generic, Tensor)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(map(_plain, value))
    return value
