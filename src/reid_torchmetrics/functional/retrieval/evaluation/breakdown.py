"""Means per label: what a measure is for each camera, or for each identity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The mean of one value per query over the queries of each group, which share all their labels."""

    labels: Int[Tensor, "groups labels"]
    """int64; distinct, in ascending order"""
    mean: Float[Tensor, " groups"]
    """float64; NaN for a group in which no query has a value"""
    num_valid: Int[Tensor, " groups"]
    """queries that have a value"""
    num_queries: Int[Tensor, " groups"]


def mean_by(
    values: Float[Tensor, " queries"], label: Integer[Tensor, " queries"], *labels: Integer[Tensor, " queries"]
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
    _checks.integer_labels("label", label, len(values), values.device)
    for number, further in enumerate(labels):
        _checks.integer_labels(f"labels[{number}]", further, len(values), values.device)
    rows = torch.stack([column.long() for column in (label, *labels)], dim=1)
    distinct, group = rows.unique(dim=0, return_inverse=True)
    num_groups = len(distinct)
    valid = ~values.isnan()
    num_valid = group[valid].bincount(minlength=num_groups)
    mean = sums_of_groups(values[valid], group[valid], num_groups) / num_valid  # 0 / 0 is NaN
    return Breakdown(distinct, mean, num_valid, group.bincount(minlength=num_groups))


def sums_of_groups(
    values: Float[Tensor, "items ..."], group: Int[Tensor, " items"], num_groups: int
) -> Float[Tensor, "groups ..."]:
    """Sum of `values` over the items of each group, in float64 and in their order: the same on every run."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=num_groups)
    return segments.reduce(values[order].double(), "sum", sizes)
