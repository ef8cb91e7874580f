"""Results as files: npz without pickle, with the values that are no tensors in JSON.

A file holds ranks or matches, labels and options. Numbers are computed from these when the file is read, by the
functions that evaluate. docs/how_to/results.md has the format. A value of a class is written as the name of the class
with its fields. A file can only name the classes that results list, so that reading it runs no code of the file.

An array has the dtype and the axes that its field is annotated with, and arrays of the same results share axes by name.
The headers of arrays are read first: what does not fit is refused before it is inflated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from io import BytesIO
from itertools import chain, repeat, zip_longest
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from zipfile import ZipFile, ZipInfo

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from reid_torchmetrics._files import Allowance, readable, write_whole
from reid_torchmetrics._version import __version__

FORMAT = 2
"""of the files; it is raised when a stored field is added, and formats from `_OLDEST` on are still read"""
_OLDEST = 2  # format 1, from before the first release, stored numbers
_HEADER = "header.json"
OWN_AXES = "own_axes"
"""key of the metadata of a stored field, for names of axes with other sizes than in other fields"""
_HEADERS: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_PLAIN: dict[Any, tuple[type, ...]] = {float: (float, int), Any: (bool, int, float, str, type(None))}
"""types of values by their annotation, where it is another"""
_annotations_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
"""the annotations of the fields of a class; the dict must not be written to"""

Saved = TypeVar("Saved", bound="SavedResults")


class SavedResults:
    """Results that can be saved to a file, and loaded by another process or on another machine."""

    _PARTS: tuple[type, ...] = ()
    """dataclasses without results that occur in the fields, besides its own"""
    _COMPUTED: tuple[str, ...] = ()
    """fields that `_from_fields` computes, or that no file holds"""
    _SAVED_AS: Mapping[str, Any] = MappingProxyType({})
    """annotations of what is saved in another form, or in the place of computed fields"""

    def _to_fields(self) -> dict[str, Any]:
        """Return what is saved: fields by name, of tensors, numbers, strings, collections of them and `_PARTS`."""
        return {name: value for name, value in _fields_of(self).items() if name not in self._COMPUTED}

    @classmethod
    def _from_fields(cls: type[Saved], saved: dict[str, Any]) -> Saved:  # noqa: PYI019 - Python 3.10 has no `Self`
        """Compute the results: the inverse of `_to_fields`.

        Raises:
            ValueError: values that no results have.
        """
        return cls(**saved)

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:  # noqa: ARG003
        """Return the memory of the numbers that `_from_fields` computes, given the sizes of all axes."""
        return 0

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the results to a file, and return its path.

        The file is an npz archive without pickle. It is written as a whole, and replaces an older one; folders that do
        not exist are made. Among several processes only one should call this.

        Args:
            path: of the file, usually with the suffix .npz.

        Raises:
            OSError: the file cannot be written.
            TypeError: the results hold a value that files do not have, such as a function.
            ValueError: results that `load` would refuse.
        """
        arrays: dict[str, Any] = {}
        parts = (type(self), *self._PARTS)
        saved = {name: _tree(value, name, parts, arrays) for name, value in self._to_fields().items()}
        header = {"format": FORMAT, "kind": type(self).__name__, "version": __version__, "fields": saved}
        text = json.dumps(header, allow_nan=False)
        # It is read again: rather here is an error than when there are no other results.
        try:
            contents = _archive(arrays, text, np.savez_compressed)
            self._from_contents(contents)
        except ValueError:  # such as a million equal ranks, which would inflate to more than a file may
            contents = _archive(arrays, text, np.savez)
            self._from_contents(contents)
        write_whole(Path(path), contents)
        return Path(path)

    @classmethod
    def load(cls: type[Saved], path: str | os.PathLike[str]) -> Saved:  # noqa: PYI019
        """Read results from a file of `save`, of this version or of an earlier one, with tensors on the CPU.

        Numbers are computed from the ranks or matches in the file, as by the functions that evaluate.

        Raises:
            OSError: there is no such file, or it cannot be read.
            ValueError: a truncated or damaged file, a file that is no results, results of another kind, of a later
                version or of format 1; or a file that inflates to more than 64 MiB and to more than 100 times its size,
                unless the environment variable `REID_TORCHMETRICS_MAX_INFLATED` allows more bytes.
        """
        contents = readable(path).read_bytes()
        try:
            results, why = cls._from_contents(contents)
        except Exception as error:  # noqa: BLE001 - whatever a foreign file may lead to
            results, why = None, f"that is truncated, damaged or of another program: {error}"
        if results is None:
            rule = f"`path` must be that of a file of `{cls.__name__}.save`"
            raise ValueError(f"{rule}; got {os.fspath(path)!r}, a file {why.rstrip('.')}.")
        return results

    @classmethod
    def _from_contents(cls: type[Saved], contents: bytes) -> tuple[Saved | None, str]:  # noqa: PYI019
        """Return the results in a file; None, and what the file is, for a file of other results or another format."""
        allowance = Allowance(len(contents))
        with ZipFile(BytesIO(contents)) as archive:
            for member in archive.infolist():
                allowance.spend(f"`{member.filename}`", member.file_size)
            header, why = _header_of(archive, len(contents), cls.__name__)
            return (None, why) if why else (cls._from_archive(header, archive, allowance), "")

    @classmethod
    def _from_archive(cls: type[Saved], header: dict[str, Any], archive: ZipFile, allowance: Allowance) -> Saved:  # noqa: PYI019
        """Apply the inverse of `_tree`, where each array is there once; results in results are built."""
        entries = [entry for entry in archive.infolist() if entry.filename != _HEADER]
        arrays = {entry.filename.removesuffix(".npy"): _described(archive, entry) for entry in entries}
        if len(arrays) < len(entries):
            came = f"{len(entries)} arrays with {len(arrays)} names"
            raise ValueError(f"each array must have a name of its own; got {came}.")
        kinds: dict[str, Any] = {"$float": float, "$mapping": dict, "$tuple": tuple}
        kinds |= {"$array": arrays.pop, "$bfloat16": StoredArray.as_bfloat16}
        kinds |= {f"${part.__name__}": partial(Part, part) for part in cls._PARTS}
        kinds[f"${cls.__name__}"] = partial(cls._build, allowance=allowance)

        def value(entries: dict[str, Any]) -> Any:
            kind = next(iter(entries), "")
            return kinds[kind](entries[kind]) if kind.startswith("$") else entries

        saved = json.loads(json.dumps(header["fields"]), object_hook=value)
        if arrays:
            raise ValueError(f"every array must be in a field; got {', '.join(map(repr, arrays))}.")
        return cls._build(saved, allowance)

    @classmethod
    def _build(cls: type[Saved], saved: dict[str, Any], allowance: Allowance) -> Saved:  # noqa: PYI019
        """Build results from fields with arrays that were not read yet."""
        kind: Any = cls
        hints = {name: hint for name, hint in _annotations_of(kind).items() if name not in cls._COMPUTED}
        own_axes = {each.name: each.metadata.get(OWN_AXES, ()) for each in fields(kind)}
        sizes = sizes_of(saved, hints | {**cls._SAVED_AS}, own_axes)
        allowance.spend("the numbers", cls._num_bytes(saved, sizes))
        return cls._from_fields(build(saved))


