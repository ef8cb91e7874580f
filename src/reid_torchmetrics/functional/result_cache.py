"""A cache of results that metrics with the same samples share, in a collection or as separate attributes.

The cache holds the results for one set of samples, by key. Results for other samples replace all of them. When a tensor
of the samples is freed (by `reset`, or because no metric is left), the cache is emptied.

A result is computed from the samples and the key alone. For instance, with the key (options, processes):

    a, b = DetectionMAP(), DetectionMAP(box_format="xywh")
    a.update(*batch); b.update(*batch)             equal states
    a.compute()                                    kept under the key with "xyxy"
    b.compute()                                    another key: computed, and kept as a second result
    c.update(*other_batch); c.compute()            other samples: both results are dropped
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
States = Mapping[str, Sequence[Tensor]]

_MOST_KEPT = 8
"""number of results for the same samples under different keys"""
_MOST_CONCATENATED = 1 << 24
"""number of bytes that are copied in order to be compared at once"""


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """A result, with a number that is the same on all processes that computed it together."""

    number: int
    result: Result


class ResultCache(Generic[Result]):
    """Cache of the results for the newest samples; it lasts as long as the tensors of their state `lifetime`."""

    def __init__(self, lifetime: str) -> None:
        self._lifetime = lifetime
        self._samples: _StateSnapshot | None = None
        self._results: list[tuple[Hashable, Kept[Result]]] = []

    def find(
        self, states: States, key: Hashable, may_be: Callable[[Result], bool] = lambda _: True
    ) -> Kept[Result] | None:
        """Return the newest result for these samples under this key; None if there is none.

        `may_be` decides whether a result may be for these samples, before the samples are compared.
        """
        samples, results = self._samples, self._results  # read once, because other threads may replace them
        for kept_key, kept in results:
            if kept_key != key:
                continue
            if samples is not None and may_be(kept.result) and samples.matches(states):
                return kept
            self.clear()  # the results are for older samples
            return None
        return None

    def keep(self, states: States, key: Hashable, kept: Kept[Result]) -> None:
        """Keep a result, and drop the results for other samples."""
        results = self._results if self._samples is not None and self._samples.matches(states) else []
        if not results:
            self._samples = _StateSnapshot(states, self._lifetime, lambda _: self.clear())
        results = [(kept_key, earlier) for kept_key, earlier in results if kept_key != key]
        self._results = [(key, kept), *results][:_MOST_KEPT]

    def clear(self) -> None:
        """Drop all results."""
        self._samples = None
        self._results = []


class _StateSnapshot:
    """Batches of a metric at one time, with their versions; the state `lifetime` is held by weak references."""

    def __init__(self, states: States, lifetime: str, forget: Callable[[object], None]) -> None:
        self._states = {name: list(blocks) for name, blocks in states.items() if name != lifetime}
        self._names = list(states)
        self._lifetime_blocks = [weakref.ref(block, forget) for block in states[lifetime]]
        self._versions = versions_of(states.values())

    def matches(self, states: States) -> bool:
        """Return whether a metric holds these tensors, with unchanged versions, or other tensors with equal values."""
        lifetime_blocks = []
        for reference in self._lifetime_blocks:
            block = reference()
            if block is not None:
                lifetime_blocks.append(block)
        kept = {name: self._states.get(name, lifetime_blocks) for name in self._names}
        if states.keys() != kept.keys():
            return False
        if any(len(states[name]) != len(blocks) for name, blocks in kept.items()):
            return False
        if versions_of(kept.values()) != self._versions:
            return False
        # Values are compared last, because the host then waits for a GPU.
        return all(_are_equal(blocks, states[name]) for name, blocks in kept.items())


def _are_equal(blocks: Sequence[Tensor], other_blocks: Sequence[Tensor]) -> bool:
    """Return whether batches are the same tensors, share their memory, or have the same values."""
    to_compare, others_to_compare = [], []
    num_bytes = 0
    for block, other in zip(blocks, other_blocks, strict=True):
        if block is other:
            continue
        if (block.shape, block.dtype, block.device) != (other.shape, other.dtype, other.device):
            return False
        if (block.data_ptr(), block.stride()) == (other.data_ptr(), other.stride()):
            continue
        to_compare.append(block)
        others_to_compare.append(other)
        num_bytes += block.numel() * block.element_size()
    if len(to_compare) < 2 or num_bytes > _MOST_CONCATENATED:
        return all(map(torch.equal, to_compare, others_to_compare))
    # One comparison of the concatenated batches waits for a GPU once.
    return torch.equal(torch.cat(to_compare), torch.cat(others_to_compare))


def versions_of(batches: Iterable[Sequence[Tensor]]) -> list[int]:
    """Return how often each of some tensors was written to; inference tensors do not count."""
    blocks = chain.from_iterable(batches)
    return [0 if block.is_inference() else block._version for block in blocks]  # noqa: SLF001 - it has no public name


def drawn_number() -> int:
    """Draw a number for a new result; the state of torch's generator does not change."""
    return random.SystemRandom().getrandbits(62) | 1


def number_of_all(offered: Sequence[int]) -> int | None:
    """Return the number of the result that all processes have; None if they differ or one has none, given as 0."""
    first = offered[0]
    is_same_everywhere = all(number == first for number in offered)
    return first if is_same_everywhere and first != 0 else None
