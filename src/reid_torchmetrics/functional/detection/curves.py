"""From matches to curves of precision and recall, and average precision, by the rules of several evaluators.

A curve with n ground truths is stored at its true positives: the m-th has recall m / n and, if it is the c-th
detection, precision m / c. Up to the next one, the c'-th detection, recall is constant and precision falls, but not
below the precision there: m / (c' - 1) <= (m + 1) / c'. So the envelope, the largest precision at a detection or a
later one, is constant from after a true positive up to the next: a staircase that the true positives determine. For
instance with n = 3 ground truths:

    detection     true   false  true   false  false
    recall        1/3    1/3    2/3    2/3    2/3
    precision     1/1    1/2    2/3    2/4    2/5     stored at the first and third detection
    envelope      1      2/3    2/3    -      -       the second detection has the envelope of the next true positive
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.matching import Matches

COCO_EPSILON = 2.0**-52
"""COCO adds it to the number of detections in a precision; it only matters with one detection: 1 / (1 + epsilon) < 1"""

_FRACTION_BITS = 44
_MOST_CURVES = 1 << (62 - _FRACTION_BITS)
_MOST_COUNTED = 1 << (_FRACTION_BITS // 2 - 1)
_FEW_POSITIVES = 64
_MAX_VALUES = 1 << 17  # number of places of envelopes that are read at a time, to fit a cache


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


class Rule(NamedTuple):
    """A rule for the area under an envelope."""

    area: Callable[[Curves, Tensor, Tensor], Tensor]
    """computes the areas, flat, from the curves, the envelopes at their points and the recalls to read them at"""
    num_recalls: int
    """number of recalls i / (number - 1), in float64; 0 for the whole envelope"""
    epsilon: float = 0.0
    """the number that is added to the detections in a precision"""
    title: str = ""
    """name of the evaluator that has this rule"""


def average_precision(
    curves: Curves, rule: Rule, recalls: Float[Tensor, " recalls"] | None = None
) -> Float[Tensor, "*curves"]:
    """Compute the area under the upper envelope of precision-recall curves, float64, by the rules of `compute_ap`.

    By "coco" a precision is m / (c + 2^-52), as in pycocotools, by all others m / c. "coco" and "voc07" read the
    envelope at the first detection that reaches a recall. "voc" is the sum of the envelope at every true positive,
    divided by the number of ground truths. After the last recall the line of the trapezoids starts at the precision of
    all detections.

    Ignored detections are not on a curve. The area is NaN without ground truths (0 in some tools), and 0 with ground
    truths and without detections.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, and pycocotools; Everingham et al.,
    "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010; WongKinYiu/ScaledYOLOv4, `utils/general.py`;
    ultralytics/yolov5, `utils/metrics.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        curves: curves of any shape.
        rule: one of `AP_RULES`, or another rule.
        recalls: other recalls to read the envelope at, ascending; "voc" reads the whole curve and needs none.
    """
    if recalls is None:
        recalls = evenly_spaced(rule.num_recalls, curves.counts.device)
    envelope = best_from_here_on(curves, precision_at_points(curves, epsilon=rule.epsilon))
    areas = rule.area(curves, envelope, recalls).view(curves.num_positives.shape)
    return areas.masked_fill(curves.num_positives == 0, torch.nan)


def mean_at_recalls(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Return the mean of the envelope at the first detections that reach each recall; 0 without a true positive."""
    num_true_positives = curves.num_true_positives.flatten()
    rows = num_true_positives.nonzero()[:, 0]  # most classes have no true positive in a small area range
    # A table of the true positives that each recall needs, by number of ground truths, and the row of each curve.
    needed_row = curves.num_positives.reshape(-1).index_select(0, rows)
    if len(rows) and int(needed_row.max()) >= _FEW_POSITIVES:
        numbers, needed_row = needed_row.unique(return_inverse=True)
        needed = first_reaching(numbers, recalls)
    else:
        needed = _needed_below(_FEW_POSITIVES, recalls)
    # A 0 after the envelope of each curve, for recalls that are not reached.
    padded = envelope.new_zeros(len(envelope) + len(num_true_positives))
    padded.index_copy_(0, torch.arange(len(envelope), device=envelope.device).add_(curves.curve), envelope)
    # The m-th true positive of a curve is at `offset` + m in `padded`, and the 0 is the one after the last.
    offset = curves.starts.flatten().index_select(0, rows) + rows - 1
    number_of_zero = num_true_positives.index_select(0, rows) + 1

    def mean(some: slice) -> Tensor:
        number = needed.index_select(0, needed_row[some]).minimum(number_of_zero[some, None])
        places = number.add_(offset[some, None])
        return padded.index_select(0, places.view(-1)).view(places.shape).mean(1)

    blocks = segments.ranges(len(rows), max(1, _MAX_VALUES // len(recalls)))
    means = torch.cat([envelope[:0], *map(mean, blocks)])
    return envelope.new_zeros(len(num_true_positives)).index_copy_(0, rows, means)


@lru_cache(maxsize=8)
def _needed_below(bound: int, recalls: Tensor) -> Tensor:
    """Return `first_reaching` for all numbers of ground truths below a bound; cached, as a training step needs it.

    The cache is by identity of the tensor: `recalls_on` returns the same one for the same recalls.
    """
    return first_reaching(torch.arange(bound, device=recalls.device), recalls)


@lru_cache(maxsize=8)
def recalls_on(device: torch.device, recalls: tuple[float, ...]) -> Float[Tensor, " recalls"]:
    """Return recalls as a tensor; equal recalls share it, so it must not be written to."""
    return torch.tensor(recalls, dtype=torch.float64, device=device)


def evenly_spaced(num_recalls: int, device: torch.device) -> Float[Tensor, " recalls"]:
    """Return the recalls i / (`num_recalls` - 1) as a tensor that must not be written to."""
    return recalls_on(device, tuple(np.linspace(0, 1, num_recalls).tolist()))


AP_RULES = Registry("AP_RULES", {"coco": Rule(mean_at_recalls, num_recalls=101, epsilon=COCO_EPSILON, title="COCO")})
"""rules for the area under the curve, see `compute_ap`"""
