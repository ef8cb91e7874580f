"""Ranked lists and their ground truth: TREC's runs and judgements, faiss' neighbors, Oxford's and Paris' files, JSON.

lines         see `list_lines`
names         item                              [item, ...], best first
Oxford        all_souls_1_good.txt, _ok, _junk  {query: {"good": [item, ...], ...}}
revisited     gnd_roxford5k.pkl                 {query: {"easy": [item, ...], ...}}
"""

from __future__ import annotations

import json
import pickle
import pickletools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.files import Allowance, readable

from .array_files import FORMATS, UNNAMED, Format, file_error, read_arrays, read_vectors, reading
from .array_names import kind_of_numbers
from .foreign_forms import conversion, conversion_of_lists
from .list_lines import RETRIEVED_FORMS, TRUTH_FORMS, read_lines
from .table_files import TABLES
from .text_files import first_line, open_text, read_rows, read_text_lines

_NUM_ITEM_BYTES = 8  # of a reference in a list
_VERI_POSITIVES = "gt_index.txt"
_VERI_JUNK = "jk_index.txt"
_QUERY_BOX = "bbx"
"""the box of a query in its image, beside the lists in the files of the revisited Oxford and Paris"""
_OXFORD_LISTS = ("good", "ok", "junk")


def read_retrieved(path: str | PathLike[str], *, form: _names.ListForm | None = None, one_based: bool = False) -> Any:
    """Read ranked lists, for `evaluate_lists`.

    Args:
        path: a file of lines of text in a form below; a .npy of integers, as `search` of faiss returns them, an .ivecs,
            or `neighbors` in HDF5; a .json; a .csv of queries with their items by white space; a text file of items,
            one in a line, best first; or a folder of such text files, .txt, named like the queries.
        form: the form of all lines; None finds it in the file.
            "run": `query Q0 item rank score name`, as in TREC's files.
            "rank": `query item rank`, as in MS MARCO's.
            "scores": `query item score`, the highest first, where a header says so or numbers are not whole.
            "query": a query and its items, as in MSLS' and hloc's.
            "items": numbers of items alone, as in VisDA's.
            A file whose first line has Q0 as its second word is a run.
        one_based: whether numbers of items count from 1.

    Returns:
        Scores by query and item for a run or scores, strings and floats; lists of items by query where lines name it,
        for a .csv and for a folder; lists of numbers for items alone; an array [queries, items], mapped, for arrays;
        the contents of a .json, queries with lists or with items and scores; a list of items for a text file.

    Raises:
        FileNotFoundError: No such file, or a folder without a .txt.
        ValueError: An unknown `form`, lines that fit several forms, a damaged file, a line of another form, distances
            by their header, a score that is no number, an item that a query repeats, or names where numbers count from
            1; the message is one line that names the file, and the line in it.
    """
    path = Path(path)
    if form is not None:
        _checks.one_of("form", form, RETRIEVED_FORMS)
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise FileNotFoundError(f"There is no .txt file in {str(path)!r}.")
        lists: Any = {file.stem: _read_items(file) for file in files}
    else:
        lists = _read_file(path, RETRIEVED_FORMS, form)
    return _from_zero(path, lists) if one_based else lists


