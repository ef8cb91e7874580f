"""The waist of retrieval evaluation: the ranks of every query's positives.

Ranks, and ranked lists, that did not come from the engine are checked.
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

from .tie_policies import TIE_POLICIES

Hits: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""For every query its ranked list, best first, as bools or as 0 and 1; lists of lists may be of unequal lengths."""

UNRETRIEVED = 1 << 62
"""Ranks above this mark positives that were not retrieved; measures treat them as infinite."""


@dataclass(frozen=True, eq=False)
class TiedGroups:
    """The groups of candidates with one score, for tie policies that treat a group as a whole.

    Only groups with a positive are listed: query by query, and best first. In the ranks of `PositiveRanks` the
    negatives of a group come first. One query with the scores .9 (positive), .8 (two positives and a negative) and .5
    (a negative):

        rank             1 3 4        of the positives, pessimistic
        num_groups       2            of the query
        num_positives    1 2          of its groups
        num_negatives    0 1
    """

    policy: str
    """"grouped" or "expected", a key of `TIE_POLICIES`: how measures treat a group"""
    num_groups: Int[Tensor, " queries"]
    """int64; groups of each query"""
    num_positives: Int[Tensor, " groups"]
    """int64; positives in the group, at least 1"""
    num_negatives: Int[Tensor, " groups"]
    """int64; negatives in the group"""


