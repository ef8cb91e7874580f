"""Images written as COCO's files: a list of results, and a data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA, Images, NumberedImages
from reid_torchmetrics.functional.detection.inputs import to_xywh


def write_coco(numbered: NumberedImages, name: str, kept_shapes: Sequence[Any] = (), *, has_boxes: bool = True) -> None:
    """Write images to `{name}_preds.json`, a list of results, and `{name}_target.json`, a data set.

    Args:
        numbered: the images.
        name: beginning of both paths.
        kept_shapes: for each image, more columns of its results and of its annotations, such as masks.
        has_boxes: whether results have a `bbox`.
    """
    images = numbered.images
    ids = numbered.numbers if images.image_ids is None else images.image_ids
    columns = {
        "image_id": ids.repeat_interleave(images.detection_counts).tolist(),
        "category_id": images.detection_labels.tolist(),
    }
    if has_boxes:
        columns["bbox"] = to_xywh(images.detection_boxes, images.detection_format).tolist()
    columns["score"] = images.detection_scores.tolist()
    results = _rows(**columns)
    data_set = _data_set(images, ids)
    if kept_shapes:
        _add_shapes(results, data_set, kept_shapes)
    for suffix, content in (("preds", results), ("target", data_set)):
        Path(f"{name}_{suffix}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _add_shapes(results: Sequence[dict[str, Any]], data_set: dict[str, Any], kept_shapes: Sequence[Any]) -> None:
    """Add the columns of shapes to results and annotations, and the sizes of masks to images."""
    result_shapes, true_shapes = zip(*kept_shapes, strict=True)
    for row, columns in zip(results, chain.from_iterable(result_shapes), strict=True):
        row.update(columns)
    for row, columns in zip(data_set["annotations"], chain.from_iterable(true_shapes), strict=True):
        row.update(columns)
    for image, shapes in zip(data_set["images"], kept_shapes, strict=True):
        for columns in chain.from_iterable(shapes):
            if "segmentation" in columns:
                image["height"], image["width"] = columns["segmentation"]["size"]
                break


def _data_set(images: Images, ids: torch.Tensor) -> dict[str, Any]:
    """Return the data set of the ground truths."""
    labels = sorted({*images.detection_labels.tolist(), *images.ground_truth_labels.tolist()})
    image_columns = {"id": ids.tolist()}
    names = images.names()
    if names is not None:
        image_columns["file_name"] = names
    areas = [area if area > SMALLEST_AREA else 0 for area in images.ground_truth_areas.tolist()]
    return {
        "info": {},  # some versions of COCO's API read it
        "images": _rows(**image_columns),
        "categories": _rows(id=labels, name=list(map(str, labels))),
        "annotations": _rows(
            id=range(1, len(images.ground_truth_labels) + 1),  # 0 means unmatched to COCO's API
            image_id=ids.repeat_interleave(images.ground_truth_counts).tolist(),
            category_id=images.ground_truth_labels.tolist(),
            bbox=images.ground_truth_boxes.tolist(),
            area=areas,
            iscrowd=images.ground_truth_crowds.int().tolist(),
        ),
    }


def _rows(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a dict for each row of a table, by the names of the columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
