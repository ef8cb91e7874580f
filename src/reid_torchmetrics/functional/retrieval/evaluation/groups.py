"""Groups of gallery items, ranked in the place of the items: tracks, places, captions of a video, templates.

The gallery becomes its groups before anything is counted, so nothing behind it knows them:

    items      0  1  2  3  4             groups     0     1   2        in the order of their first items
    groups     7  7  9  7  4             items      0 1 3 2   4
    identity   1  1  2  1  1             identity   1     2   1        of all members alike
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import LABELS, LabelValues, Relevance, find_near, pack_columns
from reid_torchmetrics.functional.retrieval.scores import GroupScores


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a process's gallery items, in the order of their first items."""

    members: Int[Tensor, " items"]
    """positions of the items, group by group"""
    sizes: Int[Tensor, " groups"]

    @classmethod
    def of(cls, groups: Int[Tensor, " items"]) -> Grouping:
        """The groups of some items."""
        _, number = groups.unique(return_inverse=True)
        members, sizes = number.argsort(stable=True), number.bincount()
        by_first = members[segments.starts(sizes)].argsort()
        return cls(by_first.argsort()[number].argsort(stable=True), sizes[by_first])

    @property
    def first(self) -> Int[Tensor, " groups"]:
        """The first item of each group."""
        return self.members[segments.starts(self.sizes)]

    def kept(self, relevance: Relevance) -> Grouping:
        """The groups that a relevance keeps."""
        if relevance.kept is None:
            return self
        sizes = self.sizes[relevance.kept]
        _, column = segments.runs(segments.starts(self.sizes)[relevance.kept], sizes)
        return Grouping(self.members[column], sizes)

    def check(self, argument: str, groups: Int[Tensor, " items"], labels: LabelValues) -> None:
        """Raise unless the members of each group have the same labels."""
        for name, values in labels.items():
            columns = self.differing(values)
            if len(columns):
                item, first = self.members[columns[0]], self.first[segments.numbers(self.sizes)][columns[0]]
                came = f"group {int(groups[item])} with {values[first].tolist()} and {values[item].tolist()}"
                raise ValueError(f"`{argument}` must have members of one {LABELS[name].singular} each; got {came}.")

    def differing(self, values: Tensor) -> Int[Tensor, " differing"]:
        """Columns of `members` with another value than the first item of their group."""
        rows = [pack_columns({"": values}, items) for items in (self.members, self.first[segments.numbers(self.sizes)])]
        return (rows[0] != rows[1]).any(1).nonzero()[:, 0]

    def find_near(
        self,
        relevance: Relevance,
        scores: GroupScores,
        query: Float[Tensor, "queries axes"],
        gallery: Float[Tensor, "items axes"],
        radius: float,
        ties: str,
    ) -> Relevance:
        """The relevance by positions: kept groups are positives if their best member is within a radius of the query.

        Of equal best members the first decides where places break ties, any one where positives go first, else all.
        """
        start, length, members = find_near(query, gallery[self.members], radius)
        # Only groups with some member within the radius are looked at, each once for a query.
        row, place = segments.runs(start, length)
        group = segments.numbers(self.sizes)[members[place]]
        row, group = torch.stack([row, group], dim=1).unique(dim=0).unbind(1)
        is_near, policy = torch.empty_like(row, dtype=torch.bool), TIE_POLICIES[ties]
        for inside, sizes, best in scores.all_best_members(row, group):
            of_query = query[row[inside]].repeat_interleave(sizes, 0)
            near = (of_query - gallery[best]).square_().sum(1).sqrt_() <= radius
            if policy.by_place is not None:
                is_near[inside] = near[segments.starts(sizes)]
            else:
                needed = 1 if policy.positives_first else sizes
                is_near[inside] = segments.reduce(near.double(), "sum", sizes) >= needed
        length = row[is_near].bincount(minlength=len(query))
        return replace(relevance, order=group[is_near], run_start=segments.starts(length), run_length=length)
