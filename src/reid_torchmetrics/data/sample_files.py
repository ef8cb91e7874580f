"""Files of embeddings with their labels, in one file or in shards; and labels from tables and names of files.

Embeddings are mapped, not copied.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance, natural_order

from .array_files import FORMATS, UNNAMED, Format, num_bytes_of, of_file, optional, read_arrays, refused
from .array_names import FIELD_NAMES, MATRICES, Asked, Labels, as_label, as_labels, find_names, guessed

NAME_PATTERNS = {
    **dict.fromkeys(("market1501", "dukemtmc", "veri776"), r"(?:^|/)(?P<identity>-1|\d+)_c(?P<camera>\d+)[^/]*$"),
    "msmt17": r"(?:^|/)(?P<identity>\d+)_\d+_(?P<camera>\d+)_[^/]*$",
}
"""for each benchmark how a file's name begins: the person or vehicle, and the camera"""
_PLURALS = {"identity": "identities", "camera": "cameras"}
_KINDS = {"b": "", "i": "", "f": "", "U": " as strings"}
_NUMBERS = ("int", "uint", "float", "double", "halffloat")  # beginnings of the names of types of Parquet
_TEXTS = ("string", "large_string", "binary", "large_binary")
"""types of Parquet's columns"""
_ARRAYS = [key for key in FIELD_NAMES if key != "names"]
_COLUMNS = [key for key in FIELD_NAMES if key not in MATRICES]


class Reopened:
    """Embeddings in a file that is opened whenever rows are taken, and closed when these are dropped."""

    def __init__(self, embeddings: Array | Tensor, read: Callable[[], Array | Tensor]) -> None:
        """Take embeddings, to see their form, and what reads them again."""
        self.shape, self.dtype, self._read = tuple(embeddings.shape), embeddings.dtype, read

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Array | Tensor:
        return self._read()[rows]


@dataclass(frozen=True, eq=False)
class SampleFile:
    """Embeddings and labels of a file."""

    path: str
    """as opened"""
    embeddings: Array | Tensor | Reopened
    """[N, D], floats of 16 to 64 bits: an array, a tensor for bfloat16; mapped where the format can be, or
    read anew for each slice"""
    labels: Labels
    """what the file has of its N samples, by the names that `evaluate` and the metrics know, or that were asked for:
    int64, or strings for `number_identities`; `positions` float64 [N, 1 to 3]"""
    guesses: tuple[str, ...]
    """a line for each array that was found by a name of the field: "query.npz: `feat` as embeddings" """
    roles: Array | None = None
    """bool [N], True for queries, where the file says it"""
    names: Array | None = None
    """the names of the samples, strings [N], where the file has them, such as `paths`"""
    kind: str = "embeddings"
    """or "distances" or "scores" of queries and gallery items, in the place of embeddings: a row for each item of the
    side that was read"""


