"""Results as files: npz without pickle, with the values that are no tensors in JSON.

docs/how_to/results.md has the format. A value of a class is written as the name of the class with its fields. A
file can only name the classes that results list, so that reading it runs no code of the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile, ZipInfo

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._files import readable, write_whole
from reid_torchmetrics._version import __version__

FORMAT = 1
"""of the files; it is raised with every field that is added, and older formats are still read"""

Saved = TypeVar("Saved", bound="SavedResults")


class SavedResults:
    """Results that can be saved to a file, and loaded by another process or on another machine."""

    _PARTS: tuple[type, ...] = ()
    """dataclasses that occur in the fields, besides its own"""

    def _to_fields(self) -> dict[str, Any]:
        """What is saved: fields by name, of tensors, numbers, strings, collections of them and `_PARTS`."""
        return _fields_of(self)

    @classmethod
    def _from_fields(cls: type[Saved], saved: dict[str, Any]) -> Saved:  # noqa: PYI019 - Python 3.10 has no `Self`
        """The inverse of `_to_fields`."""
        return cls(**saved)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the results to a file, and return its path.

        The file is an npz archive without pickle. It is written as a whole, and replaces an older one; folders that do
        not exist are made. Among several processes only one should call this.

        Args:
            path: of the file, usually with the suffix .npz.

        Raises:
            OSError: the file cannot be written.
            TypeError: the results hold a value that files do not have, such as a function.
        """
        file, arrays = BytesIO(), dict[str, Any]()
        parts = (type(self), *self._PARTS)
        saved = {name: _tree(each, name, parts, arrays) for name, each in self._to_fields().items()}
        header = {"format": FORMAT, "kind": type(self).__name__, "version": __version__, "fields": saved}
        np.savez_compressed(file, **arrays)
        with ZipFile(file, "a") as archive:
            archive.writestr(ZipInfo("header.json"), json.dumps(header, allow_nan=False))
        write_whole(Path(path), file.getvalue())
        return Path(path)

    @classmethod
    def load(cls: type[Saved], path: str | os.PathLike[str]) -> Saved:  # noqa: PYI019
        """Read results from a file of `save`, of this version or of an earlier one, with tensors on the CPU.

        Raises:
            OSError: there is no such file, or it cannot be read.
            ValueError: a truncated or damaged file, a file that is no results, results of another kind, or of a later
                version.
        """
        contents, said = readable(path).read_bytes(), f"`path` must be that of a file of `{cls.__name__}.save`; got"
        try:
            with np.load(BytesIO(contents), allow_pickle=False) as archive:
                header = json.loads(archive["header.json"])
                if header["format"] > FORMAT:
                    why = f"of format {header['format']} and version {header['version']}; {__version__} reads {FORMAT}"
                elif header["kind"] != cls.__name__:
                    why = f"with {header['kind']}"
                else:
                    saved = json.dumps(header["fields"])
                    return cls._from_fields(json.loads(saved, object_hook=_hook((cls, *cls._PARTS), archive)))
        except Exception as error:  # noqa: BLE001 - whatever a foreign file may lead to
            why = f"that is truncated, damaged or of another program: {error}"
        raise ValueError(f"{said} {os.fspath(path)!r}, a file {why}.")


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


def _hook(classes: tuple[type, ...], arrays: Mapping[str, Any]) -> Callable[[dict[str, Any]], Any]:
    """The inverse of `_tree` for an object of JSON, when all that is in it was read."""
    kinds: dict[str, Any] = {"$float": float, "$mapping": dict, "$tuple": tuple}
    kinds["$array"] = lambda place: torch.from_numpy(arrays[place])
    kinds["$bfloat16"] = lambda bits: bits.view(torch.bfloat16)
    kinds |= {f"${part.__name__}": lambda saved, part=part: part(**saved) for part in classes}

    def value(found: dict[str, Any]) -> Any:
        kind = next(iter(found), "")
        return kinds[kind](found[kind]) if kind.startswith("$") else found

    return value
