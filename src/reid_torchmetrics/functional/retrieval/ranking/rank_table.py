"""The table of ranks, filled tile by tile from the counts of negatives before each positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments

from .counting import Positives
from .positive_ranks import Judgments, PositiveRanks, TiedGroups, unchecked_ranks
from .tie_policies import TiePolicy


class CountedGroups(NamedTuple):
    """The groups of ties for some queries, as in `TiedGroups`."""

    num_groups: Int[Tensor, " queries"]
    num_positives: Int[Tensor, " groups"]
    num_negatives: Int[Tensor, " groups"]


@dataclass(frozen=True)
class RankedPositives:
    """The positives of some queries, query by query in the order of their ranks."""

    num_positives: Int[Tensor, " queries"]
    rank: Int[Tensor, " positives"]
    grade: Int[Tensor, " positives"]
    groups: CountedGroups | None = None
    """groups of ties, for tie policies with groups"""


class RankTable:
    """The ranks of all positives, filled tile by tile in the order of the queries."""

    def __init__(
        self,
        ties: TiePolicy,
        num_listed: Int[Tensor, " queries"],
        *,
        graded: bool = False,
        num_positives: int | None = None,
    ) -> None:
        """Reserve ranks for all gallery items listed for a query; junk leaves some of them empty.

        Args:
            ties: the tie policy.
            num_listed: number of gallery items that are listed for each query.
            graded: whether positives have grades, because samples have several labels.
            num_positives: the sum of `num_listed`; None to compute it, which waits for a device.
        """
        device = num_listed.device
        self._ties = ties
        self._graded = graded
        # Filled in place: with thousands of positives per query, ranks are larger than embeddings.
        most_positives = int(num_listed.sum()) if num_positives is None else num_positives
        self._rank = torch.empty(most_positives, dtype=torch.int64, device=device)
        most_graded = most_positives if graded else 0
        self._grades = torch.empty(most_graded, dtype=torch.float32, device=device)
        self._num_filled = 0
        self.num_positives = torch.zeros_like(num_listed)
        self.num_candidates = torch.zeros_like(num_listed)
        self._num_groups = torch.zeros_like(num_listed)
        self._groups = [torch.empty((2, 0), dtype=torch.int64, device=device)]

    def add(self, rows: slice, positives: Positives, counts: Int[Tensor, "counts positives"], cells: Tensor) -> None:
        """Append the positives of a tile.

        Args:
            rows: the queries of the tile.
            positives: the scores and grades of their positives, best first.
            counts: the negatives before each positive; with groups of ties also the negatives above it.
            cells: `cells_of_positives`, the places of the positives in `positives`.
        """
        row = segments.numbers(self.num_positives[rows], len(cells))
        # The rank is the number of negatives before, and the place 1, 2, ... among the positives of the query.
        place = cells.sub(row, alpha=positives.scores.shape[1])
        filled = self._reserve(len(cells))
        torch.add(place, counts[0], out=self._rank[filled]).add_(1)
        if positives.grades is not None:
            self._grades[filled] = positives.grades.view(-1)[cells]
        if self._ties.groups:
            # A group begins at the first positive of a row, and where the score differs from the one before.
            begins = place == 0
            scores = positives.scores.view(-1)[cells]
            begins[1:] |= scores[1:] != scores[:-1]
            starts = begins.nonzero()[:, 0]
            ends = starts
            if len(starts):
                ends = torch.cat([starts[1:], starts.new_tensor([len(cells)])])
            self._num_groups[rows] = row[starts].bincount(minlength=rows.stop - rows.start)
            self._groups.append(torch.stack([ends - starts, counts[0][starts] - counts[1][starts]]))

    def _reserve(self, num_positives: int) -> slice:
        """Return the range of the next positives."""
        first = self._num_filled
        self._num_filled += num_positives
        return slice(first, self._num_filled)

    def append(self, rows: slice, ranked: RankedPositives) -> None:
        """Append the positives of some queries that were ranked at once."""
        filled = self._reserve(len(ranked.rank))
        self._rank[filled] = ranked.rank
        self.num_positives[rows] = ranked.num_positives
        if self._graded:
            self._grades[filled] = ranked.grade
        if ranked.groups is not None:
            self._num_groups[rows] = ranked.groups.num_groups
            self._groups.append(torch.stack([ranked.groups.num_positives, ranked.groups.num_negatives]))

    def ranks(self) -> PositiveRanks:
        """Return the ranks of all tiles."""
        tied = None
        if self._ties.groups:
            num_positives, num_negatives = torch.cat(self._groups, dim=1)
            tied = TiedGroups(self._ties.name, self._num_groups, num_positives, num_negatives)
        judged = Judgments(self._grades[: self._num_filled]) if self._graded else None
        return unchecked_ranks(
            self._rank[: self._num_filled],
            self.num_positives,
            self.num_candidates,
            tied=tied,
            judged=judged,
        )
