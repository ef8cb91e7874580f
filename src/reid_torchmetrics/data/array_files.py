"""Files of arrays by name: opened, mapped where the format allows it, and refused in one line if they are damaged.

.npy                header, numbers                               mapped
.npz                a zip archive of .npy files                   mapped, but for compressed ones
.pt, .pth           torch.save: a tensor, or a dict of tensors    mapped, but for files of torch before 1.6
.safetensors        header, numbers                               mapped
.mat                MATLAB up to 7.2; 7.3 is HDF5                 read
.h5, .hdf5          HDF5, by h5py                                 mapped, but for arrays in pieces
.fvecs, .bvecs      vectors, as of TEXMEX                         mapped; bytes become floats

Headers are compared with the sizes of the files before anything is inflated, and `Allowance` bounds the rest.
"""

from __future__ import annotations

import importlib
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _hints
from reid_torchmetrics._arrays import Array
from reid_torchmetrics._extras import require
from reid_torchmetrics.files import Allowance, ArrayLayout, readable

from .foreign_forms import CONVERSIONS, Unread, conversion, conversion_of_file
from .mat_files import is_version_7_3, read_mat


class _Unnamed(str):
    """A name that equals nothing but itself, so that no file can spell it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = str.__hash__


class PythonObjects:
    """Stand for an array of Python objects, readable by pickle alone, beside arrays that can be read."""


class _ObjectsError(ValueError):
    """An array with Python objects."""


UNNAMED = _Unnamed()
"""the name of an array that is alone in its file; a blank name in a file is another one"""


class Format(NamedTuple):
    """A format of files."""

    read: Callable[[Path], dict[str, Any]]
    """returns the arrays of a file by name"""
    description: str
    """a whole file in words, for messages"""


_LENGTHS, _AFTER_LENGTHS = 26, 30  # offsets in the header of a member of a zip archive
_LENGTH_SIZE = 4  # bytes of the length of a vector
_BYTES = "u1"
_HDF5_KINDS = "iufbS"
_TEXTS_AT_ONCE = 100
_MATLAB_NUMBERS = b"single double logical int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
"""MATLAB's classes of numbers; its texts have the class char, and are numbers in HDF5, too"""


def file_error(where: object, rule: str, got: object) -> ValueError:
    """Return an error of one line about a file."""
    message = f"{where}: {rule}; got {got}."
    return ValueError(" ".join(message.splitlines()))


@contextmanager
def reading(path: Path, description: str) -> Iterator[None]:
    """Turn any error of a reader into one that says what the file must be.

    Raises:
        OSError: There is no such file, or it may not be read.
        ValueError: The reader failed.
    """
    readable(path)
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:  # damaged files make libraries raise anything
        got = _first_line(error)
        if type(error) not in (ValueError, _ObjectsError):
            got = f"{type(error).__name__}: {got}"
        raise file_error(path, f"the file must be {description}", got) from error


@contextmanager
def naming_file(path: str | PathLike[str]) -> Iterator[None]:
    """Add the name of a file, in one line, to any error about its contents.

    Raises:
        OSError: As it was raised.
        ValueError: Any other error.
    """
    try:
        yield
    except (OSError, ModuleNotFoundError):
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        message = " ".join(f"{fspath(path)}: {error}".splitlines())
        raise ValueError(message) from error
    except Exception as error:  # such as MemoryError: a damaged file may lead to anything
        message = f"{fspath(path)}: the contents must be readable; got {type(error).__name__}: {_first_line(error)}."
        raise ValueError(message) from error


def _first_line(error: Exception) -> str:
    lines = [line.strip(" .") for line in str(error).splitlines() if line.strip(" .")]
    return lines[0] if lines else "no more"


def import_optional(module: str, package: str) -> Any:
    """Import a module of a package that need not be installed.

    Raises:
        ModuleNotFoundError: It is not installed; the message says what to install.
    """
    require("This file", package)
    return importlib.import_module(module)


