"""Chances of mean differences of two models: intervals by a paired bootstrap, p-values by sign flips."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .resampling import Resampling, draws, percentile_ends, terms

ROUNDING = 1e-12  # numbers that are as close as that, relative to their size, are equal


class Chance(NamedTuple):
    """A mean difference with its interval and its p-value; NaN where there is nothing to average."""

    difference: float
    low: float
    high: float
    p_value: float


UNDEFINED = Chance(math.nan, math.nan, math.nan, math.nan)


def chances(
    differences: Mapping[str, Tensor],
    resampling: Resampling,
    *,
    weights: Mapping[str, Tensor | None],
    substitute: float | None,
    identities: Tensor | None,
) -> dict[str, Chance]:
    """Return mean, interval and p-value of each number's differences, at least one of them with a value.

    Numbers that are averages over the same queries share all draws. `weights` are those of each number, and the other
    arguments those of `terms`.
    """
    all_terms = {name: terms(values, weights[name], substitute, identities) for name, values in differences.items()}
    names_by_queries: dict[tuple[bytes, bool], list[str]] = {}
    for name, (_, _, is_counted) in all_terms.items():
        key = is_counted.numpy().tobytes(), weights[name] is None
        names_by_queries.setdefault(key, []).append(name)

    results: dict[str, Chance] = {}
    for names in names_by_queries.values():
        totals = torch.stack([all_terms[name][0] for name in names], dim=1)
        sizes = all_terms[names[0]][1]
        means = bootstrap_means(totals, sizes, resampling.num_resamples, resampling.generator)
        p_values = sign_flip_p_values(totals, resampling.num_permutations, resampling.generator)
        observed = totals.sum(0) / sizes.sum()
        results.update(zip(names, _chances(observed, means, p_values, resampling.level), strict=True))
    return results


def _chances(observed: Tensor, resampled: Tensor, p_values: Tensor, level: float) -> list[Chance]:
    """Return each observed difference with its interval and p-value; NaN where it is NaN."""
    low, high = percentile_ends(resampled, level)
    columns = torch.stack([observed, low, high, p_values], 1).masked_fill(observed.isnan()[:, None], math.nan)
    return [Chance(*row) for row in columns.tolist()]


def chances_of_draws(paired: Any, resampling: Resampling) -> list[Chance]:
    """Return difference, interval and p-value of each number of two detectors, see `PairedDetections`.

    A number that a draw leaves undefined has no value there.
    """
    generator = resampling.generator
    num_images = paired.num_images
    mean_a, mean_b = paired.means
    observed = mean_b - mean_a
    if bool(observed.isnan().all()):
        return [UNDEFINED] * len(observed)

    # Interval: a bootstrap of the same images for both models.
    resampled = []
    for drawn in draws(num_images, (resampling.num_resamples, num_images), generator):
        times = _occurrences(drawn).long()
        resampled.append(paired.differences(times, torch.zeros_like(times)))

    # p-value: the models change places at a random half of the images.
    flips = draws(2, (resampling.num_permutations, num_images), generator)
    flipped = [paired.differences(torch.ones_like(is_flipped), is_flipped) for is_flipped in flips]
    num_extreme = (torch.cat(flipped).abs() >= observed.abs() - ROUNDING).sum(0)
    p_values = (1 + num_extreme).double() / (1 + resampling.num_permutations)
    return _chances(observed, torch.cat(resampled), p_values, resampling.level)


def bootstrap_means(
    totals: Float[Tensor, "drawable numbers"], sizes: Tensor, num_resamples: int, generator: torch.Generator
) -> Float[Tensor, "num_resamples numbers"]:
    """Return the sum of `totals` over the sum of `sizes` in each draw, the same draws for all numbers."""
    num_drawable = len(totals)
    columns = torch.cat([totals, sizes[:, None]], dim=1)
    blocks = draws(num_drawable, (num_resamples, num_drawable), generator)
    sums = torch.cat([_occurrences(drawn) @ columns for drawn in blocks])  # one product for all numbers
    return sums[:, :-1] / sums[:, -1:]


def _occurrences(drawn: Int[Tensor, "block drawable"]) -> Float[Tensor, "block drawable"]:
    """Count how often each row is drawn."""
    one = torch.ones((), dtype=torch.float64, device="cpu").expand(drawn.shape)
    return torch.zeros(drawn.shape, dtype=torch.float64, device="cpu").scatter_add_(1, drawn, one)


def sign_flip_p_values(
    totals: Float[Tensor, "drawable numbers"], num_permutations: int, generator: torch.Generator
) -> Float[Tensor, " numbers"]:
    """Return two-sided p-values of the sums of `totals` under random signs, the same signs for all numbers.

    A p-value is (1 + permutations with a sum at least as far from 0 as the observed one) / (1 + num_permutations). Sums
    that differ by rounding are as far.
    """
    # A permutation keeps the signs of a random half, and flips the others.
    observed = totals.sum(0)
    least = observed.abs() - ROUNDING * totals.abs().sum(0)
    num_extreme = torch.zeros(totals.shape[1], dtype=torch.int64, device="cpu")
    for is_kept in draws(2, (num_permutations, len(totals)), generator, torch.float64):
        sums = 2 * (is_kept @ totals) - observed  # the kept totals minus the flipped ones
        num_extreme += (sums.abs() >= least).sum(0)
    return (1 + num_extreme).double() / (1 + num_permutations)
