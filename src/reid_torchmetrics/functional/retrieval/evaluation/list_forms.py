"""Forms of ranked lists and of their truth, read into integers.

matrix          of ints, -1 where nothing is            one row per query
lists           of ints or strings                      one per query, of any lengths
mapping         of queries, ints or strings, to lists   the keys of the truth are the queries
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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

from .ground_truth import check_list_names
from .protocol import Protocol

Lists: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | Mapping[Any, Any]
"""For every query a list of items, ints or strings: a matrix of ints, lists, or a mapping of queries to lists"""

MISSING_QUERIES = {
    "neg": "a query of the truth without a list retrieved nothing (trec_eval -c, Kaggle)",
    "skip": "it is left out (trec_eval, pytrec_eval, ranx)",
}
UNKNOWN_QUERIES = {
    "error": "a list of a query that the truth lacks is an error",
    "skip": "it is left out (trec_eval, pytrec_eval)",
}
_ARRAYS = (Tensor, np.ndarray)
_ROWS = (list, tuple, Mapping, AbstractSet)


class Truth(NamedTuple):
    """What is known of queries: pairs of a query and an item, each once."""

    query: Int[Tensor, " listed"]
    item: Int[Tensor, " listed"]
    is_junk: Bool[Tensor, " listed"]
    grade: Float[Tensor, " listed"] | None = None
    """float64, above 0 for a positive, 0 for a judged negative; None where positives come without grades"""
    is_kept: Bool[Tensor, " gallery"] | None = None
    """False for gallery items that are junk for all queries; None where the gallery is not known"""


class Flat(NamedTuple):
    """The lists of all queries, end to end."""

    lengths: Int[Tensor, " queries"]
    items: Int[Tensor, " items"]


class ItemReader:
    """Items as integers: ints are their own, strings are numbered as they come."""

    def __init__(self) -> None:
        self.names: defaultdict[str, int] = defaultdict()
        self.names.default_factory = self.names.__len__
        self._kind = ""

    def read(self, argument: str, lists: Tensor | list[Any]) -> Flat:
        """Read the items of a matrix or of lists, of the kind that was read before.

        Raises:
            TypeError: ints and strings, or other items.
            ValueError: an int below -1.
        """
        if isinstance(lists, Tensor):
            kind, lengths = "ints", torch.full((len(lists),), lists.shape[1], device=lists.device)
            items = lists.long().flatten()
        else:
            values = [*chain.from_iterable(lists)]
            kind = _kind_of(argument, "items", values)
            numbers = map(self.names.__getitem__, values) if kind == "strings" else values
            lengths = torch.tensor([len(row) for row in lists], dtype=torch.int64, device="cpu")
            try:
                items = torch.from_numpy(np.fromiter(numbers, np.int64, len(values)))
            except OverflowError as error:
                raise ValueError(f"`{argument}` must hold ints that fit int64; got {error}.") from None
        if kind and self._kind not in ("", kind):
            raise TypeError(f"`{argument}` must hold {self._kind}, as `positives` does; got {kind}.")
        self._kind = kind or self._kind
        if len(items) and int(items.min()) < -1:
            raise ValueError(f"`{argument}` must hold items of at least 0, or -1 for nothing; got {int(items.min())}.")
        return Flat(lengths, items)

    def name(self, item: int) -> str:
        """An item as it was given."""
        return repr([*self.names][item]) if self.names else str(item)


class Joined(NamedTuple):
    """Lists and truth in one order."""

    retrieved: Any
    positives: Any
    keys: tuple[Any, ...] | None = None
    """of the truth, where it is a mapping"""
    places: tuple[int, ...] | None = None
    """of the keys in the truth"""

    def of_keys(self, argument: str, values: Any) -> Any:
        """The values of the keys, where an argument is a mapping."""
        if not isinstance(values, Mapping):
            return values
        for key in ("matrix",) if self.keys is None else self.keys:
            if key not in values:
                raise ValueError(f"`{argument}` must have the queries of `positives` as keys; got none for {key!r}.")
        return [values[key] for key in self.keys or ()]

    def name(self, query: int) -> str:
        """A query by its key, or by its number."""
        return str(query) if self.keys is None else repr(self.keys[query])


def join_keys(retrieved: Lists, positives: Lists, missing_queries: str, unknown_queries: str) -> Joined:
    """Lists and truth in the order of the truth.

    Raises:
        TypeError: only one of both is a mapping, or keys that are neither all ints nor all strings.
        ValueError: a query that the truth lacks, unless such ones are skipped.
    """
    if not isinstance(retrieved, Mapping) or not isinstance(positives, Mapping):
        if isinstance(retrieved, Mapping) or isinstance(positives, Mapping):
            came = " and ".join(type(each).__name__ for each in (retrieved, positives))
            raise TypeError(f"`retrieved` and `positives` must both be mappings of queries, or neither; got {came}.")
        return Joined(retrieved, positives)
    unknown = [key for key in retrieved if key not in positives]
    if unknown and unknown_queries == "error":
        raise ValueError(f"`retrieved` must have no query that `positives` lacks; got {unknown[0]!r}.")
    kind, kind_of_unknown = (_kind_of("positives", "queries as keys", keys) for keys in (positives, unknown))
    if kind and kind_of_unknown not in ("", kind):
        raise TypeError(f"`retrieved` must have {kind} as keys, as `positives` has; got {kind_of_unknown}.")
    kept = {key: place for place, key in enumerate(positives) if missing_queries == "neg" or key in retrieved}
    rows = [retrieved.get(key, ()) for key in kept], [positives[key] for key in kept]
    return Joined(*rows, tuple(kept), tuple(kept.values()))


def read_retrieved(retrieved: Lists, reader: ItemReader, num_queries: int) -> Int[Tensor, "queries longest"]:
    """The lists as a matrix with -1 behind each list, and one column at least."""
    rows = _rows("retrieved", retrieved)
    if not isinstance(rows, Tensor):
        rows = _ranked(rows)
    if len(rows) != num_queries:
        raise ValueError(f"`retrieved` must hold one list for each of {num_queries} queries; got {len(rows)}.")
    lengths, items = reader.read("retrieved", rows)
    longest = max(1, int(lengths.max())) if num_queries else 1
    if len(items) == num_queries * longest:
        return items.view(num_queries, longest)
    matrix = items.new_full((num_queries, longest), -1)
    matrix[segments.runs(0, lengths)] = items
    return matrix


def read_truth(joined: Joined, grades: Lists | None, protocol: Protocol, reader: ItemReader) -> tuple[Truth, int]:
    """The listed pairs, and the number of queries.

    Raises:
        TypeError: items, grades or lists of another type.
        ValueError: lists that the protocol does not name, other numbers of grades, or bad grades.
    """
    rows, junk, argument = _rows("positives", joined.positives), list[Any](), "gains"
    if not isinstance(rows, Tensor) and any(isinstance(row, Mapping) for row in rows):
        if grades is not None or not all(isinstance(row, Mapping) or not row for row in rows):
            raise TypeError("`positives` must be mappings for all queries, without `gains`, or lists; got both.")
        # Names of lists, or items with their grades.
        if isinstance(next((value for row in rows if row for value in row.values()), 0), (*_ARRAYS, *_ROWS)):
            check_list_names(rows, protocol, "positives", name=joined.name)
            sides = protocol.positive_lists, protocol.junk_lists
            rows, junk = ([[*_joined(row.get(name, ()) for name in names)] for row in rows] for names in sides)
        else:
            grades, argument = [[*row.values()] if row else [] for row in rows], "positives"
    lengths, items = reader.read("positives", rows)
    lengths_of_junk, items_of_junk = (each.to(items.device) for each in reader.read("positives", junk))
    item = torch.cat([items, items_of_junk])
    query = torch.cat([segments.numbers(lengths), segments.numbers(lengths_of_junk)])
    grade = None if grades is None else _read_grades(argument, grades, lengths).to(item.device)
    pairs = query, item, torch.arange(len(item), device=item.device) >= len(items), grade
    listed = item >= 0
    return Truth(*(None if values is None else values[listed] for values in pairs)), len(lengths)  # type: ignore[arg-type]


def _rows(argument: str, lists: Any) -> Tensor | list[Any]:
    """A matrix of ints, or a collection of Python's values for each query."""
    (given,) = _arrays.as_tensors(lists) if isinstance(lists, (np.ndarray, Tensor)) else (lists,)
    if isinstance(given, Tensor):
        if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
            raise TypeError(f"`{argument}` must hold items that are all ints, or all strings; got {given.dtype}.")
        if given.ndim != 2:
            raise ValueError(f"`{argument}` must have shape [queries, items]; got {list(given.shape)}.")
        return given
    if not isinstance(given, (np.ndarray, list, tuple)):
        raise TypeError(f"`{argument}` must be a matrix, lists or a mapping of queries; got {type(lists).__name__}.")
    rows = [row.tolist() if isinstance(row, _ARRAYS) else row for row in given]
    for row in rows:
        if not isinstance(row, _ROWS):
            raise TypeError(f"`{argument}` must hold one list for each query; got {type(row).__name__}.")
    return rows