def read_arrays(
    path: Path, formats: Mapping[str, Format] | None = None, *, passed_over: dict[str, str] | None = None
) -> dict[str, Any]:
    """Read the arrays, tensors or lists of a file by name, or all .npy files of a folder by the names of the files.

    Args:
        path: The file or the folder.
        formats: Formats by suffix; None for `FORMATS`.
        passed_over: Receives the types of values that are not read, by name.

    Raises:
        OSError: There is no such file, or it may not be read.
        ModuleNotFoundError: The package that reads it is not installed.
        ValueError: An unknown suffix, or a file that cannot be read without pickle.
    """
    files = sorted(path.glob("*.npy")) if path.is_dir() else []
    if files:
        return {file.stem: read_arrays(file)[UNNAMED] for file in files}

    formats = formats or FORMATS
    suffix = path.suffix.lower()
    if suffix not in formats:
        got = f"{path.suffix!r}{conversion_of_file(path)}"
        if path.is_dir():
            readable_files = sorted(file.name for file in path.iterdir() if file.suffix.lower() in formats)
            got = "a folder without such a file; pass a table or an array with a row for each sample"
            if readable_files:
                got = f"a folder without .npy files; pass a file in it, such as {readable_files[0]!r}"
        raise file_error(path, f"the suffix must be one of {_hints.listed(formats, str)}", got)

    read, description = formats[suffix]
    with reading(path, description):
        if not path.is_file():
            raise ValueError("a pipe or a device")
        arrays = read(path)
    if passed_over is not None:
        passed_over.update({name: values for name, values in arrays.items() if isinstance(values, Unread)})
    return {name: values for name, values in arrays.items() if not isinstance(values, Unread)}


