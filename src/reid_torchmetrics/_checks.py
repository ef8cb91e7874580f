"""Checks of arguments: types, dtypes, shapes, ranges, and names of options.

Every message names the argument in backticks, the rule, and the value that was passed, in one sentence. `TypeError` is
for a wrong type or dtype, `ValueError` for a wrong value or shape. Rules about one domain are checked in that domain.

A check of a tensor also takes an array or a list of numbers, and returns the tensor.
"""
# mypy: implicit-reexport

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from . import _hints
from ._arrays import Array, Integers, IntegersOrNames, Numbers, SeveralLabels, as_tensors, has_masked, to_compute_device  # noqa: F401 - for doors
from ._hints import listed

_Device: TypeAlias = torch.device | None

_A_MISSING_VALUE = ", a missing value"
_MANY = 20
"""more names than this need a hint: a reader does not find the right one at once"""
FLOATING_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_UNSIGNED_DTYPES = (torch.uint16, torch.uint32, torch.uint64)
INTEGER_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def one_of(argument: str, value: object, options: Any) -> None:
    """Raise unless `value` is one of the names in `options`, a collection or a `Literal`."""
    options = get_args(options) or options
    if not isinstance(value, str) or value not in options:
        hint = _hints.value_meant(value, options) if len(options) > _MANY else _hints.advice(value)
        raise ValueError(f"`{argument}` must be one of {listed(options, near=value)}; got {value!r}{hint}.")


def boolean(argument: str, value: object) -> None:
    """Raise unless `value` is True or False, from Python or from NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`{argument}` must be True or False; got {_describe_type(value)}.")


def instance(argument: str, value: object, classes: tuple[type, ...]) -> None:
    """Raise unless `value` is None or an instance of one of the classes."""
    if value is not None and not isinstance(value, classes):
        class_names = ", ".join(accepted.__name__ for accepted in classes)
        raise TypeError(f"`{argument}` must be one of {class_names} or None; got {_describe_type(value)}.")


def nonempty(argument: str, values: Collection[object]) -> None:
    """Raise if `values` is empty."""
    if not values:
        raise ValueError(f"`{argument}` must not be empty; got {values!r}.")


def alike(argument: str, quantity: str, values: Sequence[object]) -> None:
    """Raise unless all parts of `argument` have the same value of a quantity."""
    if len(set(values)) > 1:
        raise ValueError(f"`{argument}` must all have the same {quantity}; got {listed(values)}.")


def integer(argument: str, value: int) -> None:
    """Raise unless `value` is an int."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {_describe_type(value)}.")


def positive_int(argument: str, value: int, least: int = 1, *, fits_int64: bool = True) -> None:
    """Raise unless `value` is an int of at least `least`, and fits int64 if it must."""
    integer(argument, value)
    if value < least:
        raise ValueError(f"`{argument}` must be at least {least}; got {value}.")
    if fits_int64 and value >= 2**63:
        raise ValueError(f"`{argument}` must fit int64; got {value}.")


def cutoff(argument: str, value: int | None) -> None:
    """Raise unless `value` is None, or an int of at least 1 that fits int64."""
    if value is not None:
        positive_int(argument, value)


