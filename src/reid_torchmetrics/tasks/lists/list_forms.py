"""Read the forms of ranked lists, and of their truth, into integers.

matrix          of ints, with -1 as padding             one row per query
lists           of ints or strings                      one per query, of any lengths
mapping         of queries, ints or strings, to lists   the keys of the truth are the queries
"""

from __future__ import annotations

from collections import abc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, count, filterfalse
from numbers import Number
from typing import Any, NamedTuple, TypeAlias, get_args
from uuid import UUID

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _hints, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import Protocol

from .ground_truth import check_list_names

Lists: TypeAlias = Tensor | NDArray[Any] | _arrays.TableColumn | Sequence[Any] | Mapping[Any, Any]
"""For every query a list of items, ints or strings: a matrix of ints, lists, or a mapping of queries to lists"""

_ROWS = (list, tuple, Mapping, abc.Set)
_ARRAYS = (Tensor, np.ndarray)
_UNSIGNED_PADDING = 2**64 - 1
_NO_NAMES = (Number, np.generic, Collection, type(None))
"""types that name no item; tensors and arrays are collections, too"""
MISSING_QUERIES = get_args(_names.MissingQueries)
"""A query of the truth without a list retrieved nothing (trec_eval -c, Kaggle), or is left out (trec_eval, ranx)."""


def read_rows(argument: str, lists: Any) -> Tensor | list[Any]:
    """Return a matrix of ints, or a collection of Python's values for each query.

    Raises:
        TypeError: another type, a matrix of other numbers than ints, or a row of another type.
        ValueError: an array of another shape, or ints that do not fit int64.
    """
    rows = _arrays.as_array(lists)
    if isinstance(rows, _ARRAYS):
        (rows,) = _arrays.as_tensors(rows)
    if isinstance(rows, Tensor):
        if rows.dtype == torch.uint64:
            rows = _checks.signed(argument, rows, least=-1)  # as in `_fit_int64`
        if not rows.numel():  # NumPy's matrix without columns is one of floats
            rows = rows.long()
        if rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool:
            raise TypeError(f"`{argument}` must hold items that are all ints, or all strings; got {rows.dtype}.")
        if rows.ndim != 2:
            raise ValueError(f"`{argument}` must have shape [queries, items]; got {list(rows.shape)}.")
        return rows
    if not isinstance(rows, (np.ndarray, list, tuple)):
        raise TypeError(f"`{argument}` must be a matrix, lists or a mapping of queries; got {type(lists).__name__}.")
    rows = list(map(as_list, rows))
    check_kinds(rows, _ROWS, f"`{argument}` must hold one list for each query")
    return rows


def as_list(values: Any) -> Any:
    """Return an array or a column of a table as a list; other values as they are."""
    if isinstance(values, _ROWS):
        return values
    values = _arrays.as_array(values)
    return values.tolist() if isinstance(values, _ARRAYS) else values


def check_kinds(values: Iterable[Any], kinds: tuple[type, ...], rule: str) -> None:
    """Raise unless all values have some types; `rule` begins the message."""
    for kind in dict.fromkeys(map(type, values)):
        if not issubclass(kind, kinds):
            raise TypeError(f"{rule}; got {kind.__name__}.")


def as_floats(argument: str, what: str, values: Collection[Any]) -> NDArray[np.float64]:
    """Return numbers as float64; `what` names them in messages."""
    check_kinds(values, (int, float, np.integer, np.floating), f"`{argument}` must have {what} that are numbers")
    try:
        return np.fromiter(values, np.float64, len(values))
    except OverflowError as error:
        raise ValueError(f"`{argument}` must have {what} that fit float64; got {error}.") from None


def read_entries(
    argument: str, what: str, lists: Any, lengths: Int[Tensor, " queries"], *, beside: str, rule: str
) -> Float[Tensor, " entries"]:
    """Return numbers beside the items of lists end to end, as float64; raise unless each list has its length.

    In messages `what` names the numbers, and `beside` the argument with the items; other lengths break the `rule`.
    """
    matrix = _arrays.as_array(lists)
    if isinstance(matrix, _ARRAYS) and matrix.ndim == 2:
        (matrix,) = _arrays.as_tensors(matrix)
    if isinstance(matrix, Tensor) and matrix.ndim == 2 and not matrix.is_complex():
        lengths_of_rows = [matrix.shape[1]] * len(matrix)
        values = matrix.double().flatten()
    else:
        rows = as_list(lists)
        check_kinds([rows], (list, tuple), f"`{argument}` must be a matrix or lists, as `{beside}`")
        rows = list(map(as_list, rows))
        check_kinds(rows, (list, tuple), f"`{argument}` must hold one list for each query")
        lengths_of_rows = list(map(len, rows))
        values = torch.from_numpy(as_floats(argument, what, list(chain.from_iterable(rows))))
    if lengths_of_rows != lengths.tolist():
        raise ValueError(f"`{argument}` must {rule}; got lists of other lengths.")
    return values


