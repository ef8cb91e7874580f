"""The two orders of matching, by class and score and by image and class, sorted by integer keys for speed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from .images import Detections, GroundTruths

_WHOLE_INT32 = 1 << 32
_NARROW_LABELS = 1 << 20  # smaller labels are sorted by counting
_FEW_LABELS = 1 << 11  # fewer are sorted without looking for their range
_FEW_ROWS = 1 << 9  # fewer are sorted fast in any way
_BITS = 63  # of an int64 besides its sign


def order_by_class_and_score(
    class_index: Int[Tensor, " rows"], scores: Float[Tensor, " rows"]
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Rows by class, then by descending score, equal scores by row; and their classes, int32."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    # Integers of the scores' width, ascending as finite scores descend; 0.0 and -0.0 are equal.
    key = (scores + 0.0).view(torch.int64 if scores.dtype == torch.float64 else torch.int32)
    ends = torch.iinfo(key.dtype)
    of_negative = key.__rshift__(ends.bits - 1).bitwise_and_(ends.max)  # their bits run backwards
    key.bitwise_xor_(of_negative).bitwise_not_()
    # Class and score fit one int64; float64 scores need two sorts.
    if key.dtype == torch.int32:
        joint = class_index.to(torch.int64, copy=True).mul_(_WHOLE_INT32).add_(key)
        del key
        joint, order = stable_sort(joint)
        return order, joint.add_(_WHOLE_INT32 // 2).bitwise_right_shift_(32).int()
    order = key.sort(stable=True).indices
    classes, within = class_index.index_select(0, order).sort(stable=True)
    return order.index_select(0, within), classes.int()


def stable_sort(keys: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Keys of int64 in ascending order with the row of each, equal keys by row; may overwrite its input.

    NumPy's sort of values is vectorized, and three times as fast as one that carries rows along. So on a CPU key and
    row are sorted as one number if they fit.
    """
    row_bits = len(keys).bit_length()
    is_fast = keys.device.type != "cpu" or len(keys) < _FEW_ROWS
    if is_fast or max(abs(int(end)) for end in keys.aminmax()).bit_length() + row_bits > _BITS:
        return keys.sort(stable=True)
    keys.mul_(1 << row_bits).add_(torch.arange(len(keys), dtype=torch.int32, device="cpu"))
    keys.numpy().sort()
    return keys >> row_bits, keys.bitwise_and_((1 << row_bits) - 1)


def distinct_labels(*labels: Integer[Tensor, " _"]) -> Int[Tensor, " classes"]:
    """Distinct labels, ascending, int64."""
    if sum(map(len, labels)) >= _FEW_LABELS:
        ends = [int(end) for each in labels if len(each) for end in each.aminmax()]
        if min(ends) >= 0 and max(ends) < _NARROW_LABELS:
            counts = [each.bincount(minlength=max(ends) + 1) for each in labels]
            return torch.stack(counts).sum(0).nonzero()[:, 0]
    distinct: Tensor = torch.cat([each.long() for each in labels]).unique()
    return distinct


def place_of_labels(labels: Integer[Tensor, " rows"], classes: Int[Tensor, " classes"]) -> Int[Tensor, " rows"]:
    """The place of each label in `classes`, int32; these are ascending, and contain it."""
    if len(labels) >= _FEW_LABELS and classes[0] >= 0 and classes[-1] < _NARROW_LABELS:
        table = torch.zeros(int(classes[-1]) + 1, dtype=torch.int32, device=labels.device)
        table[classes] = torch.arange(len(classes), dtype=torch.int32, device=labels.device)
        return table.index_select(0, labels.int())
    return torch.searchsorted(classes, labels.long(), out_int32=True)


class OrderedDetections(NamedTuple):
    """Detections in the order of accumulation, and in groups: one class in one image.

    The number of a group is image * classes + class.
    """

    rows: Int[Tensor, " detections"]
    """rows of the detections by class, descending score, image, row"""
    class_index: Int[Tensor, " detections"]
    """int32, in the order of `rows`"""
    images: Integer[Tensor, " detections"]
    grouped: Int[Tensor, " detections"]
    """places in `rows`, by group and descending score"""
    groups: Int[Tensor, " detections"]
    """number of each group, in the order of `grouped`, ascending"""


class OrderedGroundTruths(NamedTuple):
    """Ground truths by group and row."""

    rows: Int[Tensor, " ground_truths"]
    class_index: Int[Tensor, " ground_truths"]
    is_crowd: Bool[Tensor, " ground_truths"]
    groups: Int[Tensor, " ground_truths"]
    """number of the group among the groups with ground truths"""
    starts: Int[Tensor, " occupied_groups"]
    """of each group with ground truths: the first of its detections in `grouped`"""
    sizes: Int[Tensor, " occupied_groups"]
    """number of its detections, at most the largest limit"""


def order_boxes(
    detections: Detections, ground_truths: GroundTruths, classes: Int[Tensor, " classes"], most: int | None
) -> tuple[OrderedDetections, OrderedGroundTruths]:
    """Put boxes in order; in each group only the `most` detections with the highest scores are candidates."""
    images = [boxes.images for boxes in (detections, ground_truths) if len(boxes.images)]
    num_images = max((int(numbers.max()) + 1 for numbers in images), default=0)
    ordered = _order_detections(detections, classes, num_images)
    class_index = place_of_labels(ground_truths.labels, classes)
    # Ground truths by group; `occupied` are the groups with any, and `groups` index them.
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
    if num_images > 1 and bool((images[1:] < images[:-1]).any()):
        by_image = images.sort(stable=True).indices
        class_index, scores = class_index.index_select(0, by_image), scores.index_select(0, by_image)
    rows, class_index = order_by_class_and_score(class_index, scores)
    if by_image is not None:
        rows = by_image.index_select(0, rows)
    # The narrower the numbers, the faster they are sorted.
    images = images.to(torch.int16 if num_images < 1 << 15 else torch.int32).index_select(0, rows)
    by_group, grouped = images.sort(stable=True)
    dtype = torch.int32 if num_images * len(classes) < 1 << 31 else torch.int64
    groups = by_group.to(dtype).mul_(len(classes)).add_(class_index.index_select(0, grouped))
    return OrderedDetections(rows, class_index, images, grouped, groups)
