"""Results of an evaluation: one value per query, their means, and which convention each number follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation.bootstrap import Interval, bootstrap_interval
from reid_torchmetrics.functional.retrieval.evaluation.breakdown import Breakdown, mean_by
from reid_torchmetrics.functional.retrieval.evaluation.camera_pairs import CameraPairs, mean_by_camera_pair
from reid_torchmetrics.functional.retrieval.evaluation.conventions import describe
from reid_torchmetrics.functional.retrieval.evaluation.problem import RetrievalProblem
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup
from reid_torchmetrics.functional.retrieval.measures import mean_over_identities, mean_over_queries
from reid_torchmetrics.functional.retrieval.ranking import Nearest, nearest
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalResults:
    """What became of every query, in the order of the queries; NaN where a query has no positive."""

    values: Mapping[str, Float[Tensor, " queries"]]
    """what the protocol reports: one value per query"""
    average_precision: Float[Tensor, " queries"]
    inverse_negative_penalty: Float[Tensor, " queries"]
    first_rank: Float[Tensor, " queries"]
    """in the whole gallery, also where the protocol draws galleries"""
    cmc: Float[Tensor, " max_rank"]
    """mean over queries of the CMC at ranks 1 ... max_rank"""
    num_positives: Int[Tensor, " queries"]
    num_candidates: Int[Tensor, " queries"]
    """gallery items left for the query once junk is removed"""
    counts: QueryCounts
    """how many queries are valid, and why the others are not"""
    protocol: Protocol
    setup: Setup
    """what decides the numbers besides the protocol"""
    weight: Float[Tensor, " queries"] | None = None
    """what each query counts in means; None for 1"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    problem: RetrievalProblem | None = None
    """what was evaluated; None in results of a metric, which does not hand out its samples"""

    @property
    def means(self) -> dict[str, float]:
        """The reported numbers: means over queries."""
        return {name: float(self._mean(values)) for name, values in self.values.items()}

    @property
    def conventions(self) -> dict[str, str]:
        """How each reported number was computed, in words."""
        return {name: describe(name, self.protocol, self.setup) for name in self.values}

    def mean_over_identities(self) -> dict[str, float]:
        """The reported numbers as macro averages: the mean of every identity's queries, then over identities.

        Raises:
            ValueError: relevance came as lists, so that no identity is known.
        """
        identities = self._known("query_identities")
        is_query = torch.ones_like(identities, dtype=torch.bool) if self.weight is None else self.weight > 0
        action = self.protocol.empty_target_action
        return {
            name: float(mean_over_identities(values[is_query], identities[is_query], empty_target_action=action))
            for name, values in self.values.items()
        }

    def by_camera(self, name: str | None = None) -> Breakdown:
        """Mean of a reported number, the first if none is named, over the valid queries of each query camera.

        Raises:
            ValueError: no cameras, a name that is not reported, or galleries that are drawn from the queries.
        """
        if self.weight is not None:
            raise ValueError(
                "`by_camera` must come with a protocol that draws no gallery from the queries; got `queries_in_draw`"
                f" and {self.protocol.draw!r}."
            )
        return mean_by(self._reported(name), self._known("query_cameras"))

    def by_camera_pair(self, name: str | None = None) -> CameraPairs:
        """Mean of a reported number for each query camera against each gallery camera alone, computed when asked for.

        Raises:
            ValueError: no cameras, a name that is not reported, drawn galleries, or results of a metric.
        """
        name = self._name(name)
        return mean_by_camera_pair(self._problem("by_camera_pair"), self.protocol, name, ties=self.setup.ties)

    def interval(
        self,
        name: str | None = None,
        *,
        generator: torch.Generator,
        confidence: float = 0.95,
        repeats: int = 1000,
        per_identity: bool = False,
    ) -> Interval:
        """Bootstrap confidence interval of a reported number, see `bootstrap_interval`.

        `per_identity` draws identities with all their queries, which are not independent of each other.
        """
        return bootstrap_interval(
            self._reported(name),
            confidence=confidence,
            repeats=repeats,
            generator=generator,
            identities=self._known("query_identities") if per_identity else None,
            weight=self.weight,
            empty_target_action=self.protocol.empty_target_action,
        )

    def nearest(self, k: int, *, queries: Int[Tensor, " chosen"] | None = None) -> Nearest:
        """The first k candidates of each query, or of chosen ones, computed when asked for; see `nearest`.

        Raises:
            ValueError: these are results of a metric.
        """
        scores, relevance = self._problem("nearest").prepare(self.protocol)
        return nearest(scores, relevance, k, queries)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, conventions and counts, JSON-safe: undefined numbers are None."""
        return {
            "measures": {
                name: {"value": None if math.isnan(mean) else mean, "convention": self.conventions[name]}
                for name, mean in self.means.items()
            },
            "counts": asdict(self.counts),
            "protocol": self.protocol.to_dict(),
            "setup": asdict(self.setup),
        }

    def __repr__(self) -> str:
        """The numbers and how each was computed."""
        counts = self.counts
        head = (
            f"RetrievalResults: protocol {self.protocol.name}, {counts.valid} of {counts.total} queries valid"
            f" ({counts.not_in_gallery} not in the gallery, {counts.same_camera_only} without a positive left,"
            f" {counts.junk} junk, {counts.not_ranked} not ranked)"
        )
        head += f"\n  {self.setup}"
        lines = [f"  {name:<12} {mean:.4f}  {self.conventions[name]}" for name, mean in self.means.items()]
        return "\n".join([head, *lines])

    def _mean(self, values: Tensor) -> Tensor:
        return mean_over_queries(values, empty_target_action=self.protocol.empty_target_action, weight=self.weight)

    def _name(self, name: str | None) -> str:
        """A reported number, the first if none is named."""
        if name is None:
            return next(iter(self.values))
        _checks.one_of("name", name, self.values)
        return name

    def _reported(self, name: str | None) -> Tensor:
        return self.values[self._name(name)]

    def _problem(self, method: str) -> RetrievalProblem:
        if self.problem is None:
            raise ValueError(
                f"`{method}` must be asked of results of `functional.retrieval.evaluate`, which is given the"
                " embeddings; got results of a metric, which hold none."
            )
        return self.problem

    def _known(self, name: str) -> Tensor:
        """A label of every query, which relevance as lists or an evaluation without cameras lacks."""
        value: Tensor | None = getattr(self, name)
        if value is None:
            raise ValueError(f"`{name}` must have been given to the evaluation; got results without them.")
        return value
