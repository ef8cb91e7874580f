"""Retrieval problems sharded at random, biased to ties, junk, repeated samples and processes without samples."""

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reid_torchmetrics import EmbeddingMetric
from reid_torchmetrics.functional.retrieval import PositiveRanks, RetrievalResults
from reid_torchmetrics.functional.retrieval.evaluation import rank_samples
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES
from reid_torchmetrics.functional.world import ALONE, World
from tests.reference.groups import members, scores_of_groups
from tests.reference.retrieval import Evaluation, evaluate, similarity
from tests.strategies import ALL_TIES, SAME_CAMERA, SIMILARITIES_OF_ALL
from tests.tied_groups import of_each_positive


class RawRanks(EmbeddingMetric):
    """Computes the ranks of all positives of all queries, and the groups that tie with them."""

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        groups = [] if ranks.tied is None else [of_each_positive(ranks)]
        return torch.cat([ranks.rank[:, None], *groups], dim=1).double()


def minus_taxi_distance(query: Tensor, gallery: Tensor) -> Tensor:
    """A similarity of a user's own."""
    return -(query[:, None] - gallery[None]).abs().sum(2)


SIMILARITIES = (*SIMILARITIES_OF_ALL, minus_taxi_distance)


@dataclass(frozen=True)
class Problem:
    """Samples of one data set, in the order of `index`, and who of the processes sees which of them."""

    embeddings: Tensor
    identities: Tensor
    cameras: Tensor | None
    is_query: Tensor | None
    index: Tensor | None
    seen: list[list[int]]
    """positions, for every process"""
    options: dict[str, object] = field(default_factory=dict)
    max_bytes: tuple[int, ...] = (DEFAULT_MAX_BYTES,)
    """of the processes, in turn"""
    batch_size: int = 1000
    dtypes: tuple[torch.dtype | None, ...] = (None,)
    """of the embeddings of the processes, in turn"""
    column_major: tuple[bool, ...] = (False,)
    """whether the embeddings of the processes are, in turn; only what processes do together"""
    groups: Tensor | None = None
    """of the gallery items; queries have some, too, and they decide nothing"""

    def together(self, process: int, **options: object) -> RawRanks:
        """The metric of a process."""
        metric = RawRanks(max_bytes=self.max_bytes[process % len(self.max_bytes)], **self.options, **options)
        metric = self._fed(metric, self.seen[process], self._dtype(process))
        if self.column_major[process % len(self.column_major)]:
            metric.embeddings = [block.T.contiguous().T for block in metric.embeddings]
        return metric

    def outcome(self, world: World) -> "Outcome":
        """What the metric of a process of `world` finds with the others."""
        metric = self.together(world.process) if world.size > 1 else self.alone()
        options = metric._ranking_options()
        ranking, _ = rank_samples(metric._accepted_samples().samples, options, world, max_bytes=metric.max_bytes)
        return Outcome.given(metric.summarize(ranking.ranks), ranking.ranks, ranking.counts)

    def alone(self, **options: object) -> RawRanks:
        """The metric of a process that sees what all processes see, process by process."""
        metric = RawRanks(max_bytes=self.max_bytes[0], sync_on_compute=False, **self.options, **options)
        for process, positions in enumerate(self.seen):
            self._fed(metric, positions, self._dtype(process))
        return metric

    def reference(self) -> Evaluation:
        """What the slow reference says."""
        query, gallery = (torch.arange(len(self.identities)) for _ in range(2))
        if self.is_query is not None:
            query, gallery = (side.nonzero()[:, 0] for side in (self.is_query, ~self.is_query))
        cameras = [None] * 2 if self.cameras is None else [self.cameras[side] for side in (query, gallery)]
        labels = [self.identities[query], self.identities[gallery], *cameras]
        scores = self._scores(query, gallery)
        if self.groups is not None:
            groups = self.groups[gallery].tolist()
            first = [items[0] for items in members(groups)]
            scores, labels[1::2] = scores_of_groups(scores, groups), [_at(each, first) for each in labels[1::2]]
        decisive = {name: self.options[name] for name in ("same_camera", "junk_identities", "ties")}
        itself = None if self.is_query is not None else query
        return evaluate(scores, *labels, self_index=itself, **decisive)

    def _scores(self, query: Tensor, gallery: Tensor):
        pair = self.embeddings[query].double(), self.embeddings[gallery].double()
        function = self.options["similarity"]
        if callable(function):
            return function(*pair).numpy()
        if not len(query):
            return torch.empty(0, len(gallery)).numpy()
        return similarity(*(side.numpy() for side in pair), function)

    def _dtype(self, process: int) -> torch.dtype:
        return self.dtypes[process % len(self.dtypes)] or self.embeddings.dtype

    def _fed(self, metric: RawRanks, positions: list[int], dtype: torch.dtype) -> RawRanks:
        for first in range(0, len(positions), self.batch_size):
            part = torch.tensor(positions[first : first + self.batch_size])
            metric.update(
                self.embeddings[part].to(dtype),
                self.identities[part],
                None if self.cameras is None else self.cameras[part],
                is_query=None if self.is_query is None else self.is_query[part],
                index=None if self.index is None else self.index[part],
                groups=None if self.groups is None else self.groups[part],
            )
        return metric


