"""Judge ranked lists by labels, as `evaluate` judges a whole gallery, and rank the positives in lists.

Items are positions in the gallery, or names where the labels of the gallery are mappings of names:

    retrieved            {"q": ["c.jpg", "a.jpg"]}
    query_identities     {"q": 7}
    gallery_identities   {"a.jpg": 7, "b.jpg": 8, "c.jpg": 8}     so that items are at the positions 2 and 0

The key query * span + item, where all items are below the span, finds a pair of the truth in a matrix of lists:

    lists  [[7, 4, 7]]     pairs of query 0 in the truth     (0, 4), (0, 7), numbered 0 and 1
                           pair at each entry                [[1, 0, 1]]
                           first column of each pair         1, 0     so their ranks are 2 and 1
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, ranks_of_hits
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, Relevance, argument_of

from .list_forms import ItemReader, ListQueries, Lists, Truth, find_queries, read_names, read_retrieved

_PAIRS_AT_A_TIME = 1 << 20  # of a query and an item with a label of the query

Entries: TypeAlias = Int[Tensor, "queries longest"]
"""A number for each entry of the lists"""
_ENTRIES_AT_A_TIME = 1 << 18  # of lists, looked up in one step, so that its tensors stay in the cache of a CPU


def read_labeled_lists(
    retrieved: Lists, labels: Mapping[str, Any], reader: ItemReader, missing_queries: str, unknown_queries: str
) -> tuple[Entries, ListQueries, dict[str, Any]]:
    """Return the lists as positions in the gallery, their queries, and the labels of both sides as arrays.

    Args:
        retrieved: the lists, as in `evaluate_lists`.
        labels: by name, such as `query_identities`; arrays, or mappings of names where lists have these.
        reader: reads the items.
        missing_queries: see `evaluate_lists`.
        unknown_queries: see `evaluate_lists`.

    Raises:
        TypeError: names beside arrays, or mappings beside arrays.
        ValueError: mappings with other keys, items or queries that have no label, or another number of lists.
    """
    query_labels = _labels_of_side(labels, "query")
    gallery_labels = _labels_of_side(labels, "gallery")
    queries = ListQueries()
    if _are_mappings(query_labels) or isinstance(retrieved, Mapping):
        (argument, first_labels), *_ = query_labels.items()
        if not isinstance(first_labels, Mapping) or not isinstance(retrieved, Mapping):
            lists = "a mapping of lists" if isinstance(retrieved, Mapping) else f"{type(retrieved).__name__} of lists"
            got = f"{lists} and {type(first_labels).__name__}"
            raise TypeError(f"`retrieved` and `{argument}` must both be mappings of queries, or neither; got {got}.")
        queries = find_queries(retrieved, first_labels, missing_queries, unknown_queries, argument=argument)
        retrieved = [retrieved.get(key, ()) for key in queries.keys or ()]
    item_names = list(_first(gallery_labels)) if _are_mappings(gallery_labels) else None

    # Mappings become lists, in the order of the queries and of the names of items.
    arrays: dict[str, Any] = {}
    for argument, values in labels.items():
        keys = queries.keys if argument.startswith("query_") else item_names
        if _holds_extra_labels(argument, values):
            arrays[argument] = {name: _in_order(value, keys) for name, value in values.items()}
        elif values is not None:
            arrays[argument] = _in_order(values, keys)
    names = None
    if item_names is not None:
        first_argument, *_ = gallery_labels
        names = read_names(first_argument, item_names)
    num_queries = len(_first(_labels_of_side(arrays, "query")))
    num_gallery = len(_first(_labels_of_side(arrays, "gallery")))
    items = read_items(retrieved, names, reader, queries, num_queries, num_gallery)
    return items, queries, arrays


def _labels_of_side(labels: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Return the labels of a side by argument, each extra label by itself, as it may be a mapping of names."""
    by_argument: dict[str, Any] = {}
    for argument, values in labels.items():
        if not argument.startswith(side):
            continue
        if _holds_extra_labels(argument, values):
            by_argument.update((argument_of(argument, name), value) for name, value in values.items())
        else:
            by_argument[argument] = values
    return {argument: values for argument, values in by_argument.items() if values is not None}


