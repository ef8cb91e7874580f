"""Files: found to be readable, and written as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4


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
