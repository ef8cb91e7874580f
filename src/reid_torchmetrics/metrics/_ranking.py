"""Rank the samples that a metric holds, once for all metrics that hold the same samples."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
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

    def labels(self) -> list[Tensor | None]:
        """Everything but the embeddings."""
        return [self.identities, self.roles, self.cameras, self.index]

    def counted(self) -> Tensor:
        """Mask of the samples that count: of those that share `index` and role, the first."""
        if self.index is None:
            return torch.ones_like(self.roles, dtype=torch.bool)
        keys = torch.stack([self.index, self.roles.long()], dim=1)
        _, group = keys.unique(dim=0, return_inverse=True)
        order = group.argsort(stable=True)
        repeated = torch.zeros_like(self.roles, dtype=torch.bool)
        repeated[order[1:]] = group[order[1:]] == group[order[:-1]]
        return ~repeated


class RankingCache:
    """The last ranking, for every metric that holds the same samples.

    Metrics of a collection, or separate attributes that are fed the same batches, hold the same embeddings: the same
    tensors, or others over the same memory, or equal copies of a view. The entry lives no longer than the embeddings
    that it was computed from, which it holds weakly.
    """

    def __init__(self) -> None:
        self._entry: _Entry | None = None

    def find(self, samples: Samples, options: RankingOptions) -> Ranking | None:
        """The last ranking if it is that of these samples and options."""
        entry = self._entry
        if entry is None or entry.options != options or not _all_equal(entry.labels, samples.labels()):
            return None
        if len(entry.embeddings) != len(samples.embeddings):
            return None
        return entry.ranking if all(map(_is_same, entry.embeddings, samples.embeddings)) else None

    def keep(self, samples: Samples, options: RankingOptions, ranking: Ranking) -> None:
        """Remember a ranking."""
        held = [(weakref.ref(block, self._forget), _version(block)) for block in samples.embeddings]
        self._entry = _Entry(options, samples.labels(), held, ranking)

    def warn_once(self) -> None:
        """Say why the remembered ranking has nothing to average, unless that was said before."""
        if self._entry is not None and self._entry.ranking.problem and not self._entry.warned:
            self._entry.warned = True
            rank_zero_warn(self._entry.ranking.problem)

    def _forget(self, _: object) -> None:
        self._entry = None


@dataclass
class _Entry:
    options: RankingOptions
    labels: list[Tensor | None]
    embeddings: list[tuple[weakref.ref[Tensor], int]]
    """each with its version, so that a change in place is noticed"""
    ranking: Ranking
    warned: bool = False


_last = RankingCache()


def rank_samples(samples: Samples, options: RankingOptions, *, max_bytes: int, warn: bool) -> Ranking:
    """Rank the samples of a metric, or find that another metric has ranked them already.

    Where nothing can be ranked, no query has a positive; `warn` says why, once per ranking.
    """
    ranking = _last.find(samples, options)
    if ranking is None:
        ranking = _rank(samples, options, max_bytes)
        _last.keep(samples, options, ranking)
    if warn:
        _last.warn_once()
    return ranking


def _rank(samples: Samples, options: RankingOptions, max_bytes: int) -> Ranking:
    counted = samples.counted()
    query = (counted & (samples.roles & QUERY > 0)).nonzero()[:, 0]
    gallery = (counted & (samples.roles & GALLERY > 0)).nonzero()[:, 0]
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


def _is_same(held: tuple[weakref.ref[Tensor], int], block: Tensor) -> bool:
    known, version = held[0](), held[1]
    if known is None or _version(known) != version:
        return False
    return known is block or _same_memory(known, block) or _equal(known, block)


def _same_memory(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() and _layout(first) == _layout(second)


def _layout(block: Tensor) -> tuple[Any, ...]:
    return block.shape, block.stride(), block.dtype, block.device


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and first.device == second.device and torch.equal(first, second)


def _all_equal(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> bool:
    if len(first) != len(second):
        return False
    pairs = zip(first, second, strict=True)
    return all(a is b or (a is not None and b is not None and _equal(a, b)) for a, b in pairs)
