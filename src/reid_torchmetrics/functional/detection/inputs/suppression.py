"""Non-maximum suppression, one box for each object, for all classes and images at once.

Boxes of one image and class are a group. A group is processed by descending score, a front of a few boxes at a time:
boxes of the front suppress each other, then the kept ones suppress the rest. One group, fronts of two boxes, overlaps
in brackets:

    boxes by score       a    b [a]    c    d [c]    e [b]
    front a, b           a    -                            b overlaps a
    the rest against a             c    d        e         none overlaps a; e overlaps b, but b is gone
    front c, d                     c    -
    the rest against c                           e
    kept                 a         c             e

A kept box can only suppress boxes nearby of about its size. In a large group these are searched for by their edges,
sorted along the axis that separates boxes better.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional import segments, workers

from .boxes import Sides, check_image_numbers, check_scores, checked_boxes, common_areas, to_xyxy
from .ordering import distinct_labels, order_by_class_and_score, place_of_labels
from .shapes import LEAST_REACH, SLACK, crowding

_FRONTS = (4, 16, 64)  # boxes of a group processed together, by the size of the group
_MANY_PAIRS = 1 << 17  # of a front and the rest of its group: from here on boxes nearby are searched for
_SOUND = 2.0**60  # areas of longer sides, or of sides below its inverse, may not fit float32
_PAIRS_AT_A_TIME = 1 << 15  # pairs compared together, about 50 bytes each: they fit a cache


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
    """Rows of the kept boxes: within an image and class, no kept box of a higher score overlaps them.

    Overlap is intersection over union above, not at, the threshold. It is computed in the dtype of the boxes, float32
    at least, so the rows are those of torchvision's `nms` on a CPU. torchvision's `batched_nms` offsets the boxes of
    each class, and float32 may round differently there; here boxes are not moved. Of equal scores the first row goes
    first. A box without area suppresses nothing and is kept.

    Source: Dalal and Triggs, "Histograms of oriented gradients for human detection", CVPR 2005, for the purpose; the
    greedy rule is that of Felzenszwalb et al., "Object detection with discriminatively trained part-based models",
    PAMI 2010.

    Args:
        boxes: in the format.
        scores: of the boxes.
        labels: classes; boxes of different ones do not suppress each other. None for one class.
        iou_threshold: in [0, 1].
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
        for part in (images, labels):
            if part is not None:
                distinct = distinct_labels(part)
                groups = groups * len(distinct) + place_of_labels(part, distinct)
        groups = groups.unique(return_inverse=True)[1]
        rows, groups = order_by_class_and_score(groups, scores)
        corners = to_xyxy(boxes.to(torch.promote_types(boxes.dtype, torch.float32)), box_format).index_select(0, rows)
        # By descending score across groups, equal scores by row.
        kept: Tensor = rows[_Suppression(corners, groups, iou_threshold).kept()].sort().values
        order = scores[kept].sort(descending=True, stable=True).indices
        return kept.index_select(0, order)

    return workers.run(keep, boxes.device)


