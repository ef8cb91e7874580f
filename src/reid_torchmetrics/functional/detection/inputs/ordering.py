"""The two orders of matching, by class and score and by image and class, sorted by integer keys for speed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from .images import Detections, GroundTruths

_WHOLE_INT32 = 1 << 32
_NARROW_LABELS = 1 << 20  # smaller labels are sorted by counting
_FEW_LABELS = 1 << 11  # fewer labels are sorted without a pass for their range
_FEW_ROWS = 1 << 9  # fewer rows are sorted fast in any way
_BITS = 63  # of an int64 besides its sign


def order_by_class_and_score(
    class_index: Int[Tensor, " rows"], scores: Float[Tensor, " rows"]
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Return the rows by class, then by descending score, equal scores by row; and their classes, int32."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    # Integers of the scores' width, ascending as finite scores descend; 0.0 and -0.0 are equal.
    key_dtype = torch.int64 if scores.dtype == torch.float64 else torch.int32
    key = (scores + 0.0).view(key_dtype)
    limits = torch.iinfo(key.dtype)
    # The bits of negative scores, without the sign, run backwards.
    negative_bits = key.__rshift__(limits.bits - 1).bitwise_and_(limits.max)
    key.bitwise_xor_(negative_bits).bitwise_not_()
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
    """Return keys of int64 in ascending order and the row of each, equal keys by row; may overwrite its input.

    NumPy's sort of values is vectorized, and three times as fast as a sort that moves rows along. So on a CPU key and
    row are sorted as one number if they fit into an int64.
    """
    if keys.device.type != "cpu" or len(keys) < _FEW_ROWS:
        return keys.sort(stable=True)
    row_bits = len(keys).bit_length()
    least, most = map(int, keys.aminmax())
    key_bits = max(abs(least), abs(most)).bit_length()
    if key_bits + row_bits > _BITS:
        return keys.sort(stable=True)
    keys.mul_(1 << row_bits).add_(torch.arange(len(keys), dtype=torch.int32, device="cpu"))
    keys.numpy().sort()
    return keys >> row_bits, keys.bitwise_and_((1 << row_bits) - 1)


def distinct_labels(*labels: Integer[Tensor, " _"]) -> Int[Tensor, " classes"]:
    """Return the distinct labels of all columns, ascending, int64."""
    if sum(map(len, labels)) >= _FEW_LABELS:
        extremes: list[int] = []
        for column in labels:
            if len(column):
                extremes.extend(map(int, column.aminmax()))
        if min(extremes) >= 0 and max(extremes) < _NARROW_LABELS:
            counts = [column.bincount(minlength=max(extremes) + 1) for column in labels]
            return torch.stack(counts).sum(0).nonzero()[:, 0]
    distinct: Tensor = torch.cat([column.long() for column in labels]).unique()
    return distinct


def place_of_labels(labels: Integer[Tensor, " rows"], classes: Int[Tensor, " classes"]) -> Int[Tensor, " rows"]:
    """Return the index of each label in `classes`, int32; classes are ascending, and contain all labels."""
    if len(labels) >= _FEW_LABELS and classes[0] >= 0 and classes[-1] < _NARROW_LABELS:
        table = torch.zeros(int(classes[-1]) + 1, dtype=torch.int32, device=labels.device)
        table[classes] = torch.arange(len(classes), dtype=torch.int32, device=labels.device)
        return table.index_select(0, labels.int())
    return torch.searchsorted(classes, labels.long(), out_int32=True)


class OrderedDetections(NamedTuple):
    """Detections in the order of accumulation, and in groups, where a group is one class in one image.

    The number of a group is image * num_classes + class.
    """

    rows: Int[Tensor, " detections"]
    """rows of the detections by class, descending score, image, row"""
    class_index: Int[Tensor, " detections"]
    """int32, in the order of `rows`"""
    images: Integer[Tensor, " detections"]
    grouped: Int[Tensor, " detections"]
    """indices into `rows`, by group and descending score"""
    groups: Int[Tensor, " detections"]
    """number of each detection's group, in the order of `grouped`, ascending"""


class OrderedGroundTruths(NamedTuple):
    """Ground truths by group and row."""

    rows: Int[Tensor, " ground_truths"]
    class_index: Int[Tensor, " ground_truths"]
    is_crowd: Bool[Tensor, " ground_truths"]
    groups: Int[Tensor, " ground_truths"]
    """number of each ground truth's group among the groups with ground truths"""
    starts: Int[Tensor, " occupied_groups"]
    """for each group with ground truths, the index in `grouped` of its first detection"""
    sizes: Int[Tensor, " occupied_groups"]
    """for each group with ground truths, the number of its detections, at most the largest limit"""


def order_boxes(
    detections: Detections, ground_truths: GroundTruths, classes: Int[Tensor, " classes"], most: int | None
) -> tuple[OrderedDetections, OrderedGroundTruths]:
    """Put boxes in order; in each group only the `most` detections with the highest scores are candidates."""
    images = [boxes.images for boxes in (detections, ground_truths) if len(boxes.images)]
    num_images = max((int(numbers.max()) + 1 for numbers in images), default=0)
    ordered = _order_detections(detections, classes, num_images)
    class_index = place_of_labels(ground_truths.labels, classes)

    # Ground truths by group; `occupied` are the groups with any, and `groups` index them.
    keys = (ground_truths.images.long() * len(classes)).add_(class_index)
    keys, rows = stable_sort(keys)
    occupied, groups = keys.to(ordered.groups.dtype).unique_consecutive(return_inverse=True)

    # The detections of these groups.
    starts = torch.searchsorted(ordered.groups, occupied)
    sizes = torch.searchsorted(ordered.groups, occupied, right=True) - starts
    if most is not None:
        sizes.clamp_(max=min(most, len(ordered.rows)))
    if ground_truths.is_crowd is None:
        is_crowd = torch.zeros_like(rows, dtype=torch.bool)
    else:
        is_crowd = ground_truths.is_crowd.index_select(0, rows)
    return ordered, OrderedGroundTruths(
        rows=rows,
        class_index=class_index.index_select(0, rows).long(),
        is_crowd=is_crowd,
        groups=groups,
        starts=starts,
        sizes=sizes,
    )


def _order_detections(detections: Detections, classes: Tensor, num_images: int) -> OrderedDetections:
    """Order detections by stable sorts, the last key first: by image, then by class and score."""
    images = detections.images
    scores = detections.scores
    class_index = place_of_labels(detections.labels, classes)
    by_image = None
    if num_images > 1 and bool((images[1:] < images[:-1]).any()):
        by_image = images.sort(stable=True).indices
        class_index = class_index.index_select(0, by_image)
        scores = scores.index_select(0, by_image)
    rows, class_index = order_by_class_and_score(class_index, scores)
    if by_image is not None:
        rows = by_image.index_select(0, rows)

    # Groups, by one more sort by image. The narrower the numbers, the faster they are sorted.
    image_dtype = torch.int16 if num_images < 1 << 15 else torch.int32
    images = images.to(image_dtype).index_select(0, rows)
    grouped_images, grouped = images.sort(stable=True)
    dtype = torch.int32 if num_images * len(classes) < 1 << 31 else torch.int64
    groups = grouped_images.to(dtype).mul_(len(classes)).add_(class_index.index_select(0, grouped))
    return OrderedDetections(rows, class_index, images, grouped, groups)
