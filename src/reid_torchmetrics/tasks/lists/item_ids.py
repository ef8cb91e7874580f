"""Read what search engines and servers return as rows of ids, ints or strings.

matrix          of ints, with -1 as padding             one row per query
lists           of ints or strings                      one per query, of any lengths
"""

from __future__ import annotations

from collections import abc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

Lists: TypeAlias = Tensor | NDArray[Any] | _arrays.TableColumn | Sequence[Any] | Mapping[Any, Any]
"""For every query a list of items, ints or strings: a matrix of ints, lists, or a mapping of queries to lists"""

ROWS = (list, tuple, Mapping, abc.Set)
_ARRAYS = (Tensor, np.ndarray)
_UNSIGNED_PADDING = 2**64 - 1
_NO_NAMES = (Number, np.generic, Collection, type(None))
"""types that name no item; tensors and arrays are collections, too"""


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
            rows = _checks.signed(argument, rows, least=-1)  # as in `fit_int64`
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
    check_kinds(rows, ROWS, f"`{argument}` must hold one list for each query")
    return rows


def as_list(values: Any) -> Any:
    """Return an array or a column of a table as a list; other values as they are."""
    if isinstance(values, ROWS):
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


def fit_int64(argument: str, values: Iterable[int]) -> Iterator[int]:
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
