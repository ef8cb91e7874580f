"""Rank samples that are spread over ranks: the gallery stays where it is.

Each rank keeps the samples that it saw. The queries go to every rank, which scores them against its own part of the
gallery; the scores of positives are put together, each rank counts its own negatives above them, and the counts are
added up. All ranks end with the same ranks, those that one process would find with all samples.

Every step that may fail is a `Group.together`, so that an error on one rank is an error on all.
"""

from __future__ import annotations

import functools
import hashlib
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import Relevance, find_relevance
from reid_torchmetrics.functional.retrieval.rows import Rows
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, score_dtype
from reid_torchmetrics.functional.retrieval.similarity import survey
from reid_torchmetrics.metrics import _padding, _ranking_cache
from reid_torchmetrics.metrics._distributed import DistributedMetricError, Group
from reid_torchmetrics.metrics._ranking import NonFinite, no_query_reason, unranked
from reid_torchmetrics.metrics._ranking_cache import Entry, Ranking, RankingOptions
from reid_torchmetrics.metrics._samples import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics._sharded_counting import Shard, count_ranks_together

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MOST_ENTRIES = 8  # rankings that a rank can offer for the samples at hand


@dataclass(frozen=True)
class _Held:
    """What the ranks hold together."""

    dimension: int
    dtype: torch.dtype
    has_cameras: bool
    has_index: bool
    ranking: int
    """the number of a ranking of these samples that every rank remembers, or 0"""
    next_number: int
    """a number for a new ranking"""


@torch.no_grad()
def rank_together(
    group: Group,
    collect: Callable[[], Samples],
    options: RankingOptions,
    settings: str,
    *,
    max_bytes: int,
    warn: bool,
) -> Ranking:
    """Rank the samples of all ranks, or find that they were ranked for another metric.

    `collect` gives this rank's samples, and `settings` describes the metric, which must be the same on all ranks.

    Raises:
        DistributedMetricError: an error on some rank, or metrics or samples that differ between ranks.
    """

    def look() -> tuple[Samples, list[Entry]]:
        samples = collect()
        return samples, _ranking_cache.rankings.find(samples, options, group.members)[:_MOST_ENTRIES]

    samples, entries = group.together(look)
    held = _agree_on_samples(group, samples, settings, [entry.number for entry in entries])
    found = [entry for entry in entries if entry.number == held.ranking]
    if not found:
        ranking = _rank(group, samples, held, options, max_bytes)
        found = [Entry(ranking, samples, options, group.members, held.next_number)]
        _ranking_cache.rankings.keep(found[0], samples)
    if warn and group.rank == 0:
        found[0].warn_once(samples, warnings.warn)
    return found[0].ranking


def _agree_on_samples(group: Group, samples: Samples, settings: str, known: list[int]) -> _Held:
    """Compare what the ranks hold; every rank comes to the same conclusion, also that they do not fit together."""
    digest = int.from_bytes(hashlib.sha256(settings.encode()).digest()[:7], "big")
    status = [
        digest,
        random.SystemRandom().getrandbits(62) | 1,  # not torch's generator, whose state is the user's
        samples.embeddings[0].shape[1] if samples.embeddings else 0,
        _DTYPES.index(_promoted(block.dtype for block in samples.embeddings)),
        int(samples.cameras is not None),
        int(samples.index is not None),
        *known,
        *[0] * (_MOST_ENTRIES - len(known)),
    ]
    table = group.gather(torch.tensor(status)).tolist()
    if len({row[0] for row in table}) > 1:
        raise _differing("class and options", group.texts(settings))
    filled = [row for row in table if row[2]] or table
    if len({row[2] for row in filled}) > 1:
        raise _differing("embedding dimension", [row[2] or "no samples" for row in table])
    for column, argument in ((4, "cameras"), (5, "index")):
        if len({row[column] for row in filled}) > 1:
            raise _differing(f"use of `{argument}`", ["given" if row[column] else "not given" for row in table])
    common = set.intersection(*({number for number in row[6:] if number} for row in table))
    return _Held(
        dimension=filled[0][2] or 1,
        dtype=_promoted(_DTYPES[row[3]] for row in filled),
        has_cameras=bool(filled[0][4]),
        has_index=bool(filled[0][5]),
        ranking=max(common, default=0),
        next_number=table[0][1],
    )


def _rank(group: Group, samples: Samples, held: _Held, options: RankingOptions, max_bytes: int) -> Ranking:
    samples = group.together(lambda: _with_a_block(samples, held))
    bad = _non_finite(group, samples)
    if not held.has_index:
        _padding.warn_if_padded(group, samples)
    query, gallery = (_first_of_each(group, samples, role) for role in (QUERY, GALLERY))
    sizes = group.gather(torch.tensor([len(query), len(gallery), len(samples)])).T.tolist()
    if bad.found:
        return unranked(sum(sizes[0]), samples.device, bad.reason())
    queries = _share_queries(group, samples, query, sizes[0], held)
    part = group.together(lambda: _Part.of(samples, queries, query, gallery, sum(sizes[2][: group.rank]), options))
    dtype = _score_dtype(group, samples.rows(query), part.gallery, options)
    sums = group.together(lambda: survey(options.similarity, part.gallery, dtype).to(group.device))
    sums = _total(group, sums).to(samples.device)
    scores = group.together(
        lambda: EmbeddingScores(
            part.query, part.gallery, similarity=options.similarity, max_bytes=max_bytes, dtype=dtype, sums=sums
        )
    )
    ranks, counts = count_ranks_together(group, Shard(scores, part.relevance, part.places, options.ties))
    return Ranking(ranks, counts, None if counts.valid else no_query_reason(counts, sum(sizes[1])))


