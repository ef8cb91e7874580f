"""The ranks of every query's positives: the output of all rankings and the input of all measures of retrieval.

Ranks and ranked lists of a user are checked; ranks that were counted by this package are not: a table of them is filled
tile by tile from the counts of negatives before each positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import Displayed

from .counting import Positives
from .tie_policies import TIE_POLICIES, TiePolicy

Hits: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""For every query its ranked list, best first, as bools or as 0 and 1; lists may have unequal lengths."""

UNRETRIEVED = 1 << 62
"""Ranks above this number are of positives that were not retrieved; measures treat them as infinite."""


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """The groups of candidates with equal scores, for tie policies that treat a group as a whole.

    Only groups with a positive are listed: query by query, and best first. In the ranks of `PositiveRanks` the
    negatives of a group come first. For example, a query with a positive that scores .9, two positives and a negative
    that score .8, and a negative that scores .5:

        rank             1 3 4        ranks of the positives, pessimistic
        num_groups       2            the scores .9 and .8
        num_positives    1 2          positives in each group
        num_negatives    0 1          negatives in each group
    """

    policy: str
    """"grouped" or "expected", a key of `TIE_POLICIES`: how measures treat a group"""
    num_groups: Int[Tensor, " queries"]
    """int64; number of groups for each query"""
    num_positives: Int[Tensor, " groups"]
    """int64; number of positives in each group, at least 1"""
    num_negatives: Int[Tensor, " groups"]
    """int64; number of negatives in each group"""


@dataclass(frozen=True, eq=False)
class Judgments:
    """Grades of the positives, and numbers of judged negatives, for ranked lists with such judgments.

    For samples with several labels, the grade is the number of labels shared with the query, and all negatives are
    judged.
    """

    grade: Float[Tensor, " positives"]
    """grade of each positive, above 0"""
    num_before: Int[Tensor, " positives"] | None = None
    """int64; number of judged negatives before the positive in the list; None if every other candidate is judged"""
    num_negatives: Int[Tensor, " queries"] | None = None
    """int64; number of judged negatives of the query, retrieved or not; None if every other candidate is judged"""


