"""Whether tensors are nearly equal, without the second that the first call of `torch.testing.assert_close` imports."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def assert_close(
    found: Tensor, expected: Tensor, *, rtol: float = 0.0, atol: float = 0.0, equal_nan: bool = False
) -> None:
    """Of one dtype and shape, with values within `atol` + `rtol` of the expected size; equal unless they are given."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=equal_nan), f"{found} for {expected}"


def assert_values_close(found: Mapping[str, object], expected: Mapping[str, object], problem: str = "") -> None:
    """Compare values of `tests.same_numbers` by name: sums of other parts are rounded otherwise."""
    assert found.keys() == expected.keys(), problem
    for name, value in expected.items():
        if isinstance(value, tuple) and np.dtype(value[0]).kind == "f":
            arrays = [np.frombuffer(content, dtype) for dtype, _, content in (found[name], value)]
            np.testing.assert_allclose(*arrays, rtol=1e-4, atol=1e-6, err_msg=f"{name}, {problem}")
        else:
            assert found[name] == value, (name, problem)
