"""Labels of samples: from tables, and from the names of files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from reid_torchmetrics._arrays import Array

from .array_files import FORMATS, UNNAMED, Format, optional, read_arrays, refused
from .array_names import FIELD_NAMES, as_label, as_vector, check_asked, find_names, guessed, of_file

_ROLES = {
    **dict.fromkeys(("query", "queries", "q", "probe"), True),
    **dict.fromkeys(("gallery", "g", "test", "database", "db", "index"), False),
}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}

_NUMBERED = r"(?:^|/)(?P<identity>-1|\d+)_c(?P<camera>\d+)[^/]*$"
NAME_PATTERNS = {
    "market1501": _NUMBERED,
    "dukemtmc": _NUMBERED,
    "veri776": _NUMBERED,
    "msmt17": r"(?:^|/)(?P<identity>\d+)_\d+_(?P<camera>\d+)_[^/]*$",
}
"""for each benchmark how a file's name begins: the person or vehicle, and the camera"""


def read_labels(
    path: str | PathLike[str], *, names: Mapping[str, str] | None = None, guesses: list[str] | None = None
) -> dict[str, Array]:
    """Read the labels of samples from a table: .csv, .parquet (PyArrow), or a file of `read_samples`.

    Columns are found by the names that the field uses, such as `pid` and `camid`. Positions may be a pair of columns:
    easting and northing, utm_east and utm_north, x and y.

    Args:
        path: of the file; a .csv begins with a row of names, and is in UTF-8. A .npy holds identities alone.
        names: what a column is called, by what it is: `{"identities": "y"}`; else exactly one column may be it.
        guesses: gets a line for each column that was found by a name of the field, as `SampleFile.guesses`.

    Returns:
        What the table has of N samples, in its order: the labels of a `SampleFile`; "roles", bool, True for queries,
        from a column such as `split` with "query" and "gallery" or "test", or `is_query`; and "names", the names of
        files.

    Raises:
        OSError: there is no such file, or it may not be read.
        ModuleNotFoundError: PyArrow is not installed.
        ValueError: `names` unknown; a file that is damaged, empty, without any label, or with several columns that may
            be the same; rows of unequal length; values that are neither whole numbers nor names, or other roles. The
            message is one line that names the file and the column.
    """
    path, names = Path(path), check_asked(names)
    columns = read_arrays(path, _TABLES | FORMATS)
    with of_file(path):
        if UNNAMED in columns:
            return {"identities": as_label("identities", "identities", columns[UNNAMED])}
        columns = _with_positions(columns, names)
    chosen = find_names(path, [key for key in FIELD_NAMES if key != "embeddings"], columns, names)
    if not chosen:
        raise refused(path, "a column must be a label by its name, or be said to be by `names`", ", ".join(columns))
    if guesses is not None:
        guesses += guessed(path, chosen, names)
    labels, length = dict[str, Array](), None
    with of_file(path):
        for key, name in chosen.items():
            labels[key] = (
                _as_roles(name, columns[name], length) if key == "roles" else as_label(key, name, columns[name], length)
            )
            length = len(labels[key])
    return labels


def _read_csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        header = [name.strip() for name in next(rows, [])]
        cells = []
        for row in rows:
            if row and len(row) != len(header):
                raise ValueError(f"{len(row)} cells for {len(header)} names in line {rows.line_num}")
            cells += [row] if row else []
    if not cells or len(set(header)) < len(header):
        raise ValueError(f"{len(cells)} rows of {', '.join(header) or 'nothing'}")
    return {name: _parsed(column) for name, column in zip(header, zip(*cells, strict=True), strict=True)}


def _read_parquet(path: Path) -> dict[str, Any]:
    parquet = optional("pyarrow.parquet", "pyarrow")
    flat = [field.name for field in parquet.read_schema(path) if not field.type.num_fields]  # lists may be embeddings
    table = parquet.read_table(path, columns=flat)
    return {name: np.asarray(table[name].to_pylist()) for name in flat}


_TABLES: dict[str, Format] = {
    ".csv": (_read_csv, "comma-separated values in UTF-8, rows as long as the first, which names them"),
    ".parquet": (_read_parquet, "a whole table of Parquet"),
}


