"""Rank samples that are sharded over processes, without moving the gallery.

Each rank keeps the samples that it saw. The queries go to every rank, which scores them against its own part of the
gallery; the scores of positives are put together, each rank counts its own negatives above them, and the counts are
added up. All ranks end with the same ranks, those that one process would find with all samples.

An error on one rank is an error on all: see `base.process_group` for which steps are to be a `Group.together`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import Relevance, find_relevance
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, Rows, gallery_statistics, score_dtype
from reid_torchmetrics.metrics.base import Group, Settings, meet
from reid_torchmetrics.metrics.reid import ranking_cache, sampler_padding
from reid_torchmetrics.metrics.reid.ranking_cache import Entry, Ranking
from reid_torchmetrics.metrics.reid.ranking_options import RankingOptions
from reid_torchmetrics.metrics.reid.samples import GALLERY, QUERY, Samples
from reid_torchmetrics.metrics.reid.sharded_counting import Shard, count_ranks_together
from reid_torchmetrics.metrics.reid.sharded_samples import (
    DTYPES,
    MOST_RANKINGS,
    NUM_STATUS,
    Held,
    Shared,
    first_of_each,
    gather_samples,
    held_together,
    promoted,
    share,
    status,
)
from reid_torchmetrics.metrics.reid.whole_ranking import NonFinite, labels_of, no_query_reason, rank_whole, unranked

_PLACES_OF_A_RANK = 1 << 40  # more than it has samples: without `index` the gallery is in order rank by rank


@torch.no_grad()
def rank_together(
    group: Group,
    collect: Callable[[], Samples],
    options: RankingOptions,
    describe: Callable[[], Settings],
    *,
    max_bytes: int,
    warn: bool,
) -> Ranking:
    """Rank the samples of all ranks, or find that they were ranked for another metric.

    `collect` gives this rank's samples, and `describe` what was asked for, which must be the same on all ranks. An
    error at the end is this rank's alone: `Group.conclude` tells the others.

    Raises:
        DistributedMetricError: an error on some rank, or metrics or samples that differ between ranks.
    """

    def look() -> tuple[tuple[Samples, list[Entry]], Settings, list[int]]:
        samples, settings = collect(), describe()
        known = ranking_cache.rankings.find(samples, options, group.members)[:MOST_RANKINGS]
        return (samples, known), settings, status(samples, [entry.number for entry in known])

    (samples, known), table = meet(group, look, NUM_STATUS)
    held = held_together(table)
    found = [entry for entry in known if entry.number == held.ranking]
    if not found:
        ranking = _rank(group, samples, held, options, max_bytes)
        found = [Entry(ranking, samples, options, group.members, held.next_number)]
        ranking_cache.rankings.keep(found[0], samples)
    if warn and found[0].ranking.problem:  # on all ranks alike; a warning may be an error
        group.together(lambda: found[0].warn_once(samples, warnings.warn) if group.rank == 0 else None)
    return found[0].ranking


def _rank(group: Group, samples: Samples, held: Held, options: RankingOptions, max_bytes: int) -> Ranking:
    samples, bad = _examine(group, samples, held, options)
    if not held.has_index:
        sampler_padding.warn_if_padded(group, samples)
    query, gallery = (_positions(group, samples, role) for role in (QUERY, GALLERY))
    _, sizes = group.exchange(lambda: (None, [len(query), len(gallery)]), 2)
    num_queries, num_gallery = ([row[column] for row in sizes] for column in range(2))
    if bad.found:
        return unranked(sum(num_queries), samples.device, bad.reason())
    if options.needs_all_samples:
        return rank_whole(gather_samples(group, samples, held), options, max_bytes)
    queries = share(group, samples, query, num_queries, held)
    part, dtype = _part(group, samples, queries, gallery, options)
    sums = _survey(group, part.gallery, dtype, options)
    scores = group.together(
        lambda: EmbeddingScores(
            part.query, part.gallery, similarity=options.similarity, max_bytes=max_bytes, dtype=dtype, sums=sums
        )
    )
    ranks, counts = count_ranks_together(group, Shard(scores, part.relevance, part.places, TIE_POLICIES[options.ties]))
    problem = None if counts.valid else no_query_reason(counts, sum(num_gallery))
    return Ranking(ranks, counts, problem, labels_of(part.relevance))


def _examine(group: Group, samples: Samples, held: Held, options: RankingOptions) -> tuple[Samples, NonFinite]:
    """This rank's samples, and the embeddings of all ranks that are not finite; the first of them are of one rank."""

    def look() -> tuple[tuple[Samples, NonFinite], list[int]]:
        complete = held.complete(samples)
        complete.check_roles(leave_one_out=options.leave_one_out)
        bad = NonFinite.of(complete)
        return (complete, bad), [*bad[:4], len(bad.first), *bad.first, *[0] * (5 - len(bad.first))]

    (complete, bad), table = group.exchange(look, 10)
    total, found, queries, gallery = (sum(row[column] for row in table) for column in range(4))
    source = next((rank for rank, row in enumerate(table) if row[1]), 0)
    place = bad.numbered_by if held.has_index else f"{bad.numbered_by} of rank {source}"
    return complete, NonFinite(total, found, queries, gallery, table[source][5 : 5 + table[source][4]], place)


