"""The waist of retrieval evaluation: the ranks of every query's positives, found by counting.

The rank of a positive is one plus the candidates before it, and a candidate is before it if it scores higher: no
gallery is sorted with its indices. The positives are known from the labels; a tile of scores is filled, their scores
are read, they and the junk are taken out, and the negatives above each positive are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.counting import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import Relevance, find_relevance
from reid_torchmetrics.functional.retrieval.rows import Rows, non_finite_rows
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, GivenScores, Scores
from reid_torchmetrics.functional.retrieval.similarity import CustomSimilarity
from reid_torchmetrics.functional.retrieval.tiles import Tiles

DEFAULT_MAX_BYTES = 256 << 20


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """The ranks of the positives of every query: what each measure of retrieval is computed from.

    Blocks of queries append: the ranks of two sets of queries against one gallery are the concatenation of theirs.
    """

    rank: Int[Tensor, " positives"]
    """int64, 1-based, grouped by query, ascending inside a query"""
    num_positives: Int[Tensor, " queries"]
    """int64; 0 for a query that cannot be evaluated"""
    num_candidates: Int[Tensor, " queries"]
    """int64; gallery items left for the query once junk is removed"""

    def __post_init__(self) -> None:
        _checks.integer_labels("num_positives", self.num_positives)
        _checks.integer_labels("num_candidates", self.num_candidates, len(self.num_positives))
        _checks.integer_labels("rank", self.rank, int(self.num_positives.sum()), self.num_positives.device)

    @property
    def num_queries(self) -> int:
        """Number of queries, with those that have no positive."""
        return len(self.num_positives)

    def split(self, max_positives: int = 1 << 22) -> Iterator[PositiveRanks]:
        """Blocks of queries with about `max_positives` positives each, so that measures need little memory."""
        stops = self.num_positives.cumsum(0)
        first, done = 0, 0
        while first < self.num_queries:
            last = int(torch.searchsorted(stops, done + max_positives, right=True))
            last = max(first + 1, last)
            stop = int(stops[last - 1])
            rows = slice(first, last)
            yield PositiveRanks(self.rank[done:stop], self.num_positives[rows], self.num_candidates[rows])
            first, done = last, stop

    @staticmethod
    def concatenate(blocks: Sequence[PositiveRanks]) -> PositiveRanks:
        """The ranks of all queries of `blocks`, in order."""
        return PositiveRanks(
            torch.cat([block.rank for block in blocks]),
            torch.cat([block.num_positives for block in blocks]),
            torch.cat([block.num_candidates for block in blocks]),
        )


@torch.no_grad()
def rank_positives(
    query: Float[Tensor, "queries dim"],
    gallery: Float[Tensor, "gallery dim"],
    query_identities: Integer[Tensor, " queries"],
    gallery_identities: Integer[Tensor, " gallery"],
    query_cameras: Integer[Tensor, " queries"] | None = None,
    gallery_cameras: Integer[Tensor, " gallery"] | None = None,
    *,
    similarity: str | CustomSimilarity = "cosine",
    same_camera: str = "same_identity",
    junk_identities: Collection[int] = (-1,),
    ties: str = "pessimistic",
    self_index: Integer[Tensor, " queries"] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> PositiveRanks:
    """Rank every query's positives in the gallery by the similarity of embeddings.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the gallery.
        query_identities: identities of the queries.
        gallery_identities: identities of the gallery.
        query_cameras: cameras of the queries; None together with `gallery_cameras` means that no camera rule applies.
        gallery_cameras: cameras of the gallery.
        similarity: "cosine", "euclidean", "dot" or a function of a block of queries [q, D] and a block of gallery
            items [g, D] that returns scores [q, g], higher is closer, and writes to neither.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera (open-reid's CUHK03), "keep" drops nothing.
        junk_identities: gallery items of these identities are dropped for every query.
        ties: who goes first among equal scores: "pessimistic" the negative, "optimistic" the positive, "stable" the
            item that comes first in the gallery. Evaluators that sort leave this to their sorting routine.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.
        max_bytes: bound on the scores, and on the prepared gallery rows, that are held at a time.

    Returns:
        Ranks among the query's candidates. A query without positives has none; an empty gallery gives no ranks.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN.
    """
    _check_embeddings(query, gallery)
    _check_lengths(len(query), len(gallery), query_identities, gallery_identities)
    relevance = find_relevance(
        query_identities,
        gallery_identities,
        query_cameras,
        gallery_cameras,
        same_camera=same_camera,
        junk_identities=junk_identities,
        self_index=self_index,
    )
    _checks.positive_int("max_bytes", max_bytes)
    scores = EmbeddingScores(Rows([query]), Rows([gallery], relevance.kept), similarity=similarity, max_bytes=max_bytes)
    return count_ranks(scores, relevance, ties=ties)


@torch.no_grad()
def rank_positives_from_scores(
    scores: Float[Tensor, "queries gallery"],
    query_identities: Integer[Tensor, " queries"],
    gallery_identities: Integer[Tensor, " gallery"],
    query_cameras: Integer[Tensor, " queries"] | None = None,
    gallery_cameras: Integer[Tensor, " gallery"] | None = None,
    *,
    same_camera: str = "same_identity",
    junk_identities: Collection[int] = (-1,),
    ties: str = "pessimistic",
    self_index: Integer[Tensor, " queries"] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> PositiveRanks:
    """Rank every query's positives by given scores, higher is closer; a distance matrix enters as `-distances`.

    Minus infinity and infinity are ordinary scores. `scores` is not written to. The other arguments, what is returned
    and what is raised are those of `rank_positives`.
    """
    _checks.floating_matrix("scores", scores, "G")
    _check_lengths(len(scores), scores.shape[1], query_identities, gallery_identities)
    relevance = find_relevance(
        query_identities,
        gallery_identities,
        query_cameras,
        gallery_cameras,
        same_camera=same_camera,
        junk_identities=junk_identities,
        self_index=self_index,
    )
    _checks.positive_int("max_bytes", max_bytes)
    return count_ranks(GivenScores(scores, kept=relevance.kept, max_bytes=max_bytes), relevance, ties=ties)


def count_ranks(scores: Scores, relevance: Relevance, *, ties: str) -> PositiveRanks:
    """Rank the positives of all queries, tile by tile; at most `scores.max_bytes` of scores are held."""
    _checks.one_of("ties", ties, TIE_POLICIES)
    tiles = Tiles(scores, relevance, ties=ties)
    # Filled in place: with thousands of positives per query, ranks are larger than embeddings.
    rank = torch.empty(int(relevance.run_length.sum()), dtype=torch.int64, device=scores.device)
    num_positives, num_candidates = torch.zeros_like(relevance.run_length), torch.zeros_like(relevance.run_length)
    filled = 0
    for rows in tiles.rows():
        tile = tiles.rank(rows)
        num_positives[rows], num_candidates[rows] = tile.num_positives, tile.num_candidates
        rank[filled : filled + len(tile.rank)] = tile.rank
        filled += len(tile.rank)
    return PositiveRanks(rank[:filled], num_positives, num_candidates)


def _check_embeddings(query: Tensor, gallery: Tensor) -> None:
    _checks.embeddings("query", query)
    _checks.embeddings("gallery", gallery)
    _checks.same_device("query", query, "gallery", gallery)
    _checks.same_dimension("query", query.shape[1], "gallery", gallery.shape[1])
    _checks.finite("query", non_finite_rows(query))
    _checks.finite("gallery", non_finite_rows(gallery))


def _check_lengths(num_queries: int, num_gallery: int, query_labels: Tensor, gallery_labels: Tensor) -> None:
    _checks.integer_labels("query_identities", query_labels, num_queries)
    _checks.integer_labels("gallery_identities", gallery_labels, num_gallery)
