"""Results shared by metrics that hold the same samples: members of a collection, or separate attributes.

    nothing --- keep ---> results of these samples, by key --- keep, of other samples ---> results of these alone
                             |
                             +--- a tensor of the samples is gone (`reset`, or no metric is left) ---> nothing

A result is computed from samples and a key, and from nothing else: what decides it can only be in one of the two. For
instance, with the key (options, processes):

    a, b = DetectionMAP(), DetectionMAP(box_format="xywh")
    a.update(*batch); b.update(*batch)     equal states
    a.compute()                            kept under the key with "xyxy"
    b.compute()                            another key: computed, and kept beside it
    c.update(*other); c.compute()          other samples: what was kept of the batch is let go
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
States = Mapping[str, Sequence[Tensor]]

_MOST_KEPT = 8  # results of the same samples, under other options
_MOST_JOINED = 1 << 24  # bytes that are copied to be compared at once


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """A result, by a number that is the same on all processes that made it together."""

    number: int
    result: Result


class ResultCache(Generic[Result]):
    """The results of the newest samples, kept no longer than `lifetime`, one of their states."""

    def __init__(self, lifetime: str) -> None:
        self._lifetime = lifetime
        self._samples: _StateSnapshot | None = None
        self._results: list[tuple[Hashable, Kept[Result]]] = []

    def find(
        self, states: States, key: Hashable, may_be: Callable[[Result], bool] = lambda _: True
    ) -> Kept[Result] | None:
        """The newest result of these samples under this key; `may_be` spares comparing the samples where it is not."""
        samples, results = self._samples, self._results  # one look: other threads may keep theirs meanwhile
        kept = next((kept for known, kept in results if known == key), None)
        if kept is None or (samples is not None and may_be(kept.result) and samples.are(states)):
            return kept
        self.clear()  # newer samples are asked for
        return None

    def keep(self, states: States, key: Hashable, made: Kept[Result]) -> None:
        """Remember a result; results of other samples are let go."""
        others = self._results if self._samples is not None and self._samples.are(states) else []
        if not others:
            self._samples = _StateSnapshot(states, self._lifetime, lambda _: self.clear())
        others = [(known, kept) for known, kept in others if known != key]
        self._results = [(key, made), *others][:_MOST_KEPT]

    def clear(self) -> None:
        """Forget all results."""
        self._samples, self._results = None, []


class _StateSnapshot:
    """The batches of a metric at one time, one state by weak references; writing to a tensor is noticed."""

    def __init__(self, states: States, lifetime: str, forget: Callable[[object], None]) -> None:
        self._others = {name: [*blocks] for name, blocks in states.items() if name != lifetime}
        self._lifetime = lifetime
        self._blocks = [weakref.ref(block, forget) for block in states[lifetime]]
        self._versions = {name: [*map(version_of, blocks)] for name, blocks in states.items()}

    def are(self, states: States) -> bool:
        """Whether a metric holds the same: these tensors, written to as often, or others of the same values."""
        alive = [block for block in (ref() for ref in self._blocks) if block is not None]
        kept = self._others | {self._lifetime: alive}
        if states.keys() != kept.keys() or any(len(states[name]) != len(blocks) for name, blocks in kept.items()):
            return False
        is_unchanged = all([*map(version_of, blocks)] == self._versions[name] for name, blocks in kept.items())
        # A GPU waits where values are compared.
        return is_unchanged and all(_are_equal(blocks, states[name]) for name, blocks in kept.items())


def _are_equal(blocks: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether batches are the same tensors, share their memory, or have the same values."""
    pairs = [(block, other) for block, other in zip(blocks, others, strict=True) if block is not other]
    if any(len({(block.shape, block.dtype, block.device) for block in pair}) > 1 for pair in pairs):
        return False
    # Not to be compared are tensors of the same memory.
    pairs = [pair for pair in pairs if len({(block.data_ptr(), block.stride()) for block in pair}) > 1]
    if len(pairs) < 2 or sum(block.numel() * block.element_size() for block, _ in pairs) > _MOST_JOINED:
        return all(torch.equal(*pair) for pair in pairs)
    # Joined, all of a state is one comparison: a GPU waits once.
    return torch.equal(*(torch.cat(side) for side in zip(*pairs, strict=True)))


def version_of(block: Tensor) -> int:
    """How often a tensor was written to; inference tensors keep no count."""
    return 0 if block.is_inference() else block._version  # noqa: SLF001 - there is no public name for it


def drawn_number() -> int:
    """A number for a new result; the state of torch's generator is the user's, and stays as it is."""
    return random.SystemRandom().getrandbits(62) | 1


def number_of_all(offered: Sequence[int]) -> int | None:
    """The number of the result that every process offers, each with 0 for none; None if they do not agree."""
    return offered[0] if len({*offered}) == 1 and offered[0] else None
