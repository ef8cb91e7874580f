"""Precision-recall curves, stored at their true positives: between these recall is constant and precision falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches

COCO_EPSILON = 2.0**-52
"""COCO adds it to the number of detections in a precision; it only matters with one detection: 1 / (1 + epsilon) < 1"""

_FRACTION_BITS = 44
_MOST_CURVES = 1 << (62 - _FRACTION_BITS)
_MOST_COUNTED = 1 << (_FRACTION_BITS // 2 - 1)


@dataclass(frozen=True)
class Curves:
    """The true positives of many curves, laid end to end in the order of the curves, by descending score in each.

    The m-th true positive of a curve has recall m / `num_positives` and precision m / `counts`.
    """

    num_true_positives: Int[Tensor, "*curves"]
    num_positives: Int[Tensor, "*curves"]
    """number of ground truths that count"""
    num_detections: Int[Tensor, "*curves"]
    """number of detections that count, true and false positives"""
    counts: Int[Tensor, " points"]
    """number of detections that count, up to and including this true positive"""
    places: Int[Tensor, " points"]
    """place of the true positive among the detections"""

    @cached_property
    def starts(self) -> Int[Tensor, "*curves"]:
        """The first point of each curve."""
        return segments.starts(self.num_true_positives.flatten()).view_as(self.num_true_positives)

    @cached_property
    def curve(self) -> Int[Tensor, " points"]:
        """The curve of each point, in flat order."""
        return segments.numbers(self.num_true_positives.flatten(), len(self.counts))

    @cached_property
    def orders(self) -> Int[Tensor, " points"]:
        """The position of each true positive in its curve, from 1."""
        starts = self.starts.flatten().index_select(0, self.curve)
        return torch.arange(1, len(self.counts) + 1, device=starts.device).sub_(starts)


def curves_from_matches(matches: Matches, *, areas: slice = slice(None)) -> Curves:
    """Return the curve of each area range, threshold and class: [areas, thresholds, classes].

    Detections inside the area range count, unless matched to an ignored ground truth; true positives outside it count,
    too. So the number of detections in the range is corrected at the matched detections, which are few.

    With five detections of one class and one threshold, all inside the range but 2, where 1 is matched to an ignored
    ground truth and 2 and 4 are true positives:

        detections        0   1   2   3   4
        in the range      1   2   2   3   4     up to each detection, whether it is matched or not
        correction            -1  +1      0     at the columns: 1 does not count, 2 does
        counts                    2       4     at the true positives: precision is 1/2 and 2/4

    Args:
        matches: result of `match_on_grid`; `Matches.within` applies a smaller limit of detections.
        areas: the area ranges of the curves.
    """
    true_positive = matches.true_positive[areas]
    matched = matches.matched[areas]
    num_columns = len(matches.columns)
    num_classes = len(matches.classes)
    shape = (*true_positive.shape[:2], num_classes)
    # The start of each class, among detections and among columns, [classes + 1], and the class of each column.
    classes = torch.arange(num_classes + 1, device=matches.columns.device, dtype=matches.class_index.dtype)
    class_starts = torch.searchsorted(matches.class_index, classes)
    column_starts = torch.searchsorted(matches.columns, class_starts)
    column_class = matches.class_index.index_select(0, matches.columns)

    # Number of detections in the range up to each, [areas, detections + 1], and its corrections, [areas, thresholds,
    # columns + 1]: 1 for a true positive outside, -1 for a match inside with an ignored ground truth.
    bit = torch.arange(len(matches.matched), dtype=matches.area_bits.dtype, device=matches.columns.device)[areas]
    in_range = (matches.area_bits >> bit[:, None]).bitwise_and_(1)
    num_in_range = running_counts(in_range)
    is_column_in_range = in_range.index_select(1, matches.columns).bool()
    changes = true_positive.view(torch.int8) - (matched & is_column_in_range[:, None]).view(torch.int8)
    corrections = running_counts(changes)

    # Number of detections that count before each class and up to each column.
    at_start = corrections.index_select(2, column_starts).add_(num_in_range.index_select(1, class_starts)[:, None])
    up_to_column = corrections[..., 1:] + num_in_range.index_select(1, matches.columns + 1)[:, None]

    # One point for each true positive, by row (area range and threshold) and column, so by curve and score.
    points = true_positive.reshape(-1).nonzero()[:, 0]
    row = points.div(max(num_columns, 1), rounding_mode="floor")
    column = points - row * num_columns
    curve = row.mul_(num_classes).add_(column_class.index_select(0, column))
    before_class = at_start[..., :-1].reshape(-1).index_select(0, curve)
    curves = Curves(
        num_true_positives=curve.bincount(minlength=math.prod(shape)).view(shape),
        num_positives=matches.num_positives[areas, None].expand(shape),
        num_detections=at_start.diff(dim=2),
        counts=up_to_column.view(-1).index_select(0, points).sub_(before_class),
        places=matches.columns.index_select(0, column),
    )
    vars(curves)["curve"] = curve  # fills the cache of the property
    return curves


def running_counts(values: Integer[Tensor, "*rows columns"]) -> Int[Tensor, "*rows columns+1"]:
    """Return the running sums of each row, int32, after a leading 0."""
    sums = values.new_zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=torch.int32)
    torch.cumsum(values, -1, dtype=torch.int32, out=sums[..., 1:])
    return sums


def precision_at_points(curves: Curves, *, epsilon: float = 0.0) -> Float[Tensor, " points"]:
    """Return the precision at every true positive: m / (number of detections up to it + epsilon), float64."""
    return curves.orders.double().div_(curves.counts.double().add_(epsilon))


def best_from_here_on(curves: Curves, precision: Float[Tensor, " points"]) -> Float[Tensor, " points"]:
    """Return the upper envelope of each curve: the largest precision at a point or after it.

    One running maximum serves all curves, on integers that hold curve and precision. They order the precisions of a
    curve exactly: different fractions with denominators below 2^21 differ by more than 2^-42.
    """
    if not len(precision):
        return precision
    if curves.num_true_positives.numel() < _MOST_CURVES and int(curves.counts.max()) < _MOST_COUNTED:
        key = (curves.curve * -(2 << _FRACTION_BITS)).add_((precision * 2.0**_FRACTION_BITS).long())
    else:
        key = (curves.curve * -(len(precision) + 1)).add_(precision.unique(return_inverse=True)[1])
    best = (len(key) - 1) - key.flip(0).cummax(0).indices
    return precision.index_select(0, best.flip(0))


def first_reaching(
    num_positives: Int[Tensor, "*curves"], recalls: Float[Tensor, " recalls"]
) -> Int[Tensor, "*curves recalls"]:
    """Return the least m >= 1 with a recall m / n, in float64, that reaches each recall.

    The product recall * n is rounded, so m may differ by 1 from its ceiling. The result is undefined where n = 0.
    """
    num_positives = num_positives[..., None].double()
    least = (recalls * num_positives).ceil()
    least = torch.where((least - 1) / num_positives >= recalls, least - 1, least)
    least = torch.where(least / num_positives >= recalls, least, least + 1)
    return least.nan_to_num(1.0).clamp_(min=1).long()


def precision_at_recall(
    curves: Curves, rec_thresholds: Sequence[float]
) -> tuple[Float[Tensor, "*curves recalls"], Int[Tensor, "*curves recalls"]]:
    """Return COCO's precision at each recall, and the first point that reaches it.

    If no point reaches a recall, these are 0 and the number of all points.
    """
    recalls = torch.tensor(rec_thresholds, dtype=torch.float64, device=curves.counts.device)
    needed = first_reaching(curves.num_positives, recalls)
    reached = needed <= curves.num_true_positives[..., None]
    point = torch.where(reached, curves.starts[..., None] + needed - 1, len(curves.counts))
    precision = best_from_here_on(curves, precision_at_points(curves, epsilon=COCO_EPSILON))
    precision = torch.cat([precision, precision.new_zeros(1)]).index_select(0, point.flatten())
    return precision.view_as(point), point
