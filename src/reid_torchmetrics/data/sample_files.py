"""Files of embeddings with their labels: mapped, not copied, in one file or in shards."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._arrays import Array

from .array_files import FORMATS, read_arrays, refused
from .array_names import FIELD_NAMES, Asked, Labels, as_labels, find_names, guessed, of_file

_KINDS = {"i": "", "f": "", "U": " as strings"}
_PARTS = re.compile(r"(\d+)")
_ARRAYS = [key for key in FIELD_NAMES if key != "names"]


@dataclass(frozen=True, eq=False)
class SampleFile:
    """Embeddings and labels of a file."""

    path: str
    """as opened"""
    embeddings: Array | Tensor
    """[N, D], floats of 16 to 64 bits: an array, a tensor for bfloat16; mapped where the format can be"""
    labels: Labels
    """what the file has of its N samples, by the names that `evaluate` and the metrics know: int64, or strings
    for `number_identities`; `positions` float64 [N, 1 to 3]"""
    guesses: tuple[str, ...]
    """a line for each array that was found by a name of the field: "query.npz: `feat` as embeddings" """
    roles: Array | None = None
    """bool [N], True for queries, where the file says it"""


def read_samples(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    role: str | None = None,
    names: Mapping[str, str] | None = None,
    used: set[str] | None = None,
) -> list[SampleFile]:
    """Open files of embeddings and labels, of .npy, .npz, .pt, .pth, .safetensors or .mat.

    Arrays are found by the names that the field uses, such as `feat`, `pids` and `camids`, or `gallery_f`,
    `gallery_label` and `gallery_cam`, as layumi's `pytorch_result.mat` has them. Embeddings stay on disk, mapped,
    unless they are compressed, as by `numpy.savez_compressed`. No file can run code: what needs pickle is refused.
    Whether embeddings are finite is left to the evaluation.

    Args:
        source: a file, a folder, a pattern such as `gallery-*.npy`, or a sequence of these. The files of a folder or
            pattern are shards, in natural order, 2 before 10.
        role: "query" or "gallery", of a file that has arrays of both.
        names: what an array is called, by what it is: `{"embeddings": "my_array", "identities": "y"}`; without these
            exactly one array may be it. An array alone in a .npy or .pt has no name, and is embeddings.
        used: gets the keys of `names` whose array is there, so that other files may have the others; None: each file
            must have all.

    Returns:
        The files, with labels of N samples for embeddings [N, D].

    Raises:
        FileNotFoundError: no such file, a pattern without a match, or a folder without files of these formats.
        ModuleNotFoundError: safetensors is not installed.
        ValueError: `role` or `names` unknown; a file that is damaged or needs pickle, without embeddings, or with
            several arrays that may be the same; arrays of another shape, dtype or length; a file given twice, shards
            that differ in width, dtype or labels. The message is one line that names the file and the array.
    """
    asked = Asked(names or {}, role, used)
    paths = _paths(source)
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise ValueError(f"`source` must name files, none of them twice; got {[*map(str, paths)]}.")
    files = [_open(path, asked) for path in paths]
    for each in files:
        if _form(each) != _form(files[0]):
            raise refused(each.path, f"a shard must have the form of {files[0].path}, {_form(files[0])}", _form(each))
    return files


def _paths(source: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    if not isinstance(source, (str, PathLike)):
        return [path for each in source for path in _paths(each)]
    is_folder, name = Path(source).is_dir(), os.fspath(source)
    if Path(source).is_file():
        return [Path(source)]
    found = glob.glob(f"{glob.escape(name)}/*" if is_folder else name, recursive=True)  # noqa: PTH207 - of any folder
    paths = [path for path in map(Path, found) if not is_folder or path.suffix.lower() in FORMATS]
    if not paths:
        raise FileNotFoundError(
            f"There is no {'file of ' + ', '.join(FORMATS) + ' in' if is_folder else 'file'} {name!r}."
        )
    # Every other part is a number.
    return sorted(paths, key=lambda path: [int(part) if part.isdecimal() else part for part in _PARTS.split(str(path))])


def _open(path: Path, asked: Asked) -> SampleFile:
    arrays = read_arrays(path)
    chosen = find_names(path, _ARRAYS, arrays, asked, alone="embeddings")
    if "embeddings" not in chosen:
        came = ", ".join(f"`{name}`" for name in arrays) or "none"
        raise refused(path, "an array must be the embeddings by its name, or be said to be by `names`", came)
    if "roles" in chosen and np.ndim(arrays[chosen["roles"]]) == 0:  # one word about the whole file
        del chosen["roles"]
    guesses = tuple(guessed(path, chosen, asked.names))
    name = chosen.pop("embeddings")
    embeddings = arrays[name]
    with of_file(path):
        checked = _checks.embeddings(name or "embeddings", embeddings)
        if not isinstance(embeddings, np.ndarray):  # NumPy has no bfloat16
            embeddings = checked if checked.dtype == torch.bfloat16 else checked.detach().numpy()
    labels = as_labels(path, chosen, arrays, len(checked))
    roles = labels.pop("roles", None)
    return SampleFile(str(path), embeddings, labels, guesses, roles)


def _form(file: SampleFile) -> str:
    """What all shards share."""
    dtype = str(file.embeddings.dtype).removeprefix("torch.")
    labels = [f"{key}{[*values.shape[1:]] or ''}{_KINDS[values.dtype.kind]}" for key, values in file.labels.items()]
    labels += [] if file.roles is None else ["roles"]
    return f"[N, {file.embeddings.shape[1]}] of {dtype} with {', '.join(labels) or 'no labels'}"
