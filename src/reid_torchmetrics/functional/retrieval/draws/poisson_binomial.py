"""Sums of independent events with unequal probabilities: how many identities, or drawn items, are ahead.

The number S of identities ahead of a positive is a sum of independent events, one for each identity: its law is the
Poisson binomial. Below, mu is its mean.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments

_NEGLIGIBLE = 1e-17
"""a probability that changes no sum of float64"""
_STEPS = 20  # of Newton's method
_NODES = 12  # of each panel; see `panels`
_NARROW = 8.0  # mean times width of the panel at 1
_CELLS = 1 << 21  # probabilities that are laid out at a time
_BATCH = 1024  # laws that are convolved at a time: their state stays in the cache


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
        below[chosen] = segments.running_sums(_convolved(padded.expand(-1, len(chosen)), size)).T
        done += len(chosen)
    return below


def _convolved(probabilities: Float[Tensor, "events sums"], size: int) -> Float[Tensor, "size sums"]:
    """P(S = s) for s < `size`."""
    # One more row, which stays 0, stands for S = -1.
    state = torch.zeros(size + 1, probabilities.shape[1], dtype=torch.float64, device=probabilities.device)
    state[1] = 1
    law, shifted, change = state[1:], state[:-1], torch.empty_like(state[1:])
    for probability in probabilities:
        torch.sub(shifted, law, out=change)
        law.addcmul_(change, probability)
    return law


def largest_mean(count: int) -> float:
    """The mu from which on P(S <= count) is negligible.

    By Chernoff's bound P(S <= count) <= exp(-mu + count + count log(mu / count)), whatever the probabilities. From
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
    nodes, weights = _gauss_legendre()
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()


@functools.cache
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(_NODES)
