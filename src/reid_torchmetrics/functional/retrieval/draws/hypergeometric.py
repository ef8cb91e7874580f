"""Laws of what a drawn gallery holds ahead of a positive.

hypergeometric      how many of the items of one stratum that are ahead of a positive are drawn
chances             of a query's positives: to be drawn, to come first, to come last
Poisson binomial    how many identities are ahead: a sum of independent events with unequal probabilities
integrals           of generating functions E[x^S], which give average precision and INP

Below, mu is the mean of the Poisson binomial S.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

from .strata import GalleryDraw

_BELOW_ONE = 1 - 2.0**-53
_NEGLIGIBLE = 1e-17  # a probability that changes no sum of float64
_STEPS = 20  # of Newton's method
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)  # of each panel; see `panels`
_NARROW = 8.0  # mean times width of the panel at 1
_CELLS = 1 << 21  # probabilities that are laid out at a time
_BATCH = 1024  # laws that are convolved at a time: their state stays in the cache


class Hypergeometric:
    """The law of T, the number of marked items among the drawn ones, one law for each entry.

    P(T = t) = C(c, t) C(n - c, m - t) / C(n, m) where m of n items are drawn without replacement and c are marked. Its
    generating function E[x^T] and the probability that none is drawn are all that an exact expectation needs.
    """

    def __init__(
        self, available: Int[Tensor, "*shape"], marked: Int[Tensor, "*shape"], drawn: Int[Tensor, "*shape"]
    ) -> None:
        """Tabulate P(T = least + j) for j = 0, 1, ...; none of the arguments exceeds `available`."""
        self.mean = drawn * marked / available.clamp(min=1).double()
        self.least = (drawn + marked - available).clamp(min=0)
        spread = torch.minimum(marked, drawn) - self.least
        steps = torch.arange(int(spread.max()) if spread.numel() else 0, device=marked.device)
        count = self.least[..., None] + steps
        # P(T = t + 1) / P(T = t); its logarithm is minus infinity beyond the largest T.
        above = ((marked[..., None] - count) * (drawn[..., None] - count)).clamp(min=0)
        below = (count + 1) * (available - marked - drawn)[..., None].add(count + 1).clamp(min=1)
        logs = segments.running_sums((above / below.double()).log(), -1)
        self.probability = functional.pad(logs, (1, 0)).softmax(-1)

    def none(self) -> Float[Tensor, "*shape"]:
        """P(T = 0)."""
        return self.probability[..., 0].where(self.least == 0, 0)

    def at(self, log_x: Float[Tensor, " nodes"]) -> tuple[Float[Tensor, "*shape nodes"], Float[Tensor, "*shape nodes"]]:
        """E[x^T] and E[T x^T], the second being x times the derivative of the first."""
        count = torch.arange(self.probability.shape[-1], device=log_x.device)
        of_count, least = powers(count, log_x), self.least[..., None]
        shift = powers(self.least, log_x)
        return shift * (self.probability @ of_count), shift * ((self.probability * (least + count)) @ of_count)

    def log_at(self, log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
        """log E[x^T], accurate for x near 1."""
        count = torch.arange(self.probability.shape[-1], device=log_x.device)
        missing = self.probability @ -torch.expm1(count[:, None] * log_x)
        return self.least[..., None] * log_x + torch.log1p(-missing.clamp(max=_BELOW_ONE))


def powers(exponent: Int[Tensor, "*shape"], log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
    """x to the power of each exponent; equal exponents, often few and small, are computed once."""
    distinct, place = exponent.unique(return_inverse=True)
    looked_up: Tensor = (distinct[:, None] * log_x).exp_().index_select(0, place.view(-1))
    return looked_up.view([*exponent.shape, len(log_x)])


class DrawnPositives(NamedTuple):
    """The positives of some queries, best first, and their chances; 0 at padding."""

    drawn: Float[Tensor, "queries padded"]
    """chance to be drawn"""
    best: Float[Tensor, "queries padded"]
    """chance to be drawn and come before all other positives that are drawn"""
    last: Float[Tensor, "queries padded"]
    """chance to be drawn and come after them"""
    num_drawn: Int[Tensor, " queries"]
    """positives that are drawn: a fixed number"""
    others: tuple[Tensor, Tensor, Tensor]
    """other positives of each stratum of the identity, [queries, padded, strata]: all, the ones ahead of this one, and
    how many of them are drawn if this one is"""


def find_chances(
    stratum: Int[Tensor, "queries padded"], valid: Bool[Tensor, "queries padded"], draw: GalleryDraw
) -> DrawnPositives:
    """Chances of positives that are sorted, best first; `stratum` numbers them within their identity, from 0.

    If m of n items of a stratum are drawn and a positive is one of them, the others are m - 1 of n - 1. Strata are
    drawn independently, so chances multiply.
    """
    num_strata = int(stratum.where(valid, 0).max()) + 1 if stratum.numel() else 1
    # [queries, padded, strata]: 1 in the stratum of the positive.
    is_in = ((stratum[..., None] == torch.arange(num_strata, device=stratum.device)) & valid[..., None]).long()
    available = is_in.sum(1, keepdim=True)
    num_drawn = draw.num_drawn(available)
    ahead = is_in.cumsum(1) - is_in
    others, others_drawn = available - is_in, num_drawn - is_in
    drawn = (is_in * num_drawn / available.clamp(min=1).double()).sum(-1)
    behind = others - ahead
    best, last = (drawn * Hypergeometric(others, each, others_drawn).none().prod(-1) for each in (ahead, behind))
    return DrawnPositives(drawn, best, last, num_drawn.sum((1, 2)), (others, ahead, others_drawn))


def ordinal_density(others_ahead: Hypergeometric, log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "positives nodes"]:
    """The derivative of x E[x^A], where A is the number of drawn positives ahead of a drawn one.

    Its integral over [0, 1] against E[x^B] is E[(1 + A) / (1 + A + B)]. The laws are [positives, strata].
    """
    values, slopes = others_ahead.at(log_x)
    value, slope = values[:, 0], slopes[:, 0]
    # The product rule, stratum by stratum.
    for factor, factor_slope in zip(values.unbind(1)[1:], slopes.unbind(1)[1:], strict=True):
        value, slope = value * factor, slope * factor + value * factor_slope
    return value + slope


def at_most(
    probabilities: Float[Tensor, " events"], num_events: Int[Tensor, " sums"], size: int
) -> Float[Tensor, "sums size"]:
    """P(S <= k) for k = 0 ... `size` - 1; the events of each sum are consecutive in `probabilities`.

    By convolution, one event at a time, truncated at `size`: nothing is subtracted from 1, so small values are exact.
    """
    below = torch.empty(len(num_events), size, dtype=torch.float64, device=probabilities.device)
    start, order = segments.starts(num_events), num_events.argsort()
    done = 0
    while done < len(order):
        # The sums are taken by length, so that padding is short.
        longest = int(num_events[order[min(done + _BATCH, len(order)) - 1]])
        chosen = order[done : done + max(1, min(_BATCH, _CELLS // max(1, longest)))]
        event = torch.arange(int(num_events[chosen[-1]]), device=start.device)[:, None]
        places = torch.where(event < num_events[chosen], start[chosen] + event, 0)
        padded = probabilities[places].where(event < num_events[chosen], 0) if len(event) else probabilities[:0, None]
        # P(S = s), [size, sums]; one more row, which stays 0, stands for s = -1.
        state = below.new_zeros(size + 1, len(chosen))
        state[1] = 1
        law, shifted, change = state[1:], state[:-1], torch.empty_like(state[1:])
        for probability in padded.expand(-1, len(chosen)):
            torch.sub(shifted, law, out=change)
            law.addcmul_(change, probability)
        below[chosen] = segments.running_sums(law).T
        done += len(chosen)
    return below


def largest_mean(count: int) -> float:
    """The smallest mu with a negligible P(S <= count).

    By Chernoff's bound P(S <= count) <= exp(-mu + count + count log(mu / count)), for any probabilities. From
    mu = count on its logarithm falls, and it is concave: so Newton's method, which starts beyond, stays beyond.
    """
    exponent = -math.log(_NEGLIGIBLE)
    mean = count + exponent + math.sqrt(exponent * exponent + 2 * exponent * count)
    if count == 0:
        return exponent
    for _ in range(_STEPS):
        mean -= (mean - count - count * math.log(mean / count) - exponent) / (1 - count / mean)
    return mean


def panels(smallest: float, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u and weights of an integral over x = 1 - u in [0, 1] of E[x^S], for every mu from `smallest` to `largest`.

    E[x^S] is a polynomial in u that falls like exp(-mu u). Panels that halve towards u = 0 resolve it for every mu at
    once: on each, Gauss-Legendre's rule is exact but for rounding. E[x^S] is at most exp(-mu u), so panels near u = 1
    on which that is negligible are left out.
    """
    halvings = max(0, math.ceil(math.log2(max(largest, 1.0) / _NARROW)))
    edges = np.concatenate([[0.0], 0.5 ** np.arange(halvings, -1, -1)])
    edges = edges[: 1 + np.count_nonzero(edges[:-1] * smallest < -math.log(_NEGLIGIBLE))]
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * _NODES).ravel(), (half[:, None] * _WEIGHTS).ravel()
