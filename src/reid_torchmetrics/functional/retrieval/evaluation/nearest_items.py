"""The search for rank lists, for any number of processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import Nearest, nearest
from reid_torchmetrics.functional.retrieval.relevance import one_number_each
from reid_torchmetrics.functional.world import ALONE, World, all_reduce_values

from .problem import RetrievalProblem
from .protocol import Protocol
from .rank_lists import RankLists


def find_rank_lists(
    problem: RetrievalProblem, protocol: Protocol, k: int, queries: Tensor | None, *, ties: Any, world: World = ALONE
) -> RankLists:
    """Find the first k candidates of all queries, or of some of them; every process returns all lists.

    The gallery does not move: processes exchange the best of their parts, and the labels of listed candidates.

    Raises:
        DistributedMetricError: an error on some process.
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, or the score of a candidate is NaN.
    """
    scores, relevance = problem.prepare(protocol, ties, world)
    places = problem.kept_places(relevance)
    neighbors = nearest(scores, relevance, k, queries, ties=ties, world=world, places=places)
    numbers = problem.query_numbers
    query = torch.arange(len(numbers), device=numbers.device) if queries is None else queries.long()
    if problem.groups is not None:
        # In lists of groups stand the places of their best members, by another pass over the gallery.
        def find_best_members(row: Tensor, groups: Tensor) -> Tensor:
            best: Tensor = problem.groups.best_members(scores, relevance, query[row], groups)
            return best if problem.places is None else problem.places[best]

        best_places, first_place = _look_up(neighbors, find_best_members, world)
        neighbors = replace(neighbors, places=best_places, first_place=first_place)

    # Look up the labels of the candidates.
    gallery_labels = one_number_each(problem.labels.gallery)

    def look_up_label(name: str) -> tuple[Tensor | None, Tensor | None]:
        if name not in gallery_labels:  # on all processes or on none
            return None, None
        return _look_up(neighbors, lambda _, position: gallery_labels[name].long()[position], world)

    query_labels = one_number_each(problem.labels.query)
    cameras, first_cameras = look_up_label("cameras")
    identities, _ = look_up_label("identities")
    return RankLists(
        query=query,
        query_index=numbers[query],
        query_identities=_select(query_labels.get("identities"), query),
        query_cameras=_select(query_labels.get("cameras"), query),
        index=neighbors.places.masked_fill(neighbors.scores.isnan(), -1),
        identities=identities,
        cameras=cameras,
        scores=neighbors.scores,
        is_positive=neighbors.positive,
        first_positive_rank=neighbors.first_rank,
        first_positive_index=neighbors.first_place.masked_fill(neighbors.first_rank == 0, -1),
        first_positive_score=neighbors.first_score,
        first_positive_camera=first_cameras,
        label_names=problem.labels.names or None,
    )


def _select(labels: Tensor | None, query: Int[Tensor, " queries"]) -> Int[Tensor, " queries"] | None:
    return None if labels is None else labels.long()[query]


def _look_up(
    neighbors: Nearest, look_up_here: Callable[[Tensor, Tensor], Tensor], world: World
) -> tuple[Tensor, Tensor]:
    """Return a number of each listed candidate, and of the first positives; -1 at padding.

    Args:
        neighbors: the lists.
        look_up_here: returns the numbers of items of this process, by their rows in the lists and their positions. No
            other process knows them.
        world: the processes that take part.
    """
    # The first positive is looked up with the list, as its last column; a position is negative on other processes.
    position = torch.cat([neighbors.positions, neighbors.first_position[:, None]], dim=1)
    exists = torch.cat([~neighbors.scores.isnan(), neighbors.first_rank[:, None] > 0], dim=1)

    def numbers_here() -> Tensor:
        numbers = torch.zeros_like(position)
        row, column = (position >= 0).nonzero(as_tuple=True)
        numbers[row, column] = look_up_here(row, position[row, column])
        return numbers.flatten()

    numbers = all_reduce_values(world, numbers_here).view(position.shape).masked_fill(~exists, -1)
    return numbers[:, :-1], numbers[:, -1]