@dataclass(frozen=True, eq=False, repr=False)
class PositiveRanks(Displayed):
    """The ranks of the positives of every query, the input of each measure of retrieval.

    The ranks of two sets of queries against one gallery are the concatenation of both. Use `from_hits` for lists that
    are already ranked.

    Raises:
        TypeError: a tensor that holds no integers.
        ValueError: lengths or devices that do not fit, ranks that do not ascend within a query or are not between 1
            and its number of candidates, unless above `UNRETRIEVED`, more retrieved positives than candidates, or
            groups or judgments that do not fit the ranks.
    """

    rank: Int[Tensor, " positives"]
    """int64, 1-based, grouped by query, ascending inside a query, each rank once"""
    num_positives: Int[Tensor, " queries"]
    """int64; number of positives for each query; 0 for a query that cannot be evaluated"""
    num_candidates: Int[Tensor, " queries"]
    """int64; number of gallery items for each query without junk"""
    tied: TiedGroups | None = None
    """groups of ties under the tie policies "grouped" and "expected", with pessimistic ranks; else None"""
    judged: Judgments | None = None
    """judgments for ranked lists with grades and for samples with several labels; None if every positive has grade 1
    and every other candidate is judged"""

    def __post_init__(self) -> None:
        _arrays.fields_as_tensors(self, "rank", "num_positives", "num_candidates")
        num_positives = self.num_positives
        num_candidates = self.num_candidates
        _checks.integer_labels("num_positives", num_positives)
        _checks.integer_labels("num_candidates", num_candidates, len(num_positives))
        _checks.same_device("num_positives", num_positives, "num_candidates", num_candidates)
        _refuse(num_positives < 0, "`num_positives` must be at least 0; got {} for query {place}.", num_positives)
        if not bool((self.rank > UNRETRIEVED).any()):  # a cut list may have fewer candidates than positives
            rule = "`num_positives` must be at most `num_candidates`; got {} of {} for query {place}."
            _refuse(num_positives.long() > num_candidates.long(), rule, num_positives, num_candidates)
        num_ranks = int(num_positives.double().sum())  # a sum of integers could overflow, and fit by chance
        _checks.integer_labels("rank", self.rank, num_ranks, num_positives.device)
        _check_order(self.rank.long(), num_positives.long(), num_candidates.long())
        if self.tied is not None:
            _check_groups(self, self.tied)
        if self.judged is not None:
            _check_judgments(self, self.judged)

    @property
    def num_queries(self) -> int:
        """Number of queries, with or without a positive."""
        return len(self.num_positives)

    def split(self, max_positives: int = 1 << 22) -> Iterator[PositiveRanks]:
        """Yield blocks of queries with about `max_positives` positives each, so that measures need little memory."""
        if self.num_queries and len(self.rank) <= max_positives:  # nearly always
            yield self
            return
        # A block has whole queries: at least one, and as many as fit.
        stops = self.num_positives.cumsum(0)
        first_query = 0
        first_positive = 0
        while first_query < self.num_queries:
            num_fitting = int(torch.searchsorted(stops, first_positive + max_positives, right=True))
            stop_query = max(first_query + 1, num_fitting)
            stop_positive = int(stops[stop_query - 1])
            yield block_of(self, slice(first_query, stop_query), slice(first_positive, stop_positive))
            first_query = stop_query
            first_positive = stop_positive

    @staticmethod
    def from_hits(hits: Hits, num_positives: Tensor | NDArray[Any] | Sequence[int] | None = None) -> PositiveRanks:
        """Return the ranks for lists that are already ranked: hits, True or 1, and misses, best first, without junk.

        A list that was cut off may lack positives. They count in `num_positives` but are never retrieved, as in
        trec_eval: they add 0 to average precision, which is divided by all positives, and are beyond every cutoff. So
        the first rank of a query without a hit is infinite, and INP is 0 if a positive is missing. `num_candidates` is
        the length of the list.

        Args:
            hits: a bool or integer tensor or array [queries, candidates], or one list for each query.
            num_positives: number of positives of each query, retrieved or not; None for the positives in the list.

        Raises:
            TypeError: lists that hold other values than bools or integers.
            ValueError: a shape that does not fit, other integers, or fewer positives than hits.

        Example:
            >>> from reid_torchmetrics.functional.retrieval import PositiveRanks, average_precision
            >>> ranks = PositiveRanks.from_hits([[1, 0, 1, 0, 0, 1]])
            >>> average_precision(ranks)  # (1/1 + 2/3 + 3/6) / 3
            tensor([0.7222], dtype=torch.float64)
            >>> cut = PositiveRanks.from_hits([[1, 0, 1, 0, 0, 1], [0, 1]], num_positives=[4, 2])
            >>> average_precision(cut)  # (1/1 + 2/3 + 3/6 + 0) / 4 and (1/2 + 0) / 2
            tensor([0.5417, 0.2500], dtype=torch.float64)
        """
        entries, lengths = _read_lists(hits)
        entry_query, entry_rank = segments.runs(1, lengths)
        query = entry_query[entries]
        rank = entry_rank[entries]
        num_hits = torch.bincount(query, minlength=len(lengths))
        if num_positives is None:
            return ranks_of_hits(rank, num_hits, num_hits, lengths)
        declared = _checks.integer_labels("num_positives", num_positives, len(num_hits), num_hits.device).long()
        rule = "`num_positives` must count the hits, too; got {} for query {place}, which has {} hits."
        _refuse(declared < num_hits, rule, declared, num_hits)
        return ranks_of_hits(rank, num_hits, declared, lengths)

    @staticmethod
    def concatenate(blocks: Sequence[PositiveRanks]) -> PositiveRanks:
        """Return the ranks for all queries of `blocks`, in order."""
        _checks.alike("blocks", "tie policy", [block.tied.policy if block.tied else None for block in blocks])
        _checks.alike("blocks", "kind of judgments", [block.judged is not None for block in blocks])
        joined: PositiveRanks = _concatenate(blocks)
        return joined


def _read_lists(hits: Hits) -> tuple[Bool[Tensor, " entries"], Int[Tensor, " queries"]]:
    """Return all lists end to end, and the length of each."""
    if isinstance(hits, (Tensor, np.ndarray)):
        if hits.ndim != 2:
            raise ValueError(f"`hits` must have shape [queries, candidates]; got {list(hits.shape)}.")
        (values,) = _arrays.as_tensors(hits)
        entries = _check_hits("hits", values.flatten())
        return entries, torch.full((len(values),), values.shape[1], device=entries.device)
    if not isinstance(hits, (list, tuple)):
        raise TypeError(f"`hits` must be a tensor, an array or a list of lists; got {type(hits).__name__}.")
    for row in hits:
        if not isinstance(row, (Tensor, np.ndarray, list, tuple)):
            raise TypeError(f"`hits` must hold one list for each query; got {type(row).__name__}, so write [hits].")
    rows: list[Tensor] = []
    for row in hits:
        rows.extend(_arrays.as_tensors(row))
    checked = [_check_hits(f"hits[{query}]", row) for query, row in enumerate(rows)]
    device = checked[0].device if checked else torch.device("cpu")
    lengths = torch.tensor([len(row) for row in checked], dtype=torch.int64, device=device)
    return torch.cat([torch.empty(0, dtype=torch.bool, device=device), *checked]), lengths


