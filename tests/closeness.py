"""Whether tensors are nearly equal, without the second that the first call of `torch.testing.assert_close` imports."""

import torch
from torch import Tensor


def assert_close(
    found: Tensor, expected: Tensor, *, rtol: float = 0.0, atol: float = 0.0, equal_nan: bool = False
) -> None:
    """Of one dtype and shape, with values within `atol` + `rtol` of the expected size; equal unless they are given."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=equal_nan), f"{found} for {expected}"
