"""Positives, negatives and junk of each query: a retrieval problem without scores.

Relevance comes from labels, or from lists of positives and junk, as in the benchmarks of landmarks.

Junk is removed before ranking and never occupies a rank. The other items are a query's candidates: its positives and
its negatives. A few gallery items are listed for each query, by its identity or by the lists of a benchmark. They are
its positives or junk; everything else is a negative, unless a rule drops it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import Displayed

JunkPairs = Callable[[Tensor, Tensor], Tensor]
"""A user's rule: from positions of queries [q] and gallery items [g] to a bool mask [q, g], True for dropped pairs."""

GivenJunkPairs = JunkPairs | Tensor | NDArray[np.bool_]
"""A user's rule, or a bool mask of all pairs [queries, gallery]"""

_PAIRS_AT_A_TIME = 1 << 22  # pairs that are masked at once, to count the pairs that rules drop


@dataclass(frozen=True)
class QueryCounts:
    """Numbers of queries that can be evaluated, and of those that cannot, by the reason."""

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
        """Return the action for queries without positives in a mean: "skip" for queries that were not ranked."""
        return "skip" if self.not_ranked else empty_target_action


@dataclass(frozen=True)
class LabelRule:
    """A rule that drops gallery items with the query's label, such as its camera; or items with another label."""

    query: Int[Tensor, " queries"]
    gallery: Int[Tensor, " kept"]
    num_dropped: Int[Tensor, " queries"] | None
    """kept items that the rule drops for each query, listed or not; None if it drops listed items only"""
    drops_different: bool = False
    """whether the rule drops the items with another label"""

    def at(self, rows: slice, columns: Tensor | slice) -> Bool[Tensor, "queries columns"]:
        """Mark the items that the rule drops, in different columns for each query, or in a range of columns for all."""
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
    """number of labels that the item shares with the query, 0 at padding; None where samples have one identity each"""


