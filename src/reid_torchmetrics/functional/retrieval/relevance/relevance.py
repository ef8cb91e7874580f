"""Positives, negatives and junk of each query: a retrieval problem without any score.

Relevance comes from labels, or from lists of positives and junk, as the benchmarks of landmarks name them.

Junk is removed before ranking and never occupies a rank. The other items are a query's candidates: its positives and
its negatives. A few gallery items are listed for each query, by its identity or by the lists of a benchmark. They are
its positives or junk; everything else is a negative, unless a rule drops it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments

from .several_labels import SharedLabels

JunkPairs = Callable[[Tensor, Tensor], Tensor]
"""A user's rule: positions of queries [q] and of gallery items [g] to a bool mask [q, g], True for what is dropped."""

GivenJunkPairs = JunkPairs | Tensor | NDArray[np.bool_]
"""A user's rule, or a bool mask of all pairs [queries, gallery]"""

Record = TypeVar("Record", "LabelRule", "Relevance", SharedLabels)

_PAIRS_AT_A_TIME = 1 << 22  # pairs looked at in one go, to count the pairs that rules drop


@dataclass(frozen=True)
class QueryCounts:
    """Numbers of queries that can be evaluated, and of the others by their reason."""

    total: int
    valid: int
    """queries with at least one positive"""
    junk: int
    """queries of a junk identity"""
    not_in_gallery: int
    """queries of an identity that no other gallery item has, or of a position without an item within the radius"""
    same_camera_only: int
    """queries that lost every positive to the camera rule, or to another rule that drops pairs"""
    not_ranked: int = 0
    """queries that were not ranked at all, because embeddings are not finite; the other numbers are unknown then"""

    def counting(self, empty_target_action: _names.EmptyTargetAction) -> _names.EmptyTargetAction:
        """The action for queries without positives in a mean: "skip" for queries that were not ranked."""
        return "skip" if self.not_ranked else empty_target_action


@dataclass(frozen=True)
class LabelRule:
    """Drops the gallery items with a label of the query, such as its camera; or the items with another label."""

    query: Int[Tensor, " queries"]
    gallery: Int[Tensor, " kept"]
    num_dropped: Int[Tensor, " queries"] | None
    """kept items that the rule drops for each query, listed or not; None if it drops listed items only"""
    drops_different: bool = False
    """whether the rule drops the items with another label"""

    def at(self, rows: slice, columns: Tensor | slice) -> Bool[Tensor, "queries columns"]:
        """Whether the rule drops columns of its own for each query, or a range of columns for all."""
        is_same = self.gallery[columns] == self.query[rows, None]
        return ~is_same if self.drops_different else is_same


class TileRelevance(NamedTuple):
    """The gallery items that are listed for each query of a tile, padded to the longest row.

    Everything else in the gallery is a negative, except what `Relevance.dropped` marks.
    """

    columns: Int[Tensor, "queries padded"]
    """positions in the kept gallery; padding repeats some valid position"""
    listed: Bool[Tensor, "queries padded"]
    """False at padding"""
    positive: Bool[Tensor, "queries padded"]
    num_positives: Int[Tensor, " queries"]
    num_candidates: Int[Tensor, " queries"]
    grades: Int[Tensor, "queries padded"] | None = None
    """how many labels the items share with the query, 0 at padding; None where samples have one identity each"""


