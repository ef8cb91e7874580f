"""Groups of gallery items, ranked in the place of the items: tracks, places, captions of a video, templates.

Groups replace the items of the gallery before anything is counted, so that later steps need no case for them:

    items      0  1  2  3  4             groups     0     1   2        in the order of their first items
    groups     7  7  9  7  4             items      0 1 3 2   4
    identity   1  1  2  1  1             identity   1     2   1        the same for all members
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.evaluation import GROUPED_GALLERIES, Protocol, RetrievalProblem
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    LabelValues,
    Relevance,
    pack_columns,
    select_samples,
)
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.functional.world import World

from .gathered_groups import gather_groups
from .group_scores import GroupScores
from .near_positions import find_near


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of some items, in the order of their first items."""

    members: Int[Tensor, " items"]
    """positions of the items, group by group"""
    sizes: Int[Tensor, " groups"]

    @classmethod
    def of(cls, groups: Int[Tensor, " items"]) -> Grouping:
        """Return the grouping for the group of each item."""
        _, number = groups.unique(return_inverse=True)
        members = number.argsort(stable=True)
        sizes = number.bincount()
        # Renumber the groups by their first items.
        order = members[segments.starts(sizes)].argsort()
        new_number = order.argsort()[number]
        return cls(members=new_number.argsort(stable=True), sizes=sizes[order])

    @property
    def first(self) -> Int[Tensor, " groups"]:
        """The first item of each group."""
        return self.members[segments.starts(self.sizes)]


@dataclass(frozen=True, eq=False)
class GroupedGallery:
    """The groups of a process's gallery items."""

    grouping: Grouping
    positions: Float[Tensor, "gallery axes"] | None = None
    """positions of the gallery items, if some members of a group of this process have different positions"""

    @property
    def first(self) -> Int[Tensor, " groups"]:
        """The first item of each group."""
        return self.grouping.first

    gather = staticmethod(gather_groups)

    @classmethod
    def of(cls, problem: RetrievalProblem, protocol: Protocol, prefix: str) -> RetrievalProblem:
        """Return a problem with groups in the place of gallery items; see `RetrievalProblem.grouped`."""
        argument = f"{prefix}groups"
        _check_no_option_of_items(argument, problem, protocol)
        labels = dict(problem.labels.gallery)
        for name, values in labels.items():
            labels[name] = LABELS[name].check(f"{prefix}{name}", values, problem.source.shape[1], problem.source.device)
        groups_of_items = labels.pop("groups")
        grouping = Grouping.of(groups_of_items)
        shared_labels = dict(labels)
        member_positions = None
        if protocol.radius is not None and "positions" in labels:
            # Members may differ in their positions: that of the best member decides.
            positions = shared_labels.pop("positions")
            if len(_differing(grouping, positions)):
                member_positions = positions
        _check_members(argument, groups_of_items, grouping, shared_labels)
        labels_of_groups = replace(problem.labels, gallery=select_samples(labels, grouping.first))
        return replace(problem, labels=labels_of_groups, groups=cls(grouping, member_positions))

    def prepare(
        self, problem: RetrievalProblem, relevance: Relevance, protocol: Protocol, ties: str, world: World
    ) -> tuple[GroupScores, Relevance]:
        """Return the scores of the groups that a relevance keeps, and the relevance by the positions of members."""
        _checks.length(problem.source.argument, problem.source.shape[0], relevance.num_queries)
        grouping = _kept(self.grouping, relevance)
        members = problem.source.scores_of(grouping.members, world)
        scores = GroupScores(members, grouping.members, grouping.sizes)
        radius = protocol.radius
        if radius is None:
            return scores, relevance

        def find_near_groups() -> Relevance:
            # The groups of this process may all stay in place while those of another process do not.
            if self.positions is None:
                return relevance
            query = LABELS["positions"].check("query_positions", problem.labels.query["positions"])
            return _find_near_groups(grouping, relevance, scores, query, self.positions, radius=radius, ties=ties)

        # All processes have the same radius, so all of them take part.
        return scores, world.guarded(find_near_groups)

    def best_members(
        self,
        scores: Scores,
        relevance: Relevance,
        queries: Int[Tensor, " pairs"],
        groups: Int[Tensor, " pairs"],
    ) -> Int[Tensor, " pairs"]:
        """Return the position of the best member for each pair of a query and a group, given scores by `prepare`."""
        assert isinstance(scores, GroupScores)  # noqa: S101 - for the type checker
        if relevance.kept is not None:
            groups = torch.searchsorted(relevance.kept, groups)
        find = functools.partial(scores.best_members, queries, groups)
        return workers.run(find, scores.device, inside=scores.keeps_thread)


