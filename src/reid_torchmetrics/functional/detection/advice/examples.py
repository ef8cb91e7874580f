"""Evidence that makes one row of the registry fire, and no other: small problems, made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import NotedBatch, ShapeBatch
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths, shape_types, to_xywh
from reid_torchmetrics.functional.detection.matching import match_on_grid

from .evidence import BoxSample, DetectionEvidence
from .notes import BatchNotes
from .repetitions import Repetitions

_NUM_IMAGES, _NUM_BOXES = 12, 4
_SIZES = torch.tensor([[640.0, 480.0], [480.0, 640.0], [800.0, 600.0]], device="cpu").repeat(_NUM_IMAGES // 3, 1)


def _boxes(dtype: torch.dtype = torch.float64) -> Tensor:
    """Return x, y, width and height of boxes that differ in place and size, as many in each image."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(_NUM_IMAGES * _NUM_BOXES, 4, generator=generator, dtype=dtype, device="cpu")
    near = shares[:, :2] * torch.tensor([400.0, 300.0], dtype=dtype, device="cpu")
    return torch.cat([near, 20 + shares[:, 2:] * 60], 1)


def _images() -> Tensor:
    return torch.arange(_NUM_IMAGES, device="cpu").repeat_interleave(_NUM_BOXES)


def _labels() -> Tensor:
    return torch.arange(_NUM_IMAGES * _NUM_BOXES, device="cpu") % 3


def _evidence(
    preds: Tensor, target: Tensor, *, labels: Tensor | None = None, sample: BoxSample | None = None, **changes: Any
) -> DetectionEvidence:
    """Return evidence of detections of descending score and ground truths, x, y, width and height."""
    images, true_labels, grid = _images(), _labels(), changes.pop("grid", CocoGrid())
    scores = torch.linspace(0.9, 0.1, len(preds), dtype=torch.float64, device="cpu")
    detections = Detections(preds, scores, true_labels if labels is None else labels, images)
    ground_truths = GroundTruths(target, true_labels, images)
    matches = match_on_grid(detections, ground_truths, grid)
    return DetectionEvidence(matches, grid, lambda: (detections, ground_truths), read_sample=lambda: sample, **changes)


def _found(**changes: Any) -> DetectionEvidence:
    """Return evidence of a perfect detector."""
    return _evidence(_boxes(), _boxes(), **changes)


def _sampled(preds: Tensor, target: Tensor, *, area: float = 0.0, **changes: Any) -> DetectionEvidence:
    return _evidence(preds, target, sample=BoxSample(preds, target, area), **changes)


def missing_lists() -> DetectionEvidence:
    """Give images without lists of classes, with detections that need them."""
    return _found(num_without_lists=_NUM_IMAGES)


def class_groups() -> DetectionEvidence:
    """Give a group of labels that no ground truth has."""
    return _found(grid=CocoGrid(class_groups={"rare": (7, 8)}))


def labels() -> DetectionEvidence:
    """Give detected labels that begin at 1, and others that begin at 0."""
    return _found(labels=_labels() + 1)


def mixed_units() -> DetectionEvidence:
    """Give detections as shares of images of 500 x 500."""
    return _sampled(_boxes() / 500, _boxes())


def sizes_of_shares() -> DetectionEvidence:
    """Give shares on both sides, and ask for small objects."""
    return _sampled(_boxes() / 500, _boxes() / 500, has_sizes=True)


def areas_in_shares() -> DetectionEvidence:
    """Give areas as shares of the image."""
    return _sampled(_boxes(), _boxes(), area=0.01)


def corners_as_sizes() -> DetectionEvidence:
    """Give two corners as x, y, width and height."""
    boxes = _boxes()
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return _sampled(corners, corners)


def corners_beyond_images() -> DetectionEvidence:
    """Give detections as two corners in place of x, y, width and height, with the sizes of the images."""
    boxes = _boxes()
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return _evidence(corners, boxes, read_image_sizes=lambda: _SIZES)


def rounded_coordinates() -> DetectionEvidence:
    """Give detections in bfloat16."""
    boxes = 2 * _boxes(torch.float32)
    return _sampled(boxes.bfloat16(), boxes)


