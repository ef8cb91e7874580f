"""What the arrays of a file are, by the names that the field gives them, and the labels that they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .array_files import UNNAMED, PythonObjects, of_file, refused
from .foreign_forms import conversion
from .role_flags import as_roles, as_vector, note_on_roles

Labels: TypeAlias = dict[str, Array]

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
"""what an array may be called, by what it is here; positions may also be two columns"""

FURTHER_NAMES = {"identities": "class_id item_id", "names": "image_name img_name"}
"""names in benchmarks, taken where no name of the field is there"""
SIDE_NAMES = {
    "query": {"embeddings": "test", "positions": "utmq cq"},
    "gallery": {"embeddings": "train", "positions": "utmdb cdb"},
}
"""such names of one side: of ann-benchmarks, Patch-NetVLAD and NetVLAD"""

MATRICES: tuple[_names.MatrixKind, ...] = ("embeddings", "distances", "scores")
"""what a file of samples may hold; without a name of the user's the first that is there"""

_PREFIXES = {"query": ("query_", "q_", "q", "probe_"), "gallery": ("gallery_", "g_", "g", "database_")}


@dataclass(frozen=True)
class Asked:
    """What a user says of the arrays of files."""

    names: Mapping[str, str]
    """what an array is called, by what it is, a key of `FIELD_NAMES`"""
    role: _names.Role | None = None
    """the side that is read of a file with arrays of both"""
    used: set[str] | None = None
    """gets the keys of `names` with an array that is there; None: each must be there"""

    missing: _names.MissingLabels = "error"
    """whether identities that are missing are refused"""
    labels: Collection[str] = ()
    """what else a user calls a label: an array of that name holds it"""
    kind: _names.MatrixKind | None = None
    """the kind of the matrix that is read; None: what its name says"""

    def __post_init__(self) -> None:
        """Raise unless role, keys and options are known."""
        _checks.one_of("missing", self.missing, _names.MissingLabels)
        _checks.collection_of_names("labels", self.labels)
        for label in self.labels:
            if label in FIELD_NAMES or not label:
                raise ValueError(f"`labels` must hold names other than {', '.join(FIELD_NAMES)}; got {label!r}.")
        for key in self.names:
            _checks.one_of("names", key, [*FIELD_NAMES, *self.labels])
        if self.role is not None:
            _checks.one_of("role", self.role, _PREFIXES)
        if self.kind is not None:
            _checks.one_of("kind", self.kind, MATRICES)

    def may_be(self, key: str, name: str) -> bool:
        """Whether an array of a name may be `key`, of the side that is read."""
        return name.lower().replace("-", "_") in _spellings(key, self.role)

    def are_in(self, folder: Path) -> bool:
        """Whether the .npy files of a folder are arrays by name, and no shards: one is called like a label, or so."""
        keys = [*(key for key in FIELD_NAMES if key != "embeddings"), *self.labels]
        known = {*self.names.values()}.union(*(_spellings(key, None) for key in keys))
        stems = {path.stem for path in folder.glob("*.npy")}
        return not known.isdisjoint(stems | {stem.lower().replace("-", "_") for stem in stems})


def _spellings(key: str, role: str | None) -> set[str]:
    """What an array may be called that is `key`, of a side or of any."""
    sides = [role] if role else _PREFIXES
    prefixes = ["", *(prefix for side in sides for prefix in _PREFIXES[side])]
    names = FIELD_NAMES[key].split() if key in FIELD_NAMES else [key.lower().replace("-", "_")]
    return {prefix + name for prefix in prefixes for name in names}


def _further_spellings(key: str, role: str | None) -> list[str]:
    """What an array of a benchmark may be called that is `key`, of a side or of any."""
    sides = [role] if role else SIDE_NAMES
    names = [FURTHER_NAMES.get(key, ""), *(SIDE_NAMES[side].get(key, "") for side in sides)]
    return " ".join(names).split()


