"""Results of detections as the fields of a file, and the checks of such fields before numbers are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.evaluation import (
    CORNERS_KEY,
    DETECTION_KEYS,
    GROUND_TRUTH_KEYS,
    DetectionResults,
    ImageBoxes,
    check_fractions,
)
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, evaluator_options
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches

_LEAST_COLUMNS = len(DETECTION_KEYS) + len(GROUND_TRUTH_KEYS) - 1  # the last one is a flag of some evaluators
_MAX_INT64 = 1 << 63
_WITHOUT_EFFECT = {"claim": "voc", "whole_pixels": False}
"""options that older files have with any evaluator, and their values where they say nothing"""


def fields_of_detections(results: DetectionResults, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the saved fields of results by name, given all fields that are not computed.

    Raises:
        ValueError: an evaluator that is not in `EVALUATORS`.
    """
    fields["grid"] = results.averages.grid
    fields["rule"] = results.averages.rule
    # The boxes of thousands of images are saved as a few tensors.
    fields["boxes"] = None if results.boxes is None else _columns_of(results.boxes)
    # Without "micro" the classes of the matches determine the labels.
    fields["labels"] = results.labels if results.is_micro else None
    evaluator = results.evaluator
    options = evaluator_options(evaluator)
    for name, row in EVALUATORS.items():
        if type(row) is type(evaluator) and replace(row, **options) == evaluator:
            fields["evaluator"] = (name, options)
            return fields
    names = _checks.listed(EVALUATORS, str)
    raise ValueError(f"`evaluator` must be one of {names}, with its options; got {evaluator.title!r}.")


def detections_of_fields(saved: dict[str, Any]) -> DetectionResults:
    """Compute results from the fields of a file: the inverse of `fields_of_detections`.

    Raises:
        ValueError: an unknown name of an evaluator, an option that it does not have, or other invalid fields.
    """
    name, options = saved.pop("evaluator")
    _checks.one_of("evaluator", name, EVALUATORS)
    known = evaluator_options(EVALUATORS[name])
    for option, value in options.items():
        has_no_effect = option in _WITHOUT_EFFECT and value == _WITHOUT_EFFECT[option]
        if option not in known and not has_no_effect:
            names = _checks.listed(known, str)
            raise ValueError(f"`option` of evaluator {name!r} must be one of {names}; got {option}={value!r}.")
    evaluator = replace(EVALUATORS[name], **{option: options[option] for option in options if option in known})
    rule, confidence = evaluator.checked(saved.pop("rule"), evaluator.confidence)
    _check_stored(saved)
    grid = saved.pop("grid")
    matches = saved["matches"]
    if saved["labels"] is None:
        saved["labels"] = matches.classes[matches.class_index.long()]
    if saved["boxes"] is not None:
        saved["boxes"] = ImageBoxes.by_image(saved["boxes"], saved["image_names"])
    averages = evaluator.average(matches, grid, rule=rule, confidence=confidence)
    return DetectionResults(averages=averages, evaluator=evaluator, **saved)


def _columns_of(boxes: Mapping[int, ImageBoxes]) -> list[Tensor]:
    """Return the tensors that `ImageBoxes.by_image` takes: its inverse."""
    detections = [image.detections for image in boxes.values()]
    ground_truths = [image.ground_truths for image in boxes.values()]
    return [
        torch.tensor(list(boxes), dtype=torch.int64, device="cpu"),
        _count_objects(detections),
        _count_objects(ground_truths),
        *_concatenate(detections, DETECTION_KEYS),
        *_concatenate(ground_truths, GROUND_TRUTH_KEYS),
    ]


def _count_objects(images: Sequence[Mapping[str, Any]]) -> Tensor:
    """Return the number of objects in each image."""
    return torch.tensor([len(image["labels"]) for image in images], dtype=torch.int64, device="cpu")


def _concatenate(images: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Tensor]:
    """Return the column of all images for each key that the images have."""
    if not images:
        return []
    present = [key for key in (CORNERS_KEY, *keys) if key in images[0]]
    return [torch.cat([image[key] for image in images]) for key in present]


def _check_stored(saved: Mapping[str, Any]) -> None:
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