def _joined(lists: Any) -> chain[Any]:
    return chain.from_iterable(values.tolist() if isinstance(values, _ARRAYS) else values for values in lists)


def _ranked(rows: list[Any]) -> list[Any]:
    """Lists, and the items of runs by falling score, then by the falling item as a string."""
    for row in rows:
        if not isinstance(row, (list, tuple, Mapping)):
            raise TypeError(f"`retrieved` must hold lists, which have an order; got {type(row).__name__}.")
    scores = _read_scores([row for row in rows if isinstance(row, Mapping)])
    rising = np.sort(scores, axis=1)
    are_tied = (rising[:, 1:] == rising[:, :-1]).any(1).tolist()
    runs = (place for place, row in enumerate(rows) if isinstance(row, Mapping))
    ordered = [*rows]
    for place, any_tied, of_run in zip(runs, are_tied, scores, strict=True):
        ordered[place] = _by_score(rows[place], any_tied, of_run)
    return ordered


def _by_score(run: Mapping[Any, Any], any_tied: bool, scores: NDArray[np.float32]) -> list[Any]:
    if not any_tied:  # the scores that were given have the same order, and are found faster
        return sorted(run, key=run.__getitem__, reverse=True)
    of_items = dict(zip(run, scores.tolist(), strict=False))
    return sorted(sorted(run, key=str, reverse=True), key=of_items.__getitem__, reverse=True)


