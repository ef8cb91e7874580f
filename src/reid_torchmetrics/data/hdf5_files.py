"""HDF5: the arrays of numbers at the top of a file, as of triplet-reid, ann-benchmarks and MATLAB 7.3; by h5py.

Arrays that lie in one piece are mapped. Links to other files are not followed, and no array is read whose values are
in other files, or whose values are Python objects to h5py, such as texts of any length.
"""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._extras import require
from reid_torchmetrics.files import Allowance

from .foreign_forms import CONVERSIONS, Unread

_KINDS = "iufbS"
_MATLAB_NUMBERS = b"single double logical int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
"""MATLAB's classes of numbers; its texts have the class char, and are numbers in HDF5, too"""


def read_hdf5(path: Path) -> dict[str, Any]:
    """Return the arrays of numbers and of texts of fixed length by name, with the shapes that MATLAB shows.

    Anything else at the top of the file is `Unread`.

    Raises:
        ModuleNotFoundError: h5py is not installed.
        ValueError: An array would inflate to more than `Allowance` allows.
        OSError: The file is damaged.
    """
    try:
        require("This file", "h5py")
    except ModuleNotFoundError as error:
        line = CONVERSIONS[".h5"]
        raise ModuleNotFoundError(f"{error} Where h5py is, `{line}` converts it.", name="h5py") from None
    h5py: Any = import_module("h5py")
    allowance = Allowance(path.stat().st_size)
    arrays: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        for name in file:
            # Soft and external links may lead to other files.
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                arrays[name] = Unread("a link")
            elif file.get(name, getclass=True) is not h5py.Dataset:
                arrays[name] = Unread("a group")
            elif _is_readable(file[name]):
                arrays[name] = _read_array(path, name, file[name], allowance)
            else:
                dtype = file[name].dtype
                arrays[name] = Unread("texts of any length" if dtype.kind == "O" else f"an array of {dtype}")
    return arrays


def _is_readable(dataset: Any) -> bool:
    """Return whether an array has numbers or texts of fixed length that lie in its file."""
    if dataset.is_virtual or dataset.external or dataset.shape is None:
        return False
    if dataset.dtype.kind not in _KINDS or "MATLAB_empty" in dataset.attrs:
        return False
    return dataset.attrs.get("MATLAB_class", b"double") in _MATLAB_NUMBERS


def _read_array(path: Path, name: str, dataset: Any, allowance: Allowance) -> Array:
    offset = dataset.id.get_offset()
    if offset is None:  # in pieces, perhaps compressed
        allowance.spend(f"`{name}`", math.prod(dataset.shape) * dataset.dtype.itemsize)
        values = dataset[()]
    else:
        values = np.memmap(path, dataset.dtype, mode="r", offset=offset, shape=dataset.shape)
    is_matlab = "MATLAB_class" in dataset.attrs
    return np.asarray(values).T if is_matlab else values
