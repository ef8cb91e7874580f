"""Files of embeddings with their labels, in one file or in shards; and labels from tables and names of files.

Embeddings are mapped, not copied.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance, natural_order

from .array_files import FORMATS, UNNAMED, Format, PythonObjects, of_file, optional, read_arrays, refused
from .array_names import (
    FIELD_NAMES,
    MATRICES,
    Asked,
    Labels,
    as_label,
    as_labels,
    find_names,
    find_unnamed_matrix,
    guessed,
)
from .role_flags import with_flags
from .text_tables import are_images, is_header_missing, names_by_place, parsed, read_csv, read_text

NAME_PATTERNS = {
    **dict.fromkeys(("market1501", "dukemtmc", "veri776"), r"(?:^|/)(?P<identity>-1|\d+)_c(?P<camera>\d+)[^/]*$"),
    "msmt17": r"(?:^|/)(?P<identity>\d+)_\d+_(?P<camera>\d+)_[^/]*$",
    "vpr": r"(?:^|/)@(?P<easting>-?\d+(?:\.\d+)?)@(?P<northing>-?\d+(?:\.\d+)?)@[^/]*$",
}
"""for each benchmark how a file's name begins: the person or vehicle, and the camera; or the position of a place"""
_GROUPS = {
    "identity": "identities",
    "camera": "cameras",
    "sequence": "sequences",
    "clothes": "clothes",
    "group": "groups",
    **dict.fromkeys(("easting", "northing"), "positions"),
}
"""the labels in names of files, by the groups of a pattern"""
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
    """two flags of each sample, bool [N, 2], where the file says them: query, and gallery item; it may be both, where
    `find_self_index` gives the place of each query in the gallery, or neither"""
    names: Array | None = None
    """the names of the samples, strings [N], where the file has them, such as `paths`"""
    kind: _names.MatrixKind = "embeddings"
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
    kind: _names.MatrixKind | None = None,
) -> list[SampleFile]:
    """Open files of embeddings and labels: .npy, .npz, .pt, .safetensors, .mat, .h5, .fvecs, .bvecs; .parquet, .csv.

    Arrays are found by the names that the field uses, such as `feat`, `pids` and `camids`, or `gallery_f`,
    `gallery_label` and `gallery_cam`, as layumi's `pytorch_result.mat` has them. Embeddings stay on disk, mapped,
    unless they are compressed, as by `numpy.savez_compressed`, or in a table: a column of lists in a .parquet, or a
    column for each dimension, counted by name or without names, as `numpy.savetxt` writes it. No file can run code:
    what needs pickle is refused. Whether embeddings are finite is left to the evaluation.

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
        kind: "distances" or "scores" for a matrix of queries and gallery items, which may then have any name or none;
            None: what the name says, and embeddings where there is no name.

    Returns:
        The files, with labels of N samples for embeddings [N, D].

    Raises:
        FileNotFoundError: no such file, a pattern without a match, or a folder without files of these formats.
        ModuleNotFoundError: safetensors is not installed.
        ValueError: `role` or `names` unknown; a file that is damaged or needs pickle, without embeddings, or with
            several arrays that may be the same; arrays of another shape, dtype or length; a file given twice, shards
            that differ in width, dtype or labels. The message is one line that names the file and the array.
    """
    asked = Asked(names or {}, role, used, missing, labels, kind)
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
    arrays, user_names = read_arrays(path, _SAMPLES), asked.names
    with of_file(path):
        if path.suffix.lower() in TABLES:
            arrays, asked = _with_counted(_with_positions(arrays, user_names), asked)
        arrays, unread = with_flags(arrays, asked.names)
    chosen = find_names(path, [*_ARRAYS, *asked.labels], arrays, asked, alone=asked.kind or "embeddings")
    if asked.kind is not None and asked.kind not in chosen:
        chosen[asked.kind] = find_unnamed_matrix(path, arrays, chosen.values(), asked)
    kinds = [key for key in MATRICES if key in chosen]
    if len(kinds) != 1:
        came = ", ".join(f"`{name}`" for name in arrays) or "none"
        rule = "one array must be the embeddings, distances or scores by its name, or be said to be by `names`"
        raise refused(path, rule, came)
    kind = kinds[0]
    if "roles" in chosen and np.ndim(arrays[chosen["roles"]]) == 0:  # one word about the whole file
        del chosen["roles"]
    guesses = (*guessed(path, chosen, user_names, arrays), *_unread_roles(path, unread))
    name = chosen.pop(kind)
    # Rows of a matrix are of the queries, its columns of the gallery.
    embeddings = arrays[name].T if kind != "embeddings" and asked.role == "gallery" else arrays[name]
    with of_file(path):
        checked = _checks.embeddings(name or kind, embeddings)
        if not isinstance(embeddings, np.ndarray):  # NumPy has no bfloat16
            embeddings = checked if checked.dtype == torch.bfloat16 else checked.detach().numpy()
    if kind != "embeddings":
        _check_not_transposed(
            path, name or kind, arrays[name], checked, {each: arrays[each] for each in chosen.values()}
        )
    labels = as_labels(path, chosen, arrays, len(checked), asked.missing)
    roles = labels.pop("roles", None)
    names = _names_of_rows(arrays, asked, len(checked))
    return SampleFile(str(path), embeddings, labels, guesses, roles, names, kind)


