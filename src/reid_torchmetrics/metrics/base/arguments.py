"""What metrics take: signatures with every option, calls that do not fit, `repr`, and values of Python's own."""

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


_DEFAULTS = (False, False, None, None, jit_distributed_available, True, True)
_OF_ALL_METRICS: dict[str, Any] = dict(zip(get_type_hints(MetricOptions), _DEFAULTS, strict=True))


def arguments_of(kind: type) -> dict[str, inspect.Parameter]:
    """The arguments of a metric class by name, without the arguments of all metrics.

    For a user's subclass they are the arguments of its base: its own need not be attributes.
    """
    package, *_ = __name__.split(".")
    own, *_ = [base for base in kind.__mro__ if "__init__" in vars(base) and base.__module__.startswith(f"{package}.")]
    parameters = inspect.signature(own).parameters
    return {
        name: each
        for name, each in parameters.items()
        if name not in _OF_ALL_METRICS and each.kind is not each.VAR_KEYWORD
    }


def explicit_signature(
    options: type | Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, elsewhere: Collection[str] = ()
) -> Callable[[Constructor], Constructor]:
    """Show in the signature of a metric's constructor all that it takes, and let None stand for every default.

    Editors, reference pages and makers of objects from configurations read the signature. The constructor is given
    lists and numbers of Python's own where a caller has those of NumPy, torch or OmegaConf.

    Args:
        options: a `TypedDict` of what its `**options` may be, and of the options of all metrics; or the types of these
            options by name, as a collection takes them from the signature of its members.
        defaults: of these options, by name; None where there is none.
        elsewhere: names that an error calls fields of `Protocol`.
    """
    kinds = get_type_hints(options) if isinstance(options, type) else dict(options)
    by_default = {**(defaults or {}), **_OF_ALL_METRICS}
    of_all = get_type_hints(MetricOptions)
    kinds = {name: kind for name, kind in kinds.items() if name not in of_all} | of_all  # these come last
    by_default["distributed_available_fn"] = None  # pages and files cannot show a function; None stands for it

    def decorate(init: Constructor) -> Constructor:
        @functools.wraps(init)
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            if not kwargs.keys() <= shown.keys():
                listed = inspect.signature(type(self)).parameters | shown  # a user's class takes more than its base
                names = [name for name, each in listed.items() if name != "self" and each.kind is not each.VAR_KEYWORD]
                _checks.known_arguments(type(self).__name__, kwargs, names, elsewhere)
            given = {name: _plain(value) for name, value in kwargs.items() if value is not None}
            init(self, *map(_plain, args), **given)

        shown = dict(with_options(inspect.signature(init, eval_str=True), kinds, by_default).parameters)
        for name, each in shown.items():
            if each.default is not each.empty:
                shown[name] = each.replace(annotation=each.annotation | None)
        vars(initialize)["__signature__"] = inspect.Signature([*shown.values()])
        del vars(initialize)["__wrapped__"]  # Sphinx would look for these defaults in its source
        return cast("Constructor", initialize)

    return decorate


def explain_bad_call(
    method: Callable[Concatenate[Owner, Arguments], Returned],
) -> Callable[Concatenate[Owner, Arguments], Returned]:
    """Let a call that does not fit a method say what the method takes by name, and name the class that a user made."""

    @functools.wraps(method)
    def named(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        try:
            return method(owner, *args, **kwargs)
        except TypeError:
            _check_call(owner, method.__name__, inspect.signature(method), args, kwargs)
            raise  # it comes from inside

    return named


def signature_of(
    method: Callable[Concatenate[Any, Arguments], None],
) -> Callable[[Callable[..., Returned]], Callable[Concatenate[Any, Arguments], Returned]]:
    """Show in the signature of a collection's method what its members take, and name the collection in their errors."""
    signature = inspect.signature(method)

    def decorate(of_all: Callable[..., Returned]) -> Callable[Concatenate[Any, Arguments], Returned]:
        @functools.wraps(of_all)
        def call(owner: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            known = {name: value for name, value in kwargs.items() if name in signature.parameters}
            for name in (name for name in kwargs if name not in known):
                if not any(each._filter_kwargs(**{name: None}) for each in owner.values(copy_state=False)):  # noqa: SLF001
                    hint = _hints.argument_meant(name, signature.parameters)
                    here = f"{type(owner).__name__}.{of_all.__name__}()"
                    raise TypeError(f"{here} got an unexpected argument {name!r}{hint}.")
            try:
                return of_all(owner, *args, **kwargs)
            except TypeError:
                _check_call(owner, of_all.__name__, signature, args, known)
                raise

        vars(call)["__signature__"] = signature.replace(return_annotation=inspect.signature(of_all).return_annotation)
        return call

    return decorate


def _check_call(owner: object, method: str, takes: inspect.Signature, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise unless arguments fit a method."""
    try:
        takes.bind(owner, *args, **kwargs)
    except TypeError as error:
        named = [f"`{name}=`" for name, each in takes.parameters.items() if each.kind is each.KEYWORD_ONLY]
        hint = f"; {', '.join(named)} go by name" if named else ""
        raise TypeError(f"{type(owner).__name__}.{method}(): {error}{hint}.") from None


def show_arguments(
    metric: Metric,
    always: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    *,
    hidden: Collection[str] = (),
) -> str:
    """Arguments as they are written: the ones that are `always` shown, then attributes that are not their default.

    Args:
        metric: the metric, with its arguments as attributes.
        always: arguments that are always shown, with their values.
        defaults: attributes of a metric without arguments, where they are not what the signature says.
        hidden: arguments that are not shown.
    """
    arguments = arguments_of(type(metric)).items()
    in_signature = {name: each.default for name, each in arguments if name not in {*always, *hidden}}
    defaults = in_signature | dict(defaults or {})
    values = {name: (getattr(metric, name), default) for name, default in (defaults | _OF_ALL_METRICS).items()}
    changed = {name: value for name, (value, default) in values.items() if value != default}
    return ", ".join(f"{name}={value!r}" for name, value in {**always, **changed}.items())


def python_bool(argument: str, value: object) -> bool:
    """The value as Python's own bool; raise unless it is True or False, NumPy's among them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected argument `{argument}` to be a boolean; got {type(value).__name__}.")  # noqa: TRY004
    return bool(value)


def _plain(value: Any) -> Any:
    """Arrays and sequences as lists, mappings as dicts, NumPy's numbers as Python's; anything else as it is."""
    if isinstance(value, (np.ndarray, np.generic, Tensor)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return (tuple if isinstance(value, tuple) else list)(map(_plain, value))
    return value