@dataclass(frozen=True, eq=False)
class Judgments:
    """Grades of the positives, and negatives that were judged, where the truth of ranked lists has them.

    Where samples have several labels, the grade is the number of labels that are shared, and all negatives are judged.
    """

    grade: Float[Tensor, " positives"]
    """above 0"""
    num_before: Int[Tensor, " positives"] | None = None
    """int64; judged negatives before the positive in the list; None where every other candidate is judged"""
    num_negatives: Int[Tensor, " queries"] | None = None
    """int64; judged negatives of the query, retrieved or not; None as before"""


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """The ranks of the positives of every query, the input of each measure of retrieval.

    Blocks of queries append: the ranks of two sets of queries against one gallery are the concatenation of both.
    Lists that are ranked already enter by `from_hits`.

    Raises:
        TypeError: a tensor that holds no integers.
        ValueError: lengths or devices that do not fit, ranks that do not ascend within a query or are not between 1
            and its number of candidates, unless above `UNRETRIEVED`, more retrieved positives than candidates, or
            groups or judgments that do not fit the ranks.
    """

    rank: Int[Tensor, " positives"]
    """int64, 1-based, grouped by query, ascending inside a query, each rank once"""
    num_positives: Int[Tensor, " queries"]
    """int64; 0 for a query that cannot be evaluated"""
    num_candidates: Int[Tensor, " queries"]
    """int64; gallery items left for the query once junk is removed"""
    tied: TiedGroups | None = None
    """under the tie policies "grouped" and "expected" only; ranks are the pessimistic ones then"""
    judged: Judgments | None = None
    """of ranked lists with grades and of samples with several labels; without, every positive has grade 1 and every
    other candidate is judged"""

    def __post_init__(self) -> None:
        _arrays.fields_as_tensors(self, "rank", "num_positives", "num_candidates")
        rank, num_positives, num_candidates = self.rank, self.num_positives, self.num_candidates
        _checks.integer_labels("num_positives", num_positives)
        _checks.integer_labels("num_candidates", num_candidates, len(num_positives))
        _checks.same_device("num_positives", num_positives, "num_candidates", num_candidates)
        _refuse(num_positives < 0, "`num_positives` must be at least 0; got {} for query {place}.", num_positives)
        if not bool((rank > UNRETRIEVED).any()):  # a cut list may have fewer candidates than positives
            rule = "`num_positives` must be at most `num_candidates`; got {} of {} for query {place}."
            _refuse(num_positives.long() > num_candidates.long(), rule, num_positives, num_candidates)
        num_ranks = int(num_positives.double().sum())  # a sum of integers could overflow, and fit by chance
        _checks.integer_labels("rank", rank, num_ranks, num_positives.device)
        rank, query = rank.long(), torch.repeat_interleave(num_positives.long())
        most, falls = num_candidates.long()[query], (rank[1:] <= rank[:-1]) & (query[1:] == query[:-1])
        _refuse(rank < 1, "`rank` must count from 1; got {} for query {}.", rank, query)
        rule = "`rank` must ascend within a query, each rank once; got {}, {} for query {}."
        _refuse(falls, rule, rank, rank[1:], query)
        rule = "`rank` must be at most `num_candidates`; got {} of {} for query {}."
        _refuse((rank > most) & (rank <= UNRETRIEVED), rule, rank, most, query)
        if self.tied is not None:
            _check_groups(self, self.tied)
        if self.judged is not None:
            _check_judgments(self, self.judged)

    @property
    def num_queries(self) -> int:
        """Number of queries, with or without a positive."""
        return len(self.num_positives)

    def split(self, max_positives: int = 1 << 22) -> Iterator[PositiveRanks]:
        """Blocks of queries with about `max_positives` positives each, so that measures need little memory."""
        if self.num_queries and len(self.rank) <= max_positives:  # nearly always
            yield self
            return
        # Whole queries, one at least, up to the last one that still fits.
        stops = self.num_positives.cumsum(0)
        first, done = 0, 0
        while first < self.num_queries:
            last = max(first + 1, int(torch.searchsorted(stops, done + max_positives, right=True)))
            stop = int(stops[last - 1])
            yield block_of(self, slice(first, last), slice(done, stop))
            first, done = last, stop

    @staticmethod
    def from_hits(hits: Hits, num_positives: Tensor | NDArray[Any] | Sequence[int] | None = None) -> PositiveRanks:
        """The ranks of lists that are ranked already: hits, True or 1, and misses, best first; junk is left out.

        A list that was cut off may lack positives. They count in `num_positives` but are never retrieved, as in
        trec_eval: they add 0 to average precision, which is divided by all positives, and are beyond every cutoff. So
        the first rank of a query without a hit is infinite, and INP is 0 where a positive is missing. `num_candidates`
        is the length of the list.

        Args:
            hits: a bool or integer tensor or array [queries, candidates], or one list for each query.
            num_positives: number of positives of each query, retrieved or not; None for the positives in the list.

        Raises:
            TypeError: something else than lists of bools, or of the integers 0 and 1.
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
        # All lists end to end: an array is one already.
        if isinstance(hits, (Tensor, np.ndarray)):
            if hits.ndim != 2:
                raise ValueError(f"`hits` must have shape [queries, candidates]; got {list(hits.shape)}.")
            (values,) = _arrays.as_tensors(hits)
            entries = _check_hits("hits", values.flatten())
            lengths = torch.full((len(values),), values.shape[1], device=entries.device)
        elif not isinstance(hits, (list, tuple)):
            raise TypeError(f"`hits` must be a tensor, an array or a list of lists; got {type(hits).__name__}.")
        else:
            for row in (row for row in hits if not isinstance(row, (Tensor, np.ndarray, list, tuple))):
                raise TypeError(f"`hits` must hold one list for each query; got {type(row).__name__}, so write [hits].")
            rows = [row for each in hits for row in _arrays.as_tensors(each)]
            checked = [_check_hits(f"hits[{query}]", row) for query, row in enumerate(rows)]
            device = checked[0].device if checked else torch.device("cpu")
            lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64, device=device)
            entries = torch.cat([torch.empty(0, dtype=torch.bool, device=device), *checked])
        query, rank = (part[entries] for part in segments.runs(1, lengths))
        num_hits = torch.bincount(query, minlength=len(lengths))
        declared = num_hits
        if num_positives is not None:
            declared = _checks.integer_labels("num_positives", num_positives, len(num_hits), num_hits.device).long()
            rule = "`num_positives` must count the hits, too; got {} for query {place}, which has {} hits."
            _refuse(declared < num_hits, rule, declared, num_hits)
        return ranks_of_hits(rank, num_hits, declared, lengths)

    @staticmethod
    def concatenate(blocks: Sequence[PositiveRanks]) -> PositiveRanks:
        """The ranks of all queries of `blocks`, in order."""
        _checks.alike("blocks", "tie policy", [block.tied.policy if block.tied else None for block in blocks])
        _checks.alike("blocks", "kind of judgments", [block.judged is not None for block in blocks])
        joined: PositiveRanks = _end_to_end(blocks)
        return joined


def _end_to_end(values: Sequence[Any]) -> Any:
    """Tensors end to end, and records field by field; of other values, all equal, the first."""
    if isinstance(values[0], Tensor):
        return torch.cat([*values])
    if not is_dataclass(values[0]):
        return values[0]
    joined = object.__new__(type(values[0]))  # without the checks of a user's ranks
    vars(joined).update({name: _end_to_end([getattr(each, name) for each in values]) for name in vars(values[0])})
    return joined


def block_of(ranks: PositiveRanks, queries: slice, positives: slice) -> PositiveRanks:
    """The ranks of a range of queries, the range `positives` of all positives."""
    tied, judged = ranks.tied, ranks.judged
    if tied is not None:
        edges = segments.edges(tied.num_groups)
        groups = slice(int(edges[queries.start]), int(edges[queries.stop]))
        tied = TiedGroups(tied.policy, tied.num_groups[queries], tied.num_positives[groups], tied.num_negatives[groups])
    if judged is not None:
        before, negatives = judged.num_before, judged.num_negatives
        before = None if before is None else before[positives]
        negatives = None if negatives is None else negatives[queries]
        judged = Judgments(judged.grade[positives], before, negatives)
    counts = ranks.num_positives[queries], ranks.num_candidates[queries]
    return unchecked_ranks(ranks.rank[positives], *counts, tied, judged)


def unchecked_ranks(
    rank: Tensor,
    num_positives: Tensor,
    num_candidates: Tensor,
    tied: TiedGroups | None = None,
    judged: Judgments | None = None,
) -> PositiveRanks:
    """`PositiveRanks` that were counted here, without the checks of a user's ranks."""
    ranks, counts = object.__new__(PositiveRanks), {"num_positives": num_positives, "num_candidates": num_candidates}
    vars(ranks).update(counts, rank=rank, tied=tied, judged=judged)
    return ranks