def _read_scores(runs: list[Mapping[Any, Any]]) -> NDArray[np.float32]:
    """Scores in float32, as trec_eval 9 holds them, infinite where it overflows; NaN behind each run."""
    lengths = np.array([len(run) for run in runs], dtype=np.int64)
    given = _as_floats("retrieved", "scores", [*chain.from_iterable(run.values() for run in runs)])
    if np.isnan(given).any():
        run = runs[int(np.searchsorted(lengths.cumsum(), np.isnan(given).argmax(), "right"))]
        raise ValueError(f"`retrieved` must have scores that can be ordered; got {[*run.values()][:5]}.")
    scores = np.full((len(runs), max(lengths, default=0)), np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):
        scores[np.arange(scores.shape[1]) < lengths[:, None]] = given
    return scores


def _read_grades(argument: str, grades: Any, lengths: Int[Tensor, " queries"]) -> Float[Tensor, " items"]:
    rows = [row.tolist() if isinstance(row, _ARRAYS) else row for row in grades]
    if [len(row) for row in rows] != lengths.tolist():
        raise ValueError(f"`{argument}` must have a grade for each item of `positives`; got lists of other lengths.")
    values = _as_floats(argument, "grades", [*chain.from_iterable(rows)])
    if not np.isfinite(values).all():
        raise ValueError(f"`{argument}` must hold grades that are finite; got {values[~np.isfinite(values)][0]}.")
    return torch.from_numpy(values)


def _as_floats(argument: str, what: str, values: Collection[Any]) -> NDArray[np.float64]:
    """Numbers as float64."""
    for kind in {*map(type, values)}:
        if not issubclass(kind, (int, float, np.integer, np.floating)):
            raise TypeError(f"`{argument}` must have {what} that are numbers; got {kind.__name__}.")
    try:
        return np.fromiter(values, np.float64, len(values))
    except OverflowError as error:
        raise ValueError(f"`{argument}` must have {what} that fit float64; got {error}.") from None


def _kind_of(argument: str, what: str, values: Collection[Any]) -> str:
    """What values are, "ints" or "strings"; "" where there are none."""
    types = {*map(type, values)}
    for kind, classes in (("ints", (int, np.integer)), ("strings", (str,))):
        if all(issubclass(each, classes) and each is not bool for each in types):
            return kind if types else ""
    came = " and ".join(sorted(each.__name__ for each in types))
    raise TypeError(f"`{argument}` must hold {what} that are all ints, or all strings; got {came}.")
