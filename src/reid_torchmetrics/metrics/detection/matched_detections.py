"""The list of detections with what each of them took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import name_images
from reid_torchmetrics.functional.detection.matching import Matches

from .image_boxes import ImageBoxes


@dataclass(frozen=True)
class MatchedDetections:
    """Which ground truth each detection took: a row for each detection, by image, then by its place in the image.

    Detections beyond the largest limit of an image and class were not matched and are not here.
    """

    image: Tensor
    """its `image_id`, or the number of the image where there are none, or names, int64 [detections]"""
    index: Tensor
    """place among the detections of the image, int64 [detections]"""
    label: Tensor
    """int64 [detections]"""
    score: Tensor
    """[detections]"""
    iou_thresholds: tuple[float, ...]
    ground_truth: Tensor
    """the one that it took, as its place among the ground truths of the image; -1 for none, int64 like the others"""
    is_true_positive: Tensor
    """bool [thresholds, detections]"""
    is_ignored: Tensor
    """whether it counts neither as right nor as wrong: it took a crowd, or a ground truth outside the first area range,
    or took none and its own box is outside; bool [thresholds, detections]"""
    boxes: Tensor | None = None
    """in the metric's `box_format`, [detections, 4]; None unless the results hold boxes"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None where they have none"""

    def __len__(self) -> int:
        """Number of detections."""
        return len(self.index)

    @property
    def image_ids(self) -> list[int | str]:
        """`image`, as names where images have names."""
        return name_images(self.image, self.image_names)


def list_matches(
    matches: Matches,
    images: Tensor,
    labels: Tensor,
    iou_thresholds: tuple[float, ...],
    boxes: Mapping[int, ImageBoxes] | None,
) -> MatchedDetections:
    """The list of matches in the first area range; `images` are ids by number, `labels` those of the detections."""
    shape = (matches.matched.shape[1], len(matches.rows))
    inside = (matches.area_bits & 1).bool().expand(shape)
    # Where nothing is matched, a detection is ignored if it is outside the range; columns overwrite that.
    taken = matches.columns.new_full(shape, -1)
    true_positive, ignored = torch.zeros_like(inside), ~inside
    if matches.ground_truths is not None:
        taken[:, matches.columns] = matches.ground_truths[0].to(taken.dtype)
    true_positive[:, matches.columns] = matches.true_positive[0]
    of_columns = torch.where(matches.matched[0], ~matches.true_positive[0], ignored[:, matches.columns])
    ignored[:, matches.columns] = of_columns
    # By image, and in it by row: the last key first.
    by_row = matches.rows.argsort()
    order = by_row[matches.images[by_row].argsort(stable=True)]
    number, index = matches.images[order].long(), matches.rows[order].long()
    return MatchedDetections(
        image=images.to(order.device)[number],
        index=index,
        label=labels[order],
        score=matches.scores[order],
        iou_thresholds=iou_thresholds,
        ground_truth=taken[:, order],
        is_true_positive=true_positive[:, order],
        is_ignored=ignored[:, order],
        boxes=None if boxes is None else _boxes_at(boxes, images, number, index),
    )


def _boxes_at(boxes: Mapping[int, ImageBoxes], images: Tensor, number: Tensor, index: Tensor) -> Tensor:
    """Boxes of detections, given the number of the image and the place there."""
    listed = [boxes[image].detections["boxes"].to(number.device) for image in images.tolist()]
    if not listed:
        return torch.empty((0, 4), device=number.device)
    counts = torch.tensor([len(each) for each in listed], device=number.device)
    return torch.cat(listed)[(counts.cumsum(0) - counts)[number] + index]