def positive_ints(argument: str, values: Iterable[int], *, distinct: bool = True, fits_int64: bool = True) -> None:
    """Raise unless `values` is a non-empty sequence of ints of at least 1, `distinct` ones or any."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of ints; got {_describe_type(values)}.")
    for value in values:
        positive_int(argument, value, fits_int64=fits_int64)
    has_repetitions = len(set(values)) != len(values)
    if not values or (distinct and has_repetitions):
        rule = "at least one int and none twice" if distinct else "at least one int"
        raise ValueError(f"`{argument}` must hold {rule}; got {values!r}.")


def index(argument: str, value: int, size: int, items: str) -> None:
    """Raise unless `value` is the number of one of `size` items, such as "queries"."""
    integer(argument, value)
    if not 0 <= value < size:
        raise ValueError(f"`{argument}` must be the number of one of {size} {items}; got {value}.")


def integers(argument: str, values: object) -> None:
    """Raise unless `values` is a collection of ints (possibly empty) that fit int64."""
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Collection):
        raise TypeError(f"`{argument}` must be a collection of ints; got {_describe_type(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"`{argument}` must hold ints only; got {value!r}.")
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"`{argument}` must hold ints that fit int64; got {value}.")


def integers_or_names(argument: str, values: object) -> None:
    """Raise unless `values` is a collection of ints that fit int64, and of names that are not empty."""
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Collection):
        raise TypeError(f"`{argument}` must be a collection of ints or names; got {_describe_type(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TypeError(f"`{argument}` must hold ints or names only; got {value!r}.")
        if value == "":
            raise ValueError(
                f"`{argument}` must hold no empty name; got {value!r}: `missing_identities='junk'` drops these."
            )
    integers(argument, [value for value in values if isinstance(value, int)])


def collection_of_names(argument: str, values: object) -> None:
    """Raise unless `values` is a tuple, list or set of names."""
    if isinstance(values, (str, bytes, Mapping, Tensor)) or not isinstance(values, Collection):
        got = f"{values!r}, so write ({values!r},)" if isinstance(values, str) else _describe_type(values)
        raise TypeError(f"`{argument}` must be a tuple or list of names; got {got}.")
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must hold names only; got {name!r}.")


def number(argument: str, value: float) -> None:
    """Raise unless `value` is an int or a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{argument}` must be a number; got {_describe_type(value)}.")


def fraction(argument: str, value: float) -> None:
    """Raise unless `value` is a number from 0 to 1."""
    number(argument, value)
    if not 0 <= value <= 1:
        raise ValueError(f"`{argument}` must lie in [0, 1]; got {value}{_as_share(value)}.")


def nonnegative(argument: str, value: float) -> None:
    """Raise unless `value` is a finite number of at least 0."""
    number(argument, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"`{argument}` must be finite and at least 0; got {value}.")


def fractions(argument: str, values: Iterable[float], *, may_be_empty: bool = False) -> None:
    """Raise unless `values` is a sequence of numbers from 0 to 1."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of floats; got {_describe_type(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"`{argument}` must hold floats only; got {value!r}.")
        if not 0 <= value <= 1:
            raise ValueError(f"`{argument}` must hold shares from 0 to 1; got {value!r}{_as_share(value)}.")
    if not may_be_empty:
        nonempty(argument, values)


def _as_share(value: float) -> str:
    """Return what a number that may be in percent is as a share."""
    return f": {value:g} % is {value / 100:g}" if 2 <= value <= 100 else ""


def array_like(argument: str, value: object) -> None:
    """Raise unless `value` is a tensor, an array or a list."""
    if not isinstance(value, (Tensor, np.ndarray, list, tuple)) or has_masked(value):
        raise TypeError(f"`{argument}` must be a tensor, an array or a list; got {_describe_type(value)}.")


_QUANTIZED = (
    " Pass `(x.astype('float32') - zero_point) * scale` of quantized embeddings, or `similarity='hamming'` for codes."
)


def floating_matrix(argument: str, value: object, columns: str | int, device: _Device = None) -> Tensor:
    """Raise unless `value` is a 2-D floating point tensor; `columns` is their number, or a letter for any number."""
    value = tensor(argument, value, device)
    if value.dtype not in FLOATING_DTYPES:
        remedy = _QUANTIZED if columns == "D" and value.dtype in (torch.int8, torch.uint8) else ""
        raise TypeError(f"`{argument}` must have a floating point dtype of 16 to 64 bits; got {value.dtype}.{remedy}")
    if value.ndim != 2 or (isinstance(columns, int) and value.shape[1] != columns):
        remedy = ""
        if value.ndim > 2 and sum(length > 1 for length in value.shape[1:]) == 1:
            remedy = " Pass `x.reshape(len(x), -1)`, without axes of length 1."
        raise ValueError(f"`{argument}` must have shape [N, {columns}]; got {list(value.shape)}.{remedy}")
    return value


def embeddings(argument: str, value: object, device: _Device = None) -> Tensor:
    """Raise unless `value` is a floating point tensor [N, D] with D >= 1; one on `device` stays there."""
    value = floating_matrix(argument, value, "D", device)
    if value.shape[1] == 0:
        raise ValueError(f"`{argument}` must have at least one dimension per sample; got {list(value.shape)}.")
    return value


def embeddings_or_codes(argument: str, value: object) -> Tensor:
    """Raise unless `value` holds embeddings, or codes of the same shape: integers, or bools."""
    value = tensor(argument, value)
    if value.dtype not in (torch.bool, *INTEGER_DTYPES):
        return embeddings(argument, value)
    if value.ndim != 2 or value.shape[1] == 0:
        raise ValueError(f"`{argument}` must have shape [N, bits]; got {list(value.shape)}.")
    return value


def floating_vector(argument: str, value: object, device: _Device = None) -> Tensor:
    """Raise unless `value` is a 1-D floating point tensor."""
    value = tensor(argument, value, device)
    if not value.is_floating_point():
        raise TypeError(f"`{argument}` must have a floating point dtype; got {value.dtype}.")
    return _vector(argument, value, None, None)


def weights(argument: str, value: object, length: int, device: torch.device) -> Tensor:
    """Raise unless `value` holds `length` finite numbers of at least 0."""
    value = _vector(argument, tensor(argument, value, device), length, None)
    if not bool((value.isfinite() & (value >= 0)).all()):
        raise ValueError(f"`{argument}` must be finite and at least 0; got {value.min()} to {value.max()}.")
    return value


def integer_labels(
    argument: str,
    value: object,
    length: int | None = None,
    device: _Device = None,
    *,
    or_whole: bool = False,
    may_be_names: bool = False,
) -> Tensor:
    """Raise unless `value` is a 1-D integer tensor, with `length` entries and on `device` where these are not None.

    With `or_whole`, floats that are whole numbers become int64. The host then waits for the device of the floats.
    `may_be_names` says that the argument takes names, too, which were numbered before; the message then names them.
    """
    if not isinstance(value, Tensor) and _are_strings(value):
        remedy = "which `reid_torchmetrics.data.number_identities` numbers"
        raise TypeError(f"`{argument}` must hold integers; got strings, {remedy}.")
    value = tensor(argument, value, device, may_be_names=may_be_names)
    if value.dtype in _UNSIGNED_DTYPES:
        value = signed(argument, value)
    if or_whole and value.dtype in FLOATING_DTYPES:
        value = _whole(argument, value)
    if value.dtype not in INTEGER_DTYPES:
        raise TypeError(f"`{argument}` must have an integer dtype; got {value.dtype}.")
    return _vector(argument, value, length, device)


def signed(argument: str, value: Tensor, *, least: int = 0) -> Tensor:
    """Convert unsigned integers to int64, in which 2**64 - 1 is -1; raise if one becomes less than `least`."""
    integers_of_64_bits = value.to(torch.int64)
    is_beyond = integers_of_64_bits < least
    if bool(is_beyond.any()):
        got = int(integers_of_64_bits[is_beyond][0]) + 2**64
        raise ValueError(f"`{argument}` must hold ints that fit int64, below 2**63; got {got}.")
    return integers_of_64_bits


whole_labels = functools.partial(integer_labels, or_whole=True)


def positions(argument: str, value: object, length: int | None = None, device: _Device = None) -> Tensor:
    """Raise unless `value` holds finite coordinates [N] or [N, 1 to 3], and return them as float64 [N, 1 to 3]."""
    value = tensor(argument, value, device)
    if value.dtype not in (torch.float32, torch.float64, *INTEGER_DTYPES):
        raise TypeError(f"`{argument}` must hold integers, or floats of 32 or 64 bits; got {value.dtype}.")
    columns = value[:, None] if value.ndim == 1 else value
    has_coordinates = columns.ndim == 2 and 1 <= columns.shape[1] <= 3
    if not has_coordinates or length not in (None, len(value)):
        size = "N" if length is None else length
        raise ValueError(f"`{argument}` must have shape [{size}] or [{size}, 1 to 3]; got {list(value.shape)}.")
    if device not in (None, value.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {value.device}.")
    is_finite = columns.isfinite().all(1)
    finite(argument, (~is_finite).nonzero()[:, 0])
    return to_compute_device(columns).double() + 0.0  # -0 is 0


def boolean_tensor(argument: str, value: object, rule: str = "be a bool tensor") -> None:
    """Raise unless `value` is a bool tensor of any shape; `rule` is the wording of the message."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        got = value.dtype if isinstance(value, Tensor) else _describe_type(value)
        raise TypeError(f"`{argument}` must {rule}; got {got}.")


def mask(argument: str, value: object, length: int, device: torch.device, rule: str = "be a bool tensor") -> Tensor:
    """Raise unless `value` is a bool tensor [length] on `device`; `rule` as in `boolean_tensor`."""
    (value,) = as_tensors(value, device=device)
    boolean_tensor(argument, value, rule)
    return _vector(argument, value, length, device)


def finite(argument: str, rows: Tensor) -> None:
    """Raise if `rows`, the positions of rows that are not finite, holds any."""
    if len(rows):
        first = rows[:5].tolist()
        raise ValueError(f"`{argument}` must be finite; got {len(rows)} rows with NaN or infinity, first {first}.")


def no_nan(argument: str, scores: Tensor) -> None:
    """Raise if a score is NaN, because NaN has no order."""
    if bool(scores.isnan().any()):
        raise ValueError(f"`{argument}` must give scores that can be ordered; got NaN.")


def in_range(argument: str, value: Tensor, low: int, high: int) -> None:
    """Raise unless all entries lie in [low, high)."""
    if len(value) and not low <= int(value.min()) <= int(value.max()) < high:
        raise ValueError(f"`{argument}` must lie in [{low}, {high}); got values from {value.min()} to {value.max()}.")


def length(argument: str, num_rows: int, num_labels: int) -> None:
    """Raise unless an argument has one row for each label."""
    if num_rows != num_labels:
        raise ValueError(f"`{argument}` must have one row for each label; got {num_rows} rows for {num_labels} labels.")


def same_dimension(first: str, size: int, second: str, other: int) -> None:
    """Raise unless two sets of embeddings have the same dimension."""
    if size != other:
        raise ValueError(f"`{first}` and `{second}` must have the same embedding dimension; got {size} and {other}.")


def same_device(first: str, value: Any, second: str, other: Any) -> None:
    """Raise unless two tensors, or objects made of them, are on the same device."""
    if value.device != other.device:
        raise ValueError(f"`{first}` and `{second}` must be on the same device; got {value.device} and {other.device}.")


def same_width(argument: str, width: int, earlier_width: int, earlier: str) -> None:
    """Raise unless positions have as many coordinates as earlier ones; `earlier` names these, as in "other batches"."""
    if width != earlier_width:
        rule = f"have as many coordinates as in {earlier}"
        raise ValueError(f"`{argument}` must {rule}; got {width} after {earlier_width}.")


def given_for_all(argument: str, length: int, total: int) -> None:
    """Raise unless merged samples all have, or all lack, an optional label."""
    if length != total:
        raise ValueError(f"`{argument}` must be given for all samples or for none; got it for {length} of {total}.")


def given_throughout(argument: str, *, given: bool, given_before: bool) -> None:
    """Raise if an optional argument of `update` is given in one batch and left out in another."""
    if given != given_before:
        got = "a batch with it after batches without" if given else "a batch without it after batches with it"
        raise ValueError(f"`{argument}` must be given in every batch or in none; got {got}.")


def known_arguments(
    owner: str, arguments: Collection[str], names: Collection[str], fields: Collection[str] = ()
) -> None:
    """Raise if a keyword argument is not one of `names`; `fields` are the fields of a `protocol` argument.

    The type of the error and its first words are TorchMetrics'.
    """
    unknown = [name for name in arguments if name not in names]
    if not unknown:
        return
    first = unknown[0]
    if first in fields and not _hints.is_known(first):
        hint = ", which is a field of `Protocol`"
    else:
        hint = _hints.argument_meant(first, names)
    raise ValueError(f"Unexpected keyword arguments: `{first}`{hint}; `{owner}` takes {listed(names, str)}.")


def names_of_labels(argument: str, names: object) -> None:
    """Raise unless `names` is a mapping to strings, or None."""
    if names is None:
        return
    if not isinstance(names, Mapping):
        raise TypeError(f"`{argument}` must be a mapping of labels to names; got {type(names).__name__}.")
    for label, name in names.items():
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must have strings as names; got {label!r}: {name!r}.")


def tensor(argument: str, value: object, device: _Device = None, *, may_be_names: bool = False) -> Tensor:
    """Raise unless `value` is a dense tensor, an array or a list of numbers; return a tensor."""
    if isinstance(value, Tensor):  # the fast path, because `update` is called often
        if value.layout != torch.strided:
            raise TypeError(f"`{argument}` must be a dense tensor; got {value.layout}.")
        return value if value.device == device else to_compute_device(value)
    (value,) = as_tensors(value, device=device)
    if not isinstance(value, Tensor):
        got = _describe_type(value, may_be_names=may_be_names)
        remedy = _remedy_for_missing(argument) if got.endswith(_A_MISSING_VALUE) else ""
        raise TypeError(f"`{argument}` must be a tensor, an array or a list of numbers; got {got}.{remedy}")
    return value


def _remedy_for_missing(argument: str) -> str:
    """Return the advice for missing values; only identities may be missing."""
    if argument.endswith("identities"):
        return " Pass `missing_identities='junk'` where samples have no identity."
    return ""


def _whole(argument: str, value: Tensor) -> Tensor:
    """Convert floats that are whole numbers to int64."""
    limit = 2 / torch.finfo(value.dtype).eps  # larger floats stand for several integers
    is_whole = (value == value.trunc()) & (value.abs() < limit)
    if not bool(is_whole.all()):
        rule = f"integers, or whole numbers below 2**{int(math.log2(limit))} in {value.dtype}"
        first = value[~is_whole][0].item()
        remedy = _remedy_for_missing(argument) if math.isnan(first) else ""
        raise ValueError(f"`{argument}` must hold {rule}; got {first}.{remedy}")
    return value.long()


def _vector(argument: str, value: Tensor, length: int | None, device: _Device) -> Tensor:
    if value.ndim != 1 or length not in (None, len(value)):
        size = "N" if length is None else length
        raise ValueError(f"`{argument}` must have shape [{size}]; got {list(value.shape)}.")
    if device not in (None, value.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {value.device}.")
    return value


def _are_strings(value: object) -> bool:
    if isinstance(value, np.ndarray) and (value.dtype.kind != "O" or value.ndim == 0):
        return value.dtype.kind in "US"
    return isinstance(value, (list, tuple, np.ndarray)) and len(value) > 0 and isinstance(value[0], str)


def _describe_type(value: object, *, may_be_names: bool = False) -> str:
    """Return the type of a value for a message, with what to write instead where that is known."""
    name = type(value).__name__
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        function = "cat" if value[0].ndim > 1 else "stack"
        return f"{name} of tensors, to be joined by `torch.{function}`"
    if isinstance(value, (list, tuple)) and any(item is None for item in value):
        return f"{name} with None{_A_MISSING_VALUE}"
    for method in ("to_numpy", "toarray"):
        if hasattr(value, method):
            return f"{name}, so write `.{method}()`"
    if has_masked(value):
        return "masked values, which stand for no number"
    items: Iterable[Any] = value if isinstance(value, (list, tuple)) else ()
    if isinstance(value, np.ndarray):
        name = f"an array of {value.dtype}"
        items = value.flat if value.dtype == np.object_ else ()
    description = _describe_items(items)
    remedy = ", so write `list(map(str, ...))` for names" if description and may_be_names else ""
    return name + description + remedy


def _describe_items(values: Iterable[Any]) -> str:
    """Return what keeps a list from being one of numbers, such as UUIDs; nothing where that is not known."""
    for value in values:
        if isinstance(value, (int, np.integer)):
            if not -(2**63) <= value < 2**63:
                return f" with {value}, which does not fit int64"
        elif not isinstance(value, (float, np.number, str, list, tuple, dict, np.ndarray, Tensor)):
            return f" of {type(value).__name__}"
    return ""
