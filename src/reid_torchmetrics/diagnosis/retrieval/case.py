"""The case of a ranking: ranks of all queries, and scores of some queries with the whole gallery.

The metrics of a collection share rankings, and their topics: a ranking that was looked at is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from uuid import uuid4

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics._warnings import asking
from reid_torchmetrics.diagnosis.causes import Causes, NotHeldError, held
from reid_torchmetrics.functional.retrieval.evaluation import (
    NO_RANKING,
    Labels,
    RankedSamples,
    Ranking,
    RankingOptions,
    RetrievalProblem,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, count_ranks
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import MatrixScores
from reid_torchmetrics.functional.world import WarningLog

from .shards import SharedSamples

MOST_QUERIES = 256
"""number of queries in a sample"""
_MOST_BYTES = 1 << 26  # of a sample, in a trial
_BYTES_OF_PAIR = 32  # of a query and a gallery item: its score, its marks, and their copies in a trial

_names: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""a name for each ranking that is still in use"""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some queries, evenly spread, against the gallery; on several processes, both are those of this process."""

    scores: Float[Tensor, "sampled gallery"]
    """higher is closer, within a query; items that are junk to all queries are left out"""
    is_positive: Bool[Tensor, "sampled gallery"]
    is_candidate: Bool[Tensor, "sampled gallery"]
    """positives and negatives; junk is False"""
    problem: RetrievalProblem
    """the problem of these queries alone"""
    relevance: Relevance

    def leads(self, is_own: Bool[Tensor, "sampled gallery"], share: float) -> Bool[Tensor, " sampled"]:
        """Mark queries with one of some items before all other candidates, by a share of its distance from the mean."""
        scores = self.scores.masked_fill(~self.is_candidate, -torch.inf)
        first = scores.where(is_own, -torch.inf).amax(1)
        other = scores.where(~is_own, -torch.inf).amax(1)
        mean = scores.where(scores.isfinite(), torch.nan).nanmean(1)
        return first - other > share * (first - mean)

    def ranks(self, ties: str, *, are_opposite: bool = False) -> PositiveRanks:
        """Rank the positives in the order of the scores, or in the opposite order."""
        scores = -self.scores if are_opposite else self.scores
        return count_ranks(MatrixScores(scores, kept=None, max_bytes=_MOST_BYTES), self.relevance, ties=ties)


class RetrievalCase:
    """Finished ranks with the facts about their samples; what takes time is found when it is first asked for."""

    def __init__(self, ranking: Ranking | None, samples: RankedSamples) -> None:
        """Take the results, None if nothing was ranked, and what they were computed from."""
        self.ranking = NO_RANKING if ranking is None else ranking
        self.samples = samples
        self.ranks = self.ranking.ranks
        self.counts = self.ranking.counts
        self.identities = self.ranking.query_identities
        self.protocol = samples.protocol
        self.matrix = samples.matrix
        self.shared: SharedSamples = samples.compared or SharedSamples()

    @cached_property
    def is_valid(self) -> Bool[Tensor, " queries"]:
        """Whether each query has a positive."""
        return self.ranks.num_positives > 0

    @cached_property
    def problem(self) -> RetrievalProblem:
        """The problem of this process's samples; lists and streams have none."""
        find = self.samples.find_problem
        return held("samples", find and find())

    @property
    def _searched(self) -> RetrievalProblem:
        """The problem, or that of a sample of the queries of a stream."""
        sampled = self.samples.sampled
        return self.problem if self.samples.find_problem is not None or sampled is None else sampled

    @property
    def labels(self) -> Labels:
        """Labels of all queries and of this process's gallery items; of some of them for a stream."""
        return self.samples.labels or self._searched.labels

    @cached_property
    def positions(self) -> tuple[Float[Tensor, "queries axes"], Float[Tensor, "gallery axes"], float]:
        """Positions of queries and gallery items, and the radius, where it decides relevance."""
        return held("positions", self.labels.positions_within(self.protocol))

    @cached_property
    def sample(self) -> Sample:
        """A sample of the queries; there is none without a problem, and under re-ranking."""
        options = held("samples", self.samples.options)
        if options.rerank is not None:
            raise NotHeldError("scores without re-ranking")
        return _sample(self._searched, options)


def is_known(ranking: Ranking, samples: RankedSamples, warning_log: WarningLog) -> bool:
    """Return whether the metric, or another one of its collection, has looked at a ranking with the same facts."""
    if ranking not in _names:
        _names[ranking] = uuid4().hex
    topic = f"ranking {_names[ranking]}, {samples.updates}, {samples.ties_are_open}, {samples.named_protocol}"
    return asking.get() is None and not warning_log.note(topic)


def _sample(problem: RetrievalProblem, options: RankingOptions) -> Sample:
    """Score some queries of a problem, and mark their positives and negatives."""
    num_queries, num_gallery = problem.source.shape
    if not num_queries or not num_gallery:
        raise NotHeldError("samples")
    most_bytes = min(problem.source.max_bytes or _MOST_BYTES, _MOST_BYTES)
    size = max(1, min(num_queries, MOST_QUERIES, most_bytes // (_BYTES_OF_PAIR * num_gallery)))
    queries = torch.arange(size, device=problem.source.device) * num_queries // size
    part = problem.of_queries(queries)
    scores, relevance = part.prepare(options.protocol, options.ties)
    if not relevance.num_kept:
        raise NotHeldError("candidates")
    rows = slice(0, size)
    positive, negative = relevance.pairs(rows, slice(0, relevance.num_kept), relevance.tile(rows))
    candidate = positive | negative
    return Sample(scores.all(), is_positive=positive, is_candidate=candidate, problem=part, relevance=relevance)


FACTS: Causes[RetrievalCase] = Causes()
"""rows by name that need no ranks, and are asked also where samples were not ranked, such as for rank lists"""
CAUSES_OF_RANKS: Causes[RetrievalCase] = Causes()
"""rows by name that need ranks"""
fact, cause = FACTS.decorator, CAUSES_OF_RANKS.decorator
