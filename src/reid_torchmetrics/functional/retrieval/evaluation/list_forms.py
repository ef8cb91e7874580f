"""The forms in which ranked lists and their truth come, read into integers.

matrix          of ints, -1 where nothing is            one row per query
lists           of ints or strings                      one per query, of any lengths
mapping         of queries, ints or strings, to lists   the keys of the truth are the queries
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional import segments

from .problem import check_list_names
from .protocol import Protocol

Lists: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[Any, Any]
"""For every query a list of items, ints or strings: a matrix of ints, lists, or a mapping of queries to lists"""

MISSING_QUERIES = {
    "neg": "a query of the truth without a list retrieved nothing (trec_eval -c, Kaggle)",
    "skip": "it is left out (trec_eval, pytrec_eval, ranx)",
}
_LISTED = (Tensor, np.ndarray, list, tuple)


class Truth(NamedTuple):
    """What is known of queries: pairs of a query and an item, each once."""

    query: Int[Tensor, " listed"]
    item: Int[Tensor, " listed"]
    is_junk: Bool[Tensor, " listed"]
    grade: Float[Tensor, " listed"] | None = None
    """float64, 0 for a judged negative; None where positives come without grades"""
    is_kept: Bool[Tensor, " gallery"] | None = None
    """False for gallery items that are junk for all queries; None where the gallery is not known"""


class Numbering:
    """Items as integers: ints are their own, strings are numbered as they come."""

    def __init__(self) -> None:
        self.of: defaultdict[str, int] = defaultdict()
        self.of.default_factory = self.of.__len__
        self._kind, self._argument = "", ""

    def read(self, argument: str, items: list[Any]) -> Int[Tensor, " items"]:
        """The numbers of items, all of them ints or all strings, as in arguments before."""
        types = sorted({*map(type, items)}, key=lambda each: each.__name__)
        kinds = {"strings" if issubclass(each, str) else "ints" if _is_integer(each) else "" for each in types}
        kind = kinds.pop() if len(kinds) == 1 else ""
        if types and not kind:
            came = " and ".join(each.__name__ for each in types)
            raise TypeError(f"`{argument}` must hold items that are all ints, or all strings; got {came}.")
        if kind and self._kind and kind != self._kind:
            raise TypeError(f"`{argument}` must hold {self._kind}, as `{self._argument}` does; got {kind}.")
        if kind:
            self._kind, self._argument = kind, argument
        numbers = map(self.of.__getitem__, items) if kind == "strings" else items
        try:
            return torch.from_numpy(np.fromiter(numbers, np.int64, len(items)))
        except OverflowError:
            raise ValueError(f"`{argument}` must hold ints that fit int64; got {max(items, key=abs)}.") from None


class Flat(NamedTuple):
    """The lists of all queries, end to end."""

    lengths: Int[Tensor, " queries"]
    items: Int[Tensor, " items"]

    @classmethod
    def read(cls, argument: str, lists: Lists, numbering: Numbering) -> Flat:
        """Read a matrix, or lists."""
        (matrix,) = _arrays.as_tensors(lists) if isinstance(lists, np.ndarray) else (lists,)
        if isinstance(matrix, Tensor):
            if matrix.is_floating_point() or matrix.is_complex() or matrix.dtype == torch.bool:
                raise TypeError(f"`{argument}` must hold items that are all ints, or all strings; got {matrix.dtype}.")
            if matrix.ndim != 2:
                raise ValueError(f"`{argument}` must have shape [queries, items]; got {list(matrix.shape)}.")
            lengths = torch.full((len(matrix),), matrix.shape[1], device=matrix.device)
            return _checked(argument, cls(lengths, matrix.long().flatten()))
        rows = lists if isinstance(lists, list) else _rows(argument, lists.tolist())
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64, device="cpu")
        return _checked(argument, cls(lengths, numbering.read(argument, [*chain.from_iterable(rows)])))

    def padded(self) -> Int[Tensor, "queries longest"]:
        """A matrix with -1 behind each list, and one column at least."""
        num_queries, longest = len(self.lengths), max(1, int(self.lengths.max())) if len(self.lengths) else 1
        if len(self.items) == num_queries * longest:
            return self.items.view(num_queries, longest)
        matrix = self.items.new_full((num_queries, longest), -1)
        query, place = segments.runs(0, self.lengths)
        matrix[query, place] = self.items
        return matrix


class Joined(NamedTuple):
    """Lists and truth in one order."""

    retrieved: Any
    positives: Any
    keys: tuple[Any, ...] | None = None
    """of the truth, where it is a mapping"""
    index: list[int] | None = None
    """the keys that are ints, else their places in the truth"""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The keys that are strings."""
        return self.keys if self.keys and isinstance(self.keys[0], str) else None

    def of_keys(self, argument: str, values: Any) -> Any:
        """The values of the keys, where an argument is a mapping."""
        if not isinstance(values, Mapping):
            return values
        lacking = ["a mapping"] if self.keys is None else [repr(key) for key in self.keys if key not in values]
        if lacking:
            raise ValueError(f"`{argument}` must have the queries of `positives`; got {lacking[0]} without.")
        return [values[key] for key in self.keys or ()]


