"""Detections and ground truths read from COCO's files, with boxes, masks, keypoints and rotated boxes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from typing import Any

import torch

from reid_torchmetrics import _names
from reid_torchmetrics._files import read_json
from reid_torchmetrics.functional.detection.inputs import CORNER_ORDER, RotatedType, crossing_edges

from .coco_columns import (
    ANNOTATIONS,
    CATEGORIES,
    FINITE_NUMBER,
    IMAGES,
    RESULTS,
    Column,
    Row,
    RowList,
    check_kind_of_ids,
    is_missing,
    is_whole_number,
    shortened,
)
from .coco_images import Note, find_images
from .coco_masks import areas_and_boxes, check_mask_sizes, check_masks, num_without_mask, run_lengths
from .coco_writing import SMALLEST_AREA
from .key_names import LISTS
from .unsound import are_sound_boxes

_MAX_SHOWN_IDS = 5  # in a message
_SWAPPED = (
    "; of `detect` the first file is the data set, the second the detections, and of `coco_to_tm` it is the other way"
    " round"
)
_DTYPES = dict.fromkeys(("labels", "iscrowd", "num_keypoints"), torch.int64) | {"difficult": torch.bool}
_WIDTHS = {"boxes": 4, "rotated_boxes": 5}
_ROTATED_KEYS = ("rotated_box", "rbox", "poly")
"""keys of rotated boxes in results: that of this package, then the two of Ultralytics' `predictions.json`"""


def image_dict(**columns: Sequence[Any]) -> dict[str, Any]:
    """Return the dict of an image for `update`, from a list for each key: of numbers, of flags, or of boxes."""
    tensors = {}
    for key, values in columns.items():
        tensor = torch.tensor(values, dtype=_DTYPES.get(key, torch.float64), device="cpu")
        tensors[key] = tensor.view(-1, _WIDTHS[key]) if key in _WIDTHS and not values else tensor
    return tensors


@dataclass(frozen=True)
class CocoReading:
    """What to read from COCO's files, and what to do about rows that do not fit."""

    iou_type: tuple[str, ...]
    is_federated: bool
    """whether images have LVIS' lists of classes"""
    invalid: _names.InvalidAction
    """what the metric does with invalid objects; objects that it drops are not checked here"""
    unknown_categories: _names.UnknownCategories
    notes: list[Note]
    """gets a line for each decision that the files leave open"""

    @property
    def has_result_boxes(self) -> bool:
        """Whether boxes of results are read: COCO's API takes areas of results from them."""
        return "bbox" in self.iou_type

    @property
    def has_true_boxes(self) -> bool:
        """Whether boxes of annotations are read."""
        return self.iou_type != ("segm",)

    def columns(self, table: Sequence[Column], *, has_boxes: bool) -> list[Column]:
        """Return the columns of a table that are read; shapes that are evaluated are required."""
        columns = []
        for column in table:
            is_shape = column.key in ("keypoints", "rotated_box")
            is_evaluated = column.key in self.iou_type or (column.key == "rotated_box" and "rotated" in self.iou_type)
            if column.key == "ignore" and not self.is_federated:
                continue
            if column.key == "segmentation" and "segm" not in self.iou_type:
                continue
            if column.key == "num_keypoints" and "keypoints" not in self.iou_type:
                continue
            if is_shape and not is_evaluated:
                continue
            if column.key == "score" and self.invalid != "drop":
                columns.append(replace(column, kind=FINITE_NUMBER))
            elif is_shape or (column.key == "bbox" and has_boxes):
                columns.append(column.required())
            else:
                columns.append(column)
        return columns


