"""Conversion of NumPy arrays and lists of numbers to tensors, for the checks of arguments.

Tensors on a device without float64 move to the CPU as they enter, and are computed there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array: TypeAlias = NDArray[Any]


@runtime_checkable
class TableColumn(Protocol):
    """A column of a table, such as a `pandas.Series`."""

    def to_numpy(self) -> Array:
        """Return the values."""


Integers: TypeAlias = Array | TableColumn | Sequence[SupportsIndex]
Numbers: TypeAlias = Array | TableColumn | Sequence[float]
IntegersOrNames: TypeAlias = Integers | Sequence[SupportsIndex | None] | Sequence[str | None]
SeveralLabels: TypeAlias = Sequence[Sequence[SupportsIndex]] | Sequence[Array] | Sequence[Tensor]

Value = TypeVar("Value")

_CONVERTIBLE = (np.ndarray, list, tuple)


def lacks_float64(device: torch.device) -> bool:
    """Return whether a device has no float64: MPS, and devices with the property `has_fp64=False` (Intel's Arc)."""
    if device.type in ("cpu", "cuda"):
        return False
    if device.type == "mps":
        return True
    backend = getattr(torch, device.type, None)
    get_properties = getattr(backend, "get_device_properties", None)
    if get_properties is None:
        return False
    return not getattr(get_properties(device), "has_fp64", True)


def compute_device(device: torch.device) -> torch.device:
    """Return the device that computes with tensors of `device`: itself, or the CPU if it has no float64."""
    return torch.device("cpu") if lacks_float64(device) else device


def to_compute_device(value: Value, device: torch.device | None = None) -> Value:
    """Move a tensor to its compute device, unless it is already on `device`; return other values unchanged."""
    if not isinstance(value, Tensor) or value.device == device:
        return value
    return value.to(compute_device(value.device))  # type: ignore[return-value]


def as_tensors(*values: Any, device: torch.device | None = None) -> Sequence[Tensor]:
    """Convert arrays and lists of numbers to tensors; return other values and masked arrays unchanged.

    The checks of arguments then refuse what is no tensor. An array shares its memory with the tensor; it is copied only
    if its dtype, byte order or strides do not exist in torch. A list of floats becomes float64, other lists become what
    `torch.tensor` makes of them; so does an array of objects, such as a column of a table. All are put on `device`, by
    default on the device of the first tensor among the values, or else on the CPU. Tensors move to their compute
    device.
    """
    values = tuple(to_compute_device(value, device) for value in values)
    if all(value is None or isinstance(value, Tensor) for value in values):
        return values
    if device is None:
        first_tensor = next((value for value in values if isinstance(value, Tensor)), None)
        device = torch.device("cpu") if first_tensor is None else first_tensor.device
    tensors: list[Any] = []
    for value in values:
        if value is None or isinstance(value, Tensor):
            tensors.append(value)
        else:
            tensors.append(_as_tensor(value, device))
    return tensors


def as_array(value: Any) -> Any:
    """Convert a column of a table, such as a `pandas.Series`, to an array; return other values unchanged."""
    if isinstance(value, (Tensor, *_CONVERTIBLE)):
        return value
    if isinstance(value, TableColumn):
        return np.asarray(value) if hasattr(value, "__array__") else value.to_numpy()  # Arrow's refuses to copy
    return value


def as_texts(array: Array) -> Array:
    """Return the texts of an array, those of bytes by UTF-8; bytes that are no UTF-8 become surrogates."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "surrogateescape")
    return array.astype(np.str_)


def fields_as_tensors(record: object, *names: str) -> None:
    """Replace arrays and lists by tensors in some fields of a frozen dataclass."""
    values = [getattr(record, name) for name in names]
    for name, tensor in zip(names, as_tensors(*values), strict=True):
        object.__setattr__(record, name, tensor)


def has_masked(value: Any) -> bool:
    """Return whether an array, or an array in a list, has masked values (`numpy.ma`): they stand for no number."""
    if "numpy.ma" not in sys.modules:  # whoever makes masked arrays has imported it, which takes a while
        return False
    is_list_of_arrays = isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], np.ndarray)
    if is_list_of_arrays:
        return any(map(np.ma.is_masked, value))
    return bool(np.ma.is_masked(value))


def _as_tensor(value: Any, device: torch.device) -> Any:
    value = as_array(value)
    if not isinstance(value, _CONVERTIBLE) or has_masked(value):
        return value
    try:
        tensor = _tensor_of_list(value) if isinstance(value, (list, tuple)) else _tensor_of_array(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # strings, dicts, lists of unequal lengths
        return value
    return tensor.to(device)


def _tensor_of_list(values: Any) -> Tensor:
    """Return a tensor with the numbers, arrays or tensors in a list."""
    if len(values) == 0:
        return torch.empty(0, dtype=torch.int64, device="cpu")
    if isinstance(values[0], np.ndarray):
        return torch.from_numpy(np.stack(values))  # `torch.tensor` warns that it is slow
    tensor = torch.tensor(values, device="cpu")
    if not tensor.numel():  # `torch.tensor` drops the other rows if the first one is empty
        np.asarray(values)  # which raises for lists of unequal lengths
    if tensor.is_floating_point() and not isinstance(values[0], Tensor):  # Python's floats have 64 bits
        tensor = torch.tensor(values, dtype=torch.float64, device="cpu")
    return tensor


def _tensor_of_array(array: Array) -> Tensor:
    """Return a tensor that shares the memory of an array, or of a copy where torch cannot read the array."""
    if array.dtype.kind == "O" and array.ndim == 1:
        return _tensor_of_list(array.tolist())
    has_strides_of_torch = all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    # Torch has few operations on unsigned integers of more than a byte. What does not fit int64 stays, and is refused.
    becomes_signed = array.dtype.kind == "u" and array.itemsize > 1 and array.max(initial=0) < 2**63
    dtype = "i8" if becomes_signed else array.dtype.newbyteorder("=")
    array = array.astype(dtype, copy=not has_strides_of_torch)
    if not array.flags.writeable:
        # `torch.from_numpy` warns about arrays that cannot be written to; this package never writes to its input.
        interface = array.__array_interface__ | {"data": (array.ctypes.data, False)}
        array = np.asarray(SimpleNamespace(__array_interface__=interface, owner=array))
    return torch.from_numpy(array)
