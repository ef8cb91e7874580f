"""The images of results: found by their ids, or by the names of their files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from .coco_columns import Row, RowList, is_whole_number, shortened
from .file_names import FileName, ImagesByName

_NAMES_ARE_STEMS = "`image_id` as `file_name` without suffix"


class Note(NamedTuple):
    """A line about a decision that the files leave open."""

    text: str
    is_doubtful: bool
    """whether another decision would be as likely, so that a number may depend on it"""


def find_images(results: RowList, images: Sequence[Row]) -> list[Note]:
    """Give results the ids of their images where they name the files of images.

    If rows have a `file_name`, the names decide: Ultralytics writes `0001.jpg` as `image_id` 1, which may be the id of
    another image. Without them, each `image_id` is an id, or each is the name of a file, of digits as an integer.

    Args:
        results: rows with an `image_id`, which are changed in place.
        images: images of the data set, with `id` and maybe `file_name`.

    Returns:
        A note if names were used, or could have been used.

    Raises:
        ValueError: a name of several images, or names that contradict ids and cannot decide.
    """
    named = [image for image in images if isinstance(image.get("file_name"), str)]
    by_name = ImagesByName([image["file_name"] for image in named], [image["id"] for image in named])
    ids = {image["id"] for image in images}
    if not results.rows or not named or not all("image_id" in row for row in results.rows):
        return []
    if any(isinstance(row.get("file_name"), str) for row in results.rows):
        return _find_by_file_name(results, ids, by_name)
    return _find_by_image_id(results, ids, by_name)


def _find_by_file_name(results: RowList, ids: set[Any], by_name: ImagesByName) -> list[Note]:
    found: dict[str, list[Hashable]] = {}
    for row in results.rows:
        name = row.get("file_name")
        if isinstance(name, str) and name not in found:
            found[name] = by_name.find(name)
    if not any(found.values()):  # other names, such as those of crops
        text = f"{results.source}: images by `image_id`, as no `file_name` is one of the data set"
        return [Note(text, is_doubtful=True), *_find_by_image_id(results, ids, by_name)]
    is_contradiction = False
    for position, row in enumerate(results.rows):
        name = row.get("file_name")
        images = found[name] if isinstance(name, str) else []
        if len(images) != 1:
            _raise_for_name(results, position, images)
        is_contradiction |= row["image_id"] != images[0]
    if not is_contradiction:
        return []
    are_ids = all(isinstance(row["image_id"], Hashable) and row["image_id"] in ids for row in results.rows)
    for row in results.rows:
        row["image_id"] = found[row["file_name"]][0]
    return [Note(f"{results.source}: images by `file_name`, not by `image_id`", is_doubtful=are_ids)]


def _raise_for_name(results: RowList, position: int, images: Sequence[Hashable]) -> None:
    """Raise for a row with a `file_name` of no image, or of several."""
    if images:
        listed = ", ".join(map(repr, images))
        raise ValueError(
            f"`{results.source}` must have a `file_name` of one image; got"
            f" {shortened(results.rows[position]['file_name'])}, which fits images {listed}, in"
            f" {results.place(position)}."
        )
    rule = "the name of an image of the data set in every row, or in none,"
    raise results.invalid(position, "file_name", rule)


def _find_by_image_id(results: RowList, ids: set[Any], by_name: ImagesByName) -> list[Note]:
    references = {row["image_id"] for row in results.rows if isinstance(row["image_id"], (str, int, float))}
    found = {}
    for reference in references:
        name = _name(reference)
        if name is not None:
            found[reference] = by_name.find(name)
    are_names = len(found) == len(references) and all(found.values())
    if references <= ids:
        others = [reference for reference in found if found[reference] != [reference]]
        if len(references) > 1 and are_names and others and all(len(images) == 1 for images in found.values()):
            text = f"{results.source}: `image_id` as `id`, though each is also the `file_name` of an image"
            return [Note(text, is_doubtful=True)]
        return []
    if not are_names:
        return []  # the check of ids names what is unknown
    for position, row in enumerate(results.rows):
        images = found[row["image_id"]]
        if len(images) > 1:
            listed = ", ".join(map(repr, images))
            raise ValueError(
                f"`{results.source}` must have an `image_id` of one image; got {row['image_id']!r}, the `file_name`"
                f" without suffix of images {listed}, in {results.place(position)}."
            )
    for row in results.rows:
        (row["image_id"],) = found[row["image_id"]]
    return [Note(f"{results.source}: {_NAMES_ARE_STEMS}", is_doubtful=False)]


def _name(reference: Any) -> FileName | None:
    """Return a reference as a name; None for what can be none."""
    if isinstance(reference, str):
        return reference
    return int(reference) if is_whole_number(reference) else None
