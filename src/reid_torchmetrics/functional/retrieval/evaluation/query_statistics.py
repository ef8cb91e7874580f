"""Statistics of one value per query: means per label, and how far a mean or a difference may be chance.

breakdown       the mean over the queries of each camera or identity
interval        of a mean, by a bootstrap of the queries
chances         of the mean differences of two models: intervals by a paired bootstrap, p-values by sign flips
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, mean_over_queries

_DRAWS_AT_A_TIME = 1 << 20  # random numbers that are drawn at a time
ROUNDING = 1e-12  # numbers that are as close as that, relative to their size, are equal


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The mean of one value per query over each group: the queries that share all their labels."""

    labels: Int[Tensor, "groups labels"]
    """int64; distinct, in ascending order"""
    mean: Float[Tensor, " groups"]
    """float64; NaN for a group without a value"""
    num_valid: Int[Tensor, " groups"]
    """queries that have a value"""
    num_queries: Int[Tensor, " groups"]
    names: tuple[str, ...] | None = None
    """the names of the groups, where the label has names; groups are in their order then"""

    def named(self, names: Mapping[int, str]) -> Breakdown:
        """The same groups with the names of their first label, in the order of the names."""
        named = [names.get(number, str(number)) for number in self.labels[:, 0].tolist()]
        places = sorted(range(len(named)), key=named.__getitem__)
        rows = torch.tensor(places, dtype=torch.int64, device=self.labels.device)
        columns = self.labels[rows], self.mean[rows], self.num_valid[rows], self.num_queries[rows]
        return Breakdown(*columns, names=tuple(named[place] for place in places))


def mean_by(
    values: Float[Tensor, " queries"],
    label: Real[Tensor, " queries"] | _checks.Integers,
    *labels: Real[Tensor, " queries"] | _checks.Integers,
) -> Breakdown:
    """Mean of one value per query over the queries that share a label, or several; NaN stands for no value.

    Queries without a value are left out, as `mean_over_queries` does by default. That function gives the macro average
    of the groups from `mean`. Without queries there are no groups.

    Args:
        values: what a measure gives for every query.
        label: label of every query, its camera say.
        labels: further labels; queries of one group share them all.

    Raises:
        TypeError: a label tensor is not an integer tensor.
        ValueError: labels that are not as long as `values`, or on another device.
    """
    values = to_compute_device(values)
    named = {"label": label, **{f"labels[{place}]": each for place, each in enumerate(labels)}}
    columns = [_checks.whole_labels(name, each, len(values), values.device).long() for name, each in named.items()]
    # A group is a distinct row of labels.
    distinct, group = torch.stack(columns, dim=1).unique(dim=0, return_inverse=True)
    num_groups = len(distinct)
    valid = ~values.isnan()
    num_valid = group[valid].bincount(minlength=num_groups)
    mean = sums_of_groups(values[valid], group[valid], num_groups) / num_valid  # 0 / 0 is NaN
    return Breakdown(distinct, mean, num_valid, group.bincount(minlength=num_groups))


def sums_of_groups(
    values: Float[Tensor, "items ..."], group: Int[Tensor, " items"], num_groups: int
) -> Float[Tensor, "groups ..."]:
    """Sum of `values` over the items of each group, in float64 and in their order: the same on every run."""
    # Sorted, a group is one segment; `index_add_` would add in any order on a GPU.
    order = group.argsort(stable=True)
    return segments.reduce(values[order].double(), "sum", group.bincount(minlength=num_groups))


@dataclass(frozen=True, eq=False)
class Interval:
    """A confidence interval; both ends are NaN where there is nothing to average, or where the mean is infinite."""

    low: Float[Tensor, ""]
    high: Float[Tensor, ""]
    level: float


