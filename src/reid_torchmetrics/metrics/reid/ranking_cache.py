"""One ranking for all metrics that hold the same samples.

    absent --- keep ---> remembered --- a tensor of embeddings is gone, or newer rankings came ---> absent
                             |
                             +--- asked for, and everything `is_of` looks at is as it was ---> used
                             +--- something is not ---> passed over, and ranked anew

What `is_of` looks at are the options, the labels by value, every tensor of embeddings with the number of times that it
was written to, and whether samples came after the ranking. For instance:

    a, b = ReIDMeanAP(), ReIDCMC()
    a.update(x, ids); b.update(x, ids)        both hold tensors over the memory of `x`
    a.compute()                               absent: ranks, and the cache remembers it
    b.compute()                               used: the same memory, written to as often
    x.zero_(); c.update(x, ids); c.compute()  passed over: `x` was written to, and its samples came later
    del a, b, c, x                            absent: no tensor is left
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics.functional.retrieval.evaluation import Ranking, RankingOptions
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, EmbeddingScores
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY, Samples

_PROBED_QUERIES, _PROBED_ITEMS = 64, 256  # pairs whose scores tell whether a function has learned


class RankedSamples(NamedTuple):
    """Samples that are ranked under some options, or are to be."""

    samples: Samples
    time: int
    """when the last of them came, by `last_update_time`"""
    options: RankingOptions
    members: tuple[int, ...] = ()
    """the processes that share the samples, if others do"""


_clock = itertools.count()


_update_times: WeakIdKeyDictionary = WeakIdKeyDictionary()


def next_time() -> int:
    """The next moment: orders updates and rankings."""
    return next(_clock)


def record_update(labels: Tensor) -> None:
    """Remember that a batch came now, by a tensor that belongs to it alone, whichever metrics hold it."""
    _update_times[labels] = next_time()


def last_update_time(batches: Sequence[Tensor]) -> int:
    """When the last of some batches came; -1 if nobody knows, as of samples from a checkpoint."""
    return max((_update_times.get(labels, -1) for labels in batches), default=-1)


class RankingCache:
    """The last rankings, for every metric that holds the same samples.

    Metrics of a collection, or separate attributes that are fed the same batches, hold the same embeddings: the same
    tensors, or others over the same memory, or equal copies of a view. An entry lives no longer than the embeddings
    that it was computed from, which it holds weakly; one of a process without any, until newer ones come.
    """

    def __init__(self, size: int = 4) -> None:
        """Hold `size` rankings: metrics with other options may take turns."""
        self._size = size
        self._entries: list[Entry] = []

    def find(self, wanted: RankedSamples) -> list[Entry]:
        """The entries of these samples, the newest first.

        There may be several: samples of other processes may have changed in between.
        """
        return [entry for entry in list(self._entries) if entry.is_of(wanted)]

    def keep(self, ranking: Ranking, ranked: RankedSamples, *, number: int) -> Entry:
        """Remember a ranking by a number, which is the same on all processes."""
        entry = Entry(ranking, ranked, number)
        forget = functools.partial(self._forget, weakref.ref(entry))
        entry.embeddings = [_WeakTensor.of(block, forget) for block in ranked.samples.embeddings]
        if entry.embeddings or ranked.members:  # nothing but newer entries ends an entry without embeddings
            self._entries = [entry, *self._entries][: self._size]
        return entry

    def _forget(self, entry: weakref.ref[Entry], _: object) -> None:
        self._entries = [other for other in self._entries if other is not entry()]


@dataclass(frozen=True)
class _WeakTensor:
    """A tensor that is held weakly, with its version, so that a change in place is noticed."""

    block: weakref.ref[Tensor]
    version: int

    @classmethod
    def of(cls, block: Tensor, forget: Callable[[object], None]) -> _WeakTensor:
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

    def __init__(self, ranking: Ranking, ranked: RankedSamples, number: int) -> None:
        """Note what the ranking was computed from; embeddings are noted by the cache."""
        self.ranking = ranking
        self.number = number
        self.embeddings: list[_WeakTensor] = []
        self._options, self._members = ranked.options, ranked.members
        self._labels = ranked.samples.labels
        self._time = next_time()
        self._warned: int | None = None
        self._versions = self._rank_versions()
        self._probe = _probe(ranked)

    def is_of(self, wanted: RankedSamples) -> bool:
        """Whether this is the ranking of these samples and options."""
        samples = wanted.samples
        if (wanted.options, wanted.members) != (self._options, self._members):
            return False
        if wanted.time > self._time:  # a buffer may have been filled anew
            return False
        if self._versions != self._rank_versions():  # somebody wrote to the ranks
            return False
        if len(self.embeddings) != len(samples.embeddings):
            return False
        return (
            all(map(_equal_or_none, self._labels, samples.labels))
            and all(map(_WeakTensor.is_same, self.embeddings, samples.embeddings))
            and _equal_or_none(self._probe, _probe(wanted))
        )

    def warn_once(self, ranked: RankedSamples, warn: Callable[[str], None]) -> None:
        """Say why there is nothing to average, unless that was said since the samples came."""
        if self.ranking.undefined and (self._warned is None or ranked.time > self._warned):
            self._warned = next_time()
            warn(self.ranking.undefined)

    def _rank_versions(self) -> list[int]:
        ranking = self.ranking
        parts = [part for part in (ranking, ranking.ranks, ranking.ranks.tied, ranking.drawn) if part is not None]
        held = (value for part in parts for value in vars(part).values())
        return [_version(values) for values in held if isinstance(values, Tensor)]


def _probe(ranked: RankedSamples) -> Tensor | None:
    """Some scores of a user's similarity, which may have learned when it gives others; None for those by name.

    Its parameters could be anywhere, but no learning leaves the scores of thousands of pairs as they were to the bit.
    """
    samples, similarity = ranked.samples, ranked.options.similarity
    if not callable(similarity):
        return None
    query = _some(samples.roles & QUERY > 0, _PROBED_QUERIES)
    gallery = _some(samples.roles & GALLERY > 0, _PROBED_ITEMS)
    if not (len(query) and len(gallery)):
        return None
    both = samples.rows(query), samples.rows(gallery)
    scores = EmbeddingScores(*both, similarity=similarity, max_bytes=DEFAULT_MAX_BYTES)
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