def read_ground_truth(
    path: str | PathLike[str], *, by_name: bool = True, form: _names.TruthForm | None = None, one_based: bool = False
) -> Any:
    """Read the ground truth of ranked lists, for `evaluate_lists`.

    Args:
        path: a file of lines of text in a form below; a folder of Oxford or Paris, with `<query>_good.txt`, `_ok.txt`
            and `_junk.txt` for each query, or of VeRi, with `gt_index.txt` and `jk_index.txt`; a .json; a .csv or
            arrays as for `read_retrieved`; or a `gnd_roxford5k.pkl` of the revisited Oxford and Paris. Of a .pkl only
            containers, strings, numbers and arrays of numbers are read, so that it cannot run code. Sources: trec_eval;
            Philbin et al., CVPR 2007; Radenović et al., CVPR 2018.
        by_name: whether queries and items of a .pkl are its names; else they are numbers, for `ground_truth=` of the
            metrics.
        form: the form of all lines; None finds it in the file.
            "qrels": `query 0 item grade`, as in TREC's files.
            "grades": `query item grade`, as in BEIR's.
            "pairs": `query item`, as in hloc's.
            "items": numbers of items alone, as in VeRi's.
        one_based: whether numbers of items count from 1, as VeRi's.

    Returns:
        Grades by query and item for judgements, strings and ints; lists of items by query for pairs and a .csv, and by
        query and name for a folder, "good", "ok" and "junk", and for a .pkl, such as "easy", "hard" and "junk"; lists
        of numbers for arrays and for items alone, "ok" and "junk" in VeRi's folder; the contents of a .json.

    Raises:
        FileNotFoundError: No such file, or a folder without a `_good.txt`, `_ok.txt` or `_junk.txt`.
        ValueError: An unknown `form`, lines that fit several forms, a damaged file, a line of another form, an item
            that a query repeats, a query without one of its three lists, names where numbers count from 1, or a .pkl
            with other classes or items that it does not list; the message is one line that names the file, and the
            line in it.
    """
    path = Path(path)
    if form is not None:
        _checks.one_of("form", form, TRUTH_FORMS)
    if path.is_dir():
        truth: Any = _read_veri(path) if (path / _VERI_POSITIVES).is_file() else _read_oxford(path)
    elif path.suffix.lower() == ".pkl":
        with reading(path, "the ground truth of the revisited Oxford and Paris, without other classes"):
            truth = _read_revisited(path.read_bytes(), by_name=by_name)
    else:
        truth = _read_file(path, TRUTH_FORMS, form)
        if isinstance(truth, np.ndarray):
            truth = [row[row >= 0].tolist() for row in truth]
    return _from_zero(path, truth) if one_based else truth


def _read_file(path: Path, forms: Sequence[str], form: str | None) -> Any:
    """Read a file of arrays, JSON, a table or lines of text in one of some forms."""
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        return _read_neighbors(path)
    if suffix == ".json":
        return _read_json(path)
    if suffix == ".csv":
        return _read_csv(path)
    _check_suffix(path)
    # Runs have any suffix, or none: the first line tells them from lists of items.
    if forms is RETRIEVED_FORMS and form is None and len(first_line(path).split()) == 1:
        return _read_items(path)
    return read_lines(path, forms, form)


def _check_suffix(path: Path) -> None:
    """Raise if a suffix is that of a known format without text.

    Raises:
        ValueError: The message has the line of code that converts the file.
    """
    suffix = path.suffix.lower()
    remedy = conversion(f"lists in {suffix}")
    columns = list(read_arrays(path, TABLES)) if suffix == ".parquet" else []
    if len(columns) > 1:  # a row for each query and item
        remedy = _conversion_of_rows("rows in .parquet", columns)
    if remedy:
        rule = f"lists must be text, .json, .csv or one of {_checks.listed(_ARRAYS, str)}"
        raise file_error(readable(path), rule, f"{suffix!r}{remedy}")


def _conversion_of_rows(form: str, columns: Sequence[str]) -> str:
    """Return the end of an error message with the line that converts a table, without ranks beside scores."""
    names = {kind_of_numbers(name): name for name in columns}
    dropped = f".drop(columns={names['rank']!r})" if names.keys() >= {"rank", "scores"} else ""
    return conversion(form).replace(".to_csv", f"{dropped}.to_csv")


def _read_veri(folder: Path) -> list[dict[str, list[int]]]:
    """Return the positives and the junk of each query of VeRi."""
    positives = read_lines(folder / _VERI_POSITIVES, TRUTH_FORMS, "items")
    junk = read_lines(folder / _VERI_JUNK, TRUTH_FORMS, "items")
    if len(positives) != len(junk):
        raise file_error(folder, "both files must have a line for each query", f"{len(positives)} and {len(junk)}")
    return [{"ok": ok, "junk": ignored} for ok, ignored in zip(positives, junk, strict=True)]


def _from_zero(path: Path, lists: Any) -> Any:
    """Return lists of numbers from 1 as numbers from 0; 0 in an array stands for no item, and becomes -1.

    Raises:
        ValueError: Names in the place of numbers, or a number below 1.
    """
    if isinstance(lists, np.ndarray):
        return lists - 1
    if isinstance(lists, list):
        return [_from_zero(path, items) for items in lists]
    if isinstance(lists, dict):
        return {name: _from_zero(path, items) for name, items in lists.items()}
    if not isinstance(lists, int) or lists < 1:
        raise file_error(path, "items that count from 1 must be numbers from 1 on", repr(lists))
    return lists - 1


