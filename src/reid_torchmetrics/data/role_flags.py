"""The roles of samples, two flags each: whether it is a query, and whether it is a gallery item.

    columns                            queries              gallery items
    is_query, is_gallery               where it is true     where it is true; an empty cell is false
    is_query alone                     where it is true     where it is false
    is_gallery alone                   where it is false    where it is true
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

from reid_torchmetrics._arrays import Array

FLAGS = "is_query/is_gallery"
"""the name of both columns as one array [N, 2]"""

_QUERY_WORDS = ("query", "queries", "q", "probe")
_GALLERY_WORDS = ("gallery", "g", "test", "database", "db", "index")
_TRAIN = "train"
_SETS = (_TRAIN, "val", "valid", "validation")
"""words that do not tell queries and gallery apart"""
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_MISSING = ("", "nan", "none")


def find_self_index(roles: Array) -> Array:
    """Place of each query in the gallery, or -1 for one that is no gallery item.

    The result is the `self_index` of `evaluate` and `evaluate_scores`, where queries are the rows `roles[:, 0]` and
    gallery items the rows `roles[:, 1]` of the same samples.

    Args:
        roles: Flags of samples, bool [N, 2]: query and gallery item, as `SampleFile.roles` and `read_labels` give them.

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
    places = np.where(is_gallery, is_gallery.cumsum() - 1, -1)
    self_index: Array = places[is_query].astype(np.int64)
    return self_index