class _Suppression:
    """Boxes by group and descending score, with the boxes kept so far."""

    def __init__(self, corners: Float[Tensor, "boxes 4"], groups: Int[Tensor, " boxes"], iou_threshold: float) -> None:
        left, top, right, bottom = corners.unbind(1)
        self._columns = [each.contiguous() for each in (left, top, right, bottom, (right - left) * (bottom - top))]
        self._groups = groups
        self._widths = groups.new_tensor(_FRONTS[:-1])
        # In the boxes' dtype: the largest number that is not above the threshold.
        nearest = torch.tensor(iou_threshold, dtype=corners.dtype, device="cpu")
        lower = nearest.nextafter(torch.full_like(nearest, -torch.inf))
        self._threshold = float(lower if float(nearest) > iou_threshold else nearest)
        self._kept = torch.zeros(len(corners), dtype=torch.bool, device=corners.device)
        self._nearby: dict[int, _Nearby] = {}
        self._has_reach = self._threshold >= LEAST_REACH and corners.device.type == "cpu" and _are_sound(corners)

    def kept(self) -> Bool[Tensor, " boxes"]:
        """Process a front of every group, then the next, until no box is left."""
        left = torch.arange(len(self._kept), device=self._kept.device)
        while len(left):
            sizes = self._groups.index_select(0, left).unique_consecutive(return_counts=True)[1]
            starts, rest = segments.starts(sizes), [left[:0]]
            # Small groups have small fronts; the widest are for all that are larger.
            kind = torch.bucketize(sizes, self._widths)
            fronts = [
                (groups, width)
                for number, width in enumerate(_FRONTS)
                for groups in (kind == number).nonzero()[:, 0].split(max(1, _PAIRS_AT_A_TIME // width**2))
            ]
            for groups, width in fronts:
                rest += self._suppress(left, starts[groups], sizes[groups], width)
            left = torch.cat(rest)
            if len(sizes) > 1:
                left = left.sort().values
        return self._kept

    def _suppress(
        self, left: Int[Tensor, " left"], starts: Int[Tensor, " groups"], sizes: Int[Tensor, " groups"], width: int
    ) -> list[Int[Tensor, " _"]]:
        """Keep boxes of the front of each group; the boxes of the rest that these do not suppress."""
        # The fronts, [groups, width], and the boxes of a front that an earlier kept one does not overlap.
        place = torch.arange(width, device=left.device)
        kept = place < sizes[:, None]
        front = left[(starts[:, None] + place).clamp_(max=len(left) - 1)]
        overlaps = self._overlap(front[:, :, None], front[:, None]).triu(1)
        for earlier in overlaps.any(2).any(0).nonzero()[:, 0].tolist():
            kept &= ~(overlaps[:, earlier] & kept[:, earlier, None])
        self._kept[front[kept]] = True
        # The rest of the groups that are larger than their front.
        large, rest = (sizes > width).nonzero()[:, 0], []
        for group, first, size in zip(large.tolist(), starts[large].tolist(), sizes[large].tolist(), strict=True):
            keepers, others = front[group][kept[group]], left[first + width : first + size]
            if self._has_reach and len(keepers) * len(others) > _MANY_PAIRS:
                rest.append(self._suppress_nearby(keepers, others))
                continue
            for boxes in others.split(max(1, _PAIRS_AT_A_TIME // len(keepers))):
                is_left = ~self._overlap(boxes[:, None], keepers).any(1)
                rest.append(boxes[is_left])
        return rest

    def _suppress_nearby(self, keepers: Int[Tensor, " keepers"], others: Int[Tensor, " others"]) -> Int[Tensor, " _"]:
        """The boxes left of a group that no keeper suppresses, by a search for boxes nearby."""
        number = int(self._groups[keepers[0]])
        nearby = self._nearby.get(number)
        if nearby is None or len(nearby.boxes) > 2 * len(others):
            nearby = self._nearby[number] = _Nearby.of(self._columns, others, self._threshold * (1 - SLACK))
        is_left = torch.zeros(len(self._kept), dtype=torch.bool, device="cpu")
        is_left[others] = True
        for some in keepers.split(max(1, _PAIRS_AT_A_TIME // 8)):
            boxes, keeper = nearby.pairs(self._columns, some)
            is_left[boxes[self._overlap(boxes, keeper)]] = False
        return others[is_left.index_select(0, others)]

    def _overlap(self, boxes: Int[Tensor, "*some"], others: Int[Tensor, "*others"]) -> Bool[Tensor, "*pairs"]:
        """Whether boxes and others, broadcast, overlap by more than the threshold."""
        first, second = (Sides(*(column[rows] for column in self._columns)) for rows in (boxes, others))
        common = common_areas(first, second)
        return common.div_((first.area + second.area).sub_(common)) > self._threshold  # NaN, of no area at all, is not


class _Nearby(NamedTuple):
    """Boxes of a group, sorted by their first edge on an axis.

    If boxes of widths w and v overlap by t or more, their common width is at least t w and t v. So v <= w / t, and the
    other box begins between (1 - t) v to the left and (1 - t) w to the right. The same holds for heights.
    """

    boxes: Int[Tensor, " boxes"]
    begin: Float[Tensor, " boxes"]
    """first edge on the axis, float64, ascending"""
    beside: Float[Tensor, " boxes"]
    """first edge on the other axis"""
    axis: int
    """0 from the left, 1 from the top"""
    least: float
    """t"""

    @classmethod
    def of(cls, columns: list[Tensor], boxes: Int[Tensor, " boxes"], least: float) -> _Nearby:
        """Sort boxes along the axis where they are shorter, relative to the range of all."""
        ends = [column.index_select(0, boxes).double() for column in columns[:4]]
        axis = min((0, 1), key=lambda axis: crowding(ends[axis], ends[axis + 2]))
        begin, order = ends[axis].sort()
        return cls(boxes[order], begin, ends[1 - axis][order], axis, least)

    def pairs(self, columns: list[Tensor], keepers: Int[Tensor, " keepers"]) -> tuple[Tensor, Tensor]:
        """Pairs of a box and a keeper that may overlap enough."""
        low, high = self._reach(columns, keepers, self.axis)
        first = torch.searchsorted(self.begin, low)
        sizes = torch.searchsorted(self.begin, high, right=True) - first
        keeper, place = segments.runs(first, sizes)
        low, high = self._reach(columns, keepers, 1 - self.axis)
        beside = self.beside.index_select(0, place)
        near = (beside >= low.index_select(0, keeper)).logical_and_(beside <= high.index_select(0, keeper))
        return self.boxes[place[near]], keepers[keeper[near]]

    def _reach(self, columns: list[Tensor], keepers: Int[Tensor, " keepers"], axis: int) -> tuple[Tensor, Tensor]:
        begin, end = (columns[number].index_select(0, keepers).double() for number in (axis, axis + 2))
        away = (1 - self.least) * (end - begin)
        return begin - away / self.least, begin + away


def _are_sound(corners: Float[Tensor, "boxes 4"]) -> bool:
    """Whether all sides are 0, or of lengths with products that round neither to 0 nor to infinity."""
    sides = (corners[:, 2:] - corners[:, :2]).double()
    return bool(((sides == 0) | ((sides >= 1 / _SOUND) & (sides <= _SOUND))).all())
