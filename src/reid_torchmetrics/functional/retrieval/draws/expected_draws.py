"""The expectations of one tile of queries, from the strata that are ahead of their positives."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.draws.drawn_positives import find_chances, ordinal_density
from reid_torchmetrics.functional.retrieval.draws.hypergeometric import Hypergeometric, powers
from reid_torchmetrics.functional.retrieval.draws.identities_ahead import AheadTile
from reid_torchmetrics.functional.retrieval.draws.poisson_binomial import at_most, largest_mean, panels
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw, Strata
from reid_torchmetrics.functional.retrieval.draws.strata_ahead import CaseCounts, StrataAhead

_CELLS = 1 << 20  # values of a histogram, or of an integrand, that are held at a time
_POSITIVES = 1024  # that are integrated at a time, at most
_MOST_NODES = 256  # of an integrand, as a rule


class CurveTerms(NamedTuple):
    """Positives that add to curves."""

    query: Int[Tensor, " positives"]
    best: Float[Tensor, " positives"]
    """the chance P(p) to be the best positive that is drawn"""
    chance: Float[Tensor, " events"]
    """of each identity to be ahead, by positive"""
    num_events: Int[Tensor, " positives"]
    num_seen: int
    """positives that were looked at, with those that add nothing"""


class IdentityCurves:
    """Sums over positives of P(p) P(S_p < k), for all queries; terms are convolved many at a time."""

    def __init__(self, num_queries: int, max_rank: int, device: torch.device) -> None:
        """Start with 0."""
        self.cmc = torch.zeros(num_queries, max_rank, dtype=torch.float64, device=device)
        self.most_ahead = largest_mean(max_rank - 1)
        """what has more identities ahead on average adds nothing"""
        self._waiting: list[CurveTerms] = []
        self._num_waiting = 0

    def add(self, terms: CurveTerms) -> None:
        """Add positives, of which those that matter wait to be convolved."""
        self._waiting.append(terms)
        self._num_waiting += len(terms.chance) + terms.num_seen
        if self._num_waiting > _CELLS:
            self.finish()

    def finish(self) -> None:
        """Convolve what waits."""
        if self._waiting:
            parts = zip(*(terms[:-1] for terms in self._waiting), strict=True)
            query, best, chance, num_events = map(torch.cat, parts)
            below = at_most(chance, num_events, self.cmc.shape[1]).mul_(best[:, None])
            self.cmc.scatter_add_(0, query[:, None].expand_as(below), below)  # index_add_ is slow for rows
        self._waiting, self._num_waiting = [], 0


class TileExpectation:
    """Expected average precision and INP of the queries of one tile; 0 without positives or if not asked for.

    `curve_terms` is what the CMC needs.
    """

    def __init__(
        self, tile: AheadTile, strata: Strata, draw: GalleryDraw, *, most_ahead: float, with_precision: bool
    ) -> None:
        """Count what is ahead of the positives that matter, and sum over them.

        What has more than `most_ahead` identities ahead on average adds nothing to the CMC.
        """
        valid = tile.positives.valid
        self._tile, self._strata, self._most_ahead = tile, strata, most_ahead
        self.curve_terms: list[CurveTerms] = []
        self.num_positives = valid.sum(1)
        self.average_precision = torch.zeros(len(valid), dtype=torch.float64, device=valid.device)
        self.inverse_negative_penalty = torch.zeros_like(self.average_precision)
        if not bool(valid.any()):
            return
        stratum = strata.of_item[tile.positives.columns]  # those of an identity have consecutive numbers
        first = stratum.where(valid, strata.number).amin(1, keepdim=True)
        self._chances = find_chances(stratum - first, valid, draw)
        self._law = Hypergeometric(*tile.cases, draw.num_drawn(tile.cases.available))
        wanted = self.num_positives
        if not with_precision:
            wanted = (self._chances.best > 0).sum(1)  # the chance to be the best falls to 0 and stays there
        for ahead in tile.count(wanted, 1 - self._law.none(), most_ahead=most_ahead, with_cases=with_precision):
            self._add_curves(ahead.strata)
            for cases in ahead.cases:
                self._add_precisions(cases)

    def _add_curves(self, block: StrataAhead) -> None:
        none_ahead, num_events = self._law.none()[block.case], block.num_strata
        if not self._strata.one_per_identity:
            none_ahead, num_events = _per_identity(none_ahead, block, self._strata)
        best = self._chances.best[block.query, block.ordinal]
        chance = 1 - none_ahead
        useful = (best > 0) & (segments.reduce(chance, "sum", num_events) <= self._most_ahead)
        chance = chance[useful.repeat_interleave(num_events)]
        query = (block.query + self._tile.rows.start)[useful]
        self.curve_terms.append(CurveTerms(query, best[useful], chance, num_events[useful], len(best)))

    def _add_precisions(self, cases: CaseCounts) -> None:
        """Add the terms of some positives, those together that have about as many items ahead on average."""
        number = cases.number.double()
        mean = number @ self._law.mean
        most = max(1, min(_POSITIVES, _CELLS // max(len(self._law.mean), _MOST_NODES)))
        for chosen in mean.argsort(stable=True).split(most):
            means = float(mean[chosen[0]]), float(mean[chosen[-1]])
            self._add_precision(cases.query[chosen], cases.ordinal[chosen], number.index_select(0, chosen), means)

    def _add_precision(
        self,
        query: Int[Tensor, " positives"],
        ordinal: Int[Tensor, " positives"],
        number: Float[Tensor, "positives cases"],
        means: tuple[float, float],
    ) -> None:
        """Add the terms of positives that have between these two `means` items ahead."""
        chances, num_drawn = self._chances, self._chances.num_drawn[query]
        nodes, weights = panels(*means)
        log_x = torch.log1p(-torch.from_numpy(nodes)).to(number.device)
        negatives = (number @ self._law.log_at(log_x)).exp_().mul_(torch.from_numpy(weights).to(number.device))
        others = Hypergeometric(*(values[query, ordinal] for values in chances.others))
        precision = (ordinal_density(others, log_x) * negatives).sum(1)
        self.average_precision.index_add_(0, query, precision * chances.drawn[query, ordinal] / num_drawn)
        penalty = (powers(num_drawn - 1, log_x) * negatives).sum(1)
        self.inverse_negative_penalty.index_add_(0, query, penalty * chances.last[query, ordinal] * num_drawn)


def _per_identity(
    none_ahead: Float[Tensor, " entries"], block: StrataAhead, strata: Strata
) -> tuple[Float[Tensor, " identities"], Int[Tensor, " positives"]]:
    """Multiply the strata of an identity: none of it is ahead if none of any stratum is."""
    positive = segments.numbers(block.num_strata, len(none_ahead))
    key = positive * strata.number + strata.identity[block.stratum]
    keys, num_strata = key.unique_consecutive(return_counts=True)
    positive = torch.div(keys, strata.number, rounding_mode="floor")
    num_identities = torch.bincount(positive, minlength=len(block.num_strata))
    return segments.reduce(none_ahead, "prod", num_strata), num_identities
