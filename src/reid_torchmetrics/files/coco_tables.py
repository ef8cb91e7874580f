"""Detections and ground truths with boxes or masks from COCO's files, as columns.

Most files have rows like those of COCO. They are read by type and checked by column. Any other file, and any file with
an error, is left to the reader of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reid_torchmetrics.functional.detection.batches import ImageColumns

from .access import readable
from .coco_columns import ANNOTATIONS, RESULTS, Column, Note, Row, RowList
from .coco_masks import are_of_other_sizes, note_on_areas
from .coco_names import find_images
from .coco_rows import CocoReading, check_images, notes_on_dropped, read_categories, read_rows, row_list
from .json_blocks import UnreadRowsError
from .object_tables import ANNOTATION_COLUMNS, ObjectTable, images_of, read_data_set, read_results, values_of_images


def read_coco(
    results_path: str, data_set_path: str, reading: CocoReading
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    Errors are those of `read_rows`, which reads all files but those of boxes or masks like COCO's.
    """
    try:
        return read_tables(results_path, data_set_path, reading)
    except UnreadRowsError:
        return read_rows(results_path, data_set_path, reading)


def read_tables(results_path: str, data_set_path: str, reading: CocoReading) -> tuple[ImageColumns, ImageColumns]:
    """Read detections and ground truths of each image, in the order of the data set.

    Raises:
        OSError: there is no such file, or it may not be read.
        UnreadRowsError: other shapes are read, or a file is unlike most or has an error.
    """
    if not set(reading.iou_type) <= {"bbox", "segm"} or reading.is_federated:
        raise UnreadRowsError
    has_masks = "segm" in reading.iou_type
    data_set = read_data_set(readable(data_set_path).read_bytes(), ANNOTATION_COLUMNS, has_masks=has_masks)
    with readable(results_path).open("rb") as file:
        results = read_results(file, {} if has_masks else None)
    try:
        image_rows = row_list(data_set_path, "images", data_set.lists)
        check_images(image_rows, is_federated=False)
        images = image_rows.rows
        categories = read_categories(data_set_path, data_set.lists)
    except ValueError as error:
        raise UnreadRowsError from error

    # Results of categories that the data set lacks may be left out.
    results, notes = with_ids_of_images(results_path, results, images)
    check_category_names(results, data_set.lists.get("categories", ()))
    num_results = len(results.images)
    if reading.unknown_categories == "drop" and categories:
        results = results.at(np.isin(results.columns["category_id"], list(categories)).nonzero()[0])
    notes += notes_on_dropped(results_path, num_results, len(results.images))
    annotations = data_set.annotations
    ids = [image["id"] for image in images]
    results = on_images(results, ids, categories)
    annotations = on_images(annotations, ids, categories)
    check_keys("results", results, reading.columns(RESULTS, has_boxes=False))
    check_keys("annotations", annotations, reading.columns(ANNOTATIONS, has_boxes=True))
    _check_annotations(annotations, has_boxes=reading.has_true_boxes and reading.invalid != "drop")
    if annotations.masks is not None and results.masks is not None:
        sizes = np.concatenate([annotations.masks.sizes, results.masks.sizes])
        _check(not are_of_other_sizes(np.concatenate([annotations.images, results.images]), sizes).any())
        if reading.has_true_boxes:
            _check(not np.isnan(annotations.columns["bbox"]).any())

    # Areas as COCO's API takes them, see `coco_masks`.
    columns = dict(results.columns)
    true_columns = dict(annotations.columns)
    boxes = columns["bbox"]
    has_boxes = ~np.isnan(boxes[:, 0])
    if len(boxes) and reading.iou_type != ("bbox",) and (reading.has_result_boxes or has_boxes[0]):
        _check(has_boxes.all())
        if reading.detection_areas == "coco":
            columns["detection_area"] = boxes[:, 2] * boxes[:, 3]
            notes.append(note_on_areas(results_path, "bbox"))
    if not reading.has_result_boxes:
        del columns["bbox"]
    if not reading.has_true_boxes:
        del true_columns["bbox"]
    reading.notes.extend(notes)
    return (
        images_of(replace(results, columns=columns), {}),
        images_of(replace(annotations, columns=true_columns), values_of_images(images)),
    )


def _check(is_valid: bool | np.bool_) -> None:
    """Leave the files to the reader of rows unless something holds."""
    if not is_valid:
        raise UnreadRowsError


def with_ids_of_images(source: str, results: ObjectTable, images: Sequence[Row]) -> tuple[ObjectTable, list[Note]]:
    """Return results with the ids of their images, which may be named by their files; see `find_images`."""
    rows: list[dict[str, Any]] = [{"image_id": reference} for reference in results.references]
    places = results.images
    if "file_name" in results.columns:  # a row for each distinct pair of an id and a name
        pairs = list(zip(places.tolist(), results.columns["file_name"].tolist(), strict=True))
        place_of_pair = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
        places = np.array([place_of_pair[pair] for pair in pairs], dtype=np.int64)
        rows = [{**rows[place], "file_name": name} for place, name in place_of_pair]
    try:
        notes = find_images(RowList(source, "results", rows), images)
    except ValueError as error:
        raise UnreadRowsError from error
    return replace(results, references=[row["image_id"] for row in rows], images=places), notes


def check_category_names(results: ObjectTable, categories: Iterable[Row]) -> None:
    """Leave results with names of other categories than those of their ids to the reader of rows."""
    if "category_name" in results.columns:
        pairs = zip(results.columns["category_id"].tolist(), results.columns["category_name"].tolist(), strict=True)
        _check({(row["id"], row.get("name")) for row in categories}.issuperset(pairs))


def on_images(table: ObjectTable, images: Iterable[Any], categories: Collection[Any]) -> ObjectTable:
    """Return the same objects among all images of a data set, given their ids and those of categories, if any.

    Files with objects in other images or of other categories are left to the reader of rows.
    """
    places = {image: place for place, image in enumerate(images)}
    images_of_objects = np.array([places.get(image, -1) for image in table.references], dtype=np.int64)[table.images]
    _check((images_of_objects >= 0).all())
    _check(not categories or np.isin(table.columns["category_id"], list(categories)).all())
    return replace(table, references=list(places), images=images_of_objects)


def check_keys(name: str, table: ObjectTable, columns: Sequence[Column]) -> None:
    """Leave files with misspelled keys to the reader of rows."""
    rows = RowList("", name, [])
    for column in columns:
        _check(column.is_required or not rows.misspelled_keys(column, table.other_keys))


def _check_annotations(annotations: ObjectTable, *, has_boxes: bool) -> None:
    """Leave files with invalid annotations to the reader of rows."""
    areas = annotations.columns["area"]
    check_flags(annotations)
    _check((np.isnan(areas) | (areas >= 0)).all())
    _check(not has_boxes or (annotations.columns["bbox"][:, 2:] >= 0).all())


def check_flags(annotations: ObjectTable) -> None:
    """Leave files with `ignore`, or with crowds that are not 0 or 1, to the reader of rows."""
    is_crowd = annotations.columns["iscrowd"]
    _check(((is_crowd == 0) | (is_crowd == 1)).all())
    _check("ignore" not in annotations.other_keys)
