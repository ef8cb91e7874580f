"""Tell samples and images apart by hashes of 64 bits, also on several processes.

Equal values have equal hashes, other values nearly never.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .world import World

_SHIFTS = (30, 27, 31)
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_STEP = -0x61C8864680B583EB
LEAST_GATHERED = 8
"""items of a process: fewer may be alike in the data set itself"""
_evaluated: WeakIdKeyDictionary = WeakIdKeyDictionary()  # the last batch of each evaluation, by its first labels


def mixed(values: Int[Tensor, "*shape"], further: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash pairs of numbers; every bit depends on all bits (Steele et al., "Fast splittable generators", 2014)."""
    values = (values + _STEP) ^ further
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> _SHIFTS[-1])


def owners(world: World, numbers: Int[Tensor, " numbers"]) -> Int[Tensor, " numbers"]:
    """The process that each number belongs to, told from the number alone; each has about as many numbers."""
    return mixed(torch.zeros_like(numbers), numbers) % world.size


def count_forgotten(own: Sequence[Tensor], *others: Sequence[Tensor]) -> int:
    """Return the number of items since the last evaluation if they have all the labels of the batches before, or 0.

    Labels that are the metric's `own` have a row for each item. Call it once for each evaluation.
    """
    new = next((place for place, batch in enumerate(reversed(own)) if batch in _evaluated), 0)
    _evaluated.update((batch, True) for batch in own[-1:])
    number = sum(map(len, own[-new:]))
    pairs = (pair for each in (own, *others) for pair in zip(each[-2 * new : -new], each[-new:], strict=True))
    is_whole = 0 < 2 * new <= len(own) and number >= LEAST_GATHERED
    return number if is_whole and all(old.equal(late) for old, late in pairs) else 0
