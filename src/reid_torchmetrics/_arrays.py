"""NumPy arrays and lists of numbers in the place of tensors; the checks of arguments take them.

What lies on a device without float64 is computed on the CPU: it moves there where it enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[Any] | Sequence[SupportsIndex]
Numbers: TypeAlias = NDArray[Any] | Sequence[float]
IntegersOrNames: TypeAlias = Integers | Sequence[str]
SeveralLabels: TypeAlias = Sequence[Sequence[SupportsIndex]] | Sequence[Array] | Sequence[Tensor]

Value = TypeVar("Value")

_KINDS = (np.ndarray, list, tuple)


def lacks_float64(device: torch.device) -> bool:
    """Whether a device has no float64: MPS, and others with `has_fp64` False among their properties (Intel's Arc)."""
    if device.type in ("cpu", "cuda"):
        return False
    properties = getattr(getattr(torch, device.type, None), "get_device_properties", None)
    return device.type == "mps" or (properties is not None and not getattr(properties(device), "has_fp64", True))


def compute_device(device: torch.device) -> torch.device:
    """Where what lies on a device is computed: there, or on the CPU if the device has no float64."""
    return torch.device("cpu") if lacks_float64(device) else device


def to_compute_device(value: Value, device: torch.device | None = None) -> Value:
    """A tensor where it is computed, unless it is on `device`, and is to stay there; all else as it is."""
    if not isinstance(value, Tensor) or value.device == device:
        return value
    return value.to(compute_device(value.device))  # type: ignore[return-value]


def as_tensors(*values: Any, device: torch.device | None = None) -> Sequence[Tensor]:
    """Arrays, and lists of numbers, as tensors; all else, and masked values, as they are, for the checks to refuse.

    An array shares its memory with the tensor, but for dtypes, byte orders and strides that torch does not have: these
    are copied. A list of floats is float64, another what `torch.tensor` makes of it. Both go to `device`; None: that
    of the first tensor among the values, else the CPU. Tensors are `to_compute_device`.
    """
    values = tuple(to_compute_device(value, device) for value in values)
    if all(value is None or isinstance(value, Tensor) for value in values):
        return values
    first = next((value.device for value in values if isinstance(value, Tensor)), torch.device("cpu"))
    place = device or first
    tensors: list[Any] = []
    for value in values:
        is_ready = value is None or isinstance(value, Tensor)
        tensors.append(value if is_ready else _as_tensor(value, place))
    return tensors


def as_array(value: Any) -> Any:
    """A column of a table, such as a `pandas.Series`, as an array; all else as it is."""
    if isinstance(value, (Tensor, *_KINDS)) or not hasattr(value, "to_numpy"):
        return value
    return value.to_numpy()


def fields_as_tensors(record: object, *names: str) -> None:
    """Put tensors in the place of arrays and lists in some fields of a frozen dataclass."""
    for name, value in zip(names, as_tensors(*(getattr(record, name) for name in names)), strict=True):
        object.__setattr__(record, name, value)


def has_masked(value: Any) -> bool:
    """Whether some values of an array, or of a list of arrays, are masked (`numpy.ma`): they stand for no number."""
    arrays = value if isinstance(value, (list, tuple)) and len(value) and isinstance(value[0], np.ndarray) else (value,)
    return any(map(np.ma.is_masked, arrays))


def _as_tensor(value: Any, device: torch.device) -> Any:
    value = as_array(value)
    if not isinstance(value, _KINDS) or has_masked(value):
        return value
    try:
        tensor = _joined(value) if isinstance(value, (list, tuple)) else _shared(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # strings, dicts, lists of unequal lengths
        return value
    return tensor.to(device)


def _joined(values: Any) -> Tensor:
    """A tensor with the numbers, arrays or tensors of a list."""
    if not len(values):
        return torch.empty(0, dtype=torch.int64, device="cpu")
    if isinstance(values[0], np.ndarray):
        return torch.from_numpy(np.stack(values))  # `torch.tensor` warns that it is slow
    tensor = torch.tensor(values, device="cpu")
    if tensor.is_floating_point() and not isinstance(values[0], Tensor):  # Python's floats have 64 bits
        tensor = torch.tensor(values, dtype=torch.float64, device="cpu")
    return tensor


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


def number_identities(*sides: Array) -> tuple[Array, ...]:
    """Number names, of all queries and gallery items at once, in the order of the sorted names; "-1" stays -1.

    Args:
        sides: strings [N] of each side; integers are returned as they are.

    Returns:
        int64 [N] for each side; the same name has the same number on all.

    Raises:
        TypeError: strings on one side and integers on another.

    Example:
        >>> number_identities(np.array(["bo", "al"]), np.array(["cy", "bo", "-1"]))
        (array([1, 0]), array([ 2,  1, -1]))
    """
    kinds = {side.dtype.kind for side in sides}
    if "U" not in kinds:
        return sides
    if kinds != {"U"}:
        came = " and ".join(str(side.dtype) for side in sides)
        raise TypeError(f"`sides` must hold strings on all sides, or integers on all; got {came}.")
    names = np.unique(np.concatenate([side.ravel() for side in sides]))
    names = names[names != "-1"]
    return tuple(np.where(side == "-1", -1, np.searchsorted(names, side)) for side in sides)
