"""Images of a report: the files in the folder of `--images`, by the names in the input.

A name is joined to the folder, or is a path within it; a name that leads outside of the folder is an error, as is a
file that is missing. Images are opened one at a time, when they are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from reid_torchmetrics.files import bare_name
from reid_torchmetrics.functional.retrieval.relevance import SIDES

from .outputs import ReportImages
from .sample_sets import SampleSet, SampleSets

Size: TypeAlias = tuple[int, int]

_LARGEST_SAMPLE = 512
"""width and height down to which JPEG files of samples are decoded, as their pictures on the page are smaller"""
_IMAGE_SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".ppm", ".pgm", ".jp2", ".mpo")
)
_ORIENTATION = 0x0112  # the tag of EXIF
_FIRST_TURNED = 5  # the first orientation with width and height exchanged


class ImageFiles:
    """Pictures in a folder by the number or the name of an image.

    Args:
        folder: the folder of `--images`.
        names: the name of each file.
        sizes: width and height of images in annotations. An image of this size in its file is left as it is, as its
            boxes are in these pixels; others are rotated as the file says, and as viewers show them.
        largest: width and height down to which a JPEG file may be decoded; None for all pixels.
    """

    def __init__(
        self,
        folder: str,
        names: Mapping[Any, str],
        *,
        sizes: Mapping[Any, tuple[Any, Any]] | None = None,
        largest: int | None = None,
    ) -> None:
        self._folder = folder
        self._names = names
        self._sizes = sizes or {}
        self._largest = largest

    def __getitem__(self, image: Any) -> Any:
        from PIL import ImageOps  # noqa: PLC0415 - not every command has pictures

        with _opened(self._folder, self._names[image]) as picture:
            is_turned = _size_as_shown(picture) != picture.size
            if is_turned and picture.size == self._sizes.get(image):
                return picture.copy()
            if self._largest is not None:
                picture.draft(None, (self._largest, self._largest))
            return ImageOps.exif_transpose(picture)


class FilesByStem:
    """Names of the image files in a folder by their names without suffix."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._files: dict[str, list[str]] = {}
        for file in sorted(os.listdir(folder)):  # noqa: PTH208 - strings, for very many files
            stem, suffix = os.path.splitext(file)  # noqa: PTH122
            if suffix.lower() in _IMAGE_SUFFIXES:
                self._files.setdefault(stem, []).append(file)

    def find(self, name: str) -> str:
        """Return the name of the file of an image.

        Raises:
            FileNotFoundError: there is none.
            ValueError: there are several.
        """
        files = self._files.get(bare_name(name), [])
        if not files:
            raise FileNotFoundError(f"{self.folder}: there must be an image for each name; got none for {name!r}.")
        if len(files) > 1:
            got = f"{' and '.join(files)} for {name!r}"
            raise ValueError(f"{self.folder}: there must be one image for each name; got {got}.")
        return files[0]


class FileSizes(dict[str, Size]):
    """Width and height of the images in a folder by their names without suffix; each is opened when it is asked for."""

    def __init__(self, files: FilesByStem) -> None:
        super().__init__()
        self._files = files

    def __missing__(self, name: str) -> Size:
        with _opened(self._files.folder, self._files.find(name)) as picture:
            self[name] = size = _size_as_shown(picture)
        return size

    def __contains__(self, name: object) -> bool:
        # The search for the size of a name without a file then raises the error that names the folder.
        return True


@contextmanager
def _opened(folder: str, name: str) -> Iterator[Any]:
    """Open an image of a folder; any error within says that Pillow does not read it."""
    from PIL import Image  # noqa: PLC0415 - not every command has pictures

    path = find_path(folder, name)
    try:
        with Image.open(path) as picture:
            yield picture
    except Exception as error:
        raise ValueError(f"{path}: must be an image that Pillow reads; got {error}.") from error


def _size_as_shown(picture: Any) -> Size:
    """Return width and height as viewers show a picture, which may be rotated."""
    width, height = picture.size
    is_turned = picture.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED
    return (height, width) if is_turned else (width, height)


def find_path(folder: str, name: str) -> str:
    """Return the path of a file in a folder, given its name: relative to the folder, or a path within it.

    Raises:
        ValueError: the name leads outside of the folder.
    """
    root = os.path.abspath(folder)  # noqa: PTH100 - strings, for very many names
    path = os.path.normpath(os.path.join(root, name.replace("\\", "/")))  # noqa: PTH118
    if not path.startswith(os.path.join(root, "")):  # noqa: PTH118
        raise ValueError(f"{folder}: names of images must not lead outside of the folder; got {name!r}.")
    return path


