"""Options that may be values of NumPy or PyTorch, as Python's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor


def python_bool(argument: str, value: object) -> bool:
    """The value as Python's own bool; raise unless it is True or False, NumPy's among them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected argument `{argument}` to be a boolean; got {type(value).__name__}.")  # noqa: TRY004
    return bool(value)


def python_numbers(values: Any) -> Any:
    """A list of numbers with those of NumPy and 0-d tensors as Python's own; anything else as it is."""
    if not isinstance(values, (tuple, list)):
        return values
    is_single = [isinstance(each, np.generic) or (isinstance(each, Tensor) and not each.ndim) for each in values]
    return [each.item() if single else each for each, single in zip(values, is_single, strict=True)]


def python_ints(values: Any) -> Any:
    """As `python_numbers`, with floats that are whole numbers as ints; any other float as it is."""
    values = python_numbers(values)
    if not isinstance(values, (tuple, list)):
        return values
    return [int(each) if isinstance(each, float) and each.is_integer() else each for each in values]
