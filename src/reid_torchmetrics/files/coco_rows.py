"""Detections and ground truths read from COCO's files, with boxes, masks, keypoints and rotated boxes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics import _hints, _names
from reid_torchmetrics.functional.detection.batches import LISTS, are_valid_boxes
from reid_torchmetrics.functional.detection.inputs import RunMasks, shape_types

from .access import read_json
from .coco_columns import (
    ANNOTATIONS,
    CATEGORIES,
    FINITE_NUMBER,
    IMAGES,
    RESULTS,
    Column,
    Note,
    Row,
    RowList,
    check_distinct,
    check_kind_of_ids,
    counts_although_ignored,
    is_missing,
    is_whole_number,
    shortened,
    similar_key,
    unknown_id,
)
from .coco_masks import (
    are_of_other_sizes,
    fill_boxes_and_areas,
    masks_of_list,
    note_on_areas,
    num_without_mask,
    shape_of_areas,
)
from .coco_names import are_results, find_categories, find_images, rows_of_data_set
from .foreign_annotations import remedy_of_data_set, remedy_of_file, remedy_of_results
from .object_tables import ObjectTable, images_of, values_of_images

_SHAPE_OF_COLUMN = {
    "segmentation": "segm",
    "keypoints": "keypoints",
    "num_keypoints": "keypoints",
    "rotated_box": "rotated",
}
"""the value of `iou_type` that needs a column"""
_DEFAULTS = {"iscrowd": 0, "area": math.nan}
"""values of optional columns in rows without them"""
_ROTATED_KEYS = ("rotated_box", "obb", "rbox", "poly")
"""keys of rotated boxes: the key of this package, that of hotcoco, then two of Ultralytics' `predictions.json`"""


@dataclass(frozen=True)
class CocoReading:
    """The options for reading COCO's files: the columns to read, and the treatment of invalid rows."""

    iou_type: tuple[str, ...]
    is_federated: bool
    """whether images have LVIS' lists of classes"""
    invalid: _names.InvalidAction
    """the metric's action for invalid objects; objects that it drops are not checked here"""
    unknown_categories: _names.UnknownCategories
    detection_areas: _names.DetectionAreas
    """the areas of results for the area ranges"""
    notes: list[Note]
    """receives a line for each decision that the files leave open"""

    @property
    def has_result_boxes(self) -> bool:
        """Return whether boxes of results are evaluated."""
        return "bbox" in self.iou_type

    @property
    def has_true_boxes(self) -> bool:
        """Return whether boxes of annotations are read."""
        return self.iou_type != ("segm",)

    def columns(self, table: Sequence[Column], *, has_boxes: bool) -> list[Column]:
        """Return the columns of a table to read; evaluated shapes are required."""
        columns = []
        for column in table:
            # Columns of shapes that are not evaluated are not read.
            if column.key in _SHAPE_OF_COLUMN and _SHAPE_OF_COLUMN[column.key] not in self.iou_type:
                continue
            if column.key == "ignore" and not self.is_federated:
                continue
            if column.key == "score" and self.invalid != "drop":
                columns.append(replace(column, kind=FINITE_NUMBER))
            elif column.key in ("keypoints", "rotated_box") or (column.key == "bbox" and has_boxes):
                columns.append(replace(column, is_required=True))
            else:
                columns.append(column)
        return columns


