"""Readings of names: what is left of the names of one side, where the other side may spell them in another way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from os.path import commonprefix


def _last_part(name: str) -> str:
    return re.split(r"[\\/]", name)[-1]


def _without_extension(name: str) -> str:
    return re.sub(r"\.[A-Za-z]\w{0,4}$", "", name)


def _as_number(name: str) -> str:
    try:
        return str(float(name))
    except ValueError:
        return name


def _numbers(name: str) -> str:
    numbers = re.findall(r"\d+", _without_extension(_last_part(name)))
    return " ".join(str(int(number)) for number in numbers) or name


def _without_first_folders(names: list[str]) -> list[str]:
    """Remove the folders that the names of one side begin with."""
    names = [name.replace("\\", "/") for name in names]
    length = commonprefix(names).rfind("/") + 1  # noqa: RUF071 - cut behind a folder
    return [name[length:] for name in names]


def _each(read: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda names: [read(name) for name in names]


READINGS = {
    "with / in the place of \\": _each(lambda name: name.replace("\\", "/")),
    "regardless of case and of spaces around them": _each(
        lambda name: unicodedata.normalize("NFC", name).strip().casefold()
    ),
    "as numbers": _each(_as_number),
    "without the first folders": _without_first_folders,
    "without folders": _each(_last_part),
    "without extensions": _each(_without_extension),
    "without folders and extensions, regardless of case": _each(
        lambda name: _without_extension(_last_part(name)).casefold()
    ),
    "by their numbers alone": _each(_numbers),
}
"""functions that return the rest of each name of one side, by their description"""
