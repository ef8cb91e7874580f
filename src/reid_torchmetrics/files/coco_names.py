"""Assigns results to images and categories of a data set by names, where both files have them.

Tools number images and categories anew: FiftyOne by first appearance, globox and Label Studio by sorted names. The ids
of two files then speak of different things, but their names do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reid_torchmetrics import _hints

from .coco_columns import CATEGORIES, IMAGES, RESULTS, Row, RowList, shortened
from .coco_images import Note
from .file_names import ImagesByName


def repeated_id(rows: RowList) -> str:
    """Return the message about two images or two categories with one id; "" if ids differ."""
    places: dict[Any, int] = {}
    for position, row in enumerate(rows.rows):
        first = places.setdefault(row["id"], position)
        if first != position:
            return (
                f"`{rows.source}` must have each `id` of `{rows.name}` once; got {shortened(row)} after"
                f" {shortened(rows.rows[first])} in {rows.place(position)}."
            )
    return ""


def check_distinct(rows: RowList) -> None:
    """Raise a ValueError, which names both rows, if two images or two categories have one id."""
    message = repeated_id(rows)
    if message:
        raise ValueError(message)


def rows_of_data_set(
    path: str, content: Mapping[str, Any], data_set: Mapping[str, Any], *, drops_unknown: bool
) -> tuple[list[Any], list[Note]]:
    """Return the rows of detections that were written as a data set, with the ids of the other data set.

    FiftyOne, globox, labelformat, kwcoco and datumaro write detections as `annotations` with a `score`, beside
    `images` and `categories` of their own.

    Raises:
        ValueError: an invalid row, or an image or a category that the data set lacks, or has several times, by its
            name; with `drops_unknown`, results of categories that it lacks are left out.
    """
    annotations = RowList(path, "results", content["annotations"])
    annotations.check(RESULTS[:2])
    image_names, image_ids = _names_and_ids(data_set.get("images", ()), "file_name")
    own_images = RowList(path, "images", content.get("images", []))
    images = _ids_by_own_id(own_images, "file_name", image_names, ImagesByName(image_names, image_ids).find)
    category_names, category_ids = _names_and_ids(data_set.get("categories", ()), "name")
    ids_by_name: dict[str, list[Any]] = {name: [] for name in category_names}
    for name, category_id in zip(category_names, category_ids, strict=True):
        ids_by_name[name].append(category_id)
    own_categories = RowList(path, "categories", content.get("categories", []))
    categories = _ids_by_own_id(own_categories, "name", category_names, lambda name: ids_by_name.get(name, []))

    rows = []
    for position, row in enumerate(annotations.rows):
        image_id = images.get(row["image_id"], row["image_id"])
        category_id = categories.get(row["category_id"], row["category_id"])
        if image_id is None:
            raise _unknown_name(annotations, position, "images", own_images, image_names)
        if category_id is not None:
            rows.append({**row, "image_id": image_id, "category_id": category_id})
        elif not drops_unknown:
            raise _unknown_name(annotations, position, "categories", own_categories, category_names)
    named = [name for name, ids in (("images", images), ("categories", categories)) if ids]
    text = f"{path}: detections from `annotations` with a `score`"
    if named:
        text = f"{text}, {' and '.join(named)} by their names"
    if len(rows) < len(annotations.rows):
        text = f"{text}, without {len(annotations.rows) - len(rows):,} of categories that the data set lacks"
    return rows, [Note(text, is_doubtful=False)]


def _unknown_name(
    annotations: RowList, position: int, name: str, own_rows: RowList, names: Sequence[str]
) -> ValueError:
    """Return the error for a detection with the name of an image or a category that the data set lacks."""
    key, id_key = ("file_name", "image_id") if name == "images" else ("name", "category_id")
    (row,) = (row for row in own_rows.rows if row["id"] == annotations.rows[position][id_key])
    return ValueError(
        f"`{annotations.source}` must have detections in {name} of the data set only; got {shortened(row.get(key))} in"
        f" {annotations.place(position)}, where the data set has {_hints.listed(names)}."
    )


def are_results(content: Any) -> bool:
    """Return whether a file holds detections as a data set: annotations, all with a score."""
    rows = content.get("annotations") if isinstance(content, dict) else None
    return isinstance(rows, list) and len(rows) > 0 and all(isinstance(row, dict) and "score" in row for row in rows)


def _names_and_ids(rows: Any, key: str) -> tuple[list[str], list[Any]]:
    """Return the names under a key and the ids of the rows that have both."""
    named_rows = [row for row in rows if isinstance(row.get(key), str) and "id" in row]
    return [row[key] for row in named_rows], [row["id"] for row in named_rows]


def _ids_by_own_id(
    own_rows: RowList, key: str, names: Sequence[str], find: Callable[[str], Sequence[Any]]
) -> dict[Any, Any]:
    """Return the ids in the data set by those in a file of detections, None for a name that the data set lacks.

    There are none, so that ids are those of the data set, where one of both sides has no names.

    Args:
        own_rows: images or categories of the file of detections.
        key: the key of their names.
        names: names in the data set.
        find: returns the ids in the data set for a name.

    Raises:
        ValueError: an invalid row, a name of several rows of the data set, or no common name.
    """
    own_rows.check(IMAGES if own_rows.name == "images" else CATEGORIES)
    check_distinct(own_rows)
    own_names, _ = _names_and_ids(own_rows.rows, key)
    if not names or not own_names:
        return {}
    ids = {}
    for position, row in enumerate(own_rows.rows):
        name = row.get(key)
        matches = find(name) if isinstance(name, str) else []
        if len(matches) > 1:
            raise own_rows.invalid(position, key, f"a name of one of the {own_rows.name} of the data set")
        ids[row["id"]] = matches[0] if matches else None
    if all(match is None for match in ids.values()):
        raise ValueError(
            f"`{own_rows.source}` must have {own_rows.name} of the data set; got {_hints.listed(own_names)} where the"
            f" data set has {_hints.listed(names)}."
        )
    return ids


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
        text = f"{results.source}: categories by `category_id`, as no `category_name` is one of the data set"
        return [Note(text, is_doubtful=True)]
    has_contradiction = False
    for position, row in enumerate(results.rows):
        name = row.get("category_name")
        if not isinstance(name, str) or name not in ids_by_name:
            rule = f"one of {_hints.listed(ids_by_name)} in every row, or in none,"
            raise results.invalid(position, "category_name", rule)
        has_contradiction |= row.get("category_id") != ids_by_name[name]
        row["category_id"] = ids_by_name[name]
    if not has_contradiction:
        return []
    return [Note(f"{results.source}: categories by `category_name`, not by `category_id`", is_doubtful=False)]
