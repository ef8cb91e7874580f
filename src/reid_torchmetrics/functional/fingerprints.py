"""Hashes of 64 bits: equal values have equal hashes, other values nearly never."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

_SHIFTS = (30, 27, 31)
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_STEP = -0x61C8864680B583EB


def mixed(values: Int[Tensor, "*shape"], further: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash pairs of numbers; every bit depends on all bits (Steele et al., "Fast splittable generators", 2014)."""
    values = (values + _STEP) ^ further
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> _SHIFTS[-1])
