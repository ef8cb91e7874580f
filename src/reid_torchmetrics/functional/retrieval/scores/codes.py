"""Binary codes: packed bits, bools, integers or floats become the numbers 1 and -1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

_CODE_DTYPE = torch.float16
"""holds 1 and -1 in two bytes; products are computed in float32, where sums of up to 2^24 of them are exact"""
_BITS = 8


def read_embeddings(
    argument: str,
    value: object,
    similarity: object,
    device: Any = None,
    *,
    packed: bool = False,
    may_be_codes: bool = False,
) -> Tensor:
    """Return embeddings [N, D] of a floating point dtype; under "hamming" codes of 1 and -1.

    Args:
        argument: the user's argument, for messages.
        value: embeddings, or codes.
        similarity: the similarity of the evaluation.
        device: device for arrays and lists.
        packed: whether each byte holds eight bits of a code, the highest bit first, as `numpy.packbits` has them.
        may_be_codes: whether embeddings of integers, of bools, or of 0 and 1 are codes under another similarity, too.

    Raises:
        TypeError: a dtype that is not for embeddings, or not for codes under "hamming".
        ValueError: another shape, or values that are not codes under "hamming".
    """
    if packed:
        return _unpacked(argument, value, similarity, device)
    if similarity == "hamming":
        return _as_codes(argument, _matrix(argument, value, device))
    if not may_be_codes:
        return _checks.embeddings(argument, value, device)
    values = _matrix(argument, value, device)
    if not values.is_floating_point():
        return _as_codes(argument, values)
    values = _checks.embeddings(argument, values)
    # Decided on the device, without a wait. A batch that holds only ones has the same codes either way.
    is_binary = ((values == 0) | (values == 1)).all()
    return torch.where(is_binary, values * 2 - 1, values)


def _unpacked(argument: str, value: object, similarity: object, device: Any) -> Tensor:
    if similarity != "hamming":
        raise ValueError(f"`packed` must come with `similarity='hamming'`; got {similarity!r}.")
    values = _matrix(argument, value, device)
    if values.dtype != torch.uint8:
        raise TypeError(f"`{argument}` must have dtype uint8 where `packed` is True; got {values.dtype}.")
    shifts = torch.arange(_BITS - 1, -1, -1, dtype=torch.uint8, device=values.device)
    bits = (values[:, :, None] >> shifts) & 1
    return bits.flatten(1).to(_CODE_DTYPE) * 2 - 1


def _matrix(argument: str, value: object, device: Any) -> Tensor:
    """Return a matrix of numbers or bools."""
    _checks.array_like(argument, value)
    (values,) = _arrays.as_tensors(value, device=device)
    if not isinstance(values, Tensor):
        raise TypeError(f"`{argument}` must hold codes: bools, integers or floats; got {type(value).__name__}.")
    if values.is_complex():
        raise TypeError(f"`{argument}` must hold codes: bools, integers or floats; got {values.dtype}.")
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"`{argument}` must have shape [N, bits]; got {list(values.shape)}.")
    return values


def _as_codes(argument: str, values: Tensor) -> Tensor:
    """Return codes of 0 and 1, or of 1 and -1, as 1 and -1; floats keep their dtype."""
    dtype = values.dtype if values.is_floating_point() else _CODE_DTYPE
    if values.dtype == torch.bool:
        return values.to(dtype) * 2 - 1
    is_zero = values == 0
    is_one = values == 1
    is_minus_one = values == -1
    if bool((is_zero | is_one).all() | (is_one | is_minus_one).all()):
        return torch.where(is_one, 1, -1).to(dtype)

    is_code = is_zero | is_one | is_minus_one
    got = "0, 1 and -1" if bool(is_code.all()) else str(values[~is_code][0].item())
    remedy = "embeddings that are no codes need another `similarity`, such as 'dot'"
    if values.dtype == torch.uint8:
        remedy = "bits that are packed into bytes need `packed=True`"
    raise ValueError(f"`{argument}` must hold codes of 0 and 1, or of 1 and -1; got {got}: {remedy}.")