def find_names(
    path: Path, keys: Collection[str], arrays: Mapping[str, Any], asked: Asked, alone: str
) -> dict[str, str]:
    """The array that is each of the `keys`, where there is one: as asked for, ours, or the only one that may be.

    An array without a name is `alone`.

    Raises:
        ValueError: a file without an array that is asked for, with several that may be the same, or with one of Python
            objects.
    """
    named = [name for name in arrays if name != UNNAMED]
    for key, name in asked.names.items():
        if asked.used is not None and key in keys and name in named:
            asked.used.add(key)
        elif asked.used is None and key not in keys:
            raise refused(path, f"`names` must be some of {', '.join(keys)}", repr(key))
        elif asked.used is None and name not in named:
            came = f"{_listed(named)}{_checks.hint_for_value(name, named)}"
            raise refused(path, f"`{name}`, named as {key}, must be in the file", came)
    if UNNAMED in arrays:
        return {alone: UNNAMED}
    chosen = dict[str, str]()
    for key in keys:
        if key in MATRICES and not _is_looked_for(key, chosen, asked):
            continue
        # What the user says counts first, and then our own name.
        first, spellings = (asked.names.get(key, key), key), _spellings(key, asked.role)
        fitting = [name for name in first if name in named][:1]
        # An array that a user calls a label of its own is nothing else.
        free = [name for name in named if key in asked.labels or name not in asked.labels]
        fitting = fitting or [name for name in free if name.lower().replace("-", "_") in spellings]
        fitting = fitting or [name for name in free if name.lower() in _further_spellings(key, asked.role)]
        if len(fitting) > 1:
            rule = f"one array must be the {key}, or be said to be by `names`"
            raise refused(path, rule if asked.role else f"{rule} or `role`", _listed(fitting))
        chosen.update((key, name) for name in fitting)
    return _without_objects(path, chosen, arrays, asked)


def _without_objects(path: Path, chosen: Mapping[str, str], arrays: Mapping[str, Any], asked: Asked) -> dict[str, str]:
    """Leave out names of files that are Python objects, unless these are all, or the user names them.

    Raises:
        ValueError: another array of Python objects.
    """
    objects = {key: name for key, name in chosen.items() if isinstance(arrays[name], PythonObjects)}
    is_needed = "names" in asked.names or len(chosen) == 1
    if not is_needed:
        objects.pop("names", None)
    for key, name in objects.items():
        form = "embeddings as objects" if key in MATRICES else "texts as objects"
        rule = f"the {key} must be numbers or strings, as Python objects are only read by pickle"
        raise refused(path, rule, f"`{name}` of objects{conversion(form)}")
    return {key: name for key, name in chosen.items() if not isinstance(arrays[name], PythonObjects)}


def _is_looked_for(key: str, chosen: Collection[str], asked: Asked) -> bool:
    """Whether a file may have a matrix of this kind beside the arrays that were chosen before."""
    if asked.kind is not None:
        return key == asked.kind
    return not chosen or key in asked.names


def find_unnamed_matrix(path: Path, arrays: Mapping[str, Any], chosen: Collection[str], asked: Asked) -> str:
    """Return the name of the one matrix that may be `asked.kind`, though its name does not say so.

    Args:
        path: File, for the message.
        arrays: Arrays of the file by name.
        chosen: Names of arrays that are labels.
        asked: What the user says; `kind` is given.

    Raises:
        ValueError: No matrix may be it, or several may.
    """
    opposite = {"distances": "scores", "scores": "distances"}.get(str(asked.kind))
    matrices = [name for name in arrays if name not in chosen and len(np.shape(arrays[name])) == 2]
    fitting = [name for name in matrices if opposite is None or not asked.may_be(opposite, name)]
    if len(fitting) > 1:
        fitting = [name for name in fitting if 1 not in np.shape(arrays[name])]
    if len(fitting) > 1:
        fitting = [name for name in fitting if not asked.may_be("embeddings", name)]
    if len(fitting) != 1:
        rule = f"one array must be the {asked.kind} by its name, or be named by `names`, as {asked.kind}=NAME"
        raise refused(path, rule, _listed(arrays))
    return fitting[0]


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no array with a name"


