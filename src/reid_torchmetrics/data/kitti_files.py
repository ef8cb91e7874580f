"""KITTI's label files: one for each image, a line for each object, in 15 columns, with a score in 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray

from .box_lines import EDGES, BoxReader, Dicts, labels_by_name, read_folders
from .folders import Folder
from .line_tables import LineTable

KITTI_CLASSES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
"""names of the 8 classes of KITTI's labels, without the regions `DontCare`"""

_COLUMNS = ("type", "truncated", "occluded", "alpha", *EDGES, "height", "width", "length", "x", "y", "z", "rotation_y")
_RESULT_COLUMNS = (*_COLUMNS, "score")
_BOX, _SCORE = 3, 14
"""places of the first edge and of the score behind the type"""
REGION = "DontCare"
_SCORES_OF_ONE = ("1", "1.0")  # in ground truths by datumaro
_NO_LABEL = -1  # of regions, while lines are read
_RULE = f"lines of '{' '.join(_COLUMNS)}'"
_RESULT_RULE = f"lines of '{' '.join(_RESULT_COLUMNS)}'"


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
    sides = read_folders(labels, results, _find_roles, rule=_RULE, result_rule=_RESULT_RULE)
    preds = BoxReader(classes).detections(sides, _BOX, _SCORE, "score")
    target = BoxReader(classes | {REGION: _NO_LABEL}).ground_truths(sides, _BOX)
    images = []
    for pred, ground_truths in zip(preds, target, strict=True):
        images.append(_with_crowds(ground_truths, pred["labels"].tolist()))
    return preds, images


def _find_roles(lines: LineTable) -> tuple[Bool[NDArray[np.bool_], " lines"], Bool[NDArray[np.bool_], " lines"]]:
    """Return which lines may be ground truths, without a score or with 1 in all lines, and which may be detections."""
    have_scores = lines.lengths == _SCORE + 1
    are_ones = all(word in _SCORES_OF_ONE for word in lines.last_words)
    return (lines.lengths == _SCORE) | (have_scores & are_ones), have_scores


def _with_crowds(image: dict[str, Any], detected_labels: Sequence[int]) -> dict[str, Any]:
    """Return the objects in an image, and its regions as crowds of each class in the image."""
    boxes, labels = image["boxes"], image["labels"]
    is_region = labels == _NO_LABEL
    regions = boxes[is_region]
    labels = labels[~is_region]
    classes = torch.tensor(sorted({*detected_labels, *labels.tolist()}), dtype=torch.int64, device="cpu")
    crowd_labels = classes.repeat_interleave(len(regions))
    return {
        "boxes": torch.cat([boxes[~is_region], regions.repeat(len(classes), 1)]),
        "labels": torch.cat([labels, crowd_labels]),
        "iscrowd": torch.cat([torch.zeros_like(labels), torch.ones_like(crowd_labels)]),
        "image_id": image["image_id"],
    }