def join_keys(retrieved: Lists, positives: Lists, missing_queries: str) -> Joined:
    """Lists and truth in the order of the truth.

    Raises:
        TypeError: one of both is a mapping, or keys that are no ints or strings.
        ValueError: a query that the truth lacks.
    """
    if isinstance(retrieved, Mapping) != isinstance(positives, Mapping):
        came = " and ".join(type(each).__name__ for each in (retrieved, positives))
        raise TypeError(f"`retrieved` and `positives` must both be mappings of queries, or neither; got {came}.")
    if not isinstance(retrieved, Mapping) or not isinstance(positives, Mapping):
        return Joined(retrieved, positives)
    for key in retrieved:
        if key not in positives:
            raise ValueError(f"`retrieved` must have no query that `positives` lacks; got {key!r}.")
    types = {*map(type, positives)}
    are_ints = all(map(_is_integer, types))
    if not (are_ints or all(issubclass(each, str) for each in types)):
        came = " and ".join(sorted(each.__name__ for each in types))
        raise TypeError(f"`positives` must have queries as keys that are all ints, or all strings; got {came}.")
    kept = {key: place for place, key in enumerate(positives) if missing_queries == "neg" or key in retrieved}
    rows = [retrieved.get(key, ()) for key in kept], [positives[key] for key in kept]
    return Joined(*rows, tuple(kept), [int(key) for key in kept] if are_ints else [*kept.values()])


def read_retrieved(retrieved: Lists, numbering: Numbering, num_queries: int) -> Int[Tensor, "queries longest"]:
    """The lists as a matrix."""
    if not isinstance(retrieved, (Tensor, np.ndarray)):
        retrieved = [
            _ranked(row) if isinstance(row, (Mapping, AbstractSet)) else row for row in _rows("retrieved", retrieved)
        ]
    flat = Flat.read("retrieved", retrieved, numbering)
    if len(flat.lengths) != num_queries:
        raise ValueError(f"`retrieved` must hold one list for each of {num_queries} queries; got {len(flat.lengths)}.")
    return flat.padded()


