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
from .array_names import FIELD_NAMES, Asked, Labels, as_label, as_labels, find_names, guessed, of_file

_NUMBERED = r"(?:^|/)(?P<identity>-1|\d+)_c(?P<camera>\d+)[^/]*$"
NAME_PATTERNS = {
    "market1501": _NUMBERED,
    "dukemtmc": _NUMBERED,
    "veri776": _NUMBERED,
    "msmt17": r"(?:^|/)(?P<identity>\d+)_\d+_(?P<camera>\d+)_[^/]*$",
}
"""for each benchmark how a file's name begins: the person or vehicle, and the camera"""
_PLURALS = {"identity": "identities", "camera": "cameras"}


def read_labels(
    path: str | PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    guesses: list[str] | None = None,
    used: set[str] | None = None,
) -> Labels:
    """Read the labels of samples from a table: .csv, .parquet (PyArrow), or a file of `read_samples`.

    Columns are found by the names that the field uses, such as `pid` and `camid`. Positions may be a pair of columns:
    easting and northing, utm_east and utm_north, x and y.

    Args:
        path: of the file; a .csv begins with a row of names, and is in UTF-8. A .npy holds identities alone.
        names: what a column is called, by what it is: `{"identities": "y"}`; else exactly one column may be it.
        guesses: gets a line for each column that was found by a name of the field, as `SampleFile.guesses`.
        used: as in `read_samples`.

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
    path, asked = Path(path), Asked(names or {}, used=used)
    columns = read_arrays(path, _TABLES | FORMATS)
    with of_file(path):
        columns = _with_positions(columns, asked.names)
    chosen = find_names(path, [key for key in FIELD_NAMES if key != "embeddings"], columns, asked, alone="identities")
    shape = np.shape(columns.get(UNNAMED, ()))
    if len(shape) == 2 and 1 not in shape:
        rule = "an array without a name must be identities [N]; positions and others have names, as in .npz"
        raise refused(path, rule, [*shape])
    if not chosen:
        raise refused(path, "a column must be a label by its name, or be said to be by `names`", ", ".join(columns))
    if guesses is not None:
        guesses += guessed(path, chosen, asked.names)
    return as_labels(path, chosen, columns)


def _read_csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        header = [name.strip() for name in next(rows, [])]
        cells = [(rows.line_num, row) for row in rows if row]  # a blank line is none
    for line, row in cells:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} names in line {line}")
    if not cells or len(set(header)) < len(header):
        raise ValueError(f"{len(cells)} rows of {', '.join(header) or 'nothing'}")
    columns = zip(*(row for _, row in cells), strict=True)
    return {name: _parsed(column) for name, column in zip(header, columns, strict=True)}


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
    is_name = any("_" in text for text in texts)  # Python reads 1_2 as 12
    for dtype in () if is_name else (np.int64, np.float64):
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


def labels_from_names(paths: Iterable[str | PathLike[str]], pattern: str = "market1501") -> Labels:
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
        fits = {"identity"} <= expression.groupindex.keys() <= _PLURALS.keys()
    except re.error:
        fits = False
    if not fits:
        rule = f"one of {', '.join(NAME_PATTERNS)}, or a regular expression with groups `identity` and `camera`"
        raise ValueError(f"`pattern` must be {rule}; got {pattern!r}.")
    rows = []
    for path in paths:
        match = expression.search(PurePath(path).as_posix())
        if match is None or not all(match.groupdict().values()):
            raise ValueError(f"`paths` must have the pattern {pattern!r} in each name; got {str(fspath(path))!r}.")
        rows.append(match.groupdict())
    if not rows:
        raise ValueError("`paths` must not be empty; got none.")
    columns = {name: _parsed([row[name] for row in rows]) for name in expression.groupindex}
    return {_PLURALS[name]: as_label(_PLURALS[name], name, column) for name, column in columns.items()}
