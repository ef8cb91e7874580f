"""Areas of results in COCO's files: COCO's API takes them from a box, even where masks or keypoints are evaluated.

Source: `COCO.loadRes` of pycocotools; `LVISResults` of lvis-api has the same rule for boxes and masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reid_torchmetrics.functional.detection.inputs import SHAPES_IN_WORDS

from .coco_columns import RESULTS, Note, Row, RowList, is_missing
from .coco_masks import masks_of_list

_KEYS = {"bbox": "bbox", "segmentation": "segm", "keypoints": "keypoints"}
"""keys of results in the order in which areas are taken from them, with the value of `iou_type` for each"""
_COLUMNS = {column.key: replace(column, is_required=True) for column in RESULTS}


def shape_of_areas(rows: Sequence[Row]) -> str | None:
    """Return the `iou_type` of the shapes that give the areas of all results: the first that the first result has."""
    for key, iou_type in _KEYS.items():
        if rows and not is_missing(rows[0].get(key)):
            return iou_type
    return None


def note_on_areas(source: str, shape: str) -> Note:
    """Return the note on results with the areas of other shapes than the evaluated ones."""
    text = f"the sizes of results are those of their {SHAPES_IN_WORDS[shape]}, as in pycocotools"
    return Note(f"{source}: {text}", is_doubtful=False)


def fill_boxes_and_areas(results: RowList, images: Mapping[Any, Row]) -> None:
    """Give results areas, and boxes around masks or keypoints if the first result has no box.

    Args:
        results: results whose `image_id` was checked.
        images: the images by id.

    Raises:
        ValueError: a result without the shape of the first one, or with an invalid one; the message names the row.
    """
    iou_type = shape_of_areas(results.rows)
    if iou_type == "bbox":
        results.check([_COLUMNS["bbox"]])
        for position, row in enumerate(results.rows):
            box = row["bbox"]
            if box is None or len(box) == 0:
                raise results.invalid(position, "bbox", "four numbers")
            row["area"] = box[2] * box[3]
            row["iscrowd"] = 0
    elif iou_type == "segm":
        masks = masks_of_list(results, images)
        for row, area, box in zip(results.rows, masks.counts.tolist(), masks.boxes().tolist(), strict=True):
            row["area"] = area
            row["iscrowd"] = 0
            if is_missing(row.get("bbox")):
                row["bbox"] = box
    elif iou_type == "keypoints":
        results.check([_COLUMNS["keypoints"]])
        for row in results.rows:
            x = row["keypoints"][0::3]
            y = row["keypoints"][1::3]
            width = max(x) - min(x)
            height = max(y) - min(y)
            row["area"] = width * height
            row["bbox"] = [min(x), min(y), width, height]
