"""One matching for all metrics that hold the same images: members of a collection, or separate attributes.

An entry lives no longer than the batches that it was computed from, which it holds weakly; one of a process without
images, until newer ones come. It is used while options and batches are what they were: the same tensors, written to as
often, or others of the same values.
"""

from __future__ import annotations

import functools
import random
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import ClassAverages, average_matches
from reid_torchmetrics.metrics.detection.images import ImageNumbering
from reid_torchmetrics.metrics.detection.local_matches import LocalMatches, MatchRequest

NUM_OFFERED = 4
"""numbers of entries that a process tells the others"""

Result = TypeVar("Result")
States = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class Matched:
    """The matches of the images of all processes; nobody writes to them."""

    request: MatchRequest
    found: LocalMatches
    numbering: ImageNumbering | None = None
    """where it is asked for: that of all but plain requests"""
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def averages(self, rule: str, number: int = 0) -> ClassAverages:
        """Of the matches of a number."""
        matches = self.found.matches[number]
        return self.once((rule, number), lambda: average_matches(matches, self.request.grid, rule=rule))

    def once(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        """What the first call of this name computed."""
        if name not in self._known:
            self._known[name] = compute()
        found: Result = self._known[name]
        return found


class MatchCache:
    """The last matchings of `compute`; lists of all detections may be changed by users, and are made anew."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def find(self, states: States, request: MatchRequest, members: tuple[int, ...]) -> dict[int, Matched]:
        """The matchings of these images by their numbers, the newest first: others may have images that changed."""
        known = [each for each in list(self._entries) if each.is_of(states, request, members)]
        return {each.number: each.matched for each in known[:NUM_OFFERED]}

    def keep(self, matched: Matched, states: States, members: tuple[int, ...], *, number: int) -> None:
        """Remember a matching by a number, which is the same on all processes."""
        if matched.request.is_plain and (members or states["detection_counts"]):
            entry = _Entry(replace(matched, numbering=None), members, number)  # which holds the images
            entry.hold(states, functools.partial(self._forget, weakref.ref(entry)))
            self._entries = [entry, *self._entries][:NUM_OFFERED]

    def _forget(self, entry: weakref.ref[_Entry], _: object) -> None:
        self._entries = [other for other in self._entries if other is not entry()]


class _Entry:
    """A matching and what it was computed from."""

    def __init__(self, matched: Matched, members: tuple[int, ...], number: int) -> None:
        self.matched, self.number = matched, number
        self._members = members
        self._blocks: dict[str, list[weakref.ref[Tensor]]] = {}
        self._versions: dict[str, list[int]] = {}

    def hold(self, states: States, forget: functools.partial[None]) -> None:
        """Note the batches, and call `forget` when one is gone."""
        self._blocks = {name: [weakref.ref(block, forget) for block in blocks] for name, blocks in states.items()}
        self._versions = {name: [*map(_version, blocks)] for name, blocks in states.items()}

    def is_of(self, states: States, request: MatchRequest, members: tuple[int, ...]) -> bool:
        """Whether this is the matching of these images."""
        if (request, members) != (self.matched.request, self._members) or states.keys() != self._blocks.keys():
            return False
        held = {name: [block() for block in blocks] for name, blocks in self._blocks.items()}
        return all(
            len(states[name]) == len(blocks)
            and [*map(_version, blocks)] == self._versions[name]
            and _are_equal(blocks, states[name])
            for name, blocks in held.items()
        )


def _are_equal(blocks: Sequence[Tensor | None], others: Sequence[Tensor]) -> bool:
    """Whether batches are the same tensors, or have the same values: one comparison for all of a state."""
    held = [block for block in blocks if block is not None]
    if len(held) < len(others):
        return False
    pairs = [(mine, other) for mine, other in zip(held, others, strict=True) if mine is not other]
    if not pairs:
        return True
    if any(_kind(mine) != _kind(other) for mine, other in pairs):
        return False
    mine, other = (torch.cat([pair[side] for pair in pairs]) for side in (0, 1))
    return torch.equal(mine, other)


def _kind(block: Tensor) -> tuple[object, ...]:
    return block.shape, block.dtype, block.device


def _version(block: Tensor | None) -> int:
    """How often a tensor was written to; inference tensors keep no count."""
    return 0 if block is None or block.is_inference() else block._version  # noqa: SLF001 - there is no public name


def drawn_number() -> int:
    """A number for a new entry, not by torch's generator, whose state is the user's."""
    return random.SystemRandom().getrandbits(62) | 1


matchings = MatchCache()
