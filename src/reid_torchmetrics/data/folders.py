"""Folders with a file for each image: their files, and the names that two folders have in common."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from os import PathLike
from pathlib import Path

from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import remedy_of_json

Folder = str | PathLike[str]

_MAX_SUFFIXES = 4  # in a message
_COPY_OF_MACOS = "._"  # begins the names of files that macOS writes beside the real ones


def list_files(
    argument: str, folder: Folder, suffix: str, *, is_skipped: Callable[[Path], bool] | None = None
) -> list[Path]:
    """Return the files of a folder with a suffix, in small or capital letters, sorted by their names without it.

    Args:
        argument: The name of the argument, for messages.
        folder: The folder.
        suffix: The suffix in small letters, with its dot.
        is_skipped: Returns whether a file with the suffix is something else, such as a list of classes.

    Raises:
        FileNotFoundError: The folder does not exist.
        NotADirectoryError: It is a file.
        ValueError: It has no such file, and the message says what it has; or two names differ in their suffix alone.
    """
    path = Path(folder)
    if path.is_file():
        raise NotADirectoryError(f"`{argument}` must be a folder of {suffix} files; got the file {str(folder)!r}.")
    if not path.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    names = sorted(_file_names(path, suffix), key=os.path.splitext)
    files = [path / name for name in names]
    if is_skipped is not None:
        files = [file for file in files if not is_skipped(file)]
    if not files:
        got = f"{str(folder)!r} {_describe_contents(path, suffix)}"
        raise ValueError(f"`{argument}` must be a folder of {suffix} files; got {got}.")
    stems = [file.stem for file in files]
    for place, (first, second) in enumerate(pairwise(stems)):
        if first == second:
            copies = f"{files[place].name!r} and {files[place + 1].name!r} in {str(folder)!r}"
            raise ValueError(f"`{argument}` must have one file for each image; got {copies}.")
    return files


def has_files(folder: Folder, suffix: str) -> bool:
    """Return whether a folder exists and has a file with a suffix, in small or capital letters."""
    path = Path(folder)
    return path.is_dir() and bool(_file_names(path, suffix))


def warn_of_exchange(argument: str, folder: Folder, results: Folder) -> None:
    """Warn that two folders are read in exchanged order.

    Args:
        argument: The name of the argument for the ground truths.
        folder: The folder that was passed for it.
        results: The folder that was passed as `results`.
    """
    warn(
        f"`{argument}` and `results` were exchanged: the ground truths are read from {str(results)!r} and the"
        f" detections from {str(folder)!r}. The ground truths come first."
    )


def _file_names(folder: Path, suffix: str) -> list[str]:
    """Return the names of the files of a folder with a suffix, without copies by macOS."""
    with os.scandir(folder) as entries:  # which know whether they are folders
        return [entry.name for entry in entries if _has_suffix(entry.name, suffix) and not entry.is_dir()]


def _has_suffix(name: str, suffix: str) -> bool:
    return name.lower().endswith(suffix) and len(name) > len(suffix) and not name.startswith(_COPY_OF_MACOS)


def _describe_contents(folder: Path, suffix: str) -> str:
    """Describe the contents of a folder without files of images."""
    for path, subfolders, files in os.walk(folder):
        subfolders.sort()
        num_files = sum(_has_suffix(file, suffix) for file in files)
        if num_files and Path(path) != folder:
            return f"with {num_files} of them in its subfolder {str(Path(path).relative_to(folder))!r}"
    skipped = sorted(_file_names(folder, suffix))
    if skipped:
        return f"with {skipped[0]!r} alone, which is no such file of an image"
    suffixes = Counter(file.suffix or "without a suffix" for file in folder.iterdir() if file.is_file())
    if not suffixes:
        return "without files"
    parts = [f"{number} {name}" for name, number in suffixes.most_common(_MAX_SUFFIXES)]
    note = ""
    ((most_frequent, _),) = suffixes.most_common(1)
    if suffix == ".txt" and most_frequent == ".xml":
        note = "; documents of Pascal VOC are ground truths, without scores"
    elif suffix == ".txt" and most_frequent == ".json":
        note = remedy_of_json(folder)
    return f"with {', '.join(parts)}{note}"
