"""Exact expectations over galleries that are drawn at random, instead of the mean of a few draws.

A query is ranked in a gallery that holds a few items of every stratum: one image of each identity (CUHK03,
VehicleID), or a few of each identity and camera (SYSU-MM01). Per stratum, the chance that an item ahead of a positive
is drawn is known, and strata are independent: so a finite sum gives what a benchmark estimates by ten draws. It is
computed for one tile of queries at a time, from the strata that are ahead of their positives.

For instance one item of each identity is drawn, and the query has the positives p, with score .8, and q, with .3:

    identity a     1 of 2 items ahead of p, 2 of 2 ahead of q     ahead of p with chance 1/2, of q with chance 1
    identity b     0 of 3 items ahead of p, 2 of 3 ahead of q     ahead of p with chance 0, of q with chance 2/3
    if p is drawn  (chance 1/2): P(S = 0, 1, 2) = 1/2, 1/2, 0, and E[1 / (1 + S)] = 3/4
    if q is drawn  (chance 1/2): P(S = 0, 1, 2) = 0, 1/3, 2/3, and E[1 / (1 + S)] = 7/18
    in all         E[CMC@1] = 1/4, E[CMC@2] = (1 + 1/3) / 2 = 2/3, E[AP] = (3/4 + 7/18) / 2 = 41/72
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.evaluation import EXPECTATIONS, GalleryDraw
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.ranking import DRAWN_TIES, TIE_POLICIES, GalleryPart, Walk
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.tasks.walks import share_tiles

from .hypergeometric import (
    Hypergeometric,
    find_chances,
    largest_mean,
    ordinal_density,
    poisson_binomial_cdf,
    powers,
    quadrature_nodes,
)
from .strata import Strata, find_strata
from .strata_ahead import CaseCounts, StrataAhead, StratumCountTile, size_of_tiles

_CELLS = 1 << 20  # values of a histogram, or of an integrand, that are held at a time
_POSITIVES = 1024  # the most positives that are integrated at a time
_MOST_NODES = 256  # of an integrand, as a rule


@torch.no_grad()
def expect_draws(
    scores: Scores,
    relevance: Relevance,
    draw: GalleryDraw,
    *,
    ties: _names.TieName = "pessimistic",
    max_rank: int = 50,
    with_precision: bool = True,
    queries_in_draw: bool = False,
) -> DrawnResults:
    """Compute the expected CMC, average precision and INP of each query in a gallery drawn from its candidates.

    The candidates of a query, without junk, are partitioned into strata, and `draw` gives the number of items that are
    drawn from each. Identity j is ahead of a positive p if one of its c_j items ahead of p is drawn, with chance
    c_j / n_j if one of n_j items is drawn. With P(p) the chance that p is the best positive that is drawn,

        E[CMC@k] = sum_p P(p) P(S_p < k),

    where S_p is the number of identities ahead of p, a sum of independent events (Poisson binomial). A CMC over
    identities is the plain CMC if one item of each is drawn. The average precision and the INP are computed from the
    drawn list of items: with A positives and B negatives drawn ahead of p, and n positives drawn,

        E[AP] = (1/n) sum_p P(p drawn) E[(1 + A) / (1 + A + B)],

    which is the integral over x from 0 to 1 of d/dx (x E[x^A]) E[x^B]. E[INP] is E[n / (n + B)] at the last positive.

    - CUHK03, "single gallery shot": `GalleryDraw(1)`; relevance drops the items of the query's identity and camera
      (torchreid), or all of its camera (open-reid).
    - VehicleID: `GalleryDraw(1)`, leave-one-out, `queries_in_draw`.
    - SYSU-MM01: `GalleryDraw(1, "identity_and_camera")`, or 10 for multi-shot.
    - A CMC over identities without any chance: `GalleryDraw(None)`.

    `max_bytes`, the device and the order of queries and gallery items decide the order of the sums, so values may
    differ by some 1e-15 of themselves.

    Args:
        scores: scores of the kept gallery, as `score_embeddings` and `scores_from_matrix` make them.
        relevance: positives, negatives and junk; made from identities.
        draw: the rule for drawing a gallery.
        ties: "pessimistic", "optimistic" or "stable"; the other tie policies have no order to draw from.
        max_rank: length of the CMC; it is 1 beyond the number of identities.
        with_precision: whether to compute average precision and INP, which depend on every positive; the CMC alone
            needs only the positives that can be among the first `max_rank`.
        queries_in_draw: the gallery is drawn from the queries themselves, and a drawn image is not a query: each query
            is weighted by the chance that it is not drawn, (n - 1) / n for one of n images. Needs their `self_index`,
            and no rule that drops pairs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: unknown options, relevance without identities or without the cameras that `draw` needs, NaN scores.
    """
    _checks.one_of("ties", ties, DRAWN_TIES)
    _checks.positive_int("max_rank", max_rank)
    scores.check_fit(relevance)
    strata = find_strata(relevance, draw.per)
    if queries_in_draw:
        weight = _chance_not_drawn(relevance, strata, draw)
    else:
        weight = torch.ones(scores.num_queries, dtype=torch.float64, device=scores.device)
    gallery = GalleryPart(scores, relevance, TIE_POLICIES[ties])

    def expect_all() -> DrawnResults:
        curves = IdentityCurves(len(weight), max_rank, weight.device)
        num_positives = torch.zeros_like(weight, dtype=torch.int64)
        average_precision = torch.full_like(weight, torch.nan)
        inverse_negative_penalty = torch.full_like(weight, torch.nan)

        def expect_tile(walk: Walk, rows: slice) -> TileExpectation:
            tile = StratumCountTile(walk, gallery, strata, rows)
            return TileExpectation(tile, strata, draw, most_ahead=curves.most_ahead, with_precision=with_precision)

        size = size_of_tiles(gallery, strata)
        tiles = share_tiles(scores, size, expect_tile, "Drawn galleries", keeps_thread=gallery.keeps_thread)
        for rows, expected in tiles:
            num_positives[rows] = expected.num_positives
            if with_precision:
                average_precision[rows] = expected.average_precision
                inverse_negative_penalty[rows] = expected.inverse_negative_penalty
            for terms in expected.curve_terms:
                curves.add(terms)
        curves.finish()
        for values in (curves.cmc, average_precision, inverse_negative_penalty):
            values[num_positives == 0] = torch.nan
        return DrawnResults(curves.cmc, average_precision, inverse_negative_penalty, num_positives, weight)

    return workers.run(expect_all, scores.device, inside=gallery.keeps_thread)


def _chance_not_drawn(relevance: Relevance, strata: Strata, draw: GalleryDraw) -> Float[Tensor, " queries"]:
    """Return 1 - m/n: the chance that a query, one of the n items of its stratum, is not among the m that are drawn.

    Raise unless galleries can be drawn from the queries: all queries are in the gallery, and no rule drops pairs.
    """
    own_column = relevance.own_column
    if own_column is None and relevance.num_queries:
        raise ValueError(
            "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or"
            f" `self_index`; got {relevance.num_queries} queries without."
        )
    if relevance.rules or relevance.junk_pairs is not None:
        got = "a rule about cameras, sequences or other labels" if relevance.rules else "`junk_pairs`"
        raise ValueError(f"`queries_in_draw` must come without a camera rule or another that drops pairs; got {got}.")
    chance = torch.ones(relevance.num_queries, dtype=torch.float64, device=relevance.device)
    if own_column is not None:
        is_in_gallery = own_column >= 0
        num_items = strata.num_items[strata.item_stratum[own_column[is_in_gallery]]]
        chance[is_in_gallery] = 1 - draw.num_drawn(num_items) / num_items.double()
    return chance


class CurveTerms(NamedTuple):
    """The terms of some positives in E[CMC], those that are not negligible."""

    query: Int[Tensor, " terms"]
    best: Float[Tensor, " terms"]
    """chance to be the best positive that is drawn"""
    num_events: Int[Tensor, " terms"]
    """number of identities that may be ahead"""
    chance: Float[Tensor, " events"]
    """chance of each of these identities to be ahead, term by term"""


class TileExpectation:
    """Expected average precision and INP of the queries of one tile, and the terms of their CMC.

    Both are 0 for a query without positives, and where precision is not computed.
    """

    def __init__(
        self,
        tile: StratumCountTile,
        strata: Strata,
        draw: GalleryDraw,
        *,
        most_ahead: float,
        with_precision: bool,
    ) -> None:
        """Count the items ahead of the positives that matter, and sum over these positives.

        A positive with more than `most_ahead` identities ahead on average adds nothing to the CMC.
        """
        valid = tile.positives >= 0
        self.num_positives = valid.sum(1)
        self.average_precision = torch.zeros(len(valid), dtype=torch.float64, device=valid.device)
        self.inverse_negative_penalty = torch.zeros_like(self.average_precision)
        self.curve_terms: list[CurveTerms] = []
        self._first_query = tile.rows.start
        self._strata = strata
        self._most_ahead = most_ahead
        if not bool(valid.any()):
            return

        # The strata of one identity have consecutive numbers.
        stratum = strata.item_stratum[tile.positives]
        first_stratum = stratum.where(valid, len(strata)).amin(1, keepdim=True)
        self._chances = find_chances(stratum - first_stratum, valid, draw)
        available, ahead = tile.cases
        self._drawn_ahead = Hypergeometric(available, ahead, draw.num_drawn(available))
        self._chance_of_none = self._drawn_ahead.chance_of_none()

        num_needed = self.num_positives
        if not with_precision:
            num_needed = (self._chances.best > 0).sum(1)  # the chance to be the best falls to 0 and stays there
        counts = tile.count(
            num_needed,
            1 - self._chance_of_none,
            most_ahead=most_ahead,
            with_cases=with_precision,
        )
        for strata_ahead, all_cases in counts:
            self._add_curves(strata_ahead)
            for cases in all_cases:
                self._add_precisions(cases)

    def _add_curves(self, ahead: StrataAhead) -> None:
        """Add the terms of some positives in the CMC."""
        none_ahead = self._chance_of_none[ahead.case]
        num_events = ahead.num_strata
        num_strata = len(self._strata)
        if not self._strata.one_per_identity:
            # None of an identity is ahead if none of any of its strata is.
            positive = segments.numbers(num_events, len(none_ahead))
            key = positive * num_strata + self._strata.identity[ahead.stratum]
            keys, strata_per_key = key.unique_consecutive(return_counts=True)
            none_ahead = segments.reduce(none_ahead, "prod", strata_per_key)
            num_events = keys.div(num_strata, rounding_mode="floor").bincount(minlength=len(num_events))
        best = self._chances.best[ahead.query, ahead.ordinal]
        chance = 1 - none_ahead
        is_useful = (best > 0) & (segments.reduce(chance, "sum", num_events) <= self._most_ahead)
        terms = CurveTerms(
            query=(ahead.query + self._first_query)[is_useful],
            best=best[is_useful],
            num_events=num_events[is_useful],
            chance=chance[is_useful.repeat_interleave(num_events)],
        )
        self.curve_terms.append(terms)

    def _add_precisions(self, cases: CaseCounts) -> None:
        """Add the terms of some positives; positives with about as many items ahead on average share their nodes."""
        num_strata = cases.num_strata.double()
        mean = num_strata @ self._drawn_ahead.mean
        num_cases = len(self._drawn_ahead.mean)
        batch_size = max(1, min(_POSITIVES, _CELLS // max(num_cases, _MOST_NODES)))
        chances = self._chances
        for batch in mean.argsort(stable=True).split(batch_size):
            query = cases.query[batch]
            ordinal = cases.ordinal[batch]
            nodes, weights = quadrature_nodes(float(mean[batch[0]]), float(mean[batch[-1]]))
            log_x = torch.log1p(-torch.from_numpy(nodes)).to(mean.device)
            # E[x^B] of the negatives is a product over strata, so its logarithm is a sum over cases.
            log_negatives = num_strata.index_select(0, batch) @ self._drawn_ahead.log_value(log_x)
            negatives = log_negatives.exp_().mul_(torch.from_numpy(weights).to(mean.device))

            num_drawn = chances.num_drawn[query]
            positives_ahead = Hypergeometric(
                chances.others_available[query, ordinal],
                chances.others_ahead[query, ordinal],
                chances.others_drawn[query, ordinal],
            )
            precision = (ordinal_density(positives_ahead, log_x) * negatives).sum(1)
            precision = precision * chances.drawn[query, ordinal] / num_drawn
            self.average_precision.index_add_(0, query, precision)

            reciprocal = (powers(num_drawn - 1, log_x) * negatives).sum(1)  # E[1 / (n + B)]
            penalty = reciprocal * chances.last[query, ordinal] * num_drawn
            self.inverse_negative_penalty.index_add_(0, query, penalty)


class IdentityCurves:
    """Sums over positives of P(p) P(S_p < k), for all queries; many terms are convolved at once."""

    def __init__(self, num_queries: int, max_rank: int, device: torch.device) -> None:
        """Start with 0."""
        self.cmc = torch.zeros(num_queries, max_rank, dtype=torch.float64, device=device)
        self.most_ahead = largest_mean(max_rank - 1)
        """a positive with more identities ahead on average adds nothing"""
        self._waiting: list[CurveTerms] = []
        self._num_waiting = 0

    def add(self, terms: CurveTerms) -> None:
        """Let terms wait until there are many, then convolve them."""
        self._waiting.append(terms)
        self._num_waiting += len(terms.chance) + len(terms.best)
        if self._num_waiting > _CELLS:
            self.finish()

    def finish(self) -> None:
        """Convolve the waiting terms."""
        if self._waiting:
            query, best, num_events, chance = map(torch.cat, zip(*self._waiting, strict=True))
            cdf = poisson_binomial_cdf(chance, num_events, self.cmc.shape[1])
            cmc = cdf.mul_(best[:, None])
            self.cmc.scatter_add_(0, query[:, None].expand_as(cmc), cmc)  # index_add_ is slow for rows
        self._waiting = []
        self._num_waiting = 0


EXPECTATIONS["drawn_galleries"] = expect_draws
