"""Means over queries of one value per query, where NaN stands for a query without positives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._arrays import to_compute_device
from reid_torchmetrics._names import EmptyTargetAction, MedianRule
from reid_torchmetrics.functional import segments

EMPTY_TARGET_ACTIONS = {"skip": None, "neg": 0.0, "pos": 1.0, "error": None}
"""The value of a query without positives in the mean; None where it does not count."""


def mean_over_queries(
    values: Float[Tensor, "queries *shape"],  # noqa: UP037 - two axes, not a product
    *,
    empty_target_action: EmptyTargetAction = "skip",
    weight: Tensor | _checks.Numbers | None = None,
) -> Float[Tensor, " *shape"]:
    """Mean of one value, or one curve, per query; NaN stands for a query without positives.

    `empty_target_action`, TorchMetrics' word: "skip" leaves such queries out (torchreid, fast-reid, open-reid),
    "neg" counts them as 0 (the official Market-1501 script, layumi), "pos" as 1. The mean is NaN where nothing counts:
    there is no query, or no query has a value under "skip" or "error". `weight` says how much each query counts; None:
    the same.

    Raises:
        ValueError: an unknown action, action "error" and queries with a positive beside queries without, or weights
            that are negative, not finite or not one for each query.
    """
    missing = values.isnan()
    valid = ~(missing.flatten(1).any(1) if values.ndim > 1 else missing)
    if weight is None:
        return mean_of_total(values[valid].sum(0), valid, empty_target_action)
    weight = _checks.weights("weight", weight, len(values), values.device).to(values.dtype)
    return mean_of_total(torch.einsum("q,q...->...", weight[valid], values[valid]), valid, empty_target_action, weight)


def mean_of_total(
    total: Float[Tensor, "*shape"], valid: Tensor, empty_target_action: str, weight: Tensor | None = None
) -> Float[Tensor, "*shape"]:
    """Mean over queries, given the `total` over the `valid` ones; for `mean_over_queries` and curves."""
    substitute = _value_of_empty(empty_target_action, valid)
    num_valid = int(valid.sum()) if weight is None else float(weight[valid].sum())
    if substitute is None:
        return total / num_valid  # NaN of none
    num_empty = len(valid) - num_valid if weight is None else float(weight[~valid].sum())
    return (total + substitute * num_empty) / (num_valid + num_empty)


def mean_over_identities(
    values: Float[Tensor, " queries"],
    identities: Real[Tensor, " queries"] | _checks.Integers,
    *,
    empty_target_action: EmptyTargetAction = "skip",
) -> Float[Tensor, ""]:
    """Mean over identities of the mean over an identity's queries, so that every identity counts the same.

    Queries without positives are treated as in `mean_over_queries`; under "skip" an identity with no other queries
    does not count. It is pytorch-metric-learning's `avg_of_avgs`.

    Raises:
        TypeError: `identities` is not an integer tensor.
        ValueError: `identities` of another length than `values`, or as `mean_over_queries`.
    """
    identities = _checks.whole_labels("identities", identities, len(values), values.device)
    valid = ~values.isnan()
    substitute = _value_of_empty(empty_target_action, valid)
    if substitute is None:
        values, identities = values[valid], identities[valid]
    _, row, size = torch.unique(identities, return_inverse=True, return_counts=True)
    totals = torch.zeros_like(size, dtype=values.dtype).index_add_(0, row, values.nan_to_num(nan=substitute or 0.0))
    means: Tensor = totals / size
    return means.mean()  # NaN of none


def median_over_queries(
    values: Float[Tensor, " queries"], *, rule: MedianRule = "mean", weight: Tensor | _checks.Numbers | None = None
) -> Float[Tensor, ""]:
    """Median of one value per query; NaN of none.

    Queries without positives, NaN, do not count: their values in a mean would be no ranks. Of an even number, `rule`
    "mean" is halfway between the two middle ones (NumPy), "lower" the lower of them (`torch.median`), "floor" the first
    rounded down. `weight` says how much each query counts; None: the same.

    Raises:
        ValueError: an unknown rule, or weights that are negative, not finite or not one for each query.
    """
    _checks.one_of("rule", rule, _MEDIAN_RULES)
    values = to_compute_device(values)
    weight = torch.ones_like(values) if weight is None else weight
    weight = _checks.weights("weight", weight, len(values), values.device)
    counted = ~values.isnan() & (weight > 0)
    if not bool(counted.any()):
        return torch.full((), torch.nan, dtype=values.dtype, device=values.device)
    # The lower middle one is the first to reach half of the weight, the upper one the first to exceed it.
    ordered, order = values[counted].sort()
    reached = segments.running_sums(weight[counted][order].double())
    half = reached[-1:] / 2
    lower, upper = (ordered[torch.searchsorted(reached, half, right=right)][0] for right in (False, True))
    return _MEDIAN_RULES[rule](lower, upper)


_MEDIAN_RULES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda lower, upper: (lower + upper) / 2,
    "lower": lambda lower, _: lower,
    "floor": lambda lower, upper: ((lower + upper) / 2).floor(),
}
"""The median, from the two middle values."""


def _value_of_empty(empty_target_action: str, valid: Tensor) -> float | None:
    """The value of a query without positives in the mean, None where it does not count.

    Raise for an unknown action, and under "error" for such queries, unless none is valid: the mean is NaN then, as
    under "skip". Lightning's sanity check sees a part of the data, perhaps without any positive, and must not crash.
    """
    _checks.one_of("empty_target_action", empty_target_action, EMPTY_TARGET_ACTIONS)
    num_empty = int((~valid).sum()) if empty_target_action == "error" else 0
    if 0 < num_empty < len(valid):
        came = f"{num_empty} of {len(valid)}"
        raise ValueError(f"`empty_target_action` 'error' allows no query without a positive; got {came}.")
    return EMPTY_TARGET_ACTIONS[empty_target_action]
