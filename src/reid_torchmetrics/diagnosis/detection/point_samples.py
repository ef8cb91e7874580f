"""Samples of shapes as points: from packed boxes, or from the dicts of images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.batches import ShownImage
from reid_torchmetrics.functional.detection.inputs import (
    BoxShapes,
    Detections,
    GroundTruths,
    KeypointType,
    box_areas,
    to_xywh,
)

from .case import DetectionCase
from .points import PointSample, ShapeKind
from .sampled_objects import SampledObjects, sample_objects
from .shape_kinds import BoxKind, KeypointKind, RotatedKind


def sample_case(case: DetectionCase) -> PointSample | None:
    """Return the shapes in a sample of images as points, masks as boxes around them; None if they are too few.

    Boxes are from all images, and other shapes from the first images, because they are not stored.
    """
    if case.iou_type == "bbox":
        return sample_points(case.sampled_objects, BoxKind(case.box_format), case.image_sizes)
    if case.iou_type == "rotated":
        return sample_shown(case.shown, RotatedKind(), case.box_format)
    if case.iou_type == "keypoints":
        return sample_shown(case.shown, KeypointKind(KeypointType(tuple(case.images.sigmas))), case.box_format)
    if all("boxes" in item for items in case.shown for item in items):
        return sample_shown(case.shown, BoxKind(case.box_format), case.box_format)
    return None


def sample_points(objects: SampledObjects, kind: ShapeKind, image_sizes: Tensor | None = None) -> PointSample | None:
    """Return the objects as points; None for few ground truths, or without finite detections.

    Args:
        objects: the objects in a sample of images; `boxes` are boxes, or the numbers of another kind of shape.
        kind: the kind of shapes.
        image_sizes: width and height of each image, by its number, NaN if unknown; None if unknown for all images.
    """
    numbers = numbers_of(objects.detections)
    rows = numbers.flatten(1).isfinite().all(1).nonzero()[:, 0]
    if len(objects.ground_truths.labels) < LEAST_BOXES or not len(rows):
        return None
    return PointSample(
        kind=kind,
        numbers=numbers[rows],
        true_numbers=numbers_of(objects.ground_truths),
        images=objects.places[rows],
        true_images=objects.true_places,
        num_images=len(objects.images),
        sizes=None if image_sizes is None else image_sizes[objects.images.long()].double(),
        areas=objects.ground_truths.areas,
    )


def numbers_of(objects: Detections | GroundTruths) -> Tensor:
    """Return x, y, width and height of packed boxes, or the numbers of other shapes, float64."""
    if isinstance(objects.boxes, Tensor):
        return objects.boxes.double()
    assert isinstance(objects.boxes, BoxShapes)  # noqa: S101 - no table of overlaps has coordinates
    return objects.boxes.xywh.double()


def sample_shown(images: Sequence[ShownImage], kind: ShapeKind, box_format: str) -> PointSample | None:
    """Return `sample_points` of shapes in images; keypoints without a label are left out.

    Args:
        images: the dicts of each image.
        kind: the kind of shapes.
        box_format: format of `boxes` in the dicts.
    """
    if not images:
        return None
    preds = [found for found, _ in images]
    target = [true for _, true in images]
    crowds = [item.get("iscrowd", torch.zeros_like(item["labels"])) for item in target]
    numbers = torch.cat([kind.read(item, is_true=True) for item in target])
    ground_truths = GroundTruths.unchecked(
        boxes=numbers,
        is_crowd=(torch.cat(crowds) > 0) | ~kind.is_labeled(numbers).any(1),
        areas=torch.cat([_areas(item, box_format) for item in target]),
        **_labels_and_images(target),
    )
    detections = Detections.unchecked(
        boxes=torch.cat([kind.read(item, is_true=False) for item in preds]),
        scores=torch.cat([item["scores"] for item in preds]),
        **_labels_and_images(preds),
    )
    sizes = torch.tensor([_size_of(item) for item in target], dtype=torch.float64, device=numbers.device)
    return sample_points(sample_objects(detections, ground_truths), kind, sizes)


def _labels_and_images(items: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    labels = [item["labels"] for item in items]
    counts = torch.tensor([len(part) for part in labels], device=labels[0].device)
    return {"labels": torch.cat(labels), "images": segments.numbers(counts)}


def _areas(item: Mapping[str, Any], box_format: str) -> Tensor:
    """Return the areas of ground truths: as they were given, or those of the boxes."""
    given: Tensor = item["area"].double() if "area" in item else torch.zeros(len(item["labels"]), device="cpu")
    if "boxes" not in item:
        return given
    return torch.where(given > 0, given, box_areas(to_xywh(item["boxes"].double(), box_format)))


def _size_of(item: Mapping[str, Any]) -> tuple[float, float]:
    """Return width and height of an image; NaN if they are unknown."""
    size = torch.as_tensor(item.get("orig_size", ()), device="cpu").flatten().tolist()
    return (size[1], size[0]) if len(size) == 2 else (math.nan, math.nan)
