"""Checks of tensors: type, dtype, shape, device and values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._checks.kinds import kind

_FLOATING_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGER_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def floating_matrix(argument: str, value: object, columns: str) -> None:
    """Raise unless `value` is a 2-D floating point tensor of at least one column; `columns` names the second axis."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {kind(value)}.")
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
    if _are_strings(value):
        raise TypeError(
            f"`{argument}` must be a tensor of integers; got strings, which are numbered by"
            " `torch.as_tensor(numpy.unique(names, return_inverse=True)[1])`, all queries and gallery items at once."
        )
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {kind(value)}.")
    if value.dtype not in _INTEGER_DTYPES:
        raise TypeError(f"`{argument}` must have an integer dtype; got {value.dtype}.")
    _vector(argument, value, length, device)


def boolean_mask(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a bool tensor [length] on `device`."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else kind(value)
        raise TypeError(f"`{argument}` must be True, False, None or a bool tensor; got {came}.")
    _vector(argument, value, length, device)


def floating_vector(argument: str, value: object) -> None:
    """Raise unless `value` is a 1-D floating point tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {kind(value)}.")
    if not value.is_floating_point():
        raise TypeError(f"`{argument}` must have a floating point dtype; got {value.dtype}.")
    _vector(argument, value, None, None)


def weights(argument: str, value: object, length: int) -> None:
    """Raise unless `value` holds `length` finite numbers of at least 0."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{argument}` must be a tensor; got {kind(value)}.")
    _vector(argument, value, length, None)
    if not bool((value.isfinite() & (value >= 0)).all()):
        raise ValueError(f"`{argument}` must be finite and at least 0; got {value.min()} to {value.max()}.")


def array_like(argument: str, value: object) -> None:
    """Raise unless `value` is a tensor, an array or a list."""
    if not isinstance(value, (Tensor, np.ndarray, list, tuple)):
        raise TypeError(f"`{argument}` must be a tensor, an array or a list; got {kind(value)}.")


def mask(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a bool tensor [length] on `device`."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else kind(value)
        raise TypeError(f"`{argument}` must be a bool tensor; got {came}.")
    _vector(argument, value, length, device)


def answerable(argument: str, num_impossible: int) -> None:
    """Raise if predictions are marked correct although their queries have no target."""
    if num_impossible:
        raise ValueError(f"`{argument}` must be False for a query without target; got {num_impossible} that are True.")


def finite(argument: str, rows: Tensor) -> None:
    """Raise if any row is not finite; `rows` holds the positions of the rows that are not."""
    if len(rows):
        first = rows[:5].tolist()
        raise ValueError(f"`{argument}` must be finite; got {len(rows)} rows with NaN or infinity, first {first}.")


def no_nan(argument: str, *, found: bool) -> None:
    """Raise if NaN was found among scores: a NaN has no place in a ranking."""
    if found:
        raise ValueError(f"`{argument}` must give scores that can be ordered; got NaN.")


def in_range(argument: str, value: Tensor, low: int, high: int) -> None:
    """Raise unless all entries lie in [low, high)."""
    if len(value) and not low <= int(value.min()) <= int(value.max()) < high:
        raise ValueError(
            f"`{argument}` must lie in [{low}, {high}); got values from {int(value.min())} to {int(value.max())}."
        )


def own_position(argument: str, *, agrees: bool) -> None:
    """Raise if a query's own gallery position holds another identity or camera than the query."""
    if not agrees:
        raise ValueError(
            f"`{argument}` must point at gallery items with the query's identity and camera; got one that differs."
        )


def score_block(argument: str, value: object, shape: torch.Size) -> None:
    """Raise unless a user's similarity returned a floating point tensor of `shape`."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        came = str(value.dtype) if isinstance(value, Tensor) else kind(value)
        raise TypeError(f"`{argument}` must return a floating point tensor; got {came}.")
    if value.shape != shape:
        raise ValueError(f"`{argument}` must return scores of shape {list(shape)}; got {_shape(value)}.")


def pair_mask(argument: str, value: object, shape: tuple[int, int], device: torch.device) -> None:
    """Raise unless a user's rule returned a bool tensor of `shape` on `device`."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else kind(value)
        raise TypeError(f"`{argument}` must return a bool tensor; got {came}.")
    if value.shape != shape or value.device != device:
        raise ValueError(
            f"`{argument}` must return a mask {list(shape)} on {device}; got {_shape(value)} on {value.device}."
        )


def positions(argument: str, values: object, size: int, length: int | None = None) -> None:
    """Raise unless `values` holds 1-D integer tensors of positions below `size`, `length` of them where given."""
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {kind(values)}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    for query, value in enumerate(values):
        integer_labels(f"{argument}[{query}]", value, device=values[0].device if query else None)
        in_range(f"{argument}[{query}]", value, 0, size)


def listed_once(argument: str, values: Sequence[Tensor]) -> None:
    """Raise if a query lists a position twice; each of `values` is sorted."""
    for query, value in enumerate(values):
        repeated = value[1:][value[1:] == value[:-1]]
        if len(repeated):
            item = int(repeated[0])
            raise ValueError(
                f"`{argument}` must list a gallery item once for a query; got item {item} twice for query {query}."
            )


def length(argument: str, came: int, wanted: int) -> None:
    """Raise unless an argument is as long as the labels that it belongs to."""
    if came != wanted:
        raise ValueError(f"`{argument}` must have one row for each label; got {came} rows for {wanted} labels.")


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


def _vector(argument: str, value: Tensor, length: int | None, device: torch.device | None) -> None:
    if value.ndim != 1 or length not in (None, len(value)):
        raise ValueError(f"`{argument}` must have shape [{'N' if length is None else length}]; got {_shape(value)}.")
    if device not in (None, value.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {value.device}.")


def _are_strings(value: object) -> bool:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.dtype.kind in "US"
    return isinstance(value, (list, tuple, np.ndarray)) and len(value) > 0 and isinstance(value[0], str)


def _shape(value: Tensor) -> str:
    return str(list(value.shape))
