"""Lists of positives and junk of every query, by position, or by the numbers of samples in their data set.

The lists of `evaluate` hold positions. A metric holds samples by `index`, each process some of them: the lists of the
queries are found by number, and each process keeps the items of its own part of the gallery.

    lists            {7: {"ok": [40, 41], "junk": [2]}}     by number of the query, then of gallery items
    gallery here     index 2 41 5                           on this process; 40 is on another
    lists here       {"ok": [1], "junk": [0]}               of the query 7, as positions
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.retrieval.relevance import check_listed_once
from reid_torchmetrics.functional.world import World, all_reduce_values, warn_once

from .protocol import Protocol

GroundTruth: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""For every query its gallery positions as a tensor, an array or a list, or several by name, as the revisited Oxford
and Paris come; or a bool matrix [queries, gallery]"""
BESIDE_LISTS = ("bbx", "query")
"""what the files of benchmarks hold beside lists: the box of the query (revisitop, Oxford), its image (Oxford)"""
_ANY_NUMBER = 2**63 - 1
_FORMS = (
    "a bool matrix, or a mapping of numbers of queries, or a sequence by number, of lists or of mappings of names to"
    " lists"
)


def find_lists(
    given: GroundTruth, protocol: Protocol, num_queries: int, num_gallery: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Positives and junk of every query, by the lists that a protocol names.

    Raises:
        TypeError: no sequence of mappings of names to positions.
        ValueError: lists that the protocol does not name, positions outside the gallery or listed twice for a query.
    """
    given = listed_where_true("ground_truth", given, num_queries, num_gallery)
    # A single mapping, or a string, can be iterated as well.
    if isinstance(given, (str, bytes, Tensor, Mapping)) or not isinstance(given, Sequence):
        raise TypeError(
            "`ground_truth` must be a bool matrix [queries, gallery], or a sequence with a list of gallery positions,"
            f" or a mapping of names to lists, for each query; got {type(given).__name__}."
        )
    if len(given) != num_queries:
        raise ValueError(f"`ground_truth` must hold one entry for each of {num_queries} queries; got {len(given)}.")
    # A plain list is one of positives.
    named = [lists if isinstance(lists, Mapping) else {protocol.positive_lists[0]: lists} for lists in given]
    check_list_names(named, protocol)
    # Of each side the lists of a query, one after the other; a list that a query lacks is empty.
    read = [_read_lists(query, lists, num_gallery) for query, lists in enumerate(named)]
    none = torch.empty(0, dtype=torch.int64, device="cpu")
    positives, junk = (
        [torch.cat([none, *(lists[name] for name in names if name in lists)]) for lists in read]
        for names in (protocol.positive_lists, protocol.junk_lists)
    )
    check_listed_once("ground_truth", positives, junk)
    return positives, junk


def listed_where_true(argument: str, given: Any, num_queries: int | None = None, num_gallery: int | None = None) -> Any:
    """The positions where a bool matrix [queries, gallery] is True, as lists; other forms as they are.

    Raises:
        TypeError: a matrix of another dtype than bool, where its shape is given.
        ValueError: a matrix of another shape than is given.
    """
    if not isinstance(given, (Tensor, np.ndarray)):
        return given
    (matrix,) = _arrays.as_tensors(given)
    is_matrix = isinstance(matrix, Tensor) and matrix.ndim == 2
    if not is_matrix or matrix.dtype != torch.bool:
        if is_matrix and num_queries is not None:
            raise TypeError(
                f"`{argument}` must be of bools where it is a matrix [queries, gallery]; got {matrix.dtype}."
            )
        return given
    if num_queries is not None and matrix.shape != (num_queries, num_gallery):
        raise ValueError(f"`{argument}` must have shape {[num_queries, num_gallery]}; got {list(matrix.shape)}.")
    return [row.nonzero()[:, 0] for row in matrix.cpu()]


def check_list_names(
    given: Sequence[Mapping[str, Any]],
    protocol: Protocol,
    argument: str = "ground_truth",
    *,
    name: Callable[[int], object] = int,
) -> None:
    """Raise unless the protocol names the lists of every query, one of them as positives at least.

    Another list would be one of negatives, which is hardly meant. `name` is of a query, by its place.
    """
    positive, known = protocol.positive_lists, dict.fromkeys((*protocol.positive_lists, *protocol.junk_lists))
    for query, lists in enumerate(given):
        # Without any list of positives a query would silently count as one without a positive.
        if not set(positive) & set(lists):
            listed, came = ", ".join(map(repr, positive)), f"{list(lists)} for {name(query)}"
            raise ValueError(f"`{argument}` must name one of {listed} for every query; got {came}.")
        if unknown := [each for each in lists if each not in {*known, *BESIDE_LISTS}]:
            rule = f"lists that `positive_lists` or `junk_lists` of the protocol name, {', '.join(map(repr, known))}"
            raise ValueError(f"`{argument}` must hold {rule}; got {unknown[0]!r} for query {name(query)}.")


def _read_lists(number: int, named: Mapping[str, Any], limit: int) -> dict[str, Tensor]:
    """The lists of a query, of numbers below a limit, on the CPU; the boxes and images beside them are left out."""
    lists = {}
    for name in (name for name in named if name not in BESIDE_LISTS):
        argument = f"ground_truth[{number}][{name!r}]"
        _checks.array_like(argument, named[name])
        (items,) = _arrays.as_tensors(named[name])
        if isinstance(items, Tensor) and items.dtype == torch.bool and items.ndim == 1:  # a row of a bool matrix
            if limit < _ANY_NUMBER:
                _checks.length(argument, len(items), limit)
            items = items.nonzero()[:, 0]
        if not isinstance(items, Tensor) or items.numel():  # an empty list may be a tensor of floats
            _checks.in_range(argument, _checks.integer_labels(argument, items), 0, limit)
        lists[name] = items.long().flatten().cpu()
    return lists


@dataclass(frozen=True)
class ListedTruth:
    """The lists of all queries of a data set; equal if they hold the same."""

    digest: str
    """a digest of all that they hold, the same on all processes"""
    lists: Mapping[int, Mapping[str, Tensor]] = field(compare=False, repr=False)
    """by the number of the query"""

    @classmethod
    def of(cls, given: object, protocol: Protocol) -> ListedTruth | None:
        """Read lists that a user gives; a plain list is of positives, and None stands for no lists.

        Raises:
            TypeError: no mapping or sequence, or lists that do not hold integers.
            ValueError: lists that the protocol does not name, or numbers below 0 or listed twice for a query.
        """
        if given is None or isinstance(given, ListedTruth):
            return given
        given = listed_where_true("ground_truth", given)
        if isinstance(given, (str, bytes)) or not isinstance(given, (Mapping, Sequence)):
            raise TypeError(f"`ground_truth` must be {_FORMS}; got {type(given).__name__}.")
        lists = {}
        for number, values in given.items() if isinstance(given, Mapping) else enumerate(given):
            _checks.integer("ground_truth", number)
            named = values if isinstance(values, Mapping) else {protocol.positive_lists[0]: values}
            lists[number] = _read_lists(number, named, _ANY_NUMBER)
        check_list_names([*lists.values()], protocol, name=[*lists].__getitem__)
        every = [torch.cat([*each.values()]) for each in lists.values()]
        check_listed_once("ground_truth", every, [each[:0] for each in every], name=[*lists].__getitem__)
        digest = hashlib.sha256()
        for number in sorted(lists):
            digest.update(repr((number, [(name, each.tolist()) for name, each in lists[number].items()])).encode())
        return cls(digest.hexdigest()[:16], lists)

    def at(self, queries: Int[Tensor, " queries"], gallery: Int[Tensor, " gallery"], world: World) -> GroundTruth:
        """The lists of some queries, with the positions of the items of this process, given the numbers of both.

        One warning says that listed items are on no process, as in an evaluation of a part of the gallery.

        Raises:
            ValueError: a query without lists.
        """

        def find() -> GroundTruth:
            if unlisted := [number for number in queries.tolist() if number not in self.lists]:
                came = f"none for the query with `index` {unlisted[0]}"
                raise ValueError(f"`ground_truth` must have lists for every query; got {came}.")
            numbers, order = gallery.cpu().sort()
            asked = (self.lists[number] for number in queries.tolist())
            return [{name: _places(each, numbers, order) for name, each in lists.items()} for lists in asked]

        positions = world.guarded(find)
        num_here = sum(len(each) for lists in positions for each in lists.values())
        num_listed = sum(len(each) for number in queries.tolist() for each in self.lists[number].values())
        num_found = int(all_reduce_values(world, lambda: torch.tensor([num_here], device=queries.device)))
        if num_found < num_listed:
            warn_once(
                world,
                "items that are not in the gallery",
                f"`ground_truth` lists items that no sample of the gallery has as `index`: {num_listed - num_found} of"
                f" {num_listed} entries for {len(queries)} queries. They do not count, which is right for a part of the"
                " gallery only.",
            )
        return positions


def _places(items: Int[Tensor, " items"], numbers: Int[Tensor, " gallery"], order: Int[Tensor, " gallery"]) -> Tensor:
    """Positions of the items that are here, given the ascending `numbers` of the gallery and their `order`."""
    place = torch.searchsorted(numbers, items).clamp_(max=max(len(numbers) - 1, 0))
    return order[place[numbers[place] == items]] if len(numbers) else items[:0]