def read_samples(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    role: _names.Role | None = None,
    names: Mapping[str, str] | None = None,
    used: set[str] | None = None,
    reopened: bool = False,
    missing: _names.MissingLabels = "error",
    labels: Collection[str] = (),
) -> list[SampleFile]:
    """Open files of embeddings and labels, of .npy, .npz, .pt, .pth, .safetensors or .mat.

    Arrays are found by the names that the field uses, such as `feat`, `pids` and `camids`, or `gallery_f`,
    `gallery_label` and `gallery_cam`, as layumi's `pytorch_result.mat` has them. Embeddings stay on disk, mapped,
    unless they are compressed, as by `numpy.savez_compressed`. No file can run code: what needs pickle is refused.
    Whether embeddings are finite is left to the evaluation.

    Args:
        source: a file, a folder, a pattern such as `gallery-*.npy`, or a sequence of these. The files of a folder or
            pattern are shards, in natural order, 2 before 10; but the .npy of a folder are the arrays of one file, by
            their names, where one is called like a label, such as `pids.npy`.
        role: "query" or "gallery", of a file that has arrays of both.
        names: what an array is called, by what it is: `{"embeddings": "my_array", "identities": "y"}`; without these
            exactly one array may be it. An array alone in a .npy or .pt has no name, and is embeddings.
        used: gets the keys of `names` whose array is there, so that other files may have the others; None: each file
            must have all.
        reopened: hold no embeddings, and open a file again whenever rows are taken: `embeddings[:100]`.
        missing: "junk" keeps identities that are missing, as NaN or "", for evaluations with `missing="junk"`; "error"
            refuses them.
        labels: names of further labels, such as ("side",), for evaluations with `must_agree` or `must_differ`: an array
            of that name holds each, integers or strings, where there is one.

    Returns:
        The files, with labels of N samples for embeddings [N, D].

    Raises:
        FileNotFoundError: no such file, a pattern without a match, or a folder without files of these formats.
        ModuleNotFoundError: safetensors is not installed.
        ValueError: `role` or `names` unknown; a file that is damaged or needs pickle, without embeddings, or with
            several arrays that may be the same; arrays of another shape, dtype or length; a file given twice, shards
            that differ in width, dtype or labels. The message is one line that names the file and the array.
    """
    asked = Asked(names or {}, role, used, missing, labels)
    paths = _paths(source, asked)
    if not paths or len({os.path.realpath(path) for path in paths}) < len(paths):  # `resolve` fails for loops
        raise ValueError(f"`source` must name files, none of them twice; got {[*map(str, paths)]}.")
    files = [_reopened(path, asked) if reopened else _open(path, asked) for path in paths]
    for each in files:
        if _form(each) != _form(files[0]):
            raise refused(each.path, f"a shard must have the form of {files[0].path}, {_form(files[0])}", _form(each))
    return files


def _paths(source: str | PathLike[str] | Sequence[str | PathLike[str]], asked: Asked) -> list[Path]:
    if not isinstance(source, (str, PathLike)):
        return [path for each in source for path in _paths(each, asked)]
    is_folder, name = Path(source).is_dir(), fspath(source)
    if Path(source).is_file() or asked.are_in(Path(source)):
        return [Path(source)]
    found = glob.glob(f"{glob.escape(name)}/*" if is_folder else name, recursive=True)  # noqa: PTH207 - of any folder
    paths = [path for path in map(Path, found) if not is_folder or path.suffix.lower() in FORMATS]
    if not paths:
        wanted = f"file of {', '.join(FORMATS)} in" if is_folder else "file"
        raise FileNotFoundError(f"There is no {wanted} {name!r}.")
    return sorted(paths, key=natural_order)


def _open(path: Path, asked: Asked) -> SampleFile:
    arrays = read_arrays(path)
    chosen = find_names(path, [*_ARRAYS, *asked.labels], arrays, asked, alone="embeddings")
    kind, *others = [key for key in MATRICES if key in chosen] or [""]
    if not kind or others:
        came = ", ".join(f"`{name}`" for name in arrays) or "none"
        rule = "one array must be the embeddings, distances or scores by its name, or be said to be by `names`"
        raise refused(path, rule, came)
    if "roles" in chosen and np.ndim(arrays[chosen["roles"]]) == 0:  # one word about the whole file
        del chosen["roles"]
    guesses = tuple(guessed(path, chosen, asked.names))
    name = chosen.pop(kind)
    # Rows of a matrix are of the queries, its columns of the gallery.
    embeddings = arrays[name].T if kind != "embeddings" and asked.role == "gallery" else arrays[name]
    with of_file(path):
        checked = _checks.embeddings(name or kind, embeddings)
        if not isinstance(embeddings, np.ndarray):  # NumPy has no bfloat16
            embeddings = checked if checked.dtype == torch.bfloat16 else checked.detach().numpy()
    labels = as_labels(path, chosen, arrays, len(checked), asked.missing)
    roles = labels.pop("roles", None)
    names = _names_of_rows(arrays, asked, len(checked))
    return SampleFile(str(path), embeddings, labels, guesses, roles, names, kind)