def _read_csv(path: Path) -> dict[str, list[str]]:
    """Return the items of queries, as in Kaggle's submissions: `id,images`, below it `a,b c d`."""
    lists: dict[str, list[str]] = {}
    with reading(path, "comma-separated values, a query and its items by white space, below a row of names"):
        rows = [row for _, row in read_rows(path).numbered_rows]
        if not rows:
            raise ValueError("nothing")
        header, *query_rows = rows
        if any(len(row) != 2 for row in rows) or len(header[1].split()) > 1:
            remedy = _conversion_of_rows("rows in .csv", header) if len(header) > 2 else ""
            raise ValueError(f"{_checks.listed(header, str)}{remedy}")
        for query, items in query_rows:
            if query in lists and len(items.split()) != 1:
                raise ValueError(f"{query!r} twice, with several items")
            lists[query] = [*lists.get(query, ()), *items.split()]
    return lists


def _read_neighbors(path: Path) -> Array:
    """Return the integers [queries, items] of a file of arrays; HDF5 has them as `neighbors`."""
    arrays = read_arrays(path, _ARRAYS)
    name = UNNAMED if UNNAMED in arrays else "neighbors"
    if name not in arrays:
        raise file_error(path, "an array must be called `neighbors`", _checks.listed(arrays, str) or "none")
    neighbors: Array = arrays[name]
    if neighbors.ndim != 2 or neighbors.dtype.kind not in "iu":
        got = f"{list(neighbors.shape)} of {neighbors.dtype}"
        raise file_error(path, "the array must hold integers of shape [queries, items]", got)
    return neighbors


_ARRAYS: dict[str, Format] = {
    ".npy": FORMATS[".npy"],
    ".h5": FORMATS[".h5"],
    ".hdf5": FORMATS[".hdf5"],
    ".ivecs": Format(partial(read_vectors, dtype="<i4"), "vectors of integers, all of one length"),
}
"""formats of files of neighbors, by suffix"""


def _read_items(path: Path) -> list[str]:
    """Return the items of a text file with one item in each line."""
    lines = list(read_text_lines(path))
    for where, line in lines:
        if len(line.split()) > 1:
            raise file_error(where, "a line must be one item", repr(line[:80]))
    return [line for _, line in lines]


def _read_json(path: Path) -> Any:
    with reading(path, "JSON of queries with their lists"):
        with open_text(path) as file:
            lists = json.load(file, object_pairs_hook=_distinct_names)
        rows = lists.values() if isinstance(lists, dict) else lists
        if not isinstance(lists, (dict, list)) or not lists or not all(isinstance(row, (dict, list)) for row in rows):
            raise ValueError(f"{str(lists)[:40]}")
        for query, row in lists.items() if isinstance(lists, dict) else enumerate(lists):
            if not _are_items(row):
                values = list(row.values()) if isinstance(row, dict) else row
                raise ValueError(f"{str(values)[:40]} for {query!r}{conversion_of_lists(lists)}")
    return lists


