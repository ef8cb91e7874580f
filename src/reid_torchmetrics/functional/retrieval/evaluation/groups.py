"""Groups of gallery items, ranked in the place of the items: tracks, places, captions of a video, templates.

The gallery becomes its groups before anything is relevant or counted, so nothing behind it knows them:

    items      0  1  2  3  4             groups     0     1   2        in the order of their first items
    groups     7  7  9  7  4             items      0 1 3 2   4
    identity   1  1  2  1  1             identity   1     2   1        of all members alike
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.ranking import Nearest
from reid_torchmetrics.functional.retrieval.relevance import LABELS, LabelValues, Relevance, at, packed
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, GroupScores
from reid_torchmetrics.functional.world import World, all_reduce_values

from .problem import Embeddings, Matrix, RetrievalProblem
from .protocol import Protocol


@dataclass(frozen=True, eq=False)
class GroupedGallery:
    """Scores come from a source, the best member's for each group."""

    source: Embeddings | Matrix
    members: Int[Tensor, " items"]
    """positions of the items, group by group"""
    sizes: Int[Tensor, " groups"]
    places: Int[Tensor, " items"] | None
    """of the items in the whole gallery, as in `RetrievalProblem`"""
    rerank = None

    @property
    def argument(self) -> str:
        """The user's argument behind the scores."""
        return self.source.argument

    @property
    def similarity(self) -> str | CustomSimilarity:
        """That of the items."""
        return self.source.similarity

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and of groups."""
        return self.source.shape[0], len(self.sizes)

    @property
    def device(self) -> torch.device:
        """Where the scores are."""
        return self.source.device

    def scores(self, relevance: Relevance, world: World) -> GroupScores:
        """Scores against the groups that `relevance` keeps."""
        _checks.length(self.argument, self.shape[0], relevance.num_queries)
        members, sizes = self.members, self.sizes
        if relevance.kept is not None:
            sizes = sizes[relevance.kept]
            _, column = segments.runs(segments.starts(self.sizes)[relevance.kept], sizes)
            members = members[column]
        return GroupScores(self.source.scores_of(members, world), members, sizes)

    def with_best_members(
        self, listed: Nearest, queries: Int[Tensor, " queries"], relevance: Relevance, scores: GroupScores, world: World
    ) -> Nearest:
        """Lists of groups with the places of their best members; costs another pass on the gallery."""
        # The first positive is looked up with the list, as its last column; each process knows its own groups.
        positions = torch.cat([listed.positions, listed.first_position[:, None]], dim=1)

        def known_places() -> Tensor:
            columns = positions
            if relevance.kept is not None:
                columns = torch.searchsorted(relevance.kept, positions).masked_fill(positions < 0, -1)
            best = scores.best_members(queries, columns)
            places = best if self.places is None else self.places[best]
            return places.masked_fill(best < 0, 0).flatten()

        def work() -> Tensor:
            return workers.run(known_places, self.device, inside=scores.keeps_thread)

        places = all_reduce_values(world, work).view(positions.shape)
        return replace(listed, places=places[:, :-1], first_place=places[:, -1])


def grouped(problem: RetrievalProblem, protocol: Protocol, prefix: str = "gallery_") -> RetrievalProblem:
    """The same problem with groups in the place of gallery items, if they have groups.

    `prefix` is that of the user's arguments for labels of the gallery.

    Raises:
        TypeError: groups of the wrong dtype.
        ValueError: groups that members with different labels have, or an option that has no meaning for groups.
    """
    source, labels, argument = problem.source, problem.labels, f"{prefix}groups"
    if "groups" not in labels.gallery:
        if protocol.needs_groups:
            raise ValueError(f"`{argument}` must be given under protocol {protocol.name!r}; got none.")
        return problem
    assert isinstance(source, (Embeddings, Matrix))  # noqa: S101 - for the type checker
    _check_options(problem, protocol, argument)
    num_items = source.shape[1]
    gallery = {
        name: LABELS[name].check(f"{prefix}{name}", values, num_items, source.device)
        for name, values in labels.gallery.items()
    }
    groups = gallery.pop("groups").long()
    # Groups in the order of their first items, and in a group the items in their order.
    _, number = groups.unique(return_inverse=True)
    members, sizes = number.argsort(stable=True), number.bincount()
    by_first = members[segments.starts(sizes)].argsort()
    members, sizes = by_first.argsort()[number].argsort(stable=True), sizes[by_first]
    first = members[segments.starts(sizes)]
    _check_members(argument, groups, gallery, members, segments.numbers(sizes))
    places = first if problem.places is None else problem.places[first]
    return replace(
        problem,
        source=GroupedGallery(source, members, sizes, problem.places),
        labels=replace(labels, gallery=at(gallery, first)),
        has_groups=True,
        places=None if problem.places is None else places,
    )


def _check_options(problem: RetrievalProblem, protocol: Protocol, argument: str) -> None:
    """Raise if there is an option that acts on single items."""
    values = {
        "rerank": problem.source.rerank,
        "draw": protocol.draw,
        "junk_pairs": problem.labels.junk_pairs,
        "self_index": problem.labels.self_index,
    }
    came = [f"`{name}`" for name, value in values.items() if value is not None]
    if came:
        raise ValueError(f"`{argument}` must come without {', '.join(f'`{name}`' for name in values)}; got {came[0]}.")


def _check_members(argument: str, groups: Tensor, labels: LabelValues, members: Tensor, number: Tensor) -> None:
    """Raise unless the members of each group have the same labels; `number` is the group of each of `members`."""
    is_first = torch.ones_like(number, dtype=torch.bool)
    is_first[1:] = number[1:] != number[:-1]
    first = members[is_first][number]
    for name, values in labels.items():
        rows = (packed({name: values}, members) != packed({name: values}, first)).any(1).nonzero()[:, 0]
        if len(rows):
            pair = [values[items[rows[0]]].tolist() for items in (first, members)]
            raise ValueError(
                f"`{argument}` must have members of one {LABELS[name].singular} each; got group"
                f" {int(groups[members[rows[0]]])} with {pair[0]} and {pair[1]}."
            )
