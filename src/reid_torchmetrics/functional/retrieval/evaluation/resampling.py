"""Chance in the difference of two models: a paired bootstrap, and sign flips."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation.bootstrap import (
    blocks_of_rows,
    draws,
    percentile_interval,
    terms,
    terms_of_identities,
)

ROUNDING = 1e-12
"""what is as close as that, relative to the size of the numbers, is equal"""


@dataclass(frozen=True, eq=False)
class Resampling:
    """How chance is drawn."""

    generator: torch.Generator
    confidence: float
    repeats: int
    permutations: int


class Chance(NamedTuple):
    """A mean difference, and what chance makes of it."""

    difference: float
    low: float
    high: float
    p_value: float


UNDEFINED = Chance(*[math.nan] * 4)
"""where there is nothing to average"""


def chances(
    differences: Mapping[str, Float[Tensor, " queries"]],
    resampling: Resampling,
    *,
    weight: Tensor | None = None,
    identities: Integer[Tensor, " queries"] | None = None,
    substitute: float | None = None,
) -> dict[str, Chance]:
    """Mean, interval and p-value of each number's differences, of which one at least has a value.

    Numbers that are averages over the same queries share all draws. `substitute` is the difference of a query without
    a value; None where it does not count. With `identities`, these are drawn and flipped as a whole.
    """
    all_terms = {name: terms(values, weight, substitute) for name, values in differences.items()}
    shared: dict[bytes, list[str]] = {}
    for name, (_, _, counted) in all_terms.items():
        shared.setdefault(counted.numpy().tobytes(), []).append(name)
    found: dict[str, Chance] = {}
    for names in shared.values():
        totals = torch.stack([all_terms[name][0] for name in names], dim=1)
        _, sizes, counted = all_terms[names[0]]
        if identities is not None:
            totals, sizes = terms_of_identities(identities[counted], totals, sizes)
        found |= zip(names, _chances(totals, sizes, resampling), strict=True)
    return found


def _chances(
    totals: Float[Tensor, "drawable numbers"], sizes: Float[Tensor, " drawable"], resampling: Resampling
) -> list[Chance]:
    means = bootstrap_means(totals, sizes, resampling.repeats, resampling.generator)
    intervals = [percentile_interval(column, resampling.confidence) for column in means.unbind(1)]
    p_values = sign_flip_p_values(totals, resampling.permutations, resampling.generator).tolist()
    differences = (totals.sum(0) / sizes.sum()).tolist()
    return [
        Chance(difference, float(interval.low), float(interval.high), p_value)
        for difference, interval, p_value in zip(differences, intervals, p_values, strict=True)
    ]


def bootstrap_means(
    totals: Float[Tensor, "drawable numbers"],
    sizes: Float[Tensor, " drawable"],
    repeats: int,
    generator: torch.Generator,
) -> Float[Tensor, "repeats numbers"]:
    """Sum of `totals` over sum of `sizes` in each draw, the same draws for all numbers."""
    both = torch.cat([totals, sizes[:, None]], dim=1)
    # How often each is drawn, times its terms: one product for all numbers.
    sums = torch.cat([_occurrences(drawn) @ both for drawn in draws(len(totals), repeats, generator)])
    return sums[:, :-1] / sums[:, -1:]


def _occurrences(drawn: Int[Tensor, "block drawable"]) -> Float[Tensor, "block drawable"]:
    one = torch.ones((), dtype=torch.float64, device="cpu").expand(drawn.shape)
    return torch.zeros(drawn.shape, dtype=torch.float64, device="cpu").scatter_add_(1, drawn, one)


def sign_flip_p_values(
    totals: Float[Tensor, "drawable numbers"], permutations: int, generator: torch.Generator
) -> Float[Tensor, " numbers"]:
    """Two-sided p-values of the sums over all that can be flipped, the same flips for all numbers.

    (1 + permutations whose sum is as far from 0 as what was observed) / (1 + permutations). Sums that differ by
    rounding are as far.
    """
    observed = totals.sum(0)
    least = observed.abs() - ROUNDING * totals.abs().sum(0)
    num_extreme = torch.zeros(totals.shape[1], dtype=torch.int64, device="cpu")
    for rows in blocks_of_rows(permutations, len(totals)):
        shape = (rows.stop - rows.start, len(totals))
        kept = torch.randint(2, shape, generator=generator, dtype=torch.float64, device="cpu")
        sums = 2 * (kept @ totals) - observed  # kept ones less flipped ones
        num_extreme += (sums.abs() >= least).sum(0)
    return (1 + num_extreme).double() / (1 + permutations)