def bootstrap_interval(
    values: Float[Tensor, " queries"],
    *,
    generator: torch.Generator | None = None,
    level: float = 0.95,
    repeats: int = 1000,
    identities: Real[Tensor, " queries"] | _checks.Integers | None = None,
    empty_target_action: _names.EmptyTargetAction = "skip",
    weight: Tensor | _checks.Numbers | None = None,
) -> Interval:
    """Percentile bootstrap of `mean_over_queries`: the quantiles (1 -+ `level`) / 2 of means of resampled queries.

    Each of `repeats` times as many queries as there are with a value are drawn with replacement; quantiles are
    interpolated linearly. Queries of one identity share its gallery items and are not independent: with `identities`,
    whole identities are drawn, and the mean is over all their queries. The gallery stays as it is, so the interval is
    about other queries, not about another gallery or another training run. A single query, or a single identity, has
    an interval without width.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; Field and Welsh, "Bootstrapping
    clustered data", Journal of the Royal Statistical Society B, 2007.

    Args:
        values: what a measure gives for every query; NaN stands for a query without positives.
        generator: source of all randomness; one on the CPU draws the same wherever `values` are. None for one with the
            seed 0.
        level: share of the means that lie between the ends of the interval.
        repeats: how often queries are drawn.
        identities: identity of every query, or another label of what to draw as a whole.
        empty_target_action: as in `mean_over_queries`; it is applied to `values` before anything is drawn.
        weight: as in `mean_over_queries`; every query is as likely to be drawn, also with another weight.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: options or lengths that do not fit, or what `mean_over_queries` raises.
    """
    generator = seeded(generator)
    Resampling(generator, level, repeats)
    values = to_compute_device(values)
    if identities is not None:
        identities = _checks.whole_labels("identities", identities, len(values), values.device)
    weight = None if weight is None else _checks.weights("weight", weight, len(values), values.device)
    # A query without positives is drawn only where it counts something: `terms` leaves the others out.
    mean = mean_over_queries(values.double(), empty_target_action=empty_target_action, weight=weight)
    if not mean.isfinite():
        undefined = torch.full_like(mean, torch.nan)
        return Interval(undefined, undefined, level)
    totals, sizes, _ = terms(values, weight, EMPTY_TARGET_ACTIONS[empty_target_action], identities)
    # The mean of a draw is the sum of its values over the sum of its weights.
    blocks = (drawn.to(totals.device) for drawn in draws(len(totals), (repeats, len(totals)), generator))
    means = torch.cat([totals[drawn].sum(1) / sizes[drawn].sum(1) for drawn in blocks])
    low, high = percentile_ends(means, level)
    return Interval(low, high, level)


def terms(
    values: Float[Tensor, " queries"], weight: Tensor | None, substitute: float | None, identities: Tensor | None
) -> tuple[Float[Tensor, " drawable"], Float[Tensor, " drawable"], Bool[Tensor, " queries"]]:
    """Weighted value and weight of every query that counts, and the mask of these queries.

    `substitute` is the value of a query without one; None where it does not count. With `identities`, which are drawn
    and flipped as a whole, the first two are sums over the queries of each.
    """
    # A query counts if it has a value, or something that stands for one, and a weight.
    empty = values.isnan()
    counted = ~empty if substitute is None else torch.ones_like(empty)
    weight = torch.ones_like(values, dtype=torch.float64) if weight is None else weight.double()
    counted &= weight > 0
    totals = values.double().masked_fill(empty, substitute or 0.0) * weight
    totals, sizes = totals[counted], weight[counted]
    if identities is not None:
        distinct, group = identities[counted].unique(return_inverse=True)
        totals, sizes = (sums_of_groups(each, group, len(distinct)) for each in (totals, sizes))
    return totals, sizes, counted


