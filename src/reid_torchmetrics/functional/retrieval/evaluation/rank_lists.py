"""Rank lists: the first candidates of queries with their labels, for any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, more_rows
from reid_torchmetrics.functional.retrieval.ranking import Nearest, nearest
from reid_torchmetrics.functional.retrieval.relevance import one_number_each
from reid_torchmetrics.functional.world import ALONE, World, all_reduce_values

from .problem import RetrievalProblem
from .protocol import Protocol

LIST_METHODS: Registry[Callable[..., Any]] = Registry("LIST_METHODS", {})
"""methods of `RankLists` by name, which tasks add: functions of lists and of options"""
_MOST_COLUMNS = 5  # of candidates in the text


@dataclass(frozen=True, eq=False, repr=False)
class RankLists(Displayed):
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

    def _display(self) -> Display:
        lists = self.select(list(range(min(len(self), NUM_ROWS))))
        num_candidates = self.index.shape[1]
        num_columns = min(num_candidates, _MOST_COLUMNS)
        names = list(map(str, lists.query_index.tolist()))
        ranks = lists.first_positive_rank.tolist()
        rows = []
        for row, (name, rank) in enumerate(zip(names, ranks, strict=True)):
            candidates = []
            for number, is_positive in zip(lists.index[row].tolist(), lists.is_positive[row].tolist(), strict=True):
                candidates.append(f"{number}{'*' if is_positive else ' '}" if number >= 0 else "")
            rows.append((name, str(rank or "none"), *candidates[:num_columns]))
        title = f"RankLists: {counted(len(self), 'query')}, the first {counted(num_candidates, 'candidate')} of each"
        columns = ("query", "first match", *(f"{rank} " for rank in range(1, num_columns + 1)))
        notes = [*more_rows(len(self), "query"), "numbers of candidates by rank; * a match"]
        return Display(title, columns, rows, notes)

    def first(self, k: int) -> RankLists:
        """Cut the lists after `k` candidates.

        Raises:
            TypeError: `k` is not an int.
            ValueError: `k` is below 1, or the lists are not as long.
        """
        _checks.positive_int("k", k)
        if k > self.index.shape[1]:
            raise ValueError(f"`k` must be at most {self.index.shape[1]}, the length of the lists; got {k}.")
        lists = {name: values[:, :k] for name, values in self._tensors().items() if values.ndim == 2}
        return replace(self, **lists)  # type: ignore[arg-type]

    def select(self, rows: Integer[Tensor, " rows"] | _checks.Integers) -> RankLists:
        """Select some of the lists, in the order of `rows`; lists are counted from 0.

        Raises:
            TypeError: `rows` is not an integer tensor.
            ValueError: `rows` has a number that no list has.
        """
        rows = _checks.integer_labels("rows", rows)
        _checks.in_range("rows", rows, 0, len(self))
        rows = rows.long().to(self.query.device)
        selected = {name: values[rows] for name, values in self._tensors().items()}
        return replace(self, **selected)  # type: ignore[arg-type]

    def names(self, label: Literal["identities", "cameras"] = "identities") -> list[list[int | str]]:
        """Return the identities of the listed candidates, or their cameras, as the evaluation was given them.

        Padding is left out.

        Raises:
            ValueError: another label, or one that the evaluation was not given.
        """
        _checks.one_of("label", label, ("identities", "cameras"))
        values: Tensor | None = getattr(self, label)
        if values is None:
            raise ValueError(f"`{label}` must have been given to the evaluation; got lists without them.")
        names = (self.label_names or {}).get(label, {})
        lengths = (~self.scores.isnan()).sum(1).tolist()
        named_lists = []
        for numbers, length in zip(values.tolist(), lengths, strict=True):
            named_lists.append([names.get(number, number) for number in numbers[:length]])
        return named_lists

    def margins(self) -> Float[Tensor, " queries"]:
        """Score of the best candidate minus the score of the first right answer.

        It is 0 where the best candidate is right, NaN where there is no right answer.
        """
        return self.scores[:, 0] - self.first_positive_score

    def confident_mistakes(self, n: int) -> Int[Tensor, " mistakes"]:
        """Return up to `n` lists that begin with a wrong candidate, by falling margin; many are errors of labels.

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
        """Return 1 where the vote of the listed candidates names the query's identity, else 0; see `knn_accuracy`.

        Raises:
            ValueError: relevance came as lists, so that no identity is known, or as `knn_accuracy`.
        """
        accuracy: Float[Tensor, " queries"] = LIST_METHODS["knn_accuracy"](self, **options)
        return accuracy

    def _tensors(self) -> dict[str, Tensor]:
        return {name: values for name, values in vars(self).items() if isinstance(values, Tensor)}


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
