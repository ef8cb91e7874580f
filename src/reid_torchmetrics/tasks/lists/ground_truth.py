"""Lists of positives and junk of every query, by position, or by the numbers of samples in their data set.

The lists of `evaluate` hold positions. A metric identifies samples by `index`, and each process holds some of them: it
selects the lists of the queries by number, and keeps the items of its own part of the gallery.

    lists            {7: {"ok": [40, 41], "junk": [2]}}     query 7: numbers of gallery items
    gallery here     index 2 41 5                           on this process; 40 is on another
    lists here       {"ok": [1], "junk": [0]}               query 7: positions on this process
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.retrieval.evaluation import LIST_READERS, ListedItems, Protocol
from reid_torchmetrics.functional.retrieval.relevance import check_listed_once
from reid_torchmetrics.functional.world import World, all_reduce_values

_NO_LISTS = ("bbx", "query")
"""names in the files of benchmarks that are no lists: the box of the query (revisitop, Oxford), its image (Oxford)"""
_ANY_NUMBER = 2**63 - 1
_FORMS = (
    "a bool matrix, or a mapping of numbers of queries, or a sequence by number, of lists or of mappings of names to"
    " lists"
)


def find_lists(
    ground_truth: Any, protocol: Protocol, num_queries: int, num_gallery: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return positives and junk of every query, from the lists that a protocol names.

    Raises:
        TypeError: no sequence of mappings of names to positions.
        ValueError: lists that the protocol does not name, positions outside the gallery or listed twice for a query.
    """
    ground_truth = listed_where_true("ground_truth", ground_truth, num_queries, num_gallery)
    # A single mapping, or a string, can be iterated as well.
    is_sequence = isinstance(ground_truth, Sequence) and not isinstance(ground_truth, (str, bytes, Tensor, Mapping))
    if not is_sequence:
        raise TypeError(
            "`ground_truth` must be a bool matrix [queries, gallery], or a sequence with a list of gallery positions,"
            f" or a mapping of names to lists, for each query; got {type(ground_truth).__name__}."
        )
    if len(ground_truth) != num_queries:
        rule = f"hold one entry for each of {num_queries} queries"
        raise ValueError(f"`ground_truth` must {rule}; got {len(ground_truth)}.")
    lists_by_query = _read_queries(dict(enumerate(ground_truth)), protocol, num_gallery).values()
    positives = [_join(lists, protocol.positive_lists) for lists in lists_by_query]
    junk = [_join(lists, protocol.junk_lists) for lists in lists_by_query]
    return positives, junk


def _read_queries(entries: Mapping[int, Any], protocol: Protocol, limit: int) -> dict[int, dict[str, Tensor]]:
    """Return the lists of each query by name, as tensors of numbers below a limit; a plain list is one of positives."""
    named_lists = {}
    for number, lists in entries.items():
        named_lists[number] = lists if isinstance(lists, Mapping) else {protocol.positive_lists[0]: lists}
    number_at = list(entries).__getitem__
    check_list_names(list(named_lists.values()), protocol, name=number_at)
    lists_by_query = {number: _read_lists(number, lists, limit) for number, lists in named_lists.items()}
    items_by_query = [torch.cat(list(lists.values())) for lists in lists_by_query.values()]
    no_items = [items[:0] for items in items_by_query]
    check_listed_once("ground_truth", items_by_query, no_items, name=number_at)
    return lists_by_query