def read_rows(
    results_path: str, data_set_path: str, reading: CocoReading
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    If `reading.is_federated`, images have LVIS' lists of classes, and annotations without area are left out. Results
    that name the files of images get the ids of the images; see `find_images`.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a row without a required key or with a value that is not allowed, see `coco_columns`, or a result in
            an image or of a category that the data set does not have.
    """
    results = parsed(results_path)
    data_set = parsed(data_set_path)
    if are_results(results):
        row_list(data_set_path, "images", data_set)  # an error in the data set comes before those in other tables
        results, notes = rows_of_data_set(
            results_path, results, data_set, drops_unknown=reading.unknown_categories == "drop"
        )
        reading.notes.extend(notes)
    detections = row_list(results_path, "results", results)
    images = row_list(data_set_path, "images", data_set)
    annotations = row_list(data_set_path, "annotations", data_set)
    categories = read_categories(data_set_path, data_set)

    # Images, and the ids by which results name them.
    check_images(images, is_federated=reading.is_federated)
    images_by_id = {image["id"]: image for image in images.rows}
    reading.notes.extend(find_images(detections, images.rows))
    reading.notes.extend(find_categories(detections, data_set.get("categories", ())))

    # Rows of annotations and of results.
    if "rotated" in reading.iou_type:
        _rename_rotated_boxes(annotations.rows)
        _rename_rotated_boxes(detections.rows)
    annotations.check(reading.columns(ANNOTATIONS, has_boxes=reading.has_true_boxes))
    if reading.is_federated:
        annotations = _without_empty_objects(annotations)
    _check_references(annotations, images_by_id, categories)
    detections, has_areas = _prepared_results(detections, images_by_id, categories, reading)

    # Shapes.
    masks = {}
    if "segm" in reading.iou_type:
        masks = _read_masks(annotations, detections, images_by_id, reading)
    _check_lengths(annotations, detections, reading)
    if reading.has_true_boxes:
        _check_has_boxes(annotations)
    if reading.invalid != "drop":
        _check_ground_truths(annotations, reading)
    return _image_dicts(images.rows, detections, annotations, masks, reading, has_areas=has_areas)


def _prepared_results(
    detections: RowList, images: Mapping[Any, Row], categories: Collection[Any], reading: CocoReading
) -> tuple[RowList, bool]:
    """Check results, and fill in boxes and areas as COCO's API does.

    Returns:
        The results, and whether they have areas of other shapes than the evaluated ones.
    """
    # Results of masks or keypoints alone get boxes below.
    detections.check(reading.columns(RESULTS, has_boxes=False))
    if reading.unknown_categories == "drop" and categories:
        positions = [position for position, row in enumerate(detections.rows) if row["category_id"] in categories]
        reading.notes.extend(notes_on_dropped(detections.source, len(detections.rows), len(positions)))
        detections = detections.select(positions)
    _check_references(detections, images, categories)
    has_areas = False
    shape = shape_of_areas(detections.rows)
    if shape is not None and reading.iou_type not in ((shape,), ("rotated",)):  # COCO's API has no rotated boxes
        has_areas = reading.detection_areas == "coco"
        if has_areas or reading.has_result_boxes:
            fill_boxes_and_areas(detections, images)
        if has_areas:
            reading.notes.append(note_on_areas(detections.source, shape))
    if reading.has_result_boxes:
        _check_has_boxes(detections)
    return detections, has_areas


def _image_dicts(
    images: Sequence[Row],
    detections: RowList,
    annotations: RowList,
    masks: Mapping[str, RunMasks],
    reading: CocoReading,
    *,
    has_areas: bool,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the dicts of detections and of ground truths, one for each image."""
    # Values of each image; flags come before rows get other values.
    of_images: dict[str, list[Any]] = {}
    true_values = values_of_images(images)
    if reading.is_federated:
        true_values |= {key: [image[key] for image in images] for key in LISTS}
    else:
        is_ignored = partial(counts_although_ignored, reads_keypoints="keypoints" in reading.iou_type)
        true_values["ignore"] = []
        for rows in _by_image(annotations.rows, images):  # for the diagnosis
            flags = torch.tensor(list(map(is_ignored, rows)), device="cpu")
            true_values["ignore"].append(flags if any("ignore" in row for row in rows) else None)
    if "rotated" in reading.iou_type:
        of_images["rotated_boxes"] = _rotated_boxes(detections.rows, images)
        true_values["rotated_boxes"] = _rotated_boxes(annotations.rows, images)

    # Columns of objects.
    keys = ["category_id", "score", *(["bbox"] if reading.has_result_boxes else ())]
    true_keys = ["category_id", "iscrowd", "area", *(["bbox"] if reading.has_true_boxes else ())]
    if has_areas:
        keys.append("detection_area")
        for row in detections.rows:
            row["detection_area"] = row["area"]
    if "keypoints" in reading.iou_type:
        keys.append("keypoints")
        true_keys.extend(("keypoints", "num_keypoints"))
        for row in annotations.rows:
            row["num_keypoints"] = _num_keypoints(row)
    ids = [image["id"] for image in images]
    preds = images_of(_table(detections, keys, ids, masks), of_images)
    target = images_of(_table(annotations, true_keys, ids, masks), true_values)
    return list(preds), list(target)


def _rotated_boxes(rows: Sequence[Row], images: Sequence[Row]) -> list[torch.Tensor]:
    """Return the rotated boxes of each image, of 5 numbers or 8."""
    boxes = []
    for image_rows in _by_image(rows, images):
        image_boxes = torch.from_numpy(_column(image_rows, "rotated_box"))
        boxes.append(image_boxes if image_rows else image_boxes.view(0, 5))
    return boxes


def _table(row_list: RowList, keys: Sequence[str], images: list[Any], masks: Mapping[str, RunMasks]) -> ObjectTable:
    """Return some columns of rows as a table, given the ids of all images."""
    columns = {key: _column(row_list.rows, key) for key in keys}
    return ObjectTable(images, _places(row_list.rows, images), columns, masks.get(row_list.name))


def _column(rows: Sequence[Row], key: str) -> NDArray[Any]:
    """Return the numbers under a key of all rows, [rows] or [rows, numbers], or [rows, keypoints, 3]."""
    dtype = np.int64 if key in ("category_id", "iscrowd", "num_keypoints") else np.float64
    column = np.array([row.get(key, _DEFAULTS.get(key)) for row in rows], dtype=dtype)
    if key == "bbox":
        return column.reshape(-1, 4)
    return column.reshape(len(rows), -1, 3) if key == "keypoints" and rows else column


def parsed(path: str | PathLike[str]) -> Any:
    """Return the content of a file of JSON.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: the file is no JSON.
    """
    try:
        return read_json(path)
    except ValueError as error:  # of the text, or of its encoding
        got = remedy_of_file(Path(path)) or error
        raise ValueError(f"`{path}` must be a file of JSON; got {got}.") from error
    except RecursionError:
        raise ValueError(f"`{path}` must be a file of COCO's format; got lists that are nested too deep.") from None


def row_list(path: str, name: str, content: Any) -> RowList:
    """Return the rows of a file of results, or the list with a name in a data set."""
    rows = content
    rule = "a list of objects"
    find_remedy = remedy_of_results
    if name != "results":
        rows = content.get(name) if isinstance(content, dict) else None
        rule = f"`{name}`, a list of objects"
        find_remedy = remedy_of_data_set
    is_list = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not is_list or find_remedy(content):
        raise ValueError(f"`{path}` must hold {rule}; got {shortened(content)}{find_remedy(content)}.")
    return RowList(path, name, rows)


def read_categories(path: str, data_set: Any) -> dict[Any, None]:
    """Return the ids of the categories, in their order; none if the data set lists no categories."""
    if not isinstance(data_set, dict) or "categories" not in data_set:
        return {}
    categories = row_list(path, "categories", data_set)
    categories.check(CATEGORIES)
    check_distinct(categories)
    return dict.fromkeys(row["id"] for row in categories.rows)


def check_images(images: RowList, *, is_federated: bool) -> None:
    """Raise for the first invalid image; in a federated evaluation all have LVIS' lists of classes, else none has."""
    images.check(IMAGES)
    for position, image in enumerate(images.rows):
        for name in LISTS:
            labels = image.get(name)
            if is_federated:
                if not isinstance(labels, list) or not all(map(is_whole_number, labels)):
                    raise images.invalid(position, name, "a list of ids")
            elif labels:  # by COCO's rules, detections of classes that nobody annotated would be false positives
                got = f"`{name}` in {images.place(position)}; `LvisMAP` reads it"
                raise ValueError(f"`{images.source}` must be annotated in full, as COCO is and LVIS is not; got {got}.")
    check_kind_of_ids(images)
    check_distinct(images)


def _without_empty_objects(annotations: RowList) -> RowList:
    """Leave out annotations with the area 0, as lvis-api does, and take `ignore` as `iscrowd`."""
    positions = [position for position, row in enumerate(annotations.rows) if row.get("area", 1) != 0]
    objects = annotations.select(positions)
    for row in objects.rows:
        row["iscrowd"] = row.get("ignore", 0)
    return objects


def _check_references(row_list: RowList, images: Collection[Any], categories: Collection[Any]) -> None:
    """Raise unless all rows are in images and of categories of the data set."""
    message = unknown_id(row_list, "image_id", images) or unknown_id(row_list, "category_id", categories)
    if message:
        raise ValueError(message)


def notes_on_dropped(source: str, num_results: int, num_kept: int) -> list[Note]:
    """Return a note on results that were left out, if there are any."""
    if num_kept == num_results:
        return []
    text = f"left out {num_results - num_kept:,} of {num_results:,} results of categories that the data set lacks"
    return [Note(f"{source}: {text}", is_doubtful=False)]


def _by_image(rows: Iterable[Row], images: Iterable[Row]) -> Collection[list[Row]]:
    """Return the rows of each image."""
    rows_by_image: dict[Any, list[Row]] = {image["id"]: [] for image in images}
    for row in rows:
        rows_by_image[row["image_id"]].append(row)
    return rows_by_image.values()


def _rename_rotated_boxes(rows: Iterable[dict[str, Any]]) -> None:
    """Give rotated boxes the key `rotated_box`."""
    for row in rows:
        for key in _ROTATED_KEYS:
            if key in row:
                row["rotated_box"] = row[key]
                break


def _check_has_boxes(row_list: RowList) -> None:
    """Raise for the first row without a box."""
    for position, row in enumerate(row_list.rows):
        box = row.get("bbox")
        if box is None or len(box) == 0:
            got = "a mask alone" if "segmentation" in row else f"the keys {_hints.listed(row, str)}"
            raise ValueError(
                f"`{row_list.source}` must have `bbox` in every row of `{row_list.name}`; got {got} in"
                f" {row_list.place(position)}."
            )


def _read_masks(
    annotations: RowList, detections: RowList, images: Mapping[Any, Row], reading: CocoReading
) -> dict[str, RunMasks]:
    """Return the masks of both lists by name, and note boxes that count as masks.

    Raises:
        ValueError: a mask that cannot be read, masks of an image with different sizes, annotations of which none has
            a mask, or masks under another key.
    """
    num_boxes = num_without_mask(annotations.rows)
    if num_boxes and num_boxes == len(annotations.rows):
        raise ValueError(
            f"`{annotations.source}` must have a `segmentation` in its annotations to evaluate masks; got none in"
            f" {num_boxes:,} annotations."
        )
    masks = {}
    for row_list in (annotations, detections):
        masks[row_list.name] = masks_of_list(row_list, images)
        _check_no_shares(row_list, masks[row_list.name])
        num_boxes = num_without_mask(row_list.rows)
        key = similar_key("segmentation", row_list.rows[0]) if 0 < num_boxes == len(row_list.rows) else None
        if key and key != "segmentation":  # which may be empty
            got = f"`{key}` in its place in {row_list.place(0)}"
            raise ValueError(f"`{row_list.source}` must have masks as `segmentation`; got {got}.")
        if num_boxes:
            text = f"{num_boxes:,} of {len(row_list.rows):,} {row_list.name} have no `segmentation`"
            reading.notes.append(Note(f"{row_list.source}: {text}: their boxes count as masks", is_doubtful=True))
    sizes = np.concatenate([masks[row_list.name].sizes for row_list in (annotations, detections)])
    image_of_row = np.concatenate([_places(row_list.rows, images) for row_list in (annotations, detections)])
    are_other = are_of_other_sizes(image_of_row, sizes)
    if are_other.any():
        place = int(are_other.argmax())
        height, width = sizes[image_of_row == image_of_row[place]][0]
        rule = f"a mask of {height} x {width} pixels, as other rows of the image,"
        num_annotations = len(annotations.rows)
        if place < num_annotations:
            raise annotations.invalid(place, "segmentation", rule, sizes[place].tolist())
        raise detections.invalid(place - num_annotations, "segmentation", rule, sizes[place].tolist())
    return masks


def _check_no_shares(row_list: RowList, masks: RunMasks) -> None:
    """Raise if all polygons are shares of the image: fractions from 0 to 1, although boxes are larger than a pixel.

    Without boxes, an image must be.
    """
    polygons = [row["segmentation"] for row in row_list.rows if isinstance(row.get("segmentation"), list)]
    corners = set(chain.from_iterable(chain.from_iterable(polygons)))
    sides = [max(row["bbox"][2:]) for row in row_list.rows if not is_missing(row.get("bbox"))]
    largest = max(sides or masks.sizes.flat, default=0)
    if not corners <= {0, 1} and min(corners) >= 0 and max(corners) <= 1 < largest:
        raise row_list.invalid(0, "segmentation", "polygons in pixels, not as shares of the image,", polygons[0])


def _places(rows: Sequence[Row], images: Iterable[Any]) -> NDArray[np.int64]:
    """Return the place of the image of each row, given the ids of all images."""
    places = {image: place for place, image in enumerate(images)}
    return np.array([places[row["image_id"]] for row in rows], dtype=np.int64)


def _check_lengths(annotations: RowList, detections: RowList, reading: CocoReading) -> None:
    """Raise unless all rows have equally many keypoints, and rotated boxes of an image equally many numbers."""
    expected: dict[Any, int] = {}
    for row_list in (annotations, detections):
        for position, row in enumerate(row_list.rows):
            if "keypoints" in reading.iou_type:
                length = len(row["keypoints"])
                first_length = expected.setdefault("keypoints", length)
                if length != first_length:
                    rule = f"x, y and visibility of {first_length // 3} keypoints, as in other rows,"
                    raise row_list.invalid(position, "keypoints", rule)
            if "rotated" in reading.iou_type:
                length = len(row["rotated_box"])
                first_length = expected.setdefault((row_list.name, row["image_id"]), length)
                if length != first_length:
                    rule = f"5 numbers or 8 in every row of an image, here {first_length},"
                    raise row_list.invalid(position, "rotated_box", rule)


def _check_ground_truths(annotations: RowList, reading: CocoReading) -> None:
    """Raise for the first ground truth with a box, keypoints or rotated box that cannot be evaluated."""
    rows = annotations.rows
    if not rows:
        return
    if reading.has_true_boxes:
        boxes = torch.tensor([row["bbox"] for row in rows], dtype=torch.float64, device="cpu")
        rule = "four finite numbers with a width and height of at least 0"
        _check_valid(annotations, "bbox", are_valid_boxes(boxes, "xywh"), rule)
    if "keypoints" in reading.iou_type:
        keypoints = torch.tensor([row["keypoints"] for row in rows], dtype=torch.float64, device="cpu")
        _check_valid(annotations, "keypoints", keypoints.isfinite().all(1), "finite numbers")
    if "rotated" in reading.iou_type:
        _check_rotated_boxes(annotations)


def _check_rotated_boxes(annotations: RowList) -> None:
    """Raise for the first rotated box that cannot be evaluated; boxes of equally many numbers are checked together."""
    kind = shape_types(("rotated",), sigmas=None)["rotated"]
    positions_by_length: dict[int, list[int]] = {}
    for position, row in enumerate(annotations.rows):
        positions_by_length.setdefault(len(row["rotated_box"]), []).append(position)
    for positions in positions_by_length.values():
        boxes = annotations.select(positions)
        values = torch.tensor([row["rotated_box"] for row in boxes.rows], dtype=torch.float64, device="cpu")
        for rule, is_kept in kind.rules_in_files(values).items():
            _check_valid(boxes, "rotated_box", is_kept, rule)


def _check_valid(row_list: RowList, key: str, are_valid: torch.Tensor, rule: str) -> None:
    """Raise for the first row with a value that is not valid."""
    if not bool(are_valid.all()):
        position = int(are_valid.logical_not().nonzero()[0, 0])
        raise row_list.invalid(position, key, rule)


def _num_keypoints(row: Row) -> int:
    """Return `num_keypoints` of a row, else the number of its labeled keypoints; COCO's API ignores objects with 0."""
    if "num_keypoints" in row:
        return int(row["num_keypoints"])
    return sum(visibility > 0 for visibility in row["keypoints"][2::3])
