"""Turn what a search engine returns into lists of items, without the padding at their ends.

ids         [[7, 4, 0, 0]]          the engine found two items, and fills the list by the item 0
distances   [[.1, .3, nan, nan]]    so that the list ends after two entries
lists       [[7, 4, -1, -1]]
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.displays import Display, Displayed, counted

from .labeled_lists import mark_repeated
from .list_forms import ItemReader, Lists, as_list, check_kinds, in_matrix, read_entries, read_names, read_rows

Direction: TypeAlias = Literal["rising", "falling", "unknown"]
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)  # which faiss and SVS write beside padding
_NEAREST = {"rising": ", so that the smallest is nearest", "falling": ", so that the largest is nearest", "unknown": ""}


@dataclass(frozen=True, eq=False, repr=False)
class IndexLists(Displayed):
    """Lists of a search engine, which `evaluate_lists` and `index_recall` take; see `index_lists`."""

    lists: Int[Tensor, "queries longest"] | list[list[Any]] | dict[Any, list[Any]]
    """a matrix of int64 with -1 behind each list, lists, or lists by query"""
    direction: Direction
    """order of the distances along the lists"""
    num_padding: int
    """entries at the ends of lists that hold nothing, or repeat an item"""

    def _display(self) -> Display:
        text = f"IndexLists: {counted(len(self.lists), 'list')}; distances are {self.direction}"
        text += _NEAREST[self.direction]
        if self.num_padding:
            text += f"; entries of padding: {self.num_padding:,}"
        return Display(text)


def as_lists(retrieved: Lists | IndexLists) -> Any:
    """Return the lists of a search engine, or other lists as they are; a matrix moves to its compute device."""
    if isinstance(retrieved, IndexLists):
        retrieved = retrieved.lists
    return _arrays.to_compute_device(retrieved)


@torch.no_grad()
def index_lists(
    ids: Lists,
    distances: Lists | None = None,
    counts: Shaped[Tensor, " queries"] | _checks.Integers | None = None,
    queries: Shaped[Tensor, " rows"] | _arrays.TableColumn | Collection[Any] | None = None,
) -> IndexLists:
    """Turn what a search engine returns into lists for `evaluate_lists` and `index_recall`.

    A list ends where the engine says that it found nothing more. Entries at its end are padding if their id is -1 or
    2**64 - 1, if their distance is NaN, infinite or the largest float32, if they are behind the count of the list, or
    if they repeat an item of the list. The order of the engine is kept: distances only check that all lists are sorted,
    and all in the same direction, which the result tells.

    Args:
        ids: for every query the ids of its items, best first: a matrix, or lists of any lengths, which may be columns
            of tables. Ids are integers of any width, strings, UUIDs, which become strings, or hits, which are objects
            with an `id`. With `queries`, the column of ids in a table with one row per query and item.
        distances: distances or similarities of the entries, in the same form.
        counts: numbers of entries in the lists.
        queries: the query of each row of a table, ints or strings. The rows of a query are in the order of its list.

    Returns:
        The lists; a matrix stays one, and with `queries` the lists are by query, in the order in which these occur.

    Raises:
        TypeError: ids that are neither all ints nor all strings, or another type.
        ValueError: other shapes, counts that do not fit, distances that rise and fall, or that are NaN or infinite
            before a finite one of the same list.

    Example:
        >>> from reid_torchmetrics import index_lists
        >>> lists = index_lists([[7, 4, 0, 0], [2, 5, 1, 0]], [[0.1, 0.3, float("inf"), float("inf")], [0, 1, 1, 2]])
        >>> lists
        IndexLists: 2 lists; distances are rising, so that the smallest is nearest; entries of padding: 2
        >>> lists.lists
        [[7, 4], [2, 5, 1, 0]]
    """
    if queries is not None:
        if counts is not None:
            raise ValueError("`counts` must come without `queries`, which tell the lengths of lists; got both.")
        return _lists_of_table(ids, distances, queries)
    rows = read_rows("ids", ids)
    if not isinstance(rows, Tensor):
        check_kinds(rows, (list, tuple), "`ids` must hold lists, which have an order")
    reader = ItemReader()
    lengths, items_in_a_row = reader.read("ids", rows)
    items = in_matrix(items_in_a_row, lengths, -1)
    values = None
    if distances is not None:
        rule = "have an entry for each id"
        entries = read_entries("distances", "entries", distances, lengths, beside="ids", rule=rule)
        values = in_matrix(entries.to(items.device), lengths, torch.nan)

    is_kept = _before_padding(items, values, counts, lengths)
    direction: Direction = "unknown"
    if values is not None:
        direction = _find_direction(values, items, is_kept)
    num_kept = is_kept.sum(1)
    num_padding = int((lengths - num_kept).sum())
    if isinstance(rows, Tensor):
        return IndexLists(items.where(is_kept, -1), direction, num_padding)
    names = reader.all_names()
    lists = [row[:length] for row, length in zip(items.tolist(), num_kept.tolist(), strict=True)]
    if names:
        lists = [[names[item] for item in row] for row in lists]
    return IndexLists(lists, direction, num_padding)


def _lists_of_table(ids: Any, distances: Any, queries: Any) -> IndexLists:
    """Return the lists in a table with one row per query and item, by query."""
    number_of: dict[Any, int] = {}
    numbers = [number_of.setdefault(query, len(number_of)) for query in read_names("queries", queries)]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    lengths = np.bincount(numbers, minlength=len(number_of)).tolist()
    rows = _cut_column("ids", ids, order, lengths)
    lists = index_lists(rows, None if distances is None else _cut_column("distances", distances, order, lengths))
    return replace(lists, lists=dict(zip(number_of, lists.lists, strict=True)))


def _cut_column(argument: str, values: Any, order: list[int], lengths: list[int]) -> list[list[Any]]:
    """Return a column of a table as lists, given the order of its rows and the lengths of the lists."""
    column = as_list(values)
    if not isinstance(column, (list, tuple)):
        raise TypeError(f"`{argument}` must be a column of a table, as `queries` is; got {type(values).__name__}.")
    _checks.length(argument, len(column), len(order))
    ordered = (column[place] for place in order)
    return [list(islice(ordered, length)) for length in lengths]


def _before_padding(
    items: Int[Tensor, "queries longest"],
    values: Float[Tensor, "queries longest"] | None,
    counts: Any,
    lengths: Int[Tensor, " queries"],
) -> Bool[Tensor, "queries longest"]:
    """Return a mask of the entries before the padding at the end of each list; raise for counts that do not fit."""
    place = torch.arange(items.shape[1], device=items.device)
    is_padding = (items < 0) | mark_repeated(items)
    if values is not None:
        is_padding |= ~_are_numbers(values)
    if counts is not None:
        (counts,) = _arrays.as_tensors(counts, device=lengths.device)
        counts = _checks.integer_labels("counts", counts, len(lengths)).long()
        is_wrong = (counts < 0) | (counts > lengths)
        if bool(is_wrong.any()):
            query = int(is_wrong.byte().argmax())
            got = f"{int(counts[query])} for {int(lengths[query])} entries of list {query}"
            raise ValueError(f"`counts` must lie between 0 and the lengths of the lists; got {got}.")
        is_padding |= place >= counts[:, None]
    last = place.where(~is_padding, -1).amax(1, keepdim=True)
    return place <= last


def _are_numbers(distances: Float[Tensor, "queries longest"]) -> Bool[Tensor, "queries longest"]:
    return distances.abs() < _LARGEST_FLOAT32  # NaN is not


def _find_direction(
    values: Float[Tensor, "queries longest"],
    items: Int[Tensor, "queries longest"],
    is_kept: Bool[Tensor, "queries longest"],
) -> Direction:
    """Return the direction of the distances along all lists; raise if some rise and some fall, or are no numbers."""
    values = values.where(items >= 0, torch.nan)
    is_wrong = is_kept & (items >= 0) & ~_are_numbers(values)
    if bool(is_wrong.any()):
        query, place = is_wrong.nonzero()[0].tolist()
        got = f"{float(values[query, place])} at place {place} of list {query}, and a number behind it"
        raise ValueError(f"`distances` must be finite before the end of a list, or be left out; got {got}.")
    steps = values.diff(dim=1).where(is_kept[:, 1:], 0)
    rises, falls = steps > 0, steps < 0
    num_rising, num_falling = int(rises.sum()), int(falls.sum())
    if not num_rising or not num_falling:
        return "rising" if num_rising else "falling" if num_falling else "unknown"
    query, place = (falls if num_falling <= num_rising else rises).nonzero()[0].tolist()
    got = (
        f"{counted(num_rising, 'step')} up and {num_falling:,} down, such as from {float(values[query, place]):.7g} to"
        f" {float(values[query, place + 1]):.7g} in list {query}"
    )
    raise ValueError(f"`distances` must be sorted along all lists, in one direction, or be left out; got {got}.")
