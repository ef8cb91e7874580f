"""Files of arrays by name: opened, mapped where the format can be, and refused in one line where they are damaged.

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
from os import PathLike, fspath
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, TypeAlias
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._extras import require
from reid_torchmetrics._files import Allowance, readable

from .foreign_forms import CONVERSIONS, conversion
from .hdf5_files import read_hdf5
from .mat_files import is_version_7_3, read_mat
from .vector_files import read_vectors


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

Format: TypeAlias = tuple[Callable[[Path], dict[str, Any]], str]
"""what reads a file, and what it must be"""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LENGTHS, _AFTER_LENGTHS = 26, 30  # places in the header of a member of a zip archive


def refused(where: object, rule: str, came: object) -> ValueError:
    """An error of one line about a file."""
    return ValueError(" ".join(f"{where}: {rule}; got {came}.".splitlines()))


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Let a reader that fails, in any way, say that the file must be `what`.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: the reader failed.
    """
    readable(path)
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:  # damaged files make libraries raise anything
        kind = "" if type(error) in (ValueError, _ObjectsError) else f"{type(error).__name__}: "
        raise refused(path, f"the file must be {what}", f"{kind}{_first_line(error)}") from error


@contextmanager
def of_file(path: str | PathLike[str]) -> Iterator[None]:
    """Let any error about the contents of a file name the file, in one line.

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


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not blank, each behind the place where it stands."""
    yield from lines_of_text(path, read_utf_8(path))