@dataclass(frozen=True)
class Outcome:
    """The ranks of a metric, with tied groups, of how many positives and candidates, and queries by their reason."""

    rank: list[int] | None
    """None where there is none"""
    num_positives: list[int]
    num_candidates: list[int]
    counts: dict[str, int]

    @classmethod
    def of(cls, metric: RawRanks) -> "Outcome":
        """What a metric says; every process must ask."""
        value, results = metric.compute(), metric.results()
        return cls.given(value, results, results.counts)

    @classmethod
    def given(cls, value: Tensor, found: PositiveRanks | RetrievalResults, counts: QueryCounts) -> "Outcome":
        """The ranks as `RawRanks` has them, with what else was found."""
        rank = [int(number) for number in value.reshape(-1).tolist()] if counts.valid else None
        return cls(rank, found.num_positives.tolist(), found.num_candidates.tolist(), vars(counts))

    @classmethod
    def expected(cls, given: Problem) -> "Outcome":
        """What the slow reference says, with the counts of one process."""
        reference = given.reference()
        num_positives = [len(found) for found in reference.ranks]
        rank = sum(reference.ranks, [])
        if reference.tied is not None:
            groups = [group for query in reference.tied for group in query]
            rank = [number for first, group in zip(rank, groups, strict=True) for number in (first, *group)]
        return cls(rank or None, num_positives, reference.num_candidates, given.outcome(ALONE).counts)


def problem(seed: int, size: int) -> Problem:
    """A small problem of integer embeddings, whose scores are exact and often equal."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)  # noqa: S311 - no secret
    total, function = draw.randint(0, 24), draw.choice(SIMILARITIES)
    dimension = draw.choice([4, 16]) if function == "cosine" else draw.randint(1, 5)
    levels = draw.choice([1, 1, 3])
    embeddings = torch.randint(-levels, levels + 1, (total, dimension), generator=generator).float()
    if function == "cosine":  # norms that are powers of two keep cosines exact
        scale = torch.randint(0, 3, (total, 1), generator=generator)
        embeddings = (2 * (embeddings > 0) - 1) * scale.float().exp2() * (scale < draw.choice([2, 3]))
    identities = torch.randint(-1, draw.choice([1, 2, 5]), (total,), generator=generator)
    is_query = torch.rand(total, generator=generator) < draw.choice([0.2, 0.5])
    numbers = torch.randperm(1000, generator=generator)[:total].sort().values - draw.choice([0, 500])
    cameras = torch.randint(0, 3, (total,), generator=generator) if draw.random() < 0.6 else None
    return Problem(
        embeddings=embeddings,
        identities=identities,
        cameras=cameras,
        is_query=is_query if draw.random() < 0.6 else None,
        index=numbers,
        seen=_dealt(draw, total, size),
        options={
            "similarity": function,
            "same_camera": "same_identity" if cameras is None else draw.choice(SAME_CAMERA),
            "junk_identities": draw.choice([(-1,), (), (-1, 0)]),
            "ties": draw.choice(ALL_TIES),
        },
        max_bytes=tuple(
            draw.choice([1, 200, 5000, 5000, DEFAULT_MAX_BYTES, DEFAULT_MAX_BYTES])
            for _ in range(draw.choice([1, size]))
        ),
        batch_size=draw.choice([1, 3, 1000]),
    )


def _at(labels: Tensor | None, positions: list[int]) -> Tensor | None:
    return None if labels is None else labels[positions]


def _dealt(draw: random.Random, total: int, size: int) -> list[list[int]]:
    """Every position to some process, in no order; some to several processes, and often none to some process."""
    active = draw.sample(range(size), draw.randint(1, size))
    seen: list[list[int]] = [[] for _ in range(size)]
    for position in range(total):
        for _ in range(draw.choice([1] * 8 + [2, 3])):
            seen[draw.choice(active)].append(position)
    for positions in seen:
        draw.shuffle(positions)
    return seen
