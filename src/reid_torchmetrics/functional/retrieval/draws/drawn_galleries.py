"""Exact expectations over galleries that are drawn at random, in place of the mean of a few draws.

A query is ranked in a gallery that holds a few items of every stratum: one image of each identity (CUHK03,
VehicleID), or a few of each identity and camera (SYSU-MM01). Per stratum, the chance that an item ahead of a positive
is drawn is known, and strata are independent: what a benchmark estimates by ten draws is a finite sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval.draws.expected_draws import IdentityCurves, TileExpectation
from reid_torchmetrics.functional.retrieval.draws.identities_ahead import AheadTile, cut_in_tiles
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw, Strata, find_strata
from reid_torchmetrics.functional.retrieval.measures import mean_over_queries
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, TiePolicy
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, check_match

DRAWN_TIES = tuple(policy.name for policy in TIE_POLICIES.values() if not policy.groups)
"""the policies of `TIE_POLICIES` that put the items of a drawn gallery in a definite order"""


@dataclass(frozen=True, eq=False)
class DrawnResults:
    """Expectations over the drawn galleries, one for each query; NaN for a query without positives."""

    cmc: Float[Tensor, "queries max_rank"]
    """chance that fewer than k identities come before the query's own, k = 1 ... max_rank"""
    average_precision: Float[Tensor, " queries"]
    """by the rule "rectangle"; NaN if it was not asked for"""
    inverse_negative_penalty: Float[Tensor, " queries"]
    """NaN if average precision was not asked for"""
    num_positives: Tensor
    """int64; positives among the query's candidates, drawn or not"""
    weight: Float[Tensor, " queries"]
    """chance that the query is a query: 1 unless galleries are drawn from the queries"""

    @property
    def mean_cmc(self) -> Float[Tensor, " max_rank"]:
        """Weighted mean of `cmc`, without queries that have no positive; `mean_over_queries` can count them."""
        return mean_over_queries(self.cmc, weight=self.weight)

    @property
    def mean_average_precision(self) -> Float[Tensor, ""]:
        """The same of `average_precision`."""
        return mean_over_queries(self.average_precision, weight=self.weight)

    @property
    def mean_inverse_negative_penalty(self) -> Float[Tensor, ""]:
        """The same of `inverse_negative_penalty`."""
        return mean_over_queries(self.inverse_negative_penalty, weight=self.weight)


@torch.no_grad()
def expect_draws(
    scores: Scores,
    relevance: Relevance,
    draw: GalleryDraw,
    *,
    ties: str = "pessimistic",
    max_rank: int = 50,
    with_precision: bool = True,
    queries_in_draw: bool = False,
) -> DrawnResults:
    """Expected CMC, average precision and INP of every query in a gallery drawn from its candidates.

    The candidates of a query, once junk is removed, are partitioned into strata; `draw` says which, and how many items
    of each are drawn. Identity j is ahead of a positive p with the chance pi_j that one of its c_j items ahead of p is
    drawn, c_j / n_j with one item of n_j. With P(p) the chance that p is the best positive that is drawn,

        E[CMC@k] = sum_p P(p) P(S_p < k),

    S_p being the number of identities ahead of p, a sum of independent events (Poisson binomial). A CMC over identities
    is the plain CMC where one item of each is drawn. The average precision and the INP are those of the drawn list of
    items: with A positives and B negatives drawn ahead of p, and n positives drawn,

        E[AP] = (1/n) sum_p P(p drawn) E[(1 + A) / (1 + A + B)],

    which is the integral over x from 0 to 1 of d/dx (x E[x^A]) E[x^B], likewise E[INP] = E[n / (n + B)] of the last.

    - CUHK03, "single gallery shot": `GalleryDraw(1)`; relevance drops the items of the query's identity and camera
      (torchreid), or all of its camera (open-reid).
    - VehicleID: `GalleryDraw(1)`, leave-one-out, `queries_in_draw`.
    - SYSU-MM01: `GalleryDraw(1, "identity_and_camera")`, or 10 for multi-shot.
    - A CMC over identities without any chance: `GalleryDraw(None)`.

    Args:
        scores: scores of the kept gallery, as `score_embeddings` and `given_scores` make them.
        relevance: who is positive, negative or junk; made from identities.
        draw: how a gallery is drawn.
        ties: "pessimistic", "optimistic" or "stable"; the other tie policies have no order to draw from.
        max_rank: length of the CMC; it is 1 beyond the number of identities.
        with_precision: whether to compute average precision and INP, which must look at every positive; the CMC alone
            needs only those that can be among the first `max_rank`.
        queries_in_draw: the gallery is drawn from the queries themselves, which are then no queries: each is weighted
            by the chance that it is not drawn, (n - 1) / n for one of n images. Needs their `self_index`, and no rule
            that drops pairs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: unknown options, relevance without identities or without the cameras that are needed, NaN scores.
    """
    _checks.one_of("ties", ties, DRAWN_TIES)
    _checks.positive_int("max_rank", max_rank)
    check_match(scores, relevance)
    strata = find_strata(relevance, draw.per)
    if queries_in_draw:
        check_queries_in_draw(relevance)
    weight = torch.ones(scores.num_queries, dtype=torch.float64, device=scores.device)
    if queries_in_draw:
        weight = _chance_not_drawn(relevance, strata, draw)
    expectation = _Expectation(scores, relevance, strata, draw)
    return workers.run(
        lambda: expectation.of_all(TIE_POLICIES[ties], weight, max_rank=max_rank, with_precision=with_precision),
        scores.device,
        inside=expectation.keeps_thread,
    )