def _join(lists: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """Return some lists of a query end to end; a list that the query lacks is empty."""
    empty = torch.empty(0, dtype=torch.int64, device="cpu")
    return torch.cat([empty, *(lists[name] for name in names if name in lists)])


def listed_where_true(argument: str, value: Any, num_queries: int | None = None, num_gallery: int | None = None) -> Any:
    """Return the positions where a bool matrix [queries, gallery] is True, as lists; other forms as they are.

    Raises:
        TypeError: a matrix of another dtype than bool, where its shape is given.
        ValueError: a matrix of another shape than is given.
    """
    if not isinstance(value, (Tensor, np.ndarray)):
        return value
    (matrix,) = _arrays.as_tensors(value)
    if not isinstance(matrix, Tensor) or matrix.ndim != 2:
        return value
    if matrix.dtype != torch.bool:
        if num_queries is None:
            return value
        raise TypeError(f"`{argument}` must be of bools where it is a matrix [queries, gallery]; got {matrix.dtype}.")
    if num_queries is not None and matrix.shape != (num_queries, num_gallery):
        raise ValueError(f"`{argument}` must have shape {[num_queries, num_gallery]}; got {list(matrix.shape)}.")
    return [row.nonzero()[:, 0] for row in matrix.cpu()]


def check_list_names(
    lists_by_query: Sequence[Mapping[str, Any]],
    protocol: Protocol,
    argument: str = "ground_truth",
    *,
    name: Callable[[int], object] = int,
) -> None:
    """Raise unless the protocol names the lists of every query, one of them as positives at least.

    Another list would be one of negatives, which is hardly meant.

    Args:
        lists_by_query: the lists of each query by name.
        protocol: names lists of positives and of junk.
        argument: the name of the argument, for messages.
        name: returns the name of a query, given its position, for messages.
    """
    list_names = dict.fromkeys((*protocol.positive_lists, *protocol.junk_lists))
    for query, lists in enumerate(lists_by_query):
        # Without any list of positives a query would silently count as one without a positive.
        if not set(protocol.positive_lists) & set(lists):
            positive_names = _checks.listed(protocol.positive_lists)
            got = f"{list(lists)} for {name(query)}"
            raise ValueError(f"`{argument}` must name one of {positive_names} for every query; got {got}.")
        unknown = [list_name for list_name in lists if list_name not in list_names and list_name not in _NO_LISTS]
        if unknown:
            names = _checks.listed(list_names)
            rule = f"lists that `positive_lists` or `junk_lists` of the protocol name, {names}"
            raise ValueError(f"`{argument}` must hold {rule}; got {unknown[0]!r} for query {name(query)}.")


def _read_lists(number: int, lists: Mapping[str, Any], limit: int) -> dict[str, Tensor]:
    """Return the lists of a query as tensors of numbers below a limit, on the CPU, without boxes and images."""
    tensors = {}
    for name, values in lists.items():
        if name in _NO_LISTS:
            continue
        argument = f"ground_truth[{number}][{name!r}]"
        _checks.array_like(argument, values)
        (items,) = _arrays.as_tensors(values)
        if isinstance(items, Tensor) and items.dtype == torch.bool and items.ndim == 1:  # a row of a bool matrix
            if limit < _ANY_NUMBER:
                _checks.length(argument, len(items), limit)
            items = items.nonzero()[:, 0]
        if not isinstance(items, Tensor) or items.numel():  # an empty list may be a tensor of floats
            _checks.in_range(argument, _checks.integer_labels(argument, items), 0, limit)
        tensors[name] = items.long().flatten().cpu()
    return tensors


@dataclass(frozen=True)
class ListedTruth:
    """The lists of all queries of a data set; equal if they hold the same."""

    digest: str
    """a digest of all lists, the same on all processes"""
    lists: Mapping[int, Mapping[str, Tensor]] = field(compare=False, repr=False)
    """lists by the number of the query"""

    @classmethod
    def of(cls, ground_truth: object, protocol: Protocol) -> ListedTruth:
        """Read lists from the argument of a user; a plain list is of positives.

        Raises:
            TypeError: no mapping or sequence, or lists that do not hold integers.
            ValueError: lists that the protocol does not name, or numbers below 0 or listed twice for a query.
        """
        if isinstance(ground_truth, ListedTruth):
            return ground_truth
        ground_truth = listed_where_true("ground_truth", ground_truth)
        if isinstance(ground_truth, (str, bytes)) or not isinstance(ground_truth, (Mapping, Sequence)):
            raise TypeError(f"`ground_truth` must be {_FORMS}; got {type(ground_truth).__name__}.")

        entries = ground_truth if isinstance(ground_truth, Mapping) else dict(enumerate(ground_truth))
        for number in entries:
            _checks.integer("ground_truth", number)
        lists = _read_queries(entries, protocol, _ANY_NUMBER)

        digest = hashlib.sha256()
        for number in sorted(lists):
            content = [(name, items.tolist()) for name, items in lists[number].items()]
            digest.update(repr((number, content)).encode())
        return cls(digest.hexdigest()[:16], lists)

    def at(
        self, queries: Int[Tensor, " queries"], gallery: Int[Tensor, " gallery"], world: World
    ) -> tuple[list[dict[str, Tensor]], ListedItems]:
        """Return the lists of some queries, as positions of the gallery items of this process.

        The second value says how many of the listed items are on some process.

        Args:
            queries: numbers of the queries in the data set.
            gallery: numbers of the gallery items of this process.
            world: all processes.

        Raises:
            ValueError: a query without lists.
        """
        query_numbers = queries.tolist()

        def find_positions() -> list[dict[str, Tensor]]:
            for number in query_numbers:
                if number not in self.lists:
                    got = f"none for the query with `index` {number}"
                    raise ValueError(f"`ground_truth` must have lists for every query; got {got}.")
            sorted_gallery, order = gallery.cpu().sort()
            positions = []
            for number in query_numbers:
                lists = self.lists[number]
                positions.append({name: _positions(items, sorted_gallery, order) for name, items in lists.items()})
            return positions

        positions = world.guarded(find_positions)
        num_here = sum(map(_count_items, positions))
        num_listed = sum(_count_items(self.lists[number]) for number in query_numbers)
        num_found = int(all_reduce_values(world, lambda: torch.tensor([num_here], device=queries.device)))
        return positions, ListedItems(len(queries), num_listed, num_found)


def _count_items(lists: Mapping[str, Tensor]) -> int:
    return sum(map(len, lists.values()))


def _positions(
    items: Int[Tensor, " items"], sorted_gallery: Int[Tensor, " gallery"], order: Int[Tensor, " gallery"]
) -> Int[Tensor, " here"]:
    """Return the positions of the items on this process, given its sorted gallery numbers and their `order`."""
    if not len(sorted_gallery):
        return items[:0]
    place = torch.searchsorted(sorted_gallery, items).clamp_(max=len(sorted_gallery) - 1)
    return order[place[sorted_gallery[place] == items]]


LIST_READERS["positions"] = find_lists
LIST_READERS["numbers"] = ListedTruth.of