def read_utf_8(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a mark of its encoding at the start."""
    with reading(path, "text in UTF-8"):
        return path.read_text(encoding="utf-8-sig")


def lines_of_text(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text that are not blank, each behind the place where it stands in its file."""
    for place, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if line:
            yield f"{path}:{place}", line


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank, stripped; "" if there is none."""
    with reading(path, "text in UTF-8"), path.open(encoding="utf-8-sig") as file:
        for line in file:
            if line and not line.isspace():
                return line.strip()
    return ""


def optional(module: str, package: str) -> Any:
    """Import a module of a package that need not be installed.

    Raises:
        ModuleNotFoundError: it is not; the message says what to install.
    """
    require("This file", package)
    return importlib.import_module(module)


def read_arrays(path: Path, formats: Mapping[str, Format] | None = None) -> dict[str, Any]:
    """The arrays, tensors or lists of a file by name, or the .npy of a folder by theirs; None stands for `FORMATS`.

    Raises:
        OSError: there is no such file, or it may not be read.
        ModuleNotFoundError: the package that reads it is not installed.
        ValueError: an unknown suffix, or a file that cannot be read without pickle.
    """
    if path.is_dir() and (files := sorted(path.glob("*.npy"))):
        return {each.stem: read_arrays(each)[UNNAMED] for each in files}
    formats, suffix = formats or FORMATS, path.suffix.lower()
    if suffix not in formats:
        came = f"{path.suffix!r}{conversion(suffix)}"
        raise refused(path, f"the suffix must be one of {', '.join(formats)}", came)
    read, what = formats[suffix]
    with reading(path, what):
        if not path.is_file():
            raise ValueError("a pipe or a device")
        return read(path)


def _read_npy(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        layout = _layout("the array", file, path.stat().st_size)
    return {UNNAMED: np.memmap(path, mode="r", **layout)}


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
            except _ObjectsError:  # it may not be needed
                arrays[name] = PythonObjects()
        return arrays


def _read_member(path: Path, archive: ZipFile, member: ZipInfo, allowance: Allowance) -> Array:
    name = f"`{member.filename.removesuffix('.npy')}`"
    if member.compress_type != ZIP_STORED:
        # The header says how much there is before it is inflated; ZipFile inflates no more than the directory says.
        with archive.open(member) as header:
            layout = _layout(name, header, member.file_size)
        allowance.spend(name, member.file_size)
        return np.ndarray(buffer=archive.read(member), **layout)
    with path.open("rb") as file:
        # The lengths of the name and of more fields, which the directory does not have.
        file.seek(member.header_offset + _LENGTHS)
        lengths = struct.unpack("<HH", file.read(4))
        file.seek(member.header_offset + _AFTER_LENGTHS + sum(lengths))
        return np.memmap(path, mode="r", **_layout(name, file, member.file_size))


def _layout(name: str, file: IO[bytes], size: int) -> dict[str, Any]:
    """How the numbers lie in a file with an npy file from here on, of `size` bytes."""
    start = file.tell()
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{name} in version {version[0]}.{version[1]} of the format")
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise _ObjectsError(_why_not_read(name, shape))
    # Without bytes, any number of values would fit into the file.
    if dtype.itemsize == 0:
        raise ValueError(f"{name} of dtype {dtype.str}, whose values have no bytes")
    if any(length < 0 for length in shape):
        raise ValueError(f"{name} of shape {list(shape)}")
    offset = file.tell()
    if offset - start + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} of shape {[*shape]} and dtype {dtype} in {size} bytes")
    return {"shape": shape, "dtype": dtype, "offset": offset, "order": "F" if is_fortran else "C"}


def _why_not_read(name: str, shape: Sequence[int]) -> str:
    """Name the line that converts an array of Python objects; a single one is a dict."""
    lines = ("dict in .npy",) if len(shape) == 0 else ("embeddings as objects", "lists as objects")
    remedy = ", or lists of items by ".join(f"`{CONVERSIONS[line]}`" for line in lines)
    return f"{name} with Python objects, which only pickle reads: convert it by {remedy}"


def _read_torch(path: Path) -> dict[str, Any]:
    allowance = Allowance(path.stat().st_size)
    is_archive = is_zipfile(path)
    if is_archive:
        with ZipFile(path) as archive:
            compressed = [member.filename for member in archive.infolist() if member.compress_type != ZIP_STORED]
        if compressed:
            raise ValueError(f"a compressed member {compressed[0]!r}, which torch.save does not write")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except UnpicklingError as error:  # with advice to trust the file
        found = re.search(r"(?:GLOBAL|Unsupported class) (\S+)", str(error))
        if found is None:
            raise ValueError("a damaged pickle") from error
        # A pickle may forge a dtype of NumPy whose values are pointers, so that its classes are not allowed either.
        remedy = conversion("NumPy in .pt") if found[1].startswith("numpy.") else ""
        raise ValueError(f"the class {found[1]}{remedy}") from error
    if isinstance(saved, Tensor):
        saved = {UNNAMED: saved}
    if not isinstance(saved, dict):
        kind = type(saved).__name__
        raise ValueError(f"a {kind}{conversion(f'{kind} in .pt')}")  # noqa: TRY004 - of a file, not of an argument
    arrays = {name if name is UNNAMED else str(name): value for name, value in saved.items()}
    for name, value in arrays.items():
        allowance.spend(f"`{name or 'the tensor'}`", _num_bytes_beyond_file(value))
    return arrays


def _num_bytes_beyond_file(value: Any) -> int:
    """Number of bytes of a saved value as an array that are not bytes of the file."""
    if isinstance(value, (list, tuple)):
        return num_bytes_of(value)
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
        return 0
    # An expanded tensor has any number of elements in a storage of one.
    num_bytes = value.numel() * value.element_size()
    return num_bytes if num_bytes > value.untyped_storage().nbytes() else 0


def num_bytes_of(values: Sequence[Any], depth: int = 2) -> int:
    """Number of bytes of nested lists as an array; NumPy makes all texts as long as the longest.

    Raises:
        ValueError: lists are nested deeper than rows of a matrix.
    """
    longest = max((len(value) for value in values if isinstance(value, (str, bytes))), default=0)
    num_bytes = len(values) * max(8, 4 * longest)
    rows = [value for value in values if isinstance(value, (list, tuple))]
    if rows and depth == 1:
        raise ValueError("lists in lists of lists")
    # A pickle writes a list once, however often it occurs: it is looked at once, and counted each time.
    distinct = {id(row): row for row in rows}
    sizes = {place: num_bytes_of(row, depth - 1) for place, row in distinct.items()}
    return num_bytes + sum(sizes[id(row)] for row in rows)


def _read_safetensors(path: Path) -> dict[str, Any]:
    with optional("safetensors", "safetensors").safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it cannot be iterated


def _read_mat(path: Path) -> dict[str, Any]:
    return read_hdf5(path) if is_version_7_3(path) else read_mat(path)


def _read_fvecs(path: Path) -> dict[str, Any]:
    return {UNNAMED: read_vectors(path, "<f4")}


def _read_bvecs(path: Path) -> dict[str, Any]:
    return {UNNAMED: read_vectors(path, "u1").astype(np.float32)}


FORMATS: dict[str, Format] = {
    ".npy": (_read_npy, "a whole array of numpy.save without pickle"),
    ".npz": (_read_npz, "a whole archive of numpy.savez without pickle"),
    **dict.fromkeys(
        (".pt", ".pth"), (_read_torch, "a tensor or a dict of tensors of torch.save, without other classes")
    ),
    ".safetensors": (_read_safetensors, "whole tensors of safetensors"),
    ".mat": (_read_mat, "a whole MATLAB file of version 5 to 7.3"),
    **dict.fromkeys((".h5", ".hdf5"), (read_hdf5, "a whole file of HDF5")),
    ".fvecs": (_read_fvecs, "vectors of floats, all of one length"),
    ".bvecs": (_read_bvecs, "vectors of bytes, all of one length"),
}
"""by suffix"""
