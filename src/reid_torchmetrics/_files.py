"""Files: found to be readable, parsed as JSON, inflated up to a bound, and written as a whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

from ._extras import find_orjson

MAX_INFLATED = "REID_TORCHMETRICS_MAX_INFLATED"
"""environment variable: the number of bytes that any file may inflate to"""
_MAX_INFLATED = 2**26
"""its default, 64 MiB"""
_MAX_RATIO = 100
"""a file may always inflate to this many times its size; embeddings and labels of real data stay below"""
_SHAPES = bytes(ord("0") if chr(byte).isdecimal() else byte if byte == ord(".") else ord(" ") for byte in range(256))
"""what each byte of JSON looks like: a digit, a point or anything else"""
_LONG_INTEGER = b" " + 19 * b"0"
"""the shape of an integer that may not fit 64 bits; the digits of a fraction have a point in front"""


def readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that can be read.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        PermissionError: it may not be read.
    """
    whole, name = Path(path), os.fspath(path)
    if whole.is_dir():
        raise IsADirectoryError(f"{name!r} must be a file; got a folder.")
    if not whole.exists():
        raise FileNotFoundError(f"There is no file {name!r}.")
    if not os.access(whole, os.R_OK):
        raise PermissionError(f"{name!r} must be a file that may be read; got one that may not.")
    return whole


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return what a file of JSON holds, as `json.loads` reads it; orjson is several times as fast where installed.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it is not JSON in UTF-8.
        RecursionError: it is nested too deep.
    """
    file = readable(path)
    orjson = find_orjson()
    if orjson is not None:
        contents = file.read_bytes()
        # orjson rounds integers beyond 64 bits to floats, without an error.
        if _LONG_INTEGER not in (b" " + contents).translate(_SHAPES):
            try:
                return orjson.loads(contents)
            except orjson.JSONDecodeError:
                pass  # NaN, Infinity and lone surrogates are read by `json` alone, which also words the errors
    return json.loads(file.read_text(encoding="utf-8"))


class Allowance:
    """The number of bytes that the contents of one file may still take in memory.

    Compressed files, tensors that repeat their values, and texts of unequal length take more memory than disk. A small
    file could so fill the memory or take minutes. A file may inflate to 64 MiB or to 100 times its size, whichever is
    more. The environment variable `REID_TORCHMETRICS_MAX_INFLATED` replaces the 64 MiB.
    """

    def __init__(self, file_size: int) -> None:
        """Allow what a file of this size may inflate to.

        Raises:
            ValueError: The environment variable is not a positive integer.
        """
        text = os.environ.get(MAX_INFLATED, "").strip() or str(_MAX_INFLATED)
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"the environment variable {MAX_INFLATED}={text!r}, which must be a number of bytes")
        self._limit = max(int(text), _MAX_RATIO * file_size)
        self._spent = 0

    def spend(self, name: str, num_bytes: int) -> None:
        """Count bytes before they are allocated.

        Raises:
            ValueError: The file would inflate to more than it may; `name` says which part of it.
        """
        self._spent += num_bytes
        if self._spent > self._limit:
            rule = f"where this file may take {self._limit}"
            remedy = f"if you trust it, set the environment variable {MAX_INFLATED} to more bytes"
            raise ValueError(f"{name} of {num_bytes} bytes in memory, {rule}; {remedy}")


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file beside its place, and rename it when it is complete, so that no error loses an older file.

    The file has the permissions of the older file, and a link still leads to it. A path that is no regular file, such
    as a device or a pipe, is written to directly. Folders that do not exist are made.

    Raises:
        OSError: any failure, with `path` as its file name.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(contents)
        else:
            _replace(Path(os.path.realpath(path)), contents)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        raise


def _replace(path: Path, contents: bytes) -> None:
    beside = path.with_name(f".{uuid4().hex}")  # short, as `path` may have as long a name as there can be
    try:
        with beside.open("xb") as file:
            shutil.copymode(path if path.exists() else beside, beside)  # before there is anything to be read
            file.write(contents)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def natural_order(path: str | os.PathLike[str]) -> list[int | str]:
    """What files are sorted by, so that 2 comes before 10: every other part of the path is a number."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", os.fspath(path))]
