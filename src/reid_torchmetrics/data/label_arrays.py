"""Labels from the arrays of files: shapes, dtypes and values are checked, and missing identities marked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .array_files import naming_file
from .role_flags import as_roles, as_vector

Labels: TypeAlias = dict[str, Array]

_NUMERIC_LABELS = {"positions": "numbers", "index": "whole numbers"}
"""labels that cannot be strings, and their values in words"""


def as_labels(
    path: Path,
    names: Mapping[str, str],
    arrays: Mapping[str, Any],
    length: int | None = None,
    missing_identities: _names.MissingLabels = "error",
) -> Labels:
    """Convert the arrays of a file to labels and roles.

    Args:
        path: The file, for messages.
        names: Names of arrays by their meaning.
        arrays: Arrays of the file by name.
        length: Number of samples; None for the length of the first array.
        missing_identities: As in `read_samples`.

    Raises:
        ValueError: An array that cannot be what its name says; the message names the file.
    """
    labels: Labels = {}
    with naming_file(path):
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
        return _checks.positions(name, _with_samples_as_rows(array, length), length).numpy()

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


def _with_samples_as_rows(positions: Array, length: int | None) -> Array:
    """Return positions with a row for each sample; MATLAB's files have a column for each."""
    # Two positions of two coordinates are rows.
    may_be_columns = positions.ndim == 2 and len(positions) == 2 and positions.shape[1] > 3
    if may_be_columns and length in (None, positions.shape[1]):
        return positions.T
    return positions


def _to_integers_or_strings(values: Array) -> tuple[Array, Array]:
    """Convert values to int64 or to strings, and return where they are valid: whole, and not missing or empty."""
    if values.dtype.kind in "US":
        labels = values.astype(str)
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
