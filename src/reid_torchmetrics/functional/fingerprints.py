"""Hashes of 64 bits that identify samples and images, also between processes.

Equal values have equal hashes; different values nearly never have equal hashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics._warnings import asking

from .world import World

_SHIFTS = (30, 27, 31)
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_STEP = -0x61C8864680B583EB
LEAST_GATHERED = 8
"""number of items of a process; fewer items may be equal by chance in a data set"""
_evaluated: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""the last batch of each evaluation, by its first labels"""


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


def count_forgotten(roles: Sequence[Tensor], *labels: Sequence[Tensor]) -> int:
    """Count the items since the last evaluation if they repeat the items before them, as after a forgotten `reset`.

    Call it once for each evaluation; `diagnose` may ask again.

    Args:
        roles: a tensor for each batch, with a row for each item; the tensors belong to one metric.
        labels: further labels, each in the same batches.

    Returns:
        The number of items in the batches since the last evaluation, if the batches before them have equal labels;
        else 0.
    """
    is_asked = asking.get() is not None  # the last evaluation is then the one that is looked at
    num_new = 0
    for position, batch in enumerate(reversed(roles)):
        if batch in _evaluated and (position > 0 or not is_asked):
            num_new = position
            break
    for batch in roles[-1:]:
        if not is_asked:
            _evaluated[batch] = True
    if num_new == 0 or 2 * num_new > len(roles):
        return 0
    num_items = sum(map(len, roles[-num_new:]))
    if num_items < LEAST_GATHERED:
        return 0
    for batches in (roles, *labels):
        earlier_batches = batches[-2 * num_new : -num_new]
        new_batches = batches[-num_new:]
        if not all(map(torch.equal, earlier_batches, new_batches)):
            return 0
    return num_items
