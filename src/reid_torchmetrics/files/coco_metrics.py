"""Files in COCO's format as the input of a metric, and the images of a metric as such files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images
from reid_torchmetrics.functional.detection.evaluators import Evaluator
from reid_torchmetrics.functional.detection.inputs import checked_iou_type, unpack_names

from .coco_rows import CocoReading
from .coco_tables import read_coco
from .coco_writing import write_coco


def write_images(images: Images, name: str, kept_shapes: Mapping[str, Tensor] | None, *, has_boxes: bool) -> None:
    """Write the images of a metric to COCO's files, see `DetectionMAP.tm_to_coco`.

    Args:
        images: the images; those with the same `image_id` are one image.
        name: beginning of both paths.
        kept_shapes: the columns of `KEPT_STATES`; None for boxes alone.
        has_boxes: whether results have a `bbox`.
    """
    numbering = ImageNumbering.alone(images)
    rows = [] if kept_shapes is None else list(map(json.loads, unpack_names(*kept_shapes.values())))
    if rows and numbering.ids is not None:
        row_by_image: dict[int, Any] = {}
        for image, row in zip(numbering.ids.tolist(), rows, strict=True):
            row_by_image.setdefault(image, row)  # of images with the same id the first counts
        rows = list(row_by_image.values())
    write_coco(numbering.number(images, 0), name, rows, has_boxes=has_boxes)


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