def _check_not_transposed(path: Path, name: str, matrix: Any, of_side: Tensor, labels: Mapping[str, Any]) -> None:
    """Raise if a label of a side has the length of the other side of a matrix.

    Args:
        path: File, for the message.
        name: Name of the matrix.
        matrix: Distances or scores as they are in the file.
        of_side: The same with a row for each item of the side that is read.
        labels: Labels of that side by name.

    Raises:
        ValueError: A label has it.
    """
    num_rows, num_columns = of_side.shape
    for label, values in labels.items():
        num_labels = max(np.shape(values), default=0)
        if num_labels == num_columns != num_rows:
            rule = f"`{name}` must have a row for each query and a column for each gallery item"
            came = f"shape {list(np.shape(matrix))}, which is transposed, as `{label}` has {num_labels} values"
            raise refused(path, rule, came)


def _unread_roles(path: Path, names: Sequence[str]) -> list[str]:
    """Lines about arrays of roles that are not read beside flags."""
    return [f"{path}: no roles from `{name}`, as there are flags" for name in names]


def _names_of_rows(arrays: Mapping[str, Any], asked: Asked, length: int) -> Array | None:
    """The one array of strings that is called like names of files, of one side or of all."""
    name = asked.names.get("names", "")
    called = [name] if name in arrays else [each for each in arrays if asked.may_be("names", each)]
    unread = (Tensor, PythonObjects)
    texts = [np.asarray(arrays[each]) for each in called if not isinstance(arrays[each], unread)]
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
    """Read the labels of samples from a table: .csv, .tsv, .txt, .parquet (PyArrow), or a file of `read_samples`.

    With `field` they may also be lines of text, a label each (.txt).

    Columns are found by the names that the field uses, such as `pid` and `camid`. Positions may be a pair of columns:
    easting and northing, utm_east and utm_north, x and y. A .txt without names in its first row may be a column of
    names of images or of identities, or one of each.

    Args:
        path: of the file, or of a folder with .npy files by name; text is in UTF-8, a .csv begins with a row of names.
        names: what a column is called, by what it is: `{"identities": "y"}`, or "column 2" where columns have no names;
            else exactly one column may be it.
        guesses: gets a line for each column that was found by a name of the field, as `SampleFile.guesses`.
        used: as in `read_samples`.
        field: what an array without a name is, as in a .npy; None: the only one of `labels`, else identities, or
            positions if it holds two or three floats for each sample. If `names` has it, nothing else is read.
        missing: as in `read_samples`; an empty cell of text, and a null of a .parquet, is missing.
        labels: as in `read_samples`.

    Returns:
        What the table has of N samples, in its order: the labels of a `SampleFile`, with identities as bool [N, labels]
        where samples have several labels; "roles", bool [N, 2], whether a sample is a query and whether it is a gallery
        item, from `is_query` and `is_gallery`, where a sample may be both, or from a column such as `split` with
        "query" and "gallery" or "test", or with "train" for the gallery and "test" for the queries; and "names", the
        names of files.

    Raises:
        OSError: there is no such file, or it may not be read.
        ModuleNotFoundError: PyArrow is not installed.
        ValueError: `names` unknown; a file that is damaged, empty, without any label, or with several columns that may
            be the same; rows of unequal length; values that are neither whole numbers nor names, or other roles. The
            message is one line that names the file and the column.
    """
    path, asked = Path(path), Asked(names or {}, used=used, missing=missing, labels=labels)
    keys: list[str] = [*_COLUMNS, *asked.labels]
    _checks.one_of("field", field or "identities", _COLUMNS)
    columns = read_arrays(path, TABLES | TEXTS | FORMATS)
    if path.suffix.lower() in TEXTS:
        asked = replace(asked, names=names_by_place(columns) | dict(asked.names))
    is_field_named = field is not None and field in asked.names
    if field is not None and UNNAMED not in columns and not is_field_named:
        raise refused(path, f"the {field} must be an array without a name, as in .npy", ", ".join(columns))
    with of_file(path):
        columns, unread = with_flags(_with_positions(columns, asked.names), asked.names)
    alone: str = field or "identities"
    given = columns.get(UNNAMED, np.empty(0))
    if field is None and len(asked.labels) == 1:
        (alone,) = asked.labels
    elif field is None and given.ndim == 2 and given.shape[1] in (2, 3) and "float" in str(given.dtype):
        alone = "positions"  # and nothing else
    elif field is None and are_images(given):
        alone = "names"
    if field is not None and is_field_named:
        keys, asked = [field], replace(asked, names={field: asked.names[field]})
    chosen = find_names(path, keys, columns, asked, alone)
    if not chosen:
        rule = "a column must be a label by its name, or be said to be by `names`"
        if path.suffix.lower() in TEXTS | TABLES and is_header_missing([*columns]):
            rule = "the first row must name the columns, or `names` must, such as `identities='column 2'`"
        raise refused(path, rule, ", ".join(columns))
    if guesses is not None:
        guesses += [*guessed(path, chosen, names or {}, columns), *_unread_roles(path, unread)]
    return as_labels(path, chosen, columns, missing=missing)