def _archive(arrays: Mapping[str, Any], header: str, save_arrays: Callable[..., None]) -> bytes:
    """Return an npz archive of arrays and a header; `save_arrays` is NumPy's function, with compression or without."""
    file = BytesIO()
    save_arrays(file, **arrays)
    with ZipFile(file, "a") as archive:
        archive.writestr(ZipInfo(_HEADER), header)
    return file.getvalue()


def _header_of(archive: ZipFile, num_bytes: int, kind: str) -> tuple[dict[str, Any], str]:
    """The header, and what the file is if a class of results does not read it; raise if it is no header."""
    if archive.getinfo(_HEADER).file_size > num_bytes:
        raise ValueError(f"{_HEADER} must not be compressed.")
    header: dict[str, Any] = json.loads(archive.read(_HEADER))
    if type(header["format"]) is not int or header["format"] < 1:
        raise ValueError(f"`format` must be an int of at least 1; got {header['format']!r}.")
    if not _OLDEST <= header["format"] <= FORMAT:
        instead = ": evaluate and save again" if header["format"] < _OLDEST else ""
        why = f"of format {header['format']} and version {header['version']}; {__version__} reads {FORMAT}{instead}"
        return header, why
    return header, "" if header["kind"] == kind else f"with {header['kind']}"


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _tree(value: Any, place: str, classes: tuple[type, ...], arrays: dict[str, Any]) -> Any:
    """A value for JSON, where an object with one key, `$` and a kind, stands for what it lacks; arrays by place."""

    def inside(values: Mapping[Any, Any]) -> dict[Any, Any]:
        return {name: _tree(each, f"{place}.{name}", classes, arrays) for name, each in values.items()}

    if isinstance(value, Tensor):
        if value.dtype == torch.bfloat16:  # unknown to NumPy
            return {"$bfloat16": _tree(value.view(torch.int16), place, classes, arrays)}
        arrays[place] = value.detach().cpu().numpy()
        return {"$array": place}
    if type(value) in classes:
        return {f"${type(value).__name__}": inside(_fields_of(value))}
    if isinstance(value, Mapping):
        return {"$mapping": [*inside(value).items()]}
    if isinstance(value, (tuple, list)):
        listed = [*inside(dict(enumerate(value))).values()]
        return listed if isinstance(value, list) else {"$tuple": listed}
    return {"$float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


class StoredArray(NamedTuple):
    """An array that was not read yet."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Tensor]

    def as_bfloat16(self) -> StoredArray:
        """The bits of a dtype that NumPy does not know."""
        if self.dtype != "int16":
            raise TypeError(f"bits of bfloat16 must be int16; got {self.dtype}.")
        return StoredArray("bfloat16", self.shape, lambda: self.read().view(torch.bfloat16))


class Part(NamedTuple):
    """A value of a class, of fields with arrays that were not read yet."""

    kind: type
    saved: dict[str, Any]


def _described(archive: ZipFile, entry: ZipInfo) -> StoredArray:
    with archive.open(entry) as file:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
        size = file.tell() + math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError(f"`{entry.filename}` must hold no objects, which need allow_pickle; got {dtype}.")
    if size != entry.file_size:
        raise ValueError(
            f"`{entry.filename}` must have the {size} bytes of {dtype} {list(shape)}; got {entry.file_size}."
        )
    return StoredArray(dtype.name, shape, partial(_read, archive, entry))


def _read(archive: ZipFile, entry: ZipInfo) -> Tensor:
    with archive.open(entry) as file:
        return torch.from_numpy(npy.read_array(file, allow_pickle=False))


def sizes_of(
    saved: Mapping[str, Any], hints: Mapping[str, Any], own_axes: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Sizes of the axes of all arrays in some fields, by the names that annotations give them.

    The axes in `own_axes` of a field are not those of other fields.

    Raises:
        TypeError: a value, or the dtype of an array, that is not as its field is annotated.
        ValueError: an array whose shape does not fit its field, or other arrays.
    """
    sizes: dict[str, int] = {}
    declared = chain.from_iterable(_declared(value, hints[name], name) for name, value in saved.items())
    for place, array, names in declared:
        field_name, _, _ = place.partition(".")
        axes = [f"{field_name}_{name}" if name in own_axes.get(field_name, ()) else name for name in names]
        known = [int(axis) if axis.isdecimal() else sizes.get(axis, axis) for axis in axes]
        pairs = zip_longest(known, array.shape)
        if [*array.shape] != [came if isinstance(size, str) else size for size, came in pairs]:
            raise ValueError(f"`{place}` must have shape [{', '.join(map(str, known))}]; got {[*array.shape]}.")
        sizes |= zip(axes, array.shape, strict=True)
    return sizes


def _declared(value: Any, hint: Any, place: str) -> Iterator[tuple[str, StoredArray, list[str]]]:
    """Each array with its place and axes, once all before it is of the annotated types."""
    kinds = [*get_args(hint)] if get_origin(hint) in (Union, UnionType) else [hint]
    kind: Any = str if get_origin(kinds[0]) is Literal else kinds[0]  # what is made of it checks the name
    if isinstance(value, StoredArray) and value.dtype in getattr(kind, "dtypes", ()):
        yield place, value, kind.dim_str.split()
    elif (inside := _inside(value, kind)) is not None:
        for name, each, annotation in inside:
            yield from _declared(each, annotation, f"{place}.{name}")
    elif type(value) not in (
        kind_of_value for each in (kind, *kinds[1:]) for kind_of_value in _PLAIN.get(each, (each,))
    ):
        came = f"{value.dtype} {list(value.shape)}" if isinstance(value, StoredArray) else repr(value)
        raise TypeError(f"`{place}` must be {getattr(kind, '__name__', kind)}; got {came}.")


def _inside(value: Any, kind: Any) -> Iterable[tuple[Any, Any, Any]] | None:
    """The name, the value and the annotation of all that a value of a kind holds; None for a value of another kind."""
    origin, kinds = (tuple, (Any, ...)) if kind is Any else (get_origin(kind), get_args(kind))
    if isinstance(value, Part) and value.kind is kind:
        hints = _annotations_of(kind)
        return [(name, each, hints[name]) for name, each in value.saved.items()]
    if isinstance(value, dict) and origin is Mapping:
        return [(name, each, kinds[1]) for name, each in value.items()]
    if isinstance(value, (tuple, list)) and origin in (tuple, list, Sequence):
        is_open = len(kinds) == 1 or kinds[-1] is ...
        if is_open or len(value) <= len(kinds):
            return zip(range(len(value)), value, repeat(kinds[0]) if is_open else kinds, strict=False)
    return None


def build(value: Any) -> Any:
    """Return the value, with its arrays read and its parts built."""
    if isinstance(value, StoredArray):
        return value.read()
    if isinstance(value, Part):
        return value.kind(**build(value.saved))
    if isinstance(value, dict):
        return {name: build(each) for name, each in value.items()}
    return type(value)(map(build, value)) if type(value) in (tuple, list) else value
