"""Files of results: npz archives without pickle; values that are no tensors are in JSON.

A file holds ranks or matches, labels and options. Numbers are computed from these when the file is read, by the
functions that evaluate. docs/how_to/results.md has the format. A value of a class is written as the name of the class
with its fields. A file can only name the classes that results list, so that reading it runs no code of the file.

An array has the dtype and the axes that its field is annotated with, and arrays of the same results share axes by name.
The headers of arrays are read first, so that an array that does not fit is refused before it is inflated.
"""
# ruff: noqa: SLF001 - the private names of `SavedResults` are for this module

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from zipfile import ZipFile, ZipInfo

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from reid_torchmetrics import _hints
from reid_torchmetrics._version import __version__
from reid_torchmetrics.functional.saved_results import OWN_AXES, Part, SavedResults

from .access import Allowance, readable, write_whole
from .array_layouts import ArrayLayout
from .saved_retrieval import find_lacking

FORMAT = 3
"""format of the files; it is raised when a stored field is added, and formats from `_OLDEST` on are still read"""
_OLDEST = 2  # format 1 stored numbers, before the first release
_HEADER = "header.json"
_PLAIN: dict[Any, tuple[type, ...]] = {float: (float, int), Any: (bool, int, float, str, type(None))}
"""types of values by their annotation, where it is not the type"""
_annotations_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
"""the annotations of the fields of a class; the dict must not be written to"""

_Saved = TypeVar("_Saved", bound=SavedResults)


def save_results(results: SavedResults, path: str | os.PathLike[str]) -> Path:
    """Write results to a file; see `SavedResults.save`."""
    arrays: dict[str, Any] = {}
    find_part = results._find_part
    saved = {name: _to_json(value, name, find_part, arrays) for name, value in results._to_fields().items()}
    kind = type(results)
    header = {"format": FORMAT, "kind": kind.__name__, "version": __version__, "fields": saved}
    text = json.dumps(header, allow_nan=False)
    # Read the file again: an error is better now than when these results are gone.
    try:
        contents = _archive(arrays, text, np.savez_compressed)
        _, problem = _read_contents(kind, contents)
    except ValueError:  # such as a million equal ranks, which would inflate to more than a file may
        contents = _archive(arrays, text, np.savez)
        _, problem = _read_contents(kind, contents)
    if problem:
        raise ValueError(f"`save` must write what `load` can read; got results {problem}.")
    write_whole(Path(path), contents)
    return Path(path)


def load_results(kind: type[_Saved], path: str | os.PathLike[str]) -> _Saved:
    """Read results of a class from a file; see `SavedResults.load`."""
    contents = readable(path).read_bytes()
    results: _Saved | None = None
    try:
        results, problem = _read_contents(kind, contents)
    except Exception as error:  # noqa: BLE001 - a foreign file may cause any error
        problem = f"that is truncated, damaged or of another program: {error}"
    if results is None:
        raise ValueError(
            f"`path` must be that of a file of `{kind.__name__}.save`; got {os.fspath(path)!r}, a file"
            f" {problem.rstrip('.')}."
        )
    return results


def _read_contents(kind: type[_Saved], contents: bytes) -> tuple[_Saved | None, str]:
    """Return the results in a file; for other results or another format None, and a description of the file."""
    allowance = Allowance(len(contents))
    with ZipFile(BytesIO(contents)) as archive:
        for member in archive.infolist():
            allowance.spend(f"`{member.filename}`", member.file_size)
        header = _read_header(archive, len(contents))
        problem = _find_problem(header, kind.__name__) or find_lacking(header["fields"])
        if problem:
            return None, problem
        return _read_archive(kind, header, archive, allowance), ""


def _read_archive(kind: type[_Saved], header: dict[str, Any], archive: ZipFile, allowance: Allowance) -> _Saved:
    """Read the fields, as `_to_json` wrote them, and build the results; each array may be used once."""
    entries = [entry for entry in archive.infolist() if entry.filename != _HEADER]
    arrays = {entry.filename.removesuffix(".npy"): _describe_array(archive, entry) for entry in entries}
    if len(arrays) < len(entries):
        raise ValueError(f"each array must have a name of its own; got {len(entries)} arrays with {len(arrays)} names.")
    builders: dict[str, Any] = {
        "$float": float,
        "$mapping": dict,
        "$tuple": tuple,
        "$array": arrays.pop,
        "$bfloat16": StoredArray.as_bfloat16,
    }
    builders[f"${kind.__name__}"] = partial(_build_results, kind, allowance=allowance)  # results within results

    def build_value(entries: dict[str, Any]) -> Any:
        key = next(iter(entries), "")
        if not key.startswith("$"):
            return entries
        part = None if key in builders else kind._find_part(key[1:])
        return builders[key](entries[key]) if part is None else Part(part, entries[key])

    saved = json.loads(json.dumps(header["fields"]), object_hook=build_value)
    if arrays:
        raise ValueError(f"every array must be in a field; got {_hints.listed(arrays)}.")
    results: _Saved = _build_results(kind, saved, allowance)
    return results


