"""What blocks of a gallery add up to, wherever they were read: numbers, and the keys of the blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Real, Shaped
from torch import Tensor

Sum = TypeVar("Sum", bound="_Sum")
Nothing: TypeAlias = Literal[0]
"""the `sum` of no blocks, where every other one begins"""


@dataclass(frozen=True, eq=False)
class _Sum:
    """Numbers of some blocks, on the CPU and small to send."""

    numbers: Shaped[np.ndarray, " numbers"]
    digest: str
    """a hash of all else that the numbers depend on"""
    keys: frozenset[int | str]
    """the keys of the blocks"""

    def __add__(self: Sum, other: Sum) -> Sum:  # noqa: PYI019 - which the checks of tests cannot follow
        """The numbers of the blocks of both.

        Raises:
            ValueError: a key that both have, or numbers of counters that differ.
        """
        if type(other) is not type(self):
            return NotImplemented
        _check_digest("other", other.digest, self.digest)
        if twice := self.keys & other.keys:
            raise ValueError(
                f"`other` must have no key in common, as every block counts once; got {min(twice, key=str)!r} twice."
            )
        return replace(self, numbers=self.numbers + other.numbers, keys=self.keys | other.keys)

    def __radd__(self: Sum, zero: int) -> Sum:  # noqa: PYI019
        """The same, added to the 0 of an empty `sum`."""
        return self if zero == 0 else NotImplemented

    @classmethod
    def added(cls, start: Real[Tensor, " numbers"], argument: str, value: object, digest: str) -> Tensor:
        """Numbers to start with, plus the numbers of a `value` of the same `digest`; 0 has none."""
        if isinstance(value, int) and value == 0:
            return start
        if not isinstance(value, cls):
            raise TypeError(f"`{argument}` must be {cls.__name__}, or 0 for no block; got {type(value).__name__}.")
        _check_digest(argument, value.digest, digest)
        return start + torch.as_tensor(value.numbers, device=start.device)


@final
class Counts(_Sum):
    """What `RankCounter.count` gives: how blocks of a gallery move ranks; `+` and `sum` add up other blocks.

    `numbers` are int64: for each positive the negatives before it, under tie policies with groups also those above it,
    then for each query its candidates. A pickle has them in the smallest dtype. `keys` tell the blocks.
    """

    def __getstate__(self) -> dict[str, Any]:
        """All fields, the numbers in the smallest dtype."""
        return vars(self) | {"numbers": self.numbers.astype(np.min_scalar_type(self.numbers.max(initial=0)))}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take all fields."""
        vars(self).update(state, numbers=state["numbers"].astype(np.int64))


@final
class Survey(_Sum):
    """What `RankCounter.survey` gives: facts of blocks that all scores depend on; `+` and `sum` add up other blocks.

    `numbers` are float64: sums of the gallery that the similarity needs, and the blocks that need scores in float64.
    """


def keys_of(key: int | str) -> frozenset[int | str]:
    """The keys of a block; raise unless it has one."""
    if not isinstance(key, (int, np.integer, str)):
        raise TypeError(f"`key` must be an int or a string; got {type(key).__name__}.")
    return frozenset([str(key) if isinstance(key, str) else int(key)])


def digest_of(*values: object) -> str:
    """A hash that is the same in all processes: of the bits of tensors, and of the text of all else."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {list(value.shape)}".encode())
            digest.update(value.reshape(-1).cpu().contiguous().view(torch.uint8).numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()[:32]


def _check_digest(argument: str, came: str, digest: str) -> None:
    if came != digest:
        raise ValueError(
            f"`{argument}` must be of a counter with the same queries, positives, options and survey; got that of"
            " another one."
        )