def _read_parquet(path: Path, *, has_vectors: bool = False) -> dict[str, Any]:
    """Return the flat columns of a table, and with `has_vectors` also columns of lists of floats."""
    parquet = optional("pyarrow.parquet", "pyarrow")
    allowance = Allowance(path.stat().st_size)
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        flat = [field.name for field in schema if not field.type.num_fields]
        vectors = [field.name for field in schema if has_vectors and _is_vector(field.type)]
        # Equal values may take a bit each.
        allowance.spend("a table", 8 * file.metadata.num_rows * len(flat))
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        allowance.spend("a table", sum(group.total_byte_size for group in groups))
        # PyArrow may abort where the metadata of a column are damaged: they are looked at for lists alone.
        for group in groups if vectors else ():
            leaves = [group.column(place) for place in range(group.num_columns)]
            nested = [leaf.num_values for leaf in leaves if leaf.path_in_schema.partition(".")[0] in vectors]
            allowance.spend("lists", 8 * sum(nested))
        texts = [field.name for field in schema if str(field.type) in _TEXTS]
    table = parquet.read_table(path, columns=flat + vectors, read_dictionary=texts)
    columns = {name: _column(name, table[name], allowance) for name in flat}
    return columns | {name: _vectors(name, table[name]) for name in vectors}


def _is_vector(kind: Any) -> bool:
    """Return whether a type of Parquet is of lists of floats."""
    is_list = str(kind).partition("<")[0] in ("list", "large_list", "fixed_size_list")
    return is_list and str(kind.field(0).type) in ("halffloat", "float", "double")


def _vectors(name: str, column: Any) -> Array:
    """Return the lists of a column as [N, D]."""
    lengths = optional("pyarrow.compute", "pyarrow").list_value_length(column).unique().to_pylist()
    if len(lengths) != 1 or lengths[0] is None:
        raise ValueError(f"`{name}` with lists of lengths {', '.join(map(str, lengths[:5])) or 'none'}")
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts).reshape(-1, lengths[0])


def _column(name: str, column: Any, allowance: Allowance) -> Array:
    """A column of Parquet as an array."""
    kind = str(column.type)
    if kind.startswith(_NUMBERS):
        return cast("Array", column.to_numpy())  # NaN in the place of a null
    if kind == "bool" and column.null_count:
        return cast("Array", column.cast("uint8").to_numpy())  # NaN in the place of a null
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
    ".csv": (read_csv, "comma-separated values in UTF-8, rows as long as the first, which names them"),
    ".tsv": (read_csv, "values separated by tabs in UTF-8, rows as long as the first, which names them"),
    ".parquet": (_read_parquet, "a whole table of Parquet"),
}
"""by suffix"""
TEXTS: dict[str, Format] = {".txt": (read_text, "text in UTF-8, a row in each line, all of one length")}
"""tables that may be lists to other readers"""
_SAMPLES: dict[str, Format] = {
    **FORMATS,
    **TABLES,
    ".parquet": (partial(_read_parquet, has_vectors=True), TABLES[".parquet"][1]),
}
"""files of embeddings"""