def _names_of_rows(arrays: Mapping[str, Any], asked: Asked, length: int) -> Array | None:
    """The one array of strings that is called like names of files, of one side or of all."""
    name = asked.names.get("names", "")
    called = [name] if name in arrays else [each for each in arrays if asked.may_be("names", each)]
    texts = [np.asarray(arrays[each]) for each in called if not isinstance(arrays[each], Tensor)]
    fitting = [values.ravel() for values in texts if values.dtype.kind in "US" and values.size == length]
    return fitting[0].astype(str) if len(fitting) == 1 else None


def _reopened(path: Path, asked: Asked) -> SampleFile:
    """A file without anything that stays open: labels are copied."""
    file = _open(path, asked)
    embeddings = Reopened(cast("Array", file.embeddings), lambda: cast("Array", _open(path, asked).embeddings))
    return replace(
        file,
        embeddings=embeddings,
        labels={key: values.copy() for key, values in file.labels.items()},
        names=None if file.names is None else file.names.copy(),
    )


def _form(file: SampleFile) -> str:
    """What all shards share."""
    dtype = str(file.embeddings.dtype).removeprefix("torch.")
    labels = [f"{key}{[*values.shape[1:]] or ''}{_KINDS[values.dtype.kind]}" for key, values in file.labels.items()]
    labels += [] if file.roles is None else ["roles"]
    return f"[N, {file.embeddings.shape[1]}] of {dtype} with {', '.join(labels) or 'no labels'}"


def read_labels(
    path: str | PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    guesses: list[str] | None = None,
    used: set[str] | None = None,
    field: _names.LabelField | None = None,
    missing: _names.MissingLabels = "error",
    labels: Collection[str] = (),
) -> Labels:
    """Read the labels of samples from a table: .csv, .parquet (PyArrow), or a file of `read_samples`.

    Columns are found by the names that the field uses, such as `pid` and `camid`. Positions may be a pair of columns:
    easting and northing, utm_east and utm_north, x and y.

    Args:
        path: of the file, or of a folder with .npy files by name; a .csv begins with a row of names, and is in UTF-8.
        names: what a column is called, by what it is: `{"identities": "y"}`; else exactly one column may be it.
        guesses: gets a line for each column that was found by a name of the field, as `SampleFile.guesses`.
        used: as in `read_samples`.
        field: what an array without a name is, as in a .npy; None: the only one of `labels`, else identities, or
            positions if it holds two or three floats for each sample.
        missing: as in `read_samples`; an empty cell of a .csv, and a null of a .parquet, is missing.
        labels: as in `read_samples`.

    Returns:
        What the table has of N samples, in its order: the labels of a `SampleFile`, with identities as bool [N, labels]
        where samples have several labels; "roles", bool, True for queries,
        from a column such as `split` with "query" and "gallery" or "test", or `is_query`; and "names", the names of
        files.

    Raises:
        OSError: there is no such file, or it may not be read.
        ModuleNotFoundError: PyArrow is not installed.
        ValueError: `names` unknown; a file that is damaged, empty, without any label, or with several columns that may
            be the same; rows of unequal length; values that are neither whole numbers nor names, or other roles. The
            message is one line that names the file and the column.
    """
    path, asked = Path(path), Asked(names or {}, used=used, missing=missing, labels=labels)
    keys = [*_COLUMNS, *asked.labels]
    _checks.one_of("field", field or "identities", _COLUMNS)
    columns = read_arrays(path, TABLES | FORMATS)
    if field is not None and UNNAMED not in columns:
        raise refused(path, f"the {field} must be an array without a name, as in .npy", ", ".join(columns))
    with of_file(path):
        columns = _with_positions(columns, asked.names)
    alone: str = field or "identities"
    given = columns.get(UNNAMED, np.empty(0))
    if field is None and len(asked.labels) == 1:
        (alone,) = asked.labels
    elif field is None and given.ndim == 2 and given.shape[1] in (2, 3) and "float" in str(given.dtype):
        alone = "positions"  # and nothing else
    chosen = find_names(path, keys, columns, asked, alone)
    if not chosen:
        raise refused(path, "a column must be a label by its name, or be said to be by `names`", ", ".join(columns))
    if guesses is not None:
        guesses += guessed(path, chosen, asked.names)
    return as_labels(path, chosen, columns, missing=missing)


