"""Roles of samples as two flags: one for queries, and one for gallery items.

    columns                            queries              gallery items
    is_query, is_gallery               where it is true     where it is true; an empty cell is false
    is_query alone                     where it is true     where it is false
    is_gallery alone                   where it is false    where it is true
    num_query                          the first ones       the rest
    split: query, gallery              query                gallery, test, database
    split: query, gallery, train       query                gallery; train is left out
    split: train, test                 test                 train, as in WildlifeDatasets
    split: train alone, val alone      all                  all

Open Metric Learning writes the first form. Its samples may have both roles; a query is then left out of its own
ranking, which needs its place in the gallery, `find_self_index`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reid_torchmetrics import _hints
from reid_torchmetrics._arrays import Array, as_texts

FLAGS = "is_query/is_gallery"
"""name of both columns as one array [N, 2]"""

_TRAIN = "train"
_TEST = "test"
_QUERY_WORDS = ("query", "queries", "q", "probe")
_GALLERY_WORDS = ("gallery", "g", _TEST, "database", "db", "index")
_SPLITS = (_TRAIN, "val", "valid", "validation")
"""words that do not tell queries and gallery apart"""
_QUERY = (True, False)
_GALLERY = (False, True)
_BOTH = (True, True)
_NEITHER = (False, False)
_FLAG_COLUMNS = ("is_query", "is_gallery")
_NUM_QUERIES = "num_query"
"""the number of the first samples that are queries, as in TransReID and FastReID"""
_SPLIT_COLUMNS = ("roles", "role", "split", "subset", "set")
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_MISSING = ("", "nan", "none")


def find_self_index(roles: Array) -> Array:
    """Return the index of each query in the gallery, or -1 for a query that is no gallery item.

    The result is the `self_index` of `evaluate` and `evaluate_scores`, where queries are the rows `roles[:, 0]` and
    gallery items the rows `roles[:, 1]` of the same samples.

    Args:
        roles: Flags of samples, bool [N, 2]: query and gallery item, as in `SampleFile.roles` and from `read_labels`.

    Raises:
        ValueError: Roles of another shape or dtype.

    Example:
        >>> import numpy as np
        >>> find_self_index(np.array([[True, False], [False, True], [True, True]]))
        array([-1,  1])
    """
    roles = np.asarray(roles)
    if roles.dtype != bool or roles.ndim != 2 or roles.shape[1] != 2:
        raise ValueError(f"`roles` must be bool of shape [N, 2]; got {roles.dtype} of shape {list(roles.shape)}.")
    is_query, is_gallery = roles.T
    gallery_index = np.where(is_gallery, is_gallery.cumsum() - 1, -1)
    self_index: Array = gallery_index[is_query].astype(np.int64)
    return self_index


def _first_samples(arrays: Mapping[str, Any], name: str) -> Array:
    """Return whether each sample is a query, where the first ones are, by their number in an array.

    Raises:
        ValueError: The array does not hold one whole number, of samples that there are.
    """
    num_samples = max((len(values) for values in arrays.values() if np.ndim(values)), default=0)
    numbers = np.ravel(np.asarray(arrays[name]))
    if len(numbers) != 1 or numbers[0] not in range(num_samples + 1):
        rule = f"the number of the first samples that are queries, from 0 to {num_samples}"
        raise ValueError(f"`{name}` must be {rule}; got {str(numbers)[:40]}.")
    return np.arange(num_samples) < int(numbers[0])


def join_flags(arrays: Mapping[str, Any], user_names: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Join `is_query` and `is_gallery` into one array, and drop the other arrays of roles.

    Args:
        arrays: Arrays of a file by name.
        user_names: Names of arrays from the user; if another array is the roles, nothing is joined or dropped.

    Returns:
        The arrays, and the names of the dropped ones.

    Raises:
        ValueError: Flags of unequal length or of other values.
    """
    names = {str(name).lower().replace("-", "_"): name for name in arrays}
    if _NUM_QUERIES in names and names.keys().isdisjoint(_FLAG_COLUMNS):
        names["is_query"] = "is_query"
        arrays = {**arrays, "is_query": _first_samples(arrays, names[_NUM_QUERIES])}
    # A single flag is about the whole file, and no flag of its samples.
    flag_names = [names[column] for column in _FLAG_COLUMNS if column in names and np.ndim(arrays[names[column]])]
    roles_name = user_names.get("roles")
    if not flag_names or roles_name not in (None, *flag_names):
        return dict(arrays), []

    dropped = [names[word] for word in names if word in _SPLIT_COLUMNS and names[word] not in user_names.values()]
    joined = {name: values for name, values in arrays.items() if name not in dropped}
    if len(flag_names) < len(_FLAG_COLUMNS):
        return joined, dropped
    flags = [_parse_flags(name, joined.pop(name))[0] for name in flag_names]
    is_query, is_gallery = flags
    if len(is_query) != len(is_gallery):
        rule = " and ".join(f"`{name}`" for name in flag_names)
        raise ValueError(f"{rule} must have one length; got {len(is_query)} and {len(is_gallery)}.")
    joined[roles_name or FLAGS] = np.stack(flags, axis=1)
    return joined, dropped


