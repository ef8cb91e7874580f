"""Positives, negatives and junk of each query: a retrieval problem without any score.

Junk is removed before ranking and never occupies a rank. The other items are a query's candidates: its positives and
its negatives. A few gallery items are listed for each query, by its identity or by the lists of a benchmark. They are
its positives or junk; everything else is a negative, unless a rule drops it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._arrays import place_of_work
from reid_torchmetrics.functional import segments

JunkPairs = Callable[[Tensor, Tensor], Tensor]
"""A user's rule: positions of queries [q] and of gallery items [g] to a bool mask [q, g], True for what is dropped."""

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

    def counting(self, empty_target_action: str) -> str:
        """The action for queries without positives in a mean: "skip" for queries that were not ranked."""
        return "skip" if self.not_ranked else empty_target_action


@dataclass(frozen=True)
class LabelRule:
    """Drops the gallery items with a label of the query: its camera, clothes or sequence; or items with another."""

    query: Int[Tensor, " queries"]
    gallery: Int[Tensor, " kept"]
    num_same: Int[Tensor, " queries"] | None
    """kept items with the query's label; None if the rule drops listed items only"""
    drops_different: bool = False
    """whether the rule drops listed items with another label"""

    def to(self, device: torch.device) -> LabelRule:
        """The same on a device."""
        num_same = None if self.num_same is None else self.num_same.to(device)
        return LabelRule(self.query.to(device), self.gallery.to(device), num_same, self.drops_different)

    @property
    def drops_others(self) -> bool:
        """Whether the rule drops items that are not listed for the query."""
        return self.num_same is not None

    def at(self, rows: slice, columns: Tensor) -> Bool[Tensor, "queries padded"]:
        """Whether the rule drops each query's own `columns`."""
        is_same = self.gallery[columns] == self.query[rows, None]
        return ~is_same if self.drops_different else is_same

    def between(self, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"]:
        """Whether queries and gallery items share the label."""
        return self.query[rows, None] == self.gallery[None, columns]


class TileRelevance(NamedTuple):
    """The gallery items that are listed for each query of a tile, padded to the longest row.

    Everything else in the gallery is a negative, except what `Relevance.dropped` marks.
    """

    columns: Int[Tensor, "queries padded"]
    """positions in the kept gallery; padding repeats some valid position"""
    listed: Bool[Tensor, "queries padded"]
    """False at padding"""
    positive: Bool[Tensor, "queries padded"]
    num_candidates: Int[Tensor, " queries"]


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
    """kept positions; the items listed for a query are one run, ascending"""
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
    junk_pairs: JunkPairs | None = None
    query_identities: Int[Tensor, " queries"] | None = None
    gallery_identities: Int[Tensor, " kept"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    """cameras as they were given, for any camera rule"""
    gallery_cameras: Int[Tensor, " kept"] | None = None
    doubt: str | None = None
    """why the positions can hardly be meant, in words; None where they can"""

    @property
    def num_queries(self) -> int:
        """Number of queries."""
        return len(self.run_start)

    @property
    def longest_run(self) -> int:
        """The largest number of kept gallery items that are listed for one query."""
        return int(self._lengths.max()) if self.num_queries else 0

    @property
    def device(self) -> torch.device:
        """Device of the labels."""
        return self.run_start.device

    @property
    def drops_others(self) -> bool:
        """Whether some rule drops items that are not listed for the query."""
        return self.junk_pairs is not None or any(rule.drops_others for rule in self.rules)

    def to(self, device: torch.device | str) -> Relevance:
        """The same on a device, or on the CPU for one without float64; a function `junk_pairs` is left as it is."""
        device = place_of_work(torch.device(device))
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        tensors: dict[str, Any] = {name: value.to(device) for name, value in values if isinstance(value, Tensor)}
        return replace(self, **tensors, rules=tuple(rule.to(device) for rule in self.rules))

    def tile(self, rows: slice) -> TileRelevance:
        """Relevance of the queries `rows`."""
        # The runs of the queries side by side, [queries, longest run]; the places behind a run are padding.
        start, length = self.run_start[rows, None], self.run_length[rows, None]
        place = torch.arange(int(self._lengths[rows].max()), device=start.device)
        listed = place < length
        entries = (start + place).clamp_(max=len(self.order) - 1)
        columns = self.order[entries]
        dropped = self._dropped_at(rows, columns)
        marks = [*dropped, *self._junk_at(rows, entries, columns)]
        junk = reduce(operator.or_, marks) & listed if marks else torch.zeros_like(listed)
        # Items that rules drop are counted over the whole gallery, other junk is always listed.
        others = junk & ~reduce(operator.or_, dropped) if dropped else junk
        num_candidates = self.num_kept - self._num_dropped(rows) - others.sum(1)
        return TileRelevance(columns, listed, listed & ~junk, num_candidates)

    def dropped(self, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"] | None:
        """Mark the pairs that are dropped, listed or not; None if no rule does that."""
        masks = [rule.between(rows, columns) for rule in self.rules if rule.drops_others]
        if self.junk_pairs is not None:
            masks.append(self._call_junk_pairs(rows, columns))
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
        absent = ~self.is_junk & (num_others == 0)
        lost = ~self.is_junk & (num_others > 0) & (num_positives == 0)
        numbers = (num_positives > 0, self.is_junk, absent, lost)
        return QueryCounts(self.num_queries, *(int(number.sum()) for number in numbers))

    @cached_property
    def _lengths(self) -> Int[Tensor, " queries"]:
        """`run_length` on the CPU, so that a device is waited for once and not for every tile."""
        return self.run_length.cpu()

    def _junk_at(self, rows: slice, entries: Tensor, columns: Tensor) -> list[Tensor]:
        """Marks of the listed items that are junk, but not dropped by a rule for all items."""
        marks = [rule.at(rows, columns) for rule in self.rules if not rule.drops_others]
        if self.listed_junk is not None:
            marks.append(self.listed_junk[entries])
        if self.own_column is not None:
            marks.append(columns == self.own_column[rows, None])
        return marks

    def _dropped_at(self, rows: slice, columns: Tensor) -> list[Tensor]:
        """The marks of `dropped` at each query's own `columns`, rule by rule."""
        marks = [rule.at(rows, columns) for rule in self.rules if rule.drops_others]
        if self.junk_pairs is not None:
            marks.append(torch.cat([mask.gather(1, columns[part]) for part, mask in self._masks(rows)]))
        return marks

    def _num_dropped(self, rows: slice) -> Int[Tensor, " queries"] | int:
        """Number of items that `dropped` marks for each query."""
        counted = [rule.num_same for rule in self.rules if rule.num_same is not None]
        if self.junk_pairs is None and len(counted) < 2:
            return counted[0][rows] if counted else 0
        return torch.cat([mask.sum(1) for _, mask in self._masks(rows)])

    def _masks(self, rows: slice) -> Iterator[tuple[slice, Tensor]]:
        """`dropped` for the whole gallery, a few queries at a time; these are counted from the first of `rows`."""
        for part in segments.ranges(rows.stop - rows.start, max(1, _PAIRS_AT_A_TIME // max(1, self.num_kept))):
            some = slice(rows.start + part.start, rows.start + part.stop)
            mask = self.dropped(some, slice(0, self.num_kept))
            assert mask is not None  # noqa: S101 - for the type checker
            yield part, mask

    def _call_junk_pairs(self, rows: slice, columns: slice) -> Tensor:
        queries = torch.arange(rows.start, rows.stop, device=self.device)
        gallery = torch.arange(columns.start, columns.stop, device=self.device)
        assert self.junk_pairs is not None  # noqa: S101 - for the type checker
        mask = self.junk_pairs(queries, gallery if self.kept is None else self.kept[gallery])
        _checks.boolean_tensor("junk_pairs", mask, "return a bool tensor")
        if mask.shape != (len(queries), len(gallery)) or mask.device != self.device:
            raise ValueError(
                f"`junk_pairs` must return a mask {[len(queries), len(gallery)]} on {self.device}; got"
                f" {list(mask.shape)} on {mask.device}."
            )
        return mask.clone()  # masks are combined in place
