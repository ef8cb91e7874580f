"""Non-maximum suppression, one box for each object, for all classes and images at once.

Boxes of one image and class are a group. A group is processed by descending score, a front of a few boxes at a time:
boxes of the front suppress each other, then the kept boxes of the front suppress the rest. Example of one group with
fronts of two boxes, where a overlaps b and c, and b overlaps e:

    boxes by score       a  b  c  d  e
    front a, b           a  -             b overlaps a
    the rest against a         -  d  e    c overlaps a; e overlaps b, which is suppressed
    front d, e                    d  e
    kept                 a        d  e
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.inputs import (
    Sides,
    check_image_numbers,
    check_scores,
    checked_boxes,
    common_areas,
    distinct_labels,
    order_by_class_and_score,
    place_of_labels,
    to_xyxy,
)

_FRONTS = (4, 16, 64)  # boxes of a group that are processed together, by the size of the group
_PAIRS_AT_A_TIME = 1 << 15  # pairs compared together, about 50 bytes each, which fit a cache


@torch.no_grad()
def non_maximum_suppression(
    boxes: Float[Tensor, "boxes 4"] | _checks.Array,
    scores: Float[Tensor, " boxes"] | _checks.Numbers,
    labels: Integer[Tensor, " boxes"] | _checks.Integers | None = None,
    *,
    iou_threshold: float,
    images: Integer[Tensor, " boxes"] | _checks.Integers | None = None,
    box_format: _names.BoxFormat = "xyxy",
) -> Int[Tensor, " kept"]:
    """Return the rows of the kept boxes: no kept box with a higher score in the same image and class overlaps them.

    Boxes overlap if their intersection over union is above, not at, the threshold. It is computed in the dtype of the
    boxes, float32 at least, so the rows are those of torchvision's `nms` on a CPU. torchvision's `batched_nms` offsets
    the boxes of each class, and float32 may round differently there; here boxes are not moved. Among equal scores the
    first row comes first. A box without area suppresses nothing and is kept.

    Source: Dalal and Triggs, "Histograms of oriented gradients for human detection", CVPR 2005, for the purpose; the
    greedy rule is that of Felzenszwalb et al., "Object detection with discriminatively trained part-based models",
    PAMI 2010.

    Args:
        boxes: boxes in the format.
        scores: scores of the boxes.
        labels: classes of the boxes; boxes of different classes do not suppress each other. None for one class.
        iou_threshold: a number in [0, 1].
        images: number of the image of each box, 0 or more; None for one image.
        box_format: "xyxy", "xywh" or "cxcywh".

    Returns:
        Rows by descending score, of all classes and images.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: an unknown format, a threshold outside [0, 1], shapes or devices that do not fit, a box or a score
            that is not finite, or a negative size.
    """
    boxes, scores, labels, images = _arrays.as_tensors(boxes, scores, labels, images)
    checked_boxes("boxes", boxes, box_format)
    _checks.fraction("iou_threshold", iou_threshold)
    check_scores("scores", scores, len(boxes), boxes.device)
    if labels is not None:
        _checks.integer_labels("labels", labels, len(boxes), boxes.device)
    if images is not None:
        check_image_numbers("images", images, len(boxes), boxes.device)

    def keep() -> Int[Tensor, " kept"]:
        # Number the pairs of image and class; there are fewer than boxes, so that they can be sorted with scores.
        groups = torch.zeros(len(boxes), dtype=torch.int64, device=boxes.device)
        for numbers in (images, labels):
            if numbers is not None:
                distinct = distinct_labels(numbers)
                groups = groups * len(distinct) + place_of_labels(numbers, distinct)
        groups = groups.unique(return_inverse=True)[1]
        rows, groups = order_by_class_and_score(groups, scores)
        corners = to_xyxy(boxes.to(torch.promote_types(boxes.dtype, torch.float32)), box_format).index_select(0, rows)
        is_kept = _Suppression(corners, groups, iou_threshold).find_kept()
        # By descending score across groups, equal scores by row.
        kept_rows: Tensor = rows[is_kept].sort().values
        order = scores[kept_rows].sort(descending=True, stable=True).indices
        return kept_rows.index_select(0, order)

    return workers.run(keep, boxes.device)


class _Suppression:
    """Boxes by group and descending score, with the boxes that are kept up to now."""

    def __init__(self, corners: Float[Tensor, "boxes 4"], groups: Int[Tensor, " boxes"], iou_threshold: float) -> None:
        left, top, right, bottom = corners.unbind(1)
        area = (right - left) * (bottom - top)
        self._columns = [column.contiguous() for column in (left, top, right, bottom, area)]
        self._groups = groups
        self._widths = groups.new_tensor(_FRONTS[:-1])
        # The threshold in the boxes' dtype: the largest number that is not above it.
        nearest = torch.tensor(iou_threshold, dtype=corners.dtype, device="cpu")
        if float(nearest) > iou_threshold:
            nearest = nearest.nextafter(torch.full_like(nearest, -torch.inf))
        self._threshold = float(nearest)
        self._is_kept = torch.zeros(len(corners), dtype=torch.bool, device=corners.device)

    def find_kept(self) -> Bool[Tensor, " boxes"]:
        """Process a front of every group, then the next, until no box remains; return whether each box is kept."""
        remaining = torch.arange(len(self._is_kept), device=self._is_kept.device)
        while len(remaining):
            sizes = self._groups.index_select(0, remaining).unique_consecutive(return_counts=True)[1]
            starts = segments.starts(sizes)
            # Small groups have small fronts; the widest fronts are for all larger groups.
            front_number = torch.bucketize(sizes, self._widths)
            rest = [remaining[:0]]
            for number, width in enumerate(_FRONTS):
                groups = (front_number == number).nonzero()[:, 0]
                for block in groups.split(max(1, _PAIRS_AT_A_TIME // width**2)):
                    rest += self._suppress(remaining, starts[block], sizes[block], width)
            remaining = torch.cat(rest)
            if len(sizes) > 1:
                remaining = remaining.sort().values
        return self._is_kept

    def _suppress(
        self,
        remaining: Int[Tensor, " remaining"],
        starts: Int[Tensor, " groups"],
        sizes: Int[Tensor, " groups"],
        width: int,
    ) -> list[Int[Tensor, " _"]]:
        """Keep boxes of the front of each group, and return the boxes of the rest that these do not suppress."""
        # The fronts, [groups, width]. A box of a front is kept if no earlier kept box overlaps it.
        place = torch.arange(width, device=remaining.device)
        is_kept = place < sizes[:, None]
        front = remaining[(starts[:, None] + place).clamp_(max=len(remaining) - 1)]
        overlaps = self._overlap(front[:, :, None], front[:, None]).triu(1)
        for earlier in overlaps.any(2).any(0).nonzero()[:, 0].tolist():
            is_kept &= ~(overlaps[:, earlier] & is_kept[:, earlier, None])
        self._is_kept[front[is_kept]] = True

        # The rest of the groups that are larger than their front.
        rest = []
        large = (sizes > width).nonzero()[:, 0]
        for group, first, size in zip(large.tolist(), starts[large].tolist(), sizes[large].tolist(), strict=True):
            keepers = front[group][is_kept[group]]
            candidates = remaining[first + width : first + size]
            for block in candidates.split(max(1, _PAIRS_AT_A_TIME // len(keepers))):
                is_suppressed = self._overlap(block[:, None], keepers).any(1)
                rest.append(block[~is_suppressed])
        return rest

    def _overlap(self, boxes: Int[Tensor, "*some"], others: Int[Tensor, "*others"]) -> Bool[Tensor, "*pairs"]:
        """Return whether boxes and others, broadcast, overlap by more than the threshold."""
        sides = Sides(*(column[boxes] for column in self._columns))
        other_sides = Sides(*(column[others] for column in self._columns))
        common = common_areas(sides, other_sides)
        union = (sides.area + other_sides.area).sub_(common)
        return common.div_(union) > self._threshold  # False for NaN, where both boxes have no area