def draws(
    limit: int, shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype = torch.int64
) -> Iterator[Real[Tensor, "block columns"]]:
    """The rows of a matrix of random whole numbers from 0 to below a limit; a bounded number of them at once."""
    num_rows, num_columns = shape
    for rows in segments.ranges(num_rows, max(1, _DRAWS_AT_A_TIME // num_columns)):
        block = rows.stop - rows.start, num_columns
        yield torch.randint(limit, block, generator=generator, dtype=dtype, device=generator.device)


def percentile_ends(means: Float[Tensor, "repeats ..."], level: float) -> Float[Tensor, "2 ..."]:
    """The quantiles (1 -+ `level`) / 2 of the means of all draws that have one."""
    return means.nanquantile(means.new_tensor([(1 - level) / 2, (1 + level) / 2]), dim=0)


def seeded(generator: torch.Generator | None) -> torch.Generator:
    """The generator; None stands for a new one with the seed 0."""
    return torch.Generator("cpu").manual_seed(0) if generator is None else generator


@dataclass(frozen=True, eq=False)
class Resampling:
    """How chance is drawn."""

    generator: torch.Generator
    level: float
    repeats: int
    permutations: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.generator, torch.Generator):
            raise TypeError(f"`generator` must be a torch.Generator; got {type(self.generator).__name__}.")
        _checks.number("level", self.level)
        if not 0 < self.level < 1:
            raise ValueError(f"`level` must lie between 0 and 1; got {self.level}.")
        _checks.positive_int("repeats", self.repeats)
        _checks.positive_int("permutations", self.permutations)


Chance: TypeAlias = tuple[float, ...]
"""A mean difference, both ends of its interval, and its p-value; NaN where there is nothing to average"""
UNDEFINED: Chance = (math.nan,) * 4


def chances(differences: Mapping[str, Tensor], resampling: Resampling, **of_queries: Any) -> dict[str, Chance]:
    """Mean, interval and p-value of each number's differences, at least one of them with a value.

    Numbers that are averages over the same queries share all draws. `of_queries` are the other arguments of `terms`.
    """
    # Numbers that count the same queries are resampled together.
    all_terms = {name: terms(values, **of_queries) for name, values in differences.items()}
    shared: dict[bytes, list[str]] = {}
    for name, (_, _, counted) in all_terms.items():
        shared.setdefault(counted.numpy().tobytes(), []).append(name)
    results: dict[str, Chance] = {}
    for names in shared.values():
        totals, sizes = torch.stack([all_terms[name][0] for name in names], dim=1), all_terms[names[0]][1]
        means = bootstrap_means(totals, sizes, resampling.repeats, resampling.generator)
        p_values = sign_flip_p_values(totals, resampling.permutations, resampling.generator)
        results |= zip(names, _chances(totals.sum(0) / sizes.sum(), means, p_values, resampling.level), strict=True)
    return results


def _chances(observed: Tensor, resampled: Tensor, p_values: Tensor, level: float) -> list[Chance]:
    """Each observed difference with its interval and p-value; NaN where it is."""
    ends = percentile_ends(resampled, level)
    columns = torch.stack([observed, *ends, p_values], 1).masked_fill(observed.isnan()[:, None], math.nan)
    return [*map(tuple, columns.tolist())]


def chances_of_draws(paired: Any, resampling: Resampling) -> list[Chance]:
    """Difference, interval and p-value of each number of images in pairs, see `PairedDetections`.

    A number that a draw leaves undefined has no value there.
    """
    generator, num, means = resampling.generator, paired.num_images, paired.means
    observed = means[1] - means[0]
    if bool(observed.isnan().all()):
        return [UNDEFINED] * len(observed)
    # A bootstrap of the same images for both; for the p-value, models that change places at a random half of them.
    times = (_occurrences(drawn).long() for drawn in draws(num, (resampling.repeats, num), generator))
    resampled = torch.cat([paired.differences(each, torch.zeros_like(each)) for each in times])
    flips = draws(2, (resampling.permutations, num), generator)
    flipped = torch.cat([paired.differences(torch.ones_like(each), each) for each in flips])
    num_extreme = (flipped.abs() >= observed.abs() - ROUNDING).sum(0)
    p_values = (1 + num_extreme).double() / (1 + resampling.permutations)
    return _chances(observed, resampled, p_values, resampling.level)


def bootstrap_means(
    totals: Float[Tensor, "drawable numbers"], sizes: Tensor, repeats: int, generator: torch.Generator
) -> Float[Tensor, "repeats numbers"]:
    """Sum of `totals` over sum of `sizes` in each draw, the same draws for all numbers."""
    both = torch.cat([totals, sizes[:, None]], dim=1)
    # How often each is drawn, times its terms: one product for all numbers.
    drawable = len(totals)
    sums = torch.cat([_occurrences(drawn) @ both for drawn in draws(drawable, (repeats, drawable), generator)])
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
    # A flip keeps the signs of a random half, and turns the others over.
    observed = totals.sum(0)
    least = observed.abs() - ROUNDING * totals.abs().sum(0)
    num_extreme = torch.zeros(totals.shape[1], dtype=torch.int64, device="cpu")
    for kept in draws(2, (permutations, len(totals)), generator, torch.float64):
        sums = 2 * (kept @ totals) - observed  # what is kept minus what is flipped
        num_extreme += (sums.abs() >= least).sum(0)
    return (1 + num_extreme).double() / (1 + permutations)