def _read_csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        # A blank cell is what pandas and R write above the numbers of rows, and Excel behind the last column.
        names = [name.strip() for name in next(rows, [])]
        header = [name or f"column {place}" for place, name in enumerate(names, start=1)]
        cells = [(rows.line_num, row) for row in rows if row]  # a blank line is none
    for line, row in cells:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} names in line {line}")
    if not cells or len(set(header)) < len(header):
        raise ValueError(f"{len(cells)} rows of {', '.join(header) or 'nothing'}")
    columns = zip(*(row for _, row in cells), strict=True)
    allowance = Allowance(path.stat().st_size)
    return {name: _parsed(column, allowance) for name, column in zip(header, columns, strict=True)}


def _read_parquet(path: Path) -> dict[str, Any]:
    parquet = optional("pyarrow.parquet", "pyarrow")
    allowance = Allowance(path.stat().st_size)
    with parquet.ParquetFile(path) as file:
        # Lists may be embeddings.
        flat = [field.name for field in file.schema_arrow if not field.type.num_fields]
        # Equal values may take a bit each.
        allowance.spend("a table", 8 * file.metadata.num_rows * len(flat))
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        allowance.spend("a table", sum(group.total_byte_size for group in groups))
        texts = [field.name for field in file.schema_arrow if str(field.type) in _TEXTS]
    table = parquet.read_table(path, columns=flat, read_dictionary=texts)
    return {name: _column(name, table[name], allowance) for name in flat}


def _column(name: str, column: Any, allowance: Allowance) -> Array:
    """A column of Parquet as an array."""
    kind = str(column.type)
    if kind.startswith(_NUMBERS):
        return cast("Array", column.to_numpy())  # NaN in the place of a null
    if not kind.startswith("dictionary"):
        # A null of another type is no label, but the column may be another one.
        return np.full(len(column), None) if column.null_count else cast("Array", column.to_numpy())
    # The file has a text once, and the array has it in each row, as long as the longest.
    column = column.unify_dictionaries()
    distinct = np.asarray(column.chunk(0).dictionary.to_pylist() if column.num_chunks else [])
    allowance.spend(f"`{name}`", distinct.dtype.itemsize * len(column))
    if column.null_count:
        distinct = np.append(distinct.astype(str), "")
    places = [chunk.indices.fill_null(len(distinct) - 1).to_numpy() for chunk in column.chunks]
    return distinct[np.concatenate(places)] if places else distinct


TABLES: dict[str, Format] = {
    ".csv": (_read_csv, "comma-separated values in UTF-8, rows as long as the first, which names them"),
    ".parquet": (_read_parquet, "a whole table of Parquet"),
}


def _parsed(texts: Sequence[str], allowance: Allowance | None = None) -> Array:
    """Integers or floats if all texts are, NaN for an empty one, else strings, of at most some bytes."""
    is_name = any("_" in text for text in texts)  # Python reads 1_2 as 12
    for dtype in () if is_name else (np.int64, np.float64):
        with suppress(ValueError, OverflowError):
            return np.array(texts, dtype=dtype)
    is_empty = np.array([not text for text in texts])
    if not is_name and is_empty.any() and not is_empty.all():
        with suppress(ValueError, OverflowError):
            return np.array([text or "nan" for text in texts], dtype=np.float64)
    if allowance is not None:
        allowance.spend("texts", num_bytes_of(texts))
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