def _concatenate(values: Sequence[Any]) -> Any:
    """Concatenate tensors, and records field by field; return the first of other values, which are equal."""
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values))
    if not is_dataclass(first):
        return first
    joined = object.__new__(type(first))  # without the checks of a user's ranks
    for name in vars(first):
        vars(joined)[name] = _concatenate([getattr(value, name) for value in values])
    return joined


def block_of(ranks: PositiveRanks, queries: slice, positives: slice) -> PositiveRanks:
    """Return the ranks for a range of queries; `positives` is the range of their positives."""
    tied = ranks.tied
    if tied is not None:
        edges = segments.edges(tied.num_groups)
        groups = slice(int(edges[queries.start]), int(edges[queries.stop]))
        tied = TiedGroups(
            policy=tied.policy,
            num_groups=tied.num_groups[queries],
            num_positives=tied.num_positives[groups],
            num_negatives=tied.num_negatives[groups],
        )
    judged = ranks.judged
    if judged is not None:
        judged = Judgments(
            grade=judged.grade[positives],
            num_before=None if judged.num_before is None else judged.num_before[positives],
            num_negatives=None if judged.num_negatives is None else judged.num_negatives[queries],
        )
    return unchecked_ranks(
        ranks.rank[positives],
        ranks.num_positives[queries],
        ranks.num_candidates[queries],
        tied=tied,
        judged=judged,
    )


def unchecked_ranks(
    rank: Tensor,
    num_positives: Tensor,
    num_candidates: Tensor,
    tied: TiedGroups | None = None,
    judged: Judgments | None = None,
) -> PositiveRanks:
    """Return `PositiveRanks` without the checks of a user's ranks."""
    ranks = object.__new__(PositiveRanks)
    vars(ranks).update(
        rank=rank,
        num_positives=num_positives,
        num_candidates=num_candidates,
        tied=tied,
        judged=judged,
    )
    return ranks


def ranks_of_hits(
    rank: Int[Tensor, " hits"],
    num_hits: Int[Tensor, " queries"],
    num_positives: Int[Tensor, " queries"],
    num_candidates: Int[Tensor, " queries"],
    judged: Judgments | None = None,
) -> PositiveRanks:
    """Return ranks from those of the hits, query by query and ascending; positives beyond the hits are unretrieved."""
    # The positives that a list lacks follow its hits, with ranks beyond every cutoff.
    query, ordinal = segments.runs(1, num_positives)
    ranks = ordinal + UNRETRIEVED
    ranks[ordinal <= num_hits[query]] = rank
    return unchecked_ranks(ranks, num_positives, num_candidates, judged=judged)


def check_ranks(ranks: object) -> None:
    """Raise unless the argument of a measure is `PositiveRanks`."""
    if isinstance(ranks, PositiveRanks):
        return
    got = type(ranks).__name__
    if isinstance(ranks, Tensor):
        got = f"{ranks.dtype} of shape {list(ranks.shape)}"
    raise TypeError(
        "`ranks` must be `PositiveRanks`, which `PositiveRanks.from_hits` makes of ranked lists of hits and"
        f" `rank_positives` of embeddings; got {got}."
    )