def _check_no_option_of_items(argument: str, problem: RetrievalProblem, protocol: Protocol) -> None:
    """Raise if there is an option that acts on items, besides the groups."""
    options = {
        "junk_pairs": problem.labels.junk_pairs,
        "self_index": problem.labels.self_index,
        "ground_truth": problem.labels.ground_truth,
        "rerank": problem.source.rerank,
        "gallery_draw": protocol.gallery_draw,
    }
    for name, value in options.items():
        if value is not None:
            names = _checks.listed(options, "`{}`".format)
            raise ValueError(f"`{argument}` must come without {names}, which act on items; got `{name}`.")


def _kept(grouping: Grouping, relevance: Relevance) -> Grouping:
    """Return the groups that a relevance keeps."""
    if relevance.kept is None:
        return grouping
    starts = segments.starts(grouping.sizes)[relevance.kept]
    sizes = grouping.sizes[relevance.kept]
    _, column = segments.runs(starts, sizes)
    return Grouping(grouping.members[column], sizes)


def _check_members(argument: str, groups: Int[Tensor, " items"], grouping: Grouping, labels: LabelValues) -> None:
    """Raise unless the members of each group have the same labels."""
    for name, values in labels.items():
        columns = _differing(grouping, values)
        if len(columns):
            item = grouping.members[columns[0]]
            first = _first_of_member(grouping)[columns[0]]
            got = f"group {int(groups[item])} with {values[first].tolist()} and {values[item].tolist()}"
            raise ValueError(f"`{argument}` must have members of one {LABELS[name].singular} each; got {got}.")


def _differing(grouping: Grouping, values: Tensor) -> Int[Tensor, " differing"]:
    """Return the columns of `members` with another value than the first item of their group."""
    labels = {"": values}
    is_different = pack_columns(labels, grouping.members) != pack_columns(labels, _first_of_member(grouping))
    return is_different.any(1).nonzero()[:, 0]


def _first_of_member(grouping: Grouping) -> Int[Tensor, " items"]:
    """Return the first item of the group of each entry of `members`."""
    return grouping.first[segments.numbers(grouping.sizes)]


def _find_near_groups(
    grouping: Grouping,
    relevance: Relevance,
    scores: GroupScores,
    query: Float[Tensor, "queries axes"],
    gallery: Float[Tensor, "items axes"],
    *,
    radius: float,
    ties: str,
) -> Relevance:
    """Return the relevance by positions: a group is a positive if its best member is within a radius of the query.

    Of equal best members the first decides where places break ties, any one where positives go first, else all.
    """
    # Only groups with some member within the radius can be positives, each once for a query.
    start, length, members = find_near(query, gallery[grouping.members], radius)
    row, place = segments.runs(start, length)
    group = segments.numbers(grouping.sizes)[members[place]]
    row, group = torch.stack([row, group], dim=1).unique(dim=0).unbind(1)

    policy = TIE_POLICIES[ties]
    is_near = torch.empty_like(row, dtype=torch.bool)
    for block, sizes, best in scores.all_best_members(row, group):
        query_positions = query[row[block]].repeat_interleave(sizes, 0)
        is_member_near = (query_positions - gallery[best]).square_().sum(1).sqrt_() <= radius
        if policy.by_place is not None:
            is_near[block] = is_member_near[segments.starts(sizes)]
        else:
            num_near = segments.reduce(is_member_near.double(), "sum", sizes)
            is_near[block] = num_near >= (1 if policy.positives_first else sizes)
    length = row[is_near].bincount(minlength=len(query))
    return replace(relevance, order=group[is_near], run_start=segments.starts(length), run_length=length)


GROUPED_GALLERIES["best_member"] = GroupedGallery