def _are_items(row: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Return whether the row of a query has items, a bool for each item, or a number or a list for each name."""
    if isinstance(row, Mapping):
        values = [value for value in row.values() if not isinstance(value, list)]
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return not row or {type(item) for item in row} in ({int}, {str}, {bool})


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of an object of JSON, of which Python alone would silently keep the last of two equal names.

    Raises:
        ValueError: A name stands twice.
    """
    contents = dict(pairs)
    if len(contents) < len(pairs):
        raise ValueError(f"a name that stands twice among {[name for name, _ in pairs][:5]}")
    return contents


def _read_oxford(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the lists "good", "ok" and "junk" of each query of Oxford or Paris."""
    truth: dict[str, dict[str, list[str]]] = {}
    for path in sorted(folder.glob("*_*.txt")):
        query, _, name = path.stem.rpartition("_")
        if name in _OXFORD_LISTS:
            truth.setdefault(query, {})[name] = _read_items(path)
    for query, lists in truth.items():
        if len(lists) < len(_OXFORD_LISTS):
            rule = f"a query must have the lists {_checks.listed(_OXFORD_LISTS, str)}"
            raise file_error(folder, rule, f"{_checks.listed(lists, str)} alone for {query!r}")
    if not truth:
        raise FileNotFoundError(f"There is no file *_good.txt in {str(folder)!r}.")
    return truth


class _PickledDtype:
    """A dtype of NumPy as it is pickled: of integers and floats alone."""

    def __init__(self, allowance: Allowance, code: str) -> None:
        if not re.fullmatch("[iuf][1248]", code):
            raise ValueError(f"an array of dtype {code!r}")
        self.code = code
        self.order = "<"  # unless the state in the pickle says otherwise
        self._allowance = allowance

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"

    def read(self, contents: bytes) -> list[Any]:
        numbers = np.frombuffer(contents, self.order + self.code)
        # A pickle may refer to the same bytes any number of times.
        self._allowance.spend("an array", _NUM_ITEM_BYTES * numbers.size)
        return list(numbers.tolist())


class _PickledArray(list[Any]):
    """An array of NumPy as it is pickled, flat."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *_, dtype, _, contents = state
        self[:] = dtype.read(contents)


class _SafeUnpickler(pickle.Unpickler):
    """A reader of pickles that makes containers, strings, numbers, and lists from arrays of numbers; no other class."""

    def __init__(self, file: BytesIO, allowance: Allowance) -> None:
        super().__init__(file)
        self._allowance = allowance

    def find_class(self, module: str, name: str) -> Any:
        """Return the function that stands for a class or function in pickles of any protocol, from NumPy 1 and 2.

        Raises:
            ValueError: Another class or function.
        """
        functions = {
            "numpy.dtype": self._make_dtype,
            "numpy.ndarray": self._make_list,
            "numpy.core.multiarray._reconstruct": lambda *_: _PickledArray(),
            "numpy.core.multiarray.scalar": lambda dtype, contents: dtype.read(contents)[0],
            "numpy.core.numeric._frombuffer": lambda contents, dtype, *_: dtype.read(contents),
            "_codecs.encode": self._encode,
            "builtins.set": self._make_set,
            "builtins.bytes": lambda: b"",
        }
        # Python 2 and NumPy 2 have other names of modules.
        full_name = f"{module}.{name}".replace("numpy._core.", "numpy.core.").replace("__builtin__.", "builtins.")
        if full_name not in functions:
            raise ValueError(f"the class {module}.{name}")
        return functions[full_name]

    def _make_dtype(self, code: str, *_: Any) -> _PickledDtype:
        return _PickledDtype(self._allowance, code)

    # A pickle may refer to the same object any number of times, so that copies are counted.
    def _make_list(self, items: Iterable[Any] = ()) -> list[Any]:
        copied = list(items)
        self._allowance.spend("a list", _NUM_ITEM_BYTES * len(copied))
        return copied

    def _make_set(self, *items: Any) -> set[Any]:
        return set(self._make_list(*items))

    def _encode(self, text: str, _: str) -> bytes:
        self._allowance.spend("a string", len(text))
        return text.encode("latin1")


def _read_revisited(contents: bytes, *, by_name: bool) -> dict[Any, dict[str, list[Any]]]:
    """Return the lists of each query from a pickle of the revisited Oxford or Paris.

    Args:
        contents: The bytes of the file.
        by_name: Whether queries and items are names; else they are numbers.
    """
    for opcode, argument, _ in pickletools.genops(contents):  # unpickling reserves memory for the largest argument
        if opcode.name.endswith("PUT") and int(argument or 0) > len(contents):
            raise ValueError(f"place {argument} in {len(contents)} bytes")
    allowance = Allowance(len(contents))
    saved = _SafeUnpickler(BytesIO(contents), allowance).load()
    items = saved["imlist"]
    queries = saved["qimlist"]
    truth = saved["gnd"]
    num_queries = len(set(queries))
    if not num_queries == len(queries) == len(truth):
        raise ValueError(f"{len(truth)} lists for {num_queries} queries")

    # A pickle may refer to the same list any number of times, so that items are counted before they are copied.
    num_items = 0
    for lists in truth:
        num_items += sum(len(numbers) for name, numbers in lists.items() if name != _QUERY_BOX)
    allowance.spend("the lists", _NUM_ITEM_BYTES * num_items)
    numbered: dict[Any, dict[str, list[Any]]] = {}
    named: dict[Any, dict[str, list[Any]]] = {}
    for index, (query, lists) in enumerate(zip(queries, truth, strict=True)):
        numbered[index] = {name: list(numbers) for name, numbers in lists.items() if name != _QUERY_BOX}
        named[query] = {name: _find_items(items, numbers) for name, numbers in numbered[index].items()}
    return named if by_name else numbered


def _find_items(items: list[str], numbers: list[Any]) -> list[str]:
    """Return the names of items by their numbers.

    Raises:
        ValueError: A number without a name.
    """
    for number in numbers:
        if not 0 <= number < len(items) or not isinstance(items[number], str):
            raise ValueError(f"the item {number} of {len(items)}")
    return [items[number] for number in numbers]
