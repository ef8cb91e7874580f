"""The case of a ranking: ranks of all queries, scores of some queries with the whole gallery; and rows of facts alone.

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
from reid_torchmetrics.diagnosis.causes import Causes, NotHeldError, Values, held
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES, are_shares, are_within
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import (
    DEFAULT_PROTOCOL,
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


@fact(
    message="`ground_truth` lists items that no sample of the gallery has as `index`: {num} of {num_listed} entries"
    " for {queries}. They do not count, which is right for a part of the gallery only.",
)
def missing_items(case: RetrievalCase) -> Values | None:
    """Look for lists of a whole gallery with a part of it.

    The `ground_truth` of a metric lists items that no sample of the gallery has as `index`.
    """
    listed = case.samples.listed_items
    if listed is None or listed.num_found == listed.num_listed:
        return None
    num_missing = listed.num_listed - listed.num_found
    return {"num": num_missing, "num_listed": listed.num_listed, "queries": counted(listed.num_queries, "query")}


@cause(
    message="`protocol` {name!r} leaves out gallery items by their cameras ({rules}), but no cameras were given, so"
    " no item is left out. Pass the cameras, or `same_camera='keep'` where there are none.",
)
def missing_cameras(case: RetrievalCase) -> Values | None:
    """Look for a benchmark with rules about cameras, without cameras.

    A protocol is given by its name and drops gallery items by their cameras, but no cameras are given.
    """
    if case.samples.has_lists or "cameras" in case.ranking.labels:
        return None
    name = case.samples.named_protocol
    is_typed_name = isinstance(name, str) and name is not DEFAULT_PROTOCOL
    if not is_typed_name:  # a `Protocol` of the user has rules about cameras by default
        return None
    rules = {option: getattr(case.protocol, option) for option in ("same_camera", "cmc_same_camera")}
    acting_rules = [f"{option}={rule!r}" for option, rule in rules.items() if rule not in (None, "keep")]
    return {"name": str(name), "rules": ", ".join(acting_rules)} if acting_rules else None


@cause(
    message="`multi_query=True` pooled nothing: each query is the only one of its identity and camera, so the"
    " numbers are those of single queries. Pass all images of each query, with their identities and cameras.",
)
def nothing_pooled(case: RetrievalCase) -> Values | None:
    """Look for `multi_query` where each query has a single image.

    `multi_query=True` is given, and no two queries have the same identity and camera.
    """
    num_images = case.samples.num_images
    return {} if num_images is not None and 0 < num_images == case.ranks.num_queries else None


@cause(
    message="Most of {boxes} lie within [0, 1]: they seem to be shares of the image, but the rule of overlap is in"
    " pixels. Multiply the boxes by the image's width and height.",
)
def boxes_in_shares(case: RetrievalCase) -> Values | None:
    """Look for boxes of a person search as shares of the image.

    At least {LEAST_BOXES} boxes are given, and nearly all are within [0, 1].
    """
    in_shares = []
    for argument, boxes in case.samples.boxes.items():
        if len(boxes) >= LEAST_BOXES and are_within(boxes) and are_shares(boxes, boxes[:, 2:] - boxes[:, :2]):
            in_shares.append(f"{len(boxes)} boxes of `{argument}`")
    return {"boxes": " and of ".join(in_shares)} if in_shares else None


@fact(
    message="Some batches were given with `is_query` and some without: the samples of the latter are queries and"
    " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
)
def mixed_roles(case: RetrievalCase) -> Values | None:
    """Look for batches with and batches without `is_query`.

    Some batches have `is_query`, and some do not.
    """
    return {} if case.samples.updates.has_mixed_roles else None


@fact(
    message="Samples that came again on their process, {num} of them, have another embedding: among samples with"
    " the same `index` only the first counts. Was `reset` forgotten after the last evaluation, or does `index`"
    " begin anew in each batch? It must be the sample's number in its data set.",
)
def other_embeddings(case: RetrievalCase) -> Values | None:
    """Look for samples that come again with another embedding.

    A process has several samples with the same `index`, and most of the repetitions have an embedding that differs by
    more than rounding.
    """
    num = case.shared.num_changed
    return {"num": num} if num else None


@cause(message="{reason}")
def not_finite(case: RetrievalCase) -> Values | None:
    """Look for embeddings that are NaN or infinite.

    A metric was given embeddings that are not finite, so that nothing was ranked.
    """
    return {"reason": case.ranking.undefined} if case.ranking.undefined else None


@fact(message="The last {num} samples have the labels of the {num} before; all count. Was `reset` forgotten?")
def forgotten_reset(case: RetrievalCase) -> Values | None:
    """Look for an evaluation that begins with the samples of the last one.

    There is no `index`, and the batches since the last evaluation have the same labels as the batches before it, which
    are at least 8 samples.
    """
    num = case.samples.updates.num_forgotten
    return {"num": num} if num else None


@fact(
    message="Several processes hold the same samples, and each counts them: they seem to have been gathered by hand, or"
    " not to be sharded at all. Pass `index` to `update`, or give each process its own samples only: `compute` combines"
    " them.",
)
def gathered_samples(case: RetrievalCase) -> Values | None:
    """Look for samples that several processes hold.

    There is no `index`, and two processes have at least 8 samples each with the same labels and the same bits in their
    embeddings.
    """
    return {} if case.shared.are_gathered else None


@fact(
    message="A distributed sampler seems to have repeated samples to make the numbers even, and they count twice: all"
    " processes hold equally many, and the last of one are the first of another. Pass `index` to `update`, or use"
    " `UnpaddedDistributedSampler`.",
    explained_by=("gathered_samples",),
)
def padded_samples(case: RetrievalCase) -> Values | None:
    """Look for samples that a distributed sampler repeated.

    There is no `index`, all processes have the same number of samples, and the last samples of a process are the first
    samples of process 0, except for rounding.
    """
    return {} if case.shared.are_padded else None