def _holds_extra_labels(argument: str, values: object) -> bool:
    return argument.endswith(f"_{EXTRA}") and isinstance(values, Mapping)


def _in_order(values: Any, keys: Collection[Any] | None) -> Any:
    """Return the values of a mapping of names in the order of its keys; other values as they are."""
    return values if values is None or keys is None else [values[key] for key in keys]


def _first(values: Mapping[str, Any]) -> Any:
    """Return the first value of a mapping."""
    first, *_ = values.values()
    return first


def _are_mappings(labels: Mapping[str, Any]) -> bool:
    """Return whether the labels of a side are mappings; raise unless all are, with the same keys, or none is."""
    mappings = {name: value for name, value in labels.items() if isinstance(value, Mapping)}
    if not mappings:
        return False
    (first_name, first), *_ = mappings.items()
    for name, value in labels.items():
        if name not in mappings:
            raise TypeError(f"`{name}` must be a mapping of names, as `{first_name}` is; got {type(value).__name__}.")
        if value.keys() != first.keys():
            missing = [key for key in first if key not in value] or [key for key in value if key not in first]
            raise ValueError(f"`{name}` must have the keys of `{first_name}`; got a difference in {missing[0]!r}.")
    return True


def read_items(
    retrieved: Lists,
    names: Sequence[Any] | None,
    reader: ItemReader,
    queries: ListQueries,
    num_queries: int,
    num_gallery: int,
) -> Entries:
    """Return lists as positions in the gallery; `names` are those of the gallery items, None if they have none.

    Names are all ints or all strings, as `read_names` returns them.
    """
    if names and all(isinstance(name, str) for name in names):
        reader.number_gallery(names)
        items = read_retrieved(retrieved, reader, num_queries)
        _check_known(items, num_gallery, queries, items, reader.name_of_unknown)
        return items
    items = read_retrieved(retrieved, reader, num_queries)
    names_in_lists = reader.all_names()
    if names is not None and not names:  # the items of no gallery are ints or strings
        _check_known(items, 0, queries, items, names_in_lists.__getitem__ if names_in_lists else int)
    if names_in_lists and names is not None:
        raise TypeError(f"`retrieved` must hold ints, as the names of the gallery are; got {names_in_lists[0]!r}.")
    if names_in_lists:
        raise TypeError(
            "`retrieved` must hold positions in the gallery, as ints, where labels of the gallery are arrays; got"
            f" {names_in_lists[0]!r}. Give names with labels that are mappings, such as"
            f" `gallery_identities={{{names_in_lists[0]!r}: 7, ...}}`."
        )
    if names is None:
        _checks.in_range("retrieved", items.flatten(), -1, num_gallery)
        return items
    numbers, order = torch.tensor(names, dtype=torch.int64, device=items.device).sort()
    place = torch.searchsorted(numbers, items)
    # An item behind all numbers has the place of the padding.
    numbers, order = functional.pad(numbers, (0, 1)), functional.pad(order, (0, 1), value=num_gallery)
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
    """Judge lists by relevance.

    Returns:
        The lists without junk; the pairs of a query and an item with a label of it, positives and junk; and the numbers
        of candidates.
    """
    columns = items
    if relevance.kept is not None:
        # Positions in the gallery become positions among the kept items; the last entry is for -1, which stays.
        column_of = torch.full((relevance.num_gallery + 1,), -1, dtype=torch.int64, device=items.device)
        column_of[relevance.kept] = torch.arange(len(relevance.kept), device=items.device)
        columns = column_of[items]
    is_gone = (items >= 0) & (columns < 0)
    num_candidates = torch.zeros(len(items), dtype=torch.int64, device=items.device)
    no_number = items.new_empty(0)
    query, column, is_junk = [no_number], [no_number], [no_number.bool()]
    grades = [no_number.double()]
    length = max(1, _PAIRS_AT_A_TIME // max(1, relevance.longest_run, items.shape[1]))
    for rows in segments.ranges(len(items), length):
        tile = relevance.tile(rows)
        num_candidates[rows] = tile.num_candidates
        if relevance.num_kept:
            dropped = relevance.dropped_at(rows, columns[rows].clamp(min=0))
            if dropped is not None:
                is_gone[rows] |= dropped & (columns[rows] >= 0)
        row, place = tile.listed.nonzero(as_tuple=True)
        query.append(row + rows.start)
        column.append(tile.columns[row, place])
        is_junk.append(~tile.positive[row, place])
        if tile.grades is not None:
            grades.append(tile.grades[row, place].double())

    item = torch.cat(column)
    if relevance.kept is not None:
        item = relevance.kept[item]
    grade = None if relevance.shared is None else torch.cat(grades)
    (items_left,) = without(is_gone, items)
    return items_left, Truth(torch.cat(query), item, torch.cat(is_junk), grade), num_candidates


def without(junk: Bool[Tensor, "queries longest"], *entries: Entries) -> list[Entries]:
    """Remove the junk from matrices of entries; all other entries move to the front, with -1 behind them."""
    if not bool(junk.any()):
        return list(entries)
    order = junk.byte().argsort(dim=1, stable=True)
    is_gone = junk.gather(1, order)
    return [values.gather(1, order).masked_fill(is_gone, -1) for values in entries]


def count_repeated(items: Entries) -> int:
    """Count the entries with an item that its list has before."""
    if items.shape[1] < 2:
        return 0
    if items.numel() and int(items.max()) <= torch.iinfo(torch.int32).max:
        items = items.int()
    if items.device.type == "cpu":  # NumPy sorts several times as fast
        ordered = torch.from_numpy(items.numpy().copy())
        ordered.numpy().sort(axis=1)
    else:
        ordered = items.sort(dim=1).values
    is_repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return int(is_repeated.sum())


def mark_repeated(items: Entries) -> Bool[Tensor, "queries longest"]:
    """Return a mask of the entries with an item that their list has before; -1 counts as an item."""
    sorted_items, column = items.sort(dim=1, stable=True)
    equals_previous = torch.zeros_like(items, dtype=torch.bool)
    equals_previous[:, 1:] = sorted_items[:, 1:] == sorted_items[:, :-1]
    return torch.zeros_like(equals_previous).scatter_(1, column, equals_previous)


@dataclass(frozen=True)
class ListedSamples:
    """The ranked lists and the positives that results were computed from."""

    items: Entries
    """the lists without junk"""
    hits: Bool[Tensor, "queries longest"]
    """mask of the entries that are positives"""
    truth: Truth
    reader: ItemReader
    """knows the names of items, and the order in which scores were given"""


def find_pairs_without_junk(
    items: Entries, truth: Truth, queries: ListQueries, reader: ItemReader
) -> tuple[Entries, Entries]:
    """Return the lists without the junk of the truth, and for every entry its pair of the truth, -1 for none."""
    pairs = torch.full_like(items, -1)
    if not len(truth.item):
        return items, pairs
    # The key of a pair fits int64 unless items are huge numbers: then they are numbered.
    item, numbers = truth.item, items
    span = int(item.max()) + 1
    if span * len(items) >= 1 << 62:
        distinct, item = item.unique(return_inverse=True)
        span = len(distinct)
        place = torch.searchsorted(distinct, items).clamp_(max=span - 1)
        numbers = place.masked_fill(distinct[place] != items, -1)
    keys, order = (truth.query * span + item).sort()
    is_repeated = keys[1:] == keys[:-1]
    if bool(is_repeated.any()):
        pair = order[int(is_repeated.nonzero()[0, 0])]
        got = f"item {reader.name(int(truth.item[pair]))} twice for query {queries.name(int(truth.query[pair]))}"
        raise ValueError(f"`positives` must list an item once for a query; got {got}.")

    # Look up the keys of the entries among those of the truth.
    for rows in segments.ranges(len(items), max(1, _ENTRIES_AT_A_TIME // items.shape[1])):
        block = numbers[rows]
        first_key = span * torch.arange(rows.start, rows.stop, device=items.device)[:, None]
        entry_keys = (block + first_key).masked_fill_((block < 0) | (block >= span), -1)
        place = torch.searchsorted(keys, entry_keys).clamp_(max=len(keys) - 1)
        pairs[rows] = order[place].masked_fill_(keys[place] != entry_keys, -1)
    if bool(truth.is_junk.any()):
        is_junk = (pairs >= 0) & truth.is_junk[pairs.clamp(min=0)]
        items, pairs = without(is_junk, items, pairs)
    return items, pairs


def rank_lists(
    items: Entries, pairs: Entries, truth: Truth, num_positives: Tensor, *, all_are_judged: bool = False
) -> tuple[PositiveRanks, Bool[Tensor, "queries longest"]]:
    """Return the ranks of positives, and a mask of their entries in the lists.

    Args:
        items: the lists.
        pairs: for every entry its pair of the truth, -1 for none.
        truth: the pairs.
        num_positives: of each query, retrieved or not.
        all_are_judged: whether all items are judged, as by labels; else items without a grade are not.
    """
    # The first column of each pair in its list; the width of the matrix if the list lacks it.
    longest = items.shape[1]
    query, column = (pairs >= 0).nonzero(as_tuple=True)
    first_column = torch.full_like(truth.item, longest)
    first_column.scatter_reduce_(0, pairs[query, column], column, "amin")

    is_positive = _mark_first_entries(items, truth, first_column, truth.is_right)
    lengths = ((items >= 0) * torch.arange(1, longest + 1, device=items.device)).amax(1)
    judgments = None
    if truth.grade is not None:
        # The grades of the positives in the order of ranks: by query, then by first column.
        positives = truth.is_right.nonzero()[:, 0]
        order = (truth.query[positives] * (longest + 1) + first_column[positives]).argsort(stable=True)
        positives = positives[order]
        judgments = Judgments(truth.grade[positives])
        if not all_are_judged:
            is_negative = ~truth.is_junk & (truth.grade == 0)
            num_before = _mark_first_entries(items, truth, first_column, is_negative).cumsum(1)
            num_before = num_before[truth.query[positives], first_column[positives].clamp(max=longest - 1)]
            num_negatives = torch.bincount(truth.query[is_negative], minlength=len(items))
            judgments = Judgments(truth.grade[positives], num_before, num_negatives)
    rank = is_positive.nonzero()[:, 1] + 1
    return ranks_of_hits(rank, is_positive.sum(1), num_positives, lengths, judgments), is_positive


def _mark_first_entries(
    items: Entries, truth: Truth, first_column: Int[Tensor, " listed"], is_marked: Bool[Tensor, " listed"]
) -> Bool[Tensor, "queries longest"]:
    """Return a mask of the entries of the lists that are the first ones of marked pairs."""
    pairs = is_marked & (first_column < items.shape[1])
    marks = torch.zeros_like(items, dtype=torch.bool)
    marks[truth.query[pairs], first_column[pairs]] = True
    return marks


def count_positives(truth: Truth, queries: ListQueries, num_queries: int, declared: Any) -> Int[Tensor, " queries"]:
    """Return the numbers of listed positives, or declared numbers, at least as many."""
    num_listed = truth.query[truth.is_right].bincount(minlength=num_queries)
    declared = queries.values_of("num_positives", declared)
    if declared is None:
        return num_listed
    if truth.grade is not None:
        raise ValueError("`num_positives` must come with positives that have no grades; got grades.")
    if isinstance(declared, int):
        _checks.positive_int("num_positives", declared, least=0)
        declared = torch.full_like(num_listed, declared)
    counts = _checks.integer_labels("num_positives", declared, len(num_listed)).long().to(num_listed.device)
    too_low = (counts < num_listed).nonzero()[:, 0]
    if len(too_low):
        query = int(too_low[0])
        got = f"{int(counts[query])} for query {queries.name(query)}, which has {int(num_listed[query])}"
        raise ValueError(f"`num_positives` must count the positives that are listed, too; got {got}.")
    return counts
