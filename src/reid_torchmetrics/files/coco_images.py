"""Assigns results to images, by the ids of images or the names of their files."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from reid_torchmetrics import _hints

from .coco_columns import Row, RowList, is_whole_number
from .file_names import FileName, ImagesByName, check_apart

_NAMES_ARE_STEMS = "`image_id` as `file_name` without suffix"


class Note(NamedTuple):
    """A line for the user about a decision that the files leave open."""

    text: str
    is_doubtful: bool
    """whether another decision is as likely, so that a number may depend on it"""


def find_images(results: RowList, images: Sequence[Row]) -> list[Note]:
    """Replace names of image files in results by the ids of the images.

    If rows have a `file_name`, the names decide: Ultralytics writes `0001.jpg` as `image_id` 1, which may be the id of
    another image. Without them, each `image_id` is an id, or each is the name of a file, of digits as an integer.

    Args:
        results: rows with an `image_id`, which are changed in place.
        images: images of the data set, with `id` and maybe `file_name`.

    Returns:
        A note if names were used, or could have been used.

    Raises:
        ValueError: a name of several images, two names of one, or names that contradict ids and cannot decide.
    """
    named_images = [image for image in images if isinstance(image.get("file_name"), str)]
    if not results.rows or not named_images or not all("image_id" in row for row in results.rows):
        return []
    ids = {image["id"] for image in images}
    by_name = ImagesByName(
        names=[image["file_name"] for image in named_images],
        images=[image["id"] for image in named_images],
    )
    if any(isinstance(row.get("file_name"), str) for row in results.rows):
        return _find_by_file_name(results, ids, by_name)
    return _find_by_image_id(results, ids, by_name)


def _find_by_file_name(results: RowList, ids: set[Any], by_name: ImagesByName) -> list[Note]:
    """Assign results to images by `file_name`, unless no name is a file of the data set."""
    images_by_name: dict[str, list[Hashable]] = {}
    for row in results.rows:
        name = row.get("file_name")
        if isinstance(name, str) and name not in images_by_name:
            images_by_name[name] = by_name.find(name)
    if not any(images_by_name.values()):  # other names, such as those of crops
        text = f"{results.source}: images by `image_id`, as no `file_name` is one of the data set"
        return [Note(text, is_doubtful=True), *_find_by_image_id(results, ids, by_name)]

    # The names decide, so each row must have one.
    check_apart(results.source, images_by_name)
    has_contradiction = False
    for position, row in enumerate(results.rows):
        name = row.get("file_name")
        images = images_by_name[name] if isinstance(name, str) else []
        if len(images) != 1:
            raise _name_error(results, position, "file_name", images)
        has_contradiction |= row["image_id"] != images[0]
    if not has_contradiction:
        return []
    are_ids = all(isinstance(row["image_id"], Hashable) and row["image_id"] in ids for row in results.rows)
    for row in results.rows:
        row["image_id"] = images_by_name[row["file_name"]][0]
    return [Note(f"{results.source}: images by `file_name`, not by `image_id`", is_doubtful=are_ids)]


def _name_error(results: RowList, position: int, key: str, images: Sequence[Hashable]) -> ValueError:
    """Return the error for a row with a name of no image, or of several."""
    rule = "the name of an image of the data set in every row, or in none,"
    if images:
        rule = f"the name of one image, and not of the images {_hints.listed(images)},"
    return results.invalid(position, key, rule)


def _find_by_image_id(results: RowList, ids: set[Any], by_name: ImagesByName) -> list[Note]:
    """Assign results to images by `image_id`, as ids if all are ids, else as names if all are names."""
    references = {row["image_id"] for row in results.rows if isinstance(row["image_id"], (str, int, float))}
    images_by_reference = {}
    for reference in references:
        name = _as_name(reference)
        if name is not None:
            images_by_reference[reference] = by_name.find(name)
    are_names = len(images_by_reference) == len(references) and all(images_by_reference.values())
    if references <= ids:
        if len(references) > 1 and are_names and _is_another_order(images_by_reference):
            text = f"{results.source}: `image_id` as `id`, though each is also the `file_name` of an image"
            return [Note(text, is_doubtful=True)]
        return []
    if not are_names:
        return []  # the check of ids names the unknown ones

    for position, row in enumerate(results.rows):
        images = images_by_reference[row["image_id"]]
        if len(images) > 1:
            raise _name_error(results, position, "image_id", images)
    check_apart(results.source, images_by_reference)
    for row in results.rows:
        row["image_id"] = images_by_reference[row["image_id"]][0]
    return [Note(f"{results.source}: {_NAMES_ARE_STEMS}", is_doubtful=False)]


def _is_another_order(images_by_reference: Mapping[Any, Sequence[Hashable]]) -> bool:
    """Return whether each reference names one image, and some name another image than the one with this id."""
    if any(len(images) != 1 for images in images_by_reference.values()):
        return False
    return any(images[0] != reference for reference, images in images_by_reference.items())


def _as_name(reference: Any) -> FileName | None:
    """Return a reference as a name; None if it cannot be one."""
    if isinstance(reference, str):
        return reference
    if is_whole_number(reference):
        return int(reference)
    return None
