"""Files of embeddings with their labels, in one file or in shards.

Embeddings are mapped, not copied.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array, as_texts
from reid_torchmetrics.files import natural_order
from reid_torchmetrics.functional.displays import Displayed

from .array_files import FORMATS, Format, PythonObjects, file_error, naming_file, read_arrays
from .array_names import FIELD_NAMES, NameRules, describe_guesses, find_matrix, find_names
from .foreign_forms import conversion
from .label_files import Labels, as_labels
from .role_flags import join_flags
from .table_files import TABLES, join_positions, parse_vectors, read_parquet_with_vectors

_FORMATS: dict[str, Format] = {
    **FORMATS,
    **TABLES,
    ".parquet": TABLES[".parquet"]._replace(read=read_parquet_with_vectors),
}
"""formats of files of embeddings, by suffix"""
_KEYS = [key for key in FIELD_NAMES if key != "names"]
_KINDS_IN_WORDS = {"b": "", "i": "", "f": "", "U": " as strings"}
"""kinds of dtypes of labels, in descriptions of shards"""


class Reopened:
    """Embeddings in a file that is opened whenever rows are read, and closed when the rows are dropped."""

    def __init__(self, embeddings: Array | Tensor, path: Path, rules: NameRules) -> None:
        self.shape = tuple(embeddings.shape)
        self.dtype = embeddings.dtype
        self._path = path
        self._rules = rules

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Array | Tensor:
        embeddings = cast("Array", _open(self._path, self._rules, is_shard=True).embeddings)
        return embeddings[rows]


@dataclass(frozen=True, eq=False, repr=False)
class SampleFile(Displayed):
    """Embeddings and labels of a file."""

    path: str
    """path of the file, as it was opened"""
    embeddings: Array | Tensor | Reopened
    """[N, D], floats of 16 to 64 bits, or integers or bools, for codes: an array, a tensor for bfloat16; mapped where
    the format can be, or read anew for each slice"""
    labels: Labels
    """labels of the N samples, by the names that `evaluate` and the metrics know, or by names of further labels:
    int64, or strings for `number_identities`; `positions` float64 [N, 1 to 3]"""
    guesses: tuple[str, ...]
    """a line for each array that was found by a name of the field: "query.npz: `feat` as embeddings" """
    roles: Array | None = None
    """two flags of each sample, bool [N, 2], where the file says them: query, and gallery item; it may be both, where
    `find_self_index` gives the place of each query in the gallery, or neither"""
    names: Array | None = None
    """names of the samples, strings [N], where the file has them, such as `paths`"""
    kind: _names.MatrixKind = "embeddings"
    """or "distances" or "scores" of queries and gallery items, in the place of embeddings: a row for each item of the
    side that was read"""
    unread_names: str = ""
    """arrays of names of which none can be taken, with their types: "`names`, a structure"; "" where there is none"""


def read_samples(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    role: _names.Role | None = None,
    names: Mapping[str, str] | None = None,
    used_names: set[str] | None = None,
    reopen: bool = False,
    missing_identities: _names.MissingLabels = "error",
    labels: Collection[str] = (),
    kind: _names.MatrixKind | None = None,
) -> list[SampleFile]:
    """Open files of embeddings and labels: .npy, .npz, .pt, .safetensors, .mat, .h5, .fvecs, .bvecs; .parquet, .csv.

    Arrays are found by the names that the field uses, such as `feat`, `pids` and `camids`, or `gallery_f`,
    `gallery_label` and `gallery_cam`, as in layumi's `pytorch_result.mat`. Embeddings stay on disk, mapped, unless they
    are compressed, as by `numpy.savez_compressed`, or in a table: a column of lists in a .parquet, or a column for each
    dimension, with counted names or without names, as `numpy.savetxt` writes it. No file can run code: a file that
    needs pickle is refused. Whether embeddings are finite is left to the evaluation.

    Several files with one sample each, [1, D] or [D], are read into memory as one file [N, D], also with `reopen`. If
    the files hold no names, the name of a sample is the path of its file below their common folder, without suffix.

    Args:
        source: a file, a folder, a pattern such as `gallery-*.npy`, or a sequence of these. The files of a folder or
            pattern are shards, in natural order, 2 before 10; but the .npy of a folder are the arrays of one file, by
            their names, if one has the name of a label, such as `pids.npy`. A .pt may be called .pth, and a .h5 .hdf5.
        role: the side, "query" or "gallery", to read from a file with arrays of both.
        names: names of arrays by their meaning, such as `{"embeddings": "my_array", "identities": "y"}`. Without a name
            from you, exactly one array may have the meaning by its name. An array alone in a .npy or .pt has no name,
            and is embeddings.
        used_names: a set that collects the keys of `names` with an array in a file, so that other files may have the
            rest; None: each file must have all.
        reopen: whether no embeddings are held, and the file is opened again for each slice: `embeddings[:100]`.
        missing_identities: "junk" keeps identities that are missing, as NaN or "", for evaluations with the same
            option; "error" refuses them.
        labels: names of further labels, such as ("side",), for evaluations with `must_agree` or `must_differ`. A file
            may have an array of integers or strings with each name.
        kind: "distances" or "scores" for a matrix of queries and gallery items, under any name or none; None: the kind
            that its name says, and embeddings for an array without a name.

    Returns:
        The files, with labels of N samples for embeddings [N, D].

    Raises:
        FileNotFoundError: There is no such file, no match of the pattern, or no file of these formats in the folder.
        ModuleNotFoundError: A package that reads the format, such as safetensors, is not installed.
        ValueError: An unknown `role` or key of `names`; a file that is damaged or needs pickle, without embeddings, or
            with several arrays of one meaning; arrays of another shape, dtype or length; a file that is there twice;
            shards that differ in width, dtype or labels. The message is one line that names the file and the array.
    """
    rules = NameRules(names or {}, role, used_names, missing_identities, labels, kind)
    paths = _find_files(source, rules)
    distinct_paths = {os.path.realpath(path) for path in paths}  # `Path.resolve` fails for loops
    if not paths or len(distinct_paths) < len(paths):
        raise ValueError(f"`source` must name files, none of them twice; got {list(map(str, paths))}.")
    are_shards = len(paths) > 1
    files = []
    for path in paths:
        file = _open(path, rules, is_shard=are_shards)
        embeddings: Any = file.embeddings
        if are_shards and len(embeddings) == 1:  # a system has a limit of open files
            file = _without_file(file, embeddings.clone() if isinstance(embeddings, Tensor) else np.array(embeddings))
        elif reopen:
            file = _without_file(file, Reopened(embeddings, path, rules))
        files.append(file)
    form = _describe_form(files[0])
    for file in files:
        form_of_shard = _describe_form(file)
        if form_of_shard != form:
            raise file_error(file.path, f"a shard must have the form of {files[0].path}, {form}", form_of_shard)
    are_samples = are_shards and all(len(file.embeddings) == 1 for file in files)
    return [_join_samples(files)] if are_samples and files[0].kind == "embeddings" else files


def _join_samples(files: Sequence[SampleFile]) -> SampleFile:
    """Return files with one sample each as one file; where they have no names, these are those of the files."""
    first = files[0]
    paths = [Path(file.path) for file in files]
    if any(path.is_absolute() for path in paths):
        paths = [path.absolute() for path in paths]
    folder = os.path.commonpath([path.parent for path in paths]) or os.curdir
    names = []
    for path, file in zip(paths, files, strict=True):
        names.append(path.relative_to(folder).with_suffix("").as_posix() if file.names is None else file.names.item())
    guesses = [line.replace(first.path, folder, 1) for line in first.guesses]
    guess = f"{folder}: one sample in each of {len(files)} files, in natural order and named as they are"
    roles = None if first.roles is None else np.concatenate([cast("Array", file.roles) for file in files])
    joined: Any = np.concatenate if isinstance(first.embeddings[:1], np.ndarray) else torch.cat
    return SampleFile(
        path=folder,
        embeddings=joined([file.embeddings[:1] for file in files]),
        labels={key: np.concatenate([file.labels[key] for file in files]) for key in first.labels},
        guesses=(*guesses, guess),
        roles=roles,
        names=np.array(names),
    )


def _find_files(source: str | PathLike[str] | Sequence[str | PathLike[str]], rules: NameRules) -> list[Path]:
    """Return the paths of the files in a source: one file, the shards of a folder or pattern, or several sources."""
    if not isinstance(source, (str, PathLike)):
        paths = []
        for part in source:
            paths += _find_files(part, rules)
        return paths
    path = Path(source)
    if path.is_file() or rules.is_folder_of_arrays(path):
        return [path]
    name = fspath(source)
    pattern = f"{glob.escape(name)}/*" if path.is_dir() else name
    paths = [Path(match) for match in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - of any folder
    description = "file"
    if path.is_dir():
        suffixes = [*FORMATS, ".parquet"]  # text beside arrays may be anything
        paths = [file for file in paths if file.suffix.lower() in suffixes]
        description = f"file of {_checks.listed(suffixes, str)} in"
    if not paths:
        remedy = conversion("datasets") if (path / "dataset_info.json").is_file() else ""
        raise FileNotFoundError(f"There is no {description} {name!r}{remedy}.")
    return sorted(paths, key=natural_order)


def _open(path: Path, rules: NameRules, *, is_shard: bool = False) -> SampleFile:
    """Open a file of embeddings and labels; a shard of embeddings [D] is a file with one sample."""
    passed_over: dict[str, str] = {}
    arrays = read_arrays(path, _FORMATS, passed_over=passed_over)
    with naming_file(path):
        return _as_samples(path, arrays, rules, passed_over, is_shard=is_shard)


def _as_samples(
    path: Path, arrays: dict[str, Any], rules: NameRules, passed_over: Mapping[str, str], *, is_shard: bool
) -> SampleFile:
    """Return the samples in the arrays of a file.

    Raises:
        TypeError: A matrix of another dtype, or a label with values of another kind.
        ValueError: No matrix, several arrays of one meaning, or arrays of another shape.
    """
    # Find the arrays by their names.
    user_names = rules.names
    if path.suffix.lower() in TABLES:
        arrays = join_positions(arrays, user_names)
        arrays, rules = _join_dimensions(arrays, rules)
    arrays, unread_roles = join_flags(arrays, rules.names)
    names = find_names([*_KEYS, *rules.labels], arrays, rules, unnamed_key=rules.kind or "embeddings")
    kind, name = find_matrix(names, arrays, rules, passed_over)
    names[kind] = name
    if "roles" in names and np.ndim(arrays[names["roles"]]) == 0:  # one word about the whole file
        del names["roles"]
    guesses = describe_guesses(path, names, arrays, user_names, unread_roles, passed_over)

    # Check the matrix. Its rows are queries, and its columns gallery items.
    del names[kind]
    matrix = arrays[name]
    embeddings = matrix
    if kind != "embeddings" and rules.role == "gallery":
        embeddings = matrix.T
    if isinstance(matrix, np.ndarray) and matrix.ndim == 1 and matrix.dtype.kind == "U":
        embeddings = parse_vectors(name, matrix.tolist())
    elif is_shard and kind == "embeddings" and np.ndim(matrix) == 1:
        embeddings = matrix[None]
    check = _checks.embeddings_or_codes if kind == "embeddings" else _checks.embeddings
    tensor = check(name or kind, embeddings)
    if not isinstance(embeddings, np.ndarray):
        is_bfloat16 = tensor.dtype == torch.bfloat16  # a dtype that NumPy lacks
        embeddings = tensor if is_bfloat16 else tensor.detach().numpy()
    rule = "a row for each sample"
    if kind != "embeddings":
        rule = "a row for each query and a column for each gallery item"
    _check_not_transposed(name or kind, matrix, tensor, {label: arrays[label] for label in names.values()}, rule)

    # Convert the labels.
    num_samples = len(tensor)
    if is_shard and num_samples == 1:  # a label of one sample may be a number
        arrays |= {label: np.atleast_1d(arrays[label]) for label in names.values() if np.ndim(arrays[label]) == 0}
    labels = as_labels(names, arrays, num_samples, rules.missing_identities)
    roles = labels.pop("roles", None)
    sample_names, unread_names = _find_sample_names(arrays, names.values(), rules, num_samples, passed_over)
    return SampleFile(str(path), embeddings, labels, tuple(guesses), roles, sample_names, kind, unread_names)


def _check_not_transposed(
    name: str, matrix: Any, side_matrix: Tensor, label_arrays: Mapping[str, Any], rule: str
) -> None:
    """Raise if a label of one side is as long as the other side of a matrix.

    Args:
        name: Name of the matrix.
        matrix: Embeddings, distances or scores as they are in the file.
        side_matrix: The same with a row for each item of the side that is read.
        label_arrays: Labels of that side by name.
        rule: What the matrix must have.

    Raises:
        ValueError: A label is.
    """
    num_rows, num_columns = side_matrix.shape
    for label, values in label_arrays.items():
        num_labels = max(np.shape(values), default=0)
        if num_labels == num_columns != num_rows:
            got = f"shape {list(np.shape(matrix))}, which is transposed, as `{label}` has {num_labels} values"
            raise ValueError(f"`{name}` must have {rule}; got {got}.")


def _find_sample_names(
    arrays: Mapping[str, Any],
    other_names: Collection[str],
    rules: NameRules,
    num_samples: int,
    passed_over: Mapping[str, str],
) -> tuple[Array | None, str]:
    """Find the only array with a string or an integer for each sample that is called like names of files, and no label.

    Returns:
        The names of samples, or None and the arrays that are called so in words; "" where there is none.

    Raises:
        ValueError: The array that the user named is none.
    """
    candidates = [name for name in arrays if name not in other_names and rules.allow("names", name)]
    user_name = rules.names.get("names", "")
    if user_name in arrays:
        candidates = [user_name]
    found = []
    unread = {name: form for name, form in passed_over.items() if form != "text"}  # a single text may be a note
    descriptions = [f"`{name}`, {form}" for name, form in unread.items() if rules.allow("names", name)]
    for name in candidates:
        if isinstance(arrays[name], PythonObjects):
            descriptions.append(f"`{name}`, Python objects")
            continue
        if isinstance(arrays[name], Tensor) and arrays[name].is_floating_point():
            continue
        values = np.asarray(arrays[name])
        if values.dtype.kind in "USiu" and values.size == num_samples:
            found.append(values.ravel())
        if values.ndim:
            descriptions.append(f"`{name}`, {values.dtype} of shape {list(values.shape)}")
    if user_name in arrays and not found:
        raise ValueError(
            f"`{user_name}` must hold a string or an integer for each of {num_samples} samples; got other values."
        )
    if len(found) == 1:
        return as_texts(found[0]), ""
    return None, _checks.listed(descriptions, str)


def _without_file(file: SampleFile, embeddings: Array | Tensor | Reopened) -> SampleFile:
    """Return a file with other embeddings, and with labels and names that do not keep it open."""
    labels = {key: values.copy() for key, values in file.labels.items()}
    names = None if file.names is None else file.names.copy()
    return replace(file, embeddings=embeddings, labels=labels, names=names)


def _describe_form(file: SampleFile) -> str:
    """Describe the width, the dtypes and the labels, equal in all shards."""
    dtype = str(file.embeddings.dtype).removeprefix("torch.")
    labels = []
    for key, values in file.labels.items():
        shape = list(values.shape[1:]) or ""
        labels.append(f"{key}{shape}{_KINDS_IN_WORDS[values.dtype.kind]}")
    if file.roles is not None:
        labels.append("roles")
    return f"[N, {file.embeddings.shape[1]}] of {dtype} with {', '.join(labels) or 'no labels'}"


def _join_dimensions(columns: dict[str, Any], rules: NameRules) -> tuple[dict[str, Any], NameRules]:
    """Join columns with counted names, such as `feat_0` to `feat_511`, as embeddings.

    Columns without names are counted, too. Nothing is joined if an array is called like embeddings, or if several
    groups of columns are counted. Of a matrix of distances or scores behind the names of queries, the columns are
    joined below the names of gallery items, and the names of the side that is read are added.

    Returns:
        The columns, and the rules with the name of the new one.
    """
    if "embeddings" in rules.names or any(rules.allow("embeddings", name) for name in columns):
        return columns, rules
    names_by_prefix: dict[str, list[str]] = {}
    for name, values in columns.items():
        match = re.fullmatch(r"(.*?)(\d+)", name, re.DOTALL)
        if match is not None and np.ndim(values) == 1 and np.asarray(values).dtype.kind in "iuf":
            names_by_prefix.setdefault(match[1], []).append(name)
    counted: list[list[str]] = []
    for prefix, names in names_by_prefix.items():
        names.sort(key=lambda name: int(name.removeprefix(prefix)))
        numbers = [int(name.removeprefix(prefix)) for name in names]
        from_zero = list(range(len(names)))
        one_based = list(range(1, len(names) + 1))
        if len(names) > 1 and numbers in (from_zero, one_based):
            counted.append(names)
    row_names = columns.get("column 1", np.empty(0))
    is_named = rules.kind is not None and row_names.dtype.kind == "U"
    if is_named:
        counted = [[name for name in columns if name != "column 1"]]
    if len(counted) != 1:
        return columns, rules

    (names,) = counted
    joined_name = f"{names[0]} to {names[-1]}"
    joined = {name: values for name, values in columns.items() if name not in names}
    joined[joined_name] = np.stack([columns[name] for name in names], axis=1).astype(np.float64)
    if is_named and rules.role != "gallery":
        joined["names"] = row_names
    elif is_named and not names[0].isdecimal():  # numbers above columns count them
        joined["names"] = np.array(names)
    return joined, replace(rules, names={**rules.names, "embeddings": joined_name})
