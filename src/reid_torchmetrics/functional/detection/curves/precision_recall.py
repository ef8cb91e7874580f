"""Precision-recall curves, kept at their true positives: between two of them recall stands and precision falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches

COCO_EPSILON = 2.0**-52
"""what COCO adds to the number of detections in precision: it only shows where there is one, 1 / (1 + epsilon) < 1"""

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
    """ground truths that count"""
    num_detections: Int[Tensor, "*curves"]
    """detections that count, true and false positives"""
    counts: Int[Tensor, " points"]
    """detections that count up to this true positive, itself among them"""
    places: Int[Tensor, " points"]
    """where the true positive stands among the detections"""

    @cached_property
    def starts(self) -> Int[Tensor, "*curves"]:
        """Where the points of each curve begin."""
        return segments.starts(self.num_true_positives.flatten()).view_as(self.num_true_positives)

    @cached_property
    def curve(self) -> Int[Tensor, " points"]:
        """The number of each point's curve."""
        return segments.numbers(self.num_true_positives.flatten(), len(self.counts))

    @cached_property
    def orders(self) -> Int[Tensor, " points"]:
        """The number of each true positive in its curve, from 1."""
        return segments.runs(1, self.num_true_positives.flatten(), len(self.counts))[1]


def curves_from_matches(matches: Matches, *, areas: slice = slice(None)) -> Curves:
    """One curve for each area range, threshold and class: [areas, thresholds, classes].

    Of the detections up to a true positive those count that lie in the area range, but for those that are matched to an
    ignored ground truth, and those outside it that are true positives. So the number of detections in the range is
    corrected at the matched detections alone, which are few.

    With five detections of one class and one threshold, all inside the range but 2, where 1 is matched to an ignored
    ground truth and 2 and 4 are true positives:

        detections        0   1   2   3   4
        in the range      1   2   2   3   4     up to each, whatever it is matched to
        correction            -1  +1      0     at the columns: 1 does not count, 2 does
        counts                    2       4     at the true positives: precision is 1/2 and 2/4

    Args:
        matches: as `match_images` gives them; `Matches.within` takes a smaller limit of detections.
        areas: the area ranges to look at.
    """
    true_positive, matched = matches.true_positive[areas], matches.matched[areas]
    num_areas, num_thresholds, num_columns = true_positive.shape
    num_rows, num_classes = num_areas * num_thresholds, len(matches.classes)
    # Where each class begins, among detections and among columns, [classes + 1], and the class of each column.
    classes = torch.arange(num_classes + 1, device=matches.columns.device, dtype=matches.class_index.dtype)
    class_starts = torch.searchsorted(matches.class_index, classes)
    column_starts = torch.searchsorted(matches.columns, class_starts)
    column_class = matches.class_index.index_select(0, matches.columns).long()

    # Detections of its class in the range up to each column, [areas, columns], whatever they are matched to.
    numbers = torch.arange(len(matches.matched), dtype=matches.area_bits.dtype, device=matches.columns.device)[areas]
    bits = (matches.area_bits >> numbers[:, None]).bitwise_and_(1)
    inside = bits.index_select(1, matches.columns).to(torch.int8)
    in_range = _before_or_at(bits)
    at_start = in_range.index_select(1, class_starts)  # [areas, classes + 1]
    counts = in_range.index_select(1, matches.columns + 1) - at_start.index_select(1, column_class)

    # Corrections: 1 for a true positive outside the range, -1 for a match inside it with an ignored ground truth.
    changes = true_positive.view(torch.int8) - matched.view(torch.int8) * inside[:, None]
    corrections = _before_or_at(changes.view(num_rows, num_columns))
    before = corrections.index_select(1, column_starts)  # [areas * thresholds, classes + 1]

    # One point for each true positive, by row (area range and threshold) and column, so by curve and score.
    row, column = true_positive.reshape(num_rows, num_columns).nonzero().unbind(1)
    of_class = column_class.index_select(0, column)
    counts = (
        counts.view(-1).index_select(0, (row // num_thresholds) * num_columns + column)
        + corrections.view(-1).index_select(0, row * (num_columns + 1) + column + 1)
        - before.view(-1).index_select(0, row * (num_classes + 1) + of_class)
    )
    shape = (num_areas, num_thresholds, num_classes)
    curve = row * num_classes + of_class
    num_corrected = (before[:, 1:] - before[:, :-1]).view(shape)
    return Curves(
        num_true_positives=curve.bincount(minlength=num_rows * num_classes).view(shape),
        num_positives=matches.num_positives[areas, None].expand(shape),
        num_detections=(at_start[:, 1:] - at_start[:, :-1])[:, None] + num_corrected,
        counts=counts,
        places=matches.columns.index_select(0, column),
    )


def _before_or_at(values: Integer[Tensor, "rows columns"]) -> Int[Tensor, "rows columns+1"]:
    """Sums of each row up to each place, int32, with the 0 that stands before the first."""
    sums = torch.zeros((len(values), values.shape[1] + 1), dtype=torch.int32, device=values.device)
    sums[:, 1:] = values.cumsum(1, dtype=torch.int32)
    return sums


def precision_at_points(curves: Curves, *, epsilon: float = 0.0) -> Float[Tensor, " points"]:
    """Precision at every true positive: m / (detections that count up to it + epsilon), float64."""
    return curves.orders.double().div_(curves.counts.double().add_(epsilon))


def best_from_here_on(curves: Curves, precision: Float[Tensor, " points"]) -> Float[Tensor, " points"]:
    """The largest precision at a point of a curve or after it: the curve's upper envelope.

    One running maximum over all curves, on integers that begin with the curve and order the precisions of one curve
    exactly: fractions with denominators below 2^21 that differ do so by more than 2^-42.
    """
    if not len(precision):
        return precision
    num_curves = curves.num_true_positives.numel()
    from_last = num_curves - 1 - curves.curve
    if num_curves < _MOST_CURVES and curves.counts.max() < _MOST_COUNTED:
        key = (from_last << _FRACTION_BITS + 1).add_((precision * 2.0**_FRACTION_BITS).long())
    else:
        key = (from_last * (len(precision) + 1)).add_(precision.unique(return_inverse=True)[1])
    best = (len(key) - 1) - key.flip(0).cummax(0).indices
    return precision.index_select(0, best.flip(0))


def first_reaching(
    num_positives: Int[Tensor, "*curves"], recalls: Float[Tensor, " recalls"]
) -> Int[Tensor, "*curves recalls"]:
    """The least m of at least 1 whose recall m / n, in float64, is at least each of some recalls.

    The product recall * n is rounded, so m may be one beside its ceiling. Any number where n = 0.
    """
    positives = num_positives[..., None].double()
    least = (recalls * positives).ceil()
    least = torch.where((least - 1) / positives >= recalls, least - 1, least)
    least = torch.where(least / positives >= recalls, least, least + 1)
    return least.nan_to_num(1.0).clamp_(min=1).long()


def precision_at_recall(
    curves: Curves, recall_thresholds: Sequence[float]
) -> tuple[Float[Tensor, "*curves recalls"], Int[Tensor, "*curves recalls"]]:
    """COCO's precision at each recall, and the point that reaches it first; 0 and no point's number where none does."""
    recalls = torch.tensor(recall_thresholds, dtype=torch.float64, device=curves.counts.device)
    needed = first_reaching(curves.num_positives, recalls)
    reached = needed <= curves.num_true_positives[..., None]
    point = torch.where(reached, curves.starts[..., None] + needed - 1, len(curves.counts))
    precision = best_from_here_on(curves, precision_at_points(curves, epsilon=COCO_EPSILON))
    precision = torch.cat([precision, precision.new_zeros(1)]).index_select(0, point.flatten())
    return precision.view_as(point), point
