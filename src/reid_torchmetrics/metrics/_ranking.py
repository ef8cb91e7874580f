"""Rank the samples that a metric holds, once for all metrics that hold the same samples."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics.functional.retrieval.ranks import PositiveRanks, count_ranks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance, find_relevance
from reid_torchmetrics.functional.retrieval.rows import Rows, non_finite_rows
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores

QUERY, GALLERY = 1, 2  # roles of a sample; leave-one-out samples have both


@dataclass(frozen=True)
class RankingOptions:
    """The options that decide what the ranks are; metrics that agree in them share a ranking."""

    similarity: Any
    same_camera: str
    junk_identities: tuple[int, ...]
    ties: str


@dataclass(frozen=True)
class Ranking:
    """Ranks of the positives of all queries, and what became of the queries."""

    ranks: PositiveRanks
    counts: QueryCounts
    problem: str | None = None
    """why there is nothing to average, if so"""


@dataclass(frozen=True)
class Samples:
    """The samples of a metric, in the order in which they came: embeddings in batches, labels as one tensor each.

    They are ranked on the device of the labels.
    """

    embeddings: list[Tensor]
    identities: Tensor
    roles: Tensor
    cameras: Tensor | None
    index: Tensor | None
    time: int
    """when the last of them came, by `tick`"""

    def labels(self) -> list[Tensor | None]:
        """Everything but the embeddings."""
        return [self.identities, self.roles, self.cameras, self.index]

    def positions(self, role: int) -> Tensor:
        """Positions of the samples of a role; of those that share `index`, the first."""
        positions = (self.roles & role > 0).nonzero()[:, 0]
        if self.index is None or not len(positions):
            return positions
        numbers, order = self.index[positions].sort(stable=True)
        is_first = torch.ones_like(numbers, dtype=torch.bool)
        is_first[1:] = numbers[1:] != numbers[:-1]
        return positions[order[is_first].sort().values]


_clock = itertools.count()


def tick() -> int:
    """The next moment: orders updates and rankings."""
    return next(_clock)


class RankingCache:
    """The last rankings, for every metric that holds the same samples.

    Metrics of a collection, or separate attributes that are fed the same batches, hold the same embeddings: the same
    tensors, or others over the same memory, or equal copies of a view. An entry lives no longer than the embeddings
    that it was computed from, which it holds weakly.
    """

    def __init__(self, size: int = 4) -> None:
        """Hold `size` rankings: metrics with other options may take turns."""
        self._size = size
        self._entries: list[_Entry] = []

    def find(self, samples: Samples, options: RankingOptions) -> _Entry | None:
        """The entry of these samples and options, if there is one."""
        return next((entry for entry in list(self._entries) if entry.is_of(samples, options)), None)

    def keep(self, samples: Samples, options: RankingOptions, ranking: Ranking) -> _Entry:
        """Remember a ranking."""
        entry = _Entry(options, samples.labels(), ranking, tick())
        forget = functools.partial(self._forget, weakref.ref(entry))
        entry.embeddings = [_Held.of(block, forget) for block in samples.embeddings]
        if samples.embeddings:  # nothing would end the entry's life otherwise
            self._entries = [entry, *self._entries][: self._size]
        return entry

    def _forget(self, entry: weakref.ref[_Entry], _: object) -> None:
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


class _Entry:
    """A ranking and what it was computed from."""

    def __init__(self, options: RankingOptions, labels: list[Tensor | None], ranking: Ranking, time: int) -> None:
        self.ranking = ranking
        self.embeddings: list[_Held] = []
        self._options = options
        self._labels = labels
        self._time = time
        self._warned: int | None = None
        self._versions = self._rank_versions()

    def is_of(self, samples: Samples, options: RankingOptions) -> bool:
        """Whether this is the ranking of these samples and options."""
        if options != self._options or len(self.embeddings) != len(samples.embeddings):
            return False
        if callable(options.similarity) and samples.time > self._time:
            return False  # a function may have learned since
        if self._versions != self._rank_versions():
            return False  # somebody wrote to the ranks
        same_labels = all(map(_equal_or_none, self._labels, samples.labels()))
        return same_labels and all(map(_Held.is_same, self.embeddings, samples.embeddings))

    def warn_once(self, samples: Samples) -> None:
        """Say why there is nothing to average, unless that was said since the samples came."""
        if self.ranking.problem and (self._warned is None or samples.time > self._warned):
            self._warned = tick()
            rank_zero_warn(self.ranking.problem)

    def _rank_versions(self) -> list[int]:
        return [_version(values) for values in vars(self.ranking.ranks).values()]


_last = RankingCache()


@torch.no_grad()
def rank_samples(samples: Samples, options: RankingOptions, *, max_bytes: int, warn: bool) -> Ranking:
    """Rank the samples of a metric, or find that another metric has ranked them already.

    Where nothing can be ranked, no query has a positive; `warn` says why, once per ranking.
    """
    entry = _last.find(samples, options)
    if entry is None:
        entry = _last.keep(samples, options, _rank(samples, options, max_bytes))
    if warn:
        entry.warn_once(samples)
    return entry.ranking


def _rank(samples: Samples, options: RankingOptions, max_bytes: int) -> Ranking:
    query, gallery = samples.positions(QUERY), samples.positions(GALLERY)
    blocks = [block.to(query.device) for block in samples.embeddings] or [torch.empty((0, 1), device=query.device)]
    bad = _non_finite(blocks)
    if len(bad):
        return _unranked(query, _non_finite_reason(bad, samples))
    relevance = _relevance(samples, query, gallery, options)
    kept = gallery if relevance.kept is None else gallery[relevance.kept]
    scores = EmbeddingScores(
        _rows(blocks, query), _rows(blocks, kept), similarity=options.similarity, max_bytes=max_bytes
    )
    ranks = count_ranks(scores, relevance, ties=options.ties)
    counts = relevance.counts(ranks.num_positives)
    return Ranking(ranks, counts, None if counts.valid else _no_query_reason(counts, len(gallery)))


def _relevance(samples: Samples, query: Tensor, gallery: Tensor, options: RankingOptions) -> Relevance:
    column_of = torch.full_like(samples.identities, -1)
    column_of[gallery] = torch.arange(len(gallery), device=gallery.device)
    own = column_of[query]
    return find_relevance(
        samples.identities[query],
        samples.identities[gallery],
        None if samples.cameras is None else samples.cameras[query],
        None if samples.cameras is None else samples.cameras[gallery],
        same_camera=options.same_camera,
        junk_identities=options.junk_identities,
        self_index=own if bool((own >= 0).any()) else None,
    )


def _rows(blocks: Sequence[Tensor], positions: Tensor) -> Rows:
    total = sum(map(len, blocks))
    return Rows(blocks, None if len(positions) == total else positions)


def _non_finite(blocks: Sequence[Tensor]) -> Tensor:
    """Positions of the samples whose embedding is not finite."""
    first, found = 0, [torch.empty(0, dtype=torch.int64, device=blocks[0].device)]
    for block in blocks:
        found.append(non_finite_rows(block) + first)
        first += len(block)
    return torch.cat(found)


def _unranked(query: Tensor, problem: str) -> Ranking:
    """No query has a rank, so that every measure is NaN."""
    nothing, total = torch.zeros_like(query), len(query)
    counts = QueryCounts(total, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=total)
    return Ranking(PositiveRanks(nothing[:0], nothing, nothing), counts, problem)


def _non_finite_reason(bad: Tensor, samples: Samples) -> str:
    roles = samples.roles[bad]
    queries, gallery = int((roles & QUERY > 0).sum()), int((roles & GALLERY > 0).sum())
    numbers = bad if samples.index is None else samples.index[bad]
    named = "samples" if samples.index is None else "`index`"
    return (
        f"{len(bad)} of {len(samples.roles)} embeddings are NaN or infinite ({queries} of queries, {gallery} of gallery"
        f" items; first at {named} {numbers[:5].tolist()}), so the result is NaN."
    )


def _no_query_reason(counts: QueryCounts, num_gallery: int) -> str:
    return (
        f"No query can be evaluated, so the result is NaN: of {counts.total} queries against {num_gallery} gallery"
        f" items, {counts.not_in_gallery} have no other item of their identity in the gallery,"
        f" {counts.same_camera_only} lost every positive to the camera rule, {counts.junk} are junk."
    )


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
