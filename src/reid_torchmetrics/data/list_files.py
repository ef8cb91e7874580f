"""Ranked lists and their truth: TREC's runs and judgements, faiss' neighbors, Oxford's and Paris' files, JSON.

trec run      query Q0 item rank score name     {query: {item: score}}
qrels         query 0 item grade                {query: {item: grade}}
names         item                              [item, ...], best first
Oxford        all_souls_1_good.txt, _ok, _junk  {query: {"good": [item, ...], ...}}
revisited     gnd_roxford5k.pkl                 {query: {"easy": [item, ...], ...}}
"""

from __future__ import annotations

import json
import pickle
import pickletools
import re
from collections.abc import Iterable
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance

from .array_files import FORMATS, UNNAMED, Format, read_arrays, reading, refused, text_lines
from .vector_files import read_vectors

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"  # no digit fits two parts, which would take quadratic time
_RUN = ("query Q0 item rank score name", re.compile(rf"(\S+)\s+\S+\s+(\S+)\s+\S+\s+({NUMBER})\s+\S+"), float)
_QRELS = ("query 0 item grade", re.compile(r"(\S+)\s+\S+\s+(\S+)\s+([-+]?\d+)"), int)
_NUM_ITEM_BYTES = 8  # of a reference in a list
_OXFORD_LISTS = ("good", "ok", "junk")


def read_retrieved(path: str | PathLike[str]) -> Any:
    """Read ranked lists, for `evaluate_lists`.

    Args:
        path: of a run in TREC's form, lines of six columns: query, Q0, item, rank, score and name; a .npy of integers,
            as `search` of faiss returns them, an .ivecs, or `neighbors` in HDF5; a .json; a text file of items, one in
            a line, best first; or a folder of such text files, .txt, named like the queries.

    Returns:
        Scores by query and item for a run, strings and floats; an array [queries, items], mapped, for a .npy or .ivecs; what
        stands in it for a .json, queries with lists or with items and scores; a list of items for a text file; lists of
        items by query for a folder.

    Raises:
        FileNotFoundError: no such file, or a folder without a .txt.
        ValueError: a damaged file, a line of another form, a score that is no number, or an item that a run repeats
            for a query; the message is one line that names the file, and the line in it.
    """
    path = Path(path)
    if path.is_dir():
        if not (lists := sorted(path.glob("*.txt"))):
            raise FileNotFoundError(f"There is no .txt file in {str(path)!r}.")
        return {each.stem: _read_items(each) for each in lists}
    if path.suffix.lower() in _ARRAYS:
        return _read_neighbors(path)
    if path.suffix.lower() == ".json":
        return _read_json(path)
    # Runs have any suffix, or none: the first line says what it is.
    _, first = next(text_lines(path), ("", ""))
    return _read_table(path, *_RUN) if len(first.split()) > 1 else _read_items(path)


