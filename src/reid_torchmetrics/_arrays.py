"""NumPy arrays and lists of numbers in the place of tensors; the checks of arguments take them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[Any] | Sequence[SupportsIndex]
Numbers: TypeAlias = NDArray[Any] | Sequence[float]

_KINDS = (np.ndarray, list, tuple)


def as_tensors(*values: Any, device: torch.device | None = None) -> Sequence[Tensor]:
    """Arrays, and lists of numbers, as tensors; all else as it is, for the checks to refuse.

    An array shares its memory with the tensor, but for dtypes, byte orders and strides that torch does not have: these
    are copied. A list is what `torch.tensor` makes of it. Both go to `device`; None: that of the first tensor among the
    values, else the CPU.
    """
    if not any(isinstance(value, _KINDS) for value in values):
        return values
    first = next((value.device for value in values if isinstance(value, Tensor)), torch.device("cpu"))
    return [_as_tensor(value, device or first) if isinstance(value, _KINDS) else value for value in values]


def fields_as_tensors(record: object, *names: str) -> None:
    """Put tensors in the place of arrays and lists in some fields of a frozen dataclass."""
    for name, value in zip(names, as_tensors(*(getattr(record, name) for name in names)), strict=True):
        object.__setattr__(record, name, value)


def _as_tensor(value: Any, device: torch.device) -> Any:
    try:
        if isinstance(value, np.ndarray):
            tensor = _shared(value)
        elif len(value) and isinstance(value[0], np.ndarray):
            tensor = torch.from_numpy(np.stack(value))  # `torch.tensor` warns that it is slow
        else:
            tensor = torch.tensor(value, dtype=None if len(value) else torch.int64, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):  # strings, dicts, lists of unequal lengths
        return value
    return tensor.to(device)


def _shared(array: Array) -> Tensor:
    """A tensor with the memory of an array, or of a copy that torch can read."""
    is_readable = all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    # Torch computes little with unsigned integers.
    dtype = "i8" if array.dtype.str[1:] in ("u2", "u4") else array.dtype.newbyteorder("=")
    array = array.astype(dtype, copy=not is_readable)
    if not array.flags.writeable:  # `torch.from_numpy` warns of it; nothing here writes to what it is given
        interface = array.__array_interface__ | {"data": (array.ctypes.data, False)}
        array = np.asarray(SimpleNamespace(__array_interface__=interface, owner=array))
    return torch.from_numpy(array)
