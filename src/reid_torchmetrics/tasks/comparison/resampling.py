"""Confidence intervals by a bootstrap, and p-values of mean differences of two models by sign flips."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import Display, Displayed
from reid_torchmetrics.functional.retrieval.evaluation import sums_of_groups
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, mean_over_queries

_DRAWS_AT_A_TIME = 1 << 20  # random numbers that are drawn at a time
ROUNDING = 1e-12  # numbers that are as close as that, relative to their size, are equal


@dataclass(frozen=True, eq=False, repr=False)
class Interval(Displayed):
    """A confidence interval; both ends are NaN where there is nothing to average, or where the mean is infinite."""

    low: Float[Tensor, ""]
    high: Float[Tensor, ""]
    level: float

    def _display(self) -> Display:
        return Display(f"Interval: {float(self.low):.4f} to {float(self.high):.4f}, level {self.level:g}")


def bootstrap_interval(
    values: Float[Tensor, " queries"] | _checks.Numbers,
    *,
    generator: torch.Generator | None = None,
    level: float = 0.95,
    num_resamples: int = 1000,
    identities: Real[Tensor, " queries"] | _checks.Integers | None = None,
    empty_target_action: _names.EmptyTargetAction = "skip",
    weight: Tensor | _checks.Numbers | None = None,
) -> Interval:
    """Return the percentile bootstrap interval of `mean_over_queries`: quantiles (1 -+ `level`) / 2 of resampled means.

    Each of `num_resamples` times as many queries as there are with a value are drawn with replacement; quantiles are
    interpolated linearly. Queries of one identity share its gallery items and are not independent: with `identities`,
    whole identities are drawn, and the mean is over all their queries. The gallery stays as it is, so the interval is
    about other queries, not about another gallery or another training run. A single query, or a single identity, has
    an interval without width.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; Field and Welsh, "Bootstrapping
    clustered data", Journal of the Royal Statistical Society B, 2007.

    Args:
        values: values of a measure for every query; NaN stands for a query without positives.
        generator: source of all randomness; one on the CPU draws the same wherever `values` are. None for one with the
            seed 0.
        level: share of the means that lie between the ends of the interval.
        num_resamples: how often queries are drawn.
        identities: identity of every query, or another label whose queries are drawn as a whole.
        empty_target_action: as in `mean_over_queries`; it is applied to `values` before anything is drawn.
        weight: as in `mean_over_queries`; every query is as likely to be drawn, also with another weight.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: options or lengths that do not fit, or what `mean_over_queries` raises.
    """
    generator = seeded(generator)
    Resampling(generator, level, num_resamples)
    values = _checks.tensor("values", values)
    if identities is not None:
        identities = _checks.whole_labels("identities", identities, len(values), values.device)
    if weight is not None:
        weight = _checks.weights("weight", weight, len(values), values.device)
    mean = mean_over_queries(values.double(), empty_target_action=empty_target_action, weight=weight)
    if not mean.isfinite():
        undefined = torch.full_like(mean, torch.nan)
        return Interval(undefined, undefined, level)

    # A query without positives is drawn only where it counts in the mean: `terms` leaves the others out.
    totals, sizes, _ = terms(values, weight, EMPTY_TARGET_ACTIONS[empty_target_action], identities)
    means = []
    for rows in draws(len(totals), (num_resamples, len(totals)), generator):
        drawn = rows.to(totals.device)
        means.append(totals[drawn].sum(1) / sizes[drawn].sum(1))
    low, high = percentile_ends(torch.cat(means), level)
    return Interval(low, high, level)


def terms(
    values: Float[Tensor, " queries"], weight: Tensor | None, substitute: float | None, identities: Tensor | None
) -> tuple[Float[Tensor, " drawable"], Float[Tensor, " drawable"], Bool[Tensor, " queries"]]:
    """Return the weighted value and the weight of every query that counts, and the mask of these queries.

    `substitute` is the value of a query without one; None where it does not count. With `identities`, which are drawn
    and flipped as a whole, the first two are sums over the queries of each.
    """
    # A query counts if it has a value or a substitute, and a weight.
    is_empty = values.isnan()
    is_counted = ~is_empty if substitute is None else torch.ones_like(is_empty)
    weight = torch.ones_like(values, dtype=torch.float64) if weight is None else weight.double()
    is_counted &= weight > 0
    totals = values.double().masked_fill(is_empty, substitute or 0.0) * weight
    totals = totals[is_counted]
    sizes = weight[is_counted]
    if identities is not None:
        distinct, group = identities[is_counted].unique(return_inverse=True)
        totals = sums_of_groups(totals, group, len(distinct))
        sizes = sums_of_groups(sizes, group, len(distinct))
    return totals, sizes, is_counted


def draws(
    limit: int, shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype = torch.int64
) -> Iterator[Real[Tensor, "block columns"]]:
    """Yield the rows of a matrix of random integers in [0, limit), a bounded number of them at a time."""
    num_rows, num_columns = shape
    for rows in segments.ranges(num_rows, max(1, _DRAWS_AT_A_TIME // num_columns)):
        shape_of_block = rows.stop - rows.start, num_columns
        yield torch.randint(limit, shape_of_block, generator=generator, dtype=dtype, device=generator.device)


def percentile_ends(means: Float[Tensor, "num_resamples ..."], level: float) -> Float[Tensor, "2 ..."]:
    """Return the quantiles (1 -+ `level`) / 2 of the means of all draws that have one."""
    return means.nanquantile(means.new_tensor([(1 - level) / 2, (1 + level) / 2]), dim=0)


def seeded(generator: torch.Generator | None) -> torch.Generator:
    """Return the generator; None stands for a new one with the seed 0."""
    return torch.Generator("cpu").manual_seed(0) if generator is None else generator


@dataclass(frozen=True, eq=False)
class Resampling:
    """Settings of a bootstrap and a randomization test."""

    generator: torch.Generator
    level: float
    num_resamples: int
    num_permutations: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.generator, torch.Generator):
            raise TypeError(f"`generator` must be a torch.Generator; got {type(self.generator).__name__}.")
        _checks.number("level", self.level)
        if not 0 < self.level < 1:
            raise ValueError(f"`level` must lie between 0 and 1; got {self.level}.")
        _checks.positive_int("num_resamples", self.num_resamples)
        _checks.positive_int("num_permutations", self.num_permutations)


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
        # The sums of totals and of sizes in each draw are one product for all numbers.
        columns = torch.cat([totals, sizes[:, None]], dim=1)
        blocks = draws(len(totals), (resampling.num_resamples, len(totals)), resampling.generator)
        sums = torch.cat([_occurrences(drawn) @ columns for drawn in blocks])
        means = sums[:, :-1] / sums[:, -1:]
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
