"""Groups of gallery items, ranked in the place of the items: tracks, places, captions of a video, templates.

Groups replace the items of the gallery before anything is counted, so that later steps need no case for them:

    items      0  1  2  3  4             groups     0     1   2        in the order of their first items
    groups     7  7  9  7  4             items      0 1 3 2   4
    identity   1  1  2  1  1             identity   1     2   1        the same for all members
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

    @property
    def _first_of_member(self) -> Int[Tensor, " items"]:
        """The first item of the group of each entry of `members`."""
        return self.first[segments.numbers(self.sizes)]

    def kept(self, relevance: Relevance) -> Grouping:
        """Return the groups that a relevance keeps."""
        if relevance.kept is None:
            return self
        starts = segments.starts(self.sizes)[relevance.kept]
        sizes = self.sizes[relevance.kept]
        _, column = segments.runs(starts, sizes)
        return Grouping(self.members[column], sizes)

    def check(self, argument: str, groups: Int[Tensor, " items"], labels: LabelValues) -> None:
        """Raise unless the members of each group have the same labels."""
        for name, values in labels.items():
            columns = self.differing(values)
            if len(columns):
                item = self.members[columns[0]]
                first = self._first_of_member[columns[0]]
                got = f"group {int(groups[item])} with {values[first].tolist()} and {values[item].tolist()}"
                raise ValueError(f"`{argument}` must have members of one {LABELS[name].singular} each; got {got}.")

    def differing(self, values: Tensor) -> Int[Tensor, " differing"]:
        """Return the columns of `members` with another value than the first item of their group."""
        labels = {"": values}
        is_different = pack_columns(labels, self.members) != pack_columns(labels, self._first_of_member)
        return is_different.any(1).nonzero()[:, 0]

    def find_near(
        self,
        relevance: Relevance,
        scores: GroupScores,
        query: Float[Tensor, "queries axes"],
        gallery: Float[Tensor, "items axes"],
        radius: float,
        ties: str,
    ) -> Relevance:
        """Return the relevance by positions: a group is a positive if its best member is within a radius of the query.

        Of equal best members the first decides where places break ties, any one where positives go first, else all.
        """
        # Only groups with some member within the radius can be positives, each once for a query.
        start, length, members = find_near(query, gallery[self.members], radius)
        row, place = segments.runs(start, length)
        group = segments.numbers(self.sizes)[members[place]]
        row, group = torch.stack([row, group], dim=1).unique(dim=0).unbind(1)

        policy = TIE_POLICIES[ties]
        is_near = torch.empty_like(row, dtype=torch.bool)
        for block, sizes, best in scores.all_best_members(row, group):
            query_positions = query[row[block]].repeat_interleave(sizes, 0)
            is_member_near = (query_positions - gallery[best]).square_().sum(1).sqrt_() <= radius
            if policy.by_place is not None:
                is_near[block] = is_member_near[segments.starts(sizes)]
            else:
                num_near = segments.reduce(is_member_near.double(), "sum", sizes)
                is_near[block] = num_near >= (1 if policy.positives_first else sizes)
        length = row[is_near].bincount(minlength=len(query))
        return replace(relevance, order=group[is_near], run_start=segments.starts(length), run_length=length)