def guessed(
    path: Path, chosen: Mapping[str, str], names: Mapping[str, str], arrays: Mapping[str, Any] | None = None
) -> list[str]:
    """A line for each array that was found by a name of the field, and for words of roles that are not plain."""
    lines = [f"`{name}` as {key}" for key, name in chosen.items() if name not in (UNNAMED, key, names.get(key))]
    if "roles" in chosen:
        values = {} if arrays is None else arrays
        lines.append(note_on_roles(chosen["roles"] or "roles", values.get(chosen["roles"])))
    return [f"{path}: {line}" for line in lines if line]


def as_labels(
    path: Path,
    chosen: Mapping[str, str],
    arrays: Mapping[str, Any],
    length: int | None = None,
    missing: _names.MissingLabels = "error",
) -> Labels:
    """The labels and roles in the arrays of a file, by what they are; None: of the length of the first.

    Raises:
        ValueError: an array that cannot be what it is said to be; the message names the file.
    """
    labels: Labels = {}
    with of_file(path):
        for key, name in chosen.items():
            if key == "roles":
                labels[key] = as_roles(name or key, arrays[name], length, labels.get("identities"))
            else:
                labels[key] = as_label(key, name or key, arrays[name], length, missing)
            length = len(labels[key])
    return labels


def as_label(
    key: str, name: str, given: Any, length: int | None = None, missing: _names.MissingLabels = "error"
) -> Array:
    """The labels in an array: int64 or strings [N]; or positions, float64 [N, 1 to 3].

    Identities may be several labels of each sample, bool [N, labels], from bools or from 0 and 1. A row or a column is
    flattened; floats that are whole numbers are integers. Identities that are missing, NaN or "", may be "junk".

    Raises:
        TypeError: values of another kind.
        ValueError: another shape or length, numbers that are not whole or no int64, or an empty string.
    """
    values: Array = given.detach().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if key == "identities" and values.ndim == 2 and 1 not in values.shape:
        return LABELS["identities"].check(name, values, length).numpy()
    wanted = {"positions": "numbers", "index": "whole numbers"}.get(key, "whole numbers or strings")
    if values.dtype.kind not in ("iufUS" if wanted.endswith("strings") else "iuf"):
        raise TypeError(f"`{name}` must hold {wanted}; got {values.dtype}.")
    if key == "positions":  # before rows become vectors: [1, 2] is one position, not two labels
        # MATLAB has a column for each position. Two of two coordinates are rows.
        is_of_columns = values.ndim == 2 and len(values) == 2 and values.shape[1] > 3
        values = values.T if is_of_columns and length in (None, values.shape[1]) else values
        return _checks.positions(name, values, length).numpy()
    return _as_numbers_or_names(key, name, as_vector(name, values, length), wanted, missing)


def _as_numbers_or_names(key: str, name: str, values: Array, wanted: str, missing: _names.MissingLabels) -> Array:
    """int64 or strings; identities that are missing are NaN among floats, or "" among strings, where they may be."""
    labels, is_kept = _whole_or_named(values)
    may_miss = key == "identities" and missing == "junk"
    if may_miss and labels.dtype.kind != "U":
        labels = values.astype(np.float64)  # as in shards with missing ones
    is_missing = labels == "" if labels.dtype.kind == "U" else np.isnan(values)
    if may_miss:
        is_kept = is_kept | is_missing
    if not is_kept.all():
        worst = int(is_kept.argmin())
        is_about_missing = key == "identities" and is_missing[worst]
        remedy = " Pass `missing='junk'` where such samples have no identity." if is_about_missing else ""
        raise ValueError(f"`{name}` must hold {wanted}; got {values[worst].item()!r} for sample {worst}.{remedy}")
    return labels


def _whole_or_named(values: Array) -> tuple[Array, Array]:
    """Convert values to int64 or to strings; True where they are neither missing nor empty."""
    if values.dtype.kind in "US":
        labels = values.astype(str)
        return labels, np.char.str_len(labels) > 0
    with np.errstate(invalid="ignore"):  # of NaN and infinity, which are told below
        labels = values.astype(np.int64, copy=False)
    is_whole = labels == values
    if values.dtype.kind == "f":  # from there on, a float stands for several numbers
        is_whole &= np.abs(values) < 2 / np.finfo(values.dtype).eps
    return labels, is_whole
