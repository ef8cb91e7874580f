"""Ranked lists that are judged by labels, as `evaluate` judges a whole gallery.

Items are positions in the gallery, or names where the labels of the gallery are mappings of names:

    retrieved            {"q": ["c.jpg", "a.jpg"]}
    query_identities     {"q": 7}
    gallery_identities   {"a.jpg": 7, "b.jpg": 8, "c.jpg": 8}     so that items are at the positions 2 and 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, SIDES, Relevance, argument_of

from .list_forms import ItemReader, ListQueries, Lists, Truth, find_queries, read_retrieved

_PAIRS_AT_A_TIME = 1 << 20  # pairs of a query and an item with a label of the query

Entries = Int[Tensor, "queries longest"]


@dataclass(frozen=True)
class ListCounts:
    """What happened to lists that were judged."""

    num_short: int = 0
    """lists that have fewer items left than `cutoff`, though their query has more candidates"""
    cutoff: int | None = None
    """the largest cutoff of the reported numbers; None where lists are not judged by labels"""
    num_repeated: int = 0
    """entries with an item that its list has before; they keep their places and score nothing"""

    def __str__(self) -> str:
        """In words; "" where there is nothing to say."""
        words = []
        if self.num_short:
            words.append(f"{self.num_short} lists have fewer than {self.cutoff} items left once junk is removed")
        if self.num_repeated:
            words.append(f"{self.num_repeated} items are repeated in a list and count once")
        return "; ".join(words)


class LabeledLists(NamedTuple):
    """Lists as positions in the gallery, and the labels of both sides as arrays."""

    items: Entries
    queries: ListQueries
    labels: dict[str, Any]


def read_labeled_lists(
    retrieved: Lists, labels: Mapping[str, Any], reader: ItemReader, missing_queries: str, unknown_queries: str
) -> LabeledLists:
    """Read lists of items and queries that have labels.

    Args:
        retrieved: the lists, as `evaluate_lists` takes them.
        labels: by name, such as `query_identities`; arrays, or mappings of names where lists have these.
        reader: reads the items.
        missing_queries: see `evaluate_lists`.
        unknown_queries: see `evaluate_lists`.

    Raises:
        TypeError: names beside arrays, or mappings beside arrays.
        ValueError: mappings with other keys, items or queries that have no label, or another number of lists.
    """
    given = _with_extra_labels_apart({name: value for name, value in labels.items() if value is not None})
    of_queries = _mappings({name: value for name, value in given.items() if name.startswith("query_")})
    of_gallery = _mappings({name: value for name, value in given.items() if name.startswith("gallery_")})
    queries = ListQueries()
    if of_queries or isinstance(retrieved, Mapping):
        queries, retrieved = _find_queries(retrieved, of_queries, given, missing_queries, unknown_queries)
        for name, values in of_queries.items():
            given[name] = [values[key] for key in queries.keys or ()]
    names: list[Any] | None = None
    if of_gallery:
        names = [*_first(of_gallery)]
        for name, values in of_gallery.items():
            given[name] = [values[item] for item in names]
    num_queries = len(given[_first({name: name for name in given if name.startswith("query_")})])
    num_gallery = len(given[_first({name: name for name in given if name.startswith("gallery_")})])
    items = _read_items(retrieved, names, reader, queries, num_queries, num_gallery)
    return LabeledLists(items, queries, _with_extra_labels_together(given, labels))


def _with_extra_labels_apart(labels: Mapping[str, Any]) -> dict[str, Any]:
    """The labels by argument, with each label that users name by itself, as they may be mappings of names."""
    apart: dict[str, Any] = {}
    for argument, values in labels.items():
        if argument.endswith(f"_{EXTRA}") and isinstance(values, Mapping):
            apart.update({argument_of(argument, name): value for name, value in values.items() if value is not None})
        else:
            apart[argument] = values
    return apart


def _with_extra_labels_together(apart: dict[str, Any], labels: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_with_extra_labels_apart`, given its argument `labels`."""
    together = dict(apart)
    for argument in (f"{side}_{EXTRA}" for side in SIDES):
        names = labels.get(argument)
        if isinstance(names, Mapping):
            together[argument] = {name: together.pop(argument_of(argument, name), None) for name in names}
    return together


def _first(values: Mapping[str, Any]) -> Any:
    """The first value of a mapping that has one."""
    first, *_ = values.values()
    return first


def _mappings(given: Mapping[str, Any]) -> dict[str, Mapping[Any, Any]]:
    """The labels of a side where they are mappings; raise unless all are, with the same keys, or none is."""
    mappings = {name: value for name, value in given.items() if isinstance(value, Mapping)}
    if not mappings:
        return {}
    (first_name, first), *_ = mappings.items()
    for name, value in given.items():
        if name not in mappings:
            raise TypeError(f"`{name}` must be a mapping of names, as `{first_name}` is; got {type(value).__name__}.")
        lacking = [key for key in first if key not in value] or [key for key in value if key not in first]
        if lacking:
            raise ValueError(f"`{name}` must have the keys of `{first_name}`; got a difference in {lacking[0]!r}.")
    return mappings