def read_truth(positives: Lists, gains: Lists | None, protocol: Protocol, numbering: Numbering) -> tuple[Truth, int]:
    """The listed pairs, and the number of queries.

    Raises:
        TypeError: items, grades or lists of another type.
        ValueError: lists that the protocol does not name, other numbers of grades, or bad grades.
    """
    grades, junk, rows = gains, [], positives
    if not isinstance(positives, (Tensor, np.ndarray)):
        rows = _rows("positives", positives)
        filled = [row for row in rows if len(row)]
        if any(isinstance(row, Mapping) for row in filled):
            if not all(isinstance(row, Mapping) for row in filled):
                raise TypeError("`positives` must hold mappings for all queries, or lists for all; got both.")
            # Names of lists, or items with their grades.
            if isinstance(next(iter(filled[0].values())), (*_LISTED, AbstractSet)):
                check_list_names(rows, protocol, "positives")
                rows, junk = (
                    [[item for name in names for item in _list_in(row, name)] for row in rows]
                    for names in (protocol.positive_lists, protocol.junk_lists)
                )
            else:
                grades = [[*row.values()] if len(row) else [] for row in rows]
    flat, dropped = Flat.read("positives", rows, numbering), Flat.read("positives", junk, numbering)
    query = torch.cat([segments.numbers(each.lengths) for each in (flat, dropped)])
    item, is_junk = torch.cat([flat.items, dropped.items]), torch.arange(len(query)) >= len(flat.items)
    grade = None if grades is None else _read_grades(grades, flat, "positives" if gains is None else "gains")
    listed = item >= 0
    truth = Truth(*(values[listed] for values in (query, item, is_junk)), None if grade is None else grade[listed])
    return truth, len(flat.lengths)


def _rows(argument: str, lists: Any) -> list[Any]:
    """One collection for each query, as Python has it."""
    if isinstance(lists, str) or not isinstance(lists, Sequence):
        raise TypeError(f"`{argument}` must be a matrix, lists or a mapping of queries; got {type(lists).__name__}.")
    rows = [row.tolist() if isinstance(row, (Tensor, np.ndarray)) else row for row in lists]
    for row in rows:
        if not isinstance(row, (list, tuple, Mapping, AbstractSet)):
            raise TypeError(f"`{argument}` must hold one list for each query; got {type(row).__name__}.")
    return rows


def _ranked(run: Any) -> list[Any]:
    """Items by falling score, then by the falling item as a string."""
    if not isinstance(run, Mapping):
        raise TypeError(f"`retrieved` must hold lists, which have an order; got {type(run).__name__}.")
    scores = run.values()
    if not all(map(_is_number, {*map(type, scores)})) or any(map(math.isnan, scores)):
        raise ValueError(f"`retrieved` must have scores that can be ordered; got {[*scores][:5]}.")
    if len({*scores}) == len(scores):
        return sorted(run, key=run.__getitem__, reverse=True)
    return sorted(run, key=lambda item: (run[item], str(item)), reverse=True)


def _list_in(row: Any, name: str) -> Any:
    values = row.get(name, ()) if len(row) else ()
    return values.tolist() if isinstance(values, (Tensor, np.ndarray)) else values


def _read_grades(grades: Any, flat: Flat, argument: str) -> Float[Tensor, " items"]:
    """One finite number of at least 0 for each item."""
    rows = _rows(argument, grades.tolist() if isinstance(grades, (Tensor, np.ndarray)) else grades)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    if not torch.equal(lengths, flat.lengths.cpu()):
        raise ValueError(
            f"`{argument}` must have one grade for each item of `positives`; got {int(lengths.sum())}"
            f" for {len(flat.items)}."
        )
    values = [*chain.from_iterable(rows)]
    for value in values:
        if not _is_number(type(value)):
            raise TypeError(f"`{argument}` must hold grades that are numbers; got {type(value).__name__}.")
        if not 0 <= value < math.inf:
            raise ValueError(f"`{argument}` must hold grades that are finite and at least 0; got {value}.")
    return torch.tensor(values, dtype=torch.float64)


def _checked(argument: str, flat: Flat) -> Flat:
    if len(flat.items) and int(flat.items.min()) < -1:
        raise ValueError(f"`{argument}` must hold items of at least 0, or -1 for nothing; got {int(flat.items.min())}.")
    return flat


def _is_integer(kind: type) -> bool:
    return issubclass(kind, (int, np.integer)) and kind is not bool


def _is_number(kind: type) -> bool:
    return _is_integer(kind) or issubclass(kind, (float, np.floating))