def read_ground_truth(path: str | PathLike[str], *, by_name: bool = True) -> Any:
    """Read the truth of ranked lists, for `evaluate_lists`.

    Args:
        path: of judgements in TREC's form (qrels), lines of four columns: query, 0, item and grade; a folder of Oxford
            or Paris, with `<query>_good.txt`, `_ok.txt` and `_junk.txt` for each query; a .json; integers as for
            `read_retrieved`; or a `gnd_roxford5k.pkl` of the revisited ones, of which containers, strings, numbers and arrays of numbers are
            read and nothing else, so that it cannot run code. Sources: trec_eval; Philbin et al., CVPR 2007;
            Radenović et al., CVPR 2018.
        by_name: whether queries and items of a .pkl are its names; else they are numbers, for `ground_truth=` of the
            metrics.

    Returns:
        Grades by query and item for judgements, strings and ints; lists of items by query and name for a folder,
        "good", "ok" and "junk", and for a .pkl, such as "easy", "hard" and "junk"; lists of items for integers; what stands in it for a .json.

    Raises:
        FileNotFoundError: no such file, or a folder without a `_good.txt`, `_ok.txt` or `_junk.txt`.
        ValueError: a damaged file, a line of another form, an item that a query repeats in judgements, a query without
            one of its three lists, or a .pkl with other classes or items that it does not list; the message is one line
            that names the file, and the line in it.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() == ".json":
        return _read_json(path)
    if path.suffix.lower() in _ARRAYS:
        return [row[row >= 0].tolist() for row in _read_neighbors(path)]
    if path.suffix.lower() == ".pkl":
        with reading(path, "the ground truth of the revisited Oxford and Paris, without other classes"):
            return _read_revisited(path.read_bytes(), by_name=by_name)
    return _read_table(path, *_QRELS)


def _read_neighbors(path: Path) -> Array:
    """Return the integers [queries, items] of a file of arrays, where HDF5 has them as `neighbors`."""
    arrays = read_arrays(path, _ARRAYS)
    name = UNNAMED if UNNAMED in arrays else "neighbors"
    if name not in arrays:
        raise refused(path, "an array must be called `neighbors`", ", ".join(arrays) or "none")
    neighbors: Array = arrays[name]
    if neighbors.ndim != 2 or neighbors.dtype.kind not in "iu":
        came = f"{[*neighbors.shape]} of {neighbors.dtype}"
        raise refused(path, "the array must hold integers of shape [queries, items]", came)
    return neighbors


def _read_ivecs(path: Path) -> dict[str, Array]:
    return {UNNAMED: read_vectors(path, "<i4")}


_ARRAYS: dict[str, Format] = {
    **{suffix: FORMATS[suffix] for suffix in (".npy", ".h5", ".hdf5")},
    ".ivecs": (_read_ivecs, "vectors of integers, all of one length"),
}
"""files of neighbors, by suffix"""


def _read_items(path: Path) -> list[str]:
    lines = [*text_lines(path)]
    for where, line in lines:
        if len(line.split()) > 1:
            raise refused(where, "a line must be one item", repr(line[:80]))
    return [line for _, line in lines]


def _read_table(path: Path, form: str, pattern: re.Pattern[str], number: type) -> dict[str, dict[str, Any]]:
    """The numbers in lines by query and item."""
    table: dict[str, dict[str, Any]] = {}
    second_words: set[str] = set()
    for where, line in text_lines(path):
        found = pattern.fullmatch(line)
        if found is None:
            raise refused(where, f"a line must be {form}", repr(line[:80]))
        query, item, value = found.groups()
        if form == _RUN[0]:
            # Lists of a query and five items have six columns, too; in a run the second says nothing.
            second_words.add(line.split()[1])
            if len(second_words) > 1:
                raise refused(where, "the second column of a run must be one word, such as Q0", sorted(second_words))
        items = table.setdefault(query, {})
        if item in items:
            raise refused(where, "a query must have an item once", f"{item!r} again for {query!r}")
        try:
            items[item] = number(value)
        except ValueError:  # Python reads integers of up to 4300 digits
            raise refused(where, f"a line must be {form}", f"a number of {len(value)} digits") from None
    if not table:
        raise refused(path, f"the file must have lines of {form}", "none")
    return table


def _read_json(path: Path) -> Any:
    # Python would keep the last of two lists of the same name, and drop the first in silence.
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"a name that stands twice among {[name for name, _ in pairs][:5]}")
        return dict(pairs)

    with reading(path, "JSON of queries with their lists"):
        lists = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=distinct)
        rows = lists.values() if isinstance(lists, dict) else lists
        if not isinstance(lists, (dict, list)) or not all(isinstance(row, (dict, list)) for row in rows):
            raise ValueError(f"{str(lists)[:40]}")
    return lists


def _read_folder(folder: Path) -> dict[str, dict[str, list[str]]]:
    truth: dict[str, dict[str, list[str]]] = {}
    for path in sorted(folder.glob("*_*.txt")):
        query, _, name = path.stem.rpartition("_")
        if name in _OXFORD_LISTS:
            truth.setdefault(query, {})[name] = _read_items(path)
    for query, lists in truth.items():
        if len(lists) < len(_OXFORD_LISTS):
            rule = f"a query must have the lists {', '.join(_OXFORD_LISTS)}"
            raise refused(folder, rule, f"{', '.join(lists)} alone for {query!r}")
    if not truth:
        raise FileNotFoundError(f"There is no file *_good.txt in {str(folder)!r}.")
    return truth


class _PickledDtype:
    """A dtype of NumPy as it is pickled: of integers and floats alone."""

    def __init__(self, allowance: Allowance, code: str) -> None:
        if not re.fullmatch("[iuf][1248]", code):
            raise ValueError(f"an array of dtype {code!r}")
        self.code, self.order = code, "<"  # as pickled, but for what `__setstate__` is told
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
    """Reads containers, strings, numbers, and arrays of numbers as lists; no class or function of the file's choice."""

    def __init__(self, file: BytesIO, allowance: Allowance) -> None:
        super().__init__(file)
        self._allowance = allowance

    def find_class(self, module: str, name: str) -> Any:
        # What NumPy 1 and 2 and Python 2 and 3 name in pickles of any protocol.
        known = {
            "numpy.dtype": lambda code, *_: _PickledDtype(self._allowance, code),
            "numpy.ndarray": self._list,
            "numpy.core.multiarray._reconstruct": lambda *_: _PickledArray(),
            "numpy.core.multiarray.scalar": lambda dtype, contents: dtype.read(contents)[0],
            "numpy.core.numeric._frombuffer": lambda contents, dtype, *_: dtype.read(contents),
            "_codecs.encode": lambda text, _: self._encoded(text),
            "builtins.set": lambda *items: set(self._list(*items)),
            "builtins.bytes": lambda: b"",
        }
        full = f"{module}.{name}".replace("numpy._core.", "numpy.core.").replace("__builtin__.", "builtins.")
        if full not in known:
            raise ValueError(f"the class {module}.{name}")
        return known[full]

    # A pickle may refer to the same object any number of times, so that copies are counted.
    def _list(self, items: Iterable[Any] = ()) -> list[Any]:
        copied = list(items)
        self._allowance.spend("a list", _NUM_ITEM_BYTES * len(copied))
        return copied

    def _encoded(self, text: str) -> bytes:
        self._allowance.spend("a string", len(text))
        return text.encode("latin1")


