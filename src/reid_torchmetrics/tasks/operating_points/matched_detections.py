"""Every detection of the results with the ground truth that it matched."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.evaluation import DetectionResults

from .image_errors import ImageRows


@dataclass(frozen=True)
class MatchedDetections(ImageRows):
    """Every detection with its ground truth at each threshold, sorted by image and place in the image.

    Detections beyond the largest limit per image and class were not matched and are left out.
    """

    image: Tensor
    """its `image_id`, or the number of the image if there are no ids or ids are names, int64 [detections]"""
    index: Tensor
    """place among the detections in the image, int64 [detections]"""
    label: Tensor
    """int64 [detections]"""
    score: Tensor
    """[detections]"""
    iou_thresholds: tuple[float, ...]
    ground_truth: Tensor
    """place of its match among the ground truths in the image; -1 for none, int64 [thresholds, detections]"""
    is_true_positive: Tensor
    """bool [thresholds, detections]"""
    is_ignored: Tensor
    """whether it counts neither as right nor as wrong, because it matches a crowd or a ground truth outside the first
    area range, or matches none and its box is outside that range; bool [thresholds, detections]"""
    boxes: Tensor | None = None
    """in the metric's `box_format`, [detections, 4], or corners of rotated boxes, [detections, 8]; None unless the
    results hold boxes"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None if they have no names"""


def list_matches(results: DetectionResults) -> MatchedDetections:
    """See `DetectionResults.detections`."""
    matches = results.matches
    # The columns hold matched detections only; all other detections have no ground truth.
    true_positive, ignored = matches.outcomes()
    ground_truths = matches.columns.new_full(true_positive.shape, -1)
    if matches.ground_truths is not None:
        ground_truths[:, matches.columns] = matches.ground_truths[0].to(ground_truths.dtype)

    # Sort by image, then by row; the last key comes first.
    by_row = matches.rows.argsort()
    order = by_row[matches.images[by_row].argsort(stable=True)]
    number = matches.images[order].long()
    index = matches.rows[order].long()
    return MatchedDetections(
        image=results.images.to(order.device)[number],  # users know images by `image_id`, matches by number
        index=index,
        label=results.labels[order],
        score=matches.scores[order],
        iou_thresholds=tuple(results.averages.grid.iou_thresholds),
        ground_truth=ground_truths[:, order],
        is_true_positive=true_positive[:, order],
        is_ignored=ignored[:, order],
        boxes=_boxes_at(results, number, index),
        image_names=results.image_names,
    )


def _boxes_at(results: DetectionResults, number: Tensor, index: Tensor) -> Tensor | None:
    """Return the box at a place (`index`) in an image (`number`), for each; None if the results hold no boxes."""
    if results.boxes is None:
        return None
    device = number.device
    boxes = []
    for image in results.images.tolist():
        corners_or_sizes, *_ = results.boxes[image].detections.values()
        boxes.append(corners_or_sizes.to(device))
    if not boxes:
        return torch.empty((0, 4), device=device)
    # The boxes of an image begin after those of all images before it.
    counts = torch.tensor([len(part) for part in boxes], dtype=torch.int64, device=device)
    starts = segments.starts(counts)
    return torch.cat(boxes)[starts[number] + index]
