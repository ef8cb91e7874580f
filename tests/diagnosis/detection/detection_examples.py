"""An example for each cause of detection, in which it is told and no other: small problems, made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.diagnosis.detection import MatchedImages
from reid_torchmetrics.functional.detection.evaluation import EvaluatedObjects, ShownColumns, ShownImages
from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import match_on_grid
from reid_torchmetrics.functional.made import results_made
from tests.diagnosis.detection.value_problems import MISTAKES, right

_NUM_IMAGES = 12
_NUM_BOXES = 4  # in each image


def _boxes(dtype: torch.dtype = torch.float64) -> Tensor:
    """Give x, y, width and height of boxes with different places and sizes, equally many in each image."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(_NUM_IMAGES * _NUM_BOXES, 4, generator=generator, dtype=dtype, device="cpu")
    near = shares[:, :2] * torch.tensor([400.0, 300.0], dtype=dtype, device="cpu")
    return torch.cat([near, 20 + shares[:, 2:] * 60], 1)


def _images() -> Tensor:
    return torch.arange(_NUM_IMAGES, device="cpu").repeat_interleave(_NUM_BOXES)


def _labels() -> Tensor:
    return torch.arange(_NUM_IMAGES * _NUM_BOXES, device="cpu") % 3


def _look(
    preds: Tensor,
    target: Tensor,
    *,
    labels: Tensor | None = None,
    grid: CocoGrid | None = None,
    **changes: Any,
) -> None:
    """Match detections with descending scores and ground truths, as x, y, width and height, and look at the result."""
    images = _images()
    true_labels = _labels()
    grid = CocoGrid() if grid is None else grid
    scores = torch.linspace(0.9, 0.1, len(preds), dtype=torch.float64, device="cpu")
    detections = Detections(preds, scores, true_labels if labels is None else labels, images)
    ground_truths = GroundTruths(target, true_labels, images)
    matches = match_on_grid(detections, ground_truths, grid)
    changes = {"value_names": ["map"], **changes}
    results_made(
        matches, replace(MatchedImages.of_objects(EvaluatedObjects(detections, ground_truths, grid)), **changes)
    )


def _perfect(**changes: Any) -> None:
    """Look at a perfect detector."""
    _look(_boxes(), _boxes(), **changes)


def missing_lists() -> None:
    """Give images without lists of classes, with detections that need them."""
    _perfect(num_without_lists=_NUM_IMAGES)


def class_groups() -> None:
    """Give a group of labels that no ground truth has."""
    _perfect(grid=CocoGrid(class_groups={"rare": (7, 8)}))


def labels() -> None:
    """Give detected labels that start at 1, and ground truths' labels that start at 0."""
    _perfect(labels=_labels() + 1)


def mixed_units() -> None:
    """Give detections as fractions of images of 500 x 500."""
    _look(_boxes() / 500, _boxes())


def sizes_of_shares() -> None:
    """Give fractions of the image size in `preds` and `target`, and request numbers for small objects."""
    _look(_boxes() / 500, _boxes() / 500, value_names=["map_small"])


def corners_as_sizes() -> None:
    """Give two corners as x, y, width and height."""
    boxes = _boxes()
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    _look(corners, corners)


def _shown(key: str, value: Any, iou_type: str, extremes: tuple[Tensor, ...] = ()) -> None:
    """Look at a perfect detector of other shapes."""
    box = torch.tensor([[30.0, 30.0, 60.0, 60.0]], dtype=torch.float64, device="cpu")
    columns = {key: value, "boxes": box, "labels": torch.ones(1)}
    counts = torch.ones(_NUM_IMAGES, dtype=torch.int64, device="cpu")
    side = ShownColumns(counts, {name: torch.cat([column] * _NUM_IMAGES) for name, column in columns.items()})
    images = ShownImages(side, side, [None] * _NUM_IMAGES, extremes * _NUM_IMAGES)
    _perfect(iou_type=iou_type, shown=lambda: images)