def _read_revisited(contents: bytes, *, by_name: bool) -> dict[Any, dict[str, list[Any]]]:
    for opcode, argument, _ in pickletools.genops(contents):  # memory is reserved as they say
        if opcode.name.endswith("PUT") and int(argument or 0) > len(contents):
            raise ValueError(f"place {argument} in {len(contents)} bytes")
    allowance = Allowance(len(contents))
    saved = _SafeUnpickler(BytesIO(contents), allowance).load()
    items, queries, truth = (saved[name] for name in ("imlist", "qimlist", "gnd"))
    if not len({*queries}) == len(queries) == len(truth):
        raise ValueError(f"{len(truth)} lists for {len({*queries})} queries")
    # A pickle may refer to the same list any number of times.
    num_items = 0
    for lists_of_query in truth:
        num_items += sum(len(places) for name, places in lists_of_query.items() if name != "bbx")
    allowance.spend("the lists", _NUM_ITEM_BYTES * num_items)
    # `bbx` is the box of the query in its image.
    lists = [{name: [*places] for name, places in each.items() if name != "bbx"} for each in truth]
    named = [{name: [_item(items, place) for place in each[name]] for name in each} for each in lists]
    return dict(zip(queries, named, strict=True)) if by_name else dict(enumerate(lists))


def _item(items: list[str], place: int) -> str:
    if not 0 <= place < len(items) or not isinstance(items[place], str):
        raise ValueError(f"the item {place} of {len(items)}")
    return items[place]