def ranks_of_hits(
    rank: Int[Tensor, " hits"],
    num_hits: Int[Tensor, " queries"],
    num_positives: Int[Tensor, " queries"],
    num_candidates: Int[Tensor, " queries"],
    judged: Judgments | None = None,
) -> PositiveRanks:
    """The ranks of hits, query by query and ascending; positives beyond the hits are never retrieved."""
    # Behind the hits of a query, ranks beyond every cutoff for the positives that the list lacks.
    query, ordinal = segments.runs(1, num_positives)
    ranks = ordinal + UNRETRIEVED
    ranks[ordinal <= num_hits[query]] = rank
    return unchecked_ranks(ranks, num_positives, num_candidates, judged=judged)


def check_ranks(ranks: object) -> None:
    """Raise unless a measure was given ranks."""
    if not isinstance(ranks, PositiveRanks):
        came = type(ranks).__name__
        if isinstance(ranks, Tensor):
            came = f"{ranks.dtype} of shape {list(ranks.shape)}"
        raise TypeError(
            "`ranks` must be `PositiveRanks`, which `PositiveRanks.from_hits` makes of ranked lists of hits and"
            f" `rank_positives` of embeddings; got {came}."
        )


def in_float(rank: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Ranks as float64, infinite where a list does not hold the positive."""
    return rank.double().masked_fill(rank > UNRETRIEVED, torch.inf)


def _check_hits(argument: str, hits: object) -> Bool[Tensor, " candidates"]:
    """Raise unless a list has one axis, and holds bools, or the integers 0 and 1."""
    if not isinstance(hits, Tensor) or (hits.numel() and (hits.is_floating_point() or hits.is_complex())):
        came = hits.dtype if isinstance(hits, Tensor) else type(hits).__name__
        raise TypeError(f"`{argument}` must hold bools, or the integers 0 and 1; got {came}.")
    if hits.ndim != 1:
        raise ValueError(f"`{argument}` must be a list of hits; got shape {list(hits.shape)}.")
    if hits.dtype != torch.bool and not bool(((hits == 0) | (hits == 1)).all()):
        raise ValueError(
            f"`{argument}` must hold hits, True or 1, and misses, False or 0; got {int(hits.min())} to"
            f" {int(hits.max())}."
        )
    return hits.bool()


def _refuse(flags: Tensor, message: str, *values: Tensor) -> None:
    """Raise if a flag is True, with the values at the place of the first in a message."""
    if bool(flags.any()):
        place = int(flags.nonzero()[0, 0])
        raise ValueError(message.format(*(each[place] for each in values), place=place))


def _check_judgments(ranks: PositiveRanks, judged: Judgments) -> None:
    """Raise unless every positive has a grade above 0, and judged negatives are counted, or none is."""
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
    num_listed = int(num_groups.sum())
    num_positives = _checks.integer_labels("tied.num_positives", tied.num_positives, num_listed).long()
    num_negatives = _checks.integer_labels("tied.num_negatives", tied.num_negatives, num_listed).long()
    query = segments.numbers(num_groups, num_listed)
    _refuse(num_groups < 0, "`tied` must have at least 0 groups; got {} for query {place}.", num_groups)
    _refuse(num_positives < 1, "`tied` must have groups with a positive; got {} for group {place}.", num_positives)
    _refuse(num_negatives < 0, "`tied` must have at least 0 negatives; got {} for group {place}.", num_negatives)
    of_query = torch.zeros_like(ranks.num_positives, dtype=torch.int64).index_add_(0, query, num_positives)
    rule = "`tied` must have groups of all positives; got {} of {} for query {place}."
    _refuse(of_query != ranks.num_positives, rule, of_query, ranks.num_positives)
    # Pessimistic ranks of a group follow each other, behind its negatives; the next group comes after them.
    group, place = segments.runs(0, num_positives)
    first = ranks.rank[segments.starts(num_positives)]
    before = first - num_negatives - 1
    is_first = torch.ones_like(num_positives, dtype=torch.bool)
    is_first[1:] = query[1:] != query[:-1]
    last = ranks.rank[num_positives.cumsum(0) - 1]
    least = torch.zeros_like(before)
    least[1:] = last[:-1].masked_fill(is_first[1:], 0)
    holds = (ranks.rank == first[group] + place) & (before >= least)[group]
    rule = "`tied` must describe groups that hold their positives at pessimistic ranks; got another for positive"
    _refuse(~holds, f"{rule} {{place}}.")
