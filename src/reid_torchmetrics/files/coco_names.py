"""Assigns results to images and categories of a data set by names, where both files have them.

Tools number images and categories anew: FiftyOne by first appearance, globox and Label Studio by sorted names. The ids
of two files then speak of different things, but their names do not.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from reid_torchmetrics import _hints

from .coco_columns import CATEGORIES, IMAGES, RESULTS, Note, Row, RowList, check_distinct, is_whole_number, shortened
from .file_names import ImagesByName, check_apart

_KEYS_OF_NAMES = {"images": ("file_name", "image_id"), "categories": ("name", "category_id")}
"""keys of names in the lists of a data set, and of the ids of its rows in annotations"""


def rows_of_data_set(
    path: str, content: Mapping[str, Any], data_set: Mapping[str, Any], *, drops_unknown: bool
) -> tuple[list[Any], list[Note]]:
    """Return the rows of detections that were written as a data set, with the ids of the other data set.

    FiftyOne, globox, labelformat, kwcoco and datumaro write detections as `annotations` with a `score`, beside
    `images` and `categories` of their own.

    Raises:
        ValueError: an invalid row, or an image or a category that one of both files lacks, or has several times, by its
            name; with `drops_unknown`, results of categories that the data set lacks are left out.
    """
    annotations = RowList(path, "results", content["annotations"])
    annotations.check(RESULTS[:2])
    results = annotations
    joined = []
    for name, (key, id_key) in _KEYS_OF_NAMES.items():
        names, ids = _names_and_ids(data_set.get(name, ()), key)
        own_rows = RowList(path, name, content.get(name, []))
        ids_by_own_id = _ids_by_own_id(own_rows, key, names, ids)
        if not ids_by_own_id:
            continue
        joined.append(name)
        drops = drops_unknown and name == "categories"
        kept = []
        for position, row in enumerate(results.rows):
            if row[id_key] not in ids_by_own_id:
                raise results.invalid(position, id_key, f"ids of its own {name}, as these are joined by their names,")
            own_name, matches = ids_by_own_id[row[id_key]]
            if matches:
                row[id_key] = matches[0]
                kept.append(position)
            elif not drops:
                raise ValueError(
                    f"`{path}` must have detections in {name} of the data set only; got {shortened(own_name)} in"
                    f" {results.place(position)}, where the data set has {_hints.listed(names)}."
                )
        results = results.select(kept)
    text = f"{path}: detections from `annotations` with a `score`"
    if joined:
        text = f"{text}, {' and '.join(joined)} by their names"
    num_dropped = len(annotations.rows) - len(results.rows)
    if num_dropped:
        text = f"{text}, without {num_dropped:,} of categories that the data set lacks"
    return list(results.rows), [Note(text, is_doubtful=False)]


def are_results(content: Any) -> bool:
    """Return whether a file holds detections as a data set: annotations, some with a score."""
    rows = content.get("annotations") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return False
    return any("score" in row for row in rows)


def _names_and_ids(rows: Any, key: str) -> tuple[list[str], list[Any]]:
    """Return the names under a key and the ids of the rows that have both."""
    named_rows = [row for row in rows if isinstance(row.get(key), str) and "id" in row]
    return [row[key] for row in named_rows], [row["id"] for row in named_rows]


def _ids_by_own_id(
    own_rows: RowList, key: str, names: Sequence[str], ids: Sequence[Any]
) -> dict[Any, tuple[Any, list[Any]]]:
    """Return the name of a row, and its id in the data set, by the ids in a file of detections.

    There is no id for a name that the data set lacks. Nothing is returned, so that ids are those of the data set, where
    one of both sides has no names.

    Args:
        own_rows: images or categories of the file of detections.
        key: the key of their names.
        names: names in the data set.
        ids: their ids.

    Raises:
        ValueError: an invalid row, a name of several rows of the data set, two names of one, or no common name.
    """
    is_image = own_rows.name == "images"
    own_rows.check(IMAGES if is_image else CATEGORIES)
    check_distinct(own_rows)
    own_names, _ = _names_and_ids(own_rows.rows, key)
    if not names or not own_names:
        return {}
    images = ImagesByName(names, ids)
    ids_by_own_id = {}
    for position, row in enumerate(own_rows.rows):
        name = row.get(key)
        matches: list[Any] = []
        if is_image and isinstance(name, str):
            matches = images.find(name)
        elif not is_image:
            matches = [match for known, match in zip(names, ids, strict=True) if known == name]
        if len(matches) > 1:
            raise own_rows.invalid(position, key, f"a name of one of the {own_rows.name} of the data set")
        ids_by_own_id[row["id"]] = name, matches
    if not any(matches for _, matches in ids_by_own_id.values()):
        raise ValueError(
            f"`{own_rows.source}` must have {own_rows.name} of the data set; got {_hints.listed(own_names)} where the"
            f" data set has {_hints.listed(names)}."
        )
    check_apart(own_rows.source, {(row_id, name): matches for row_id, (name, matches) in ids_by_own_id.items()})
    return ids_by_own_id


def find_categories(results: RowList, categories: Sequence[Row]) -> list[Note]:
    """Replace the category of each result by that of its `category_name`, as SAHI writes it beside `category_id`.

    Args:
        results: rows with a `category_id`, which are changed in place.
        categories: categories of the data set, with `id` and maybe `name`.

    Returns:
        A note if names and ids differ, or if no name is that of a category.

    Raises:
        ValueError: some names are those of a category, and a row has another one or none.
    """
    names, ids = _names_and_ids(categories, "name")
    ids_by_name = dict(zip(names, ids, strict=True))
    result_names = {row["category_name"] for row in results.rows if isinstance(row.get("category_name"), str)}
    if not result_names or len(ids_by_name) < len(names) or not ids_by_name:
        return []
    if result_names.isdisjoint(ids_by_name):
        reason = "as no `category_name` is one of the data set"
        both = f"{_hints.listed(sorted(result_names))} where it has {_hints.listed(ids_by_name)}"
        return [Note(f"{results.source}: categories by `category_id`, {reason}: {both}", is_doubtful=True)]
    rule = f"one of {_hints.listed(ids_by_name)}"
    if not _assign_by_name(
        results, "category_name", "category_id", {name: [ids_by_name[name]] for name in names}, rule
    ):
        return []
    return [Note(f"{results.source}: categories by `category_name`, not by `category_id`", is_doubtful=False)]


def _assign_by_name(
    results: RowList, key: str, id_key: str, ids_by_name: Mapping[Any, Sequence[Hashable]], rule: str
) -> bool:
    """Replace the id of each row by that of its name; return whether some differ.

    Args:
        results: the rows.
        key: the key of names.
        id_key: the key of ids.
        ids_by_name: ids that each name may stand for.
        rule: what a name must be.

    Raises:
        ValueError: a row with a name of no id, or of several.
    """
    are_other = False
    for position, row in enumerate(results.rows):
        name = row.get(key)
        ids = ids_by_name.get(name, ()) if isinstance(name, Hashable) else ()
        if len(ids) > 1:
            raise results.invalid(position, key, f"the name of one image, and not of the images {_hints.listed(ids)},")
        if not ids:
            raise results.invalid(position, key, f"{rule} in every row, or in none,")
        are_other |= row.get(id_key) != ids[0]
        row[id_key] = ids[0]
    return are_other


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
    are_ids = all(isinstance(row["image_id"], Hashable) and row["image_id"] in ids for row in results.rows)
    if not _assign_by_name(results, "file_name", "image_id", images_by_name, "the name of an image of the data set"):
        return []
    return [Note(f"{results.source}: images by `file_name`, not by `image_id`", is_doubtful=are_ids)]


def _find_by_image_id(results: RowList, ids: set[Any], by_name: ImagesByName) -> list[Note]:
    """Assign results to images by `image_id`, as ids if all are ids, else as names if all are names."""
    references = {row["image_id"] for row in results.rows if isinstance(row["image_id"], (str, int, float))}
    images_by_reference: dict[int | float | str, list[Hashable]] = {}
    for reference in references:
        if isinstance(reference, str):
            images_by_reference[reference] = by_name.find(reference)
        elif is_whole_number(reference):
            images_by_reference[reference] = by_name.find(int(reference))
    are_names = len(images_by_reference) == len(references) and all(images_by_reference.values())
    if references <= ids:
        are_unique = are_names and all(len(images) == 1 for images in images_by_reference.values())
        is_another_order = any(images[0] != reference for reference, images in images_by_reference.items() if images)
        if len(references) > 1 and are_unique and is_another_order:
            text = f"{results.source}: `image_id` as `id`, though each is also the `file_name` of an image"
            return [Note(text, is_doubtful=True)]
        return []
    if not are_names:
        return []  # the check of ids names the unknown ones

    check_apart(results.source, images_by_reference)
    _assign_by_name(results, "image_id", "image_id", images_by_reference, "the name of an image")
    return [Note(f"{results.source}: `image_id` as `file_name` without suffix", is_doubtful=False)]
