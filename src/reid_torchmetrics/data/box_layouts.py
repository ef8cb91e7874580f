"""The layouts of text files of boxes with names of classes: Cartucho's, KITTI's and that of Open Images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reid_torchmetrics import _hints

from .array_files import reading
from .box_lines import KITTI_CLASSES, REGION
from .folders import Folder, has_files, list_files
from .line_tables import is_number
from .text_files import read_rows, read_text_lines

_NUM_KITTI = (15, 16)
_NUM_CARTUCHO = (5, 6)
"""numbers of words in a line, of which the first is the name of a class"""
_IMAGE, _CLASS = "imageid", "labelname"
"""columns of Open Images, in small letters"""


class BoxLayout(NamedTuple):
    """A layout, and the classes that the files have."""

    name: str
    """"cartucho", "kitti" or "open_images\""""
    class_names: tuple[str, ...]


def find_box_layout(ground_truths: Folder, detections: Folder) -> BoxLayout | None:
    """Find the layout of two folders or two files, with the names of their classes in ascending order.

    Returns:
        The layout; None for paths with another one, such as YOLO's, which has numbers of classes.

    Raises:
        ValueError: a file that is no text, which the message names; or no class of one side is one of the other.
    """
    paths = [Path(ground_truths), Path(detections)]
    if all(path.is_file() and path.suffix.lower() == ".csv" for path in paths):
        true_classes, classes = map(_classes_of_table, paths)
        if true_classes is None or classes is None:
            return None
        return BoxLayout("open_images", _join_classes(true_classes, classes))
    if not all(has_files(path, ".txt") for path in paths):
        return None
    name = _layout_of_lines(paths)
    if name is None:
        return None
    no_classes = {REGION} if name == "kitti" else set()
    true_classes, classes = ({words[0] for words in _lines(path)} - no_classes for path in paths)
    if name == "kitti" and true_classes | classes <= set(KITTI_CLASSES):
        return BoxLayout(name, KITTI_CLASSES)
    return BoxLayout(name, _join_classes(true_classes, classes))


def _join_classes(true_classes: set[str], classes: set[str]) -> tuple[str, ...]:
    """Return the classes of both sides in ascending order.

    Raises:
        ValueError: both have classes, and none in common, or one of them in two spellings.
    """
    if true_classes and classes and true_classes.isdisjoint(classes):
        got = f"{_hints.listed(sorted(classes))} where these have {_hints.listed(sorted(true_classes))}"
        raise ValueError(f"`results` must have a class in common with the ground truths; got {got}.")
    true_spellings = {_bare_class(name): name for name in true_classes - classes}
    for name in sorted(classes - true_classes):
        if _bare_class(name) in true_spellings:
            got = f"{name!r} where these have {true_spellings[_bare_class(name)]!r}"
            raise ValueError(f"`results` must spell classes as the ground truths do; got {got}.")
    return tuple(sorted(true_classes | classes))


def _bare_class(name: str) -> str:
    """Return the name of a class without case, spaces and the signs for them."""
    return re.sub(r"[\s_-]", "", name).casefold()


def _lines(folder: Path) -> Iterator[list[str]]:
    """Yield the words of each line in the text files of a folder."""
    for path in list_files("labels", folder, ".txt"):
        for _, line in read_text_lines(path):
            yield line.split()


def _layout_of_lines(folders: list[Path]) -> str | None:
    """Return the layout of the first lines of two folders; None unless both begin with the name of a class.

    Raises:
        ValueError: one of them begins with a name, and the other with a number, or they have two layouts.
    """
    first_lines = []
    names = set()
    for folder in folders:
        words = next(_lines(folder), [])
        if words and is_number(words[0]):
            names.add("")
        elif len(words) in _NUM_KITTI:
            names.add("kitti")
        elif len(words) in _NUM_CARTUCHO:
            names.add("cartucho")
        first_lines.append(f"{' '.join(words)!r} in {str(folder)!r}")
    if len(names) > 1:
        raise ValueError(f"`labels` and `results` must have lines of one layout; got {' and '.join(first_lines)}.")
    return max(names, default="") or None


def _classes_of_table(path: Path) -> set[str] | None:
    """Return the names of classes in a table of Open Images; None for another table."""
    with reading(path, "a table in CSV with a header, in UTF-8"):
        rows = read_rows(path).numbered_rows
    if not rows:
        return None
    header = [name.strip().lower() for name in rows[0][1]]
    if _IMAGE not in header or _CLASS not in header:
        return None
    place = header.index(_CLASS)
    return {row[place].strip() for _, row in rows[1:] if len(row) > place}
