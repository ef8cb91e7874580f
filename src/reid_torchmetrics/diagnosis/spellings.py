"""Readings of names: what is left of the names of one side, where the other side may spell them in another way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
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
    return " ".join(number.lstrip("0") or "0" for number in numbers) or name


def _without_first_folders(names: list[str]) -> list[str]:
    """Remove the folders that the names of one side begin with."""
    names = [name.replace("\\", "/") for name in names]
    length = commonprefix(names).rfind("/") + 1  # noqa: RUF071 - cut behind a folder
    return [name[length:] for name in names]


def bare_camera(name: str) -> str:
    """Return the number of a camera with a name such as "c1", "Camera 01" and "1", or the name without case."""
    number = re.match(r"\s*([cC][a-zA-Z]*)?[\W_]*0*(\d+)(?!\W?\d)", name)
    return name.strip().casefold() if number is None else number[2]


CLOSE_READINGS: dict[str, Callable[[list[str]], Iterable[str]]] = {
    "with / in the place of \\": partial(map, lambda name: name.replace("\\", "/")),
    "regardless of case and of spaces around them": partial(
        map, lambda name: unicodedata.normalize("NFC", name).strip().casefold()
    ),
    "as numbers": partial(map, _as_number),
    "without extensions": partial(map, _without_extension),
}
"""functions that return the rest of each name of one side, by their description; what is different stays different"""
READINGS = CLOSE_READINGS | {
    "without the first folders": _without_first_folders,
    "without folders": partial(map, _last_part),
    "without folders and extensions, regardless of case": partial(
        map, lambda name: _without_extension(_last_part(name)).casefold()
    ),
    "by their numbers alone": partial(map, _numbers),
}
"""the same, and readings in which different things may become the same"""
_FITS, _FITS_CLOSELY = 0.5, 0.25  # share of the names that a reading, or a close one, must find on the other side
_MOST_MERGED = 0.1  # share of the names of a side that may become equal to others


def spelling_that_fits(names: list[str], other_names: list[str], *, is_close: bool = False) -> tuple[str, int] | None:
    """Return a reading in which most of some names are among the names of another side; None if none fits.

    The reading comes with an example, and with the number of common names. Names must stay apart: a reading that makes
    most of them equal fits always.

    Args:
        names: different names of one side, none of which is on the other side.
        other_names: different names of the other side.
        is_close: allow only `CLOSE_READINGS`, such as "12" for "00012".
    """
    for words, read in (CLOSE_READINGS if is_close else READINGS).items():
        least = (_FITS_CLOSELY if words in CLOSE_READINGS else _FITS) * len(names)
        first = dict(zip(read(names), names, strict=True))
        second = dict(zip(read(other_names), other_names, strict=True))
        common = first.keys() & second.keys()
        are_apart = len(second) >= (1 - _MOST_MERGED) * len(other_names)
        if common and are_apart and len(common) >= least:
            name = min(common)
            return f"{words}, such as {first[name]!r} and {second[name]!r}", len(common)
    return None
