"""Folders with a file for each image: listed, compared by names, and recognized if they were exchanged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TypeVar

from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.batches import bare_name

Folder = str | PathLike[str]

_T = TypeVar("_T")

_MAX_SUFFIXES = 4  # in a message
_COPY_OF_MACOS = "._"  # begins the names of files that macOS writes beside the real ones


def list_files(
    argument: str, folder: Folder, suffix: str, *, is_skipped: Callable[[Path], bool] | None = None
) -> list[Path]:
    """Return the files of a folder with a suffix, in small or capital letters, sorted by their names without it.

    Args:
        argument: the name of the argument, for messages.
        folder: the folder.
        suffix: the suffix in small letters, with its dot.
        is_skipped: tells of a file with the suffix whether it is something else, such as a list of classes.

    Raises:
        FileNotFoundError: the folder does not exist.
        NotADirectoryError: it is a file.
        ValueError: it has no such file, or two whose names differ in their suffix alone; the message says what is
            there.
    """
    path = Path(folder)
    if path.is_file():
        raise NotADirectoryError(f"`{argument}` must be a folder of {suffix} files; got the file {str(folder)!r}.")
    if not path.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    files = [file for file in path.iterdir() if _has_suffix(file, suffix)]
    if is_skipped is not None:
        files = [file for file in files if not is_skipped(file)]
    if not files:
        raise ValueError(
            f"`{argument}` must be a folder of {suffix} files; got {str(folder)!r} {_contents(path, suffix)}."
        )
    files.sort(key=lambda file: (file.stem, file.suffix))
    for first, second in pairwise(files):
        if first.stem == second.stem:
            names = f"{first.name!r} and {second.name!r} in {str(folder)!r}"
            raise ValueError(f"`{argument}` must have one file for each image; got {names}.")
    return files


def has_files(folder: Folder, suffix: str) -> bool:
    """Return whether a folder exists and has a file with a suffix, in small or capital letters."""
    path = Path(folder)
    return path.is_dir() and any(_has_suffix(file, suffix) for file in path.iterdir())


def check_common_name(
    names: Collection[str], result_names: Collection[str], *, argument: str, folder: Folder, results: Folder
) -> None:
    """Raise if both folders have images, but none in common.

    Args:
        names: the images with ground truths.
        result_names: the images with detections; one that is among the ground truths has the same name there.
        argument: the name of the argument for the ground truths.
        folder: the folder of ground truths.
        results: the folder of detections.

    Raises:
        ValueError: the message has the first name of each folder.
    """
    if not names or not result_names or not set(names).isdisjoint(result_names):
        return
    first, first_result = min(names), min(result_names)
    raise ValueError(
        f"`results` must have an image in common with `{argument}`; got {first_result!r} first in {str(results)!r},"
        f" and {first!r} first in {str(folder)!r}."
    )


def rename_results(names: Collection[str], results: Mapping[str, _T], *, argument: str) -> dict[str, _T]:
    """Return the detections by the names that the images have among the ground truths, if they have one there.

    Args:
        names: the images with ground truths.
        results: what is there for each image with detections, by its name.
        argument: the name of the argument for the ground truths.

    Raises:
        ValueError: two names on one side belong to one image.
    """
    known = set(names)
    if known.issuperset(results):
        return dict(results)
    by_bare_name: dict[str, list[str]] = {}
    for name in names:
        by_bare_name.setdefault(bare_name(name), []).append(name)
    renamed: dict[str, _T] = {}
    origins: dict[str, str] = {}
    for name, value in results.items():
        candidates = [name] if name in known else by_bare_name.get(bare_name(name), [name])
        if len(candidates) > 1:
            raise ValueError(
                f"`{argument}` must have one name for each image; got {', '.join(candidates)} for {name!r}."
            )
        (image,) = candidates
        if image in renamed:
            both = f"{origins[image]!r} and {name!r}"
            raise ValueError(f"`results` must have one name for each image; got {both} for {image!r}.")
        renamed[image] = value
        origins[image] = name
    return renamed


def warn_of_exchange(argument: str, folder: Folder, results: Folder) -> None:
    """Warn that two folders are read in the other order than they were given.

    Args:
        argument: the name of the argument for the ground truths.
        folder: what was given for it.
        results: what was given as `results`.
    """
    warn(
        f"`{argument}` and `results` were exchanged: the ground truths are read from {str(results)!r} and the"
        f" detections from {str(folder)!r}. The ground truths come first."
    )


def _has_suffix(file: Path, suffix: str) -> bool:
    is_copy = file.name.startswith(_COPY_OF_MACOS)
    return file.suffix.lower() == suffix and not is_copy and not file.is_dir()


def _contents(folder: Path, suffix: str) -> str:
    """Say what a folder has instead of files with a suffix."""
    inside = _files_inside(folder, suffix)
    if inside is not None:
        subfolder, number = inside
        return f"with {number} of them in its subfolder {subfolder!r}"
    skipped = sorted(file.name for file in folder.iterdir() if _has_suffix(file, suffix))
    if skipped:
        return f"with {skipped[0]!r} alone, which is no such file of an image"
    suffixes = Counter(file.suffix or "without a suffix" for file in folder.iterdir() if file.is_file())
    if not suffixes:
        return "without files"
    parts = [f"{number} {name}" for name, number in suffixes.most_common(_MAX_SUFFIXES)]
    return f"with {', '.join(parts)}"


def _files_inside(folder: Path, suffix: str) -> tuple[str, int] | None:
    """Return the first subfolder, at any depth, that has files with a suffix, and their number."""
    for path, subfolders, files in os.walk(folder):
        subfolders.sort()
        number = sum(_has_suffix(Path(path, file), suffix) for file in files)
        if number and Path(path) != folder:
            return str(Path(path).relative_to(folder)), number
    return None