def with_flags(arrays: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Join `is_query` and `is_gallery` into one array, and leave out other arrays of roles beside them.

    Args:
        arrays: Arrays of a file by name.
        names: Names that the user gives to arrays; other roles that are named there count, and not the flags.

    Returns:
        The arrays, and the names of those that are left out.

    Raises:
        ValueError: Flags of unequal length or of other values.
    """
    spelled = {str(name).lower().replace("-", "_"): name for name in arrays}
    # A single flag about a whole file is none of its samples.
    present = {
        key: spelled[key] for key in ("is_query", "is_gallery") if key in spelled and np.ndim(arrays[spelled[key]])
    }
    query, gallery = present.get("is_query"), present.get("is_gallery")
    asked = names.get("roles")
    if (query is None and gallery is None) or asked not in (None, query, gallery):
        return dict(arrays), []
    unread = [
        name
        for spelling, name in spelled.items()
        if spelling in ("roles", "role", "split", "subset", "set") and name not in names.values()
    ]
    kept = {name: values for name, values in arrays.items() if name not in unread}
    if query is None or gallery is None:
        return kept, unread
    columns = [_truths(name, kept.pop(name))[0] for name in (query, gallery)]
    if len(columns[0]) != len(columns[1]):
        came = f"{len(columns[0])} and {len(columns[1])}"
        raise ValueError(f"`{query}` and `{gallery}` must have one length; got {came}.")
    kept[asked or FLAGS] = np.stack(columns, axis=1)
    return kept, unread


def as_roles(name: str, given: Any, length: int | None, identities: Array | None = None) -> Array:
    """Read bool [N, 2] from words such as "query" and "gallery", or from flags.

    Args:
        name: Name of the array.
        given: The array.
        length: Number of samples; None: any.
        identities: Identities of the samples, which tell whether the words train and test are gallery and queries.

    Raises:
        ValueError: Another shape or length, another word, or train and test without a common identity.
    """
    values = np.asarray(given)
    is_flag = name.lower() in ("is_query", "is_gallery")
    is_pair = values.ndim == 2 and values.shape[1] == 2 and values.dtype == bool
    if is_pair and (length is None or len(values) == length):
        return values
    vector = as_vector(name, values, length)
    # Numbers are flags only where the name says so: a `split` of 0, 1 and 2 may be anything.
    if is_flag or vector.dtype == bool:
        is_true, is_known = _truths(name, vector)
        flags = np.stack([is_true, ~is_true & is_known], axis=1)
        return flags[:, ::-1] if name.lower() == "is_gallery" else flags
    texts, place = np.unique(np.char.lower(vector.astype(str)), return_inverse=True)
    words = texts.tolist()
    flags_of_words = _flags_of_words(name, words)
    roles = np.array([flags_of_words[word] for word in words], dtype=bool).reshape(-1, 2)[place]
    if set(words) == {_TRAIN, "test"}:
        _check_common(name, roles, identities)
    return roles


def note_on_roles(name: str, given: Any) -> str:
    """Say what words of splits are taken for; empty for words that mean roles, and for flags."""
    values = np.asarray(given)
    if values.dtype.kind not in "US" or name.lower() in ("is_query", "is_gallery"):
        return ""
    words = {str(word) for word in np.unique(np.char.lower(values.astype(str)))}
    if words == {_TRAIN, "test"}:
        return f"train in `{name}` as the gallery, test as the queries"
    if len(words) == 1 and words <= {*_SETS}:
        return f"{words.pop()} in every row of `{name}` as queries and gallery"
    return f"train in `{name}` as left out" if _TRAIN in words else ""


def _flags_of_words(name: str, words: Sequence[str]) -> dict[str, tuple[bool, bool]]:
    """Whether samples with a word are queries, and whether they are gallery items."""
    if set(words) == {_TRAIN, "test"}:
        return {_TRAIN: (False, True), "test": (True, False)}
    if len(words) == 1 and words[0] in _SETS:
        return {words[0]: (True, True)}
    has_both = any(word in _QUERY_WORDS for word in words) and any(word in _GALLERY_WORDS for word in words)
    if _TRAIN in words and not has_both and not set(words) - {_TRAIN, *_QUERY_WORDS, *_GALLERY_WORDS}:
        raise ValueError(f"`{name}` must have queries and a gallery beside train; got {', '.join(words)}.")
    flags = dict.fromkeys(_QUERY_WORDS, (True, False)) | dict.fromkeys(_GALLERY_WORDS, (False, True))
    known = flags | ({_TRAIN: (False, False)} if has_both else {})
    for word in words:
        if word not in known:
            raise ValueError(f"`{name}` must hold {', '.join(flags)} only, or train and test; got {word!r}.")
    return known


def _check_common(name: str, roles: Array, identities: Array | None) -> None:
    """Raise if no query of the words train and test has an identity of the gallery.

    Raises:
        ValueError: None has.
    """
    if identities is None or identities.ndim != 1:
        return
    is_query, is_gallery = roles.T
    if not np.intersect1d(identities[is_query], identities[is_gallery]).size:
        raise ValueError(
            f"`{name}` must have a common identity in train, the gallery, and in test, the queries; got none. To search"
            " each sample of test among the others, leave out the rows of train."
        )


def _truths(name: str, given: Any) -> tuple[Array, Array]:
    """Flags [N], and whether they are given: an empty cell is false, and is not given.

    Raises:
        ValueError: Other values.
    """
    values = as_vector(name, np.asarray(given), None)
    texts, place = np.unique(np.char.lower(values.astype(str)), return_inverse=True)
    for text in texts.tolist():
        if text not in _TRUTHS and text not in _MISSING:
            raise ValueError(f"`{name}` must hold true, 1, false, 0 only; got {text!r}.")
    is_true = np.array([_TRUTHS.get(text, False) for text in texts.tolist()], dtype=bool)
    is_known = np.array([text in _TRUTHS for text in texts.tolist()], dtype=bool)
    return is_true[place], is_known[place]


def as_vector(name: str, values: Array, length: int | None) -> Array:
    """Return the values [N], of `length`, also of a row or a column, as MATLAB has them."""
    vector = values.ravel() if values.ndim == 2 and 1 in values.shape else values
    if vector.ndim != 1 or length not in (None, len(vector)):
        raise ValueError(f"`{name}` must have shape [{'N' if length is None else length}]; got {list(values.shape)}.")
    return vector
