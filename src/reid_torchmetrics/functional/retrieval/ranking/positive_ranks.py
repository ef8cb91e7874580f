"""The waist of retrieval evaluation: the ranks of every query's positives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """For every positive, the group of candidates with its score, where the tie policy treats a group as a whole.

    The positive with ordinal j at the pessimistic rank r, which puts the negatives of a group first, belongs to the
    group that occupies the `num_positives` + `num_negatives` ranks after the first r - (j - better) - `num_negatives`.
    """

    policy: str
    """"grouped" or "expected": how measures treat a group"""
    better: Int[Tensor, " positives"]
    """int64; positives of the query with a higher score"""
    num_positives: Int[Tensor, " positives"]
    """int64; positives in the group, at least 1"""
    num_negatives: Int[Tensor, " positives"]
    """int64; negatives in the group"""

    def of(self, positives: slice) -> TiedGroups:
        """The groups of a range of positives."""
        return TiedGroups(
            self.policy, self.better[positives], self.num_positives[positives], self.num_negatives[positives]
        )


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """The ranks of the positives of every query: what each measure of retrieval is computed from.

    Blocks of queries append: the ranks of two sets of queries against one gallery are the concatenation of theirs.
    """

    rank: Int[Tensor, " positives"]
    """int64, 1-based, grouped by query, ascending inside a query"""
    num_positives: Int[Tensor, " queries"]
    """int64; 0 for a query that cannot be evaluated"""
    num_candidates: Int[Tensor, " queries"]
    """int64; gallery items left for the query once junk is removed"""
    tied: TiedGroups | None = None
    """under the tie policies "grouped" and "expected" only; ranks are the pessimistic ones then"""

    def __post_init__(self) -> None:
        _checks.integer_labels("num_positives", self.num_positives)
        _checks.integer_labels("num_candidates", self.num_candidates, len(self.num_positives))
        _checks.integer_labels("rank", self.rank, int(self.num_positives.sum()), self.num_positives.device)

    @property
    def num_queries(self) -> int:
        """Number of queries, with those that have no positive."""
        return len(self.num_positives)

    def split(self, max_positives: int = 1 << 22) -> Iterator[PositiveRanks]:
        """Blocks of queries with about `max_positives` positives each, so that measures need little memory."""
        stops = self.num_positives.cumsum(0)
        first, done = 0, 0
        while first < self.num_queries:
            last = int(torch.searchsorted(stops, done + max_positives, right=True))
            last = max(first + 1, last)
            stop = int(stops[last - 1])
            yield self._block(slice(first, last), slice(done, stop))
            first, done = last, stop

    def _block(self, queries: slice, positives: slice) -> PositiveRanks:
        return PositiveRanks(
            self.rank[positives],
            self.num_positives[queries],
            self.num_candidates[queries],
            None if self.tied is None else self.tied.of(positives),
        )

    @staticmethod
    def concatenate(blocks: Sequence[PositiveRanks]) -> PositiveRanks:
        """The ranks of all queries of `blocks`, in order."""
        tied = [block.tied for block in blocks if block.tied is not None]
        _checks.alike("blocks", "tie policy", [block.tied.policy if block.tied else None for block in blocks])
        return PositiveRanks(
            torch.cat([block.rank for block in blocks]),
            torch.cat([block.num_positives for block in blocks]),
            torch.cat([block.num_candidates for block in blocks]),
            _concatenate(tied) if tied else None,
        )


def _concatenate(blocks: Sequence[TiedGroups]) -> TiedGroups:
    return TiedGroups(
        blocks[0].policy,
        torch.cat([block.better for block in blocks]),
        torch.cat([block.num_positives for block in blocks]),
        torch.cat([block.num_negatives for block in blocks]),
    )