def keypoints_in_shares() -> None:
    """Give keypoints as fractions of the image size, outside of their boxes."""
    _shown("keypoints", torch.tensor([[[0.2, 0.4, 2.0]]], device="cpu"), "keypoints")


def angles_in_degrees() -> None:
    """Give boxes that are rotated by 90 degrees."""
    _shown("rotated_boxes", torch.tensor([[50.0, 50.0, 20.0, 10.0, 90.0]], device="cpu"), "rotated")


def soft_masks() -> None:
    """Give masks that hold probabilities."""
    _shown("masks", torch.tensor([4]), "segm", (torch.tensor([10, 200]),))


def unused_difficult() -> None:
    """Give difficult ground truths to COCO's evaluation."""
    _perfect(num_difficult=2)


def unused_lists() -> None:
    """Give a list of absent classes to COCO's evaluation."""
    _perfect(unused_list="neg_category_ids")


def unused_ignore() -> None:
    """Mark ground truths by `ignore`, which COCO's evaluation overwrites."""
    _perfect(num_ignored=2)


def forgotten_reset() -> None:
    """Pass the same images twice."""
    _perfect(num_forgotten=_NUM_IMAGES)


def gathered_images() -> None:
    """Pass the same images on two processes."""
    _perfect(are_gathered=True)


def padded_images() -> None:
    """Repeat the first images at the end of the last process."""
    _perfect(are_padded=True)


def other_detections() -> None:
    """Repeat image ids with other detections."""
    _perfect(num_repeated=_NUM_IMAGES, num_other_detections=_NUM_IMAGES)


def other_reading() -> None:
    """Give angles of rotated boxes in the other direction."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(_NUM_IMAGES):
        shares = torch.rand(_NUM_BOXES, 3, generator=generator, device="cpu")
        center = shares[:, :2] * torch.tensor([400.0, 300.0], device="cpu")
        size = torch.tensor([80.0, 20.0], device="cpu").expand(_NUM_BOXES, 2)
        angle = 0.5 + 0.6 * shares[:, 2:]
        labels = torch.ones(_NUM_BOXES, dtype=torch.int64, device="cpu")
        target.append({"rotated_boxes": torch.cat([center, size, angle], 1), "labels": labels})
        preds.append({"rotated_boxes": torch.cat([center, size, -angle], 1), "labels": labels})
        preds[-1]["scores"] = torch.linspace(0.9, 0.5, _NUM_BOXES, device="cpu")
    metric = DetectionMAP(iou_type="rotated")
    metric.update(preds, target)
    metric.compute()


def _of_values(mistake: str) -> Callable[[], None]:
    """Evaluate boxes with a mistake of `value_problems`."""
    _, shapes, make = MISTAKES[mistake]
    iou_type = shapes[0]

    def evaluate() -> None:
        metric = DetectionMAP(iou_type=iou_type)
        metric.update(*make(iou_type, *right(iou_type)))
        metric.compute()

    return evaluate


EXAMPLES: dict[str, Callable[[], None]] = {
    "missing_lists": missing_lists,
    "class_groups": class_groups,
    "keypoints_in_shares": keypoints_in_shares,
    "angles_in_degrees": angles_in_degrees,
    "soft_masks": soft_masks,
    "mixed_units": mixed_units,
    "sizes_of_shares": sizes_of_shares,
    "corners_as_sizes": corners_as_sizes,
    **{MISTAKES[mistake][0]: _of_values(mistake) for mistake in MISTAKES},
    "labels": labels,
    "other_reading": other_reading,
    "unused_difficult": unused_difficult,
    "unused_lists": unused_lists,
    "unused_ignore": unused_ignore,
    "forgotten_reset": forgotten_reset,
    "gathered_images": gathered_images,
    "padded_images": padded_images,
    "other_detections": other_detections,
}
"""functions that make results with the mistake, and let the diagnosis look at them"""