@dataclass(frozen=True, repr=False)
class Relevance(Displayed):
    """The gallery items listed for each query, and the rules that drop pairs; from labels by `find_relevance`.

    Gallery positions are positions in the kept gallery, without junk identities; `kept` maps them back.
    """

    num_gallery: int
    """gallery items, kept or not"""
    kept: Int[Tensor, " kept"] | None
    """positions of the kept items in the gallery; None if all are kept"""
    num_kept: int
    order: Int[Tensor, " entries"]
    """kept positions; the items listed for a query are one run, ascending; empty where there is `shared`"""
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
    """kept items that several rules drop together, listed or not; None for one rule, or if pairs must be counted"""
    junk_pairs: JunkPairs | None = None
    query_identities: Int[Tensor, " queries"] | None = None
    gallery_identities: Int[Tensor, " kept"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    """cameras before `camera_map`, also without a camera rule"""
    gallery_cameras: Int[Tensor, " kept"] | None = None
    shared: Any = None
    """the labels where samples have several; finds the items listed for a query, see `SEVERAL_LABELS`"""

    @cached_property
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

    @cached_property
    def device(self) -> torch.device:
        """Device of the labels."""
        return self.run_start.device

    @property
    def drops_others(self) -> bool:
        """Return whether some rule drops items that are not listed for the query."""
        return self.junk_pairs is not None or any(rule.num_dropped is not None for rule in self.rules)

    def to(self, device: torch.device | str) -> Relevance:
        """Copy the tensors to a device, or to the CPU for a device without float64; a function `junk_pairs` is kept."""
        device = _arrays.compute_device(torch.device(device))
        shared = None if self.shared is None else _moved(self.shared, device)
        rules = tuple(_moved(rule, device) for rule in self.rules)
        relevance: Relevance = _moved(replace(self, rules=rules, shared=shared), device)
        return relevance

    def tile(self, rows: slice) -> TileRelevance:
        """Return the relevance of the queries `rows`."""
        # The runs of the queries as a matrix [queries, longest run], padded behind each run.
        length = self.run_length[rows, None]
        if self.shared is None:
            order = self.order
            start = self.run_start[rows, None]
        else:
            order, num_shared = self.shared.entries(rows)
            start = segments.starts(self.run_length[rows])[:, None]
        place = torch.arange(int(self._lengths[rows].max()), device=start.device)
        listed = place < length
        entries = (start + place).clamp_(max=len(order) - 1)
        columns = order[entries]
        grades = None if self.shared is None else num_shared[entries].masked_fill_(~listed, 0)

        # Marks of junk: items that rules drop from the whole gallery, and other junk, which is always listed.
        dropped, num_dropped = self._dropped_at(rows, columns)
        marks = list(dropped)
        marks += [rule.at(rows, columns) for rule in self.rules if rule.num_dropped is None]
        if self.listed_junk is not None:
            marks.append(self.listed_junk[entries])
        if self.own_column is not None:
            marks.append(columns == self.own_column[rows, None])
        positive = listed & ~reduce(operator.or_, marks) if marks else listed
        num_positives = positive.sum(1)

        # Items that rules drop from the whole gallery are counted in `num_dropped` already.
        if dropped:
            num_junk = (listed & ~positive & ~dropped[0]).sum(1)
        else:
            num_junk = self.run_length[rows] - num_positives
        return TileRelevance(
            columns=columns,
            listed=listed,
            positive=positive,
            num_positives=num_positives,
            num_candidates=self.num_kept - num_dropped - num_junk,
            grades=grades,
        )

    def dropped(self, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"] | None:
        """Mark the pairs that are dropped, listed or not; None if no rule does that."""
        masks = [rule.at(rows, columns) for rule in self.rules if rule.num_dropped is not None]
        if self.junk_pairs is not None:
            masks.append(self._junk_mask(self.junk_pairs, rows, columns))
        return reduce(operator.ior, masks) if masks else None

    def _junk_mask(self, junk_pairs: JunkPairs, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"]:
        """Return a contiguous copy of the mask of a user's rule; raise unless it has the right dtype and shape."""
        queries = torch.arange(rows.start, rows.stop, device=self.device)
        gallery = torch.arange(columns.start, columns.stop, device=self.device)
        mask = junk_pairs(queries, gallery if self.kept is None else self.kept[gallery])
        if isinstance(mask, np.ndarray):
            (mask,) = _arrays.as_tensors(mask, device=self.device)
        shape = [len(queries), len(gallery)]
        _checks.boolean_tensor("junk_pairs", mask, f"return a bool tensor {shape}")
        if list(mask.shape) != shape or mask.device != self.device:
            raise ValueError(
                f"`junk_pairs` must return a mask {shape} on {self.device}; got {list(mask.shape)} on {mask.device}."
            )
        # Masks are combined in place, and are read as one row of cells.
        return mask.clone(memory_format=torch.contiguous_format)

    def pairs(
        self, rows: slice, columns: slice, tile: TileRelevance
    ) -> tuple[Bool[Tensor, "queries columns"], Bool[Tensor, "queries columns"]]:
        """Return dense masks of the positives and of the negatives; all other pairs are junk.

        `tile` is the relevance of `rows`.
        """
        # All pairs [queries, columns] are negative, except for items listed for the query and pairs that rules drop.
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

    @property
    def num_others(self) -> Int[Tensor, " queries"]:
        """Number of kept gallery items listed for each query, without listed junk and the query itself."""
        num_others = self.run_length
        if self.listed_junk is not None:
            junk_before = torch.nn.functional.pad(self.listed_junk.cumsum(0), (1, 0))
            num_junk = junk_before[self.run_start + self.run_length] - junk_before[self.run_start]
            num_others = num_others - num_junk
        if self.own_column is not None:
            num_others = num_others - (self.own_column >= 0).long()
        return num_others

    def counts(
        self, num_positives: Int[Tensor, " queries"], num_others: Int[Tensor, " queries"] | None = None
    ) -> QueryCounts:
        """Count the valid queries, and the others by their reason; `num_positives` as in `PositiveRanks`.

        For a part of a gallery, `num_others` is the sum of that property over all parts.
        """
        if num_others is None:
            num_others = self.num_others
        valid = num_positives > 0
        absent = ~self.is_junk & (num_others == 0)
        lost = ~(valid | self.is_junk | absent)
        num_valid, num_junk, num_absent, num_lost = torch.stack([valid, self.is_junk, absent, lost]).sum(1).tolist()
        return QueryCounts(
            total=self.num_queries,
            valid=num_valid,
            junk=num_junk,
            not_in_gallery=num_absent,
            same_camera_only=num_lost,
        )

    @cached_property
    def _lengths(self) -> Int[Tensor, " queries"]:
        """Copy of `run_length` on the CPU, to wait for a device once and not for every tile."""
        return self.run_length.cpu()

    def dropped_at(self, rows: slice, columns: Int[Tensor, "queries listed"]) -> Bool[Tensor, "queries listed"] | None:
        """Return the marks of `dropped` at a few columns of each query; None if no rule drops unlisted items."""
        marks, _ = self._dropped_at(rows, columns)
        return marks[0] if marks else None

    def _dropped_at(self, rows: slice, columns: Tensor) -> tuple[list[Tensor], Tensor | int]:
        """Return the marks of `dropped` at each query's own `columns`, and the number of items that it marks.

        The list of marks is empty if no rule drops items that are not listed.
        """
        marks: list[Tensor] = []
        numbers: list[Tensor] = []
        for rule in self.rules:
            if rule.num_dropped is not None:
                marks.append(rule.at(rows, columns))
                numbers.append(rule.num_dropped[rows])
        if self.junk_pairs is None and self.num_dropped is not None:
            return [reduce(operator.or_, marks)], self.num_dropped[rows]
        if self.junk_pairs is not None or len(marks) > 1:
            # Rules drop some pairs together: count in a mask of the whole gallery, a few queries at a time.
            marks.clear()
            numbers.clear()
            for part in segments.ranges(rows.stop - rows.start, max(1, _PAIRS_AT_A_TIME // max(1, self.num_kept))):
                mask = self.dropped(slice(rows.start + part.start, rows.start + part.stop), slice(0, self.num_kept))
                assert mask is not None  # noqa: S101 - for the type checker
                marks.append(mask.gather(1, columns[part]))
                numbers.append(mask.sum(1))
        if not marks:
            return [], 0
        return [torch.cat(marks)], torch.cat(numbers)


def _moved(record: Any, device: torch.device) -> Any:
    """Return a copy of a record with its tensors on a device."""
    tensors: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            tensors[field.name] = value.to(device)
    return replace(record, **tensors)


def junk_pairs_of(value: object, num_queries: int, num_gallery: int, device: torch.device) -> JunkPairs | None:
    """Return a user's rule as a function; for a mask, one that looks pairs up in it.

    Raises:
        TypeError: neither a function nor a bool mask.
        ValueError: a mask of another shape.
    """
    if value is None:
        return None
    shape = [num_queries, num_gallery]
    if isinstance(value, (Tensor, np.ndarray)):
        (mask,) = _arrays.as_tensors(value, device=device)
        _checks.boolean_tensor("junk_pairs", mask, f"be a bool mask {shape}, or a function that returns one")
        if list(mask.shape) != shape:
            raise ValueError(f"`junk_pairs` must have shape {shape}, queries by gallery items; got {list(mask.shape)}.")
        return lambda queries, items: mask[queries][:, items]
    if not callable(value):
        raise TypeError(f"`junk_pairs` must be a function, a bool mask {shape} or None; got {type(value).__name__}.")
    return value


def find_listed_relevance(
    positives: Sequence[Integer[Tensor, " _"] | _checks.Integers],
    junk: Sequence[Integer[Tensor, " _"] | _checks.Integers] | None = None,
    *,
    num_gallery: int,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
) -> Relevance:
    """Prepare lists of every query's positives and junk for ranking.

    Oxford, Paris and their revisited versions define relevance by such lists; all other items are negatives. Lists are
    checked and sorted on the CPU; the relevance is on their device, and moves by its method `to`.

    Args:
        positives: gallery positions of the positives of every query, possibly none.
        junk: gallery positions of the items that are dropped for every query; None drops none.
        num_gallery: number of gallery items.
        self_index: every query's own position in the gallery, or -1: this item is dropped, listed or not.

    Raises:
        TypeError: lists that are not sequences of integer tensors.
        ValueError: lists of different lengths, positions outside the gallery or listed twice for a query.
    """
    _checks.positive_int("num_gallery", num_gallery, least=0)
    listed = positions_on_cpu("positives", positives, num_gallery)
    if junk is None:
        junk = [part[:0] for part in listed]
    dropped = positions_on_cpu("junk", junk, num_gallery, len(listed))
    if self_index is not None:
        self_index = _checks.integer_labels("self_index", self_index, len(listed)).cpu().long()
        _checks.in_range("self_index", self_index, -1, num_gallery)
        # Each query's own position becomes junk; -1 is in no list.
        for query, item in enumerate(self_index[:, None]):
            positive_items, junk_items = listed[query], dropped[query]
            listed[query] = positive_items[positive_items != item]
            dropped[query] = torch.cat([junk_items[junk_items != item].long(), item[item >= 0]])
    check_listed_once("positives` and `junk", listed, dropped)

    # Each query has its own run: its positives and its junk in ascending order, with a mark on the junk.
    order = [torch.empty(0, dtype=torch.int64, device="cpu")]
    listed_junk = [torch.empty(0, dtype=torch.bool, device="cpu")]
    for positive_items, junk_items in zip(listed, dropped, strict=True):
        run, place = torch.cat([positive_items.long(), junk_items.long()]).sort()
        order.append(run)
        listed_junk.append(place >= len(positive_items))
    run_length = torch.tensor([len(run) for run in order[1:]], dtype=torch.int64, device="cpu")
    relevance = Relevance(
        num_gallery=num_gallery,
        kept=None,
        num_kept=num_gallery,
        order=torch.cat(order),
        run_start=segments.starts(run_length),
        run_length=run_length,
        is_junk=torch.zeros(len(listed), dtype=torch.bool, device="cpu"),
        listed_junk=torch.cat(listed_junk),
        self_index=self_index,
    )
    if not len(positives):
        return relevance
    return relevance.to(getattr(positives[0], "device", "cpu"))


def positions_on_cpu(argument: str, values: object, size: int, length: int | None = None) -> list[Tensor]:
    """Return the positions listed for each query, on the CPU.

    Raises:
        TypeError: not a sequence of integer tensors.
        ValueError: not `length` tensors if it is given, tensors that are not 1-D and on one device, or positions not
            below `size`.
    """
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {type(values).__name__}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    tensors = list(_arrays.as_tensors(*values))
    for query, tensor in enumerate(tensors):
        _checks.integer_labels(f"{argument}[{query}]", tensor, device=tensors[0].device if query else None)
    if not tensors:
        return []
    # One copy of all lists: a copy of each list would wait for a GPU.
    positions = torch.cat(tensors).cpu()
    lists = list(positions.split([len(tensor) for tensor in tensors]))
    for query, items in enumerate(lists):
        _checks.in_range(f"{argument}[{query}]", items, 0, size)
    return lists


def check_listed_once(
    argument: str, positives: Sequence[Tensor], junk: Sequence[Tensor], *, name: Callable[[int], object] = int
) -> None:
    """Raise if a query lists a position twice, in one list or in both; `name` returns the name of the query."""
    for query, lists in enumerate(zip(positives, junk, strict=True)):
        items = torch.cat(lists).sort().values
        repeated = items[1:][items[1:] == items[:-1]]
        if len(repeated):
            raise ValueError(
                f"`{argument}` must list a gallery item once for a query; got item {int(repeated[0])} twice for query"
                f" {name(query)}."
            )