def _total(group: Group, values: Tensor) -> Tensor:
    def fill(out: Tensor) -> None:
        out.copy_(values)

    return group.sum(values.new_empty(len(values) + 1), fill)


def _with_a_block(samples: Samples, held: _Held) -> Samples:
    """The samples of a rank that may have none."""
    if samples.embeddings:
        return samples
    none = torch.empty(0, dtype=torch.int64, device=samples.device)
    return replace(
        samples,
        embeddings=[torch.empty((0, held.dimension), dtype=held.dtype, device=samples.device)],
        cameras=none if held.has_cameras else None,
        index=none if held.has_index else None,
    )


def _non_finite(group: Group, samples: Samples) -> NonFinite:
    """The embeddings of all ranks that are not finite; the first of them are those of one rank."""
    bad = group.together(lambda: NonFinite.of(samples))
    first = [*bad.first, *[0] * (5 - len(bad.first))]
    table = group.gather(torch.tensor([*bad[:4], len(bad.first), *first])).tolist()
    total, found, queries, gallery = (sum(row[column] for row in table) for column in range(4))
    source = next((rank for rank, row in enumerate(table) if row[1]), 0)
    place = bad.numbered_by if samples.index is not None else f"{bad.numbered_by} of rank {source}"
    return NonFinite(total, found, queries, gallery, table[source][5 : 5 + table[source][4]], place)


def _score_dtype(group: Group, query: Rows, gallery: Rows, options: RankingOptions) -> torch.dtype:
    """The dtype of scores, which depends on the largest embeddings, wherever they are."""
    own = group.together(lambda: score_dtype(options.similarity, query, gallery))
    return _promoted(_DTYPES[code] for code in group.gather(torch.tensor([_DTYPES.index(own)]))[:, 0].tolist())


def _first_of_each(group: Group, samples: Samples, role: int) -> Tensor:
    """Positions of the samples of a role; one that a lower rank has too, by `index`, counts there."""
    positions, index = group.together(lambda: samples.positions(role)), samples.index
    if index is None:
        return positions
    sizes = group.gather(torch.tensor([len(positions)]))[:, 0].tolist()

    def prepare() -> tuple[Tensor, Tensor, Tensor]:
        own = index[positions].to(group.device)
        return own, torch.empty(max(sizes), dtype=torch.int64, device=group.device), torch.zeros_like(own).bool()

    own, numbers, is_repeated = group.together(prepare)
    for source, size in enumerate(sizes[:-1]):  # the last has none below it
        part = numbers[:size]
        if source == group.rank:
            part.copy_(own)
        group.broadcast(part, source)
        if source < group.rank:
            is_repeated = is_repeated | torch.isin(own, part)
    return group.together(lambda: positions[~is_repeated.to(positions.device)])


@dataclass(frozen=True)
class _Queries:
    """All queries, in the order of the ranks."""

    embeddings: Tensor
    labels: Tensor
    """identity, camera, index: int64 [queries, 3]"""
    own: slice
    """those of this rank"""


def _share_queries(group: Group, samples: Samples, query: Tensor, sizes: list[int], held: _Held) -> _Queries:
    first = sum(sizes[: group.rank])

    def prepare() -> _Queries:
        queries = _Queries(
            torch.empty((sum(sizes), held.dimension), dtype=held.dtype, device=group.device),
            torch.zeros((sum(sizes), 3), dtype=torch.int64, device=group.device),
            slice(first, first + len(query)),
        )
        for column, labels in enumerate((samples.identities, samples.cameras, samples.index)):
            if labels is not None:
                queries.labels[queries.own, column] = labels[query].to(group.device)
        filled = first
        for piece in samples.rows(query).walk(held.dtype):
            queries.embeddings[filled : filled + len(piece)] = piece
            filled += len(piece)
        return queries

    queries = group.together(prepare)
    group.share(queries.labels, sizes)
    group.share(queries.embeddings, sizes)
    return queries


@dataclass(frozen=True)
class _Part:
    """The retrieval problem of all queries against one rank's gallery."""

    query: Rows
    gallery: Rows
    relevance: Relevance
    places: Tensor | None
    """of the kept gallery items in the order of the whole gallery, under "stable" """

    @classmethod
    def of(
        cls,
        samples: Samples,
        queries: _Queries,
        query: Tensor,
        gallery: Tensor,
        num_before: int,
        options: RankingOptions,
    ) -> _Part:
        """Take all queries, the positions of the own ones and of the gallery, and how many samples lower ranks have."""
        labels = queries.labels.to(samples.device)
        order = None if samples.index is None else labels[:, 2].argsort()
        if options.ties == "stable":
            gallery = samples.in_order(gallery)
        self_index = torch.full_like(labels[:, 0], -1)
        self_index[queries.own] = samples.column_of(gallery, query)
        if order is not None:
            labels, self_index = labels[order], self_index[order]
        relevance = find_relevance(
            labels[:, 0],
            samples.identities[gallery],
            None if samples.cameras is None else labels[:, 1],
            None if samples.cameras is None else samples.cameras[gallery],
            same_camera=options.same_camera,
            junk_identities=options.junk_identities,
            self_index=self_index if bool((self_index >= 0).any()) else None,
        )
        kept = gallery if relevance.kept is None else gallery[relevance.kept]
        places = kept + num_before if samples.index is None else samples.index[kept]
        return cls(
            Rows([queries.embeddings.to(samples.device)], order),
            samples.rows(kept),
            relevance,
            places if options.ties == "stable" else None,
        )


def _promoted(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    return functools.reduce(torch.promote_types, dtypes, torch.float16)


def _differing(what: str, values: Sequence[object]) -> DistributedMetricError:
    listed = "; ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
    return DistributedMetricError(f"All ranks must have the same {what}; got {listed}.")