def _noted(key: str, value: Tensor, iou_type: str) -> DetectionEvidence:
    """Return evidence of a perfect detector, with batches of other shapes."""
    box = torch.tensor([[30.0, 30.0, 60.0, 60.0]], dtype=torch.float64, device="cpu")
    one = torch.ones(1, dtype=torch.int64, device="cpu")
    item = {key: value, "labels": one, "boxes": box}
    types = shape_types((iou_type,), (0.1,) if iou_type == "keypoints" else None)
    items = [item] * _NUM_IMAGES
    shapes = ShapeBatch(items, items, {}, types, "xywh")
    states = {"ground_truth_boxes": box.expand(_NUM_IMAGES, 4)}
    notes = BatchNotes()
    notes.note(NotedBatch(items, items, keys=set(item), extras=(), shapes=shapes, states=states))
    sample = BoxSample(_boxes(), _boxes(), 0.0)
    return _found(notes=notes, iou_type=iou_type, sample=sample)


def keypoints_in_shares() -> DetectionEvidence:
    """Give keypoints as shares of the image, outside of their boxes."""
    return _noted("keypoints", torch.tensor([[[0.2, 0.4, 2.0]]], device="cpu"), "keypoints")


def angles_in_degrees() -> DetectionEvidence:
    """Give rotated boxes by 90 degrees."""
    return _noted("rotated_boxes", torch.tensor([[50.0, 50.0, 20.0, 10.0, 90.0]], device="cpu"), "rotated")


def soft_masks() -> DetectionEvidence:
    """Give masks of probabilities."""
    return _noted("masks", torch.tensor([[[10, 200], [30, 40]]], dtype=torch.uint8, device="cpu"), "segm")


def _with_key(key: str, value: Any) -> DetectionEvidence:
    """Return evidence of a perfect detector, with ground truths that have a further key."""
    notes = BatchNotes()
    notes.note(NotedBatch([{}], [{key: value}], keys={key}, extras=(), shapes=None, states={}))
    return _found(notes=notes)


def unused_difficult() -> DetectionEvidence:
    """Give difficult ground truths to COCO's evaluation."""
    return _with_key("difficult", torch.ones(2, dtype=torch.int64, device="cpu"))


def unused_lists() -> DetectionEvidence:
    """Give a list of absent classes to COCO's evaluation."""
    return _with_key("neg_category_ids", [3, 4])


def forgotten_reset() -> DetectionEvidence:
    """Give the same images twice."""
    return _found(count_repeated_labels=lambda: _NUM_IMAGES)


def gathered_images() -> DetectionEvidence:
    """Give the same images to two processes."""
    return _found(repetitions=Repetitions(are_gathered=True, are_padded=False))


def padded_images() -> DetectionEvidence:
    """Give the first images again at the end of the last process."""
    return _found(repetitions=Repetitions(are_gathered=False, are_padded=True))


def other_detections() -> DetectionEvidence:
    """Give images with the ids of others again."""
    return _found(count_other_detections=lambda: (_NUM_IMAGES, _NUM_IMAGES))


def _center_and_size() -> DetectionEvidence:
    boxes = _boxes()
    numbers = torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1)
    return _evidence(to_xywh(numbers, "xyxy"), boxes, box_format="xyxy")


def _y_before_x() -> DetectionEvidence:
    return _evidence(_boxes()[:, [1, 0, 3, 2]], _boxes())


def _half_size_and_padded() -> DetectionEvidence:
    boxes = _boxes() / 2
    boxes[:, 1] += 80
    return _evidence(boxes, _boxes())


def _stretched() -> DetectionEvidence:
    boxes = _boxes()
    sizes = _SIZES[_images()].double()
    return _evidence(boxes * 320 / sizes.repeat(1, 2), boxes, read_image_sizes=lambda: _SIZES)


READINGS: dict[str, Callable[[], DetectionEvidence]] = {
    "box_format": _center_and_size,
    "swapped_axes": _y_before_x,
    "scale_and_offset": _half_size_and_padded,
    "image_size": _stretched,
}
"""boxes of one side in another reading"""