def check_files(folder: str, names: Mapping[Any, str], unit: str) -> None:
    """Raise unless there is a file for each name; `unit` is the word for a key of the names, such as "row".

    Raises:
        FileNotFoundError: files are missing.
        ValueError: a name leads outside of the folder.
    """
    missing = []
    for key, name in names.items():
        if not os.path.isfile(find_path(folder, name)):  # noqa: PTH113
            missing.append(f"{name!r} of {unit} {key}")
    if missing:
        got = f"none for {len(missing):,} of {len(names):,}, first {missing[0]}"
        raise FileNotFoundError(f"{folder}: there must be a file in the folder for each {unit}; got {got}.")


def check_sample_images(folder: str, sample_sets: SampleSets) -> None:
    """Raise unless samples have names, and each name of a query or gallery item is that of a file.

    Raises:
        FileNotFoundError: files are missing.
        ValueError: samples have no names, or a name leads outside of the folder.
    """
    for role, sample_set in sample_sets.items():
        if sample_set.names is None:
            remedy = "as an array or a column such as `path`, or by `--names names=NAME`"
            raise ValueError(f"`--images` must come with names of files, {remedy}; got none of the {role}.")
        names = dict(enumerate(sample_set.names.tolist()))
        roles = sample_set.roles
        if roles is not None:  # rows without a role are left out
            names = {row: names[row] for row in np.flatnonzero(roles.any(axis=1)).tolist()}
        check_files(folder, names, f"{role} row")


def sample_images(folder: str | None, sample_sets: SampleSets) -> ReportImages:
    """Return the images of evaluated samples, by their numbers in the results; without a folder the names alone."""
    rows_by_role, _ = sample_sets.rows_by_role()
    names = []
    for role in SIDES:
        sample_set, rows = rows_by_role.get(role, rows_by_role["query"])
        if sample_set.names is None:
            return ReportImages()
        names.append(_names_by_number(sample_set, sample_set.names[rows].tolist(), rows))
    query_names, gallery_names = names
    if folder is None:
        return ReportImages(names=query_names, gallery_names=gallery_names)
    return ReportImages(
        ImageFiles(folder, query_names, largest=_LARGEST_SAMPLE),
        ImageFiles(folder, gallery_names, largest=_LARGEST_SAMPLE),
        query_names,
        gallery_names,
    )


def _names_by_number(sample_set: SampleSet, names: Sequence[str], rows: Any) -> dict[int, str]:
    """Return the names of the samples in some rows by `index`, or by their places among them."""
    index = sample_set.columns.get("index")
    numbers: Sequence[int] = range(len(names)) if index is None else index[rows].tolist()
    return dict(zip(numbers, names, strict=True))


def box_images(folder: str, images: Sequence[Mapping[str, Any]]) -> ReportImages:
    """Return the images of a data set in COCO's or LVIS' JSON by their ids.

    LVIS names a file by the last two parts of `coco_url`, such as `val2017/000000397133.jpg`.

    Raises:
        FileNotFoundError: files are missing.
        ValueError: an image without a name, or a name that leads outside of the folder.
    """
    names: dict[Any, str] = {}
    sizes: dict[Any, tuple[Any, Any]] = {}
    for place, image in enumerate(images):
        name = image.get("file_name")
        if name is None and isinstance(image.get("coco_url"), str):
            name = "/".join(image["coco_url"].split("/")[-2:])
        if not isinstance(name, str):
            got = f"{name!r} of images[{place}]"
            raise ValueError(f"`--images` must come with a `file_name` of each image; got {got}.")  # noqa: TRY004
        names[image["id"]] = name
        sizes[image["id"]] = (image.get("width"), image.get("height"))
    check_files(folder, names, "image")
    return ReportImages(ImageFiles(folder, names, sizes=sizes), names=names, box_format="xywh")


def named_images(files: FilesByStem | None, target: Sequence[Mapping[str, Any]]) -> ReportImages:
    """Return the images of ground truths, which are named by the files without suffix; none without a folder.

    Raises:
        FileNotFoundError: there is no file for a name.
        ValueError: there are several files for a name.
    """
    if files is None:
        return ReportImages()
    return ReportImages(
        ImageFiles(files.folder, {image["image_id"]: files.find(image["image_id"]) for image in target})
    )
