"""Rank the samples that a metric holds, once for all metrics that hold the same samples."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks, count_ranks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance, find_relevance
from reid_torchmetrics.functional.retrieval.reranking import rerank_embeddings
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, Scores
from reid_torchmetrics.metrics.reid import ranking_cache
from reid_torchmetrics.metrics.reid.ranking_cache import Entry, Ranking
from reid_torchmetrics.metrics.reid.ranking_options import RankingOptions
from reid_torchmetrics.metrics.reid.samples import GALLERY, QUERY, Samples


@torch.no_grad()
def rank_samples(samples: Samples, options: RankingOptions, *, max_bytes: int, warn: bool) -> Ranking:
    """Rank the samples of a metric, or find that another metric has ranked them already.

    Where nothing can be ranked, no query has a positive; `warn` says why, once per ranking.
    """
    entries = ranking_cache.rankings.find(samples, options)
    if not entries:
        entries = [Entry(rank_whole(samples, options, max_bytes), samples, options)]
        ranking_cache.rankings.keep(entries[0], samples)
    if warn:
        entries[0].warn_once(samples)
    return entries[0].ranking


def rank_whole(samples: Samples, options: RankingOptions, max_bytes: int) -> Ranking:
    """Rank the samples, which are all that there are."""
    samples.check_roles(leave_one_out=options.leave_one_out)
    query, gallery = samples.in_order(samples.positions(QUERY)), samples.positions(GALLERY)
    if TIE_POLICIES[options.ties].by_place or options.needs_all_samples:
        gallery = samples.in_order(gallery)
    bad = NonFinite.of(samples)
    if bad.found:
        return unranked(len(query), samples.device, bad.reason())
    relevance = _relevance(samples, query, gallery, options)
    scores = _scores(samples, query, gallery, relevance, options, max_bytes)
    ranks = count_ranks(scores, relevance, ties=options.ties)
    counts = relevance.counts(ranks.num_positives)
    problem = None if counts.valid else no_query_reason(counts, len(gallery))
    return Ranking(ranks, counts, problem, labels_of(relevance), _drawn(scores, relevance, options))


def labels_of(relevance: Relevance) -> tuple[Tensor | None, Tensor | None]:
    """Identities and cameras of the queries."""
    return relevance.query_identities, relevance.query_cameras


def _scores(
    samples: Samples, query: Tensor, gallery: Tensor, relevance: Relevance, options: RankingOptions, max_bytes: int
) -> Scores:
    if options.rerank is not None:
        return rerank_embeddings(
            samples.rows(query).all(),
            samples.rows(gallery).all(),
            relevance,
            options.rerank,
            similarity=options.similarity,
            max_bytes=max_bytes,
        )
    kept = gallery if relevance.kept is None else gallery[relevance.kept]
    return EmbeddingScores(samples.rows(query), samples.rows(kept), similarity=options.similarity, max_bytes=max_bytes)


def _drawn(scores: Scores, relevance: Relevance, options: RankingOptions) -> DrawnResults | None:
    if options.draw is None:
        return None
    return expect_draws(
        scores,
        relevance,
        options.draw,
        ties=options.ties,
        max_rank=options.max_rank,
        with_precision=options.with_precision,
        queries_in_draw=options.queries_in_draw,
    )


def _relevance(samples: Samples, query: Tensor, gallery: Tensor, options: RankingOptions) -> Relevance:
    own = samples.column_of(gallery, query)
    return find_relevance(
        samples.identities[query],
        samples.identities[gallery],
        None if samples.cameras is None else samples.cameras[query],
        None if samples.cameras is None else samples.cameras[gallery],
        **options.of_relevance,
        self_index=own if bool((own >= 0).any()) else None,
    )


class NonFinite(NamedTuple):
    """Embeddings that are NaN or infinite: how many of how many, and where the first are."""

    total: int
    found: int
    queries: int
    gallery: int
    first: list[int]
    numbered_by: str

    @classmethod
    def of(cls, samples: Samples) -> NonFinite:
        """Look through all samples."""
        bad = samples.non_finite()
        roles = samples.roles[bad]
        numbers, numbered_by = (bad, "samples") if samples.index is None else (samples.index[bad], "`index`")
        of_queries, of_gallery = int((roles & QUERY > 0).sum()), int((roles & GALLERY > 0).sum())
        return cls(len(samples), len(bad), of_queries, of_gallery, numbers[:5].tolist(), numbered_by)

    def reason(self) -> str:
        """Why there is no result."""
        return (
            f"{self.found} of {self.total} embeddings are NaN or infinite ({self.queries} of queries, {self.gallery} of"
            f" gallery items; first at {self.numbered_by} {self.first}), so the result is NaN."
        )


def unranked(num_queries: int, device: torch.device, problem: str) -> Ranking:
    """No query has a rank, so that every measure is NaN."""
    nothing = torch.zeros(num_queries, dtype=torch.int64, device=device)
    counts = QueryCounts(num_queries, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=num_queries)
    return Ranking(PositiveRanks(nothing[:0], nothing, nothing), counts, problem)


def no_query_reason(counts: QueryCounts, num_gallery: int) -> str:
    """Why no query has a positive."""
    reason = (
        "No query can be evaluated, so the result is NaN:"
        f" of {counts.total} queries against {num_gallery} gallery items, "
    )
    if not counts.total and not num_gallery:
        return f"{reason}none has a positive, as no sample was given."
    if not num_gallery:
        return f"{reason}none has a positive; pass `is_query=False` for the gallery."
    if not counts.total:
        return f"{reason}none has a positive; pass `is_query=True` for the queries."
    return (
        f"{reason}{counts.not_in_gallery} have no other item of their identity in the gallery that is searched,"
        f" {counts.same_camera_only} lost every positive to the camera rule, {counts.junk} are junk."
    )


NO_SAMPLE = no_query_reason(QueryCounts(0, valid=0, junk=0, not_in_gallery=0, same_camera_only=0), num_gallery=0)
