"""Argument checks: the only place that words an error about an argument.

Every message names the argument in backticks, the rule, and what came, in one sentence. `TypeError` is for a wrong
type or dtype, `ValueError` for a wrong value or shape.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

_FLOATING_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGER_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def one_of(argument: str, value: object, options: Collection[str]) -> None:
    """Raise unless `value` is one of the names in `options`."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{argument}` must be one of {listed}; got {value!r}.")


def positive_int(argument: str, value: object) -> None:
    """Raise unless `value` is an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {_kind(value)}.")
    if value < 1:
        raise ValueError(f"`{argument}` must be at least 1; got {value}.")


def positive_ints(argument: str, values: object) -> None:
    """Raise unless `values` is a non-empty sequence of distinct ints of at least 1."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of ints; got {_kind(values)}.")
    for value in values:
        positive_int(argument, value)
    if not values or len(set(values)) != len(values):
        raise ValueError(f"`{argument}` must hold at least one int and none twice; got {values!r}.")


def integers(argument: str, values: object) -> None:
    """Raise unless `values` is a collection of ints (possibly empty) that fit int64."""
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Collection):
        raise TypeError(f"`{argument}` must be a collection of ints; got {_kind(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"`{argument}` must hold ints only; got {value!r}.")
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"`{argument}` must hold ints that fit int64; got {value}.")


def floating_matrix(argument: str, value: object, columns: str) -> None:
    """Raise unless `value` is a 2-D floating point tensor of at least one column; `columns` names the second axis."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {_kind(value)}.")
    if value.dtype not in _FLOATING_DTYPES:
        raise TypeError(f"`{argument}` must have a floating point dtype of 16 to 64 bits; got {value.dtype}.")
    if value.layout != torch.strided:
        raise TypeError(f"`{argument}` must be a dense tensor; got {value.layout}.")
    if value.ndim != 2:
        raise ValueError(f"`{argument}` must have shape [N, {columns}]; got {_shape(value)}.")


def embeddings(argument: str, value: object) -> None:
    """Raise unless `value` is a floating point tensor [N, D] with D >= 1."""
    floating_matrix(argument, value, "D")
    if isinstance(value, Tensor) and value.shape[1] == 0:
        raise ValueError(f"`{argument}` must have at least one dimension per sample; got {_shape(value)}.")


def integer_labels(argument: str, value: object, length: int | None = None, device: torch.device | None = None) -> None:
    """Raise unless `value` is a 1-D integer tensor, of `length` and on `device` where they are given."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {_kind(value)}.")
    if value.dtype not in _INTEGER_DTYPES:
        raise TypeError(f"`{argument}` must have an integer dtype; got {value.dtype}.")
    _vector(argument, value, length, device)


def boolean_mask(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a bool tensor [length] on `device`."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else _kind(value)
        raise TypeError(f"`{argument}` must be True, False, None or a bool tensor; got {came}.")
    _vector(argument, value, length, device)


def both_or_neither(first: str, first_value: object, second: str, second_value: object) -> None:
    """Raise if exactly one of two arguments that belong together is None."""
    if (first_value is None) != (second_value is None):
        given, missing = (second, first) if first_value is None else (first, second)
        raise ValueError(f"`{first}` and `{second}` must be given together; got `{given}` without `{missing}`.")


def given_throughout(argument: str, *, given: bool, given_before: bool) -> None:
    """Raise if an optional argument of `update` is given in one batch and left out in another."""
    if given != given_before:
        came = "a batch with it after batches without" if given else "a batch without it after batches with it"
        raise ValueError(f"`{argument}` must be given in every batch or in none; got {came}.")


def given_for_all(argument: str, length: int, total: int) -> None:
    """Raise unless merged samples all have, or all lack, an optional label."""
    if length != total:
        raise ValueError(f"`{argument}` must be given for all samples or for none; got it for {length} of {total}.")


def same_dimension(first: str, first_size: int, second: str, second_size: int) -> None:
    """Raise unless two sets of embeddings have the same dimension."""
    if first_size != second_size:
        raise ValueError(
            f"`{first}` and `{second}` must have the same embedding dimension; got {first_size} and {second_size}."
        )


def same_device(first: str, first_value: Tensor, second: str, second_value: Tensor) -> None:
    """Raise unless two tensors are on the same device."""
    if first_value.device != second_value.device:
        raise ValueError(
            f"`{first}` and `{second}` must be on the same device; got {first_value.device} and {second_value.device}."
        )


def no_nan(argument: str, *, found: bool) -> None:
    """Raise if NaN was found among scores: a NaN has no place in a ranking."""
    if found:
        raise ValueError(f"`{argument}` must give scores that can be ordered; got NaN.")


def finite(argument: str, rows: Tensor) -> None:
    """Raise if any row is not finite; `rows` holds the positions of the rows that are not."""
    if len(rows):
        first = rows[:5].tolist()
        raise ValueError(f"`{argument}` must be finite; got {len(rows)} rows with NaN or infinity, first {first}.")


def own_position(argument: str, *, agrees: bool) -> None:
    """Raise if a query's own gallery position holds another identity or camera than the query."""
    if not agrees:
        raise ValueError(
            f"`{argument}` must point at gallery items with the query's identity and camera; got one that differs."
        )


def in_range(argument: str, value: Tensor, low: int, high: int) -> None:
    """Raise unless all entries lie in [low, high)."""
    if len(value) and not low <= int(value.min()) <= int(value.max()) < high:
        raise ValueError(
            f"`{argument}` must lie in [{low}, {high}); got values from {int(value.min())} to {int(value.max())}."
        )


def score_block(argument: str, value: object, shape: torch.Size) -> None:
    """Raise unless a user's similarity returned a floating point tensor of `shape`."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        came = str(value.dtype) if isinstance(value, Tensor) else _kind(value)
        raise TypeError(f"`{argument}` must return a floating point tensor; got {came}.")
    if value.shape != shape:
        raise ValueError(f"`{argument}` must return scores of shape {list(shape)}; got {_shape(value)}.")


def no_empty_target(num_empty: int, num_queries: int) -> None:
    """Raise because `empty_target_action="error"` met queries without a positive."""
    if num_empty:
        raise ValueError(
            f"`empty_target_action` 'error' allows no query without a positive; got {num_empty} of {num_queries}."
        )


def _vector(argument: str, value: Tensor, length: int | None, device: torch.device | None) -> None:
    if value.ndim != 1 or length not in (None, len(value)):
        raise ValueError(f"`{argument}` must have shape [{'N' if length is None else length}]; got {_shape(value)}.")
    if device not in (None, value.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {value.device}.")


def _shape(value: Tensor) -> str:
    return str(list(value.shape))


def _kind(value: Any) -> str:
    return type(value).__name__