def read_coco(
    results_path: str, data_set_path: str, reading: CocoReading
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    If `reading.is_federated`, images have LVIS' lists of classes, and annotations without area are left out. Where
    results name the files of images, they get the ids of the images, see `find_images`.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a row without a required key or with a value that is not allowed, see `coco_columns`, or a result in
            an image or of a category that the data set does not have.
    """
    results = parsed(results_path)
    data_set = parsed(data_set_path)
    detections = _rows_of(results_path, "results", results)
    images = _rows_of(data_set_path, "images", data_set)
    annotations = _rows_of(data_set_path, "annotations", data_set)
    categories = _read_categories(data_set_path, data_set)

    images.check(IMAGES)
    for position, image in enumerate(images.rows):
        _check_lists(images, position, image, is_federated=reading.is_federated)
    images_by_id = {image["id"]: image for image in images.rows}
    check_kind_of_ids(images)
    reading.notes.extend(find_images(detections, images.rows))

    annotations.check(reading.columns(ANNOTATIONS, has_boxes=reading.has_true_boxes))
    if reading.is_federated:
        annotations = _without_empty_objects(annotations)
    _check_references(annotations, images_by_id, categories)
    detections = _prepared_results(detections, images_by_id, categories, reading)
    if "segm" in reading.iou_type:
        _check_masks(annotations, detections, images_by_id, reading)
    _check_lengths(annotations, detections, reading)
    if reading.has_true_boxes:
        _check_has_boxes(annotations)
    if reading.invalid != "drop":
        _check_ground_truths(annotations, reading)
    return _image_dicts(images.rows, detections, annotations, reading)


def _prepared_results(
    detections: RowList, images: Mapping[Any, Row], categories: Collection[Any], reading: CocoReading
) -> RowList:
    """Check results, give rotated boxes one key, and give results of masks the boxes of their masks."""
    if "rotated" in reading.iou_type:
        _rename_rotated_boxes(detections.rows)
    # A result of a mask alone gets the box of its mask below.
    detections.check(reading.columns(RESULTS, has_boxes=False))
    if reading.unknown_categories == "drop" and categories:
        detections = _without_unknown_categories(detections, categories, reading)
    _check_references(detections, images, categories)
    if reading.has_result_boxes:
        _add_boxes(detections, images)
        _check_has_boxes(detections)
    return detections


def _image_dicts(
    images: Sequence[Row], detections: RowList, annotations: RowList, reading: CocoReading
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the dicts of detections and of ground truths, one for each image."""
    detections_by_image = _by_image(detections.rows, images)
    annotations_by_image = _by_image(annotations.rows, images)
    preds = []
    target = []
    for image in images:
        results = detections_by_image[image["id"]]
        objects = annotations_by_image[image["id"]]
        scores = [row["score"] for row in results]
        preds.append(_columns(results, image, reading.iou_type, has_boxes=reading.has_result_boxes, scores=scores))
        columns = {}
        if "keypoints" in reading.iou_type:
            columns["num_keypoints"] = [_num_keypoints(row) for row in objects]
        columns["iscrowd"] = [int(row.get("iscrowd", 0)) for row in objects]
        columns["area"] = [max(row["area"], SMALLEST_AREA) if "area" in row else 0 for row in objects]
        ground_truths = _columns(objects, image, reading.iou_type, has_boxes=reading.has_true_boxes, **columns)
        ground_truths["image_id"] = image["id"]
        size = [image.get("height"), image.get("width")]
        if all(isinstance(side, int) and side > 0 for side in size):  # for advice on boxes of resized images
            ground_truths["orig_size"] = torch.tensor(size, dtype=torch.int64, device="cpu")
        if reading.is_federated:
            ground_truths |= {name: image[name] for name in LISTS}
        target.append(ground_truths)
    return preds, target


def parsed(path: str | PathLike[str]) -> Any:
    """Return what a file of JSON holds.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it holds something else.
    """
    try:
        return read_json(path)
    except ValueError as error:  # of the text, or of its encoding
        raise ValueError(f"`{path}` must be a file of JSON; got {error}.") from error
    except RecursionError:
        raise ValueError(f"`{path}` must be a file of COCO's format; got lists that are nested too deep.") from None


def _rows_of(path: str, name: str, content: Any) -> RowList:
    """Return the rows that a file of results lists, or that a data set lists by a name."""
    rows = content
    rule = "a list of objects"
    if name != "results":
        rows = content.get(name) if isinstance(content, dict) else None
        rule = f"`{name}`, a list of objects"
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        swapped = _SWAPPED if name == "results" and isinstance(content, dict) else ""
        raise ValueError(f"`{path}` must hold {rule}; got {shortened(content)}{swapped}.")
    return RowList(path, name, rows)


def _read_categories(path: str, data_set: Any) -> dict[Any, None]:
    """Return the ids of the categories, in their order; none if the data set lists no categories."""
    if not isinstance(data_set, dict) or "categories" not in data_set:
        return {}
    categories = _rows_of(path, "categories", data_set)
    categories.check(CATEGORIES)
    return dict.fromkeys(row["id"] for row in categories.rows)


def _check_lists(images: RowList, position: int, image: Row, *, is_federated: bool) -> None:
    """Raise unless an image has LVIS' lists of classes if the evaluation is federated, else none."""
    for name in LISTS:
        labels = image.get(name)
        if is_federated and not (isinstance(labels, list) and all(map(is_whole_number, labels))):
            raise images.invalid(position, name, "a list of ids")
        if labels and not is_federated:  # COCO's rules would count what nobody annotated as wrong
            got = f"`{name}` in {images.place(position)}; `LvisMAP` reads it, and `--evaluator lvis`"
            raise ValueError(f"`{images.source}` must be annotated in full, as COCO is and LVIS is not; got {got}.")


def _without_empty_objects(annotations: RowList) -> RowList:
    """Leave out annotations with the area 0, as lvis-api does, and take `ignore` as `iscrowd`."""
    kept = annotations.select([position for position, row in enumerate(annotations.rows) if row.get("area", 1) != 0])
    for row in kept.rows:
        row["iscrowd"] = row.get("ignore", 0)
    return kept


def _check_references(listed: RowList, images: Collection[Any], categories: Collection[Any]) -> None:
    """Raise unless all rows are in images and of categories of the data set."""
    for key, ids in (("image_id", images), ("category_id", categories)):
        if key == "category_id" and not categories:
            continue
        for position, row in enumerate(listed.rows):
            if row[key] not in ids:
                hint = "; are yours counted from 0?" if key == "category_id" and row[key] == 0 else ""
                known = f"those of the data set are {_listed(ids)}"
                what = "images" if key == "image_id" else "categories"
                raise ValueError(
                    f"`{listed.source}` must have {listed.name} in {what} of the data set only; got"
                    f" {shortened(row[key])} as `{key}` in {listed.place(position)}; {known}{hint or '.'}"
                )


def _without_unknown_categories(detections: RowList, categories: Collection[Any], reading: CocoReading) -> RowList:
    """Leave out results of categories that the data set does not have."""
    kept = [position for position, row in enumerate(detections.rows) if row["category_id"] in categories]
    num_dropped = len(detections.rows) - len(kept)
    if num_dropped:
        text = f"left out {num_dropped:,} of {len(detections.rows):,} results of categories that the data set lacks"
        reading.notes.append(Note(f"{detections.source}: {text}", is_doubtful=False))
    return detections.select(kept)


def _by_image(rows: Iterable[Row], images: Iterable[Row]) -> dict[Any, list[Row]]:
    """Return the rows of each image by its id."""
    rows_by_image: dict[Any, list[Row]] = {image["id"]: [] for image in images}
    for row in rows:
        rows_by_image[row["image_id"]].append(row)
    return rows_by_image


def _listed(ids: Iterable[object]) -> str:
    """Return the first ids, for a message."""
    first = [repr(number) for number in islice(ids, _MAX_SHOWN_IDS + 1)]
    if not first:
        return "none"
    ellipsis = ", ..." if len(first) > _MAX_SHOWN_IDS else ""
    return ", ".join(first[:_MAX_SHOWN_IDS]) + ellipsis


def _rename_rotated_boxes(rows: Iterable[dict[str, Any]]) -> None:
    """Give rotated boxes of results the key `rotated_box`."""
    for row in rows:
        for key in _ROTATED_KEYS:
            if key in row:
                row["rotated_box"] = row[key]
                break


def _add_boxes(results: RowList, images: Mapping[Any, Row]) -> None:
    """Give results without a box the box of their mask, as COCO's API does."""
    positions = []
    for position, row in enumerate(results.rows):
        if is_missing(row.get("bbox")) and not is_missing(row.get("segmentation")):
            positions.append(position)
    if not positions:
        return
    bare = results.select(positions)
    check_masks(bare, images)
    masks = [run_lengths(row, images[row["image_id"]]) for row in bare.rows]
    for row, (_, box) in zip(bare.rows, areas_and_boxes(masks), strict=True):
        row["bbox"] = box


def _check_has_boxes(listed: RowList) -> None:
    """Raise if a row has no box."""
    for position, row in enumerate(listed.rows):
        box = row.get("bbox")
        if box is None or len(box) == 0:
            got = "a mask alone" if "segmentation" in row else f"the keys {', '.join(row)}"
            raise ValueError(
                f"`{listed.source}` must have `bbox` in every row of `{listed.name}`; got {got} in"
                f" {listed.place(position)}."
            )


def _check_masks(annotations: RowList, detections: RowList, images: Mapping[Any, Row], reading: CocoReading) -> None:
    """Check masks, and note boxes that count as masks.

    Raises:
        ValueError: a mask that cannot be read, or annotations of which none has a mask.
    """
    for listed in (annotations, detections):
        num_boxes = num_without_mask(listed.rows)
        if num_boxes and listed is annotations and num_boxes == len(listed.rows):
            raise ValueError(
                f"`{listed.source}` must have a `segmentation` in its annotations to evaluate masks; got none in"
                f" {num_boxes:,} annotations."
            )
        check_masks(listed, images)
        if num_boxes:
            text = f"{num_boxes:,} of {len(listed.rows):,} {listed.name} have no `segmentation`"
            reading.notes.append(Note(f"{listed.source}: {text}: their boxes count as masks", is_doubtful=True))
    check_mask_sizes((annotations, detections), images)


def _check_lengths(annotations: RowList, detections: RowList, reading: CocoReading) -> None:
    """Raise unless shapes have as many numbers as the first: keypoints of all rows, rotated boxes of an image."""
    first_lengths: dict[Any, int] = {}
    for listed in (annotations, detections):
        for position, row in enumerate(listed.rows):
            if "keypoints" in reading.iou_type:
                length = len(row["keypoints"])
                expected = first_lengths.setdefault("keypoints", length)
                if length != expected:
                    rule = f"x, y and visibility of {expected // 3} keypoints, as in other rows,"
                    raise listed.invalid(position, "keypoints", rule)
            if "rotated" in reading.iou_type:
                length = len(row["rotated_box"])
                expected = first_lengths.setdefault((listed.name, row["image_id"]), length)
                if length != expected:
                    rule = f"5 numbers or 8 in every row of an image, here {expected},"
                    raise listed.invalid(position, "rotated_box", rule)


def _check_ground_truths(annotations: RowList, reading: CocoReading) -> None:
    """Raise for the first ground truth of a shape that cannot be evaluated."""
    rows = annotations.rows
    if not rows:
        return
    if reading.has_true_boxes:
        boxes = torch.tensor([row["bbox"] for row in rows], dtype=torch.float64, device="cpu")
        rule = "four finite numbers with a width and height of at least 0"
        _check_sound(annotations, "bbox", are_sound_boxes(boxes, "xywh"), rule)
    if "keypoints" in reading.iou_type:
        keypoints = torch.tensor([row["keypoints"] for row in rows], dtype=torch.float64, device="cpu")
        _check_sound(annotations, "keypoints", keypoints.isfinite().all(1), "finite numbers")
    if "rotated" in reading.iou_type:
        _check_rotated_boxes(annotations)


def _check_rotated_boxes(annotations: RowList) -> None:
    """Raise for the first rotated box that cannot be evaluated; boxes of as many numbers are checked together."""
    kind = RotatedType()
    num_rows = len(annotations.rows)
    are_sound = torch.ones(num_rows, dtype=torch.bool, device="cpu")
    are_crossing = torch.zeros(num_rows, dtype=torch.bool, device="cpu")
    lengths = [len(row["rotated_box"]) for row in annotations.rows]
    for length in set(lengths):
        positions = [position for position in range(num_rows) if lengths[position] == length]
        values = [annotations.rows[position]["rotated_box"] for position in positions]
        boxes = torch.tensor(values, dtype=torch.float64, device="cpu")
        are_sound[positions] = kind.are_sound(boxes)
        are_crossing[positions] = crossing_edges(boxes)
    _check_sound(annotations, "rotated_box", ~are_crossing, CORNER_ORDER)
    _check_sound(annotations, "rotated_box", are_sound, "finite numbers and sizes of at least 0")


def _check_sound(listed: RowList, key: str, are_sound: torch.Tensor, rule: str) -> None:
    if not bool(are_sound.all()):
        position = int(are_sound.logical_not().nonzero()[0, 0])
        raise listed.invalid(position, key, rule)


def _columns(
    rows: Sequence[Row], image: Row, iou_type: Sequence[str], *, has_boxes: bool, **columns: Sequence[Any]
) -> dict[str, Any]:
    """Return what an image has of detections and of ground truths alike, and `columns` of one of them."""
    if has_boxes:
        columns["boxes"] = [row["bbox"] for row in rows]
    if "rotated" in iou_type:
        columns["rotated_boxes"] = [row["rotated_box"] for row in rows]
    item = image_dict(labels=[int(row["category_id"]) for row in rows], **columns)
    if "segm" in iou_type:
        item["masks"] = [run_lengths(row, image) for row in rows]
    if "keypoints" in iou_type:
        points = torch.tensor([row["keypoints"] for row in rows], dtype=torch.float64, device="cpu")
        item["keypoints"] = points.view(len(rows), -1, 3) if rows else points
    return item


def _num_keypoints(row: Row) -> int:
    """Return the number as given, else that of the visible ones: COCO's API ignores objects with 0."""
    if "num_keypoints" in row:
        return int(row["num_keypoints"])
    return sum(visibility > 0 for visibility in row["keypoints"][2::3])


def read_frequencies(path: str, letters: Collection[str]) -> dict[int, str]:
    """Return the frequency of each category of LVIS' data set by its id.

    Raises:
        ValueError: the file has no `categories`, or one without a whole `id` or with another frequency.
    """
    categories = _rows_of(path, "categories", parsed(path))
    categories.check(CATEGORIES)
    for position, row in enumerate(categories.rows):
        frequency = row.get("frequency")
        if not isinstance(frequency, str) or frequency not in letters:
            names = ", ".join(map(repr, letters))
            raise categories.invalid(position, "frequency", f"one of {names}")
    return {int(row["id"]): row["frequency"] for row in categories.rows}