def _positions(group: Group, samples: Samples, role: int) -> Tensor:
    """Positions of the samples of a role; one that a lower rank has too, by `index`, counts there."""
    positions = samples.positions(role)
    if samples.index is None:
        return positions
    return positions[first_of_each(group, samples.index[positions])]


def _part(
    group: Group, samples: Samples, queries: Shared, gallery: Tensor, options: RankingOptions
) -> tuple[_Part, torch.dtype]:
    """This rank's part, and the dtype of scores, which depends on the largest embeddings, wherever they are."""

    def look() -> tuple[_Part, list[int]]:
        part = _Part.of(samples, queries, gallery, options, rank=group.rank)
        return part, [DTYPES.index(score_dtype(options.similarity, samples.rows(queries.positions), part.gallery))]

    part, codes = group.exchange(look, 1)
    return part, promoted(DTYPES[code] for (code,) in codes)


def _survey(group: Group, gallery: Rows, dtype: torch.dtype, options: RankingOptions) -> Tensor:
    """What a similarity must know of the gallery of all ranks."""

    def look() -> tuple[Tensor, Tensor]:
        own = gallery_statistics(options.similarity, gallery, dtype).to(group.device)
        return own, own.new_empty(len(own) + 1)

    def fill(out: Tensor) -> None:
        out.copy_(own)

    own, buffer = group.together(look)
    return (group.sum(buffer, fill) if len(own) else own).to(gallery.device)


@dataclass(frozen=True)
class _Part:
    """The retrieval problem of all queries against one rank's gallery."""

    query: Rows
    gallery: Rows
    relevance: Relevance
    places: Tensor | None
    """of the kept gallery items in the order of the whole gallery, under tie policies `by_place`"""

    @classmethod
    def of(cls, samples: Samples, queries: Shared, gallery: Tensor, options: RankingOptions, *, rank: int) -> _Part:
        """Take all queries and the positions of this rank's gallery items."""
        labels = queries.labels.to(samples.device)
        order = None if samples.index is None else labels[:, 2].argsort()
        by_place = TIE_POLICIES[options.ties].by_place is not None
        if by_place:
            gallery = samples.in_order(gallery)
        self_index = torch.full_like(labels[:, 0], -1)
        self_index[queries.own] = samples.column_of(gallery, queries.positions)
        if order is not None:
            labels, self_index = labels[order], self_index[order]
        relevance = find_relevance(
            labels[:, 0],
            samples.identities[gallery],
            None if samples.cameras is None else labels[:, 1],
            None if samples.cameras is None else samples.cameras[gallery],
            **options.of_relevance,
            self_index=self_index if bool((self_index >= 0).any()) else None,
        )
        kept = gallery if relevance.kept is None else gallery[relevance.kept]
        places = kept + rank * _PLACES_OF_A_RANK if samples.index is None else samples.index[kept]
        return cls(
            Rows([queries.embeddings.to(samples.device)], order),
            samples.rows(kept),
            relevance,
            places if by_place else None,
        )
