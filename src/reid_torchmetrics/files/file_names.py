"""Images found by the names of their files.

Tools write references to images in different ways: with or without the folder, with either slash, with or without the
suffix, and names of digits as integers. A reference names an image if the last parts of both names are equal, with or
without suffix.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

FileName: TypeAlias = str | int

_IMAGE_SUFFIXES = frozenset(
    (
        ".jpg",
        ".jpeg",
        ".png",
        ".bmp",
        ".tif",
        ".tiff",
        ".webp",
        ".gif",
        ".ppm",
        ".pgm",
        ".jp2",
        ".avif",
        ".heic",
        ".mpo",
    )
)
_SUFFIXES = _IMAGE_SUFFIXES | {".txt", ".xml", ".json", ".csv", ".npy"}
"""suffixes of images, and of files about images"""


class _Parts(NamedTuple):
    """The parts of a name."""

    folders: tuple[str, ...]
    last: str
    stem: str


def _parts(name: str, *, has_suffix: bool) -> _Parts:
    """Split a name into parts; without `has_suffix`, only a known suffix is no part of the stem."""
    *folders, last = name.replace("\\", "/").split("/")
    suffix = PurePath(last).suffix
    is_suffix = has_suffix or suffix.lower() in _SUFFIXES
    stem = last[: len(last) - len(suffix)] if is_suffix else last
    return _Parts(tuple(folders), last, stem)


def bare_name(name: str) -> str:
    """Return the last part of a name, without its suffix if that is a known one."""
    return _parts(name, has_suffix=False).stem


class ImagesByName:
    """The images of a data set, by the names of their files.

    Args:
        names: the name of the file of each image.
        images: a value for each image, such as its id.
    """

    def __init__(self, names: Sequence[str], images: Sequence[Hashable]) -> None:
        self._by_stem: dict[str, list[tuple[_Parts, Hashable]]] = {}
        self._by_number: dict[int, list[str]] = {}
        for name, image in zip(names, images, strict=True):
            parts = _parts(name, has_suffix=True)
            for key in {parts.stem, parts.last}:
                self._by_stem.setdefault(key, []).append((parts, image))
            if parts.stem.isdecimal():
                self._by_number.setdefault(int(parts.stem), []).append(parts.stem)

    def find(self, reference: FileName) -> list[Hashable]:
        """Return the images that a reference may name: none, one, or several if the name is ambiguous.

        Among several images with an equal last part, the one with an equal name is returned, else those with the
        longest common end of the folders. An integer names the images with this number as their stem.
        """
        if isinstance(reference, int):
            images = []
            for stem in dict.fromkeys(self._by_number.get(reference, ())):
                images += [image for _, image in self._by_stem[stem]]
            return list(dict.fromkeys(images))
        parts = _parts(reference, has_suffix=False)
        candidates = self._by_stem.get(parts.last) or self._by_stem.get(parts.stem, [])
        if not candidates and parts.stem.isdecimal():  # without the first zeros, or with others
            return self.find(int(parts.stem))
        closeness = [_closeness(candidate, parts) for candidate, _ in candidates]
        closest = max(closeness, default=None)
        images = [image for (_, image), close in zip(candidates, closeness, strict=True) if close == closest]
        return list(dict.fromkeys(images))


def check_apart(source: object, matches: Mapping[Any, Sequence[Hashable]]) -> None:
    """Raise if two names of a file are those of one image or class of another file, given the matches of each name.

    Raises:
        ValueError: the message shows both.
    """
    names: dict[Hashable, Any] = {}
    for name, images in matches.items():
        for image in images:
            first = names.setdefault(image, name)
            if first != name:
                raise ValueError(
                    f"`{source}` must have one name for each image or class; got {first!r} and {name!r} for {image!r}."
                )


def _closeness(name: _Parts, reference: _Parts) -> tuple[bool, bool, int]:
    """Return whether two names have equal last parts, and equal folders, too, and how many folders end alike."""
    pairs = zip(reversed(name.folders), reversed(reference.folders), strict=False)
    num_alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return name.last == reference.last, name[:2] == reference[:2], num_alike
