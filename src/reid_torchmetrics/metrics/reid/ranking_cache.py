"""One ranking for all metrics that hold the same samples."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics.functional.retrieval.draws import DrawnResults
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, EmbeddingScores
from reid_torchmetrics.metrics.reid.ranking_options import RankingOptions
from reid_torchmetrics.metrics.reid.samples import GALLERY, QUERY, Samples

_PROBED_QUERIES, _PROBED_ITEMS = 64, 256  # pairs whose scores tell whether a function has learned


@dataclass(frozen=True)
class Ranking:
    """Ranks of the positives of all queries, and what became of the queries."""

    ranks: PositiveRanks
    counts: QueryCounts
    problem: str | None = None
    """why there is nothing to average, if so"""
    labels: tuple[Tensor | None, Tensor | None] = (None, None)
    """identities and cameras of the queries"""
    drawn: DrawnResults | None = None
    """expectations over drawn galleries, where the protocol draws them"""


_clock = itertools.count()


_arrivals: WeakIdKeyDictionary = WeakIdKeyDictionary()


def tick() -> int:
    """The next moment: orders updates and rankings."""
    return next(_clock)


def note_arrival(labels: Tensor) -> None:
    """Remember that a batch came now, by a tensor that belongs to it alone, whichever metrics hold it."""
    _arrivals[labels] = tick()


def arrived(batches: Sequence[Tensor]) -> int:
    """When the last of some batches came; -1 if nobody knows, as of samples from a checkpoint."""
    return max((_arrivals.get(labels, -1) for labels in batches), default=-1)


class RankingCache:
    """The last rankings, for every metric that holds the same samples.

    Metrics of a collection, or separate attributes that are fed the same batches, hold the same embeddings: the same
    tensors, or others over the same memory, or equal copies of a view. An entry lives no longer than the embeddings
    that it was computed from, which it holds weakly; one of a rank without any, until newer ones come.
    """

    def __init__(self, size: int = 4) -> None:
        """Hold `size` rankings: metrics with other options may take turns."""
        self._size = size
        self._entries: list[Entry] = []

    def find(self, samples: Samples, options: RankingOptions, members: tuple[int, ...] = ()) -> list[Entry]:
        """The entries of these samples and options; `members` are the ranks that share the samples, if others do.

        There may be several: samples of other ranks may have changed in between.
        """
        return [entry for entry in list(self._entries) if entry.is_of(samples, options, members)]

    def keep(self, entry: Entry, samples: Samples) -> None:
        """Remember a ranking of `samples`."""
        forget = functools.partial(self._forget, weakref.ref(entry))
        entry.embeddings = [_Held.of(block, forget) for block in samples.embeddings]
        if samples.embeddings or entry.members:  # nothing but newer entries ends an entry without embeddings
            self._entries = [entry, *self._entries][: self._size]

    def _forget(self, entry: weakref.ref[Entry], _: object) -> None:
        self._entries = [other for other in self._entries if other is not entry()]


@dataclass(frozen=True)
class _Held:
    """A tensor that is held weakly, with its version, so that a change in place is noticed."""

    block: weakref.ref[Tensor]
    version: int

    @classmethod
    def of(cls, block: Tensor, forget: Callable[[object], None]) -> _Held:
        """Hold `block`, and call `forget` when it is gone."""
        return cls(weakref.ref(block, forget), _version(block))

    def is_same(self, block: Tensor) -> bool:
        """Whether `block` is the tensor as it was held, or has its memory or its values."""
        known = self.block()
        if known is None or _version(known) != self.version:
            return False
        return known is block or _same_memory(known, block) or _equal(known, block)


class Entry:
    """A ranking and what it was computed from."""

    def __init__(
        self,
        ranking: Ranking,
        samples: Samples,
        options: RankingOptions,
        members: tuple[int, ...] = (),
        number: int = 0,
    ) -> None:
        """Number rankings of samples that several ranks share, alike on all of these `members`."""
        self.ranking = ranking
        self.members = members
        self.number = number
        self.embeddings: list[_Held] = []
        self._options = options
        self._labels = samples.labels
        self._time = tick()
        self._warned: int | None = None
        self._versions = self._rank_versions()
        self._probe = _probe(samples, options)

    def is_of(self, samples: Samples, options: RankingOptions, members: tuple[int, ...]) -> bool:
        """Whether this is the ranking of these samples and options."""
        if options != self._options or members != self.members or len(self.embeddings) != len(samples.embeddings):
            return False
        if samples.time > self._time:
            return False  # a buffer may have been filled anew
        if self._versions != self._rank_versions():
            return False  # somebody wrote to the ranks
        if not all(map(_equal_or_none, self._labels, samples.labels)):
            return False
        if not all(map(_Held.is_same, self.embeddings, samples.embeddings)):
            return False
        return _equal_or_none(self._probe, _probe(samples, options))

    def warn_once(self, samples: Samples, warn: Callable[[str], None] = rank_zero_warn) -> None:
        """Say why there is nothing to average, unless that was said since the samples came."""
        if self.ranking.problem and (self._warned is None or samples.time > self._warned):
            self._warned = tick()
            warn(self.ranking.problem)

    def _rank_versions(self) -> list[int]:
        ranks, drawn = self.ranking.ranks, self.ranking.drawn
        parts = [part for part in (ranks, ranks.tied, drawn) if part is not None]
        held = [*self.ranking.labels, *(value for part in parts for value in vars(part).values())]
        return [_version(values) for values in held if isinstance(values, Tensor)]


def _probe(samples: Samples, options: RankingOptions) -> Tensor | None:
    """Some scores of a user's similarity, which may have learned when it gives others; None for those by name.

    Its parameters could be anywhere, but no learning leaves the scores of thousands of pairs as they were to the bit.
    """
    if not callable(options.similarity):
        return None
    query, gallery = (
        _some(samples.roles & role > 0, number) for role, number in ((QUERY, _PROBED_QUERIES), (GALLERY, _PROBED_ITEMS))
    )
    if not (len(query) and len(gallery)):
        return None
    scores = EmbeddingScores(
        samples.rows(query), samples.rows(gallery), similarity=options.similarity, max_bytes=DEFAULT_MAX_BYTES
    )
    out = torch.empty((len(query), len(gallery)), dtype=scores.dtype, device=scores.device)
    scores.fill(out, slice(0, len(query)), slice(0, len(gallery)))
    return out.nan_to_num()


def _some(chosen: Tensor, number: int) -> Tensor:
    """Up to `number` positions of those that are chosen, spread over all of them."""
    positions = chosen.nonzero()[:, 0]
    return positions[:: -(-len(positions) // number) or 1]


def _version(block: Tensor) -> int:
    """How often a tensor was written to; inference tensors keep no count."""
    return 0 if block.is_inference() else block._version  # noqa: SLF001 - there is no public name for it


def _same_memory(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() and _layout(first) == _layout(second)


def _layout(block: Tensor) -> tuple[Any, ...]:
    return block.shape, block.stride(), block.dtype, block.device


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and first.device == second.device and torch.equal(first, second)


def _equal_or_none(first: Tensor | None, second: Tensor | None) -> bool:
    return first is second or (first is not None and second is not None and _equal(first, second))


rankings = RankingCache()
