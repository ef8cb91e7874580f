"""An evaluated problem, which results of `evaluate` ask for lists and for further rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.retrieval.measures import parse_report

from .nearest_items import find_rank_lists
from .problem import RetrievalProblem
from .protocol import Protocol
from .rank_lists import RankLists
from .ranked import CameraPairs, Ranking
from .ranking import mean_by_camera_pair, rank_problem
from .ranking_options import RankingOptions


@dataclass(frozen=True, eq=False)
class EvaluatedProblem:
    """A problem on one process, with the protocol and the tie policy of its evaluation."""

    problem: RetrievalProblem
    protocol: Protocol
    ties: str
    max_rank: int

    def options(self, *, for_cmc: bool, ties: str | None = None) -> RankingOptions:
        """Return the options of a ranking, for the CMC or for other measures."""
        source = self.problem.source
        return RankingOptions.of(
            self.protocol,
            for_cmc=for_cmc,
            longest=self.max_rank,
            similarity=source.similarity,
            ties=ties or self.ties,
            rerank=source.rerank,
        )

    def rank(self, ties: str | None = None) -> Ranking:
        """Rank for all measures and for the CMC, under a tie policy or that of the evaluation."""
        ranking_for_cmc = rank_problem(self.problem, self.options(for_cmc=True, ties=ties))
        if self.protocol.for_cmc is self.protocol:
            return ranking_for_cmc
        return rank_problem(self.problem, self.options(for_cmc=False, ties=ties)).with_cmc(ranking_for_cmc)

    def nearest(self, k: int, queries: Any) -> RankLists:
        """Return the first k candidates of all queries, or of some."""
        (queries,) = _arrays.as_tensors(queries, device=self.problem.source.device)
        protocol = self.options(for_cmc=False).protocol
        return find_rank_lists(self.problem, protocol, k, queries, ties=self.ties)

    def by_camera_pair(self, name: str) -> CameraPairs:
        """Return the means of a reported number between pairs of cameras."""
        measure, _ = parse_report(name)
        return mean_by_camera_pair(self.problem, {name: self.options(for_cmc=measure.is_cmc)}, self.protocol)[name]
