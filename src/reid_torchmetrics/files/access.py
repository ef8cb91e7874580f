"""Files: check that they can be read, parse JSON, bound what they inflate to, and write them as a whole.

Nothing here imports NumPy, without which the command tells errors about files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

MAX_INFLATED = "REID_TORCHMETRICS_MAX_INFLATED"
"""environment variable: the number of bytes that any file may inflate to"""
_MAX_INFLATED = 2**26
"""its default, 64 MiB"""
_MAX_LINE = 2**22  # bytes of a first line that are looked at
_MAX_RATIO = 100
"""a file may always inflate to this many times its size; embeddings and labels of real data stay below"""


def readable(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be read.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: the path leads to a folder.
        PermissionError: the file may not be read.
    """
    file = Path(path)
    name = os.fspath(path)
    if file.is_dir():
        raise IsADirectoryError(f"{name!r} must be a file; got a folder.")
    if not file.exists():
        raise FileNotFoundError(f"There is no file {name!r}.")
    if not os.access(file, os.R_OK):
        raise PermissionError(f"{name!r} must be a file that may be read; got one that may not.")
    return file


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the contents of a JSON file, as `json.loads` reads them.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it is not JSON in UTF-8 or UTF-16.
        RecursionError: it is nested too deep.
    """
    return decoded_json(readable(path).read_bytes())


def decoded_json(contents: bytes) -> Any:
    """Return the value of a text of JSON; errors as in `read_json`."""
    try:
        return msgspec.json.decode(contents)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # NaN, Infinity, lone surrogates and other encodings are read by `json` alone, which also words the errors.
        return json.loads(contents.decode(json.detect_encoding(contents)))


def has_json_lines(path: Path) -> bool:
    """Return whether a file has a value of JSON in its first line, and another one below, as Hugging Face writes it."""
    with readable(path).open("rb") as file:
        first, second = file.readline(_MAX_LINE), file.readline(1)
    with suppress(ValueError):
        return bool(second.strip()) and isinstance(json.loads(first), dict)
    return False


def read_keys(path: str | os.PathLike[str], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of some keys of a JSON file that is an object; None for keys that it lacks.

    Other values are not built, which saves most of the time and memory for a data set of annotations. Errors are those
    of `read_json`.
    """
    fields = [(key, Any, None) for key in keys]
    try:
        values = msgspec.json.decode(readable(path).read_bytes(), type=msgspec.defstruct("Values", fields))
    except (msgspec.DecodeError, UnicodeDecodeError):
        contents = read_json(path)
        return {key: contents.get(key) for key in keys}
    return msgspec.structs.asdict(values)


class Allowance:
    """Number of bytes that the contents of one file may still take in memory.

    Compressed files, tensors that repeat their values, and texts of unequal length take more memory than disk. A small
    file could so fill the memory or take minutes. A file may inflate to 64 MiB or to 100 times its size, whichever is
    more. The environment variable `REID_TORCHMETRICS_MAX_INFLATED` replaces the 64 MiB.
    """

    def __init__(self, file_size: int) -> None:
        """Allow the number of bytes that a file of this size may inflate to.

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
    """Write a temporary file, and rename it when it is complete, so that an error does not destroy an older file.

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
    """Replace a file, or make it, by renaming a complete file in the same folder."""
    temporary = path.with_name(f".{uuid4().hex}")  # a short name, as that of `path` may have the maximal length
    try:
        with temporary.open("xb") as file:
            if path.exists():
                shutil.copymode(path, temporary)  # before the file has contents that others could read
            file.write(contents)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def natural_order(path: str | os.PathLike[str]) -> list[int | str]:
    """Return a key that sorts paths by the numbers in them, so that 2 comes before 10."""
    parts = re.split(r"(\d+)", os.fspath(path))  # text and numbers in turns
    return [int(part) if part.isdecimal() else part for part in parts]
