"""Files in COCO's format as the input of a metric, and the images of a metric as such files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA, ImageNumbering, Images
from reid_torchmetrics.functional.detection.evaluators import Evaluator
from reid_torchmetrics.functional.detection.inputs import checked_iou_type, to_xywh, unpack_names

from .coco_rows import CocoReading
from .coco_tables import read_coco


def write_images(images: Images, name: str, kept_shapes: Mapping[str, Tensor] | None, *, has_boxes: bool) -> None:
    """Write the images of a metric to `{name}_preds.json`, a list of results, and `{name}_target.json`, a data set.

    Args:
        images: the images; those with the same `image_id` are one image.
        name: beginning of both paths.
        kept_shapes: the columns of `KEPT_STATES`; None for boxes alone.
        has_boxes: whether results have a `bbox`.
    """
    numbering = ImageNumbering.alone(images)
    shapes = [] if kept_shapes is None else list(map(json.loads, unpack_names(*kept_shapes.values())))
    if shapes and numbering.ids is not None:
        shapes_by_image: dict[int, Any] = {}
        for image, image_shapes in zip(numbering.ids.tolist(), shapes, strict=True):
            shapes_by_image.setdefault(image, image_shapes)  # of images with the same id the first counts
        shapes = list(shapes_by_image.values())
    numbered = numbering.number(images, 0)
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
    if shapes:
        _add_shapes(results, data_set, shapes)
    for suffix, content in (("preds", results), ("target", data_set)):
        Path(f"{name}_{suffix}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_images(
    evaluator: Evaluator,
    coco_preds: str,
    coco_target: str,
    iou_type: str | Sequence[str],
    *,
    backend: str,
    invalid: _names.InvalidAction,
    unknown_categories: _names.UnknownCategories,
    detection_areas: _names.DetectionAreas,
    guesses: list[str] | None,
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Read COCO's files for the metric of an evaluator; the arguments are those of `DetectionMAP.coco_to_tm`."""
    names = checked_iou_type(iou_type)
    _checks.one_of("backend", backend, _names.Backend)
    _checks.one_of("invalid", invalid, _names.InvalidAction)
    _checks.one_of("unknown_categories", unknown_categories, _names.UnknownCategories)
    _checks.one_of("detection_areas", detection_areas, _names.DetectionAreas)
    reading = CocoReading(
        iou_type=tuple(names),
        is_federated=evaluator.is_federated,
        invalid=invalid,
        unknown_categories=unknown_categories,
        detection_areas=detection_areas if evaluator.has_limits else "shape",
        notes=[],
    )
    preds, target = read_coco(coco_preds, coco_target, reading)
    for note in reading.notes:
        if guesses is not None:
            guesses.append(note.text)
        elif note.is_doubtful:
            warn(note.text)
    return preds, target


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
