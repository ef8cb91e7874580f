"""Meanings of the arrays in a file, by the names that the field gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np

from reid_torchmetrics import _checks, _hints, _names

from .array_files import UNNAMED, PythonObjects
from .foreign_forms import conversion
from .role_flags import note_on_roles

FIELD_NAMES = {
    "embeddings": "embeddings embedding embs emb features feature feats feat codes hash_codes f x arr_0",
    "distances": "distances distance distmat dist dists dist_mat distance_matrix",
    "scores": "scores similarities similarity sims sim score_matrix similarity_matrix",
    "identities": "identities identity ids id pids pid person_ids person_id labels label targets target y",
    "cameras": "cameras camera cams cam camids camid cam_ids cam_id camera_ids camera_id",
    "sequences": "sequences sequence seqs seq tracks track track_ids track_id tracklets tracklet",
    "clothes": "clothes clothids clothid clothes_ids clothes_id",
    "positions": "positions position utms utm coords xy easting/northing utm_east/utm_north x/y",
    "groups": "groups group places place",
    "index": "index indices idxs idx",
    "roles": "roles role split subset set is_query is_gallery is_query/is_gallery",
    "names": "names name paths path filenames filename file_names file_name image_path img_path",
}
"""names of arrays by their meaning; positions may also be two columns"""
FIELD_NAMES |= {label: label for label in get_args(_names.LabelField) if label not in FIELD_NAMES}

FURTHER_NAMES = {
    "embeddings": "vector vectors representation representations image_embeds text_embeds descriptor descriptors",
    "identities": "class_id item_id",
    "names": "image_name img_name",
}
"""names in benchmarks, vector databases and other libraries, for files without a name of the field"""
_ROW_NUMBERS = ("id", "ids", "item_id")
"""names of identities that are also names of row numbers"""
_NAME = "name"
"""the name of a file; beside another name of files it is an identity, as in tables of animals"""
SIDE_NAMES = {
    "query": {"embeddings": "test", "positions": "utmq cq"},
    "gallery": {"embeddings": "train", "positions": "utmdb cdb"},
}
"""such names for one side: from ann-benchmarks, Patch-NetVLAD and NetVLAD"""

_KINDS_OF_NUMBERS = {
    "distances": r"distance|(?<![a-z])(dists?|distmat|l2)(?![a-z])|euclid|hamming",
    "scores": r"score|similarit|(?<![a-z])(sims?|cosines?)(?![a-z])",
    "rank": "^(rank|position)$",
}
"""patterns of the names of columns and arrays, by what their numbers are"""

MATRICES: tuple[_names.MatrixKind, ...] = ("embeddings", "distances", "scores")
"""contents of a file of samples; without a name from the user, the first one that is in the file"""

_MAX_NOTES = 5
_PREFIXES = {"query": ("query_", "q_", "q", "probe_"), "gallery": ("gallery_", "g_", "g", "database_")}


@dataclass(frozen=True)
class NameRules:
    """Rules from a user for the meanings of the arrays in files."""

    names: Mapping[str, str]
    """names of arrays by their meaning, a key of `FIELD_NAMES`"""
    role: _names.Role | None = None
    """the side to read from a file with arrays of both"""
    used_names: set[str] | None = None
    """collects the keys of `names` with an array in the file; None if the file must have all of them"""

    missing_identities: _names.MissingLabels = "error"
    """whether identities that are missing are refused"""
    labels: Collection[str] = ()
    """names of further labels, and of the arrays that hold them"""
    kind: _names.MatrixKind | None = None
    """the kind of the matrix to read; None for the kind that its name says"""

    def __post_init__(self) -> None:
        """Raise unless the options are valid."""
        _checks.one_of("missing_identities", self.missing_identities, _names.MissingLabels)
        _checks.collection_of_names("labels", self.labels)
        for label in self.labels:
            if label in FIELD_NAMES or not label:
                raise ValueError(
                    f"`labels` must hold names other than {_checks.listed(FIELD_NAMES, str)}; got {label!r}."
                )
        for key in self.names:
            _checks.one_of("names", key, [*FIELD_NAMES, *self.labels])
        if self.role is not None:
            _checks.one_of("role", self.role, _PREFIXES)
        if self.kind is not None:
            _checks.one_of("kind", self.kind, MATRICES)

    def allow(self, key: str, name: str) -> bool:
        """Return whether an array with a name may be `key` for the side that is read."""
        return _normalize(name) in _spellings(key, self.role)

    def is_folder_of_arrays(self, folder: Path) -> bool:
        """Return whether the .npy files of a folder are arrays by name, such as `pids.npy`, and not shards."""
        array_names = set(self.names.values())
        for key in [*FIELD_NAMES, *self.labels]:
            if key != "embeddings":
                array_names |= _spellings(key, None)
        stems = {path.stem for path in folder.glob("*.npy")}
        return not array_names.isdisjoint(stems | {_normalize(stem) for stem in stems})


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


@cache
def _spellings(key: str, role: str | None) -> set[str]:
    """Return the names of the field for `key`, with the prefixes of one side, or of both."""
    sides = [role] if role else list(_PREFIXES)
    prefixes = [""]
    for side in sides:
        prefixes += _PREFIXES[side]
    names = FIELD_NAMES[key].split() if key in FIELD_NAMES else [_normalize(key)]
    spellings: set[str] = set()
    for prefix in prefixes:
        spellings.update(prefix + name for name in names)
    return spellings


def kind_of_numbers(name: str) -> str:
    """Return whether numbers with a name are "distances", "scores" or "rank"; "" for a name that does not tell it."""
    return next((kind for kind, pattern in _KINDS_OF_NUMBERS.items() if re.search(pattern, name.lower())), "")


def find_names(keys: Collection[str], arrays: Mapping[str, Any], rules: NameRules, unnamed_key: str) -> dict[str, str]:
    """Find the names of the arrays for `keys`: the user's name, our own name, or a single name of the field.

    Args:
        keys: Meanings, in the order in which they are looked for.
        arrays: Arrays of the file by name.
        rules: Rules from the user.
        unnamed_key: Meaning of an array without a name.

    Returns:
        The names of arrays by their meaning, for the keys with an array in the file.

    Raises:
        ValueError: A file without an array that the user named, with several arrays for one key, or with an array of
            Python objects.
    """
    normalized_names = {name: _normalize(name) for name in arrays if name is not UNNAMED}
    _check_user_names(keys, list(normalized_names), rules)
    if UNNAMED in arrays:
        return {unnamed_key: UNNAMED}
    names: dict[str, str] = {}
    for key in keys:
        if key in MATRICES:
            # A file has one matrix, of the kind that is asked for, or of the first kind that it has.
            is_expected = (not names or key in rules.names) if rules.kind is None else key == rules.kind
            if not is_expected:
                continue
        candidates = _find_candidates(key, normalized_names, rules, names)
        if len(candidates) > 1:
            rule = f"one array must be the {key}, or be named by `names={{'{key}': NAME}}`"
            if unnamed_key in MATRICES and not rules.role:
                rule = f"{rule} or `role='query'`"
            raise ValueError(f"{rule}; got {_quote(candidates)}.")
        if candidates:
            names[key] = candidates[0]
    if "identities" not in rules.names:
        _check_no_row_numbers(names, arrays)
    return _without_objects(names, arrays, rules)


def _check_no_row_numbers(names: Mapping[str, str], arrays: Mapping[str, Any]) -> None:
    """Raise if identities were found by a name that is that of row numbers in a table from a data base.

    Raises:
        ValueError: `id` counts the rows, in any order, and a column without a meaning has equal values, as identities
            have.
    """
    name = names.get("identities", "")
    if name.lower() not in _ROW_NUMBERS or not _counts_rows(arrays[name]):
        return
    others = [other for other in arrays if other not in names.values() and _has_equal_values(arrays[other])]
    if others:
        raise ValueError(
            f"`{name}` counts the rows, so that `names={{'identities': NAME}}` must say what the identities are; got"
            f" also {_quote(others)}."
        )


def _counts_rows(values: Any) -> bool:
    """Return whether the numbers of a column are those from some number on, each once, in any order."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or len(values) < 2:
        return False
    if values.dtype.kind == "U" and all(map(str.isdecimal, values.tolist())):
        values = values.astype(np.float64)
    return values.dtype.kind in "iuf" and bool((np.diff(np.sort(values)) == 1).all())


