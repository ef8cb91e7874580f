"""The arrays of a file of results as their headers tell of them: what does not fit is refused before it is inflated.

An array has the dtype and the axes that its field is annotated with. Arrays of the same results share axes by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, repeat, zip_longest
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from zipfile import ZipFile, ZipInfo

import numpy as np
import torch
from torch import Tensor

_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_PLAIN: dict[Any, tuple[type, ...]] = {float: (float, int), Any: (bool, int, float, str, type(None))}
"""types of values by their annotation, where it is another"""


annotations_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
"""the annotations of the fields of a class; the dict must not be written to"""


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


def stored_arrays(archive: ZipFile, *, besides: str) -> dict[str, StoredArray]:
    """All arrays of an archive by name, `besides` an entry that is none.

    Raises:
        ValueError: an entry that is no array, is larger or smaller than the array it says it is, or is there twice.
    """
    entries = [entry for entry in archive.infolist() if entry.filename != besides]
    arrays = {entry.filename.removesuffix(".npy"): _described(archive, entry) for entry in entries}
    if len(arrays) < len(entries):
        raise ValueError(f"each array must have a name of its own; got {len(entries)} arrays with {len(arrays)} names.")
    return arrays


def _described(archive: ZipFile, entry: ZipInfo) -> StoredArray:
    with archive.open(entry) as file:
        shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
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
        return torch.from_numpy(np.lib.format.read_array(file, allow_pickle=False))


def sizes_of(saved: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of the axes of all arrays in some fields, by the names that annotations give them.

    Raises:
        TypeError: a value, or the dtype of an array, that is not as its field is annotated.
        ValueError: an array whose shape does not fit its field, or other arrays.
    """
    sizes: dict[str, int] = {}
    declared = chain.from_iterable(_declared(value, hints[name], name) for name, value in saved.items())
    for place, array, axes in declared:
        known = [int(axis) if axis.isdecimal() else sizes.get(axis, axis) for axis in axes]
        pairs = zip_longest(known, array.shape)
        if [*array.shape] != [came if isinstance(size, str) else size for size, came in pairs]:
            raise ValueError(f"`{place}` must have shape [{', '.join(map(str, known))}]; got {[*array.shape]}.")
        sizes |= zip(axes, array.shape, strict=True)
    return sizes


def _declared(value: Any, hint: Any, place: str) -> Iterator[tuple[str, StoredArray, list[str]]]:
    """Each array with its place and axes, once all before it is of the annotated types."""
    kinds = [*get_args(hint)] if get_origin(hint) in (Union, UnionType) else [hint]
    kind = kinds[0]
    if isinstance(value, StoredArray) and value.dtype in getattr(kind, "dtypes", ()):
        yield place, value, kind.dim_str.split()
    elif (inside := _inside(value, kind)) is not None:
        for name, each, annotation in inside:
            yield from _declared(each, annotation, f"{place}.{name}")
    elif not (value is None and type(None) in kinds) and type(value) not in _PLAIN.get(kind, (kind,)):
        came = f"{value.dtype} {list(value.shape)}" if isinstance(value, StoredArray) else repr(value)
        raise TypeError(f"`{place}` must be {getattr(kind, '__name__', kind)}; got {came}.")


def _inside(value: Any, kind: Any) -> Iterable[tuple[Any, Any, Any]] | None:
    """The name, the value and the annotation of all that a value of a kind holds; None for a value of another kind."""
    origin, kinds = (tuple, (Any, ...)) if kind is Any else (get_origin(kind), get_args(kind))
    if isinstance(value, Part) and value.kind is kind:
        hints = annotations_of(kind)
        return [(name, each, hints[name]) for name, each in value.saved.items()]
    if isinstance(value, dict) and origin is Mapping:
        return [(name, each, kinds[1]) for name, each in value.items()]
    if isinstance(value, (tuple, list)) and origin in (tuple, list, Sequence):
        is_open = len(kinds) == 1 or kinds[-1] is ...
        if is_open or len(value) <= len(kinds):
            return zip(range(len(value)), value, repeat(kinds[0]) if is_open else kinds, strict=False)
    return None


def made(value: Any) -> Any:
    """The value, with its arrays read and its parts made."""
    if isinstance(value, StoredArray):
        return value.read()
    if isinstance(value, Part):
        return value.kind(**made(value.saved))
    if isinstance(value, dict):
        return {name: made(each) for name, each in value.items()}
    return type(value)(map(made, value)) if type(value) in (tuple, list) else value
