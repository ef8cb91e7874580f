"""Means and medians over queries of one value per query; a query without positives has the value NaN."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import EmptyTargetAction, MedianRule
from reid_torchmetrics.functional import segments

EMPTY_TARGET_ACTIONS = {"skip": None, "neg": 0.0, "pos": 1.0, "error": None}
"""The value of a query without positives in the mean; None where it does not count."""


def mean_over_queries(
    values: Float[Tensor, "queries *shape"] | _checks.Numbers,  # noqa: UP037 - two axes, not a product
    *,
    empty_target_action: EmptyTargetAction = "skip",
    weight: Tensor | _checks.Numbers | None = None,
) -> Float[Tensor, " *shape"]:
    """Compute the mean of one value, or one curve, per query; a query without positives has NaN.

    `empty_target_action`, named as in TorchMetrics: "skip" leaves such queries out (torchreid, fast-reid, open-reid),
    "neg" counts them as 0 (the official Market-1501 script, layumi), "pos" as 1. The mean is NaN if no query counts:
    there is no query, or no query has a value under "skip" or "error". `weight` is the weight of each query in the
    mean; None weights all queries equally.

    Raises:
        ValueError: an unknown action, action "error" if only some queries have a positive, or weights that are
            negative, not finite or not one for each query.
    """
    values = _checks.tensor("values", values)
    missing = values.isnan()
    if values.ndim > 1:
        missing = missing.flatten(1).any(1)
    valid = ~missing
    if weight is None:
        return mean_of_total(values[valid].sum(0), valid, empty_target_action)
    weight = _checks.weights("weight", weight, len(values), values.device).to(values.dtype)
    total = torch.einsum("q,q...->...", weight[valid], values[valid])
    return mean_of_total(total, valid, empty_target_action, weight)


def mean_of_total(
    total: Float[Tensor, "*shape"], valid: Tensor, empty_target_action: str, weight: Tensor | None = None
) -> Float[Tensor, "*shape"]:
    """Compute the mean over queries from the `total` over the `valid` ones; for `mean_over_queries` and curves."""
    substitute = _value_without_positives(empty_target_action, valid)
    valid_weight = int(valid.sum()) if weight is None else float(weight[valid].sum())
    if substitute is None:
        return total / valid_weight  # NaN if there are none
    empty_weight = len(valid) - valid_weight if weight is None else float(weight[~valid].sum())
    return (total + substitute * empty_weight) / (valid_weight + empty_weight)


def mean_over_identities(
    values: Float[Tensor, " queries"] | _checks.Numbers,
    identities: Real[Tensor, " queries"] | _checks.Integers,
    *,
    empty_target_action: EmptyTargetAction = "skip",
) -> Float[Tensor, ""]:
    """Compute the mean over identities of the mean over an identity's queries: all identities have equal weight.

    Queries without positives are treated as in `mean_over_queries`; under "skip" an identity with no other queries
    does not count. It equals `avg_of_avgs` in pytorch-metric-learning.

    Raises:
        TypeError: `identities` is not an integer tensor.
        ValueError: `identities` and `values` differ in length, or as in `mean_over_queries`.
    """
    values = _checks.tensor("values", values)
    identities = _checks.whole_labels("identities", identities, len(values), values.device)
    valid = ~values.isnan()
    substitute = _value_without_positives(empty_target_action, valid)
    if substitute is None:
        values = values[valid]
        identities = identities[valid]
    _, row, size = torch.unique(identities, return_inverse=True, return_counts=True)
    values = values.nan_to_num(nan=substitute or 0.0)
    totals = torch.zeros_like(size, dtype=values.dtype).index_add_(0, row, values)
    means: Tensor = totals / size
    return means.mean()  # NaN if there are none


def median_over_queries(
    values: Float[Tensor, " queries"] | _checks.Numbers,
    *,
    rule: MedianRule = "mean",
    weight: Tensor | _checks.Numbers | None = None,
) -> Float[Tensor, ""]:
    """Compute the median of one value per query; NaN if there are none.

    Queries without positives, NaN, do not count: the values for them in a mean are not ranks. For an even number of
    values, `rule` "mean" is halfway between the two middle ones (NumPy), "lower" is the lower of them (`torch.median`),
    and "floor" is "mean" rounded down. `weight` is the weight of each query; None weights all queries equally.

    Raises:
        ValueError: an unknown rule, or weights that are negative, not finite or not one for each query.
    """
    _checks.one_of("rule", rule, _MEDIAN_RULES)
    values = _checks.tensor("values", values)
    if weight is None:
        weight = torch.ones_like(values)
    weight = _checks.weights("weight", weight, len(values), values.device)
    counted = ~values.isnan() & (weight > 0)
    if not bool(counted.any()):
        return torch.full((), torch.nan, dtype=values.dtype, device=values.device)
    # The lower middle value is the first to reach half of the weight, the upper one the first to exceed it.
    ordered, order = values[counted].sort()
    cumulative_weight = segments.running_sums(weight[counted][order].double())
    half = cumulative_weight[-1:] / 2
    lower = ordered[torch.searchsorted(cumulative_weight, half)][0]
    upper = ordered[torch.searchsorted(cumulative_weight, half, right=True)][0]
    return _MEDIAN_RULES[rule](lower, upper)


_MEDIAN_RULES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda lower, upper: (lower + upper) / 2,
    "lower": lambda lower, _: lower,
    "floor": lambda lower, upper: ((lower + upper) / 2).floor(),
}
"""The median, from the two middle values."""


def _value_without_positives(empty_target_action: str, valid: Tensor) -> float | None:
    """Return the value of a query without positives in the mean, None where it does not count.

    Raise for an unknown action, and under "error" if only some queries are valid. If none is valid, the mean is NaN, as
    under "skip": Lightning's sanity check sees a part of the data, perhaps without any positive, and must not fail.
    """
    _checks.one_of("empty_target_action", empty_target_action, EMPTY_TARGET_ACTIONS)
    if empty_target_action == "error":
        num_empty = int((~valid).sum())
        if 0 < num_empty < len(valid):
            got = f"{num_empty} of {len(valid)}"
            raise ValueError(f"`empty_target_action` 'error' allows no query without a positive; got {got}.")
    return EMPTY_TARGET_ACTIONS[empty_target_action]