def as_ids(values: list[Any]) -> list[Any]:
    """Return the ids of hits, which are objects with an `id`, and UUIDs as strings; other values as they are."""
    first = next(iter(values), None)
    if hasattr(first, "id") and all(hasattr(value, "id") for value in values):
        values = [value.id for value in values]
        first = values[0]
    if isinstance(first, UUID) and all(isinstance(value, UUID) for value in values):
        return list(map(str, values))
    return values


def kind_of(argument: str, what: str, values: Collection[Any]) -> str:
    """Return the kind of values, "ints" or "strings"; empty without values. `what` names them in messages."""
    types = set(map(type, values))
    if not types:
        return ""
    if bool not in types and all(issubclass(kind, (int, np.integer)) for kind in types):
        return "ints"
    if all(issubclass(kind, str) for kind in types):
        return "strings"
    got = " and ".join(sorted(kind.__name__ for kind in types))
    may_name_items = not any(issubclass(kind, _NO_NAMES) for kind in types)
    remedy = ", so write `str(...)`" if may_name_items else ""
    raise TypeError(f"`{argument}` must hold {what} that are all ints, or all strings; got {got}{remedy}.")


def _fit_int64(argument: str, values: Iterable[int]) -> Iterator[int]:
    """Yield ints that fit int64, and -1 for the largest int of 64 bits, which engines write for nothing."""
    for value in values:
        if value == _UNSIGNED_PADDING:
            yield -1
            continue
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"`{argument}` must hold ints that fit int64, below 2**63; got {value}.")
        yield int(value)


def read_names(argument: str, names: Any) -> list[Any]:
    """Return names as a list of ints or of strings of Python; they may be a list, an array or a column of a table.

    Raises:
        TypeError: names that are neither all ints nor all strings.
        ValueError: ints that do not fit int64.
    """
    values = as_list(names)
    if not isinstance(values, Collection) or isinstance(values, (str, bytes)):
        raise TypeError(f"`{argument}` must be a list of names; got {type(names).__name__}.")
    values = as_ids(list(values))
    if kind_of(argument, "names", values) == "ints":
        values = list(map(int, values))
        _checks.integers(argument, values)
    return values


class Truth(NamedTuple):
    """Pairs of a query and a positive, a judged negative or a junk item, each once."""

    query: Int[Tensor, " listed"]
    item: Int[Tensor, " listed"]
    is_junk: Bool[Tensor, " listed"]
    grade: Float[Tensor, " listed"] | None = None
    """float64, above 0 for a positive, 0 for a judged negative; None where positives come without grades"""

    @property
    def is_right(self) -> Bool[Tensor, " listed"]:
        """Mask of the positives."""
        if self.grade is None:
            return ~self.is_junk
        return ~self.is_junk & (self.grade > 0)

    def to(self, device: torch.device) -> Truth:
        """Return the pairs on a device."""
        grade = None if self.grade is None else self.grade.to(device)
        return Truth(self.query.to(device), self.item.to(device), self.is_junk.to(device), grade)


