"""Groups of items, such as the images of a person or of a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments

GROUPED_GALLERIES: Registry[Any] = Registry("GROUPED_GALLERIES", {})
"""the class with the groups of a gallery, "best_member", which a task adds; the score of a group is that of its best
member"""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of some items, in the order of their first items."""

    members: Int[Tensor, " items"]
    """positions of the items, group by group"""
    sizes: Int[Tensor, " groups"]

    @classmethod
    def of(cls, groups: Int[Tensor, " items"]) -> Grouping:
        """Return the grouping for the group of each item."""
        _, number = groups.unique(return_inverse=True)
        members = number.argsort(stable=True)
        sizes = number.bincount()
        # Renumber the groups by their first items.
        order = members[segments.starts(sizes)].argsort()
        new_number = order.argsort()[number]
        return cls(members=new_number.argsort(stable=True), sizes=sizes[order])

    @property
    def first(self) -> Int[Tensor, " groups"]:
        """The first item of each group."""
        return self.members[segments.starts(self.sizes)]
