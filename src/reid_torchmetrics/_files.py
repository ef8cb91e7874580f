"""Files that are seen when they are complete."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file beside its place, and rename it when it is complete, so that an older one is lost to no error.

    The file has the permissions of the older one, and a link still leads to it. What is no regular file, such as a
    device or a pipe, is written to where it is. Folders that do not exist are made.

    Raises:
        OSError: of `path`, whatever failed.
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
            if path.exists():  # before there is anything to be read
                shutil.copymode(path, beside)
            file.write(contents)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