class ItemReader:
    """Reads items as integers: ints stand for themselves, strings are numbered in the order in which they are read.

    To number a string is the slowest step. So a string of the lists that the truth lacks stands for itself until
    `number_lists` is called: it has a number of its own above those of the truth.

        truth  b c    list  c d d a    read  1 3 4 5    numbered  1 2 2 3
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.unnumbered: list[str] = []
        """the strings of the lists, while some are not numbered"""
        self.num_numbered = 0
        """names that had a number when the lists were read; a string of these has its place in `unnumbered` more"""
        self.order: NDArray[np.int64] | None = None
        """places of the items of runs in the order of their scores; None if all were given in this order"""
        self.share_tied = 0.0
        """share of the items of runs, but for the first of each, that have the score of the item before them"""
        self._kind = ""
        """"ints" or "strings"; empty until some item was read"""

    def read(
        self, argument: str, lists: Tensor | list[Any], order: NDArray[np.int64] | None = None
    ) -> tuple[Int[Tensor, " queries"], Int[Tensor, " items"]]:
        """Return the lengths of lists, or of the rows of a matrix, and their items end to end.

        Args:
            argument: the name of the argument, for messages.
            lists: the lists.
            order: places of the items in the order of their lists; None if they are in it.

        Raises:
            TypeError: other items than ints or strings, or another kind than in earlier calls.
            ValueError: an int below -1.
        """
        if isinstance(lists, Tensor):
            kind = "ints"
            lengths = torch.full((len(lists),), lists.shape[1], device=lists.device)
            items = lists.long().flatten()
        else:
            values = as_ids(list(chain.from_iterable(lists)))
            kind = kind_of(argument, "items", values)
            if order is not None:
                self.order = order
            numbers = self._numbers_of(argument, values) if kind == "strings" else values
            lengths = torch.tensor([len(row) for row in lists], dtype=torch.int64, device="cpu")
            try:
                item_numbers = np.fromiter(numbers, np.int64, len(values))
            except OverflowError:
                item_numbers = np.fromiter(_fit_int64(argument, values), np.int64, len(values))
            if order is not None:
                item_numbers = item_numbers[order]
            items = torch.from_numpy(item_numbers)
        if kind and self._kind not in ("", kind):
            raise TypeError(f"`{argument}` must hold {self._kind}, as `positives` does; got {kind}.")
        self._kind = kind or self._kind
        if len(items) and int(items.min()) < -1:
            raise ValueError(f"`{argument}` must hold items of at least 0, or -1 for nothing; got {int(items.min())}.")
        return lengths, items

    def number_gallery(self, names: Sequence[str]) -> None:
        """Number the items of a gallery by their positions, before any list is read; others come behind."""
        self.names = {name: number for number, name in enumerate(names)}
        self._kind = "strings"

    def name_of_unknown(self, item: int) -> str:
        """Return the name of an item that is not among the numbered names."""
        return self.unnumbered[item - self.num_numbered]

    def _numbers_of(self, argument: str, values: list[str]) -> Iterable[int]:
        if argument == "retrieved" and self.names:
            self.unnumbered = values
            self.num_numbered = len(self.names)
            return map(self.names.get, values, count(self.num_numbered))
        self._number(values)
        return map(self.names.__getitem__, values)

    def _number(self, values: list[str]) -> None:
        """Number strings in the order of the lists, if they are new."""
        if values and self.order is not None:
            values = [values[place] for place in self.order.tolist()]
        new_names = filterfalse(self.names.__contains__, dict.fromkeys(values))
        self.names.update(zip(new_names, count(len(self.names))))

    def all_names(self) -> tuple[str, ...]:
        """Return the strings by their numbers, after numbering all of them."""
        self._number(self.unnumbered)
        return tuple(self.names)

    def number_lists(self, lists: Any) -> Any:
        """Return the lists that were read, after numbering all strings."""
        self._number(self.unnumbered)
        numbers = np.fromiter(map(self.names.__getitem__, self.unnumbered), np.int64, len(self.unnumbered))
        place = lists.index - self.num_numbered
        return replace(lists, index=torch.from_numpy(numbers)[place.clamp(min=0)].where(place >= 0, lists.index))

    def name(self, item: int) -> str:
        """Return an item as it was given, for messages."""
        return repr(list(self.names)[item]) if self.names else str(item)


class ListQueries(NamedTuple):
    """The queries of lists: by their keys where the truth is a mapping, else by position."""

    keys: tuple[Any, ...] | None = None
    numbers: tuple[int, ...] | None = None
    """the numbers of the queries in the results: keys that are ints, else places in the truth"""
    names: tuple[str, ...] | None = None
    """the keys, where they are strings"""

    def values_of(self, argument: str, values: Any) -> Any:
        """Return the values of the queries in their order, where an argument is a mapping."""
        if not isinstance(values, Mapping):
            return values
        if self.keys is None:
            raise ValueError(f"`{argument}` must be a matrix or lists, as `positives` is; got {type(values).__name__}.")
        for key in self.keys:
            if key not in values:
                raise ValueError(f"`{argument}` must have the queries of `positives` as keys; got none for {key!r}.")
        return [values[key] for key in self.keys]

    def name(self, query: int) -> str:
        """Return the key of a query, or its number, for messages."""
        return str(query) if self.keys is None else repr(self.keys[query])


def find_queries(
    retrieved: Lists, positives: Lists, missing_queries: str, unknown_queries: str, *, argument: str = "positives"
) -> ListQueries:
    """Return the queries of the truth, in its order; some without a list may be left out.

    Args:
        retrieved: the lists.
        positives: the truth.
        missing_queries: see `evaluate_lists`.
        unknown_queries: see `evaluate_lists`.
        argument: the name of the argument with the truth, for messages.

    Raises:
        TypeError: only one of both is a mapping, or keys that are neither all ints nor all strings.
        ValueError: a query that the truth lacks, unless such ones are skipped.
    """
    if not isinstance(retrieved, Mapping) or not isinstance(positives, Mapping):
        if isinstance(retrieved, Mapping) or isinstance(positives, Mapping):
            got = f"{type(retrieved).__name__} and {type(positives).__name__}"
            raise TypeError(f"`retrieved` and `{argument}` must both be mappings of queries, or neither; got {got}.")
        return ListQueries()
    unknown = [key for key in retrieved if key not in positives]
    if unknown and unknown_queries == "error":
        got = f"{unknown[0]!r} where these are {_hints.listed(positives) or 'none'}"
        remedy = " `unknown_queries='skip'` leaves such queries out." if len(unknown) < len(retrieved) else ""
        raise ValueError(f"`retrieved` must have no query that `{argument}` lacks; got {got}.{remedy}")
    kind = kind_of(argument, "queries as keys", positives)
    kind_of_unknown = kind_of(argument, "queries as keys", unknown)
    if kind and kind_of_unknown not in ("", kind):
        raise TypeError(f"`retrieved` must have {kind} as keys, as `{argument}` has; got {kind_of_unknown}.")

    places = {key: place for place, key in enumerate(positives) if missing_queries == "neg" or key in retrieved}
    keys = tuple(places)
    if kind == "strings":
        return ListQueries(keys, numbers=tuple(places.values()), names=keys or None)
    return ListQueries(keys, numbers=keys)


def read_retrieved(retrieved: Lists, reader: ItemReader, num_queries: int) -> Int[Tensor, "queries longest"]:
    """Return the lists as a matrix with -1 behind each list, and one column at least."""
    rows = read_rows("retrieved", retrieved)
    order = None
    if not isinstance(rows, Tensor):
        order, reader.share_tied = _order_of_runs(rows)
    if len(rows) != num_queries:
        raise ValueError(f"`retrieved` must hold one list for each of {num_queries} queries; got {len(rows)}.")
    lengths, items = reader.read("retrieved", rows, order)
    return in_matrix(items, lengths, -1)


def in_matrix(
    values: Shaped[Tensor, " entries"], lengths: Int[Tensor, " queries"], padding: float
) -> Shaped[Tensor, "queries longest"]:
    """Return lists that are stored end to end as a matrix with padding behind each list, and one column at least."""
    num_lists = len(lengths)
    longest = max(1, int(lengths.max())) if num_lists else 1
    if len(values) == num_lists * longest:
        return values.view(num_lists, longest)
    matrix = values.new_full((num_lists, longest), padding)
    matrix[segments.runs(0, lengths)] = values
    return matrix


def read_truth(
    positives: Lists, gains: Lists | None, protocol: Protocol, reader: ItemReader, queries: ListQueries
) -> tuple[Truth, int]:
    """Return the listed pairs, and the number of queries.

    Raises:
        TypeError: items, grades or lists of another type.
        ValueError: lists that the protocol does not name, other numbers of grades, or bad grades.
    """
    gains = queries.values_of("gains", gains)
    rows = read_rows("positives", queries.values_of("positives", positives))
    rows, junk, grades = _by_form(rows, gains, protocol, queries)
    lengths, items = reader.read("positives", rows)
    junk_lengths, junk_items = reader.read("positives", junk)
    item = torch.cat([items, junk_items.to(items.device)])
    query = torch.cat([segments.numbers(lengths), segments.numbers(junk_lengths.to(items.device))])
    is_junk = torch.arange(len(item), device=item.device) >= len(items)
    is_listed = item >= 0  # -1 is padding
    grade = None
    if grades is not None:
        argument = "positives" if gains is None else "gains"
        rule = "have a grade for each item of `positives`"
        values = read_entries(argument, "grades", grades, lengths, beside="positives", rule=rule)
        is_finite = values.isfinite()
        if not bool(is_finite.all()):
            raise ValueError(f"`{argument}` must hold grades that are finite; got {float(values[~is_finite][0])}.")
        grade = values.to(item.device)[is_listed]
    return Truth(query[is_listed], item[is_listed], is_junk[is_listed], grade), len(lengths)


def _by_form(rows: Any, gains: Lists | None, protocol: Protocol, queries: ListQueries) -> tuple[Any, Any, Any]:
    """Return positives, junk and grades, from lists, from mappings of items to grades, or of names to lists."""
    if isinstance(rows, Tensor) or not any(isinstance(row, Mapping) for row in rows):
        return rows, [], gains
    if gains is not None or not all(isinstance(row, Mapping) or not row for row in rows):
        raise TypeError("`positives` must be mappings for all queries, without `gains`, or lists; got both.")
    first_row: Mapping[Any, Any] = next(filter(None, rows), {})
    first_value = next(iter(first_row.values()), None)  # if it is a list, all should be
    if not isinstance(first_value, (Tensor, np.ndarray, *_ROWS)):
        grades = [list(row.values()) if row else [] for row in rows]
        return rows, [], grades
    check_list_names(rows, protocol, "positives", name=queries.name)
    positives = [_join_lists(row, protocol.positive_lists) for row in rows]
    junk = [_join_lists(row, protocol.junk_lists) for row in rows]
    return positives, junk, None


def _join_lists(row: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """Return the items of some lists of a query end to end."""
    items: list[Any] = []
    for name in names:
        items_of_list = as_list(row.get(name, ()))
        check_kinds([items_of_list], _ROWS, f"`positives` must hold a list of items as {name!r}")
        items.extend(items_of_list)
    return items


def _order_of_runs(rows: list[Any]) -> tuple[Int[NDArray[Any], " items"] | None, float]:
    """Return the places of all items, end to end, in the order of their lists, and `ItemReader.share_tied`.

    The places are None if all items are in their order.

    Items of a run are by falling score, then by the falling item as a string; those of lists are as they are:

        lists  [{"a": 1., "b": 2.}, ["c", "d"]]    items  a b c d    order  1 0 2 3
    """
    check_kinds(rows, (list, tuple, Mapping), "`retrieved` must hold lists, which have an order")
    are_runs = [isinstance(row, Mapping) for row in rows]
    runs = list(compress(rows, are_runs))
    if not runs:
        return None, 0.0
    scores = _scores_of_runs(runs)
    lengths = np.array([len(row) for row in rows], np.int64)
    starts = (np.cumsum(lengths) - lengths)[are_runs].tolist()
    order = np.arange(lengths.sum())
    end = num_tied = 0
    is_in_order = True
    for start, run in zip(starts, runs, strict=True):
        first, end = end, end + len(run)
        scores_of_run = scores[first:end]
        if not (scores_of_run[1:] < scores_of_run[:-1]).all():
            places, num_tied_in_run = _order_of_run(run, scores_of_run)
            order[start : start + len(run)] = start + places
            num_tied += num_tied_in_run
            is_in_order = False
    num_followers = end - sum(map(bool, runs))
    return None if is_in_order else order, num_tied / max(1, num_followers)


def _scores_of_runs(runs: list[Any]) -> NDArray[np.float32]:
    """Return the scores of all runs, end to end, as trec_eval compares them."""
    scores = as_floats("retrieved", "scores", list(chain.from_iterable(run.values() for run in runs)))
    is_nan = np.isnan(scores)
    if is_nan.any():
        ends = np.cumsum([len(run) for run in runs], dtype=np.int64)
        run = runs[int(np.searchsorted(ends, is_nan.argmax(), "right"))]
        got = list(run.values())[:5]
        raise ValueError(f"`retrieved` must have scores that can be ordered; got {got}.")
    with np.errstate(over="ignore"):  # trec_eval 9 has float32, infinite where it overflows
        return scores.astype(np.float32)


def _order_of_run(run: Mapping[Any, Any], scores: NDArray[np.float32]) -> tuple[Int[NDArray[Any], " items"], int]:
    """Return the places of the items of a run by falling score, then by the falling item as a string.

    Also return the number of items with the score of the item before them.
    """
    order = np.argsort(-scores, kind="stable")
    num_tied = int((scores[order[1:]] == scores[order[:-1]]).sum())
    if num_tied:
        names = list(map(str, run))
        by_name = np.array(sorted(range(len(names)), key=names.__getitem__, reverse=True))
        order = by_name[np.argsort(-scores[by_name], kind="stable")]
    return order, num_tied
