"""KITTI's label files: one for each image, a line for each object, in 15 columns, with a score in 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from reid_torchmetrics._signatures import with_hints
from reid_torchmetrics.files import image_dict

from .box_rows import BoxColumns, Columns, Dicts, Row, labels_by_name, read_folders
from .folders import Folder
from .image_sizes import ImageSizes

KITTI_CLASSES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
"""names of the 8 classes of KITTI's labels, without the regions `DontCare`"""

_BOX = ("left", "top", "right", "bottom")
_COLUMNS = ("type", "truncated", "occluded", "alpha", *_BOX, "height", "width", "length", "x", "y", "z", "rotation_y")
_RESULT_COLUMNS = (*_COLUMNS, "score")
_LAYOUTS = {15: _COLUMNS, 16: _RESULT_COLUMNS}
"""columns by the number of words in a line"""
REGION = "DontCare"
_RULE = f"lines of '{' '.join(_COLUMNS)}'"
_RESULT_RULE = f"lines of '{' '.join(_RESULT_COLUMNS)}'"


@with_hints
def read_kitti(labels: Folder, results: Folder, class_names: Sequence[str] = KITTI_CLASSES) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A line is `type truncated occluded alpha left top right bottom height width length x y z rotation_y`, in `results`
    with a score behind it; ground truths may all have the score 1, as datumaro writes them. The boxes in the image are
    read, not those in space. A label is the place of the type in `class_names`. An image may have a file in one folder
    only. Folders that were exchanged are recognized by the scores: they are read as they are meant, with a warning.
    Source of the format: the development kit of KITTI's object benchmark.

    A region `DontCare` becomes a crowd, `iscrowd` 1, of each class that has a detection or an object in its image: a
    detection without an object is ignored if the share of its area in a region reaches the threshold. KITTI's own
    numbers differ in other respects. They leave out objects by three levels of difficulty, which depend on the height
    of the box and on `occluded` and `truncated`; they need an overlap of 0.7 for cars and 0.5 for pedestrians and
    cyclists; they ignore vans for cars, and sitting persons for pedestrians; and they average the precision at 40
    recalls. Here all objects count, and the metric has the thresholds and the recalls.

    Args:
        labels: folder of text files, named like the images, usually `label_2`.
        results: folder of text files, named like the images.
        class_names: names of the types that the files have, without `DontCare`.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `iscrowd`, int64, and
        `image_id`, the name of the image, a str. Boxes are left, top, right and bottom in pixels, `box_format="xyxy"`.

    Raises:
        FileNotFoundError: A folder that does not exist.
        TypeError: `class_names` is no list of names.
        ValueError: `class_names` with `DontCare`; a folder without text files; two folders without a common name; or a
            malformed line, an edge or a score that is not finite, or a type that is not among `class_names`, named with
            file and line.
    """
    classes = labels_by_name(class_names)
    if REGION in classes:
        raise ValueError(f"`class_names` must be without {REGION!r}, which is no class; got {class_names!r}.")
    ground_truths, detections = read_folders(
        labels, results, _find_columns, "score", rule=_RULE, result_rule=_RESULT_RULE
    )
    columns = BoxColumns(name="type", box=_BOX, labels=classes, sizes=ImageSizes(None), score="score")
    preds = [columns.detections(image, rows) for image, rows in detections.items()]
    target = []
    for pred, (image, rows) in zip(preds, ground_truths.items(), strict=True):
        target.append(_ground_truths(columns, image, rows, pred["labels"].tolist()))
    return preds, target


def _find_columns(words: Sequence[str]) -> Columns | None:
    return _LAYOUTS.get(len(words))


def _ground_truths(
    columns: BoxColumns, image: str, rows: Sequence[Row], detected_labels: Sequence[int]
) -> dict[str, Any]:
    """Return the dict of the objects in an image, and of its regions as crowds of each class in the image."""
    object_rows = [row for row in rows if row.words["type"] != REGION]
    region_rows = [row for row in rows if row.words["type"] == REGION]
    objects = columns.ground_truths("labels", image, object_rows)
    regions = columns.ordered_boxes("labels", image, region_rows)
    classes = sorted(set(detected_labels) | set(objects["labels"].tolist()))
    crowd_labels: list[int] = []
    for label in classes:
        crowd_labels += [label] * len(regions)
    crowds = image_dict(boxes=regions * len(classes), labels=crowd_labels, iscrowd=[1] * len(crowd_labels))
    objects |= image_dict(iscrowd=[0] * len(objects["labels"]))
    joined = {key: torch.cat([objects[key], crowds[key]]) for key in crowds}
    return joined | {"image_id": image}
