"""Names of YOLO's classes, from the files that lie beside its labels."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from .array_files import optional, reading, refused, text_lines

_YAML = (".yaml", ".yml")
_TEXT = (".txt", ".names")
_MAX_BYTES = 4_000_000
"""size of a file; 100,000 classes need half of it"""
_MAX_SHOWN = 80  # characters of a value in a message


def read_yolo_names(path: str | PathLike[str]) -> dict[int, str]:
    """Read the names of YOLO's classes, from each class to its name, for `class_names` of a metric.

    Args:
        path: `data.yaml` of Ultralytics with `names`, a list or a mapping from each class to its name; or a text file
            with a name in each line, such as `classes.txt` of LabelImg or `obj.names` of darknet.

    Raises:
        OSError: there is no such file, or it may not be read.
        ModuleNotFoundError: PyYAML is needed and not installed.
        ValueError: another suffix, or a file without names; the message is one line that names the file.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in _YAML + _TEXT:
        raise refused(file, f"the suffix must be one of {', '.join(_YAML + _TEXT)}", repr(file.suffix))
    if suffix in _YAML:
        names = _names_of_yaml(file)
    else:
        lines = text_lines(file)
        names = dict(enumerate(line for _, line in lines))
    if not names:
        raise refused(file, "the file must have the name of a class", "none")
    return names


def _names_of_yaml(path: Path) -> dict[int, str]:
    yaml = optional("yaml", "yaml")
    with reading(path, "a mapping in YAML"):
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
        # The base loader makes strings, lists and mappings only, so that a class may be called `no` or `1e3`.
        contents = yaml.load(text, Loader=yaml.BaseLoader)
    if not isinstance(contents, dict) or "names" not in contents:
        keys = ", ".join(f"`{key}`" for key in contents) if isinstance(contents, dict) else "no mapping"
        raise refused(path, "the file must have the names of classes as `names`", _shortened(keys))
    names = contents["names"]
    if isinstance(names, list):
        names = {str(label): name for label, name in enumerate(names)}
    if not isinstance(names, dict):
        raise refused(path, "`names` must be a list or a mapping", repr(_shortened(names)))
    return {_label(path, label): _name(path, name) for label, name in names.items()}


def _label(path: Path, label: Any) -> int:
    # `int` takes more, such as `1_0`.
    if not isinstance(label, str) or not (label.isascii() and label.isdecimal()):
        raise refused(path, "`names` must have whole numbers from 0 as keys", repr(_shortened(label)))
    return int(label)


def _name(path: Path, name: Any) -> str:
    if not isinstance(name, str):
        raise refused(path, "`names` must have texts as values", f"a {type(name).__name__}")
    return name


def _shortened(value: Any) -> str:
    """Return the start of a text; of anything else its type, as aliases make small files large."""
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