def _with_positions(columns: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The columns, with a pair that is positions as one."""
    spelled = {name.lower(): name for name in columns if name not in names.values() and np.ndim(columns[name]) == 1}
    for name in FIELD_NAMES["positions"].split():
        pair = [spelled.get(each, "") for each in name.split("/")]
        if len(pair) > 1 and all(pair):
            columns[name] = np.stack([columns.pop(each) for each in pair], axis=1)
    return columns


def _with_counted(columns: dict[str, Any], asked: Asked) -> tuple[dict[str, Any], Asked]:
    """Join the columns that count the dimensions of embeddings by their names, `feat_0` to `feat_511`, as one array.

    Columns without names are counted, too. Where an array is called like embeddings, nothing is joined.
    """
    counted: dict[str, list[str]] = {}
    for name, values in columns.items():
        match = re.fullmatch(r"(.*?)(\d+)", name, re.DOTALL)
        if match is not None and np.ndim(values) == 1 and np.asarray(values).dtype.kind in "iuf":
            counted.setdefault(match[1], []).append(name)
    runs: list[list[str]] = []
    for prefix, names in counted.items():
        numbers = [int(name.removeprefix(prefix)) for name in names]
        if len(names) > 1 and numbers in ([*range(len(names))], [*range(1, len(names) + 1)]):
            runs.append(names)
    is_named = "embeddings" in asked.names or any(asked.may_be("embeddings", name) for name in columns)
    if is_named or len(runs) != 1:
        return columns, asked
    (names,) = runs
    joined_name = f"{names[0]} to {names[-1]}"
    joined = {joined_name: np.stack([columns[name] for name in names], axis=1).astype(np.float64)}
    other = {name: values for name, values in columns.items() if name not in names}
    return other | joined, replace(asked, names={**asked.names, "embeddings": joined_name})


def labels_from_names(paths: Iterable[str | PathLike[str]], pattern: str = "market1501") -> Labels:
    r"""Identities, cameras and other labels from the names of files.

    Args:
        paths: of N images, which need not exist.
        pattern: "market1501", "dukemtmc" or "veri776", `0002_c1s1_000451_03.jpg`, where -1 is junk; "msmt17",
            `0000_000_01_0303morning_0015_0.jpg`; "vpr", `@0543256.96@4178906.70@10@S@.jpg`, as of
            VPR-datasets-downloader; or a regular expression that is found in the path, with some of the groups
            `identity`, `camera`, `sequence`, `clothes`, `group`, and `easting` with `northing`:
            `r"(?P<identity>[^/]+)/[^/]+$"` takes folders.

    Returns:
        "identities", "cameras", "sequences", "clothes" and "groups", each int64 [N] if all are numbers, else strings
        for `number_identities`; "positions", float64 [N, 2].

    Raises:
        ValueError: a name without the pattern, no names, or a pattern that is no such expression.

    Example:
        >>> labels_from_names(["0002_c1s1_000451_03.jpg", "-1_c3s2_000001_00.jpg"])
        {'identities': array([ 2, -1]), 'cameras': array([1, 3])}
    """
    try:
        expression = re.compile(NAME_PATTERNS.get(pattern, pattern))
    except re.error:
        expression = re.compile("")  # without groups
    groups = expression.groupindex.keys()
    is_half = ("easting" in groups) != ("northing" in groups)
    if not groups or is_half or not groups <= _GROUPS.keys():
        rule = f"one of {', '.join(NAME_PATTERNS)}, or a regular expression with groups such as `identity` and `camera`"
        raise ValueError(f"`pattern` must be {rule}; got {pattern!r}.")
    rows = []
    for path in paths:
        match = expression.search(PurePath(path).as_posix())
        if match is None or not all(match.groupdict().values()):
            raise ValueError(f"`paths` must have the pattern {pattern!r} in each name; got {str(fspath(path))!r}.")
        rows.append(match.groupdict())
    if not rows:
        raise ValueError("`paths` must not be empty; got none.")
    columns: dict[str, Any] = {name: parsed([row[name] for row in rows]) for name in expression.groupindex}
    if "easting" in columns:
        columns["positions"] = np.stack([columns.pop("easting"), columns.pop("northing")], axis=1)
    return {
        _GROUPS.get(name, name): as_label(_GROUPS.get(name, name), name, values) for name, values in columns.items()
    }