@dataclass(frozen=True)
class _Expectation:
    """The problem of `expect_draws`."""

    scores: Scores
    relevance: Relevance
    strata: Strata
    draw: GalleryDraw

    @property
    def keeps_thread(self) -> bool:
        """Whether a function of the user is called."""
        return self.scores.keeps_thread or self.relevance.junk_pairs is not None

    def of_all(self, ties: TiePolicy, weight: Tensor, *, max_rank: int, with_precision: bool) -> DrawnResults:
        """Expectations for all queries: a tile of them fills its part of the [queries] values.

        The curves wait until many can be convolved at once.
        """
        size, device = self.scores.num_queries, self.scores.device
        curves = IdentityCurves(size, max_rank, device)
        precision, penalty = torch.empty(2, size, dtype=torch.float64, device=device)
        num_positives = torch.zeros(size, dtype=torch.int64, device=device)

        def expect(walk: Walk, rows: slice) -> TileExpectation:
            tile = AheadTile(walk, self.relevance, self.strata, rows, ties)
            most_ahead = curves.most_ahead
            return TileExpectation(tile, self.strata, self.draw, most_ahead=most_ahead, with_precision=with_precision)

        for rows, expected in cut_in_tiles(self.scores, self.relevance, self.strata).share(expect):
            num_positives[rows] = expected.num_positives
            precision[rows], penalty[rows] = expected.average_precision, expected.inverse_negative_penalty
            for terms in expected.curve_terms:
                curves.add(terms)
        curves.finish()
        for values in (curves.cmc, precision, penalty):
            values[num_positives == 0] = torch.nan
        if not with_precision:
            precision, penalty = torch.full((2, size), torch.nan, dtype=torch.float64, device=device)
        return DrawnResults(curves.cmc, precision, penalty, num_positives, weight)


def check_queries_in_draw(relevance: Relevance) -> None:
    """Raise unless one gallery can be drawn from the queries: all of them are in it, and no rule drops pairs."""
    if relevance.own_column is None and relevance.num_queries:
        raise ValueError(
            "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or"
            f" `self_index`; got {relevance.num_queries} queries without."
        )
    if relevance.rules or relevance.junk_pairs is not None:
        came = "a rule about cameras or sequences" if relevance.rules else "`junk_pairs`"
        raise ValueError(f"`queries_in_draw` must come without a camera rule or another that drops pairs; got {came}.")


def _chance_not_drawn(relevance: Relevance, strata: Strata, draw: GalleryDraw) -> Float[Tensor, " queries"]:
    """1 - m/n: the chance that a query, one of the n items of its stratum, is not among the m that are drawn."""
    weight = torch.ones(relevance.num_queries, dtype=torch.float64, device=relevance.device)
    column = relevance.own_column
    if column is None:
        return weight  # there are no queries
    num_items = strata.num_items[strata.of_item[column[column >= 0]]]
    weight[column >= 0] = 1 - draw.num_drawn(num_items) / num_items.double()
    return weight
