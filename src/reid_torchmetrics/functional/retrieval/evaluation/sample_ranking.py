"""Rank samples that processes hold, without moving the gallery.

Each process keeps the samples that it saw. The queries go to every process, which scores them against its own part of
the gallery; `ranking.sharded_counting` adds up the counts. All processes end with the same ranks, those that one
process would find with all samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation.problem import Embeddings, Labels, RetrievalProblem
from reid_torchmetrics.functional.retrieval.evaluation.ranking import Ranking, rank_problem
from reid_torchmetrics.functional.retrieval.evaluation.ranking_options import RankingOptions
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts
from reid_torchmetrics.functional.retrieval.sharding import (
    GALLERY,
    QUERY,
    Queries,
    Samples,
    counted_positions,
    examine_samples,
    gather_samples,
    share_queries,
    warn_if_padded,
)
from reid_torchmetrics.functional.world import ALONE, World

_PLACES_OF_A_PROCESS = 1 << 40  # more than it has samples: without `index` the gallery is in order process by process


@torch.no_grad()
def rank_samples(samples: Samples, options: RankingOptions, world: World = ALONE, *, max_bytes: int) -> Ranking:
    """Rank the samples of all processes, each of which gives its own.

    Where nothing can be ranked, no query has a positive, and `Ranking.undefined` says why.

    Raises:
        DistributedMetricError: an error on some process, or samples that differ between processes.
        ValueError: scores that are NaN, samples that are queries only where each is searched among the others.
    """
    # What all hold together: one dimension and dtype, the same labels, finite embeddings.
    held = examine_samples(world, samples, leave_one_out=options.protocol.leave_one_out)
    samples = held.samples
    if world.size > 1 and samples.index is None:
        warn_if_padded(world, samples)
    # Which samples of this process count: of those that share `index`, the first of the lowest process.
    query, gallery = (counted_positions(world, samples, role) for role in (QUERY, GALLERY))
    _, table = world.guarded_all_gather(lambda: (None, _Sizes(len(query), len(gallery))))
    sizes = [_Sizes._make(row) for row in table]
    if held.non_finite.found:
        queries = share_queries(world, held, query, gallery, [size.queries for size in sizes])
        return _unranked(queries, held.non_finite.reason())
    if world.size > 1 and options.needs_all_samples:
        # Every process gets all samples, and goes on by itself.
        return rank_samples(gather_samples(world, held), options, max_bytes=max_bytes)
    # All queries against this process's part of the gallery.
    gallery = samples.in_order(gallery) if _needs_order(options) else gallery
    queries = share_queries(world, held, query, gallery, [size.queries for size in sizes])
    problem = world.guarded(lambda: _problem(world, samples, queries, gallery, options, max_bytes))
    ranking = rank_problem(problem, options, world)
    if ranking.counts.valid:
        return ranking
    return replace(ranking, undefined=no_query_reason(ranking.counts, sum(size.gallery for size in sizes)))


class _Sizes(NamedTuple):
    """How many samples of a process count in each role."""

    queries: int
    gallery: int


def _needs_order(options: RankingOptions) -> bool:
    """Whether the order of the gallery decides anything."""
    return TIE_POLICIES[options.ties].by_place is not None or options.needs_all_samples


def _problem(
    world: World,
    samples: Samples,
    queries: Queries,
    gallery: Int[Tensor, " gallery"],
    options: RankingOptions,
    max_bytes: int,
) -> RetrievalProblem:
    """All queries against this process's part of the gallery."""
    places = None
    if world.size > 1 and _needs_order(options):
        first = world.process * _PLACES_OF_A_PROCESS
        places = gallery + first if samples.index is None else samples.index[gallery]
    cameras = None if samples.cameras is None else samples.cameras[gallery]
    return RetrievalProblem(
        Embeddings(queries.embeddings, samples.rows(gallery), options.similarity, options.rerank, max_bytes),
        Labels(
            queries.identities, samples.identities[gallery], queries.cameras, cameras, self_index=queries.self_index
        ),
        places,
        queries.numbers,
    )


def _unranked(queries: Queries, reason: str) -> Ranking:
    """No query has a rank, so that every measure is NaN."""
    nothing = torch.zeros_like(queries.identities)
    num_queries = len(nothing)
    index = torch.arange(num_queries, device=nothing.device) if queries.numbers is None else queries.numbers
    counts = QueryCounts(num_queries, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=num_queries)
    ranks = PositiveRanks(nothing[:0], nothing, nothing)
    return Ranking(ranks, counts, queries.identities, queries.cameras, index, undefined=reason)


def no_query_reason(counts: QueryCounts, num_gallery: int) -> str:
    """Why no query has a positive."""
    why = {
        (False, False): "none has a positive, as no sample was given",
        (True, False): "none has a positive; pass `is_query=False` for the gallery",
        (False, True): "none has a positive; pass `is_query=True` for the queries",
        (True, True): f"{counts.not_in_gallery} have no other item of their identity in the gallery that is searched,"
        f" {counts.same_camera_only} lost every positive to the camera rule, {counts.junk} are junk",
    }[counts.total > 0, num_gallery > 0]
    asked = f"{counts.total} queries against {num_gallery} gallery items"
    return f"No query can be evaluated, so the result is NaN: of {asked}, {why}."


NO_SAMPLE = no_query_reason(QueryCounts(0, valid=0, junk=0, not_in_gallery=0, same_camera_only=0), num_gallery=0)