def in_float(rank: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return ranks as float64, infinite if a list does not hold the positive."""
    return rank.double().masked_fill(rank > UNRETRIEVED, torch.inf)


def _check_hits(argument: str, hits: object) -> Bool[Tensor, " candidates"]:
    """Return a list as bools; raise unless it has one axis, and holds bools, or the integers 0 and 1."""
    if not isinstance(hits, Tensor):
        raise TypeError(f"`{argument}` must hold bools, or the integers 0 and 1; got {type(hits).__name__}.")
    if hits.numel() and (hits.is_floating_point() or hits.is_complex()):
        raise TypeError(f"`{argument}` must hold bools, or the integers 0 and 1; got {hits.dtype}.")
    if hits.ndim != 1:
        raise ValueError(f"`{argument}` must be a list of hits; got shape {list(hits.shape)}.")
    if hits.dtype != torch.bool and not bool(((hits == 0) | (hits == 1)).all()):
        raise ValueError(
            f"`{argument}` must hold hits, True or 1, and misses, False or 0; got {int(hits.min())} to"
            f" {int(hits.max())}."
        )
    return hits.bool()


def _refuse(flags: Tensor, message: str, *values: Tensor) -> None:
    """Raise if a flag is True; the message gets the values at the first such place, and the `place`."""
    if bool(flags.any()):
        place = int(flags.nonzero()[0, 0])
        raise ValueError(message.format(*(tensor[place] for tensor in values), place=place))


def _check_order(rank: Tensor, num_positives: Tensor, num_candidates: Tensor) -> None:
    """Raise unless the ranks of each query ascend from 1 or more, and are at most its number of candidates."""
    query = torch.repeat_interleave(num_positives)
    most = num_candidates[query]
    does_not_ascend = (rank[1:] <= rank[:-1]) & (query[1:] == query[:-1])
    _refuse(rank < 1, "`rank` must count from 1; got {} for query {}.", rank, query)
    rule = "`rank` must ascend within a query, each rank once; got {}, {} for query {}."
    _refuse(does_not_ascend, rule, rank, rank[1:], query)
    rule = "`rank` must be at most `num_candidates`; got {} of {} for query {}."
    _refuse((rank > most) & (rank <= UNRETRIEVED), rule, rank, most, query)


def _check_judgments(ranks: PositiveRanks, judged: Judgments) -> None:
    """Raise unless every positive has a grade above 0, and negatives have both numbers, or none of them."""
    grade = judged.grade
    if len(grade) != len(ranks.rank):
        raise ValueError(f"`judged.grade` must have a value for each rank; got {len(grade)} for {len(ranks.rank)}.")
    _refuse(~((grade > 0) & grade.isfinite()), "`judged.grade` must be finite and above 0; got {} at {place}.", grade)
    if (judged.num_before is None) != (judged.num_negatives is None):
        raise ValueError("`judged` must have both `num_before` and `num_negatives`, or none of them; got one.")
    for name, length in (("num_before", len(ranks.rank)), ("num_negatives", ranks.num_queries)):
        values = getattr(judged, name)
        if values is not None:
            _checks.integer_labels(f"judged.{name}", values, length)
            _refuse(values < 0, f"`judged.{name}` must be at least 0; got {{}} at {{place}}.", values)


def _check_groups(ranks: PositiveRanks, tied: TiedGroups) -> None:
    """Raise unless the groups fit the ranks: see `TiedGroups`."""
    policies = [policy.name for policy in TIE_POLICIES.values() if policy.groups]
    if tied.policy not in policies:
        raise ValueError(f"`tied` must have the policy {' or '.join(map(repr, policies))}; got {tied.policy!r}.")
    num_groups = _checks.integer_labels("tied.num_groups", tied.num_groups, ranks.num_queries).long()
    total = int(num_groups.sum())
    num_positives = _checks.integer_labels("tied.num_positives", tied.num_positives, total).long()
    num_negatives = _checks.integer_labels("tied.num_negatives", tied.num_negatives, total).long()
    query = segments.numbers(num_groups, total)
    _refuse(num_groups < 0, "`tied` must have at least 0 groups; got {} for query {place}.", num_groups)
    _refuse(num_positives < 1, "`tied` must have groups with a positive; got {} for group {place}.", num_positives)
    _refuse(num_negatives < 0, "`tied` must have at least 0 negatives; got {} for group {place}.", num_negatives)
    num_in_groups = torch.zeros_like(ranks.num_positives, dtype=torch.int64).index_add_(0, query, num_positives)
    rule = "`tied` must have groups of all positives; got {} of {} for query {place}."
    _refuse(num_in_groups != ranks.num_positives, rule, num_in_groups, ranks.num_positives)

    # Pessimistic ranks of a group follow each other, behind its negatives; the next group comes after them.
    group, place = segments.runs(0, num_positives)
    first = ranks.rank[segments.starts(num_positives)]
    last = ranks.rank[num_positives.cumsum(0) - 1]
    num_before = first - num_negatives - 1
    is_first = torch.ones_like(num_positives, dtype=torch.bool)
    is_first[1:] = query[1:] != query[:-1]
    least = torch.zeros_like(num_before)
    least[1:] = last[:-1].masked_fill(is_first[1:], 0)
    fits = (ranks.rank == first[group] + place) & (num_before >= least)[group]
    rule = "`tied` must describe groups that hold their positives at pessimistic ranks; got another for positive"
    _refuse(~fits, f"{rule} {{place}}.")


class RankTable:
    """The ranks of all positives, filled tile by tile in the order of the queries."""

    def __init__(
        self,
        ties: TiePolicy,
        num_listed: Int[Tensor, " queries"],
        *,
        graded: bool = False,
        num_positives: int | None = None,
    ) -> None:
        """Reserve ranks for all gallery items listed for a query; junk leaves some of them empty.

        Args:
            ties: the tie policy.
            num_listed: number of gallery items that are listed for each query.
            graded: whether positives have grades, because samples have several labels.
            num_positives: the sum of `num_listed`; None to compute it, which waits for a device.
        """
        device = num_listed.device
        self._ties = ties
        self._graded = graded
        # Filled in place: with thousands of positives per query, ranks are larger than embeddings.
        most_positives = int(num_listed.sum()) if num_positives is None else num_positives
        self._rank = torch.empty(most_positives, dtype=torch.int64, device=device)
        most_graded = most_positives if graded else 0
        self._grades = torch.empty(most_graded, dtype=torch.float32, device=device)
        self._num_filled = 0
        self.num_positives = torch.zeros_like(num_listed)
        self.num_candidates = torch.zeros_like(num_listed)
        self._num_groups = torch.zeros_like(num_listed)
        self._groups = [torch.empty((2, 0), dtype=torch.int64, device=device)]

    def add(self, rows: slice, positives: Positives, counts: Int[Tensor, "counts positives"], cells: Tensor) -> None:
        """Append the positives of a tile.

        Args:
            rows: the queries of the tile.
            positives: the scores and grades of their positives, best first.
            counts: the negatives before each positive; with groups of ties also the negatives above it.
            cells: `cells_of_positives`, the places of the positives in `positives`.
        """
        row = segments.numbers(self.num_positives[rows], len(cells))
        # The rank is the number of negatives before, and the place 1, 2, ... among the positives of the query.
        place = cells.sub(row, alpha=positives.scores.shape[1])
        filled = slice(self._num_filled, self._num_filled + len(cells))
        self._num_filled = filled.stop
        torch.add(place, counts[0], out=self._rank[filled]).add_(1)
        if positives.grades is not None:
            self._grades[filled] = positives.grades.view(-1)[cells]
        if self._ties.groups:
            # A group begins at the first positive of a row, and where the score differs from the one before.
            begins = place == 0
            scores = positives.scores.view(-1)[cells]
            begins[1:] |= scores[1:] != scores[:-1]
            starts = begins.nonzero()[:, 0]
            ends = starts
            if len(starts):
                ends = torch.cat([starts[1:], starts.new_tensor([len(cells)])])
            self._num_groups[rows] = row[starts].bincount(minlength=rows.stop - rows.start)
            self._groups.append(torch.stack([ends - starts, counts[0][starts] - counts[1][starts]]))

    def append(
        self,
        rows: slice,
        num_positives: Int[Tensor, " queries"],
        rank: Int[Tensor, " positives"],
        grade: Int[Tensor, " positives"],
        groups: Sequence[Tensor] = (),
    ) -> None:
        """Append the positives of some queries that were ranked at once, query by query in the order of their ranks.

        For tie policies with groups, `groups` are the tensors of `TiedGroups`, in their order.
        """
        filled = slice(self._num_filled, self._num_filled + len(rank))
        self._num_filled = filled.stop
        self._rank[filled] = rank
        self.num_positives[rows] = num_positives
        if self._graded:
            self._grades[filled] = grade
        if groups:
            self._num_groups[rows], *counts = groups
            self._groups.append(torch.stack(counts))

    def ranks(self) -> PositiveRanks:
        """Return the ranks of all tiles."""
        tied = None
        if self._ties.groups:
            num_positives, num_negatives = torch.cat(self._groups, dim=1)
            tied = TiedGroups(self._ties.name, self._num_groups, num_positives, num_negatives)
        judged = Judgments(self._grades[: self._num_filled]) if self._graded else None
        return unchecked_ranks(
            self._rank[: self._num_filled],
            self.num_positives,
            self.num_candidates,
            tied=tied,
            judged=judged,
        )
