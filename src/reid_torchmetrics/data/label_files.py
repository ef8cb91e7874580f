"""Labels of samples, from tables and from the names of image files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array, as_texts
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .array_files import FORMATS, UNNAMED, naming_file, read_arrays
from .array_names import FIELD_NAMES, MATRICES, NameRules, describe_contents, describe_guesses, find_names
from .role_flags import as_roles, as_vector, join_flags
from .table_files import TABLES, TEXTS, are_images, is_header_missing, join_positions, names_by_place, parse_cells

Labels: TypeAlias = dict[str, Array]

_NUMERIC_LABELS = {"positions": "numbers", "index": "whole numbers"}
"""labels that cannot be strings, and their values in words"""


def as_labels(
    names: Mapping[str, str],
    arrays: Mapping[str, Any],
    length: int | None = None,
    missing_identities: _names.MissingLabels = "error",
) -> Labels:
    """Convert the arrays of a file to labels and roles.

    Args:
        names: Names of arrays by their meaning.
        arrays: Arrays of the file by name.
        length: Number of samples; None for the length of the first array.
        missing_identities: As in `read_samples`.

    Raises:
        TypeError: An array with values of another kind.
        ValueError: An array that cannot be what its name says.
    """
    labels: Labels = {}
    for key, name in names.items():
        if key == "roles":
            labels[key] = as_roles(name or key, arrays[name], length, labels.get("identities"))
        else:
            labels[key] = as_label(key, name or key, arrays[name], length, missing_identities)
        length = len(labels[key])
    return labels


def as_label(
    key: str, name: str, values: Any, length: int | None = None, missing_identities: _names.MissingLabels = "error"
) -> Array:
    """Convert an array to a label: int64 or strings [N]; or positions, float64 [N, 1 to 3].

    Identities may be several labels of each sample, bool [N, labels], from bools or from 0 and 1. A row or a column is
    flattened; floats that are whole numbers become integers. Missing identities, NaN or "", are kept if
    `missing_identities` is "junk".

    Raises:
        TypeError: Values of another kind.
        ValueError: Another shape or length, numbers that are not whole or no int64, or an empty string.
    """
    array: Array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if key == "identities" and array.ndim == 2 and 1 not in array.shape:
        return LABELS["identities"].check(name, array, length).numpy()
    allowed_kinds = "iuf" if key in _NUMERIC_LABELS else "iufUS"
    description = _NUMERIC_LABELS.get(key, "whole numbers or strings")
    if array.dtype.kind not in allowed_kinds:
        raise TypeError(f"`{name}` must hold {description}; got {array.dtype}.")
    if key == "positions":  # before rows become vectors: [1, 2] is one position, not two labels
        # MATLAB's files have a column for each sample; two positions of two coordinates are rows.
        may_be_columns = array.ndim == 2 and len(array) == 2 and array.shape[1] > 3
        if may_be_columns and length in (None, array.shape[1]):
            array = array.T
        return _checks.positions(name, array, length).numpy()

    vector = as_vector(name, array, length)
    labels, is_valid = _to_integers_or_strings(vector)
    is_text = labels.dtype.kind == "U"
    is_missing = labels == "" if is_text else np.isnan(vector)
    if key == "identities" and missing_identities == "junk":
        is_valid = is_valid | is_missing
        if not is_text:
            labels = vector.astype(np.float64)  # also without missing ones, as another shard may have some
    if not is_valid.all():
        first = int(is_valid.argmin())
        remedy = ""
        if key == "identities" and is_missing[first]:
            remedy = " Pass `missing_identities='junk'` where such samples have no identity."
        raise ValueError(f"`{name}` must hold {description}; got {vector[first].item()!r} for sample {first}.{remedy}")
    return labels


def _to_integers_or_strings(values: Array) -> tuple[Array, Array]:
    """Convert values to int64 or to strings, and return where they are valid: whole, and not missing or empty."""
    if values.dtype.kind in "US":
        labels = as_texts(values)
        return labels, np.char.str_len(labels) > 0
    with np.errstate(invalid="ignore"):  # NaN and infinity are found invalid below
        labels = values.astype(np.int64, copy=False)
    is_whole = labels == values
    if values.dtype.kind == "f":  # from there on, a float stands for several numbers
        is_whole &= np.abs(values) < 2 / np.finfo(values.dtype).eps
    return labels, is_whole


def number_identities(*identities: Array) -> tuple[Array, ...]:
    """Number names in the order of the sorted names of all arrays together; "-1" stays -1.

    Args:
        identities: arrays of strings [N], such as those of queries and gallery; integers are returned as they are.

    Returns:
        int64 [N] for each array; the same name has the same number in all.

    Raises:
        TypeError: strings in one array and integers in another.

    Example:
        >>> import numpy as np
        >>> number_identities(np.array(["bo", "al"]), np.array(["cy", "bo", "-1"]))
        (array([1, 0]), array([ 2,  1, -1]))
    """
    kinds = {array.dtype.kind for array in identities}
    if "U" not in kinds:
        return identities
    if kinds != {"U"}:
        dtypes = " and ".join(str(array.dtype) for array in identities)
        raise TypeError(f"`identities` must hold strings in all arrays, or integers in all; got {dtypes}.")
    all_names = np.concatenate([array.ravel() for array in identities])
    names = np.unique(all_names[all_names != "-1"])
    numbers = [np.where(array == "-1", -1, np.searchsorted(names, array)) for array in identities]
    return tuple(numbers)


_MARKET1501 = r"(?:^|/)(?P<identity>-1|\d+)_c(?P<camera>\d+)[^/]*$"
NAME_PATTERNS = {
    "market1501": _MARKET1501,
    "dukemtmc": _MARKET1501,
    "veri776": _MARKET1501,
    "msmt17": r"(?:^|/)(?P<identity>\d+)_\d+_(?P<camera>\d+)_[^/]*$",
    "vpr": r"(?:^|/)@(?P<easting>-?\d+(?:\.\d+)?)@(?P<northing>-?\d+(?:\.\d+)?)@[^/]*$",
}
"""patterns of the names of files by benchmark: a person or vehicle, and the camera; or the position of a place"""
_COORDINATES = dict.fromkeys(("easting", "northing"), "positions")
_LABELS_BY_GROUP = _COORDINATES | {
    label.singular: name for name, label in LABELS.items() if label.decides and not label.has_columns
}
"""labels in the names of files, by the groups of a pattern"""
_LABEL_KEYS = [key for key in FIELD_NAMES if key not in MATRICES]


def read_labels(
    path: str | PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    guesses: list[str] | None = None,
    used_names: set[str] | None = None,
    field: _names.LabelField | None = None,
    missing_identities: _names.MissingLabels = "error",
    labels: Collection[str] = (),
) -> Labels:
    """Read the labels of samples from a table: .csv, .tsv, .txt, .parquet (PyArrow), or a file of `read_samples`.

    With `field` they may also be lines of text, a label each (.txt).

    Columns are found by the names that the field uses, such as `pid` and `camid`. Positions may be a pair of columns:
    easting and northing, utm_east and utm_north, x and y. A .txt without names in its first row may be a column of
    names of images or of identities, or one of each.

    Args:
        path: the file, or a folder of .npy files by name. Text is in UTF-8, or in UTF-16 with its mark; a .csv begins
            with a row of names.
        names: names of columns by their meaning, such as `{"identities": "y"}`, or "column 2" for columns without
            names. Without a name from you, exactly one column may have the meaning by its name.
        guesses: a list that collects a line for each column that was found by a name of the field, as
            `SampleFile.guesses`.
        used_names: as in `read_samples`.
        field: meaning of an array without a name, as in a .npy. None: the only one of `labels`, else identities, or
            positions if it holds two or three floats for each sample. If `names` has it, nothing else is read.
        missing_identities: as in `read_samples`; an empty cell of text, and a null of a .parquet, is missing.
        labels: as in `read_samples`.

    Returns:
        The labels of N samples, in the order of the table, by the keys of `SampleFile.labels`, and where the file has
        them "roles" and "names". Identities are bool [N, labels] if samples have several labels. Roles are two flags of
        each sample, bool [N, 2]: query, and gallery item. They are read from `is_query` and `is_gallery`, where a
        sample may be both, or from a column such as `split` with "query" and "gallery" or "test", or with "train" for
        the gallery and "test" for the queries. Names are the names of files.

    Raises:
        OSError: There is no such file, or it may not be read.
        ModuleNotFoundError: A package that reads the format, such as PyArrow, is not installed.
        ValueError: An unknown key of `names`; a file that is damaged, empty, without any label, or with several columns
            of one meaning; rows of unequal length; values that are neither whole numbers nor names, or other roles. The
            message is one line that names the file and the column.
    """
    path = Path(path)
    rules = NameRules(names or {}, used_names=used_names, missing_identities=missing_identities, labels=labels)
    _checks.one_of("field", field or "identities", _LABEL_KEYS)
    passed_over: dict[str, str] = {}
    columns = read_arrays(path, TABLES | TEXTS | FORMATS, passed_over=passed_over)
    if path.suffix.lower() in TEXTS:
        rules = replace(rules, names=names_by_place(columns) | dict(rules.names))
    with naming_file(path):
        is_field_named = field in rules.names
        if field is not None and UNNAMED not in columns and not is_field_named:
            got = f"{_checks.listed(columns, str)}{_note_on_header(path, columns)}"
            raise ValueError(f"the {field} must be an array without a name, as in .npy; got {got}.")
        columns = join_positions(columns, rules.names)
        columns, unread_roles = join_flags(columns, rules.names)
        unnamed_key = _find_unnamed_key(columns.get(UNNAMED, np.empty(0)), field, rules.labels)
        keys = [*_LABEL_KEYS, *rules.labels]
        if field is not None and is_field_named:
            keys = [field]
            rules = replace(rules, names={field: rules.names[field]})
        column_names = find_names(keys, columns, rules, unnamed_key)
        if not column_names:
            example = "`names={'identities': 'column 2'}`"
            rule = "a column must be a label by its name, or by `names={'identities': NAME}`"
            if path.suffix.lower() in TEXTS | TABLES and is_header_missing(list(columns)):
                rule = f"the first row must name the columns, or an argument such as {example} must"
            got = describe_contents(columns, passed_over, str)
            raise ValueError(f"{rule}; got {got}{_note_on_header(path, columns)}.")
        if guesses is not None:
            guesses += describe_guesses(path, column_names, columns, names or {}, unread_roles, passed_over)
        return as_labels(column_names, columns, missing_identities=missing_identities)


def _note_on_header(path: Path, columns: Collection[str]) -> str:
    """Return a note on a table with one column, as its first row may be a value."""
    is_column = len(columns) == 1 and path.suffix.lower() in (".csv", ".tsv")
    return ", the name of the only column; a file of values alone must be .txt" if is_column else ""


def _find_unnamed_key(values: Any, field: str | None, labels: Collection[str]) -> str:
    """Return the meaning of an array without a name."""
    if field is not None:
        return field
    if len(labels) == 1:
        (label,) = labels
        return label
    if values.ndim == 2 and values.shape[1] in (2, 3) and "float" in str(values.dtype):
        return "positions"
    return "names" if are_images(values) else "identities"


def labels_from_names(paths: Iterable[str | PathLike[str]], pattern: str = "market1501") -> Labels:
    r"""Return identities, cameras and other labels from the names of files.

    Args:
        paths: paths of N images, which need not exist.
        pattern: "market1501", "dukemtmc" or "veri776", `0002_c1s1_000451_03.jpg`, where -1 is junk; "msmt17",
            `0000_000_01_0303morning_0015_0.jpg`; "vpr", `@0543256.96@4178906.70@10@S@.jpg`, as of
            VPR-datasets-downloader; or a regular expression that is found in the path, with some of the groups
            `identity`, `camera`, `sequence`, `clothes`, `group`, and `easting` with `northing`:
            `r"(?P<identity>[^/]+)/[^/]+$"` takes folders.

    Returns:
        "identities", "cameras", "sequences", "clothes" and "groups", each int64 [N] if all are numbers, else strings
        for `number_identities`; "positions", float64 [N, 2].

    Raises:
        ValueError: A name without the pattern, no names, or a pattern that is no such expression.

    Example:
        >>> labels_from_names(["0002_c1s1_000451_03.jpg", "-1_c3s2_000001_00.jpg"])
        {'identities': array([ 2, -1]), 'cameras': array([1, 3])}
    """
    expression = _compile(pattern)
    rows = []
    for path in paths:
        match = expression.search(PurePath(path).as_posix())
        if match is None or not all(match.groupdict().values()):
            raise ValueError(f"`paths` must have the pattern {pattern!r} in each name; got {str(fspath(path))!r}.")
        rows.append(match.groupdict())
    if not rows:
        raise ValueError("`paths` must not be empty; got none.")

    columns: dict[str, Any] = {}
    for name in expression.groupindex:
        columns[name] = parse_cells([row[name] for row in rows])
    if "easting" in columns:
        columns["positions"] = np.stack([columns.pop("easting"), columns.pop("northing")], axis=1)
    labels: Labels = {}
    for name, values in columns.items():
        key = _LABELS_BY_GROUP.get(name, name)
        labels[key] = as_label(key, name, values)
    return labels


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a benchmark, or a regular expression.

    Raises:
        ValueError: No regular expression, or one with other groups than labels.
    """
    try:
        expression = re.compile(NAME_PATTERNS.get(pattern, pattern))
    except re.error:
        expression = re.compile("")  # without groups, which are required below
    groups = expression.groupindex.keys()
    is_half_position = ("easting" in groups) != ("northing" in groups)
    if not groups or is_half_position or not groups <= _LABELS_BY_GROUP.keys():
        known = _checks.listed(NAME_PATTERNS, str)
        rule = f"one of {known}, or a regular expression with groups such as `identity` and `camera`"
        raise ValueError(f"`pattern` must be {rule}; got {pattern!r}.")
    return expression