def _read_npy(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        layout = _read_layout("the array", file, path.stat().st_size)
    return {UNNAMED: layout.map_file(path)}


def _read_npz(path: Path) -> dict[str, Any]:
    allowance = Allowance(path.stat().st_size)
    with ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        counts = Counter(member.filename for member in members)
        for name, count in counts.items():
            if count > 1:
                raise ValueError(f"{count} arrays called `{name.removesuffix('.npy')}`")

        arrays: dict[str, Any] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            try:
                arrays[name] = _read_member(path, archive, member, allowance)
            except _ObjectsError:  # the user may not need this array
                arrays[name] = PythonObjects()
        return arrays


def _read_member(path: Path, archive: ZipFile, member: ZipInfo, allowance: Allowance) -> Array:
    name = f"`{member.filename.removesuffix('.npy')}`"
    if member.compress_type != ZIP_STORED:
        # The header says how much there is before it is inflated; ZipFile inflates no more than the directory says.
        with archive.open(member) as header:
            layout = _read_layout(name, header, member.file_size)
        allowance.spend(name, member.file_size)
        contents = archive.read(member)
        return np.ndarray(layout.shape, layout.dtype, buffer=contents, offset=layout.offset, order=layout.order)
    archive.open(member).close()  # raises unless the name in front of the array is that in the directory
    with path.open("rb") as file:
        # The directory lacks the lengths of the name and of further fields in front of the array.
        file.seek(member.header_offset + _LENGTHS)
        lengths = struct.unpack("<HH", file.read(4))
        file.seek(member.header_offset + _AFTER_LENGTHS + sum(lengths))
        size = min(member.file_size, member.compress_size)  # equal, unless the directory is damaged
        return _read_layout(name, file, size).map_file(path)


def _read_layout(name: str, file: IO[bytes], size: int) -> ArrayLayout:
    """Return the layout of the .npy data of `size` bytes that start at the current position of a file.

    Raises:
        ValueError: An array of Python objects, or data that is damaged.
    """
    layout = ArrayLayout.read(name, file, size)
    if layout.dtype.hasobject:
        forms = ["embeddings as objects", "lists as objects"]
        if not layout.shape:  # of a dict, NumPy makes an array without axes
            forms = ["dict in .npy"]
        remedy = ", or lists of items by ".join(f"`{CONVERSIONS[form]}`" for form in forms)
        raise _ObjectsError(f"{name} with Python objects, which only pickle reads: convert it by {remedy}")
    return layout


def _read_torch(path: Path) -> dict[str, Any]:
    allowance = Allowance(path.stat().st_size)
    saved = _load_torch(path)
    if isinstance(saved, Tensor):
        saved = {UNNAMED: saved}
    if not isinstance(saved, dict):
        kind = form = type(saved).__name__
        if kind == "list" and saved and isinstance(saved[0], dict):
            are_batches = all(isinstance(value, Tensor) and value.ndim for value in saved[0].values())
            form = "batches" if are_batches else "samples"
        raise ValueError(f"a {kind}{conversion(f'{form} in .pt')}")  # noqa: TRY004 - of a file, not of an argument
    arrays = {name if name is UNNAMED else str(name): value for name, value in saved.items()}
    for name, value in arrays.items():
        allowance.spend(f"`{name or 'the tensor'}`", _num_bytes_beyond_file(value))
    return arrays


def _load_torch(path: Path) -> Any:
    """Load a file of torch.save, mapped if it is an archive.

    Raises:
        ValueError: A compressed archive, or a pickle with classes.
    """
    is_archive = is_zipfile(path)
    if is_archive:
        with ZipFile(path) as archive:
            compressed = [member.filename for member in archive.infolist() if member.compress_type != ZIP_STORED]
        if compressed:
            raise ValueError(f"a compressed member {compressed[0]!r}, which torch.save does not write")
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except UnpicklingError as error:  # with advice to trust the file
        match = re.search(r"(?:GLOBAL|Unsupported class) (\S+)", str(error))
        if match is None:
            raise ValueError("a damaged pickle") from error
        # A pickle may forge a dtype of NumPy whose values are pointers, so that its classes are not allowed either.
        remedy = conversion("NumPy in .pt") if match[1].startswith("numpy.") else ""
        raise ValueError(f"the class {match[1]}{remedy}") from error


def _num_bytes_beyond_file(value: Any) -> int:
    """Return the number of bytes that a saved value takes as an array, unless they are bytes of the file."""
    if isinstance(value, (list, tuple)):
        return count_bytes(value)
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
        return 0
    # An expanded tensor has any number of elements in a storage of one.
    num_bytes = value.numel() * value.element_size()
    return num_bytes if num_bytes > value.untyped_storage().nbytes() else 0


def count_bytes(values: Sequence[Any], depth: int = 2) -> int:
    """Return the number of bytes of nested lists as an array, where all texts are as long as the longest.

    Raises:
        ValueError: Lists are nested deeper than rows of a matrix.
    """
    longest = max((len(value) for value in values if isinstance(value, (str, bytes))), default=0)
    num_bytes = len(values) * max(8, 4 * longest)
    rows = [value for value in values if isinstance(value, (list, tuple))]
    if rows and depth == 1:
        raise ValueError("lists in lists of lists")
    # A pickle writes a list once, however often it occurs: each distinct list is visited once, and counted each time.
    distinct = {id(row): row for row in rows}
    sizes = {key: count_bytes(row, depth - 1) for key, row in distinct.items()}
    return num_bytes + sum(sizes[id(row)] for row in rows)


def _read_safetensors(path: Path) -> dict[str, Any]:
    safetensors = import_optional("safetensors", "safetensors")
    with safetensors.safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it cannot be iterated


def _read_mat(path: Path) -> dict[str, Any]:
    return _read_hdf5(path) if is_version_7_3(path) else read_mat(path)


def _read_hdf5(path: Path) -> dict[str, Any]:
    """Return the arrays of numbers and of texts by name, with the shapes that MATLAB shows.

    Anything else at the top of the file is `Unread`.

    Raises:
        ModuleNotFoundError: h5py is not installed.
        ValueError: An array would inflate to more than `Allowance` allows.
        OSError: The file is damaged.
    """
    try:
        h5py = import_optional("h5py", "h5py")
    except ModuleNotFoundError as error:
        line = CONVERSIONS[".h5"]
        raise ModuleNotFoundError(f"{error} Where h5py is, `{line}` converts it.", name="h5py") from None
    allowance = Allowance(path.stat().st_size)
    arrays: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        for name in file:
            # Soft and external links may lead to other files.
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                arrays[name] = Unread("a link")
            elif file.get(name, getclass=True) is not h5py.Dataset:
                arrays[name] = Unread("a group")
            elif _is_hdf5_readable(file[name]):
                arrays[name] = _read_hdf5_array(path, name, file[name], allowance)
            elif _is_in_file(file[name]) and h5py.check_string_dtype(file[name].dtype):
                arrays[name] = _read_hdf5_texts(name, file[name], allowance)
            else:
                arrays[name] = Unread(f"an array of {file[name].dtype}")
    return arrays


def _is_hdf5_readable(dataset: Any) -> bool:
    """Return whether an array has numbers or texts of fixed length that lie in its file."""
    if not _is_in_file(dataset) or dataset.dtype.kind not in _HDF5_KINDS or "MATLAB_empty" in dataset.attrs:
        return False
    return dataset.attrs.get("MATLAB_class", b"double") in _MATLAB_NUMBERS


def _is_in_file(dataset: Any) -> bool:
    return not dataset.is_virtual and not dataset.external and dataset.shape is not None


def _read_hdf5_array(path: Path, name: str, dataset: Any, allowance: Allowance) -> Array:
    offset = dataset.id.get_offset()
    if offset is None:  # in pieces, perhaps compressed
        allowance.spend(f"`{name}`", math.prod(dataset.shape) * dataset.dtype.itemsize)
        values = dataset[()]
    else:
        values = np.memmap(path, dataset.dtype, mode="r", offset=offset, shape=dataset.shape)
    is_matlab = "MATLAB_class" in dataset.attrs
    return np.asarray(values).T if is_matlab else values


def _read_hdf5_texts(name: str, dataset: Any, allowance: Allowance) -> Array | Unread:
    """Return texts of any length [N], `Unread` for another shape; bytes that are no UTF-8 become surrogates."""
    if dataset.ndim != 1:
        return Unread(f"texts of shape {list(dataset.shape)}")
    rows = dataset.asstr(errors="surrogateescape")
    # A text is no longer than its file, of which rows may repeat it: 100 of them stay within the allowance.
    texts: list[str] = []
    for start in range(0, dataset.size, _TEXTS_AT_ONCE):
        block = rows[start : start + _TEXTS_AT_ONCE].tolist()
        allowance.spend(f"`{name}`", sum(map(len, block)))
        texts += block
    allowance.spend(f"`{name}`", count_bytes(texts))
    return np.array(texts, np.str_)


def read_vectors(path: Path, *, dtype: str) -> dict[str, Any]:
    """Return the vectors of a file, mapped: of each its length, an integer of 32 bits, and then its values.

    Raises:
        ValueError: Vectors of unequal lengths, or a file that does not end with a vector.
    """
    num_bytes = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_SIZE), "little", signed=True)
    vector_size = _LENGTH_SIZE + length * np.dtype(dtype).itemsize
    if length < 1 or num_bytes % vector_size:
        raise ValueError(f"{num_bytes} bytes where the first vector has {length} values")
    vectors = np.memmap(path, np.dtype([("length", "<i4"), ("values", dtype, (length,))]), mode="r")
    deviating = np.flatnonzero(vectors["length"] != length)
    if len(deviating):
        first = deviating[0]
        raise ValueError(f"{vectors['length'][first]} values in vector {first} where the first has {length}")
    values = vectors["values"]
    return {UNNAMED: values.astype(np.float32) if dtype == _BYTES else values}


_TORCH = Format(_read_torch, "a tensor or a dict of tensors of torch.save, without other classes")
_HDF5 = Format(_read_hdf5, "a whole file of HDF5")
FORMATS: dict[str, Format] = {
    ".npy": Format(_read_npy, "a whole array of numpy.save without pickle"),
    ".npz": Format(_read_npz, "a whole archive of numpy.savez without pickle"),
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".safetensors": Format(_read_safetensors, "whole tensors of safetensors"),
    ".mat": Format(_read_mat, "a whole MATLAB file of version 5 to 7.3"),
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".fvecs": Format(partial(read_vectors, dtype="<f4"), "vectors of floats, all of one length"),
    ".bvecs": Format(partial(read_vectors, dtype=_BYTES), "vectors of bytes, all of one length"),
}
"""formats by suffix"""
