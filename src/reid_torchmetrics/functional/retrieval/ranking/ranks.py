"""Rank the positives of every query, by counting.

The rank of a positive is one plus the candidates before it, and a candidate is before it if it scores higher: no
gallery is sorted with its indices. The positives are known from the labels: a tile of scores is filled, the scores of
the positives are read, positives and junk are taken out, and the negatives above each positive are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Integer, Real
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _progress
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance, find_relevance, number_names
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    Scores,
    check_fit,
    given_scores,
    score_embeddings,
)

from .counting import Positives
from .positive_ranks import PositiveRanks, TiedGroups, unchecked_ranks
from .tie_policies import TIE_POLICIES, TiePolicy, best_first
from .tiles import GalleryPart, Tiles, cells_of_positives

_LABELS = ("query_identities", "gallery_identities", "query_cameras", "gallery_cameras")


@torch.no_grad()
def rank_positives(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    gallery: Float[Tensor, "gallery dim"] | _checks.Array,
    query_identities: Real[Tensor, " queries"] | _checks.IntegersOrNames,
    gallery_identities: Real[Tensor, " gallery"] | _checks.IntegersOrNames,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    similarity: str | CustomSimilarity = "cosine",
    same_camera: str = "same_identity",
    junk_identities: Collection[int] = (-1,),
    ties: str = "pessimistic",
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    max_bytes: int | None = None,
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
        ties: what goes first among equal scores: "pessimistic" the negative, "optimistic" the positive, "stable" the
            item that comes first in the gallery; "grouped" gives all of them the last of their ranks (scikit-learn's
            average precision), and under "expected" measures are means over all orders of equal scores. Evaluators
            that sort leave this to their sorting routine.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.
        max_bytes: bound on the scores, and on the prepared gallery rows, that are held at a time; None for 256 MiB, or
            more on a GPU: an eighth of its free memory. Ranks do not depend on it.

    Returns:
        Ranks among the query's candidates. A query without positives has none; an empty gallery gives no ranks.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN.
    """
    query = _checks.embeddings("query", query)  # before the labels, which are compared with its length
    gallery = _checks.embeddings("gallery", gallery)
    labels = query_identities, gallery_identities, query_cameras, gallery_cameras
    options = {"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index}
    relevance = _find_relevance((len(query), len(gallery)), labels, options, query.device)
    scores = score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes)
    return count_ranks(scores, relevance, ties=ties)


@torch.no_grad()
def rank_positives_from_scores(
    scores: Float[Tensor, "queries gallery"] | _checks.Array,
    query_identities: Real[Tensor, " queries"] | _checks.IntegersOrNames,
    gallery_identities: Real[Tensor, " gallery"] | _checks.IntegersOrNames,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    same_camera: str = "same_identity",
    junk_identities: Collection[int] = (-1,),
    ties: str = "pessimistic",
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    max_bytes: int | None = None,
) -> PositiveRanks:
    """Rank every query's positives by given scores, higher is closer; a distance matrix enters as `-distances`.

    Minus infinity and infinity are ordinary scores. `scores` is not written to. The other arguments, the result
    and the errors are as in `rank_positives`.
    """
    scores = _checks.floating_matrix("scores", scores, "G")
    labels = query_identities, gallery_identities, query_cameras, gallery_cameras
    options = {"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index}
    relevance = _find_relevance(scores.shape, labels, options, scores.device)
    return count_ranks(given_scores(scores, relevance, max_bytes=max_bytes), relevance, ties=ties)


def _find_relevance(sizes: Sequence[int], labels: Sequence[Any], options: Any, device: torch.device) -> Relevance:
    named = number_names(dict(zip(_LABELS, labels, strict=True)), options)
    given: dict[str, Any] = dict(zip(_LABELS, _arrays.as_tensors(*named.values(), device=device), strict=True))
    for name, size in zip(_LABELS[:2], sizes, strict=True):  # cameras may be left out
        given[name] = _checks.whole_labels(name, given[name], size)
    return workers.run(lambda: find_relevance(**given, **options), given["query_identities"].device)


@torch.no_grad()
def count_ranks(scores: Scores, relevance: Relevance, *, ties: str) -> PositiveRanks:
    """Rank the positives of all queries, tile by tile; at most `scores.max_bytes` of scores are held.

    Raises:
        ValueError: an unknown tie policy, scores that were made for another relevance, or that are NaN.
    """
    _checks.one_of("ties", ties, TIE_POLICIES)
    check_fit(scores, relevance)
    part = GalleryPart(scores, relevance, TIE_POLICIES[ties])
    return workers.run(lambda: _rank_tiles(part), scores.device, inside=part.keeps_thread)


def _rank_tiles(part: GalleryPart) -> PositiveRanks:
    tiles, table = Tiles(part), RankTable(part.ties, part.relevance.run_length)
    for rows in _progress.steps(tiles.rows, "Ranking"):
        tile = part.relevance.tile(rows)
        table.num_positives[rows], table.num_candidates[rows] = tile.positive.sum(1), tile.num_candidates
        # A tile in which no query has a positive needs no score.
        if bool(tile.positive.any()):
            positives = best_first(tiles.read(rows, tile), tile.columns, tile.positive, ties=part.ties)
            counts = tiles.count(rows, tile, positives)
            cells = cells_of_positives(table.num_positives[rows], counts.shape[2])
            table.add(rows, positives, counts.flatten(1)[:, cells], cells)
    return table.ranks()


class RankTable:
    """The ranks of all positives, filled tile by tile in the order of the queries."""

    def __init__(self, ties: TiePolicy, num_listed: Int[Tensor, " queries"]) -> None:
        """Reserve ranks for all gallery items listed for a query; junk leaves some of them empty."""
        # Filled in place: with thousands of positives per query, ranks are larger than embeddings.
        shape = 4 if ties.groups else 1, int(num_listed.sum())  # the rank, and the fields of `TiedGroups`
        self._entries = torch.empty(shape, dtype=torch.int64, device=num_listed.device)
        self._filled, self._ties = 0, ties
        self.num_positives, self.num_candidates = torch.zeros_like(num_listed), torch.zeros_like(num_listed)

    def add(self, rows: slice, positives: Positives, counts: Int[Tensor, "counts positives"], cells: Tensor) -> None:
        """Append the positives of a tile, in these `cells_of_positives`, from the counts of negatives before them."""
        first, self._filled = self._filled, self._filled + len(cells)
        entries = self._entries[:, first : self._filled]
        # The rank is the negatives before, and the place j = 1, 2, ... among the positives of the query.
        entries[0] = counts[0] + (cells % positives.scores.shape[1] + 1)
        if self._ties.groups:
            # The group of a positive: from the first to the last positive of the row with its score.
            rising = -positives.scores
            better = torch.searchsorted(rising, rising)
            # Padding ties with a positive that scores minus infinity.
            last = torch.searchsorted(rising, rising, right=True).minimum(self.num_positives[rows, None])
            entries[1], entries[2] = better.view(-1)[cells], (last - better).view(-1)[cells]
            entries[3] = counts[1]

    def ranks(self) -> PositiveRanks:
        """The ranks of all tiles."""
        entries = self._entries[:, : self._filled]
        tied = TiedGroups(self._ties.name, *entries[1:]) if self._ties.groups else None
        return unchecked_ranks(entries[0], self.num_positives, self.num_candidates, tied)
