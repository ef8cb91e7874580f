"""From a retrieval problem, in whatever world, to rank lists."""

from __future__ import annotations

import torch
from jaxtyping import Int, Integer
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation.problem import RetrievalProblem
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.rank_lists import RankLists
from reid_torchmetrics.functional.retrieval.ranking import Nearest, nearest
from reid_torchmetrics.functional.world import ALONE, World


def find_rank_lists(
    problem: RetrievalProblem,
    protocol: Protocol,
    k: int,
    queries: Integer[Tensor, " chosen"] | None = None,
    *,
    ties: str,
    world: World = ALONE,
) -> RankLists:
    """The first k candidates of all queries, or of chosen ones; every process gets all of them.

    The gallery does not move: processes exchange the best of their parts, and the labels of those that are listed.

    Raises:
        DistributedMetricError: an error on some process.
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, or the score of a candidate is NaN.
    """
    scores, relevance = problem.prepare(protocol, world)
    places = problem.kept_places(relevance)
    found = nearest(scores, relevance, k, queries, ties=ties, world=world, places=places)
    numbers, labels = problem.numbers_of_queries, problem.labels
    query = torch.arange(len(numbers), device=numbers.device) if queries is None else queries.long()
    identities, _ = _labels_of_listed(world, labels.gallery_identities, found)
    cameras, first_cameras = _labels_of_listed(world, labels.gallery_cameras, found)
    return RankLists(
        query=query,
        query_index=numbers[query],
        query_identities=_of(labels.query_identities, query),
        query_cameras=_of(labels.query_cameras, query),
        index=found.places.masked_fill(found.scores.isnan(), -1),
        identities=identities,
        cameras=cameras,
        scores=found.scores,
        is_positive=found.positive,
        first_positive_rank=found.first_rank,
        first_positive_index=found.first_place.masked_fill(found.first_rank == 0, -1),
        first_positive_score=found.first_score,
        first_positive_camera=first_cameras,
    )


def _of(values: Tensor | None, query: Int[Tensor, " chosen"]) -> Int[Tensor, " chosen"] | None:
    return None if values is None else values.long()[query]


def _labels_of_listed(
    world: World, of_gallery: Integer[Tensor, " gallery"] | None, found: Nearest
) -> tuple[Int[Tensor, "queries k"] | None, Int[Tensor, " queries"] | None]:
    """Identities or cameras of the candidates that are listed, and of the first positives; -1 at padding.

    Of each item one process knows the label, which gives it, while the others give 0.
    """
    if of_gallery is None:  # on all processes or on none
        return None, None
    position = torch.cat([found.positions, found.first_position[:, None]], dim=1)
    exists = torch.cat([~found.scores.isnan(), found.first_rank[:, None] > 0], dim=1)
    labels = _summed(world, of_gallery, position).masked_fill(~exists, -1)
    return labels[:, :-1], labels[:, -1]


def _summed(
    world: World, of_gallery: Integer[Tensor, " gallery"], position: Int[Tensor, "queries listed"]
) -> Int[Tensor, "queries listed"]:
    is_own = position >= 0

    def own_labels() -> Tensor:
        labels = torch.zeros_like(position)
        labels[is_own] = of_gallery.long()[position[is_own]]
        return labels

    if world.size == 1:
        return own_labels()
    # Labels mostly fit 32 bits, which halves what is sent.
    _, table = world.guarded_all_gather(lambda: (None, [int(_fits_int32(of_gallery))]))
    dtype = torch.int32 if all(fits for (fits,) in table) else torch.int64
    buffer = world.guarded(lambda: torch.empty(1 + position.numel(), dtype=dtype, device=world.device))

    def fill(out: Tensor) -> None:
        out.copy_(own_labels().flatten())

    summed = world.all_reduce_sum(buffer, fill)
    return world.guarded(lambda: summed.to(position.device, torch.int64).view(position.shape))


def _fits_int32(labels: Integer[Tensor, " gallery"]) -> bool:
    limits = torch.iinfo(torch.int32)
    return not len(labels) or (int(labels.min()) >= limits.min and int(labels.max()) <= limits.max)
