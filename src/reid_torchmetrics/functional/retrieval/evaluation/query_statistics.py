"""Means of one value per query over the queries of each camera or identity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, cut, more_rows


class LeftOutQueries(ABC):
    """A result that names some of the evaluated queries, which `RetrievalResults.means_without` leaves out."""

    @property
    @abstractmethod
    def affected_queries(self) -> Int[Tensor, " affected"]:
        """Positions of the queries that are left out, from 0."""

    @abstractmethod
    def check_queries(self, argument: str, num_queries: int, query_hash: int | None) -> None:
        """Raise a ValueError unless this is a result of the evaluated queries."""


@dataclass(frozen=True, eq=False, repr=False)
class Breakdown(Displayed):
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

    def _display(self) -> Display:
        names = self.names or [", ".join(map(str, labels)) for labels in self.labels.tolist()]
        columns = (names, self.mean.tolist(), self.num_valid.tolist(), self.num_queries.tolist())
        rows = []
        for name, mean, num_valid, num_queries in list(zip(*columns, strict=True))[:NUM_ROWS]:
            rows.append((cut(name), f"{mean:.4f}", f"{num_valid:,}", f"{num_queries:,}"))
        title = f"Breakdown: means of {counted(len(names), 'group')} of queries"
        return Display(title, ("group", "mean", "valid", "queries"), rows, more_rows(len(names), "group"))

    def with_names(self, names: Mapping[int, str]) -> Breakdown:
        """Return the groups with the names of their first label, in the order of the names."""
        names_of_groups = [names.get(number, str(number)) for number in self.labels[:, 0].tolist()]
        order = sorted(range(len(names_of_groups)), key=names_of_groups.__getitem__)
        rows = torch.tensor(order, dtype=torch.int64, device=self.labels.device)
        return Breakdown(
            labels=self.labels[rows],
            mean=self.mean[rows],
            num_valid=self.num_valid[rows],
            num_queries=self.num_queries[rows],
            names=tuple(names_of_groups[place] for place in order),
        )


def mean_by(
    values: Float[Tensor, " queries"] | _checks.Numbers,
    label: Real[Tensor, " queries"] | _checks.Integers,
    *labels: Real[Tensor, " queries"] | _checks.Integers,
) -> Breakdown:
    """Return the mean of one value per query over the queries that share one or several labels.

    Queries without a value, NaN, are left out, as `mean_over_queries` does by default. That function returns the macro
    average of the groups from `mean`. Without queries there are no groups.

    Args:
        values: values of a measure for every query.
        label: label of every query, such as its camera.
        labels: further labels; queries of one group share them all.

    Raises:
        TypeError: a label tensor is not an integer tensor.
        ValueError: labels that are not as long as `values`, or on another device.
    """
    values = _checks.tensor("values", values)
    labels_by_argument = {"label": label}
    labels_by_argument.update({f"labels[{place}]": further for place, further in enumerate(labels)})
    columns = []
    for argument, column in labels_by_argument.items():
        columns.append(_checks.whole_labels(argument, column, len(values), values.device).long())
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
    """Sum `values` over the items of each group, in float64 and in their order: the same on every run."""
    # Sorted, a group is one segment; `index_add_` would add in any order on a GPU.
    order = group.argsort(stable=True)
    return segments.reduce(values[order].double(), "sum", group.bincount(minlength=num_groups))