def _has_equal_values(values: Any) -> bool:
    """Return whether a column of integers or texts has fewer values than rows."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iuUS":
        return False
    return len(np.unique(values)) < len(values)


def _check_user_names(keys: Collection[str], file_names: Sequence[str], rules: NameRules) -> None:
    """Raise unless the file has all arrays that the user named; with `rules.used_names`, add the keys that it has."""
    for key, name in rules.names.items():
        if rules.used_names is not None:
            if key in (*keys, "names") and name in file_names:
                rules.used_names.add(key)
            continue
        if key not in keys and key != "names":
            raise ValueError(f"`names` must be some of {_checks.listed(keys, str, near=key)}; got {key!r}.")
        if name not in file_names:
            got = f"{_quote(file_names)}{_hints.value_meant(name, file_names)}"
            raise ValueError(f"`{name}`, named as {key}, must be in the file; got {got}.")


def _find_candidates(
    key: str, normalized_names: Mapping[str, str], rules: NameRules, found_names: Mapping[str, str]
) -> list[str]:
    """Return the arrays that may be `key`, by the first kind of names with a match.

    Args:
        key: A meaning.
        normalized_names: The names of the arrays, each with its form in `_spellings`.
        rules: Rules from the user.
        found_names: Names of arrays with another meaning.
    """
    # The user's name counts first. An array with another meaning, from the user or as found before, is nothing else.
    if rules.names.get(key) in normalized_names:
        return [rules.names[key]]
    other_names = {*rules.names.values(), *found_names.values(), *rules.labels} - {key if key in rules.labels else ""}
    free_names = {name: word for name, word in normalized_names.items() if name not in other_names}
    if key in free_names:
        return [key]
    spellings = _spellings(key, rules.role)
    candidates = [name for name, word in free_names.items() if word in spellings]
    if len(candidates) > 1:  # files are called by their paths then
        candidates = [name for name in candidates if name.lower() != _NAME]
    if candidates:
        return candidates

    further_names = FURTHER_NAMES.get(key, "").split()
    for side, names in SIDE_NAMES.items():
        if rules.role in (None, side):
            further_names += names.get(key, "").split()
    if key == "identities":
        spellings = _spellings("names", rules.role)
        paths = [name for name, word in normalized_names.items() if word in spellings and name.lower() != _NAME]
        if paths or rules.names.get("names") in normalized_names:
            further_names.append(_NAME)
    return [name for name in free_names if name.lower() in further_names]


def _without_objects(names: Mapping[str, str], arrays: Mapping[str, Any], rules: NameRules) -> dict[str, str]:
    """Leave out file names that are Python objects, unless they are the only array or the user names them.

    Raises:
        ValueError: Another array of Python objects.
    """
    are_file_names_needed = "names" in rules.names or len(names) == 1
    readable_names = {}
    for key, name in names.items():
        if not isinstance(arrays[name], PythonObjects):
            readable_names[key] = name
        elif key != "names" or are_file_names_needed:
            form = "embeddings as objects" if key in MATRICES else "texts as objects"
            rule = f"the {key} must be numbers or strings, as Python objects are only read by pickle"
            raise ValueError(f"{rule}; got `{name}` of objects{conversion(form)}.")
    return readable_names


def find_matrix(
    names: Mapping[str, str], arrays: Mapping[str, Any], rules: NameRules, passed_over: Mapping[str, str]
) -> tuple[_names.MatrixKind, str]:
    """Return the kind and the name of the only matrix, which has any name if the user says its kind.

    Args:
        names: Names of the arrays that were found, by their meaning.
        arrays: Arrays of the file by name.
        rules: Rules from the user.
        passed_over: Types of values that are not read, for the message.

    Raises:
        ValueError: No matrix may be it, or several may.
    """
    kinds = [kind for kind in MATRICES if kind in names]
    if len(kinds) == 1 and rules.kind in (None, *kinds):
        return kinds[0], names[kinds[0]]
    if rules.kind is None:
        rule = "one array must be the embeddings, distances or scores by its name, or by `names={'embeddings': NAME}`"
        contents = describe_contents(arrays, passed_over, "`{}`".format)
        raise ValueError(f"{rule}; got {contents}{_conversion_of_vectors(arrays)}.")
    matrices = [name for name in arrays if name not in names.values() and len(np.shape(arrays[name])) == 2]
    candidates = [name for name in matrices if kind_of_numbers(name) in ("", rules.kind)]
    if len(candidates) > 1:
        candidates = [name for name in candidates if 1 not in np.shape(arrays[name])]
    if len(candidates) > 1:
        candidates = [name for name in candidates if not rules.allow("embeddings", name)]
    if len(candidates) != 1:
        rule = f"one array must be the {rules.kind} by its name, or by `names={{'{rules.kind}': NAME}}`"
        raise ValueError(f"{rule}; got {_quote(arrays)}.")
    return rules.kind, candidates[0]


def _conversion_of_vectors(arrays: Mapping[str, Any]) -> str:
    """Return the line that converts vectors by the names of samples; "" for other arrays."""
    if len(arrays) < 2:
        return ""
    shapes = {np.shape(values) for values in arrays.values()}
    are_vectors = len(shapes) == 1 and len(max(shapes)) == 1
    are_floats = all("float" in str(getattr(values, "dtype", "")) for values in arrays.values())
    return conversion("vectors by name") if are_vectors and are_floats else ""


def _quote(names: Collection[str]) -> str:
    return _checks.listed(names, "`{}`".format) or "no array with a name"


def describe_contents(arrays: Collection[str], passed_over: Mapping[str, str], form: Callable[[str], str]) -> str:
    """Return the names of the arrays in a file, and behind them those of other values with their types."""
    names = _checks.listed(arrays, form)
    if not passed_over:
        return names or "none"
    others = _checks.listed([f"`{name}`, {kind}" for name, kind in passed_over.items()], str)
    return f"{names or 'none'}, and without a reader {others}"


def describe_guesses(
    path: Path,
    names: Mapping[str, str],
    arrays: Mapping[str, Any],
    user_names: Mapping[str, str],
    unread_roles: Sequence[str],
    passed_over: Mapping[str, str],
) -> list[str]:
    """Return a line for each decision about the arrays of a file that a user may want to check.

    Args:
        path: The file.
        names: Names of arrays by their meaning; one line for each that was found by a name of the field.
        arrays: Arrays of the file by name; one line for words of roles with more than one meaning.
        user_names: Names of arrays that the user gave.
        unread_roles: Names of arrays of roles that are ignored because the file has flags; one line for each.
        passed_over: Types of values that are not read; one line for each whose name has a meaning.
    """
    lines = []
    for key, name in names.items():
        if name is not UNNAMED and name not in (key, user_names.get(key)):
            lines.append(f"`{name}` as {key}")
    if "roles" in names:
        note = note_on_roles(names["roles"] or "roles", arrays.get(names["roles"]))
        if note:
            lines.append(note)
    lines += [f"no roles from `{name}`, as there are flags" for name in unread_roles]
    if not names.keys() & {"identities", "positions"}:
        file_names = _spellings("names", None)
        others = [name for name in arrays if name not in names.values() and _normalize(name) not in file_names]
        others = [name for name in others if np.ndim(arrays[name]) == 1 and not name.startswith("column ")]
        lines += [f"`{name}` without a meaning" for name in others[:_MAX_NOTES]]
    for name, kind in passed_over.items():
        if any(_normalize(name) in _spellings(key, None) for key in FIELD_NAMES):
            lines.append(f"`{name}` is passed over, {kind}")
    return [f"{path}: {line}" for line in lines]
