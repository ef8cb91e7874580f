"""Evidence on which one row of the registry fires, and no other row: small problems, made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import GivenBatch, ShapeBatch
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths, shape_types, to_xywh
from reid_torchmetrics.functional.detection.matching import match_on_grid

from .evidence import BoxSample, DetectionEvidence
from .notes import BatchNotes
from .repetitions import Repetitions

_NUM_IMAGES = 12
_NUM_BOXES = 4  # in each image
_SIZES = torch.tensor([[640.0, 480.0], [480.0, 640.0], [800.0, 600.0]], device="cpu").repeat(_NUM_IMAGES // 3, 1)


def _boxes(dtype: torch.dtype = torch.float64) -> Tensor:
    """Return x, y, width and height of boxes with different places and sizes, equally many in each image."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(_NUM_IMAGES * _NUM_BOXES, 4, generator=generator, dtype=dtype, device="cpu")
    near = shares[:, :2] * torch.tensor([400.0, 300.0], dtype=dtype, device="cpu")
    return torch.cat([near, 20 + shares[:, 2:] * 60], 1)


def _images() -> Tensor:
    return torch.arange(_NUM_IMAGES, device="cpu").repeat_interleave(_NUM_BOXES)


def _labels() -> Tensor:
    return torch.arange(_NUM_IMAGES * _NUM_BOXES, device="cpu") % 3


def _evidence(
    preds: Tensor,
    target: Tensor,
    *,
    labels: Tensor | None = None,
    grid: CocoGrid | None = None,
    sample: BoxSample | None = None,
    **changes: Any,
) -> DetectionEvidence:
    """Return evidence from detections with descending scores and ground truths, as x, y, width and height."""
    images = _images()
    true_labels = _labels()
    grid = CocoGrid() if grid is None else grid
    scores = torch.linspace(0.9, 0.1, len(preds), dtype=torch.float64, device="cpu")
    detections = Detections(preds, scores, true_labels if labels is None else labels, images)
    ground_truths = GroundTruths(target, true_labels, images)
    matches = match_on_grid(detections, ground_truths, grid)
    return DetectionEvidence(matches, grid, lambda: (detections, ground_truths), read_sample=lambda: sample, **changes)


def _perfect(**changes: Any) -> DetectionEvidence:
    """Return evidence from a perfect detector."""
    return _evidence(_boxes(), _boxes(), **changes)


def _sampled(preds: Tensor, target: Tensor, *, area: float = 0.0, **changes: Any) -> DetectionEvidence:
    """Return evidence in which all boxes are sampled; `area` is the largest area."""
    return _evidence(preds, target, sample=BoxSample(preds, target, area), **changes)


def missing_lists() -> DetectionEvidence:
    """Return images without lists of classes, with detections that need them."""
    return _perfect(num_without_lists=_NUM_IMAGES)


def class_groups() -> DetectionEvidence:
    """Return a group of labels that no ground truth has."""
    return _perfect(grid=CocoGrid(class_groups={"rare": (7, 8)}))


def labels() -> DetectionEvidence:
    """Return detected labels that start at 1, and ground truths' labels that start at 0."""
    return _perfect(labels=_labels() + 1)


def mixed_units() -> DetectionEvidence:
    """Return detections as fractions of images of 500 x 500."""
    return _sampled(_boxes() / 500, _boxes())


def sizes_of_shares() -> DetectionEvidence:
    """Return fractions of the image size in `preds` and `target`, and request numbers for small objects."""
    return _sampled(_boxes() / 500, _boxes() / 500, has_sizes=True)


def areas_in_shares() -> DetectionEvidence:
    """Return areas as fractions of the image."""
    return _sampled(_boxes(), _boxes(), area=0.01)


def corners_as_sizes() -> DetectionEvidence:
    """Return two corners as x, y, width and height."""
    boxes = _boxes()
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return _sampled(corners, corners)


def corners_beyond_images() -> DetectionEvidence:
    """Return detections as two corners instead of x, y, width and height, with the sizes of the images."""
    boxes = _boxes()
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return _evidence(corners, boxes, read_image_sizes=lambda: _SIZES)


def rounded_coordinates() -> DetectionEvidence:
    """Return detections in bfloat16."""
    boxes = 2 * _boxes(torch.float32)
    return _sampled(boxes.bfloat16(), boxes)


def _noted(key: str, value: Tensor, iou_type: str) -> DetectionEvidence:
    """Return evidence from a perfect detector, with batches of other shapes."""
    box = torch.tensor([[30.0, 30.0, 60.0, 60.0]], dtype=torch.float64, device="cpu")
    one = torch.ones(1, dtype=torch.int64, device="cpu")
    item = {key: value, "labels": one, "boxes": box}
    types = shape_types((iou_type,), (0.1,) if iou_type == "keypoints" else None)
    items = [item] * _NUM_IMAGES
    shapes = ShapeBatch(items, items, {}, types, "xywh")
    states = {"ground_truth_boxes": box.expand(_NUM_IMAGES, 4)}
    notes = BatchNotes()
    notes.note(GivenBatch(items, items, keys=set(item), extras=(), shapes=shapes, states=states))
    sample = BoxSample(_boxes(), _boxes(), 0.0)
    return _perfect(notes=notes, iou_type=iou_type, sample=sample)


def keypoints_in_shares() -> DetectionEvidence:
    """Return keypoints as fractions of the image size, outside of their boxes."""
    return _noted("keypoints", torch.tensor([[[0.2, 0.4, 2.0]]], device="cpu"), "keypoints")


def angles_in_degrees() -> DetectionEvidence:
    """Return boxes that are rotated by 90 degrees."""
    return _noted("rotated_boxes", torch.tensor([[50.0, 50.0, 20.0, 10.0, 90.0]], device="cpu"), "rotated")


def soft_masks() -> DetectionEvidence:
    """Return masks that hold probabilities."""
    return _noted("masks", torch.tensor([[[10, 200], [30, 40]]], dtype=torch.uint8, device="cpu"), "segm")


def _with_key(key: str, value: Any) -> DetectionEvidence:
    """Return evidence from a perfect detector, with a further key in `target`."""
    notes = BatchNotes()
    notes.note(GivenBatch([{}], [{key: value}], keys={key}, extras=(), shapes=None, states={}))
    return _perfect(notes=notes)


def unused_difficult() -> DetectionEvidence:
    """Pass difficult ground truths to COCO's evaluation."""
    return _with_key("difficult", torch.ones(2, dtype=torch.int64, device="cpu"))


def unused_lists() -> DetectionEvidence:
    """Pass a list of absent classes to COCO's evaluation."""
    return _with_key("neg_category_ids", [3, 4])


def forgotten_reset() -> DetectionEvidence:
    """Pass the same images twice."""
    return _perfect(count_repeated_labels=lambda: _NUM_IMAGES)


def gathered_images() -> DetectionEvidence:
    """Pass the same images on two processes."""
    return _perfect(repetitions=Repetitions(are_gathered=True, are_padded=False))


def padded_images() -> DetectionEvidence:
    """Repeat the first images at the end of the last process."""
    return _perfect(repetitions=Repetitions(are_gathered=False, are_padded=True))


def other_detections() -> DetectionEvidence:
    """Repeat image ids with other detections."""
    return _perfect(count_other_detections=lambda: (_NUM_IMAGES, _NUM_IMAGES))


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
"""evidence in which only `preds` is read wrongly, by row"""
