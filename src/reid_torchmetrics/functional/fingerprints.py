"""Hashes of 64 bits that identify samples and images, also between processes.

Equal values have equal hashes; different values nearly never have equal hashes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .world import World

_SHIFTS = (30, 27, 31)
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_STEP = -0x61C8864680B583EB


def mixed(values: Int[Tensor, "*shape"], further: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash pairs of numbers; every bit depends on all bits (Steele et al., "Fast splittable generators", 2014)."""
    values = (values + _STEP) ^ further
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> _SHIFTS[-1])


def hash_of_order(values: Float[Tensor, "rows columns"]) -> Int[Tensor, ""]:
    """Hash a matrix of float32; rows or columns in another order have another hash."""
    places = torch.arange(max(values.shape), device=values.device)
    weights = mixed(places, places)
    num_rows, num_columns = values.shape
    sums = (values.view(torch.int32) * weights[:num_columns]).sum(1)
    return (sums ^ (sums >> 32)).mul(weights[:num_rows]).sum()


def owners(world: World, numbers: Int[Tensor, " numbers"]) -> Int[Tensor, " numbers"]:
    """Return the process that owns each number; it depends on the number alone, and is balanced over the processes."""
    return mixed(torch.zeros_like(numbers), numbers) % world.size
