"""Groups of gallery items, ranked in the place of the items: tracks, places, captions of a video, templates.

Groups replace the items of the gallery before anything is counted, so that later steps need no case for them:

    items      0  1  2  3  4             groups     0     1   2        in the order of their first items
    groups     7  7  9  7  4             items      0 1 3 2   4
    identity   1  1  2  1  1             identity   1     2   1        the same for all members

The score of a group is that of its best member. Members are scored piece by piece; a group may span several pieces:

    groups              a  a  b  c  c  c
    scores              .1 .5 .3 .2 .9 .4
    pieces of four      .1 .5 .3 .2              a .5, b .3, c .2
                              .3 .2 .9 .4        b .3, c .9: the larger of both pieces

Where groups lie on several processes, the members of each group are gathered on one process. A hash of the group says
which process that is, so the processes need not agree on it. Members that must leave their process are sent by one
process at a time, in pieces, and each process keeps the members of its own groups. So no process holds more than its
own groups and a piece.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
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
    NO_GROUP,
    POSITIVES_BY_OPTION,
    LabelValues,
    Relevance,
    pack_columns,
    select_samples,
    unpack_columns,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import BLOCK, WALK_BYTES, Rows, Scores
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows, owners

_PAIRS_AT_A_TIME = 1 << 20  # pairs of a query and an item of its band
_ROUNDING = 1e-14  # of a coordinate; some units in the last place of float64
_MOST_LENGTHS = 1 << 17  # lengths of groups that are repeated for a few rows at a time


def find_near(
    query_positions: Float[Tensor, "queries axes"],
    gallery_positions: Float[Tensor, "gallery gallery_axes"],
    radius: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the items within a radius of each query: the start of its run, the length, and all items.

    The items of a run ascend. To save time, items are sorted along one axis, and only items in a band around the query
    are compared with it, about a million pairs at a time.
    """
    _checks.nonnegative("radius", radius)
    if query_positions.shape[1] != gallery_positions.shape[1]:
        raise ValueError(
            "`query_positions` and `gallery_positions` must have as many coordinates; got"
            f" {query_positions.shape[1]} and {gallery_positions.shape[1]}."
        )
    # Along the axis with the largest spread a band has the fewest items. Rounding must not narrow the band.
    spread = (gallery_positions - gallery_positions.mean(0)).abs().sum(0)
    axis = int(spread.argmax())
    along, order = gallery_positions[:, axis].sort()
    center = query_positions[:, axis].contiguous()
    reach = radius + _ROUNDING * (center.abs() + radius)
    first = torch.searchsorted(along, center - reach)
    num_band = torch.searchsorted(along, center + reach, right=True) - first
    query_parts, item_parts = [first[:0]], [first[:0]]
    for part in segments.ranges_within(num_band, _PAIRS_AT_A_TIME):
        query, place = segments.runs(first[part], num_band[part])
        query += part.start
        item = order[place]
        distance = (query_positions[query] - gallery_positions[item]).square_().sum(1).sqrt_()
        is_near = distance <= radius
        query_parts.append(query[is_near])
        item_parts.append(item[is_near])
    query, item = torch.cat(query_parts), torch.cat(item_parts)
    ascending = (query * len(gallery_positions) + item).argsort()
    run_length = torch.bincount(query, minlength=len(query_positions))
    return segments.starts(run_length), run_length, item[ascending]


POSITIVES_BY_OPTION["radius"] = find_near


