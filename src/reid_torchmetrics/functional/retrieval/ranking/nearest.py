"""The first candidates of every query, and its first positive: ranked lists, cut after k."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks, _progress
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, check_fit
from reid_torchmetrics.functional.world import ALONE, World

from .sharded_listing import CandidateLists, Listing
from .tie_policies import TIE_POLICIES
from .tiles import GalleryPart

_LARGEST_STEP = 8  # from one wanted query to the next: queries between cost less than another pass over the gallery


@dataclass(frozen=True, eq=False)
class Nearest:
    """The first k candidates of every query, best first, and its first positive; the same on all processes.

    No list is longer than the gallery without junk identities, `kept` of all processes, for any k; one place is
    always there. A query with fewer candidates is padded at the end.
    """

    positions: Int[Tensor, "queries k"]
    """int64; positions in the gallery, counting all its items; -1 at padding, and for items of other processes"""
    places: Int[Tensor, "queries k"]
    """int64; places of the candidates in the whole gallery, if they were given, else `positions`"""
    scores: Float[Tensor, "queries k"]
    """higher is closer, comparable between queries; NaN at padding"""
    positive: Bool[Tensor, "queries k"]
    """whether the candidate is a positive, else it is a negative; False at padding"""
    first_rank: Int[Tensor, " queries"]
    """int64; rank of the first positive among all candidates, 0 where there is none"""
    first_position: Int[Tensor, " queries"]
    """int64; as `positions`, of the first positive; -1 also where there is none"""
    first_place: Int[Tensor, " queries"]
    first_score: Float[Tensor, " queries"]
    """NaN where there is no positive"""


@torch.no_grad()
def nearest(
    scores: Scores,
    relevance: Relevance,
    k: int,
    queries: Integer[Tensor, " queries"] | None = None,
    *,
    ties: str = "stable",
    world: World = ALONE,
    places: Int[Tensor, " kept"] | None = None,
) -> Nearest:
    """The k candidates of each query with the highest scores, and where its first positive is; junk is never listed.

    This is the ranking under a tie policy, cut after k; it does not depend on `scores.max_bytes`. Candidates of one
    kind with equal scores are in gallery order. Under "grouped" negatives go before the positives with their score, as
    under "pessimistic"; under "expected", without an order of its own, items are in gallery order, as under "stable".

    Args:
        scores: from `score_embeddings` or `given_scores`.
        relevance: the one that `scores` was made with.
        k: number of candidates to list; beyond the gallery it stands for all of them.
        queries: positions of the queries wanted, in any order; None for all.
        ties: the order of equal scores, a key of `TIE_POLICIES`.
        world: the processes that share the gallery; each has all queries, and must want the same queries.
        places: of the kept items of this process's part in the order of the whole gallery, ascending.

    Raises:
        DistributedMetricError: an error on some process.
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, an unknown tie policy, or the score of
            a candidate is NaN.
    """
    _checks.positive_int("k", k)
    _checks.one_of("ties", ties, TIE_POLICIES)
    check_fit(scores, relevance)
    queries = torch.arange(scores.num_queries, device=scores.device) if queries is None else queries
    queries = _checks.integer_labels("queries", queries, device=scores.device)
    _checks.in_range("queries", queries, 0, scores.num_queries)
    ascending, row_of_query = queries.long().unique(return_inverse=True)
    part = GalleryPart(scores, relevance, TIE_POLICIES[ties], places)
    listing = Listing.agree(world, part, k, len(ascending))
    # Queries are listed in ascending order, each once.
    done = 0
    for rows in _progress.steps([*_ranges(ascending.tolist(), listing.num_rows)], "Rank lists"):
        # A range may hold a few queries that are not wanted: scoring them costs less than cutting the tile.
        inside = ascending[(ascending >= rows.start) & (ascending < rows.stop)] - rows.start
        listing.list(rows, inside, slice(done, done + len(inside)))
        done += len(inside)
    return _named(listing, row_of_query, part)


def _named(listing: Listing, order: Int[Tensor, " queries"], part: GalleryPart) -> Nearest:
    """The lists in the order of the queries that are wanted, with repetitions."""
    results, num_before = listing.results(order)
    lists, best = (CandidateLists(*(values[:, part] for values in results)) for part in (slice(-1), -1))

    def positions(columns: Tensor) -> Tensor:
        """From columns of the kept gallery to positions in the whole part."""
        kept = part.relevance.kept
        if kept is None or not len(kept):
            return columns
        return kept[columns.clamp(min=0)].masked_fill(columns < 0, -1)

    listed, first = positions(lists.columns), positions(best.columns)
    return Nearest(
        listed,
        listed if part.places is None else lists.places,
        lists.scores.masked_fill(~lists.listed, torch.nan),
        lists.positive,
        (1 + num_before).where(best.listed, 0),
        first,
        first if part.places is None else best.places,
        best.scores.masked_fill(~best.listed, torch.nan),
    )


def _ranges(wanted: Sequence[int], length: int) -> Iterator[slice]:
    """Cover ascending positions by ranges of at most `length`, with few other positions between them."""
    first = 0
    for number, (position, following) in enumerate(pairwise([*wanted, math.inf]), start=1):
        if following - position > _LARGEST_STEP or following - wanted[first] >= length:
            yield slice(wanted[first], position + 1)
            first = number
