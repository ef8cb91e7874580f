"""Detections and ground truths in the two orders that matching needs: by class and score, and by image and class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs.sorting import (
    are_ascending,
    narrowest,
    order_by_class_and_score,
    place_of_labels,
    stable_sort,
)


class OrderedDetections(NamedTuple):
    """Detections in the order in which precision is accumulated; `grouped` leads from there to groups.

    A group is the boxes of one class in one image; it has the number image * classes + class.
    """

    rows: Int[Tensor, " detections"]
    """rows of the detections by class, descending score, image, row"""
    class_index: Int[Tensor, " detections"]
    """int32, of those"""
    images: Integer[Tensor, " detections"]
    grouped: Int[Tensor, " detections"]
    """places in `rows` by group, and in a group by descending score"""
    groups: Int[Tensor, " detections"]
    """of those, ascending"""


class OrderedGroundTruths(NamedTuple):
    """Ground truths by group, in a group by row."""

    rows: Int[Tensor, " ground_truths"]
    class_index: Int[Tensor, " ground_truths"]
    is_crowd: Bool[Tensor, " ground_truths"]
    groups: Int[Tensor, " ground_truths"]
    """number of the group, counted over the groups that have ground truths"""
    starts: Int[Tensor, " occupied_groups"]
    """of each group that has ground truths: where its detections begin in `grouped`"""
    sizes: Int[Tensor, " occupied_groups"]
    """and how many of them there are, at most the largest number of detections that counts"""


def order_boxes(
    detections: Detections, ground_truths: GroundTruths, classes: Int[Tensor, " classes"], most: int | None
) -> tuple[OrderedDetections, OrderedGroundTruths]:
    """Put boxes in order; of a group only the `most` detections with the highest scores are candidates."""
    images = [boxes.images for boxes in (detections, ground_truths) if len(boxes.images)]
    num_images = max((int(numbers.max()) + 1 for numbers in images), default=0)
    ordered = _order_detections(detections, classes, num_images)
    class_index = place_of_labels(ground_truths.labels, classes)
    # Ground truths by group; `occupied` are the numbers of the groups that have any, and `groups` count these.
    keys, order = stable_sort((ground_truths.images.long() * len(classes)).add_(class_index))
    occupied, groups = keys.to(ordered.groups.dtype).unique_consecutive(return_inverse=True)
    starts = torch.searchsorted(ordered.groups, occupied)
    sizes = torch.searchsorted(ordered.groups, occupied, right=True) - starts
    crowds = ground_truths.is_crowd
    return ordered, OrderedGroundTruths(
        rows=order,
        class_index=class_index.index_select(0, order).long(),
        is_crowd=torch.zeros_like(order, dtype=torch.bool) if crowds is None else crowds.index_select(0, order),
        groups=groups,
        starts=starts,
        sizes=sizes if most is None else sizes.clamp_(max=min(most, len(ordered.rows))),
    )


def _order_detections(detections: Detections, classes: Tensor, num_images: int) -> OrderedDetections:
    # Stable sorts, the last key first: by image, then by class and score; for groups by image once more.
    class_index = place_of_labels(detections.labels, classes)
    images, scores, by_image = detections.images, detections.scores, None
    if not are_ascending(images):
        by_image = images.sort(stable=True).indices
        class_index, scores = class_index.index_select(0, by_image), scores.index_select(0, by_image)
    rows, class_index = order_by_class_and_score(class_index, scores)
    if by_image is not None:
        rows = by_image.index_select(0, rows)
    images = narrowest(images, num_images).index_select(0, rows)
    by_group, grouped = images.sort(stable=True)
    dtype = torch.int32 if num_images * len(classes) < 1 << 31 else torch.int64
    groups = (by_group.to(dtype) * len(classes)).add_(class_index.index_select(0, grouped))
    return OrderedDetections(rows, class_index, images, grouped, groups)