def _build_results(kind: Any, saved: dict[str, Any], allowance: Allowance) -> Any:
    """Build results of a class from fields with arrays that are not read yet."""
    hints = {name: hint for name, hint in _annotations_of(kind).items() if name not in kind._COMPUTED}
    hints.update(kind._SAVED_AS)
    own_axes = {field.name: field.metadata.get(OWN_AXES, ()) for field in fields(kind)}
    sizes = sizes_of(saved, hints, own_axes)
    allowance.spend("the numbers", kind._num_bytes(saved, sizes))
    return kind._from_fields(build(saved))


def _archive(arrays: Mapping[str, Any], header: str, save_arrays: Callable[..., None]) -> bytes:
    """Return an npz archive of arrays and a header; `save_arrays` is NumPy's function, with compression or without."""
    file = BytesIO()
    save_arrays(file, **arrays)
    with ZipFile(file, "a") as archive:
        archive.writestr(ZipInfo(_HEADER), header)
    return file.getvalue()


def _read_header(archive: ZipFile, num_bytes: int) -> dict[str, Any]:
    """Read the header of a file of `num_bytes`."""
    if archive.getinfo(_HEADER).file_size > num_bytes:
        raise ValueError(f"{_HEADER} must not be compressed.")
    header: dict[str, Any] = json.loads(archive.read(_HEADER))
    if type(header["format"]) is not int or header["format"] < 1:
        raise ValueError(f"`format` must be an int of at least 1; got {header['format']!r}.")
    return header


def _find_problem(header: dict[str, Any], kind: str) -> str:
    """Return the reason why a file does not hold results of a kind in a known format; "" if it does."""
    file_format = header["format"]
    if not _OLDEST <= file_format <= FORMAT:
        advice = ": evaluate and save again" if file_format < _OLDEST else ""
        return f"of format {file_format} and version {header['version']}; {__version__} reads {FORMAT}{advice}"
    if header["kind"] != kind:
        return f"with {header['kind']}"
    return ""


