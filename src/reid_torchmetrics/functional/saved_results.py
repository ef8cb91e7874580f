"""The base class of results that can be saved to a file, and loaded by another process or on another machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from reid_torchmetrics import _extras

OWN_AXES = "own_axes"
"""key in the metadata of a stored field: names of axes with other sizes than in other fields"""

Saved = TypeVar("Saved", bound="SavedResults")


class Part(NamedTuple):
    """An object of a class, with fields with arrays that are not read yet."""

    kind: type
    saved: dict[str, Any]


class SavedResults:
    """Results that can be saved to a file; its fields say what the file holds."""

    _PARTS: tuple[type, ...] = ()
    """dataclasses that occur in the fields, besides the class itself"""
    _COMPUTED: tuple[str, ...] = ()
    """fields that `_from_fields` computes, or that are not saved"""
    _SAVED_AS: Mapping[str, Any] = MappingProxyType({})
    """annotations of values that are saved in another form, or instead of computed fields"""

    @classmethod
    def _find_part(cls, name: str) -> type | None:
        """Return the class that may occur in the fields under a name; None for a name of no such class."""
        return {part.__name__: part for part in (cls, *cls._PARTS)}.get(name)

    def _to_fields(self) -> dict[str, Any]:
        """Return the saved fields by name: tensors, numbers, strings, collections of them, and `_PARTS`."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # subclasses are dataclasses
        return {name: getattr(self, name) for name in names if name not in self._COMPUTED}

    @classmethod
    def _from_fields(cls: type[Saved], saved: dict[str, Any]) -> Saved:  # noqa: PYI019 - Python 3.10 has no `Self`
        """Compute the results: the inverse of `_to_fields`.

        Raises:
            ValueError: the values do not belong to any results.
        """
        return cls(**saved)

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:  # noqa: ARG003
        """Return the memory of the numbers that `_from_fields` computes, given the sizes of all axes."""
        return 0

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the results to a file, and return its path.

        The file is an npz archive without pickle. It is written as a whole, and replaces an older one; missing folders
        are created. With several processes, call this on one of them only.

        Args:
            path: path of the file, usually with the suffix .npz.

        Raises:
            OSError: the file cannot be written.
            TypeError: the results hold a value that cannot be saved, such as a function.
            ValueError: results that `load` would refuse.
        """
        written: Path = _extras.files().save_results(self, path)
        return written

    @classmethod
    def load(cls: type[Saved], path: str | os.PathLike[str]) -> Saved:  # noqa: PYI019
        """Read results from a file of `save`, of this version or of an earlier one, with tensors on the CPU.

        Numbers are computed from the ranks or matches in the file, as by the functions that evaluate.

        Raises:
            OSError: there is no such file, or it cannot be read.
            ValueError: the file is truncated or damaged, or holds no results; the results are of another kind, of a
                later version or of format 1; or the file inflates to more than 64 MiB and to more than 100 times its
                size, unless the environment variable `REID_TORCHMETRICS_MAX_INFLATED` allows more bytes.
        """
        results: Saved = _extras.files().load_results(cls, path)
        return results
