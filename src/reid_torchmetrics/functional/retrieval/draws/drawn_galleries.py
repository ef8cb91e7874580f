"""Exact expectations over galleries that are drawn at random, instead of the mean of a few draws.

A query is ranked in a gallery that holds a few items of every stratum: one image of each identity (CUHK03,
VehicleID), or a few of each identity and camera (SYSU-MM01). Per stratum, the chance that an item ahead of a positive
is drawn is known, and strata are independent: what a benchmark estimates by ten draws is a finite sum. It is computed
for one tile of queries at a time, from the strata that are ahead of their positives.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, GalleryPart
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, share_tiles

from .hypergeometric import Hypergeometric, at_most, find_chances, largest_mean, ordinal_density, panels, powers
from .strata import GalleryDraw, Strata, find_strata
from .strata_ahead import AheadTile, StrataAhead, size_of_tiles

_CELLS = 1 << 20  # values of a histogram, or of an integrand, that are held at a time
_POSITIVES = 1024  # that are integrated at a time, at most
_MOST_NODES = 256  # of an integrand, as a rule

DRAWN_TIES = tuple(policy.name for policy in TIE_POLICIES.values() if not policy.groups)
"""the policies of `TIE_POLICIES` that put the items of a drawn gallery in a definite order"""


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
    """Expected CMC, average precision and INP of every query in a gallery drawn from its candidates.

    The candidates of a query, once junk is removed, are partitioned into strata; `draw` says which, and how many items
    of each are drawn. Identity j is ahead of a positive p with the chance pi_j that one of its c_j items ahead of p is
    drawn, c_j / n_j with one item of n_j. With P(p) the chance that p is the best positive that is drawn,

        E[CMC@k] = sum_p P(p) P(S_p < k),

    S_p being the number of identities ahead of p, a sum of independent events (Poisson binomial). A CMC over identities
    is the plain CMC where one item of each is drawn. The average precision and the INP are of the drawn list of
    items: with A positives and B negatives drawn ahead of p, and n positives drawn,

        E[AP] = (1/n) sum_p P(p drawn) E[(1 + A) / (1 + A + B)],

    which is the integral over x from 0 to 1 of d/dx (x E[x^A]) E[x^B], likewise E[INP] = E[n / (n + B)] of the last.

    - CUHK03, "single gallery shot": `GalleryDraw(1)`; relevance drops the items of the query's identity and camera
      (torchreid), or all of its camera (open-reid).
    - VehicleID: `GalleryDraw(1)`, leave-one-out, `queries_in_draw`.
    - SYSU-MM01: `GalleryDraw(1, "identity_and_camera")`, or 10 for multi-shot.
    - A CMC over identities without any chance: `GalleryDraw(None)`.

    `max_bytes`, the device and the order of queries and gallery items decide the order of the sums, so values may
    differ by some 1e-15 of themselves.

    Args:
        scores: scores of the kept gallery, as `score_embeddings` and `given_scores` make them.
        relevance: who is positive, negative or junk; made from identities.
        draw: how a gallery is drawn.
        ties: "pessimistic", "optimistic" or "stable"; the other tie policies have no order to draw from.
        max_rank: length of the CMC; it is 1 beyond the number of identities.
        with_precision: whether to compute average precision and INP, which must look at every positive; the CMC alone
            needs only the positives that can be among the first `max_rank`.
        queries_in_draw: the gallery is drawn from the queries themselves, which are then no queries: each is weighted
            by the chance that it is not drawn, (n - 1) / n for one of n images. Needs their `self_index`, and no rule
            that drops pairs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: unknown options, relevance without identities or without the cameras that are needed, NaN scores.
    """
    _checks.one_of("ties", ties, DRAWN_TIES)
    _checks.positive_int("max_rank", max_rank)
    scores.check_fit(relevance)
    strata = find_strata(relevance, draw.per)
    weight = torch.ones(scores.num_queries, dtype=torch.float64, device=scores.device)
    if queries_in_draw:
        weight = _chance_not_drawn(relevance, strata, draw)
    gallery = GalleryPart(scores, relevance, TIE_POLICIES[ties])

    def expect_all() -> DrawnResults:
        curves = IdentityCurves(len(weight), max_rank, weight.device)
        precision, penalty = torch.full((2, len(weight)), torch.nan, dtype=torch.float64, device=weight.device)
        num_positives = torch.zeros_like(weight, dtype=torch.int64)

        def expect(walk: Walk, rows: slice) -> TileExpectation:
            tile = AheadTile(walk, gallery, strata, rows)
            return TileExpectation(tile, strata, draw, most_ahead=curves.most_ahead, with_precision=with_precision)

        size, keeps_thread = size_of_tiles(gallery, strata), gallery.keeps_thread
        for rows, expected in share_tiles(scores, size, expect, "Drawn galleries", keeps_thread=keeps_thread):
            num_positives[rows] = expected.num_positives
            if with_precision:
                precision[rows], penalty[rows] = expected.average_precision, expected.inverse_negative_penalty
            for terms in expected.curve_terms:
                curves.add(*terms)  # they wait until many can be convolved at once
        curves.finish()
        for values in (curves.cmc, precision, penalty):
            values[num_positives == 0] = torch.nan
        return DrawnResults(curves.cmc, precision, penalty, num_positives, weight)

    return workers.run(expect_all, scores.device, inside=gallery.keeps_thread)


def _chance_not_drawn(relevance: Relevance, strata: Strata, draw: GalleryDraw) -> Float[Tensor, " queries"]:
    """1 - m/n: the chance that a query, one of the n items of its stratum, is not among the m that are drawn.

    Raise unless one gallery can be drawn from the queries: all of them are in it, and no rule drops pairs.
    """
    column = relevance.own_column
    if column is None and relevance.num_queries:
        raise ValueError(
            "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or"
            f" `self_index`; got {relevance.num_queries} queries without."
        )
    if relevance.rules or relevance.junk_pairs is not None:
        came = "a rule about cameras, sequences or other labels" if relevance.rules else "`junk_pairs`"
        raise ValueError(f"`queries_in_draw` must come without a camera rule or another that drops pairs; got {came}.")
    weight = torch.ones(relevance.num_queries, dtype=torch.float64, device=relevance.device)
    if column is not None:
        num_items = strata.num_items[strata.of_item[column[column >= 0]]]
        weight[column >= 0] = 1 - draw.num_drawn(num_items) / num_items.double()
    return weight


class TileExpectation:
    """Expected average precision and INP of the queries of one tile; 0 without positives or if not asked for.

    `curve_terms` is what `IdentityCurves.add` takes.
    """

    def __init__(
        self, tile: AheadTile, strata: Strata, draw: GalleryDraw, *, most_ahead: float, with_precision: bool
    ) -> None:
        """Count what is ahead of the positives that matter, and sum over them.

        What has more than `most_ahead` identities ahead on average adds nothing to the CMC.
        """
        valid = tile.positives >= 0
        self._tile, self._strata, self._most_ahead = tile, strata, most_ahead
        self.curve_terms: list[tuple[Any, ...]] = []
        self.num_positives = valid.sum(1)
        self.average_precision = torch.zeros(len(valid), dtype=torch.float64, device=valid.device)
        self.inverse_negative_penalty = torch.zeros_like(self.average_precision)
        if not bool(valid.any()):
            return
        stratum = strata.of_item[tile.positives]  # strata of one identity have consecutive numbers
        first = stratum.where(valid, len(strata)).amin(1, keepdim=True)
        self._chances = find_chances(stratum - first, valid, draw)
        available, ahead = tile.cases
        self._law = Hypergeometric(available, ahead, draw.num_drawn(available))
        wanted = self.num_positives
        if not with_precision:
            wanted = (self._chances.best > 0).sum(1)  # the chance to be the best falls to 0 and stays there
        counted = tile.count(wanted, 1 - self._law.none(), most_ahead=most_ahead, with_cases=with_precision)
        for block, cases in counted:
            self._add_curves(block)
            for counts in cases:
                self._add_precisions(*counts)

    def _add_curves(self, block: StrataAhead) -> None:
        none_ahead, num_events, strata = self._law.none()[block.case], block.num_strata, self._strata
        if not strata.one_per_identity:
            # None of an identity is ahead if none of any of its strata is.
            key = segments.numbers(num_events, len(none_ahead)) * len(strata) + strata.identity[block.stratum]
            keys, num_strata = key.unique_consecutive(return_counts=True)
            none_ahead = segments.reduce(none_ahead, "prod", num_strata)
            num_events = keys.div(len(strata), rounding_mode="floor").bincount(minlength=len(num_events))
        best, chance = self._chances.best[block.query, block.ordinal], 1 - none_ahead
        useful = (best > 0) & (segments.reduce(chance, "sum", num_events) <= self._most_ahead)
        chance = chance[useful.repeat_interleave(num_events)]
        query = (block.query + self._tile.rows.start)[useful]
        self.curve_terms.append((len(best), query, best[useful], chance, num_events[useful]))

    def _add_precisions(self, query: Tensor, ordinal: Tensor, number: Int[Tensor, "positives cases"]) -> None:
        """Add the terms of some positives; positives with about as many items ahead on average share their nodes."""
        number = number.double()
        mean = number @ self._law.mean
        most = max(1, min(_POSITIVES, _CELLS // max(len(self._law.mean), _MOST_NODES)))
        chances = self._chances
        for chosen in mean.argsort(stable=True).split(most):
            nodes, weights = panels(float(mean[chosen[0]]), float(mean[chosen[-1]]))
            log_x = torch.log1p(-torch.from_numpy(nodes)).to(number.device)
            some = number.index_select(0, chosen)
            negatives = (some @ self._law.log_at(log_x)).exp_().mul_(torch.from_numpy(weights).to(number.device))
            at, num_drawn = (query[chosen], ordinal[chosen]), chances.num_drawn[query[chosen]]
            others = Hypergeometric(*(values[at] for values in chances.others))
            precision = (ordinal_density(others, log_x) * negatives).sum(1)
            self.average_precision.index_add_(0, at[0], precision * chances.drawn[at] / num_drawn)
            penalty = (powers(num_drawn - 1, log_x) * negatives).sum(1)
            self.inverse_negative_penalty.index_add_(0, at[0], penalty * chances.last[at] * num_drawn)


class IdentityCurves:
    """Sums over positives of P(p) P(S_p < k), for all queries; terms are convolved many at a time."""

    def __init__(self, num_queries: int, max_rank: int, device: torch.device) -> None:
        """Start with 0."""
        self.cmc = torch.zeros(num_queries, max_rank, dtype=torch.float64, device=device)
        self.most_ahead = largest_mean(max_rank - 1)
        """what has more identities ahead on average adds nothing"""
        self._waiting: list[tuple[Tensor, ...]] = []
        self._num_waiting = 0

    def add(self, num_seen: int, query: Tensor, best: Tensor, chance: Tensor, num_events: Tensor) -> None:
        """Let positives wait to be convolved: the ones of `num_seen` that matter.

        `best` is the chance to be the best positive that is drawn, and `chance`, positive by positive, that of each of
        `num_events` identities to be ahead.
        """
        self._waiting.append((query, best, chance, num_events))
        self._num_waiting += len(chance) + num_seen
        if self._num_waiting > _CELLS:
            self.finish()

    def finish(self) -> None:
        """Convolve what waits."""
        if self._waiting:
            query, best, chance, num_events = map(torch.cat, zip(*self._waiting, strict=True))
            below = at_most(chance, num_events, self.cmc.shape[1]).mul_(best[:, None])
            self.cmc.scatter_add_(0, query[:, None].expand_as(below), below)  # index_add_ is slow for rows
        self._waiting, self._num_waiting = [], 0