@dataclass(frozen=True)
class Relevance:
    """The gallery items listed for each query, and the rules that drop pairs; from labels by `find_relevance`.

    Gallery positions are positions in the kept gallery, without junk identities; `kept` maps them back.
    """

    num_gallery: int
    """gallery items, kept or not"""
    kept: Int[Tensor, " kept"] | None
    """positions of the kept items in the gallery; None if all are kept"""
    num_kept: int
    order: Int[Tensor, " entries"]
    """kept positions; the items listed for a query are one run, ascending; none where there is `shared`"""
    run_start: Int[Tensor, " queries"]
    run_length: Int[Tensor, " queries"]
    is_junk: Bool[Tensor, " queries"]
    listed_junk: Bool[Tensor, " entries"] | None = None
    """marks the entries of `order` that are listed as junk"""
    self_index: Int[Tensor, " queries"] | None = None
    """the query's own position in the gallery, -1 where it has none"""
    own_column: Int[Tensor, " queries"] | None = None
    """the query's own kept position, -1 where it has none"""
    rules: tuple[LabelRule, ...] = ()
    num_dropped: Int[Tensor, " queries"] | None = None
    """kept items that several rules drop together, listed or not; None where one rule says it, or pairs are counted"""
    junk_pairs: JunkPairs | None = None
    query_identities: Int[Tensor, " queries"] | None = None
    gallery_identities: Int[Tensor, " kept"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    """cameras as they were given, for any camera rule"""
    gallery_cameras: Int[Tensor, " kept"] | None = None
    may_be_unknown: bool = False
    """whether some queries have a negative identity besides -1: data sets mark samples without an identity so"""
    shared: SharedLabels | None = None
    """where samples have several labels: finds the items that are listed for a query, as there may be very many"""

    @property
    def num_queries(self) -> int:
        """Number of queries."""
        return len(self.run_start)

    @property
    def longest_run(self) -> int:
        """The largest number of kept gallery items that are listed for one query."""
        return int(self._lengths.max()) if self.num_queries else 0

    @property
    def num_listed(self) -> int:
        """Number of gallery items listed for the queries, all together."""
        return int(self._lengths.sum())

    @property
    def device(self) -> torch.device:
        """Device of the labels."""
        return self.run_start.device

    @property
    def drops_others(self) -> bool:
        """Whether some rule drops items that are not listed for the query."""
        return self.junk_pairs is not None or any(rule.num_dropped is not None for rule in self.rules)

    def to(self, device: torch.device | str) -> Relevance:
        """The same on a device, or on the CPU for one without float64; a function `junk_pairs` is left as it is."""
        device = _arrays.compute_device(torch.device(device))
        shared = None if self.shared is None else _moved(self.shared, device)
        rules = tuple(_moved(rule, device) for rule in self.rules)
        return _moved(replace(self, rules=rules, shared=shared), device)

    def tile(self, rows: slice) -> TileRelevance:
        """Relevance of the queries `rows`."""
        # The runs of the queries side by side, [queries, longest run]; the places behind a run are padding.
        start, length, order = self.run_start[rows, None], self.run_length[rows, None], self.order
        if self.shared is not None:
            order, num_shared = self.shared.entries(rows)
            start = segments.starts(self.run_length[rows])[:, None]
        place = torch.arange(int(self._lengths[rows].max()), device=start.device)
        listed = place < length
        entries = (start + place).clamp_(max=len(order) - 1)
        columns = order[entries]
        grades = None if self.shared is None else num_shared[entries].masked_fill_(~listed, 0)
        # What rules drop of the whole gallery, and other junk, which is always listed.
        dropped, num_dropped = self._dropped_at(rows, columns)
        marks = [*dropped, *(rule.at(rows, columns) for rule in self.rules if rule.num_dropped is None)]
        if self.listed_junk is not None:
            marks.append(self.listed_junk[entries])
        if self.own_column is not None:
            marks.append(columns == self.own_column[rows, None])
        positive = listed & ~reduce(operator.or_, marks) if marks else listed
        num_positives = positive.sum(1)
        # Junk that is listed, but for what rules drop of the whole gallery.
        others = (listed & ~positive & ~dropped[0]).sum(1) if dropped else self.run_length[rows] - num_positives
        num_candidates = self.num_kept - num_dropped - others
        return TileRelevance(columns, listed, positive, num_positives, num_candidates, grades)

    def graded_rows(self, rows: slice) -> tuple[Int[Tensor, "queries kept"], Bool[Tensor, "queries kept"] | None]:
        """How many labels all kept items share with few queries, and marks of junk, with 0 for junk; None without."""
        assert self.shared is not None  # noqa: S101 - for the type checker
        columns = slice(0, self.num_kept)
        grades, junk = self.shared.numbers(rows), self.dropped(rows, columns)
        for rule in self.rules:
            if rule.num_dropped is None:
                of_rule = rule.at(rows, columns) & (grades > 0)
                junk = of_rule if junk is None else junk | of_rule
        if self.own_column is not None:
            own = self.own_column[rows]
            query = (own >= 0).nonzero()[:, 0]
            junk = torch.zeros_like(grades, dtype=torch.bool) if junk is None else junk
            junk[query, own[query]] = True
        return (grades if junk is None else grades.masked_fill_(junk, 0)), junk

    def dropped(self, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"] | None:
        """Mark the pairs that are dropped, listed or not; None if no rule does that."""
        masks = [rule.at(rows, columns) for rule in self.rules if rule.num_dropped is not None]
        if self.junk_pairs is not None:
            queries, gallery = (torch.arange(part.start, part.stop, device=self.device) for part in (rows, columns))
            mask = self.junk_pairs(queries, gallery if self.kept is None else self.kept[gallery])
            if isinstance(mask, np.ndarray):
                (mask,) = _arrays.as_tensors(mask, device=self.device)
            shape = [len(queries), len(gallery)]
            _checks.boolean_tensor("junk_pairs", mask, f"return a bool tensor {shape}")
            if mask.shape != (len(queries), len(gallery)) or mask.device != self.device:
                raise ValueError(
                    f"`junk_pairs` must return a mask {[len(queries), len(gallery)]} on {self.device}; got"
                    f" {list(mask.shape)} on {mask.device}."
                )
            # Masks are combined in place, and are read as one row of cells.
            masks.append(mask.clone(memory_format=torch.contiguous_format))
        return reduce(operator.ior, masks) if masks else None

    def pairs(
        self, rows: slice, columns: slice, tile: TileRelevance
    ) -> tuple[Bool[Tensor, "queries columns"], Bool[Tensor, "queries columns"]]:
        """Dense masks of the positives and of the negatives; all other pairs are junk. `tile` is that of `rows`."""
        # All pairs [queries, columns] are negative, but for the items listed for the query, and the pairs rules drop.
        inside = tile.listed & (tile.columns >= columns.start) & (tile.columns < columns.stop)
        shape = (len(tile.columns), columns.stop - columns.start)
        negative = torch.ones(shape, dtype=torch.bool, device=self.device)
        row, place = inside.nonzero(as_tuple=True)
        column = tile.columns[row, place] - columns.start
        negative[row, column] = False
        dropped = self.dropped(rows, columns)
        if dropped is not None:
            negative &= ~dropped
        positive = torch.zeros_like(negative)
        positive[row, column] = tile.positive[row, place]
        return positive, negative

    def listed_anywhere(self) -> Bool[Tensor, " kept"]:
        """Mark the kept gallery items that are listed for some query."""
        if self.shared is not None:
            return self.shared.are_shared()
        is_listed = torch.zeros(self.num_kept, dtype=torch.bool, device=self.device)
        is_listed[self.order] = True
        return is_listed

    @property
    def num_others(self) -> Int[Tensor, " queries"]:
        """Number of kept gallery items listed for each query, without listed junk and the query itself."""
        others = self.run_length
        if self.listed_junk is not None:
            junk_before = torch.nn.functional.pad(self.listed_junk.cumsum(0), (1, 0))
            others = others - (junk_before[self.run_start + self.run_length] - junk_before[self.run_start])
        return others if self.own_column is None else others - (self.own_column >= 0).long()

    def counts(
        self, num_positives: Int[Tensor, " queries"], num_others: Int[Tensor, " queries"] | None = None
    ) -> QueryCounts:
        """Count the valid queries, and the others by their reason; `num_positives` as in `PositiveRanks`.

        For a part of a gallery, `num_others` is the sum of that property over all parts.
        """
        num_others = self.num_others if num_others is None else num_others
        valid, absent = num_positives > 0, ~self.is_junk & (num_others == 0)
        lost = ~(valid | self.is_junk | absent)
        numbers = torch.stack([valid, self.is_junk, absent, lost]).sum(1).tolist()
        return QueryCounts(self.num_queries, *numbers)

    @cached_property
    def _lengths(self) -> Int[Tensor, " queries"]:
        """`run_length` on the CPU, so that a device is waited for once and not for every tile."""
        return self.run_length.cpu()

    def dropped_at(self, rows: slice, columns: Int[Tensor, "queries listed"]) -> Bool[Tensor, "queries listed"] | None:
        """Mark what `dropped` marks at a few columns of each query; None if no rule drops items that are not listed."""
        marks, _ = self._dropped_at(rows, columns)
        return marks[0] if marks else None

    def _dropped_at(self, rows: slice, columns: Tensor) -> tuple[list[Tensor], Tensor | int]:
        """The marks of `dropped` at each query's own `columns`, if a rule drops any, and how many items it marks."""
        counted = [
            (rule.at(rows, columns), rule.num_dropped[rows]) for rule in self.rules if rule.num_dropped is not None
        ]
        if self.junk_pairs is None and self.num_dropped is not None:
            return [reduce(operator.or_, (marks for marks, _ in counted))], self.num_dropped[rows]
        if self.junk_pairs is not None or len(counted) > 1:
            counted = []
            for part in segments.ranges(rows.stop - rows.start, max(1, _PAIRS_AT_A_TIME // max(1, self.num_kept))):
                mask = self.dropped(slice(rows.start + part.start, rows.start + part.stop), slice(0, self.num_kept))
                assert mask is not None  # noqa: S101 - for the type checker
                counted.append((mask.gather(1, columns[part]), mask.sum(1)))
        if not counted:
            return [], 0
        at_columns, number = map(torch.cat, zip(*counted, strict=True))
        return [at_columns], number


def _moved(record: Record, device: torch.device) -> Record:
    """A record with its tensors on a device."""
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    tensors: dict[str, Any] = {name: value.to(device) for name, value in values if isinstance(value, Tensor)}
    return replace(record, **tensors)


def junk_pairs_of(given: object, num_queries: int, num_gallery: int, device: torch.device) -> JunkPairs | None:
    """The function of a user's rule, or one that looks pairs up in a user's mask.

    Raises:
        TypeError: neither a function nor a bool mask.
        ValueError: a mask of another shape.
    """
    if given is None:
        return None
    if isinstance(given, (Tensor, np.ndarray)):
        (mask,) = _arrays.as_tensors(given, device=device)
        shape = [num_queries, num_gallery]
        _checks.boolean_tensor("junk_pairs", mask, f"be a bool mask {shape}, or a function that returns one")
        if mask.shape != (num_queries, num_gallery):
            raise ValueError(
                f"`junk_pairs` must have shape {[num_queries, num_gallery]}, queries by gallery items; got"
                f" {list(mask.shape)}."
            )
        return lambda queries, items: mask[queries][:, items]
    if not callable(given):
        raise TypeError(
            f"`junk_pairs` must be a function, a bool mask {[num_queries, num_gallery]} or None; got"
            f" {type(given).__name__}."
        )
    return given


def find_listed_relevance(
    positives: Sequence[Integer[Tensor, " _"] | _checks.Integers],
    junk: Sequence[Integer[Tensor, " _"] | _checks.Integers] | None = None,
    *,
    num_gallery: int,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
) -> Relevance:
    """Prepare lists for ranking: gallery positions of every query's positives and junk.

    Oxford, Paris and their revisited versions define relevance by such lists; all other items are negatives. Lists are
    checked and sorted on the CPU; the relevance is on their device, and moves by its method `to`.

    Args:
        positives: for every query gallery positions, possibly none.
        junk: the same for gallery items that are dropped for the query; None for none.
        num_gallery: number of gallery items.
        self_index: for every query its own position in the gallery, or -1: it is dropped, listed or not.

    Raises:
        TypeError: lists that are not sequences of integer tensors.
        ValueError: lists of different lengths, positions outside the gallery or listed twice for a query.
    """
    _checks.positive_int("num_gallery", num_gallery, least=0)
    listed = positions_on_cpu("positives", positives, num_gallery)
    junk = [part[:0] for part in listed] if junk is None else junk
    dropped = positions_on_cpu("junk", junk, num_gallery, len(listed))
    if self_index is not None:
        self_index = _checks.integer_labels("self_index", self_index, len(listed)).cpu()
        _checks.in_range("self_index", self_index, -1, num_gallery)
        # Each query's own position becomes junk; -1 is in no list.
        items = self_index.long().split(1)
        listed = [part[part != item] for part, item in zip(listed, items, strict=True)]
        pairs = zip(dropped, items, strict=True)
        dropped = [torch.cat([part[part != item].long(), item[item >= 0]]) for part, item in pairs]
    check_listed_once("positives` and `junk", listed, dropped)
    # A run of its own for each query: its positives and its junk in ascending order, with a mark on the junk.
    runs = [torch.cat([part.long() for part in pair]).sort() for pair in zip(listed, dropped, strict=True)]
    none = torch.empty(0, dtype=torch.int64, device="cpu")
    run_length = torch.tensor([len(run.values) for run in runs], dtype=torch.int64, device="cpu")
    is_junk = [run.indices >= len(part) for run, part in zip(runs, listed, strict=True)]
    relevance = Relevance(
        num_gallery=num_gallery,
        kept=None,
        num_kept=num_gallery,
        order=torch.cat([none, *(run.values for run in runs)]),
        run_start=segments.starts(run_length),
        run_length=run_length,
        is_junk=torch.zeros(len(runs), dtype=torch.bool, device="cpu"),
        listed_junk=torch.cat([none.bool(), *is_junk]),
        self_index=None if self_index is None else self_index.long(),
    )
    return relevance.to(getattr(positives[0], "device", "cpu")) if len(positives) else relevance


def positions_on_cpu(argument: str, values: object, size: int, length: int | None = None) -> list[Tensor]:
    """The positions listed for each query, on the CPU.

    Raises:
        TypeError: no sequence of integer tensors.
        ValueError: other than `length` tensors if it is given, tensors that are not 1-D and on one device, or positions
            not below `size`.
    """
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {type(values).__name__}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    values = _arrays.as_tensors(*values)
    for query, value in enumerate(values):
        _checks.integer_labels(f"{argument}[{query}]", value, device=values[0].device if query else None)
    # All at once: a copy of each list would wait for a GPU.
    lists = [*torch.cat([*values]).cpu().split([len(value) for value in values])] if values else []
    for query, positions in enumerate(lists):
        _checks.in_range(f"{argument}[{query}]", positions, 0, size)
    return lists


def check_listed_once(
    argument: str, positives: Sequence[Tensor], junk: Sequence[Tensor], *, name: Callable[[int], object] = int
) -> None:
    """Raise if a query, by its place or its `name`, lists a position twice, in one list or in both."""
    for query, both in enumerate(zip(positives, junk, strict=True)):
        items = torch.cat(both).sort().values
        repeated = items[1:][items[1:] == items[:-1]]
        if len(repeated):
            came = f"item {int(repeated[0])} twice for query {name(query)}"
            raise ValueError(f"`{argument}` must list a gallery item once for a query; got {came}.")