class GroupScores(Scores):
    """Scores of groups, from scores of their members; a maximum is exact, so that pieces change no score."""

    def __init__(self, members: Scores, positions: Int[Tensor, " members"], sizes: Int[Tensor, " groups"]) -> None:
        """Take the scores of all members, group by group, their positions, and the number of members of each group."""
        self.argument = members.argument
        self.dtype = members.dtype
        self.device = members.device
        self.keeps_thread = members.keeps_thread
        self.num_tiles = members.num_tiles
        self.num_queries = members.num_queries
        self.num_gallery = len(sizes)
        self.max_bytes = members.max_bytes // 2  # the other half is for scores of members
        self._members = members
        self._positions = positions
        self._sizes = sizes
        self._edges = segments.edges(sizes)
        self._edges_list: list[int] = self._edges.tolist()
        # One width for tiles of any height: prepared rows are kept for each piece.
        width = self.max_bytes // (self.dtype.itemsize * max(1, min(self.num_queries, BLOCK)))
        self._width = max(1, width // BLOCK * BLOCK or width)

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the groups `columns` into `out`."""
        edges = self._edges_list
        out.fill_(-torch.inf)
        for piece in segments.equal_ranges(slice(edges[columns.start], edges[columns.stop]), self._width):
            scores = out.new_empty((len(out), piece.stop - piece.start))
            self._members.fill(scores, rows, piece)
            # The groups with members in the piece, and their number of members there.
            first = bisect_right(edges, piece.start) - 1
            last = bisect_left(edges, piece.stop)
            lengths = self._edges[first : last + 1].clamp(piece.start, piece.stop).diff()
            _add_largest(out[:, first - columns.start : last - columns.start], scores, lengths)

    def to_comparable(self, out: Float[Tensor, "queries listed"], rows: slice) -> None:
        """Turn scores of groups into comparable ones in the same way as scores of members."""
        self._members.to_comparable(out, rows)

    def best_members(self, query: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"]) -> Int[Tensor, " pairs"]:
        """Return the position of the best member for each pair of a query and a group; of equal members the first."""
        best = torch.empty_like(group)
        for inside, sizes, positions in self.all_best_members(query, group):
            best[inside] = positions[segments.starts(sizes)]
        return best

    def all_best_members(
        self, query: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"]
    ) -> Iterator[tuple[Int[Tensor, " some"], Int[Tensor, " some"], Int[Tensor, " members"]]]:
        """Yield some pairs at a time, the number of equal best members of each, and the positions of these members."""
        num_members = self._edges_list[-1]
        num_rows = max(1, self.max_bytes // max(1, self.dtype.itemsize * num_members))
        for rows in segments.ranges(self.num_queries, num_rows):
            inside = ((query >= rows.start) & (query < rows.stop)).nonzero()[:, 0]
            if not len(inside):
                continue
            scores = torch.empty((rows.stop - rows.start, num_members), dtype=self.dtype, device=self.device)
            for piece in segments.equal_ranges(slice(0, num_members), self._width):
                self._members.fill(scores[:, piece], rows, piece)
            # A pair is a segment of values: the scores of the group's members for the query.
            sizes = self._sizes[group[inside]]
            pair, column = segments.runs(self._edges[group[inside]], sizes)
            values = scores[(query[inside] - rows.start)[pair], column]
            is_best = values == segments.reduce(values, "max", sizes)[pair]
            num_best = segments.reduce(is_best.double(), "sum", sizes).long()
            yield inside, num_best, self._positions[column[is_best]]


def _add_largest(
    out: Float[Tensor, "queries groups"], scores: Float[Tensor, "queries members"], lengths: Int[Tensor, " groups"]
) -> None:
    """Raise `out` to the largest score of each group, a few rows at a time, as each row needs all lengths."""

    def add(rows: slice) -> None:
        repeated_lengths = lengths.expand(rows.stop - rows.start, -1).contiguous()
        best = torch.segment_reduce(scores[rows], "max", lengths=repeated_lengths, axis=1, unsafe=True)
        torch.maximum(out[rows], best, out=out[rows])

    num_rows = max(1, _MOST_LENGTHS // max(1, len(lengths)))
    workers.share(add, segments.ranges(len(out), num_rows))


def gather_groups(
    world: World, embeddings: Rows, labels: LabelValues, dtype: torch.dtype
) -> tuple[Rows, dict[str, Tensor]]:
    """Gather the gallery items of each group on one process; items without groups stay, without that label.

    Args:
        world: the processes.
        embeddings: embeddings of this process's items.
        labels: labels of these items: "groups", and perhaps "places", which give the order of the items.
        dtype: dtype of the embeddings that are sent.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: some items have groups and others have none.
    """
    columns = {"groups": labels["groups"], **labels}  # groups are the first column when packed

    def find_leaving() -> tuple[Tensor, list[int]]:
        """Mark the items that leave this process; count the items with groups, without groups, and leaving."""
        has_group = columns["groups"] != NO_GROUP
        leaves = has_group & (owners(world, columns["groups"]) != world.process)
        return leaves, [int(has_group.sum()), int((~has_group).sum()), int(leaves.sum())]

    leaves, table = world.guarded_all_gather(find_leaving)
    num_with, num_without, num_leaving = map(sum, zip(*table, strict=True))
    if num_with and num_without:
        raise ValueError(
            f"`groups` must be given for all gallery items or for none; got {num_with} with and {num_without} without."
        )
    if not num_with:
        del columns["groups"]
        return embeddings, columns
    if not num_leaving:
        return embeddings, columns

    # The processes send one after another, each in pieces.
    leaving = leaves.nonzero()[:, 0]
    staying = (~leaves).nonzero()[:, 0]
    received_embeddings = [torch.empty((0, embeddings.dimension), dtype=dtype, device=leaves.device)]
    received_labels = [pack_columns(columns, leaving[:0])]
    piece_length = max(1, WALK_BYTES // (embeddings.dimension * dtype.itemsize))
    for source, (*_, num_sent) in enumerate(table):
        for piece in segments.ranges(num_sent, piece_length):
            sizes = [0] * world.size
            sizes[source] = piece.stop - piece.start
            items = leaving[piece] if source == world.process else leaving[:0]
            sent = SentRows(
                pieces=functools.partial(embeddings.select(items).walk, dtype),
                shape=(embeddings.dimension,),
                dtype=dtype,
            )
            member_embeddings, member_labels = _exchange_members(world, sizes, sent, columns, items)
            received_embeddings.append(member_embeddings)
            received_labels.append(member_labels)

    def join() -> tuple[Rows, dict[str, Tensor]]:
        packed = torch.cat([pack_columns(columns, staying), *received_labels])
        joined = unpack_columns(packed, columns)
        # Without places all keys are equal, and a stable sort changes nothing.
        places = joined.get("places", torch.zeros_like(joined["groups"]))
        order = places.argsort(stable=True)
        rows = embeddings.select(staying).followed_by(torch.cat(received_embeddings))
        return rows.select(order), select_samples(joined, order)

    return world.guarded(join)


def _exchange_members(
    world: World,
    sizes: Sequence[int],
    embeddings: SentRows,
    labels: LabelValues,
    items: Int[Tensor, " items"],
) -> tuple[Tensor, Int[Tensor, "members columns"]]:
    """Exchange `sizes` items of each process; return embeddings and packed labels of the members of own groups.

    `items` are the positions of the items that this process sends.
    """
    num_columns = sum(map(width_of, labels.values()))
    sent_labels = SentRows(lambda: [pack_columns(labels, items)], (num_columns,))
    all_embeddings, all_labels = exchange_rows(world, sizes, embeddings, sent_labels)

    def select_members() -> tuple[Tensor, Tensor]:
        is_member = owners(world, all_labels[:, 0]) == world.process
        return all_embeddings[is_member].to(items.device), all_labels[is_member].to(items.device)

    return world.guarded(select_members)


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
        for name, values in shared_labels.items():
            columns = _differing(grouping, values)
            if len(columns):
                item = grouping.members[columns[0]]
                first = _first_of_member(grouping)[columns[0]]
                group = int(groups_of_items[item])
                got = f"group {group} with {values[first].tolist()} and {values[item].tolist()}"
                raise ValueError(f"`{argument}` must have members of one {LABELS[name].singular} each; got {got}.")
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
        if protocol.radius is None:
            return scores, relevance

        # All processes have the same radius, so all of them take part.
        query = problem.labels.query.get("positions")
        find = functools.partial(_find_near_groups, grouping, relevance, scores, query, self.positions)
        return scores, world.guarded(functools.partial(find, radius=protocol.radius, ties=ties))

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
    query: Float[Tensor, "queries axes"] | None,
    gallery: Float[Tensor, "items axes"] | None,
    *,
    radius: float,
    ties: str,
) -> Relevance:
    """Return the relevance by positions: a group is a positive if its best member is within a radius of the query.

    Of equal best members the first decides where places break ties, any one where positives go first, else all.
    """
    # The groups of this process may all stay in place while those of another process do not.
    if gallery is None:
        return relevance
    query = LABELS["positions"].check("query_positions", query)
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
