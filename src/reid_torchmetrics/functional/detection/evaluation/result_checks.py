"""Checks of the fields in a file of results, before numbers are computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GenericAlias, MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.saved_results import Part

# Columns of `ImageBoxes.columns`; the last one of ground truths is a flag that only some evaluators have.
_IMAGE_COLUMNS = (Int[Tensor, " boxed"],) * 3
_DETECTION_COLUMNS = (Real[Tensor, "detected numbers"], Real[Tensor, " detected"], Int[Tensor, " detected"])
_GROUND_TRUTH_COLUMNS = (
    Real[Tensor, "true numbers"],
    Int[Tensor, " true"],
    Bool[Tensor, " true"],
    Bool[Tensor, " true"],
)
_BOXES = GenericAlias(tuple, (*_IMAGE_COLUMNS, *_DETECTION_COLUMNS, *_GROUND_TRUTH_COLUMNS))
_LEAST_COLUMNS = len(_DETECTION_COLUMNS) + len(_GROUND_TRUTH_COLUMNS) - 1
SAVED_AS: Mapping[str, Any] = MappingProxyType(
    {
        "evaluator": tuple[str, Mapping[str, Any]],
        "boxes": _BOXES | None,
        "grid": CocoGrid,
        "rule": str,
        "labels": Int[Tensor, " detections"] | None,
        "objects": Part | None,
    }
)
"""annotations of fields that are saved in another form, or instead of averages"""

_MAX_INT64 = 1 << 63


def check_stored(saved: Mapping[str, Any]) -> None:
    """Raise unless averages can be computed, and the images, classes and objects of all matches exist."""
    matches = saved["matches"]
    images = saved["images"]
    positives = saved["positives"]
    objects = saved["objects"]
    _check_matches(matches, saved["grid"])
    _check_positives(positives, matches)
    if saved["labels"] is not None and matches.classes.tolist() != [0]:
        raise ValueError("`matches.classes` must be 0 where one class stands for all; got others.")
    if saved["image_names"] is not None:
        _checks.length("images", len(images), len(saved["image_names"]))
    image_numbers = {"positives": positives[:, 0], "matches.images": matches.images}
    if objects is not None:
        image_numbers.update({f"objects.{name}": numbers for name, numbers in objects.check().items()})
    for name, values in image_numbers.items():
        _checks.in_range(name, values, 0, len(images))
    if saved["boxes"] is not None:
        _check_boxes(saved["boxes"], images, matches)


def _check_matches(matches: Matches, grid: CocoGrid) -> None:
    """Raise unless detections are sorted by class and descending score, as counting requires, and all indices exist."""
    num_areas = len(grid.area_ranges)
    num_thresholds = len(grid.iou_thresholds)
    shape = (*matches.matched.shape[:2], len(matches.num_positives))
    if shape != (num_areas, num_thresholds, num_areas):
        raise ValueError(f"`matches` must have {num_areas} area ranges and {num_thresholds} thresholds; got others.")

    is_same_class = matches.class_index[1:] == matches.class_index[:-1]
    for name, is_wrong in {
        "classes": matches.classes[1:] <= matches.classes[:-1],
        "columns": matches.columns[1:] <= matches.columns[:-1],
        "class_index": matches.class_index[1:] < matches.class_index[:-1],
        "scores": (matches.scores[1:] > matches.scores[:-1]) & is_same_class,
    }.items():
        if bool(is_wrong.any()):
            place = int(is_wrong.nonzero()[0])
            raise ValueError(f"`matches.{name}` must be in its order; got place {place} and the next.")
    _checks.no_nan("matches.scores", matches.scores)

    ends = {
        "class_index": len(matches.classes),
        "rows": _MAX_INT64,
        "columns": len(matches.scores),
        "limits": len(grid.max_detection_thresholds),
        "area_bits": 1 << num_areas,
    }
    for name, end in ends.items():
        _checks.in_range(f"matches.{name}", getattr(matches, name), 0, end)
    if bool((matches.true_positive & ~matches.matched).any()):
        raise ValueError("`matches.true_positive` must be matched; got detections that are not.")
    if matches.ground_truths is not None:
        _checks.in_range("matches.ground_truths", matches.ground_truths.flatten(), -1, _MAX_INT64)
    if matches.overlaps is not None:
        check_fractions("matches.overlaps", matches.overlaps)


def _check_positives(positives: Tensor, matches: Matches) -> None:
    """Raise unless the ground truths belong to the classes, and their numbers are those of the matches."""
    _, label, bits = positives.unbind(1)
    if not bool(torch.isin(label, matches.classes).all()):
        raise ValueError("`positives` must be of labels in `matches.classes`; got others.")
    _checks.in_range("positives", bits, 1, 1 << len(matches.num_positives))
    _checks.in_range("matches.num_positives", matches.num_positives.flatten(), 0, len(bits) + 1)
    for area, counts in enumerate(matches.num_positives):
        if int(counts.sum()) != int((bits >> area & 1).sum()):
            raise ValueError(f"`matches.num_positives` must be those of `positives`; got {counts.tolist()}.")


def _check_boxes(boxes: Sequence[Tensor], images: Tensor, matches: Matches) -> None:
    """Raise unless the images are those of the results, and each object of a match has a box."""
    ids, num_detections, num_ground_truths, *columns = boxes
    order = ids.argsort()
    if not torch.equal(ids[order], images.sort().values):
        raise ValueError(f"`boxes` must be those of the images; got {ids[:5].tolist()}.")
    if len(ids) and len(columns) < _LEAST_COLUMNS:
        raise ValueError("`boxes` must have the columns of both sides; got some of them.")
    for place, column in enumerate(columns):
        if column.ndim == 1:  # of these only scores are floats; invalid boxes may hold NaN
            _checks.no_nan(f"boxes.{place + 3}", column)

    # Compare the rows of each detection with the number of objects in its image.
    place_of_image = order[torch.searchsorted(ids[order], images)]
    image = place_of_image[matches.images.long()]
    _check_rows("rows", matches.rows, num_detections[image])
    if matches.ground_truths is not None:
        _check_rows("ground_truths", matches.ground_truths, num_ground_truths[image[matches.columns]])


def _check_rows(name: str, rows: Tensor, num_rows: Tensor) -> None:
    """Raise unless all rows of a field of the matches exist in their images."""
    if bool((rows >= num_rows).any()):
        raise ValueError(f"`matches.{name}` must be those of boxes of the image; got up to {rows.max()}.")


def check_fractions(name: str, values: Tensor) -> None:
    """Raise unless all values are in [0, 1], except for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{name}` must lie in [0, 1]; got {values.min()} to {values.max()}.")
