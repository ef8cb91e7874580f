"""Names of YOLO's classes, from the files that lie beside its labels."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from reid_torchmetrics import _hints

from .array_files import file_error, import_optional, reading
from .line_tables import is_number
from .text_files import file_text, open_text, read_text_lines

_YAML = (".yaml", ".yml")
_TEXT = (".txt", ".names", ".labels")
_MAX_BYTES = 4_000_000  # size of a file; 100,000 classes need half of it
_MAX_SHOWN = 80  # characters of a value in a message
_NAME_FILES = (
    "data.yaml",
    "data.yml",
    "dataset.yaml",
    "dataset.yml",
    "classes.txt",
    "labels.txt",
    "*.names",
    "_darknet.labels",
)
_RULE = "`names` must be a list of texts, or a mapping from whole numbers, from 0 on, to texts"
_NOTE_NAMES = ("classes", "predefined_classes", "labels")  # lists of classes, as by LabelImg
_NOTE_PREFIX = "readme"  # in exports of Roboflow
_MIN_WORDS = 5  # of a line with an object: a class and a box
_NUM_PARENTS = 3  # folders above the labels in which names of classes may lie, such as `data/labels/val`


def read_yolo_names(path: str | PathLike[str]) -> dict[int, str]:
    """Return the names of YOLO's classes by number, for `class_names` of a metric.

    Args:
        path: `data.yaml` of Ultralytics or `data.yml` of SAHI with `names`, a list or a mapping from each class to its
            name; or a text file with a name in each line, such as `classes.txt` of LabelImg, `obj.names` of darknet or
            `_darknet.labels` of Roboflow.

    Raises:
        OSError: There is no such file, or it may not be read.
        ModuleNotFoundError: PyYAML is needed and not installed.
        ValueError: Another suffix, or a file without names; the message is one line that names the file.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in _YAML + _TEXT:
        raise file_error(file, f"the suffix must be one of {_hints.listed(_YAML + _TEXT, str)}", repr(file.suffix))
    names = _read_yaml(file) if suffix in _YAML else dict(enumerate(line for _, line in read_text_lines(file)))
    if not names:
        raise file_error(file, "the file must have the name of a class", "none")
    return names


def find_name_file(folder: str | PathLike[str]) -> Path | None:
    """Return the first file with names of classes in a folder of labels, or above it; None if there is none."""
    label_folder = Path(folder).resolve()
    for place in (label_folder, *label_folder.parents[:_NUM_PARENTS]):
        for name in _NAME_FILES:
            # An image may be called like the list of classes, and a file of YAML may have other things alone.
            paths = [path for path in place.glob(name) if path.is_file() and (path.suffix != ".txt" or is_note(path))]
            if len(paths) == 1 and (paths[0].suffix not in _YAML or "names" in file_text(paths[0])):
                return paths[0]
    return None


def is_note(path: Path) -> bool:
    """Return whether a file is a list of classes or a README, by its name and its first line."""
    stem = path.stem.lower()
    if stem not in _NOTE_NAMES and not stem.startswith(_NOTE_PREFIX):
        return False
    with open_text(path, errors="replace") as file:
        text = file.read()
    words = text.lstrip().partition("\n")[0].split()
    is_label = len(words) >= _MIN_WORDS and all(map(is_number, words))
    return bool(words) and not is_label


def class_numbers(
    labels: Int[NDArray[np.int64], " objects"], label_names: Mapping[int, str], names: Mapping[int, str], source: str
) -> Int[NDArray[np.int64], " objects"]:
    """Return the numbers that classes of detections have among the ground truths, by the names of both.

    Args:
        labels: The class of each detection.
        label_names: Names of these classes.
        names: Names of the classes of ground truths.
        source: The file with `label_names`, for messages.

    Raises:
        ValueError: A class without a name, or with a name that the ground truths lack, or two classes with one name.
    """
    numbers = {name: number for number, name in names.items()}
    for table in (names, label_names):
        if len(set(table.values())) < len(table):
            got = _hints.listed(table.values())
            raise ValueError(f"{source}: names of classes must differ to be matched; got {got}.")
    distinct_labels, places = np.unique(labels, return_inverse=True)
    for label in distinct_labels.tolist():
        if label_names.get(label) not in numbers:
            rule = f"classes of detections must have names of the ground truths, {_hints.listed(numbers)}"
            raise ValueError(f"{source}: {rule}; got {label_names.get(label)!r} for class {label}.")
    true_labels = np.array([numbers[label_names[label]] for label in distinct_labels.tolist()], np.int64)
    return true_labels[places]


def _read_yaml(path: Path) -> dict[int, str]:
    """Return the names of classes in a file of YAML."""
    yaml = import_optional("yaml", "yaml")
    with reading(path, "a mapping in YAML"):
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES:,} bytes")
        # The base loader makes strings, lists and mappings only, so that a class may be called `no` or `1e3`.
        with open_text(path) as file:
            contents = yaml.load(file.read(), Loader=yaml.BaseLoader)
    if not isinstance(contents, dict) or "names" not in contents:
        got = "no mapping"
        if isinstance(contents, dict):
            got = _hints.listed(contents, "`{}`".format)
        raise file_error(path, "the file must have the names of classes as `names`", _shorten(got))
    names = contents["names"]
    if isinstance(names, list):
        names = {str(label): name for label, name in enumerate(names)}
    if not isinstance(names, dict):
        raise file_error(path, _RULE, repr(_shorten(names)))
    for label, name in names.items():
        # `int` accepts more, such as `1_0`.
        is_number = isinstance(label, str) and label.isascii() and label.isdecimal()
        if not is_number or not isinstance(name, str):
            raise file_error(path, _RULE, f"{_shorten(name)!r} for {_shorten(label)!r}")
    return {int(label): name for label, name in names.items()}


def _shorten(value: Any) -> str:
    """Return the start of a text, or the type of another value, as aliases make small files large."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