def as_roles(name: str, values: Any, length: int | None, identities: Array | None = None) -> Array:
    """Convert words such as "query" and "gallery", or flags, to roles, bool [N, 2].

    Args:
        name: Name of the array.
        values: The array.
        length: Number of samples; None for any.
        identities: Identities of the samples, to check that the words train and test are gallery and queries.

    Raises:
        ValueError: Another shape or length, another word, or train and test without a common identity.
    """
    array = np.asarray(values)
    is_pair = array.ndim == 2 and array.shape[1] == 2 and array.dtype == bool
    if is_pair and (length is None or len(array) == length):
        return array
    vector = as_vector(name, array, length)
    # Numbers are flags only where the name says so: a `split` of 0, 1 and 2 may be anything.
    if name.lower() in _FLAG_COLUMNS or vector.dtype == bool:
        is_true, is_present = _parse_flags(name, vector)
        is_false = ~is_true & is_present
        columns = [is_false, is_true] if name.lower() == "is_gallery" else [is_true, is_false]
        return np.stack(columns, axis=1)

    distinct, inverse = np.unique(np.char.lower(as_texts(vector)), return_inverse=True)
    words = distinct.tolist()
    flags_by_word = _flags_by_word(name, words)
    flags = np.array([flags_by_word[word] for word in words], dtype=bool).reshape(-1, 2)
    roles = flags[inverse]
    if set(words) == {_TRAIN, _TEST}:
        _check_common_identity(name, roles, identities)
    return roles


def note_on_roles(name: str, values: Any) -> str:
    """Return a note on the roles for the words of a split; empty for words that are roles, and for flags."""
    array = np.asarray(values)
    if array.dtype.kind not in "US" or name.lower() in _FLAG_COLUMNS:
        return ""
    words = set(np.unique(np.char.lower(as_texts(array))).tolist())
    if words == {_TRAIN, _TEST}:
        return f"train in `{name}` as the gallery, test as the queries"
    if len(words) == 1 and words <= set(_SPLITS):
        return f"{words.pop()} in every row of `{name}` as queries and gallery"
    return f"train in `{name}` as left out" if _TRAIN in words else ""


def _flags_by_word(name: str, words: Sequence[str]) -> dict[str, tuple[bool, bool]]:
    """Return the two flags for samples with each word.

    Raises:
        ValueError: An unknown word, or train without queries and a gallery.
    """
    if set(words) == {_TRAIN, _TEST}:
        return {_TRAIN: _GALLERY, _TEST: _QUERY}
    if len(words) == 1 and words[0] in _SPLITS:
        return {words[0]: _BOTH}
    flags = dict.fromkeys(_QUERY_WORDS, _QUERY) | dict.fromkeys(_GALLERY_WORDS, _GALLERY)
    allowed_words = _hints.listed(flags, str)
    has_queries = any(word in _QUERY_WORDS for word in words)
    has_gallery = any(word in _GALLERY_WORDS for word in words)
    if has_queries and has_gallery:
        flags[_TRAIN] = _NEITHER
    elif _TRAIN in words and set(words) <= {_TRAIN, *flags}:
        raise ValueError(f"`{name}` must have queries and a gallery beside train; got {_hints.listed(words, str)}.")
    for word in words:
        if word not in flags:
            raise ValueError(f"`{name}` must hold {allowed_words} only, or train and test; got {word!r}.")
    return flags


def _check_common_identity(name: str, roles: Array, identities: Array | None) -> None:
    """Raise unless a query of the words train and test has an identity of the gallery.

    Raises:
        ValueError: No query has one.
    """
    if identities is None or identities.ndim != 1:
        return
    is_query, is_gallery = roles.T
    if not np.intersect1d(identities[is_query], identities[is_gallery]).size:
        raise ValueError(
            f"`{name}` must have a common identity in train, the gallery, and in test, the queries; got none. To search"
            " each sample of test among the others, leave out the rows of train."
        )


def _parse_flags(name: str, values: Any) -> tuple[Array, Array]:
    """Return flags [N], false for empty cells, and where cells are not empty.

    Raises:
        ValueError: Other values.
    """
    vector = as_vector(name, np.asarray(values), None)
    distinct, inverse = np.unique(np.char.lower(as_texts(vector)), return_inverse=True)
    texts = distinct.tolist()
    for text in texts:
        if text not in _TRUTHS and text not in _MISSING:
            raise ValueError(f"`{name}` must hold true, 1, false, 0 only; got {text!r}.")
    is_true = np.array([_TRUTHS.get(text, False) for text in texts], dtype=bool)
    is_present = np.array([text in _TRUTHS for text in texts], dtype=bool)
    return is_true[inverse], is_present[inverse]


def as_vector(name: str, values: Array, length: int | None) -> Array:
    """Return the values [N] of a vector, or of a row or column such as MATLAB writes.

    Raises:
        ValueError: Another shape, or another length than `length`.
    """
    vector = values.ravel() if values.ndim == 2 and 1 in values.shape else values
    if vector.ndim != 1 or length not in (None, len(vector)):
        shape = "N" if length is None else length
        raise ValueError(f"`{name}` must have shape [{shape}]; got {list(values.shape)}.")
    return vector