def _find_queries(
    retrieved: Lists,
    of_queries: Mapping[str, Mapping[Any, Any]],
    given: Mapping[str, Any],
    missing_queries: str,
    unknown_queries: str,
) -> tuple[ListQueries, Lists]:
    if not of_queries or not isinstance(retrieved, Mapping):
        names = [name for name in given if name.startswith("query_")]
        came = "a mapping of lists" if isinstance(retrieved, Mapping) else f"{type(retrieved).__name__} of lists"
        kind = type(given[names[0]]).__name__
        raise TypeError(
            f"`retrieved` and `{names[0]}` must both be mappings of queries, or neither; got {came} and {kind}."
        )
    (argument, labels), *_ = of_queries.items()
    queries = find_queries(retrieved, labels, missing_queries, unknown_queries, argument=argument)
    return queries, [retrieved.get(key, ()) for key in queries.keys or ()]


def _read_items(
    retrieved: Lists,
    names: Sequence[Any] | None,
    reader: ItemReader,
    queries: ListQueries,
    num_queries: int,
    num_gallery: int,
) -> Entries:
    """Lists as positions in the gallery."""
    if names is not None and all(isinstance(name, str) for name in names):
        reader.know(names)
        items = read_retrieved(retrieved, reader, num_queries)
        _check_known(items, num_gallery, queries, items, reader.name_of_unknown)
        return items
    items = read_retrieved(retrieved, reader, num_queries)
    if reader.all_names():
        raise TypeError(
            "`retrieved` must hold positions in the gallery, as ints, where labels of the gallery are arrays; got"
            f" {reader.all_names()[0]!r}. Give names with labels that are mappings, such as"
            f" `gallery_identities={{{reader.all_names()[0]!r}: 7, ...}}`."
        )
    if names is None:
        _checks.in_range("retrieved", items.flatten(), -1, num_gallery)
        return items
    if not all(isinstance(name, int) and not isinstance(name, bool) for name in names):
        raise TypeError("Labels of the gallery that are mappings must have keys that are all ints, or all strings.")
    numbers, order = torch.tensor(names, dtype=torch.int64, device=items.device).sort()
    place = torch.searchsorted(numbers, items).clamp_(max=len(numbers) - 1)
    positions = order[place].masked_fill(numbers[place] != items, num_gallery).masked_fill(items < 0, -1)
    _check_known(positions, num_gallery, queries, items, int)
    return positions


def _check_known(
    positions: Entries, num_gallery: int, queries: ListQueries, items: Entries, name_of: Callable[[int], object]
) -> None:
    """Raise unless all items have a position in the gallery; `name_of` returns an item as it was given."""
    unknown = (positions >= num_gallery).nonzero()
    if len(unknown):
        query, column = unknown[0].tolist()
        got = f"{name_of(int(items[query, column]))!r} for query {queries.name(query)}"
        raise ValueError(f"`retrieved` must hold items that the labels of the gallery have; got {got}.")


def judge(items: Entries, relevance: Relevance) -> tuple[Entries, Truth, Int[Tensor, " queries"]]:
    """The lists without junk, the pairs of a query and an item with a label of it, and the numbers of candidates.

    Of the pairs all that are no positives are junk.
    """
    kept, num_gallery = relevance.kept, relevance.num_gallery
    columns = items
    if kept is not None:
        # Positions of the whole gallery as those of the kept items; the last entry is for -1, which stays.
        column_of = torch.full((num_gallery + 1,), -1, dtype=torch.int64, device=items.device)
        column_of[kept] = torch.arange(len(kept), device=items.device)
        columns = column_of[items]
    is_gone = (items >= 0) & (columns < 0)
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    grades = [torch.empty(0, dtype=torch.float64, device=items.device)]
    num_candidates = torch.zeros(len(items), dtype=torch.int64, device=items.device)
    length = max(1, _PAIRS_AT_A_TIME // max(1, relevance.longest_run, items.shape[1]))
    for rows in segments.ranges(len(items), length):
        tile = relevance.tile(rows)
        num_candidates[rows] = tile.num_candidates
        if relevance.num_kept:
            dropped = relevance.dropped_at(rows, columns[rows].clamp(min=0))
            if dropped is not None:
                is_gone[rows] |= dropped & (columns[rows] >= 0)
        row, place = tile.listed.nonzero(as_tuple=True)
        pairs.append((row + rows.start, tile.columns[row, place], ~tile.positive[row, place]))
        if tile.grades is not None:
            grades.append(tile.grades[row, place].double())
    none = items.new_empty(0)
    parts = [(none, none, none.bool()), *pairs]
    query, column, is_junk = (torch.cat(part) for part in zip(*parts, strict=True))
    item = column if kept is None else kept[column]
    (left,) = without(is_gone, items)
    grade = None if relevance.shared is None else torch.cat(grades)
    return left, Truth(query, item, is_junk, grade), num_candidates


def without(junk: Bool[Tensor, "queries longest"], *entries: Entries) -> list[Entries]:
    """Numbers of the entries that are no junk, moved together."""
    if not bool(junk.any()):
        return [*entries]
    order = junk.byte().argsort(dim=1, stable=True)
    is_gone = junk.gather(1, order)
    return [each.gather(1, order).masked_fill(is_gone, -1) for each in entries]


def count_repeated(items: Entries) -> int:
    """The number of entries with an item that its list has before."""
    if items.shape[1] < 2:
        return 0
    narrow = items.int() if items.numel() and int(items.max()) <= torch.iinfo(torch.int32).max else items
    if narrow.device.type == "cpu":  # NumPy sorts several times as fast
        ordered = torch.from_numpy(narrow.numpy().copy())
        ordered.numpy().sort(axis=1)
    else:
        ordered = narrow.sort(dim=1).values
    return int(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).sum())
