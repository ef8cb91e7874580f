"""Rank lists: the first candidates of queries, with all that it takes to look at them, in any world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval.measures import knn_accuracy
from reid_torchmetrics.functional.retrieval.ranking import Nearest, nearest
from reid_torchmetrics.functional.retrieval.relevance import one_number_each
from reid_torchmetrics.functional.retrieval.scores import GroupScores
from reid_torchmetrics.functional.world import ALONE, World, all_reduce_values

from .problem import RetrievalProblem
from .protocol import Protocol


class Later:
    """A field of a dataclass, None unless given, that may be put as a function: then its value is found when asked."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        value = None if instance is None else vars(instance)[self._name]
        if callable(value):
            value = vars(instance)[self._name] = value()
        return value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = value


@dataclass(frozen=True, eq=False)
class RankLists:
    """The first k candidates of some queries, best first, and the first right answer of each, however far behind.

    Candidates, their order among equal scores and positives are as in the ranking: junk is in no list. A k beyond
    the gallery without junk identities is its length. A query with fewer candidates than others has padding at the end:
    `scores` NaN, all else -1 or False.
    """

    query: Int[Tensor, " queries"]
    """the number of the query, counted from 0 in the order of the results"""
    query_index: Int[Tensor, " queries"]
    """its number in the data set, where the evaluation was given `index`, else the same as `query`"""
    query_identities: Int[Tensor, " queries"] | None
    query_cameras: Int[Tensor, " queries"] | None
    index: Int[Tensor, "queries k"]
    """the candidate's number in the data set, where the evaluation was given `index`, else its position in the gallery
    of all processes, one after the other; of a group its best member's; -1 at padding"""
    identities: Int[Tensor, "queries k"] | None
    cameras: Int[Tensor, "queries k"] | None
    scores: Float[Tensor, "queries k"]
    """higher is closer, comparable between queries: minus the distance under "euclidean"; NaN at padding"""
    is_positive: Bool[Tensor, "queries k"]
    """whether the candidate is right; False at padding"""
    first_positive_rank: Int[Tensor, " queries"]
    """rank of the first right answer among all candidates, from 1; 0 where there is none"""
    first_positive_index: Int[Tensor, " queries"]
    """its number, as in `index`; -1 where there is none"""
    first_positive_score: Float[Tensor, " queries"]
    """NaN where there is none"""
    first_positive_camera: Int[Tensor, " queries"] | None
    label_names: Mapping[str, Mapping[int, str]] | None = None
    """the names of identities and of cameras by their numbers, where the evaluation was given names"""

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.query)

    def first(self, k: int) -> RankLists:
        """The same lists, cut after `k` candidates.

        Raises:
            TypeError: `k` is not an int.
            ValueError: `k` is below 1, or the lists are not as long.
        """
        _checks.positive_int("k", k)
        if k > self.index.shape[1]:
            raise ValueError(f"`k` must be at most {self.index.shape[1]}, the length of the lists; got {k}.")
        # Matrices hold lists, vectors one value for each of them.
        return self._map(lambda values: values[:, :k] if values.ndim == 2 else values)

    def select(self, rows: Integer[Tensor, " rows"] | _checks.Integers) -> RankLists:
        """Some of the lists, in the order of `rows`; lists are counted from 0.

        Raises:
            TypeError: `rows` is not an integer tensor.
            ValueError: `rows` has a number that no list has.
        """
        rows = _checks.integer_labels("rows", rows)
        _checks.in_range("rows", rows, 0, len(self))
        rows = rows.long().to(self.query.device)
        return self._map(lambda values: values[rows])

    def names(self, label: Literal["identities", "cameras"] = "identities") -> list[list[int | str]]:
        """The identities of the listed candidates, or their cameras, as the evaluation was given them.

        Padding is left out.

        Raises:
            ValueError: another label, or one that the evaluation was not given.
        """
        _checks.one_of("label", label, ("identities", "cameras"))
        values: Tensor | None = getattr(self, label)
        if values is None:
            raise ValueError(f"`{label}` must have been given to the evaluation; got lists without them.")
        names, num_listed = (self.label_names or {}).get(label, {}), (~self.scores.isnan()).sum(1).tolist()
        rows = zip(values.tolist(), num_listed, strict=True)
        return [[names.get(number, number) for number in row[:length]] for row, length in rows]

    def margins(self) -> Float[Tensor, " queries"]:
        """How much the best candidate scores above the first right answer.

        0 where it is the first right answer, NaN where there is no right answer.
        """
        return self.scores[:, 0] - self.first_positive_score

    def confident_mistakes(self, n: int) -> Int[Tensor, " mistakes"]:
        """Up to `n` lists that begin with a wrong candidate, by falling margin: many of them are errors of labels.

        Equal margins are in the order of the lists. A list without any right answer is no mistake.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        # Rank 0 stands for no right answer, rank 1 for a list that begins with one.
        wrong = (self.first_positive_rank > 1).nonzero()[:, 0]
        return wrong[self.margins()[wrong].argsort(descending=True, stable=True)[:n]]

    def knn_accuracy(self, **options: Any) -> Float[Tensor, " queries"]:
        """Whether the vote of the listed candidates names the query's identity, 1 or 0; see `knn_accuracy`.

        Raises:
            ValueError: relevance came as lists, so that no identity is known, or as `knn_accuracy`.
        """
        if self.identities is None or self.query_identities is None:
            raise ValueError("`identities` must have been given to the evaluation; got lists without them.")
        return knn_accuracy(self.identities, self.scores, self.query_identities, **options)

    def _map(self, function: Callable[[Tensor], Tensor]) -> RankLists:
        tensors = {name: values for name, values in vars(self).items() if isinstance(values, Tensor)}
        mapped: dict[str, Any] = {name: function(values) for name, values in tensors.items()}
        return replace(self, **mapped)


def find_rank_lists(
    problem: RetrievalProblem, protocol: Protocol, k: int, queries: Tensor | None, *, ties: Any, world: World = ALONE
) -> RankLists:
    """The first k candidates of all queries, or of chosen ones; every process gets all of them.

    The gallery does not move: processes exchange the best of their parts, and the labels of listed candidates.

    Raises:
        DistributedMetricError: an error on some process.
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, or the score of a candidate is NaN.
    """
    scores, relevance = problem.prepare(protocol, ties, world)
    places = problem.kept_places(relevance)
    # Places of candidates and first positives, then the labels that go with them.
    listed = nearest(scores, relevance, k, queries, ties=ties, world=world, places=places)
    numbers, labels = problem.numbers_of_queries, problem.labels
    query = torch.arange(len(numbers), device=numbers.device) if queries is None else queries.long()
    if isinstance(scores, GroupScores):  # the best members of groups; another pass on the gallery

        def best_members(row: Tensor, groups: Tensor) -> Tensor:
            asked = query[row], groups if relevance.kept is None else torch.searchsorted(relevance.kept, groups)
            best = workers.run(lambda: scores.best_members(*asked), scores.device, inside=scores.keeps_thread)
            return best if problem.places is None else problem.places[best]

        places, first_place = _look_up(listed, best_members, world)
        listed = replace(listed, places=places, first_place=first_place)

    def of_listed(name: str) -> tuple[Tensor | None, Tensor | None]:
        if name not in of_gallery:  # on all processes or on none
            return None, None
        return _look_up(listed, lambda _, position: of_gallery[name].long()[position], world)

    of_queries, of_gallery = one_number_each(labels.query), one_number_each(labels.gallery)
    known = {name: values.long()[query] for name, values in of_queries.items() if name in ("identities", "cameras")}
    cameras, first_cameras = of_listed("cameras")
    return RankLists(
        query=query,
        query_index=numbers[query],
        query_identities=known.get("identities"),
        query_cameras=known.get("cameras"),
        index=listed.places.masked_fill(listed.scores.isnan(), -1),
        identities=of_listed("identities")[0],
        cameras=cameras,
        scores=listed.scores,
        is_positive=listed.positive,
        first_positive_rank=listed.first_rank,
        first_positive_index=listed.first_place.masked_fill(listed.first_rank == 0, -1),
        first_positive_score=listed.first_score,
        first_positive_camera=first_cameras,
        label_names=labels.names or None,
    )


def _look_up(listed: Nearest, known: Callable[[Tensor, Tensor], Tensor], world: World) -> tuple[Tensor, Tensor]:
    """A number of each candidate that is listed, and of the first positives; -1 at padding.

    Only the process that holds an item knows its number, by the row in the lists and the position of the item.
    """
    # The first positive is looked up with the list, as its last column; a position is negative on other processes.
    position = torch.cat([listed.positions, listed.first_position[:, None]], dim=1)
    exists = torch.cat([~listed.scores.isnan(), listed.first_rank[:, None] > 0], dim=1)

    def numbers() -> Tensor:
        known_here, (row, column) = torch.zeros_like(position), (position >= 0).nonzero(as_tuple=True)
        known_here[row, column] = known(row, position[row, column])
        return known_here.flatten()

    looked_up = all_reduce_values(world, numbers).view(position.shape).masked_fill(~exists, -1)
    return looked_up[:, :-1], looked_up[:, -1]