def _parsed(texts: Sequence[str]) -> Array:
    """Integers or floats if all texts are, else strings."""
    if not any("_" in text for text in texts):  # Python reads 1_2 as 12
        for dtype in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                return np.array(texts, dtype=dtype)
    return np.array(texts, dtype=str)


def _with_positions(columns: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The columns, with a pair that is positions as one."""
    spelled = {name.lower(): name for name in columns if name not in names.values() and np.ndim(columns[name]) == 1}
    for name in FIELD_NAMES["positions"].split():
        pair = [spelled.get(each, "") for each in name.split("/")]
        if len(pair) > 1 and all(pair):
            columns[name] = np.stack([columns.pop(each) for each in pair], axis=1)
    return columns


def _as_roles(name: str, given: Any, length: int | None) -> Array:
    """True for queries."""
    values = as_vector(name, np.asarray(given), length)
    known = _FLAGS if name.lower() == "is_query" or values.dtype == bool else _ROLES
    texts, place = np.unique(values.astype(str), return_inverse=True)
    for text in texts:
        if text.lower() not in known:
            raise ValueError(f"`{name}` must hold {', '.join(known)} only; got {str(text)!r}.")
    return np.array([known[text.lower()] for text in texts], dtype=bool)[place]


def labels_from_names(paths: Iterable[str | PathLike[str]], pattern: str = "market1501") -> dict[str, Array]:
    r"""Identities and cameras from the names of files.

    Args:
        paths: of N images, which need not exist.
        pattern: "market1501", "dukemtmc" or "veri776", `0002_c1s1_000451_03.jpg`, where -1 is junk; "msmt17",
            `0000_000_01_0303morning_0015_0.jpg`; or a regular expression with a group `identity`, and `camera`
            where there is one, found in the path: `r"(?P<identity>[^/]+)/[^/]+$"` takes folders.

    Returns:
        "identities" and "cameras", each int64 [N] if all are numbers, else strings for `number_identities`.

    Raises:
        ValueError: a name without the pattern, no names, or a pattern that is no such expression.

    Example:
        >>> labels_from_names(["0002_c1s1_000451_03.jpg", "-1_c3s2_000001_00.jpg"])
        {'identities': array([ 2, -1]), 'cameras': array([1, 3])}
    """
    try:
        expression = re.compile(NAME_PATTERNS.get(pattern, pattern))
        fits = {"identity"} <= expression.groupindex.keys() <= {"identity", "camera"}
    except re.error:
        fits = False
    if not fits:
        rule = f"one of {', '.join(NAME_PATTERNS)}, or a regular expression with groups `identity` and `camera`"
        raise ValueError(f"`pattern` must be {rule}; got {pattern!r}.")
    columns: dict[str, list[str]] = {name: [] for name in expression.groupindex}
    for path in paths:
        found = expression.search(PurePath(path).as_posix())
        if found is None or not all(found.groupdict().values()):
            raise ValueError(f"`paths` must have the pattern {pattern!r} in each name; got {fspath(path)!r}.")
        for name, text in found.groupdict().items():
            columns[name].append(text)
    if not columns["identity"]:
        raise ValueError("`paths` must not be empty; got none.")
    plural = {"identity": "identities", "camera": "cameras"}
    return {plural[name]: as_label(plural[name], name, _parsed(texts)) for name, texts in columns.items()}


def number_identities(*sides: Array) -> tuple[Array, ...]:
    """Number names, of all queries and gallery items at once, in the order of the sorted names; "-1" stays -1.

    Args:
        sides: strings [N] of each side; integers are returned as they are.

    Returns:
        int64 [N] for each side; the same name has the same number on all.

    Raises:
        TypeError: strings on one side and integers on another.

    Example:
        >>> number_identities(np.array(["bo", "al"]), np.array(["cy", "bo", "-1"]))
        (array([1, 0]), array([ 2,  1, -1]))
    """
    kinds = {side.dtype.kind for side in sides}
    if "U" not in kinds:
        return sides
    if kinds != {"U"}:
        came = " and ".join(str(side.dtype) for side in sides)
        raise TypeError(f"`sides` must hold strings on all sides, or integers on all; got {came}.")
    names = np.unique(np.concatenate(sides))
    names = names[names != "-1"]
    return tuple(np.where(side == "-1", -1, np.searchsorted(names, side)) for side in sides)
