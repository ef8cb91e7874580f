"""Files of arrays by name: opened, mapped where the format can be, and refused in one line where they are damaged.

.npy                header, numbers                               mapped
.npz                a zip archive of .npy files                   mapped, but for compressed ones
.pt, .pth           torch.save: a tensor, or a dict of tensors    mapped, but for files of torch before 1.6
.safetensors        header, numbers                               mapped
.mat                MATLAB up to 7.2                              read
"""

from __future__ import annotations

import importlib
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
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
from reid_torchmetrics._files import readable

from .mat_files import read_mat

UNNAMED = ""
"""the name of an array that is alone in its file"""

AS_JSON = "save lists of items as JSON, by `json.dump([each.tolist() for each in lists], file)`"
"""instead of objects"""

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
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        lines = [line.strip(" .") for line in str(error).splitlines() if line.strip(" .")]
        raise refused(path, f"the file must be {what}", f"{kind}{lines[0] if lines else 'no more'}") from error


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not blank, each behind the place where it stands."""
    with reading(path, "text in UTF-8"):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    for place, line in enumerate(map(str.strip, lines), start=1):
        if line:
            yield f"{path}:{place}", line


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
        raise refused(path, f"the suffix must be one of {', '.join(formats)}", repr(path.suffix))
    read, what = formats[suffix]
    with reading(path, what):
        return read(path)


def _read_npy(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        layout = _layout("the array", file, path.stat().st_size)
    return {UNNAMED: np.memmap(path, mode="r", **layout)}


def _read_npz(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        return {each.filename.removesuffix(".npy"): _read_member(path, archive, each) for each in members}


def _read_member(path: Path, archive: ZipFile, member: ZipInfo) -> Array:
    name = f"`{member.filename.removesuffix('.npy')}`"
    if member.compress_type != ZIP_STORED:  # has to be read to be decompressed
        contents = archive.read(member)
        return np.ndarray(buffer=contents, **_layout(name, BytesIO(contents), len(contents)))
    with path.open("rb") as file:
        # Of the name and of more fields, which the list of members has not.
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
        raise ValueError(f"{name} with Python objects, which only pickle reads: {AS_JSON}")
    offset = file.tell()
    if offset - start + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} of shape {[*shape]} and dtype {dtype} in {size} bytes")
    return {"shape": shape, "dtype": dtype, "offset": offset, "order": "F" if is_fortran else "C"}


def _read_torch(path: Path) -> dict[str, Any]:
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except UnpicklingError as error:  # with advice to trust the file
        found = re.search(r"(?:GLOBAL|Unsupported class) (\S+)", str(error))
        raise ValueError(f"the class {found[1]}" if found else "a damaged pickle") from error
    if isinstance(saved, Tensor):
        return {UNNAMED: saved}
    if not isinstance(saved, dict):
        raise ValueError(f"a {type(saved).__name__}")  # noqa: TRY004 - of a file, not of an argument
    return {str(name): value for name, value in saved.items()}


def _read_safetensors(path: Path) -> dict[str, Any]:
    with optional("safetensors", "safetensors").safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it cannot be iterated


FORMATS: dict[str, Format] = {
    ".npy": (_read_npy, "a whole array of numpy.save without pickle"),
    ".npz": (_read_npz, "a whole archive of numpy.savez without pickle"),
    **dict.fromkeys(
        (".pt", ".pth"), (_read_torch, "a tensor or a dict of tensors of torch.save, without other classes")
    ),
    ".safetensors": (_read_safetensors, "whole tensors of safetensors"),
    ".mat": (read_mat, "a whole MATLAB file of version 5 to 7.2"),
}
"""by suffix"""
