"""Read binary codes: packed bits, bools, integers, or floats."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int8
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.retrieval.scores import (
    CODE_READERS,
    HAS_ONE,
    HAS_OTHER,
    HAS_ZERO,
    IS_CODE,
    are_bits,
    as_signs,
    read_with_marks,
    union_of_marks,
)

_CODE_DTYPE = torch.float16
"""holds 1 and -1 in two bytes; products are computed in float32, where sums of up to 2^24 of them are exact"""
_BITS = 8


def _read_marked(argument: str, value: object, similarity: object, device: Any) -> tuple[Tensor, Int8[Tensor, " rows"]]:
    """Return embeddings that may be codes, as they are, and the marks of their rows."""
    values = _matrix(argument, value, device)
    are_codes = similarity == "hamming" or not values.is_floating_point()
    if not are_codes:
        values = _checks.embeddings(argument, values)
    is_zero = values == 0
    is_one = values == 1
    is_other = ~(is_zero | is_one)
    if are_codes and values.dtype != torch.bool:
        # A batch has codes of 0 and 1, or codes of 1 and -1.
        is_wrong = is_other & (values != -1)
        has_both = is_zero.any() & (values == -1).any()
        if bool(is_wrong.any() | has_both):
            got = str(values[is_wrong][0].item()) if bool(is_wrong.any()) else "0, 1 and -1"
            remedy = "embeddings that are no codes need another `similarity`, such as 'dot'"
            if values.dtype == torch.uint8:
                remedy = "bits that are packed into bytes need `packed=True`"
            raise ValueError(f"`{argument}` must hold codes of 0 and 1, or of 1 and -1; got {got}: {remedy}.")
    if not values.is_floating_point():
        values = values.to(_CODE_DTYPE)
    marks = is_zero.any(1) * HAS_ZERO + is_one.any(1) * HAS_ONE + is_other.any(1) * HAS_OTHER
    return values, (marks + IS_CODE * are_codes).to(torch.int8)


def _read_packed(argument: str, value: object, _: object, device: Any) -> tuple[Tensor, None]:
    """Return the bits in bytes, the highest first, as `numpy.packbits` has them, as codes of 1 and -1."""
    values = _matrix(argument, value, device)
    if values.dtype != torch.uint8:
        raise TypeError(f"`{argument}` must have dtype uint8 where `packed` is True; got {values.dtype}.")
    shifts = torch.arange(_BITS - 1, -1, -1, dtype=torch.uint8, device=values.device)
    bits = (values[:, :, None] >> shifts) & 1
    return as_signs(bits.flatten(1).to(_CODE_DTYPE)), None


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


def read_block(
    argument: str, value: object, similarity: object, device: Any = None, *, packed: bool = False, earlier: int = 0
) -> tuple[Tensor, int]:
    """Return a block of embeddings, with codes of 1 and -1 under "hamming", and the marks of all blocks so far.

    Arguments and errors are those of `read_with_marks` and `are_bits`; `earlier` are the marks of the earlier blocks.
    """
    values, marks = read_with_marks(argument, value, similarity, device, packed=packed)
    if marks is None:
        return values, earlier
    own_marks = union_of_marks(marks)
    all_marks = earlier | own_marks
    are_bits(all_marks, all_marks)  # raises for a mixture
    return as_signs(values) if are_bits(own_marks, own_marks) else values, all_marks


CODE_READERS["marked"] = _read_marked
CODE_READERS["packed"] = _read_packed