def _fields_of(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _to_json(value: Any, place: str, find_part: Callable[[str], type | None], arrays: dict[str, Any]) -> Any:
    """Return a value for JSON, and add its arrays to `arrays` by their place, such as "ranks.positives".

    A value that JSON lacks becomes an object with one key, "$" and its kind: {"$tuple": [1, 2]}.
    """

    def convert(values: Mapping[Any, Any]) -> dict[Any, Any]:
        return {name: _to_json(item, f"{place}.{name}", find_part, arrays) for name, item in values.items()}

    if isinstance(value, Tensor):
        if value.dtype == torch.bfloat16:  # unknown to NumPy
            return {"$bfloat16": _to_json(value.view(torch.int16), place, find_part, arrays)}
        arrays[place] = value.detach().cpu().numpy()
        return {"$array": place}
    if find_part(type(value).__name__) is type(value):
        return {f"${type(value).__name__}": convert(_fields_of(value))}
    if isinstance(value, Mapping):
        return {"$mapping": list(convert(value).items())}
    if isinstance(value, (tuple, list)):
        items = list(convert(dict(enumerate(value))).values())
        return items if isinstance(value, list) else {"$tuple": items}
    is_special = isinstance(value, float) and not math.isfinite(value)
    return {"$float": str(value)} if is_special else value


class StoredArray(NamedTuple):
    """An array that is not read yet."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Tensor]

    def as_bfloat16(self) -> StoredArray:
        """Return the array as bfloat16; NumPy lacks this dtype, so the bits are stored as int16."""
        if self.dtype != "int16":
            raise TypeError(f"bits of bfloat16 must be int16; got {self.dtype}.")
        return StoredArray("bfloat16", self.shape, lambda: self.read().view(torch.bfloat16))


def _describe_array(archive: ZipFile, entry: ZipInfo) -> StoredArray:
    """Read the header of an array; raise unless its size fits."""
    name = f"`{entry.filename}`"
    with archive.open(entry) as file:
        layout = ArrayLayout.read(name, file, entry.file_size)
    if layout.dtype.hasobject:
        raise ValueError(f"{name} must hold no objects, which need allow_pickle; got {layout.dtype}.")
    return StoredArray(layout.dtype.name, layout.shape, partial(_read, archive, entry))


def _read(archive: ZipFile, entry: ZipInfo) -> Tensor:
    with archive.open(entry) as file:
        return torch.from_numpy(npy.read_array(file, allow_pickle=False))


def sizes_of(
    saved: Mapping[str, Any], hints: Mapping[str, Any], own_axes: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Return the sizes of the axes of all arrays in some fields, by the names of the axes in their annotations.

    Args:
        saved: values by the names of their fields.
        hints: annotations of the fields.
        own_axes: for a field, names of the axes that are not the axes of other fields with these names.

    Raises:
        TypeError: a value, or the dtype of an array, that does not fit the annotation of its field.
        ValueError: an array whose shape does not fit its field, or other arrays.
    """
    sizes: dict[str, int] = {}
    for field_name, saved_value in saved.items():
        for place, array, names in _check_types(saved_value, hints[field_name], field_name):
            axes = [f"{field_name}_{name}" if name in own_axes.get(field_name, ()) else name for name in names]
            expected = [int(axis) if axis.isdecimal() else sizes.get(axis, axis) for axis in axes]
            if not _fits(array.shape, expected):
                shape = ", ".join(map(str, expected))
                raise ValueError(f"`{place}` must have shape [{shape}]; got {list(array.shape)}.")
            sizes.update(zip(axes, array.shape, strict=True))
    return sizes


def _fits(shape: Sequence[int], expected: Sequence[int | str]) -> bool:
    """Return whether a shape has the expected sizes; the name of an axis stands for any size."""
    if len(shape) != len(expected):
        return False
    pairs = zip(shape, expected, strict=True)
    return all(isinstance(size, str) or size == actual for actual, size in pairs)


def _check_types(value: Any, hint: Any, place: str) -> Iterator[tuple[str, StoredArray, list[str]]]:
    """Check that values fit their annotations; iterate over the arrays inside, with their place and axes."""
    kinds = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    if get_origin(kinds[0]) is Literal:
        kinds[0] = str  # the class that is built checks the name
    kind: Any = kinds[0]
    if isinstance(value, StoredArray) and value.dtype in getattr(kind, "dtypes", ()):
        yield place, value, kind.dim_str.split()
        return
    items = _items_of(value, kind)
    if items is not None:
        for name, item, annotation in items:
            yield from _check_types(item, annotation, f"{place}.{name}")
        return
    types: list[Any] = []
    for annotation in kinds:
        types += _PLAIN.get(annotation, (annotation,))
    if type(value) not in types:
        got = f"{value.dtype} {list(value.shape)}" if isinstance(value, StoredArray) else repr(value)
        raise TypeError(f"`{place}` must be {getattr(kind, '__name__', kind)}; got {got}.")


def _items_of(value: Any, kind: Any) -> Iterable[tuple[Any, Any, Any]] | None:
    """Return name, value and annotation of each item in a collection or part; None if the value is not of the kind."""
    origin, kinds = get_origin(kind), get_args(kind)
    if kind is Any:
        origin, kinds = tuple, (Any, ...)
    if isinstance(value, Part) and kind in (value.kind, Part):
        hints = _annotations_of(value.kind)
        return [(name, item, hints[name]) for name, item in value.saved.items()]
    if isinstance(value, dict) and origin is Mapping:
        return [(name, item, kinds[1]) for name, item in value.items()]
    if isinstance(value, (tuple, list)) and origin in (tuple, list, Sequence):
        if len(kinds) == 1 or kinds[-1] is ...:
            kinds = (kinds[0],) * len(value)
        if len(value) <= len(kinds):
            return zip(range(len(value)), value, kinds, strict=False)
    return None


def build(value: Any) -> Any:
    """Return the value, with its arrays read and its parts built."""
    if isinstance(value, StoredArray):
        return value.read()
    if isinstance(value, Part):
        return value.kind(**build(value.saved))
    if isinstance(value, dict):
        return {name: build(item) for name, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(build, value))
    return value
