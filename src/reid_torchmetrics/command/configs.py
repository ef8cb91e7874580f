"""YAML in files of options (`--config`) and in words: checked before it is expanded, and refused in one line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from reid_torchmetrics import _hints
from reid_torchmetrics._extras import require
from reid_torchmetrics.files import readable

_MAX_BYTES = 2**18
"""the largest file of options; the names of a thousand classes take a tenth of it"""
_MAX_DEPTH = 20
_MAX_ALIASED = 10_000
"""nodes that aliases may add: some lines of aliases of aliases are millions of nodes"""
_TAG = "tag:yaml.org,2002:"
_TAGS = {"!", *(_TAG + name for name in ("bool", "float", "int", "map", "null", "seq", "str"))}
"""tags of plain values, spelled out"""


def read_protocol(path: str) -> Any:
    """Read a protocol of one's own from a file in YAML with fields of `Protocol`.

    Its name is that of the file, and its source the path, unless the file has `name` and `source`.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: The file is no mapping of fields to plain values, or a value does not fit its field.
    """
    package: Any = import_module("reid_torchmetrics")
    names = [field.name for field in fields(package.Protocol)]
    protocol: dict[str, Any] = {"name": Path(path).stem, "source": path}
    config = read_config(path, names, kind="fields of `Protocol`", example="same_camera: keep")
    for name, (value, _) in config.items():
        protocol[name] = tuple(value) if isinstance(value, list) else value
    try:
        if isinstance(protocol.get("gallery_draw"), dict):
            protocol["gallery_draw"] = package.GalleryDraw(**protocol["gallery_draw"])
        return package.Protocol(**protocol)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_config(
    path: str,
    names: Collection[str],
    *,
    kind: str = "options of the command, with underscores",
    example: str = "protocol: msmt17",
) -> dict[str, tuple[Any, str]]:
    """Read the options in a file, each with the place of its line, such as "config.yaml:3".

    Args:
        path: File in YAML.
        names: Names of all options that the file may have.
        kind: Kind of the names, for messages.
        example: A line of such a file, for messages.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: The file is no mapping of such options to plain values, or its aliases expand to too many values;
            the message is one line that names the file.
    """
    values, root = parse_yaml(path, _read_text(path))
    if not isinstance(values, dict):
        got = "nothing" if values is None else repr(values)[:40]
        raise ValueError(f"{path}: the file must map options to values, such as `{example}`; got {got}.")  # noqa: TRY004
    options: dict[str, tuple[Any, str]] = {}
    for node, _ in root.value:
        where = f"{path}:{node.start_mark.line + 1}"
        key = node.value
        name = key.partition(".")[0] if isinstance(key, str) else ""
        if name not in names:  # a key may be a field of an option, such as `rerank.k1`
            hint = _hints.argument_meant(name, names)
            raise ValueError(f"{where}: keys must be {kind}; got {str(key)[:40]!r}{hint}.")
        if key in options:
            raise ValueError(f"{where}: each option must be given once; got `{key}` twice.")
        options[key] = (values.get(key), where)
    return options


def parse_yaml(place: str, text: str, *, keeps_digits: bool = False) -> tuple[Any, Any]:
    """Parse a text in YAML to a plain value, and to its tree of nodes with the lines of all values.

    With `keeps_digits`, a whole number is its text, such as "01". The messages of errors begin with `place`.

    Raises:
        ModuleNotFoundError: PyYAML is not installed.
        ValueError: The text is no YAML, or no plain value, or its aliases expand to too many values.
    """
    require("A file of options or a mapping", "yaml")
    yaml: Any = import_module("yaml")
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    if keeps_digits:
        loader.add_constructor(f"{_TAG}int", yaml.SafeLoader.construct_yaml_str)
    try:
        _check_events(yaml, place, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(_describe_error(place, error)) from error
    try:
        return yaml.load(text, Loader=loader), root
    except yaml.YAMLError as error:
        raise ValueError(_describe_error(place, error)) from error
    except Exception as error:  # such as a date that does not exist
        raise ValueError(f"{place}: values must be plain; got {str(error)[:80]}.") from error


def _read_text(path: str) -> str:
    """Read the text of a file of options."""
    file = readable(path)
    if not file.is_file():
        raise ValueError(f"{path}: a file of options must be a regular file; got a pipe or a device.")
    size = file.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{path}: a file of options must have at most {_MAX_BYTES} bytes; got {size}.")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: the file must be text in UTF-8; got {error}.") from error


def _check_events(yaml: Any, path: str, text: str) -> None:
    """Raise unless a text is one document of plain values, and small once its aliases are expanded.

    Nothing is built: a parser of YAML reports the beginning and the end of each list and mapping.
    """
    num_documents = 0
    nodes = _NodeCount()
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.DocumentStartEvent):
            num_documents += 1
            if num_documents > 1:
                raise ValueError(f"{where}: the file must have one document; got a second one.")
        elif isinstance(event, yaml.AliasEvent):
            nodes.count_alias(where, event.anchor)
        elif isinstance(event, yaml.NodeEvent):
            if event.tag is not None and event.tag not in _TAGS:
                raise ValueError(f"{where}: values must be plain; got the tag {event.tag.replace(_TAG, '!!')!r}.")
            nodes.begin(where, event.anchor)
            if isinstance(event, yaml.ScalarEvent):
                nodes.end()
        elif isinstance(event, yaml.CollectionEndEvent):
            nodes.end()


class _NodeCount:
    """The number of values in a document after its aliases are expanded."""

    def __init__(self) -> None:
        self._num_nodes = 0
        self._sizes: dict[str, int] = {}
        """number of values by anchor"""
        self._open: list[tuple[str | None, int]] = []
        """anchors of values that have not ended, each with the number of values before it"""

    def begin(self, where: str, anchor: str | None) -> None:
        """Count a value."""
        self._open.append((anchor, self._num_nodes))
        self._num_nodes += 1
        if len(self._open) > _MAX_DEPTH:
            raise ValueError(f"{where}: values must be nested at most {_MAX_DEPTH} deep; got more.")

    def end(self) -> None:
        """Remember the size of a value for its aliases."""
        anchor, num_before = self._open.pop()
        if anchor is not None:
            self._sizes[anchor] = self._num_nodes - num_before

    def count_alias(self, where: str, anchor: str) -> None:
        """Count the values that an alias stands for."""
        if anchor not in self._sizes:
            raise ValueError(f"{where}: an alias must name a whole value before it; got *{anchor}.")
        self._num_nodes += self._sizes[anchor]
        if self._num_nodes > _MAX_ALIASED:
            raise ValueError(f"{where}: values must be at most {_MAX_ALIASED} with aliases; got more.")


def _describe_error(path: str, error: Any) -> str:
    """Return the reason why a text is no YAML, with its line."""
    mark = getattr(error, "problem_mark", None)
    where = path if mark is None else f"{path}:{mark.line + 1}"
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{where}: the file must be valid YAML; got {problem}."
