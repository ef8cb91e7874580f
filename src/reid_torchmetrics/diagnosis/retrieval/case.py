"""The case of a ranking: ranks of all queries, and scores of some queries with the whole gallery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import (
    Embeddings,
    Protocol,
    RankedSamples,
    Ranking,
    RankingOptions,
    RetrievalProblem,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import LabelTables, QueryCounts

MOST_QUERIES = 256
"""number of queries in a sample"""
_MOST_PAIRS = 1 << 22
_BYTES_OF_PAIR = 32  # of a query and a gallery item: its score, its marks, and their copies in a trial


@dataclass(frozen=True, eq=False)
class Sample:
    """Some queries, evenly spread, against the gallery; on several processes, both are those of this process."""

    queries: Int[Tensor, " sampled"]
    """positions of the queries in the problem"""
    scores: Float[Tensor, "sampled gallery"]
    """higher is closer, within a query; those of junk mean nothing"""
    is_positive: Bool[Tensor, "sampled gallery"]
    is_candidate: Bool[Tensor, "sampled gallery"]
    """positives and negatives; junk is False"""
    problem: RetrievalProblem
    """the problem of these queries alone"""

    @property
    def query(self) -> Float[Tensor, "sampled dim"] | None:
        """Embeddings of the queries; None for a matrix of scores."""
        source = self.problem.source
        return source.query.local.all() if isinstance(source, Embeddings) else None

    def members_at(self, positions: Int[Tensor, " items"]) -> Float[Tensor, "members dim"] | None:
        """Return embeddings of gallery items, or of all members of groups; None for a matrix of scores."""
        source, groups = self.problem.source, self.problem.groups
        if not isinstance(source, Embeddings):
            return None
        if groups is not None:
            _, place = segments.runs(segments.starts(groups.sizes)[positions], groups.sizes[positions])
            positions = groups.members[place]
        return source.gallery.at(positions)


class RetrievalCase:
    """Finished ranks with the facts about their samples; what takes time is found when it is first asked for."""

    def __init__(self, ranking: Ranking, samples: RankedSamples) -> None:
        """Take the results and what they were computed from."""
        self.is_sampled = False
        """whether the sample was asked for"""
        self.ranking = ranking
        self.samples = samples
        self.ranks: PositiveRanks = ranking.ranks
        self.counts: QueryCounts = ranking.counts
        self.identities: Int[Tensor, " queries"] | None = ranking.query_identities
        self.cameras: Int[Tensor, " queries"] | None = ranking.query_cameras
        self.names: LabelTables = ranking.names
        self.protocol: Protocol = samples.protocol
        self.named_protocol = samples.named_protocol
        self.options: RankingOptions | None = samples.options
        self.ties_are_open = samples.ties_are_open
        self.has_lists = samples.has_lists
        self.num_gallery = samples.num_gallery
        self.matrix = samples.matrix

    @cached_property
    def is_valid(self) -> Bool[Tensor, " queries"]:
        """Whether each query has a positive."""
        return self.ranks.num_positives > 0

    @cached_property
    def problem(self) -> RetrievalProblem | None:
        """The problem of this process's samples; None for lists and streams."""
        find = self.samples.find_problem
        return None if find is None else find()

    @cached_property
    def positions(self) -> tuple[Float[Tensor, "queries axes"], Float[Tensor, "gallery axes"], float] | None:
        """Positions of queries and gallery items, and the radius; None where no radius decides relevance."""
        problem = self.problem or self.samples.sampled
        if problem is None or self.samples.positions is not None:
            return self.samples.positions
        return problem.labels.positions_within(self.protocol)

    @property
    def sample(self) -> Sample | None:
        """A sample of the queries; None without a problem, and under re-ranking."""
        self.is_sampled = True
        return self._sample

    @cached_property
    def _sample(self) -> Sample | None:
        problem, options = self.problem or self.samples.sampled, self.options
        if problem is None or options is None or options.rerank is not None:
            return None
        return _sample(problem, options)


def _sample(problem: RetrievalProblem, options: RankingOptions) -> Sample | None:
    """Score some queries of a problem, and mark their positives and negatives."""
    num_queries, num_gallery = problem.source.shape
    if not num_queries or not num_gallery:
        return None
    most_pairs = _MOST_PAIRS
    max_bytes = problem.source.max_bytes
    if max_bytes is not None:
        most_pairs = min(most_pairs, max_bytes // _BYTES_OF_PAIR)
    size = max(1, min(num_queries, MOST_QUERIES, most_pairs // num_gallery))
    queries = torch.arange(size, device=problem.source.device) * num_queries // size
    part = _of_queries(problem, queries)
    scores, relevance = part.prepare(options.protocol, options.ties)
    rows = slice(0, size)
    positive, negative = relevance.pairs(rows, slice(0, relevance.num_kept), relevance.tile(rows))
    candidate = positive | negative
    values = scores.all()
    kept = relevance.kept
    if kept is not None:  # no score is computed for items that are junk to all queries
        shape = (size, relevance.num_gallery)
        values = values.new_full(shape, -torch.inf).index_copy_(1, kept, values)
        positive = positive.new_zeros(shape).index_copy_(1, kept, positive)
        candidate = candidate.new_zeros(shape).index_copy_(1, kept, candidate)
    return Sample(queries, values, is_positive=positive, is_candidate=candidate, problem=part)


def _of_queries(problem: RetrievalProblem, queries: Int[Tensor, " sampled"]) -> RetrievalProblem:
    """Return the problem of some queries alone."""
    source, labels = problem.source, problem.labels
    part = (
        replace(source, query=source.query.local.select(queries))
        if isinstance(source, Embeddings)
        else replace(source, matrix=source.matrix[queries])
    )
    lists = labels.ground_truth
    if lists is not None:
        lists = [lists[query] for query in queries.tolist()]
    junk_pairs = labels.junk_pairs
    if callable(junk_pairs):
        junk_of_all = junk_pairs

        def junk_pairs(rows: Tensor, items: Tensor) -> Tensor:
            return junk_of_all(queries[rows], items)

    elif junk_pairs is not None:
        junk_pairs = junk_pairs[queries.to(getattr(junk_pairs, "device", "cpu"))]
    labels = replace(
        labels,
        query={name: values[queries] for name, values in labels.query.items()},
        self_index=None if labels.self_index is None else labels.self_index[queries],
        ground_truth=lists,
        junk_pairs=junk_pairs,
    )
    return replace(problem, source=part, labels=labels, query_index=problem.query_numbers[queries])
