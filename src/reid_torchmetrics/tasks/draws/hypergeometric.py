"""Probability distributions for the items of a drawn gallery that are ahead of a positive.

`Hypergeometric`           the number of drawn items ahead in one stratum
`find_chances`             the chances of a query's positives to be drawn, to come first and to come last
`poisson_binomial_cdf`     the number of identities ahead: a sum of independent events with unequal probabilities
`quadrature_nodes`         integrals of generating functions E[x^S], for average precision and INP

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
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw

_BELOW_ONE = 1 - 2.0**-53
_NEGLIGIBLE = 1e-17  # a probability that changes no sum of float64
_STEPS = 20  # of Newton's method
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)  # of each panel; see `quadrature_nodes`
_NARROW = 8.0  # mean times width of the panel at 1
_CELLS = 1 << 21  # probabilities that are laid out at a time
_BATCH = 1024  # sums that are convolved at a time: their state stays in the cache


class Hypergeometric:
    """The distribution of T, the number of marked items among the drawn ones, for each entry of the arguments.

    P(T = t) = C(c, t) C(n - c, m - t) / C(n, m) where m of n items are drawn without replacement and c are marked. An
    exact expectation needs only its generating function E[x^T] and the probability that no marked item is drawn.

    For instance 2 of 4 items are drawn and 2 are marked: P(T = 0, 1, 2) = 1/6, 4/6, 1/6, and E[x^T] = (1 + 4x + x^2)/6.
    """

    def __init__(
        self, available: Int[Tensor, "*shape"], marked: Int[Tensor, "*shape"], drawn: Int[Tensor, "*shape"]
    ) -> None:
        """Tabulate P(T = least + j) for j = 0, 1, ...; `marked` and `drawn` must not exceed `available`."""
        self.mean = drawn * marked / available.clamp(min=1).double()
        self.least = (drawn + marked - available).clamp(min=0)
        spread = torch.minimum(marked, drawn) - self.least
        largest_spread = int(spread.max()) if spread.numel() else 0
        count = self.least[..., None] + torch.arange(largest_spread, device=marked.device)
        # P(T = t + 1) / P(T = t) is a ratio of integers; its logarithm is minus infinity beyond the largest T.
        numerator = ((marked[..., None] - count) * (drawn[..., None] - count)).clamp(min=0)
        num_unmarked_left = (available - marked - drawn)[..., None].add(count + 1)
        denominator = (count + 1) * num_unmarked_left.clamp(min=1)
        log_ratios = (numerator / denominator.double()).log()
        log_probabilities = functional.pad(segments.running_sums(log_ratios, -1), (1, 0))  # up to a constant
        self.probability = log_probabilities.softmax(-1)

    def chance_of_none(self) -> Float[Tensor, "*shape"]:
        """Return P(T = 0)."""
        return self.probability[..., 0].where(self.least == 0, 0)

    def value_and_slope(
        self, log_x: Float[Tensor, " nodes"]
    ) -> tuple[Float[Tensor, "*shape nodes"], Float[Tensor, "*shape nodes"]]:
        """Return E[x^T] and E[T x^T], which is x times the derivative of E[x^T]."""
        step = torch.arange(self.probability.shape[-1], device=log_x.device)
        step_powers = powers(step, log_x)
        least_powers = powers(self.least, log_x)
        count = self.least[..., None] + step
        value = least_powers * (self.probability @ step_powers)
        slope = least_powers * ((self.probability * count) @ step_powers)
        return value, slope

    def log_value(self, log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
        """Return log E[x^T], accurate for x near 1."""
        step = torch.arange(self.probability.shape[-1], device=log_x.device)
        one_minus_value = self.probability @ -torch.expm1(step[:, None] * log_x)
        return self.least[..., None] * log_x + torch.log1p(-one_minus_value.clamp(max=_BELOW_ONE))


def powers(exponent: Int[Tensor, "*shape"], log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "*shape nodes"]:
    """Return x to the power of each exponent; equal exponents, often few and small, are computed once."""
    distinct, index = exponent.unique(return_inverse=True)
    distinct_powers = (distinct[:, None] * log_x).exp_()
    flat: Tensor = distinct_powers.index_select(0, index.view(-1))
    return flat.view([*exponent.shape, len(log_x)])


class DrawnPositives(NamedTuple):
    """The positives of some queries, best first, with their chances; chances are 0 at padding.

    For each positive, "the others" are the other positives of its query, counted per stratum of the identity.
    """

    drawn: Float[Tensor, "queries padded"]
    """chance to be drawn"""
    best: Float[Tensor, "queries padded"]
    """chance to be drawn and come before all other positives that are drawn"""
    last: Float[Tensor, "queries padded"]
    """chance to be drawn and come after them"""
    num_drawn: Int[Tensor, " queries"]
    """number of positives that are drawn: it is not random"""
    others_available: Int[Tensor, "queries padded strata"]
    """number of the others"""
    others_ahead: Int[Tensor, "queries padded strata"]
    """number of the others that are ahead of this positive"""
    others_drawn: Int[Tensor, "queries padded strata"]
    """number of the others that are drawn if this positive is drawn"""


def find_chances(
    stratum: Int[Tensor, "queries padded"], valid: Bool[Tensor, "queries padded"], draw: GalleryDraw
) -> DrawnPositives:
    """Compute the chances of positives that are sorted, best first.

    `stratum` numbers the strata within the identity, from 0. If m of n items of a stratum are drawn and a positive is
    one of them, the others are m - 1 of n - 1. Strata are drawn independently, so chances multiply.

    For instance one of three positives in a stratum is drawn: each is drawn with the chance 1/3, and is best and last
    then. If two are drawn, the chances to be drawn are 2/3 each, to be best 2/3, 1/3, 0, and to be last 0, 1/3, 2/3.
    """
    num_strata = int(stratum.where(valid, 0).max()) + 1 if stratum.numel() else 1
    # [queries, padded, strata]: 1 in the stratum of the positive.
    strata_numbers = torch.arange(num_strata, device=stratum.device)
    membership = ((stratum[..., None] == strata_numbers) & valid[..., None]).long()
    available = membership.sum(1, keepdim=True)
    num_drawn = draw.num_drawn(available)
    ahead = membership.cumsum(1) - membership
    others = available - membership
    others_drawn = num_drawn - membership
    drawn = (membership * num_drawn / available.clamp(min=1).double()).sum(-1)
    none_ahead = Hypergeometric(others, ahead, others_drawn).chance_of_none().prod(-1)
    none_behind = Hypergeometric(others, others - ahead, others_drawn).chance_of_none().prod(-1)
    return DrawnPositives(
        drawn=drawn,
        best=drawn * none_ahead,
        last=drawn * none_behind,
        num_drawn=num_drawn.sum((1, 2)),
        others_available=others,
        others_ahead=ahead,
        others_drawn=others_drawn,
    )


def ordinal_density(
    positives_ahead: Hypergeometric, log_x: Float[Tensor, " nodes"]
) -> Float[Tensor, "positives nodes"]:
    """Compute the derivative of x E[x^A], where A is the number of drawn positives ahead of a drawn one.

    Its integral over [0, 1] against E[x^B] is E[(1 + A) / (1 + A + B)]. The distributions are [positives, strata].
    """
    values, slopes = positives_ahead.value_and_slope(log_x)
    value = values[:, 0]
    slope = slopes[:, 0]
    # E[x^A] is a product over strata: apply the product rule, stratum by stratum.
    for factor, factor_slope in zip(values.unbind(1)[1:], slopes.unbind(1)[1:], strict=True):
        slope = slope * factor + value * factor_slope
        value = value * factor
    return value + slope


def poisson_binomial_cdf(
    probabilities: Float[Tensor, " events"], num_events: Int[Tensor, " sums"], size: int
) -> Float[Tensor, "sums size"]:
    """Compute P(S <= k) for k = 0 ... `size` - 1; the events of each sum are consecutive in `probabilities`.

    By convolution, one event at a time, truncated at `size`: nothing is subtracted from 1, so small values are exact.
    """
    cdf = torch.empty(len(num_events), size, dtype=torch.float64, device=probabilities.device)
    start = segments.starts(num_events)
    order = num_events.argsort()  # sums of about one length are computed together, so that padding is short
    num_done = 0
    while num_done < len(order):
        last = min(num_done + _BATCH, len(order)) - 1
        longest = int(num_events[order[last]])
        batch_size = max(1, min(_BATCH, _CELLS // max(1, longest)))
        batch = order[num_done : num_done + batch_size]
        padded = _pad_events(probabilities, start[batch], num_events[batch])
        cdf[batch] = segments.running_sums(_convolve(padded, len(batch), size)).T
        num_done += len(batch)
    return cdf


def _pad_events(probabilities: Tensor, start: Tensor, num_events: Tensor) -> Float[Tensor, "events sums"]:
    """Lay out the events of some sums, sorted by length, one column each; missing events have probability 0."""
    event = torch.arange(int(num_events[-1]), device=start.device)[:, None]
    if len(event) == 0:
        return probabilities[:0, None]
    exists = event < num_events
    index = torch.where(exists, start + event, 0)
    return probabilities[index].where(exists, 0)


def _convolve(padded: Tensor, num_sums: int, size: int) -> Float[Tensor, "size sums"]:
    """Compute P(S = s) for s below `size`, one column for each sum.

    An event of probability p turns P(S = s) into P(S = s) + p (P(S = s - 1) - P(S = s)). For the events 1/2 and 1/3:

        P(S = 0, 1, 2)    1    0    0     without events
                         1/2  1/2   0     with 1/2
                         1/3  1/2  1/6    with 1/3, too
    """
    # One more row in front, which stays 0, stands for s = -1.
    state = torch.zeros(size + 1, num_sums, dtype=torch.float64, device=padded.device)
    state[1] = 1
    distribution = state[1:]
    shifted = state[:-1]
    change = torch.empty_like(distribution)
    for probability in padded.expand(-1, num_sums):
        torch.sub(shifted, distribution, out=change)
        distribution.addcmul_(change, probability)
    return distribution


def largest_mean(count: int) -> float:
    """Compute the smallest mu with a negligible P(S <= count).

    By Chernoff's bound P(S <= count) <= exp(-mu + count + count log(mu / count)), for any probabilities. From
    mu = count on its logarithm falls, and it is concave: so Newton's method, which starts beyond, stays beyond.
    """
    exponent = -math.log(_NEGLIGIBLE)
    if count == 0:
        return exponent
    mean = count + exponent + math.sqrt(exponent * exponent + 2 * exponent * count)
    for _ in range(_STEPS):
        excess = mean - count - count * math.log(mean / count) - exponent
        mean -= excess / (1 - count / mean)
    return mean


def quadrature_nodes(smallest: float, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes u and weights to integrate E[x^S] over x = 1 - u in [0, 1], for all mu from `smallest` to `largest`.

    E[x^S] is a polynomial in u that falls like exp(-mu u). Panels that halve towards u = 0 resolve it for every mu at
    once: on each, Gauss-Legendre's rule is exact but for rounding. E[x^S] is at most exp(-mu u), so panels near u = 1
    on which that is negligible are left out.

    For instance the panels for mu from 0 to 32 are [0, 1/4], [1/4, 1/2] and [1/2, 1], with 12 nodes each. For mu from
    160 to 256 they are [0, 1/32], [1/32, 1/16], [1/16, 1/8] and [1/8, 1/4], since exp(-160/4) is negligible.
    """
    halvings = max(0, math.ceil(math.log2(max(largest, 1.0) / _NARROW)))
    edges = np.concatenate([[0.0], 0.5 ** np.arange(halvings, -1, -1)])
    num_panels = np.count_nonzero(edges[:-1] * smallest < -math.log(_NEGLIGIBLE))
    edges = edges[: 1 + num_panels]
    middle = (edges[1:] + edges[:-1]) / 2
    half_width = (edges[1:] - edges[:-1]) / 2
    nodes = middle[:, None] + half_width[:, None] * _NODES
    weights = half_width[:, None] * _WEIGHTS
    return nodes.ravel(), weights.ravel()
