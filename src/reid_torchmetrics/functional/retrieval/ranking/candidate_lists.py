"""Lists of candidates, and the best positive of each query, in one part of a gallery: to be merged with other parts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking.tie_policies import TiePolicy
from reid_torchmetrics.functional.world import World, all_gather_values


class CandidateLists(NamedTuple):
    """Some candidates of each query, and padding."""

    scores: Float[Tensor, "queries listed"]
    """minus infinity at padding"""
    places: Int[Tensor, "queries listed"]
    """in the whole gallery"""
    columns: Int[Tensor, "queries listed"]
    """positions in this process's kept gallery; -1 at padding and for items of other processes"""
    positive: Bool[Tensor, "queries listed"]
    listed: Bool[Tensor, "queries listed"]
    """False at padding"""

    @classmethod
    def padding(cls, num_queries: int, length: int, like: Tensor) -> CandidateLists:
        """Lists without any candidate, with the dtype and device of some scores."""
        scores = torch.full((num_queries, length), -torch.inf, dtype=like.dtype, device=like.device)
        nowhere, nothing = torch.full_like(scores, -1, dtype=torch.int64), torch.zeros_like(scores, dtype=torch.bool)
        return CandidateLists(scores, nowhere, nowhere.clone(), nothing, nothing.clone())

    def first(self, k: int, ties: TiePolicy) -> CandidateLists:
        """The first `k` in the order of a tie policy, or all if they are fewer."""
        # From the last criterion to the first: each sort keeps the order of those before it.
        order = self.places.argsort(dim=1, stable=True)
        for criterion in (*_between_score_and_place(self.positive, ties), -self.scores, (~self.listed).byte()):
            order = order.gather(1, criterion.gather(1, order).argsort(dim=1, stable=True))
        return CandidateLists(*(values.gather(1, order[:, :k]) for values in self))

    def beside(self, other: CandidateLists) -> CandidateLists:
        """The candidates of both."""
        return CandidateLists(*(torch.cat(parts, dim=1) for parts in zip(self, other, strict=True)))

    def of(self, queries: Int[Tensor, " chosen"]) -> CandidateLists:
        """The lists of some queries."""
        return CandidateLists(*(values[queries] for values in self))

    def widened(self, length: int) -> CandidateLists:
        """With padding up to a length."""
        num_queries, listed = self.scores.shape
        return self.beside(CandidateLists.padding(num_queries, length - listed, self.scores))

    def of_all(self, world: World, ties: TiePolicy, k: int) -> CandidateLists:
        """The first `k` of the lists of all processes, which are of one length."""
        if world.size == 1:
            return self
        length = self.scores.shape[1]
        flags = (self.listed.to(torch.uint8) + self.positive.to(torch.uint8)).contiguous()
        scores, places, flags = (_gathered(world, part) for part in (self.scores, self.places, flags))
        own = slice(world.process * length, (world.process + 1) * length)

        def merge() -> CandidateLists:
            columns = torch.full_like(places, -1)
            columns[:, own] = self.columns
            return CandidateLists(scores, places, columns, flags > 1, flags > 0).first(k, ties)

        return world.guarded(merge)


def goes_by_place(ties: TiePolicy) -> bool:
    """Whether candidates with equal scores are listed in gallery order, whatever they are."""
    return ties.by_place is not None or ties.averages


def _between_score_and_place(positive: Bool[Tensor, "queries listed"], ties: TiePolicy) -> list[Tensor]:
    """What decides among equal scores before places do."""
    if goes_by_place(ties):
        return []
    return [(~positive if ties.positives_first else positive).byte()]  # not every device sorts bools


def _gathered(world: World, values: Tensor) -> Tensor:
    """Values [queries, listed] of all processes, side by side."""
    gathered = all_gather_values(world, values)
    return world.guarded(lambda: gathered.to(values.device).transpose(0, 1).flatten(1))


class BestPositives(NamedTuple):
    """The best positive of each query, in one part of the gallery or in all."""

    scores: Float[Tensor, " queries"]
    """minus infinity where there is none"""
    places: Int[Tensor, " queries"]
    """in the whole gallery, -1 where there is none"""
    columns: Int[Tensor, " queries"]
    """position in this process's kept gallery, -1 where that does not hold it"""
    exists: Bool[Tensor, " queries"]

    @classmethod
    def of(cls, positives: CandidateLists) -> BestPositives:
        """The first of each list of positives."""
        scores, places, columns, _, exists = (
            values[:, 0] for values in positives.widened(1 + positives.scores.shape[1])
        )
        return cls(scores, places, columns, exists)

    def of_all(self, world: World) -> BestPositives:
        """The best of the parts of all processes."""
        if world.size == 1:
            return self

        def pack() -> Tensor:
            # One message: the score, as the 64 bits that it has, NaN where there is none, and the place.
            scores = self.scores.double().masked_fill(~self.exists, torch.nan)
            return torch.stack([scores.view(torch.int64), self.places])

        gathered = _gathered(world, world.guarded(pack))

        def merge() -> BestPositives:
            best = None
            for process, packed in enumerate(gathered.chunk(world.size, dim=1)):
                columns = self.columns if process == world.process else torch.full_like(self.columns, -1)
                scores = packed[0].contiguous().view(torch.float64).to(self.scores.dtype)
                exists = ~scores.isnan()
                part = BestPositives(scores.masked_fill(~exists, -torch.inf), packed[1], columns, exists)
                best = part if best is None else best.or_better(part)
            assert best is not None  # noqa: S101 - there is one process at least
            return best

        return world.guarded(merge)

    def or_better(self, other: BestPositives) -> BestPositives:
        """The better of two: by score, then by place."""
        better = (other.scores > self.scores) | ((other.scores == self.scores) & (other.places < self.places))
        better = other.exists & (better | ~self.exists)
        return BestPositives(*(torch.where(better, theirs, own) for own, theirs in zip(self, other, strict=True)))
